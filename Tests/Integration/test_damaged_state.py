"""Damage at random places of a stored state. Either nothing is lost, or the loss is reported: in
the log, by `countdownctl state check` and by `complete` of EVENTS SINCE. The daemon never crashes, and the next start
reports nothing.

    SEED=7 SECONDS=300 scripts/integration-test.sh Tests/Integration/test_damaged_state.py

Each round has a number: SEED is that of the first, and a round prints its own.
"""

import os
import random
import re
import shutil
import time

import pytest

from countdownd import FIRST_STATE, KEPT, PASSING, SEGMENT_HEADER, Closed, Daemon
from countdownd import check, eventually, frames, request, segments, view
from test_damage import PAGE

SEED = int(os.environ.get("SEED", "0"))
SECONDS = float(os.environ.get("SECONDS", "6"))
# The numbers of rounds that have found a bug; they are played first.
FOUND = []

COUNT = 200
# The fields that change as time passes.
REPORTED = re.compile(f"{KEPT}|is set aside|are lost|cannot be read|nothing in it")
ALL = (
    [("COUNTDOWN", "GET", f"k{n}") for n in range(COUNT)]
    + [("TIMER", "GET", f"t{n}") for n in range(COUNT)]
    + [("HUD", "GET", f"screen{n}") for n in range(5)]
    + [(kind, "GET", f"g{n}") for kind in ("ONCE", "GATE", "DEBOUNCE") for n in range(30)]
    + [("THROTTLE", "GET", f"g{n}") for n in range(30)]
)  # fmt: skip


def change(client, luck, count):
    """Sends commands of several sizes, some of them alone in their batch."""
    for _ in range(count):
        commands = []
        for _ in range(luck.choice([1, 1, 1, 20])):
            n = luck.randrange(COUNT)
            meta = "m" * luck.choice([0, 10, 300, 3_000])
            commands.append(luck.choice([
                ("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", meta),
                ("COUNTDOWN", "CANCEL", f"k{n}"),
                ("TIMER", "SET", f"t{n}", f"{luck.randrange(5, 50)}h", "PAYLOAD", meta),
                ("TIMER", "DEL", f"t{n}"),
                ("HUD", "SHOW", f"screen{n % 5}", "DURABLE"),
                ("ONCE", "BEGIN", f"g{n % 30}", "TTL", "100h"),
                ("GATE", "CHECK", f"g{n % 30}", "act"),
                ("THROTTLE", "TAKE", f"g{n % 30}", "BURST", 5, "RATE", "5/1000h"),
                ("DEBOUNCE", "CALL", f"g{n % 30}", "100h"),
            ]))  # fmt: skip
        client.send_bytes(b"".join(request(*words) for words in commands))
        for _ in commands:
            client.reply()


def fields(words, reply):
    if not isinstance(reply, list):
        return reply
    found = {name: value for name, value in view(reply).items() if name not in PASSING}
    if words[0] == "HUD":
        # Its other fields change while it appears.
        found = {name: found[name] for name in ("generation", "leases", "durable")}
    return found


def content(client):
    """Returns all entities, without the fields that change as time passes."""
    client.send_bytes(b"".join(request(*words) for words in ALL))
    return {words: fields(words, client.reply()) for words in ALL}


def is_as_before(one, other):
    def differ(a, b):
        if not isinstance(a, dict) or not isinstance(b, dict):
            return a != b
        a, b = dict(a), dict(b)
        x, y = a.pop("deadline_unix_ms", None), b.pop("deadline_unix_ms", None)
        return a != b or (x is None) != (y is None) or x is not None and abs(x - y) > 1_000

    return not any(differ(one[words], other[words]) for words in ALL)


def events(client, begin, last):
    """Returns the events after `begin` and up to `last`, and whether none is missing."""
    found, complete = [], True
    while True:
        reply = view(client("EVENTS", "SINCE", begin))
        complete = complete and bool(reply["complete"])
        found += reply["events"]
        begin = reply["last_seq"]
        if not reply["more"]:
            return [event for event in found if int(re.search(rb'"seq":(\d+)', event[-1])[1]) <= last], complete


class State:
    """A stored state, and the content that was read from it before."""

    def __init__(self, directory, how):
        self.kept = directory / how
        place = directory / f"{how}-daemon"
        place.mkdir()
        luck = random.Random(how)
        daemon = Daemon(directory=place, segment_size="64KiB")
        client = daemon.connect()
        self.begin = client("EVENTS", "LAST")
        change(client, luck, 200)
        daemon.restart()
        client = daemon.connect()
        change(client, luck, 50)
        if how == "folded":
            daemon.back_up(place / "copy.db")
            change(client, luck, 20)
        self.content = content(client)
        self.last = client("EVENTS", "LAST")
        self.events, _ = events(client, self.begin, self.last)
        client("TIMER", "SET", "newest", "1h")
        daemon.stop("terminate" if how == "orderly end" else "kill")
        shutil.copytree(daemon.state, self.kept)
        daemon.close()


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    directory = tmp_path_factory.mktemp("states")
    return [State(directory, how) for how in ("orderly end", "kill", "folded")]


def damage(state, luck):
    """Damages a file, and returns a description of the damage."""
    path = state / luck.choice([luck.choice(segments(state)).name, FIRST_STATE] * 6 + ["numbers"])
    data = bytearray(path.read_bytes())
    unit = PAGE if path.name == FIRST_STATE else 512
    units = len(data) // unit
    place = luck.randrange(len(data))
    last = frames(state)[-1]
    if path == last.path:
        # Spares the newest frame: torn at the very end, it counts as unanswered, not as damaged.
        end = max(last.place - 1_024, SEGMENT_HEADER)
        units = end // unit
        if not last.end < place < len(data) - 1_024 or luck.random() < 0.9:
            place = luck.randrange(end)
    kinds = ["flip", "flip", "flip", "garble", "zero", "truncate", "remove"]
    how = luck.choice(kinds + (["swap", "swap", "copy", "header"] if units > 1 else []))
    if how in ("flip", "header"):
        place = luck.randrange(100) if how == "header" else place
        data[place] ^= 1 << luck.randrange(8)
    elif how == "garble":
        count = min(luck.choice([4, 50, 400]), len(data) - place)
        data[place : place + count] = luck.randbytes(count)
    elif how == "zero":
        place -= place % 512
        data[place : place + 512] = bytes(min(512, len(data) - place))
    elif how == "truncate":
        place -= place % luck.choice([1, PAGE])
        del data[place:]
    elif how in ("swap", "copy"):
        one, other = (unit * luck.randrange(units) for _ in range(2))
        a, b = data[one : one + unit], data[other : other + unit]
        data[one : one + unit] = b
        if how == "swap":
            data[other : other + unit] = a
        place = (one, other)
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(data)
    return f"{how} {path.name} at {place} of {len(data)}"


def start(directory):
    """Starts a daemon, and waits until it has loaded or has refused to start."""
    daemon = Daemon(directory=directory, is_waited_for=False)

    def is_settled():
        if daemon.process.poll() is not None:
            return True
        try:
            return daemon.listens() and daemon.info("persistence")["loading"] == "0"
        except (OSError, AssertionError, Closed):
            return False

    eventually(is_settled, "it has loaded, or ended")
    return daemon


def play(states, number, directory):
    luck = random.Random(number)
    state = luck.choice(states)
    shutil.copytree(state.kept, directory / "state")
    done = damage(directory / "state", luck)
    what = f"round {number}, {state.kept.name}: {done}"
    print(f"{what}; SEED={number} SECONDS=1 plays it again")
    looked = check(directory / "state")
    assert looked.returncode in (0, 1, 65), (what, looked)
    daemon = start(directory)
    try:
        if daemon.process.poll() is not None:
            assert daemon.process.returncode == 73 and str(daemon.state) in daemon.log, (what, daemon.log)
            assert looked.returncode != 0, (what, looked, daemon.log)
            return "refused"
        client = daemon.connect()
        found, complete = events(client, state.begin, state.last)
        is_intact = is_as_before(state.content, content(client)) and found == state.events
        is_reported = REPORTED.search(daemon.log) is not None
        if not is_intact:
            assert is_reported and not complete, (what, complete, looked, daemon.log)
            assert looked.returncode != 0, (what, looked, daemon.log)
        # The next start has nothing to report, and nothing more is lost.
        now = content(client)
        size = len(daemon.log)
        daemon.stop(luck.choice(["terminate", "kill"]))
        again = check(daemon.state)
        assert again.returncode == 0, (what, looked, again, daemon.log)
        daemon.start_again()
        assert not REPORTED.search(daemon.log[size:]), (what, daemon.log)
        assert is_as_before(now, content(daemon.connect())), (what, daemon.log)
        return "intact" if is_intact else "reported"
    finally:
        daemon.is_expected_to_run = daemon.process.poll() is None
        daemon.close()


def test_damage_is_never_silent(states, tmp_path):
    ends = {"intact": 0, "reported": 0, "refused": 0}
    end = time.monotonic() + SECONDS
    for number in [*FOUND, *range(SEED, SEED + 1_000_000)]:
        directory = tmp_path / "round"
        directory.mkdir()
        ends[play(states, number, directory)] += 1
        shutil.rmtree(directory)
        if time.monotonic() > end and number not in FOUND:
            break
    print(ends)


def test_a_state_without_damage_is_reported_by_nothing(states, tmp_path):
    for state in states:
        directory = tmp_path / state.kept.name
        directory.mkdir()
        shutil.copytree(state.kept, directory / "state")
        assert check(directory / "state").returncode == 0
        daemon = start(directory)
        client = daemon.connect()
        assert events(client, state.begin, state.last) == (state.events, True)
        assert is_as_before(state.content, content(client))
        assert not REPORTED.search(daemon.log), daemon.log
        daemon.close()
