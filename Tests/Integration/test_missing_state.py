"""The newest state is missing, and an older one is there: the daemon goes on with it only once an
administrator accepts that. A restore, a replacement or a start that is interrupted is no such loss."""

import shutil
import subprocess

import pytest

import stored
from countdownd import FIRST_STATE, PATIENCE, SECOND_STATE, Error
from countdownd import check, ctl_binary, eventually, segments_of, state_file, states, view
from fault_injection import Faults
from test_ctl import ctl
from test_damage import run
from test_health import FEW_CONNECTIONS
from test_replacing import next_boot, started

LATER = 10


def offline(*words, environment=None):
    """Runs countdownctl without a daemon."""
    return subprocess.run(
        [ctl_binary(), *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, env=environment)


def restore(file, state, environment=None):
    return offline("restore", file, "--state-directory", state, environment=environment)


class Restored:
    """A stopped daemon whose second state, a restored backup, has countdowns of its own."""

    def __init__(self, daemon):
        self.daemon, self.state = daemon, daemon.state
        self.copy = daemon.directory / "copy.db"
        daemon.connect()("COUNTDOWN", "START", "before", "EVERY", "1h")
        daemon.back_up(self.copy)
        daemon.terminate()

    def go_on(self):
        assert restore(self.copy, self.state).returncode == 0
        self.daemon.start_again()
        client = self.daemon.connect()
        for n in range(LATER):
            client("COUNTDOWN", "START", f"later{n}", "EVERY", "1h")
        self.daemon.terminate()
        self.newest = state_file(self.state)
        assert self.newest.name == SECOND_STATE


@pytest.fixture
def stopped(daemon):
    return Restored(daemon)


@pytest.fixture
def restored(stopped):
    stopped.go_on()
    return stopped


@pytest.mark.daemon(config=FEW_CONNECTIONS)
@pytest.mark.parametrize("log", ["with its log", "without its log"])
def test_a_missing_newest_state_is_not_replaced_by_the_one_before(restored, log):
    daemon, state = restored.daemon, restored.state
    aside = state.parent / "aside"
    restored.newest.rename(aside)
    if log == "without its log":
        for path in segments_of(restored.newest):
            path.unlink()
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    code, error = run(*daemon.arguments)
    assert code == 73 and f"{restored.newest} is missing" in error, error
    assert f"`countdownctl state accept-loss {state}`" in error
    looked = check(state)
    assert looked.returncode == 65 and f"{restored.newest} is missing" in looked.stdout, looked
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before
    if log == "with its log":
        # It is no loss once it is back.
        aside.rename(restored.newest)
        daemon.start_again()
        assert daemon.connect()("DBSIZE") == LATER + 1
        in_use = offline("state", "accept-loss", state)
        assert in_use.returncode == 1 and str(daemon.pid) in in_use.stderr
        daemon.terminate()
        assert "no state is missing" in offline("state", "accept-loss", state).stderr
        restored.newest.unlink()
    accepted = offline("state", "accept-loss", state)
    assert accepted.returncode == 0, accepted
    assert str(restored.newest) in accepted.stdout and f"state: {state / FIRST_STATE}\n" in accepted.stdout
    for _ in range(2):
        daemon.start_again()
        client = daemon.connect()
        assert client("DBSIZE") == 1
        assert f"{restored.newest} was missing" in daemon.info("persistence")["damage"]
        assert "was missing" in ctl("health", "--socket", daemon.path).stdout
        daemon.stop("kill")
    daemon.start_again()
    client = daemon.connect()
    assert client("STATE", "ACKNOWLEDGE") == 1
    assert ctl("health", "--socket", daemon.path).stdout == "all is well\n"


def test_a_backup_can_be_restored_instead(restored):
    restored.newest.unlink()
    assert restore(restored.copy, restored.state).returncode == 0
    restored.daemon.start_again()
    assert restored.daemon.connect()("DBSIZE") == 1
    assert state_file(restored.state).name == "state-3.db"


def calls_of(stopped, tmp_path, *words):
    """Returns the faults, and the changes to files that a command of countdownctl makes."""
    faults = Faults(tmp_path, stopped.state)
    done = offline(*words, environment=faults.environment())
    assert done.returncode == 0, done
    return faults, faults.calls()


ENDS = ["kill", "power failure", "error"]


def interrupted(ends_by, faults, at):
    """Returns the environment of a process that ends at a call, or whose call fails."""
    shutil.rmtree(faults.shadow, ignore_errors=True)
    return faults.environment(
        at=at, action="EIO" if ends_by == "error" else "tear", shadow=ends_by == "power failure")


class Place:
    """The files of a stopped daemon, which are laid out again for each attempt."""

    def __init__(self, stopped, tmp_path):
        self.state, self.kept = stopped.state, tmp_path / "kept"
        shutil.copytree(self.state, self.kept)

    def lay_out(self):
        shutil.rmtree(self.state)
        shutil.copytree(self.kept, self.state)


@pytest.mark.parametrize("ends_by", ENDS)
def test_a_restore_that_is_interrupted_at_any_call_is_no_loss(stopped, tmp_path, ends_by):
    daemon, place = stopped.daemon, Place(stopped, tmp_path)
    faults, calls = calls_of(stopped, tmp_path, "restore", stopped.copy, "--state-directory", stopped.state)
    assert ("rename", SECOND_STATE) in calls
    for at in range(1, len(calls) + 1):
        place.lay_out()
        restore(stopped.copy, stopped.state, interrupted(ends_by, faults, at))
        if ends_by == "power failure":
            faults.lose_power()
        daemon.start_again()
        assert daemon.connect()("DBSIZE") == 1, (at, calls[at - 1], daemon.log)
        assert daemon.info("persistence")["damage"] == ""
        daemon.stop("kill")


@pytest.mark.parametrize("ends_by", ENDS)
def test_a_first_start_that_is_interrupted_at_any_call_is_no_loss(stopped, tmp_path, ends_by):
    daemon = stopped.daemon
    assert restore(stopped.copy, stopped.state).returncode == 0
    place, faults = Place(stopped, tmp_path), Faults(tmp_path, stopped.state)
    daemon.environment = faults.environment()
    daemon.start_again()
    daemon.kill()
    calls = faults.calls()
    for at in range(1, len(calls) + 1, 1 if ends_by == "kill" else 3):
        place.lay_out()
        started(daemon.directory, interrupted(ends_by, faults, at)).kill()
        if ends_by == "power failure":
            faults.lose_power()
        daemon.environment = next_boot() if ends_by == "power failure" else None
        daemon.start_again()
        assert daemon.connect()("DBSIZE") == 1, (at, calls[at - 1], daemon.log)
        assert state_file(stopped.state).name == SECOND_STATE
        # A power failure may lose the end of the log.
        damage = daemon.info("persistence")["damage"]
        assert damage == "" or ends_by == "power failure" and "newest changes are lost" in damage
        daemon.stop("kill")


@pytest.mark.parametrize("ends_by", ENDS)
def test_an_acceptance_that_is_interrupted_at_any_call_can_be_repeated(restored, tmp_path, ends_by):
    daemon = restored.daemon
    restored.newest.unlink()
    place = Place(restored, tmp_path)
    faults, calls = calls_of(restored, tmp_path, "state", "accept-loss", restored.state)
    assert calls
    for at in range(1, len(calls) + 1):
        place.lay_out()
        offline("state", "accept-loss", restored.state, environment=interrupted(ends_by, faults, at))
        if ends_by == "power failure":
            faults.lose_power()
        offline("state", "accept-loss", restored.state)
        daemon.start_again()
        assert daemon.connect()("DBSIZE") == 1, (at, calls[at - 1], daemon.log)
        assert f"{restored.newest} was missing" in daemon.info("persistence")["damage"]
        daemon.stop("kill")


def test_a_state_that_is_removed_while_the_daemon_runs_is_missing(daemon, tmp_path):
    client = daemon.connect()
    client("COUNTDOWN", "START", "before", "EVERY", "1h")
    path = state_file(daemon.state)
    path.unlink()
    # All is still there, in the open files.
    copy = tmp_path / "copy.db"
    assert ctl("backup", copy, "--socket", daemon.path).returncode == 0
    assert "countdowns: 1\n" in check(copy).stdout

    def refused():
        reply = client.either("READONLY", "COUNTDOWN", "START", "refused", "EVERY", "1h")
        return isinstance(reply, Error)

    eventually(refused, "it has noticed")
    assert f"{path} is missing" in daemon.info("persistence")["last_error"]
    assert "read-only" not in daemon.log
    daemon.stop("kill")
    looked = check(daemon.state)
    assert looked.returncode == 1 and f"{path} is missing" in looked.stderr, looked
    daemon.start_again()
    assert f"there was a state, and {path} is missing" in daemon.info("persistence")["damage"]
    assert "and now it is missing" in daemon.log and "is empty" not in daemon.log


# A row that the daemon cannot read, and one that is not what was written.
@pytest.mark.parametrize("change", ["bytes = x'01ffffffff00'", "sum = sum + 1"])
def test_a_backup_with_a_bad_row_of_events_is_restored_without_it(daemon, change):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    copy = daemon.directory / "copy.db"
    for n in range(10):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
        daemon.back_up(copy)
    daemon.terminate()
    row = "(SELECT last_seq FROM events ORDER BY last_seq DESC LIMIT 1 OFFSET 1)"
    stored.run(copy, f"UPDATE events SET {change} WHERE last_seq = {row}", keeps_sums="sum" in change)
    assert check(copy).returncode == 65
    done = restore(copy, daemon.state)
    assert done.returncode == 0 and "make" in done.stderr and "without them" in done.stderr, done
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == 10
    assert not view(client("EVENTS", "SINCE", begin))["complete"]
    assert daemon.info("persistence")["damage"] != ""
    # Damage to anything else is refused.
    daemon.terminate()
    stored.run(copy, "UPDATE entities SET sum = sum + 1 WHERE place = 3", keeps_sums=True)
    before = states(daemon.state)
    assert restore(copy, daemon.state).returncode == 65
    assert states(daemon.state) == before
