"""countdownctl watch survives restarts of the daemon: no event is lost or repeated."""

import signal
import subprocess

import pytest

from clocks import Clocks
from countdownd import PATIENCE, Client, Closed, Error, eventually
from watching import CTL, watchers


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
        # The watcher may have received only some of these events.
        getattr(daemon, how)()
        daemon.start()
        # More events happen before the watcher reconnects.
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


def test_a_watcher_without_events_resumes(start_daemon, watch):
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


def test_a_gap_is_reported(start_daemon, watch):
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


def test_numbers_that_begin_anew_lower(start_daemon, watch, tmp_path):
    """One gap is reported; after it no event is lost, although the numbers are lower."""
    clocks = Clocks(tmp_path)
    daemon = start_daemon(arguments=["--durability", "none"], environment=clocks.environment())
    watcher = watch(daemon.path)
    eventually(lambda: watchers(daemon.path) == 1, "it watches")
    daemon.connect()("COUNTDOWN", "START", "before")
    watcher.wait("started", "before")
    daemon.kill()
    clocks.set_wall(-3_600)
    daemon.start()
    daemon.is_expected_to_run = True
    watcher.wait("resubscribed")
    for turn in range(2):
        client = daemon.connect()
        watcher.process.send_signal(signal.SIGSTOP)
        client("CLIENT", "KILL", "SKIPME", "yes")
        client("COUNTDOWN", "START", f"away{turn}")
        client("COUNTDOWN", "CANCEL", f"away{turn}")
        watcher.process.send_signal(signal.SIGCONT)
        watcher.wait("cancelled", f"away{turn}")
    names = [(e["event"], e.get("key")) for e in watcher.events if e["event"] not in ("snapshot", "tick")]
    told = [("started", "before"), ("disconnected", None), ("resubscribed", None), ("gap", None)]
    for turn in range(2):
        told += [("disconnected", None), ("resubscribed", None)]
        told += [("started", f"away{turn}"), ("cancelled", f"away{turn}")]
    assert names == told


def fill(daemon, count):
    """Returns `count` connections, even while others try to connect."""
    taken = []
    while len(taken) < count:
        client = daemon.connect()
        try:
            if isinstance(client.either("LIMIT", "ECHO", "here"), Error):
                raise Closed
            taken.append(client)
        except (Closed, BrokenPipeError):
            client.close()
    return taken


def test_a_reconnection_waits_for_room(start_daemon, watch):
    daemon = start_daemon(config="limits: {max-connections: 4, reserved-connections: 0}\n")
    watcher = watch(daemon.path)
    eventually(lambda: watchers(daemon.path) == 1, "it watches")
    watcher.process.send_signal(signal.SIGSTOP)
    daemon.restart()
    taken = fill(daemon, 4)
    # A new client receives the reason, and does not wait.
    for words in (["ping"], ["watch"]):
        refused = subprocess.run(
            [CTL, *words, "--socket", str(daemon.path)], capture_output=True, text=True, timeout=PATIENCE)
        assert refused.returncode == 4 and "LIMIT max-connections is 4" in refused.stderr, refused

    def rejected():
        lines = taken[0]("INFO", "clients").decode().split("\r\n")
        return int(dict(line.split(":") for line in lines if ":" in line)["rejected_connections"])

    before = rejected()
    watcher.process.send_signal(signal.SIGCONT)
    watcher.wait("disconnected")
    eventually(lambda: rejected() >= before + 3, "it has tried several times")
    assert watcher.process.poll() is None
    for client in taken[1:]:
        client.close()
    watcher.wait("resubscribed")
    taken[0]("COUNTDOWN", "START", "k")
    watcher.wait("started", "k")
    assert len(watcher.seen("disconnected")) == 1


def test_more_channels_than_one_command_may_have_are_resubscribed(start_daemon, watch):
    daemon = start_daemon(config="limits: {max-arguments: 8, max-request-length: 1KiB}\n")
    names = [f"{number:03}" + "x" * 200 for number in range(100)]
    watcher = watch(daemon.path, *names)
    watcher.wait("snapshot", names[-1])
    for turn in range(2):
        client = daemon.connect()
        client("COUNTDOWN", "START", names[turn])
        watcher.wait("started", names[turn])
        client("CLIENT", "KILL", "SKIPME", "yes")
        watcher.wait("resubscribed", count=turn + 1)
        watcher.wait("snapshot", names[-1], count=turn + 2)
    assert not watcher.seen("gap")
    with Client(daemon.path) as client:
        client("COUNTDOWN", "START", names[-1])
    watcher.wait("started", names[-1])
