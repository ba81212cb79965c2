"""Acknowledged changes that are missing at the next start are reported: in the log, by
`countdownctl state check` and by `complete` of EVENTS SINCE. Unanswered changes may be missing, which is no damage."""

import os
import random
import re

import pytest

from clocks import Clocks
from countdownd import FIRST_STATE, FRAME_HEADER, KEPT, SECOND_STATE, SEGMENT_HEADER
from countdownd import check, eventually, files_of, frames, request, segments, state_file, states, view
from fault_injection import Faults

COUNT = 300


class Killed:
    """A state as `kill -9` leaves it, with an acknowledged batch for each of `count` countdowns."""

    def __init__(self, daemon, count=COUNT, *words):
        self.daemon, self.state = daemon, daemon.state
        client = daemon.connect()
        self.begin = client("EVENTS", "LAST")
        for n in range(count):
            self.generation = view(client("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", *words))["generation"]
        self.count = count
        self.last = client("EVENTS", "LAST")
        daemon.stop("kill")
        # The last frames are those of the countdowns, one for each.
        self.frames = frames(daemon.state)[-count:]
        # Removes the lines of the earlier start.
        daemon.log_path.write_text("")

    def is_reported_as_lost(self, found):
        """Checks that a loss is reported, and that `found` countdowns are left."""
        looked = check(self.state)
        assert looked.returncode == 65 and "newest changes are lost" in looked.stdout, looked
        self.daemon.start_again()
        client = self.daemon.connect()
        assert client("DBSIZE") == found < self.count
        assert "critical: " in self.daemon.log and "newest changes are lost" in self.daemon.log
        for sequence in (self.begin, self.last):
            assert not view(client("EVENTS", "SINCE", sequence))["complete"]
        assert view(client("COUNTDOWN", "START", "new", "EVERY", "1h"))["generation"] > self.generation
        # The gap stays, and nothing more is lost.
        self.daemon.restart("kill")
        client = self.daemon.connect()
        assert client("DBSIZE") == found + 1
        assert not view(client("EVENTS", "SINCE", self.last))["complete"]
        self.daemon.stop("terminate")
        looked = check(self.state)
        assert looked.returncode == 0 and "no problems" in looked.stdout, looked

    def is_whole(self, count=None):
        looked = check(self.state)
        assert looked.returncode == 0 and "no problems" in looked.stdout, looked
        self.daemon.start_again()
        client = self.daemon.connect()
        assert client("DBSIZE") == (self.count if count is None else count)
        assert view(client("EVENTS", "SINCE", self.begin))["complete"]
        assert not re.search(f"{KEPT}|set aside|lost", self.daemon.log)
        assert len(states(self.state)) == 1


@pytest.fixture
def killed(daemon):
    return Killed(daemon)


def write(path, place, data):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(data)


def flip(path, place, bit=3):
    write(path, place, bytes([path.read_bytes()[place] ^ 1 << bit]))


@pytest.mark.parametrize("place", [0, 5, 9, 17, FRAME_HEADER, FRAME_HEADER + 50])
def test_everything_before_a_changed_frame_is_used(killed, place):
    frame = killed.frames[100]
    flip(frame.path, frame.place + place)
    killed.is_reported_as_lost(100)


def test_a_changed_frame_in_the_last_but_one_place_is_damage(killed):
    flip(killed.frames[-2].path, killed.frames[-2].place + FRAME_HEADER)
    killed.is_reported_as_lost(COUNT - 2)


def test_all_that_is_lost_is_kept_and_can_be_listed(killed):
    frame = killed.frames[100]
    flip(frame.path, frame.place + FRAME_HEADER)
    (corrupt,) = states(killed.state)
    before = files_of(corrupt)
    killed.daemon.start_again()
    assert KEPT in killed.daemon.log and str(corrupt) in killed.daemon.log
    killed.daemon.connect()("COUNTDOWN", "CANCEL", "k0")
    assert [path.name for path in states(killed.state)] == [FIRST_STATE, SECOND_STATE]
    assert files_of(corrupt) == before
    # Each state is read with its own log, the one that no daemon uses at any time.
    newest = state_file(killed.state)
    for place, status, count in [(corrupt, 65, 100), (killed.state, 0, 99), (newest, 0, 99)]:
        looked = check(place)
        assert looked.returncode == status and f"countdowns: {count}\n" in looked.stdout, looked
        killed.daemon.stop("kill")
    assert files_of(corrupt) == before


@pytest.mark.parametrize("torn", ["cut to zeros", "cut to what was there before", "followed by garbage"])
def test_the_torn_end_of_what_was_never_answered_is_no_damage(killed, torn):
    last = killed.frames[-1]
    if torn == "followed by garbage":
        write(last.path, last.end, random.Random(1).randbytes(1_000))
        killed.is_whole()
    else:
        old = bytes(1 << 10) if torn == "cut to zeros" else killed.frames[0].path.read_bytes()[32 : 32 + (1 << 10)]
        write(last.path, last.place + 40, old[: last.end - last.place - 40])
        killed.is_whole(COUNT - 1)


def test_a_state_that_was_killed_at_a_commit_is_whole(killed):
    killed.is_whole()


@pytest.mark.parametrize("how", ["removed", "cut short", "emptied"])
def test_a_newest_segment_that_is_not_whole_is_reported(killed, how):
    path = killed.frames[-1].path
    if how == "removed":
        path.unlink()
    else:
        os.truncate(path, killed.frames[100].place if how == "cut short" else 0)
    killed.is_reported_as_lost(100 if how == "cut short" else 0)


def test_a_changed_header_costs_nothing_but_is_reported(killed):
    flip(killed.frames[-1].path, 10)
    assert check(killed.state).returncode == 65
    killed.daemon.start_again()
    assert killed.daemon.connect()("DBSIZE") == COUNT


def test_a_log_that_is_gone_is_reported(killed):
    for path in segments(killed.state):
        path.unlink()
    killed.is_reported_as_lost(0)


@pytest.fixture
def long(tmp_path, start_daemon):
    """A state with several segments of the log, of which none could be folded."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    environment = faults.environment(at=1, action="EIO", lasting=True, file=f"{FIRST_STATE}*")
    daemon = start_daemon(state=state, environment=environment, segment_size="64KiB")
    faults.damage()
    long = Killed(daemon, COUNT, "META", "m" * 500)
    faults.mend()
    assert len(segments(state)) > 4
    return long


@pytest.mark.parametrize("how", ["removed", "cut short"])
def test_a_segment_before_others_that_is_not_whole_is_reported(long, how):
    path = segments(long.state)[1]
    first = [frame.path for frame in long.frames].index(path)
    if how == "removed":
        path.unlink()
    else:
        first += 10
        os.truncate(path, long.frames[first].place)
    long.is_reported_as_lost(first)


@pytest.mark.parametrize("is_header_damaged", [False, True])
def test_a_log_of_several_segments_is_whole(long, is_header_damaged):
    if is_header_damaged:
        write(segments(long.state)[1], 0, bytes(SEGMENT_HEADER))
    long.is_whole()


def test_segments_that_are_used_again_are_whole(start_daemon):
    """Behind the new frames of a reused segment are old ones."""
    daemon = start_daemon(segment_size="64KiB")
    client = daemon.connect()

    def is_folded():
        client.send_bytes(b"".join(request("TIMER", "SET", n, "1h", "PAYLOAD", "m" * 900) for n in range(50)))
        assert all(isinstance(client.reply(), list) for _ in range(50))
        return int(daemon.info("persistence")["folds"]) >= 3

    eventually(is_folded, "it was folded", pause=0)
    eventually(lambda: daemon.info("persistence")["log_segments"] == "1", "all is folded")
    killed = Killed(daemon, 10)
    killed.is_whole(60)
    daemon.stop("kill")
    flip(killed.frames[-5].path, killed.frames[-5].place + FRAME_HEADER)
    killed.count = 60
    killed.is_reported_as_lost(55)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_power_failure_costs_the_newest_changes_of_process_alone(tmp_path, start_daemon, durability):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(arguments=["--durability", durability], environment=clocks.environment())
    killed = Killed(daemon, 20)
    # The last batch but one did not reach the disk, but the last one did.
    frame = killed.frames[-2]
    write(frame.path, frame.place, bytes(frame.end - frame.place))
    clocks.reboot(away=60)
    looked = check(daemon.state)
    assert looked.returncode == 65 and "newest changes are lost" in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == 18
    assert not view(client("EVENTS", "SINCE", killed.last))["complete"]
    assert "changes are lost" in daemon.log
    # With `process` this is no damage: the missing batch was never promised to be on the disk.
    assert len(states(daemon.state)) == (2 if durability == "power" else 1)
    log = len(daemon.log)
    daemon.restart("kill")
    assert "lost" not in daemon.log[log:]
    assert daemon.connect()("DBSIZE") == 18
