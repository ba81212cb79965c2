"""countdownctl watch goes on over the end of the daemon: no event lost, none twice."""

import json
import subprocess
import threading

import pytest

from countdownd import PATIENCE, binary, eventually

CTL = binary().parent / "countdownctl"


class Watch:
    """What `watch --json` prints, line by line."""

    def __init__(self, daemon, *names):
        self.process = subprocess.Popen(
            [CTL, "watch", "--json", "--socket", str(daemon.path), *names],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.events = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def seen(self, name, key=None):
        return [e for e in list(self.events) if e["event"] == name and key in (None, e.get("key"))]

    def wait(self, name, key=None, count=1):
        eventually(lambda: len(self.seen(name, key)) >= count, f"{count} × {name} {key}")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


@pytest.fixture
def watch(request):
    watches = []

    def start(*arguments):
        watches.append(Watch(*arguments))
        return watches[-1]

    yield start
    for one in watches:
        one.close()


def watches(daemon):
    """Connections that listen to something."""
    return int(daemon.connect()("PUBSUB", "NUMPAT"))


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_over_restarts(start_daemon, watch, how):
    daemon = start_daemon()
    client = daemon.connect()
    watcher = watch(daemon, "*", "timer:*")
    eventually(lambda: watches(daemon) == 2, "it watches")
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
    watcher = watch(daemon)
    eventually(lambda: watches(daemon) == 1, "it watches")
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
    watcher = watch(daemon)
    eventually(lambda: watches(daemon) == 1, "it watches")
    daemon.connect()("COUNTDOWN", "START", "k")
    watcher.wait("started", "k")
    daemon.kill()
    daemon.start()
    daemon.is_expected_to_run = True
    watcher.wait("gap")
    names = [e["event"] for e in watcher.events if e["event"] not in ("snapshot", "tick")]
    assert names == ["started", "disconnected", "resubscribed", "gap"]
