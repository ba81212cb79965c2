"""A corrupt state stays, and one with all readable records continues it, even if that is
interrupted."""

import contextlib
import os
import re
import shutil

import pytest

import stored
from countdownd import FIRST_STATE, KEPT, PATIENCE, SECOND_STATE, SEGMENT_NAME, Closed, Daemon
from countdownd import check, eventually, files_of, request, state_file, states, view
from fault_injection import Faults
from preloaded import compiled
from test_damage import PAGE

COUNT = 30


def fill(daemon):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for n in range(COUNT):
        client("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 300)
    client("TIMER", "SET", "t", "1h")
    client("HUD", "SHOW", "screen", "DURABLE")
    client("THROTTLE", "TAKE", "throttle", "BURST", 5, "RATE", "5/1h")
    daemon.everything = client("DBSIZE")
    return begin


class Corrupt:
    """A state with one invalid record, which `lay_out` restores for each attempt."""

    def __init__(self, tmp_path):
        self.kept = tmp_path / "kept"
        self.directory = tmp_path / "daemon"
        self.directory.mkdir()
        self.state = self.directory / "state"
        daemon = Daemon(directory=self.directory)
        self.begin = fill(daemon)
        self.expected = daemon.everything
        # The log also has a change that is not folded yet.
        daemon.change_stored()
        daemon.start_again()
        daemon.connect()("TIMER", "SET", "newest", "1h")
        daemon.kill()
        daemon.close()
        stored.run(
            self.state / FIRST_STATE,
            stored.changed("countdown", lambda record: record["key"] == b"k3", every=-5))
        shutil.copytree(self.state, self.kept)
        self.before = files_of(self.state / FIRST_STATE)
        assert len(self.before) > 1, "there is a log"
        self.faults = Faults(tmp_path, self.state)

    def lay_out(self):
        shutil.rmtree(self.state)
        shutil.copytree(self.kept, self.state)
        (self.directory / "log").unlink(missing_ok=True)

    def check_files(self, has_power=True):
        """Checks, while no daemon runs, that the corrupt state is as it was, and that it is either
        the newest one or replaced by a complete one. Returns whether it is replaced."""
        assert files_of(self.state / FIRST_STATE) == self.before
        names = [path.name for path in states(self.state)]
        if names == [FIRST_STATE]:
            return False
        assert names == [FIRST_STATE, SECOND_STATE]
        # A power failure may also lose what was not yet promised of the new log: then the next start
        # shows what is there.
        if not has_power:
            return True
        copy = self.directory / "copy"
        shutil.copytree(self.state, copy)
        looked = check(copy)
        assert looked.returncode == 0 and f"countdowns: {COUNT - 1}\n" in looked.stdout, looked
        shutil.rmtree(copy)
        return True

    def check(self, daemon):
        """Checks that all readable records are kept, and that the damage is reported."""
        client = daemon.connect()
        assert client("DBSIZE") == self.expected
        # At least one event for each countdown.
        reply = view(client("EVENTS", "SINCE", self.begin))
        # Not complete: a record was lost without an event.
        assert not reply["complete"]
        assert len(reply["events"]) >= COUNT
        client.close()
        assert KEPT in daemon.log
        assert files_of(self.state / FIRST_STATE) == self.before
        names = {name for name in os.listdir(self.state) if not SEGMENT_NAME.fullmatch(name)}
        both = {FIRST_STATE, SECOND_STATE}
        assert both <= names <= both | {f"{name}-journal" for name in both} | {"lock", "numbers", "damage", "history"}, names


@pytest.fixture
def corrupt(tmp_path):
    return Corrupt(tmp_path)


def start(corrupt, environment=None):
    """Starts a daemon, and returns it once it has loaded or ended."""
    return started(corrupt.directory, environment)


def next_boot():
    """Returns the environment of a daemon after a power failure: the log may have lost its end."""
    return dict(os.environ, COUNTDOWND_BOOT_ID="0" * 31 + "1")


# The daemons of the running test.
daemons = []


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    yield
    while daemons:
        daemon = daemons.pop()
        if daemon.process.poll() is None:
            daemon.kill()


def started(directory, environment=None):
    daemon = Daemon(directory=directory, environment=environment, is_waited_for=False)
    daemons.append(daemon)

    def is_settled():
        if daemon.process.poll() is not None:
            return True
        with contextlib.suppress(OSError, AssertionError, Closed):
            return daemon.listens() and daemon.info("persistence")["loading"] == "0"
        return False

    eventually(is_settled, "it has loaded, or ended")
    return daemon


def calls_of_a_start(corrupt):
    daemon = start(corrupt, corrupt.faults.environment())
    calls = corrupt.faults.calls()
    corrupt.check(daemon)
    daemon.close()
    return calls


def test_readable_records_are_kept(corrupt):
    calls = calls_of_a_start(corrupt)
    assert ("rename", SECOND_STATE) in calls
    assert not [call for call in calls if call[1] in corrupt.before], "it was touched"
    for _ in range(2):
        daemon = start(corrupt)
        corrupt.check(daemon)
        daemon.stop("kill")


PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("ends_by", ["kill", "power failure", "error"])
def test_ended_at_each_call_nothing_is_lost(corrupt, ends_by, part):
    has_power, action = ends_by != "power failure", "EIO" if ends_by == "error" else "tear"
    calls = calls_of_a_start(corrupt)
    # The replacement has its name once renamed; after a power failure, once that is synced, too.
    renamed = calls.index(("rename", SECOND_STATE)) + 1
    assert calls[renamed] == ("fsync", "state")
    named = renamed if has_power else renamed + 1
    for at in range(1, len(calls) + 1, 1 if ends_by == "kill" else 3)[part::PARTS]:
        corrupt.lay_out()
        shutil.rmtree(corrupt.faults.shadow, ignore_errors=True)
        daemon = start(corrupt, corrupt.faults.environment(at=at, action=action, shadow=not has_power))
        # A few calls may fail without consequences.
        is_replaced = at > named or daemon.process.poll() is None
        daemon.kill()
        if not has_power:
            corrupt.faults.lose_power()
        assert corrupt.check_files(has_power) == is_replaced, (at, calls[at - 1])
        daemon = start(corrupt, None if has_power else next_boot())
        assert daemon.process.poll() is None, (at, calls[at - 1], daemon.log)
        corrupt.check(daemon)
        daemon.stop("terminate")


def test_a_full_disk_leaves_the_corrupt_state_in_place(corrupt):
    calls = calls_of_a_start(corrupt)
    made = [n for n, (_, name) in enumerate(calls, 1) if name.startswith(".state.new")]
    for at in {made[0], made[len(made) // 2]}:
        corrupt.lay_out()
        corrupt.faults.damage()
        daemon = start(corrupt, corrupt.faults.environment(at=at, action="ENOSPC", lasting=True))
        assert daemon.process.wait() == 73 and "no space left" in daemon.log, daemon.log
        assert not corrupt.check_files()
        corrupt.faults.mend()
        daemon = start(corrupt)
        corrupt.check(daemon)
        daemon.stop("terminate")


def test_a_read_that_fails_once_is_no_damage(tmp_path):
    directory = tmp_path / "daemon"
    directory.mkdir()
    daemon = Daemon(directory=directory)
    fill(daemon)
    expected = daemon.everything
    daemon.close()
    failed = tmp_path / "failed"
    environment = {
        "LD_PRELOAD": str(compiled("reads")), "READS_DIRECTORY": str(daemon.state), "READS_FAILED": str(failed)}
    refused = 0
    calls = set()
    for number in range(1, 400):
        failed.unlink(missing_ok=True)
        daemon = started(directory, os.environ | environment | {"READS_FAIL": str(number)})
        if daemon.process.poll() is None:
            assert daemon.connect()("DBSIZE") == expected
            daemon.stop("terminate")
        else:
            refused += 1
            assert daemon.process.returncode == 73 and "nput/output error" in daemon.log, daemon.log
        where = number, failed.read_text() if failed.exists() else None, daemon.log
        assert len(states(daemon.state)) == 1, where
        assert not re.search(f"{KEPT}|set aside|are lost|nothing in it", daemon.log), where
        if not failed.exists():
            break
        calls.add(failed.read_text().split()[0])
    assert refused > 3 and not failed.exists()
    assert calls == {"open", "opendir", "readdir", "stat", "fstat", "read", "pread"}
    daemon = Daemon(directory=directory)
    assert daemon.connect()("DBSIZE") == expected
    daemon.close()


def test_tables_that_become_corrupt_are_replaced_at_the_next_start(start_daemon):
    daemon = start_daemon(segment_size="1MiB")
    client = daemon.connect()
    # More than SQLite keeps in memory.
    count = 12_000
    for first in range(0, count, 1_000):
        client.send_bytes(b"".join(
            request("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 900)
            for n in range(first, first + 1_000)))  # fmt: skip
        for _ in range(1_000):
            client.reply()
    daemon.back_up(daemon.directory / "copy.db")
    daemon.restart()
    client = daemon.connect()
    with open(state_file(daemon.state), "r+b") as file:
        content = file.read()
        for page in range(PAGE, len(content), PAGE):
            # Sets the first free block of each leaf page to an impossible offset.
            if content[page] == 0x0D:
                file.seek(page + 1)
                file.write(b"\0\1")
    done = 0
    with contextlib.suppress(Closed, BrokenPipeError):
        while done < count:
            assert view(client("COUNTDOWN", "RETIME", f"k{done}", "2h"))
            done += 1
    assert daemon.process.wait(PATIENCE) == 74
    assert "critical: ending" in daemon.log and "is corrupt" in daemon.log
    daemon.start_again()
    assert KEPT in daemon.log and len(states(daemon.state)) == 2
    # The log has all changes that were answered since.
    client = daemon.connect()
    assert done > 0
    for n in range(done):
        assert view(client("COUNTDOWN", "GET", f"k{n}"))["remaining_ms"] > 3_600_000
    daemon.restart("kill")
    assert len(states(daemon.state)) == 2
