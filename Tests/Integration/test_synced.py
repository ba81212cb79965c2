"""With `power`, replies and events wait until changes, and the names of files, are on the disk."""

import itertools
import os
import pathlib
import tempfile
import time

import pytest

from countdownd import FIRST_STATE, eventually, view
from fault_injection import Faults
from preloaded import compiled
from test_metrics import metrics

POWER = ["--durability", "power"]


class Gate:
    """Blocks the syncs of the log while it is closed."""

    def __init__(self, directory):
        self.closed, self.waiting = directory / "gate.closed", directory / "gate.waiting"

    def environment(self, sync_microseconds=0):
        return os.environ | {
            "LD_PRELOAD": str(compiled("gate")), "GATE_FILE": ".log", "GATE_CLOSED": str(self.closed),
            "GATE_WAITING": str(self.waiting), "GATE_SYNC": str(sync_microseconds),
        }  # fmt: skip

    def close(self):
        """Closes the gate; returns once a sync waits at it."""
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


def fired(listener):
    """Returns the next event of a timer that fires."""
    while True:
        _, event = listener.event()
        if event["event"] == "fired":
            return event


def test_events_caused_by_time_are_sent_once_they_are_on_the_disk(start_daemon, gate):
    daemon = start_daemon(arguments=POWER, environment=gate.environment())
    client, listener = daemon.connect(), daemon.connect(protocol=3)
    listener.send("SUBSCRIBE", "timer:t")
    listener.push()
    client("TIMER", "SET", "t", "50ms", "EVERY", "50ms")
    fired(listener)

    def waited():
        """Closes the gate for some periods of the timer; returns whether an event waited at it."""
        gate.close()
        closed = time.time() * 1000
        time.sleep(0.2)
        before = []
        while listener.has_more():
            before.append(fired(listener))
            assert before[-1]["due_unix_ms"] <= closed, "it is not on the disk"
        opened = time.time() * 1000
        gate.open()
        told = [fired(listener) for _ in range(3)]
        numbers = [event["fired"] for event in before[-1:] + told]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        return told[0]["due_unix_ms"] + told[0]["late_us"] / 1000 < opened

    eventually(waited, "the timer fires while the gate is closed")


@pytest.fixture
def state_in_memory():
    """A state directory that waits for no disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield pathlib.Path(directory)


@pytest.mark.alone
def test_clients_that_send_at_about_the_same_time_share_a_sync(state_in_memory, start_daemon, gate):
    """The first change waits for others, for as long as a sync takes."""
    daemon = start_daemon(
        state=state_in_memory, arguments=POWER, environment=gate.environment(sync_microseconds=500)
    )
    clients = [daemon.connect() for _ in range(10)]
    fresh = itertools.count()

    def play(rounds):
        for _ in range(rounds):
            for client in clients:
                client.send("COUNTDOWN", "START", str(next(fresh)))
            for client in clients:
                client.reply()

    def syncs():
        return metrics(clients[0])["countdownd_batch_commit_seconds_count"]

    play(50)

    def are_shared():
        before = syncs()
        play(100)
        # Without waiting, each round needs two: one for the first client, one for the others.
        return syncs() - before < 150

    eventually(are_shared, "each sync is for many")


def test_files_have_their_names_after_a_power_failure(tmp_path, state, start_daemon):
    faults = Faults(tmp_path, state)
    daemon = start_daemon(state=state, arguments=POWER, environment=faults.environment(shadow=True))
    started = view(daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h"))
    daemon.kill()
    faults.lose_power()
    names = {file.name for file in state.iterdir()}
    assert {FIRST_STATE, "state-1-changes-0000000001.log", "numbers"} <= names
    daemon.environment = None
    daemon.start_again()
    assert view(daemon.connect()("COUNTDOWN", "GET", "k"))["generation"] == started["generation"]
    # The `numbers` file alone is enough to keep numbers rising.
    daemon.stop("kill")
    for file in state.glob("state-*"):
        file.unlink()
    daemon.start_again()
    assert view(daemon.connect()("COUNTDOWN", "START", "k"))["generation"] > started["generation"]


def test_a_directory_that_cannot_be_synced_is_not_relied_on(tmp_path, start_daemon):
    """Each sync of the state directory, and of its parent, fails once at the start."""
    above = tmp_path / "above"
    above.mkdir()
    state = above / "state"
    faults = Faults(tmp_path, above)
    daemon = start_daemon(state=state, environment=faults.environment())
    calls = faults.calls()
    daemon.kill()
    syncs = [at for at, call in enumerate(calls, 1) if call in {("fsync", "above"), ("fsync", "state")}]
    # They store the names of the state directory, the database and the `numbers` file.
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


class WorstLuck:
    """All sectors that were written are on the disk, but no new length of a file."""

    def choice(self, shares):
        self.is_first = True
        return 1

    def random(self):
        self.is_first, was_first = False, self.is_first
        return 1 if was_first else 0


def test_a_power_failure_while_a_segment_grows_loses_nothing(tmp_path, start_daemon):
    """The next segment grows for a batch that is longer than segments are."""

    def begin(place, **fault):
        (place / "state").mkdir(parents=True, mode=0o700)
        faults = Faults(place, place / "state")
        daemon = start_daemon(
            state=place / "state", arguments=POWER, segment_size="64KiB",
            config="limits: {max-payload-length: 100KiB}", environment=faults.environment(shadow=True, **fault))
        client = daemon.connect()
        started = view(client("COUNTDOWN", "START", "k", "EVERY", "1h"))
        client.send("DEBOUNCE", "CALL", "d", "1h", "PAYLOAD", "x" * 90_000)
        return daemon, faults, client, started

    daemon, faults, client, _ = begin(tmp_path / "counted")
    client.reply()
    calls = faults.calls()
    daemon.kill()
    grown = next(at for at, (call, file) in enumerate(calls, 1) if call == "fallocate" and file.endswith(".log"))
    for at in range(grown, grown + 5):
        daemon, faults, _, started = begin(tmp_path / f"at-{at}", at=at, action="kill-after")
        daemon.process.wait(30)
        faults.lose_power(WorstLuck())
        daemon.environment = None
        daemon.start_again()
        assert "corrupt" not in daemon.log
        assert view(daemon.connect()("COUNTDOWN", "GET", "k"))["generation"] == started["generation"]
