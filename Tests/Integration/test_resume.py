"""countdownctl watch goes on over the end of the daemon: no event lost, none twice."""

import pytest

from countdownd import eventually
from watching import watchers


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_over_restarts(start_daemon, watch, how):
    daemon = start_daemon()
    client = daemon.connect()
    watcher = watch(daemon.path, "*", "timer:*")
    eventually(lambda: watchers(daemon.path) == 2, "it watches")
    expected = []
    for turn in range(5):
        for number in range(20):
            key = f"k{turn}-{number}"
            client("COUNTDOWN", "START", key, "EVERY", "1h")
            expected.append(key)
        client("COUNTDOWN", "START", f"short{turn}", "COUNT", "1", "EVERY", "50ms")
        # Some of it was seen, some was not; nobody waits for that.
        getattr(daemon, how)()
        daemon.start()
        # While it is away, and comes back when it likes, things happen.
        client = daemon.connect()
        client("COUNTDOWN", "START", f"away{turn}", "EVERY", "1h")
        client("COUNTDOWN", "CANCEL", f"away{turn}")
        watcher.wait("resubscribed", count=turn + 1)
        client("TIMER", "SET", f"t{turn}", "1h")
        watcher.wait("set", f"t{turn}")
        watcher.wait("ready", f"short{turn}")
    daemon.is_expected_to_run = True
    assert [event["key"] for event in watcher.seen("started") if event["key"] in expected] == expected
    for turn in range(5):
        for name, key in (("started", f"away{turn}"), ("cancelled", f"away{turn}"),
                          ("ready", f"short{turn}"), ("set", f"t{turn}")):  # fmt: skip
            assert len(watcher.seen(name, key)) == 1, (name, key)
    assert not watcher.seen("gap")
    numbers = [e["seq"] for e in watcher.events if e["event"] not in ("snapshot", "tick") and "seq" in e]
    assert numbers == sorted(set(numbers))


def test_a_watcher_that_had_heard_nothing(start_daemon, watch):
    daemon = start_daemon()
    watcher = watch(daemon.path)
    eventually(lambda: watchers(daemon.path) == 1, "it watches")
    daemon.kill()
    daemon.start()
    daemon.is_expected_to_run = True
    client = daemon.connect()
    client("COUNTDOWN", "START", "k")
    client("COUNTDOWN", "CANCEL", "k")
    watcher.wait("cancelled", "k")
    assert [e["event"] for e in watcher.events if e["event"] not in ("snapshot", "tick")] == [
        "disconnected", "resubscribed", "started", "cancelled",
    ]  # fmt: skip


def test_a_gap_is_said(start_daemon, watch):
    daemon = start_daemon(arguments=["--durability", "none"])
    watcher = watch(daemon.path)
    eventually(lambda: watchers(daemon.path) == 1, "it watches")
    daemon.connect()("COUNTDOWN", "START", "k")
    watcher.wait("started", "k")
    daemon.kill()
    daemon.start()
    daemon.is_expected_to_run = True
    watcher.wait("gap")
    names = [e["event"] for e in watcher.events if e["event"] not in ("snapshot", "tick")]
    assert names == ["started", "disconnected", "resubscribed", "gap"]
