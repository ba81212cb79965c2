"""Nothing is lost, however the daemon ends.

`make torture` plays more rounds: ROUNDS of them, from SEED on. A round that fails prints how to
play it again. The other tests check that rounds notice errors.
"""

import collections
import os
import re

import hiredis
import pytest

from stored import PLACE_BITS, NothingToChange, add, changed, records, removed, write
from torture.round import Round

ROUNDS = int(os.environ.get("ROUNDS") or 10)
SEED = int(os.environ.get("SEED") or 0)
# If unset, the rounds take turns.
DURABILITY = os.environ.get("DURABILITY")


@pytest.fixture(scope="module")
def figures(request):
    """The sums of all rounds, printed at the end."""
    sums = collections.defaultdict(collections.Counter)
    yield sums
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for durability, counted in sorted(sums.items()):
            print(f"\n{durability}: " + ", ".join(f"{value} {name}" for name, value in counted.items()), end="")


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_nothing_is_lost(tmp_path, seed, figures):
    durability = DURABILITY or ["process", "power"][seed % 2]
    print(f"To play this round again: make torture ROUNDS=1 SEED={seed} DURABILITY={durability}")
    figures[durability].update(Round(seed, durability, tmp_path).run(), rounds=1)


DAY = 86_400_000_000


def sooner(moment):
    return moment - 100_000


def later(moment):
    return moment + 100_000


def one_more_timer(key):
    """Returns a change that copies a paused timer to a key."""

    def change(database):
        paused = [item for item in records(database, "timer").items() if item[1]["paused"]]
        for id, record in paused[:1]:
            record.set("key", key)
            add(database, "timer", (id & (1 << PLACE_BITS) - 1) + 1_000, record.bytes)
        return len(paused)

    return change


def other_tokens(database):
    count = 0
    for id, record in records(database, "countdown").items():
        for n in range(record.get("tokens") or 0):
            record.set(f"token {n}", b"\0" + record[f"token {n}"])
            count += 1
        write(database, id, record)
    return count


def huds_as_another(database):
    screens = {record["rest"] for record in records(database, "hud").values()}
    return bool(screens) and changed("hud", lambda record: record["rest"] != max(screens), rest=max(screens))(database)


# Each is SQL or a function of the database, as `stored.run` takes them, and a pattern in the failure.
CHANGES = {
    "a countdown is lost": ("DELETE FROM entities WHERE id = (SELECT min(id) FROM entities WHERE kind = 0)",
        "COUNTDOWN.*found None"),
    "a timer is lost": (removed("timer", lambda timer: timer["paused"]), "TIMER.*found None"),
    "a deadline moves": (changed("countdown", lambda countdown: countdown["phase"] == 0, moment=later), "deadline"),
    "a generation goes back": (changed("timer", generation=lambda generation: generation - 1), "generation"),
    "what was left moves": (changed("countdown", lambda countdown: countdown["phase"] == 1, left=later), "left"),
    "meta is lost": (changed("countdown", lambda countdown: countdown.get("meta"), meta=None), "meta"),
    "a token is another": (other_tokens, "(START|RESEND).*TOKEN"),
    "the newest events are lost": ("DELETE FROM events WHERE last_seq = (SELECT max(last_seq) FROM events)",
        "is lost|the newest event is|published, but not kept|times, found|was ready"),
    "the oldest events are lost": ("DELETE FROM events WHERE last_seq = (SELECT min(last_seq) FROM events "
        "WHERE length(bytes) > 0)", "some events are missing|its event .* is lost|expected .*, found"),
    "a HUD is lost": ("DELETE FROM entities WHERE id = (SELECT min(id) FROM entities WHERE kind = 1)",
        "HUD.*found None"),
    "HUDs are as another": (huds_as_another, "HUD.*expected .*, found"),
    "a throttle is lost": (removed("throttle", lambda throttle: throttle["period"] > DAY), "THROTTLE.*found None"),
    "a throttle is used less": (changed("throttle", arrival=sooner), "deadline"),
    "what was done was not": (changed("once", lambda once: once["result"] is not None, result=None), "result"),
    "an action is another": (changed("gate", lambda gate: not gate["open"], action=b"a"), "action"),
    "a call is forgotten": (
        changed("debounce", lambda debounce: (debounce.get("calls") or 0) > 1, calls=lambda calls: calls - 1), "calls"),
    "what a connection owned is there": (one_more_timer(b"o:c0:1"), "o:c0:1.*expected None, found"),
    "somebody else's is there": (one_more_timer(b"\0"), "nobody has started"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_lost_is_noticed(tmp_path, change):
    """Plays a round whose state is changed behind the daemon's back after it was killed."""
    made, says = CHANGES[change]

    class Sabotage(Round):
        def choose_life(self, life):
            return "moment"

        def begin(self, environment):
            if self.clients and self.daemon.process.poll() is not None:
                super().begin(environment)
                self.daemon.change_stored(made)
            super().begin(environment)

    # On a busy machine a round may end before there is anything to change; the next one is longer.
    for seed in range(1, 10):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with pytest.raises(AssertionError) as caught:
            Sabotage(seed, "process", directory, lives=1, seconds=seed).run()
        if not isinstance(caught.value, NothingToChange):
            break
    assert re.search(says, str(caught.value), re.DOTALL) and not isinstance(caught.value, NothingToChange)


@pytest.mark.parametrize("key, life", [("t", "moment"), ("o", "trouble")])
def test_what_is_refused_wrongly_is_noticed(tmp_path, key, life):
    """Replaces a reply by READONLY: of an executed command, or of one that needs no storing."""

    class Sabotage(Round):
        def choose_life(self, number):
            self.number = number
            return life if number else "moment"

        def collect(self):
            super().collect()
            if self.number == 0:
                return
            for client in self.clients:
                for place in client.in_trouble if key == "o" else range(len(client.replies)):
                    words, (reply, moment) = client.sent[place][0], client.replies[place]
                    if words[2].startswith(key) and words[:2] == ("TIMER", "SET") and isinstance(reply, list):
                        client.replies[place] = (hiredis.ReplyError("READONLY"), moment)
                        return
            raise NothingToChange

    # On a busy machine a round may end before there is anything to change: each takes longer.
    for seed in range(1, 11):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with pytest.raises(AssertionError) as caught:
            Sabotage(seed, "process", directory, lives=2, seconds=seed).run()
        if not isinstance(caught.value, NothingToChange):
            break
    else:
        pytest.fail("no round had anything to change")
    says = {"t": "expected .*found|nobody has done", "o": "was refused"}[key]
    assert re.search(says, str(caught.value), re.DOTALL), caught.value
