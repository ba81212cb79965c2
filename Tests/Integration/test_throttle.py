"""THROTTLE: rate limits of the real daemon, against arithmetic without rounding, and over its end."""

import random
import time
from fractions import Fraction

import pytest

from countdownd import view

FIELDS = [
    "key", "generation", "accepted", "reason", "state", "limit", "remaining", "retry_after_ms",
    "reset_after_ms", "now_unix_ms", "rate_count", "rate_ms",
]  # fmt: skip


def take(client, key, *words):
    return view(client("THROTTLE", key, *words))


@pytest.mark.daemon(virtual_time=True)
def test_the_whole_view(speaker):
    shown = take(speaker, "k", "BURST", 3, "RATE", "1/2s", "COST", 2)
    assert sorted(shown) == sorted(FIELDS)
    assert shown.pop("generation") > 0 and shown.pop("now_unix_ms") > 0
    assert shown.pop("accepted") in (1, True)
    assert shown == {
        "key": b"k", "reason": None, "state": b"available", "limit": 3, "remaining": 1,
        "retry_after_ms": 0, "reset_after_ms": 4_000, "rate_count": 1, "rate_ms": 2_000,
    }  # fmt: skip
    refused = take(speaker, "k", "BURST", 3, "RATE", "1/2s", "COST", 2)
    assert not refused["accepted"] and refused["reason"] == b"rate"
    assert (refused["remaining"], refused["retry_after_ms"]) == (1, 2_000)
    cursor, page = speaker("THROTTLE", "LIST")
    assert int(cursor) == 0 and [view(each)["key"] for each in page] == [b"k"]


@pytest.mark.daemon(virtual_time=True)
def test_it_is_forgotten_with_its_memory(daemon):
    client = daemon.connect()
    for number in range(1_000):
        client("THROTTLE", f"k{number}", "BURST", 1, "RATE", "1/1s")
    assert daemon.info("timers")["throttles"] == "1000"
    client("CLOCK", "ADVANCE", "999ms")
    assert client("DBSIZE") == 1_000
    client("CLOCK", "ADVANCE", "1ms")
    assert client("DBSIZE") == 0
    assert daemon.info("timers")["armed"] == "0"


class Model:
    """The theoretical arrival time as a fraction of integers of any size, in microseconds."""

    def __init__(self, burst, count, period):
        self.use = Fraction(period, count)
        self.full = burst * self.use
        self.arrival = Fraction(0)

    def take(self, cost, now):
        used = max(self.arrival - now, 0)
        wait = used + cost * self.use - self.full
        if wait <= 0:
            used += cost * self.use
            self.arrival = now + used
        remaining = max((self.full - used) // self.use, 0)
        return [wait <= 0, remaining, ceil_ms(max(wait, 0)), ceil_ms(used)]


def ceil_ms(microseconds):
    # Rounded up to a microsecond, and that to a millisecond.
    return -(-microseconds // 1_000)


RATES = [
    (1, 1, "1d", 86_400_000_000), (1_000, 1_000_000, "1s", 1_000_000), (1, 7, "1s", 1_000_000),
    (5, 7, "1s", 1_000_000), (100, 3, "10ms", 10_000), (17, 999_983, "61s", 61_000_000),
    (10**9, 10**9, "3650d", 3_650 * 86_400_000_000), (10**9, 999_999_937, "1ms", 1_000),
]  # fmt: skip


@pytest.mark.daemon(virtual_time=True)
def test_agrees_with_integers_of_any_size(daemon):
    client = daemon.connect()
    chance = random.Random(7)
    models = [Model(burst, count, period) for burst, count, _, period in RATES]
    now = 0
    for _ in range(40):
        commands, expected = [], []
        for _ in range(250):
            if chance.random() < 0.3:
                step = chance.choice([1, 2, 9, 100, 1_001, 60_000, 86_400_000])
                commands.append(("CLOCK", "ADVANCE", f"{step}ms"))
                expected.append(None)
                now += step * 1_000
            which = chance.randrange(len(RATES))
            burst, count, text, _ = RATES[which]
            cost = chance.choice([1, 1, 1, burst, chance.randint(1, burst)])
            commands.append(
                ("THROTTLE", f"k{which}", "BURST", burst, "RATE", f"{count}/{text}", "COST", cost))
            expected.append(models[which].take(cost, now))
        for words in commands:
            client.send(*words)
        for words, answer in zip(commands, expected):
            reply = client.reply()
            if answer is None:
                assert isinstance(reply, int), reply
                continue
            shown = view(reply)
            fields = ["accepted", "remaining", "retry_after_ms", "reset_after_ms"]
            assert [shown[field] for field in fields] == answer, (words, now)


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_limit_is_not_forgotten_by_a_restart(daemon, how):
    client = daemon.connect()
    limit = ["BURST", 3, "RATE", "3/1h"]
    for _ in range(2):
        assert take(client, "k", *limit)["accepted"]
    client("THROTTLE", "gone", "BURST", 1, "RATE", "1/1h")
    client("THROTTLE", "REFUND", "gone", 1)
    before = view(client("THROTTLE", "GET", "k"))
    daemon.restart(how)
    client = daemon.connect()
    after = view(client("THROTTLE", "GET", "k"))
    assert after["generation"] == before["generation"]
    assert (after["remaining"], after["limit"]) == (1, 3)
    passed = after["now_unix_ms"] - before["now_unix_ms"]
    assert abs(before["reset_after_ms"] - after["reset_after_ms"] - passed) <= 2
    assert client("THROTTLE", "GET", "gone") is None
    assert take(client, "k", *limit)["accepted"]
    assert not take(client, "k", *limit)["accepted"]
    # What was taken after the restart is kept as well; and what was refused is not written.
    daemon.restart(how)
    assert not take(daemon.connect(), "k", *limit)["accepted"]


def test_what_came_back_meanwhile_is_forgotten_at_the_start(daemon):
    client = daemon.connect()
    client("THROTTLE", "k", "BURST", 1, "RATE", "1/300ms")
    daemon.stop("kill")
    time.sleep(0.4)
    daemon.start_again()
    client = daemon.connect()
    assert client("THROTTLE", "GET", "k") is None
    assert take(client, "k", "BURST", 1, "RATE", "1/1h")["accepted"]
    assert not take(client, "k", "BURST", 1, "RATE", "1/1h")["accepted"]
