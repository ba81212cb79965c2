"""THROTTLE: the whole view of the real daemon, and rate limits over a restart."""

import pytest

from countdownd import view

FIELDS = [
    "key", "generation", "accepted", "reason", "state", "limit", "remaining", "retry_after_ms",
    "reset_after_ms", "now_unix_ms", "rate_count", "rate_ms",
]  # fmt: skip


def take(client, key, *words):
    return view(client("THROTTLE", "TAKE", key, *words))


@pytest.mark.daemon(virtual_time=True)
def test_take_replies_with_the_whole_view(speaker):
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


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_limit_is_not_forgotten_by_a_restart(daemon, how):
    client = daemon.connect()
    limit = ["BURST", 3, "RATE", "3/1h"]
    for _ in range(2):
        assert take(client, "k", *limit)["accepted"]
    client("THROTTLE", "TAKE", "gone", "BURST", 1, "RATE", "1/1h")
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
    # Uses after the restart are stored as well; refusals are not.
    daemon.restart(how)
    assert not take(daemon.connect(), "k", *limit)["accepted"]
