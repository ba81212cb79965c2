"""With `power`, replies and events are sent once they are on the disk, file names included."""

import math
import os
import threading
import time

import pytest

from countdownd import Error, eventually, request, view
from fault_injection import Faults
from preloaded import compiled

POWER = ["--durability", "power"]


class Gate:
    """Holds up the syncs of the log while it is closed."""

    def __init__(self, directory):
        self.closed, self.waiting = directory / "gate.closed", directory / "gate.waiting"

    def environment(self, other=None):
        """`other` is that of another library: its calls come before."""
        other = dict(other or os.environ)
        libraries = [library for library in [other.get("LD_PRELOAD"), str(compiled("gate"))] if library]
        return other | {
            "LD_PRELOAD": ":".join(libraries), "GATE_FILE": "/state.db-wal", "GATE_CLOSED": str(self.closed),
            "GATE_WAITING": str(self.waiting),
        }  # fmt: skip

    def close(self):
        """Returns once somebody waits."""
        self.waiting.unlink(missing_ok=True)
        self.closed.touch()
        eventually(self.waiting.exists, "something is to be synced")

    def open(self):
        self.closed.unlink()


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path)
    yield gate
    gate.closed.unlink(missing_ok=True)


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory


def fired(listener, before=math.inf):
    """How often the timer has fired, by each event that has come; nobody may hear of what was due after `before`."""
    while listener.has_more():
        channel, event = listener.event()
        if event["event"] == "fired":
            assert event["due_unix_ms"] <= before, event
            yield event["fired"]


def test_events_caused_by_time_are_sent_once_they_are_on_the_disk(start_daemon, gate):
    daemon = start_daemon(arguments=POWER, environment=gate.environment())
    client, listener = daemon.connect(), daemon.connect(protocol=3)
    listener.send("SUBSCRIBE", "timer:t")
    listener.push()
    client("TIMER", "SET", "t", "50ms", "EVERY", "50ms")
    while listener.event()[1]["event"] != "fired":
        pass
    gate.close()
    # Those before are told. It fires again and again, and nobody hears of it.
    before = list(fired(listener, before=time.time() * 1000))
    assert not listener.has_more(0.3)
    gate.open()
    told = [next(fired(listener)) for _ in range(3)]
    assert told == list(range(told[0], told[0] + 3))
    assert not before or told[0] == before[-1] + 1


def test_timers_that_fire_during_write_probes_are_reported_once(tmp_path, state, start_daemon, gate):
    """The disk works again for one commit only, and the next has commands that are refused."""
    faults = Faults(tmp_path, state)
    environment = faults.environment(at=1, action="EIO", lasting=True)
    daemon = start_daemon(state=state, arguments=POWER, environment=gate.environment(environment))
    client, listener = daemon.connect(), daemon.connect(protocol=3)
    listener.send("SUBSCRIBE", "timer:t")
    listener.push()
    client("TIMER", "SET", "t", "5ms", "EVERY", "5ms")
    is_over, refused = threading.Event(), []

    def load():
        with daemon.connect() as other:
            while not is_over.is_set():
                other.send_bytes(request("COUNTDOWN", "START", "k", "EVERY", "1h") * 50)
                refused.extend(isinstance(other.reply(), Error) for _ in range(50))
                other("COUNTDOWN", "CANCEL", "k")

    faults.damage()
    eventually(lambda: daemon.info("persistence")["read_only"] == "1", "nothing can be stored")
    loader = threading.Thread(target=load)
    loader.start()
    try:
        for _ in range(5):
            # Those that try hold no other call up: it is closed before they do.
            gate.closed.touch()
            gate.waiting.unlink(missing_ok=True)
            faults.mend()
            eventually(gate.waiting.exists, "it is tried")
            faults.damage()
            gate.open()
            eventually(lambda: daemon.info("persistence")["read_only"] == "1", "nothing can be stored again")
    finally:
        is_over.set()
        faults.mend()
        gate.closed.unlink(missing_ok=True)
        loader.join()
    eventually(lambda: daemon.info("persistence")["read_only"] == "0", "it can write again")
    assert client("TIMER", "DEL", "t") == 1
    told = list(fired(listener))
    assert told == sorted(set(told))
    assert any(refused)


def test_batches_behind_a_failed_one_are_refused_only_if_they_depend_on_it(
    tmp_path, state, start_daemon, gate
):
    """Names, and places in the file, of what is being deleted are taken meanwhile by what needs no storing."""
    faults = Faults(tmp_path, state)
    environment = faults.environment(at=1, action="EIO", lasting=True)
    daemon = start_daemon(state=state, arguments=POWER, environment=gate.environment(environment))
    deleter, owner, reader, subscriber = (daemon.connect(protocol) for protocol in [2, 2, 2, 3])
    kept = view(deleter("COUNTDOWN", "START", "kept", "EVERY", "1h"))
    deleter("TIMER", "SET", "given", "1h")
    deleter("TIMER", "SET", "kept", "1h")
    deleter("TIMER", "SET", "passed", "1h")
    shown = view(deleter("HUD", "SHOW", "kept", "DURABLE"))
    gate.closed.touch()
    gate.waiting.unlink(missing_ok=True)
    subscriber.send_bytes(
        request("COUNTDOWN", "START", "before") + request("TIMER", "SET", "passed", "1h", "OWNER", "connection"))
    eventually(gate.waiting.exists, "it is to be stored")
    deleter.send_bytes(
        request("COUNTDOWN", "CANCEL", "kept") + request("TIMER", "DEL", "kept") + request("HUD", "DISMISS", "kept")
        + request("TIMER", "SET", "given", "1h", "OWNER", "connection"))
    assert not deleter.has_more(0.3)
    owner.send_bytes(
        request("COUNTDOWN", "START", "mine", "EVERY", "1h", "OWNER", "connection")
        + request("TIMER", "SET", "mine", "1h", "OWNER", "connection") + request("HUD", "SHOW", "mine")
        + request("COUNTDOWN", "RETIME", "mine", "2h") + request("TIMER", "RETIME", "given", "2h")
        + request("HUD", "SHOW", "beside", "OWNER", "connection"))
    subscriber.send_bytes(request("TIMER", "RETIME", "passed", "2h") + request("SUBSCRIBE", "countdown:kept"))
    reader.send_bytes(request("COUNTDOWN", "GET", "kept") + request("ECHO", "x"))
    # Nothing is said before it is known whether the first can be stored, which it can; the next cannot.
    assert not owner.has_more(0.3) and not reader.has_more(0)
    faults.damage()
    gate.open()
    assert [reply.code for reply in (deleter.reply() for _ in range(4))] == ["READONLY"] * 4
    replies = [owner.reply() for _ in range(6)]
    assert [isinstance(reply, Error) and reply.code for reply in replies] == [False] * 4 + ["READONLY", False]
    # What was read of what comes back is not so.
    assert reader.reply().code == "READONLY" and reader.reply() == b"x"
    assert view(subscriber.reply())["accepted"]
    assert view(subscriber.reply())["key"] == b"passed"
    assert view(subscriber.reply())["remaining_ms"] > 3_600_000
    assert subscriber.push()[:2] == [b"subscribe", b"countdown:kept"]
    # What was done is so, and what was refused is not.
    assert view(owner("COUNTDOWN", "GET", "mine"))["generation"] == view(replies[0])["generation"]
    assert view(owner("COUNTDOWN", "GET", "mine"))["remaining_ms"] > 3_600_000
    assert owner("TIMER", "GET", "mine") and owner("HUD", "GET", "mine") and owner("HUD", "GET", "beside")
    assert view(owner("COUNTDOWN", "GET", "kept"))["generation"] == kept["generation"]
    assert view(owner("TIMER", "GET", "given"))["remaining_ms"] <= 3_600_000
    assert owner("TIMER", "GET", "kept") and view(owner("HUD", "GET", "kept"))["generation"] == shown["generation"]
    faults.mend()
    eventually(lambda: daemon.info("persistence")["read_only"] == "0", "it can write again")


def test_files_have_their_names_after_a_power_failure(tmp_path, state, start_daemon):
    faults = Faults(tmp_path, state)
    daemon = start_daemon(state=state, arguments=POWER, environment=faults.environment(shadow=True))
    started = view(daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h"))
    daemon.kill()
    faults.lose_power()
    assert {"state.db", "state.db-wal", "numbers"} <= {file.name for file in state.iterdir()}
    # Numbers go on rising by that file alone.
    for file in state.glob("state.db*"):
        file.unlink()
    daemon.environment = None
    daemon.start_again()
    assert view(daemon.connect()("COUNTDOWN", "START", "k"))["generation"] > started["generation"]


def test_a_directory_that_cannot_be_synced_is_not_relied_on(tmp_path, start_daemon):
    """Each sync of the state directory, and of the one above in which it was made, fails once at the start."""
    above = tmp_path / "above"
    above.mkdir()
    state = above / "state"
    faults = Faults(tmp_path, above)
    daemon = start_daemon(state=state, environment=faults.environment())
    calls = faults.calls()
    daemon.kill()
    syncs = [at for at, call in enumerate(calls, 1) if call in {("fsync", "above"), ("fsync", "state")}]
    # The directory's own name, that of the database, that of the numbers.
    assert [calls[at - 1][1] for at in syncs][:3] == ["above", "state", "state"], calls
    names = [file.name for file in state.iterdir()]
    for at in syncs[:3]:
        for name in names:
            (state / name).unlink(missing_ok=True)
        if state.exists():
            state.rmdir()
        daemon.environment = faults.environment(at=at, action="EIO")
        daemon.start_without_waiting()
        assert daemon.process.wait(30) == 73
        assert "fsync" in daemon.log and "Look into the kernel's log" in daemon.log
    daemon.environment = None
    daemon.start_again()
