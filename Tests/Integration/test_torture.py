"""Nothing is lost, however the daemon ends.

`make torture` plays more rounds: ROUNDS of them, from SEED on. A round that fails prints how to
play it again. The other tests check that rounds notice errors.
"""

import collections
import os

import hiredis
import pytest

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


def one_more_timer(key):
    """Returns SQL that copies a timer to a key, which is an SQL expression."""
    return (
        f"INSERT INTO timers SELECT id + 1000, {key}, generation, uid, clock, phase, deadline_store_us, "
        "deadline_unix_us, left_us, every_us, late, fired, missed, payload, NULL FROM timers WHERE phase = 1 LIMIT 1"
    )


CHANGES = {
    "a countdown is lost": ("DELETE FROM countdowns WHERE id = (SELECT min(id) FROM countdowns)", ""),
    "a timer is lost": ("DELETE FROM timers WHERE phase = 1", ""),
    "a deadline moves": ("UPDATE countdowns SET deadline_store_us = deadline_store_us + 100000 WHERE phase = 0", "deadline"),
    "a generation goes back": ("UPDATE timers SET generation = generation - 1", "generation"),
    "what was left moves": ("UPDATE countdowns SET left_us = left_us + 100000 WHERE phase = 1", "left"),
    "meta is lost": ("UPDATE countdowns SET meta = NULL WHERE length(meta) > 0", "meta"),
    "a token is another": ("UPDATE countdowns SET token = x'00' WHERE phase IN (0, 1)", "RESEND"),
    "the newest events are lost": ("DELETE FROM events WHERE last_seq = (SELECT max(last_seq) FROM events)", ""),
    "the oldest events are lost": ("DELETE FROM events WHERE last_seq = (SELECT min(last_seq) FROM events "
        "WHERE length(payload) > 0)", ""),
    "a HUD is lost": ("DELETE FROM huds WHERE id = (SELECT min(id) FROM huds)", ""),
    "HUDs are as another": ("UPDATE huds SET state = (SELECT max(state) FROM huds) "
        "WHERE state <> (SELECT max(state) FROM huds)", ""),
    "a throttle is lost": ("DELETE FROM guards WHERE kind = 0 AND interval_us > 86400000000", ""),
    "a throttle is used less": ("UPDATE guards SET moment_store_us = moment_store_us - 100000 WHERE kind = 0", "deadline"),
    "what was done was not": ("UPDATE guards SET phase = 0, payload = NULL WHERE kind = 1 AND phase = 1", "result"),
    "an action is another": ("UPDATE guards SET action = x'61' WHERE kind = 2 AND phase = 0", "action"),
    "a call is forgotten": ("UPDATE guards SET number = number - 1 WHERE kind = 3 AND number > 1", "calls"),
    "what a connection owned is there": (one_more_timer("CAST('o:c0:1' AS BLOB)"), ""),
    "somebody else's is there": (one_more_timer("x'00'"), ""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_lost_is_noticed(tmp_path, change):
    """Plays a round whose state is changed behind the daemon's back after it was killed."""
    sql, says = CHANGES[change]

    class Sabotage(Round):
        def choose_life(self, life):
            return "moment"

        def begin(self, environment):
            if self.clients and self.daemon.process.poll() is not None:
                super().begin(environment)
                self.daemon.change_stored(sql)
            super().begin(environment)

    # On a busy machine a round may end before there is anything to change.
    for seed in range(1, 6):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with pytest.raises(AssertionError) as caught:
            Sabotage(seed, "process", directory, lives=1, seconds=1).run()
        if sql not in str(caught.value):
            break
    assert says in str(caught.value) and sql not in str(caught.value)


@pytest.mark.parametrize("key, life", [("t", "moment"), ("o", "trouble")])
def test_what_is_refused_wrongly_is_noticed(tmp_path, key, life):
    """Replaces a reply by READONLY: of an executed command, or of one that needs no storing."""

    class NothingToChange(Exception):
        pass

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
        try:
            with pytest.raises(AssertionError) as caught:
                Sabotage(seed, "process", directory, lives=2, seconds=seed).run()
            break
        except NothingToChange:
            continue
    else:
        pytest.fail("no round had anything to change")
    assert key == "t" or "was refused" in str(caught.value)
