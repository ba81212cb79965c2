"""Changes that were answered and are missing at the next start are reported: in the log, by --check and
by `complete` of EVENTS SINCE. What was never answered may be missing, and is no damage."""

import os

import pytest

from clocks import Clocks
from countdownd import eventually, request, view
from test_damage import check

COUNT = 1_000
# Of the file that the newest changes are in.
FRAME = 24 + 1024


class Killed:
    """A state whose countdowns were each answered before the next, as `kill -9` leaves it."""

    def __init__(self, daemon, count=COUNT):
        self.daemon = daemon
        client = daemon.connect()
        self.begin = client("EVENTS", "LAST")
        for n in range(count):
            self.generation = view(client("COUNTDOWN", "START", f"k{n}", "EVERY", "1h"))["generation"]
        self.count = count
        self.last = client("EVENTS", "LAST")
        daemon.stop("kill")
        self.log = daemon.state / "state.db-wal"
        # What an earlier start has logged does not count.
        daemon.log_path.write_text("")

    def is_reported_as_lost(self):
        looked = check(self.daemon.state)
        assert looked.returncode == 65 and "newest changes are lost" in looked.stdout, looked
        self.daemon.start_again()
        client = self.daemon.connect()
        found = client("DBSIZE")
        assert found < self.count
        assert "newest changes are lost" in self.daemon.log
        for sequence in (self.begin, self.last):
            assert not view(client("EVENTS", "SINCE", sequence))["complete"]
        assert view(client("COUNTDOWN", "START", "new", "EVERY", "1h"))["generation"] > self.generation
        # The gap stays, and nothing more is lost.
        self.daemon.restart("kill")
        client = self.daemon.connect()
        assert client("DBSIZE") == found + 1
        assert not view(client("EVENTS", "SINCE", self.last))["complete"]
        self.daemon.stop("terminate")
        looked = check(self.daemon.state)
        assert looked.returncode == 0 and "no problems" in looked.stdout, looked

    def is_whole(self):
        looked = check(self.daemon.state)
        assert looked.returncode == 0 and "no problems" in looked.stdout, looked
        self.daemon.start_again()
        client = self.daemon.connect()
        assert client("DBSIZE") == self.count
        assert view(client("EVENTS", "SINCE", self.begin))["complete"]
        assert "lost" not in self.daemon.log and "set aside" not in self.daemon.log
        assert not list(self.daemon.state.glob("*corrupt*"))


@pytest.fixture
def killed(daemon):
    return Killed(daemon)


def flip(path, place, bit=3):
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_flipped_bit_in_the_newest_changes_is_reported(killed, share):
    flip(killed.log, int(killed.log.stat().st_size * share) - 9)
    killed.is_reported_as_lost()


@pytest.mark.parametrize("share", [0, 0.0001, 0.5, 0.9999])
def test_newest_changes_that_were_cut_short_are_reported(killed, share):
    os.truncate(killed.log, int(killed.log.stat().st_size * share))
    killed.is_reported_as_lost()


def test_newest_changes_that_were_removed_are_reported(killed):
    killed.log.unlink()
    killed.is_reported_as_lost()


def test_a_flipped_bit_is_reported_without_the_mark_of_the_last_commit(killed):
    (killed.daemon.state / "committed").unlink()
    flip(killed.log, killed.log.stat().st_size // 10)
    killed.is_reported_as_lost()


def test_all_that_is_lost_is_kept_aside(killed):
    flip(killed.log, killed.log.stat().st_size // 2)
    data = killed.log.read_bytes()
    killed.daemon.start_again()
    (aside,) = killed.daemon.state.glob("state.db.corrupt-*Z-wal")
    assert aside.read_bytes() == data
    assert "is set aside, not deleted" in killed.daemon.log


@pytest.mark.parametrize("length", [10, 24, 500, FRAME, FRAME + 24])
def test_the_torn_end_of_what_was_never_answered_is_no_damage(killed, length):
    with open(killed.log, "r+b") as log:
        log.seek(-FRAME, os.SEEK_END)
        frame = log.read()
        # Two pages of one commit, with no end of it.
        log.write((frame[:4] + bytes(4) + frame[8:] + frame)[:length])
    killed.is_whole()


def test_a_state_that_was_killed_at_a_commit_is_whole(killed):
    killed.is_whole()


@pytest.mark.parametrize("place", [0, 6, 13])
def test_a_damaged_mark_of_the_last_commit_costs_nothing(killed, place):
    flip(killed.daemon.state / "committed", place)
    killed.is_whole()


def test_the_mark_of_the_last_commit_cut_short_ends_no_daemon(daemon):
    client = daemon.connect()
    client("COUNTDOWN", "START", "a", "EVERY", "1h")
    os.truncate(daemon.state / "committed", 0)
    for name in "bc":
        assert view(client("COUNTDOWN", "START", name, "EVERY", "1h"))["state"] == b"counting"
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == 3


def test_a_log_that_began_again_is_whole(daemon):
    client = daemon.connect()

    def checkpoints():
        for _ in range(20):
            client.send_bytes(b"".join(request("TIMER", "SET", n, "1h", "PAYLOAD", "m" * 900) for n in range(50)))
            assert all(isinstance(client.reply(), list) for _ in range(50))
        return int(daemon.info("persistence")["checkpoints"]) >= 2

    eventually(checkpoints, "two checkpoints", pause=0)
    for n in range(3):
        client("COUNTDOWN", "START", f"after{n}", "EVERY", "1h")
    begin = client("EVENTS", "LAST")
    daemon.restart("kill")
    client = daemon.connect()
    assert client("DBSIZE") == 53
    assert view(client("EVENTS", "SINCE", begin))["complete"]
    assert "lost" not in daemon.log
    for n in range(3, 6):
        client("COUNTDOWN", "START", f"after{n}", "EVERY", "1h")
    daemon.stop("kill")
    # Some of an older log is behind this one.
    assert check(daemon.state).returncode == 0
    flip(daemon.state / "state.db-wal", 32 + FRAME + 100)
    assert check(daemon.state).returncode == 65
    daemon.start_again()
    assert "newest changes are lost" in daemon.log
    assert not view(daemon.connect()("EVENTS", "SINCE", begin))["complete"]


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_power_failure_costs_the_newest_changes_of_process_alone(tmp_path, start_daemon, durability):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(arguments=["--durability", durability], environment=clocks.environment())
    killed = Killed(daemon, 20)
    size = killed.log.stat().st_size
    os.truncate(killed.log, size - 5 * FRAME)
    clocks.reboot(away=60)
    looked = check(daemon.state)
    assert looked.returncode == 65 and "newest changes are lost" in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert 0 < client("DBSIZE") < 20
    assert not view(client("EVENTS", "SINCE", killed.last))["complete"]
    assert "changes are lost" in daemon.log
    # The file is whole, and what is missing was never on the disk.
    assert len(list(daemon.state.glob("state.db.corrupt-*Z"))) == (durability == "power")
    log = len(daemon.log)
    daemon.restart("kill")
    assert "lost" not in daemon.log[log:]
