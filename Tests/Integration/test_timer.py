"""TIMER: each command, each reply, in both versions of the protocol. Time is virtual."""

import pytest

from countdownd import view

pytestmark = pytest.mark.daemon(virtual_time=True)

FIELDS = [
    "key", "state", "generation", "remaining_ms", "deadline_unix_ms", "now_unix_ms", "every_ms",
    "clock", "late", "fired", "missed", "owner", "payload",
]  # fmt: skip


def timer(client, name, key, *words):
    return view(client("TIMER", name, key, *words))


def advance(client, duration):
    now = client("CLOCK", "ADVANCE", duration)
    assert isinstance(now, int), now


def test_set_replies_with_the_whole_view(speaker):
    reply = speaker("TIMER", "SET", "t", "5s", "PAYLOAD", b"\x00\xff")
    assert isinstance(reply, dict if speaker.protocol == 3 else list)
    shown = view(reply)
    assert sorted(shown) == sorted(FIELDS)
    now = shown.pop("now_unix_ms")
    assert shown.pop("deadline_unix_ms") - now in (5_000, 5_001)
    assert shown.pop("generation") > 0
    assert shown == {
        "key": b"t", "state": b"running", "remaining_ms": 5_000, "every_ms": None,
        "clock": b"boot", "late": b"fire", "fired": 0, "missed": 0, "owner": b"none",
        "payload": b"\x00\xff",
    }  # fmt: skip


def test_pause_keeps_the_time_left_and_retime_moves_it(speaker):
    timer(speaker, "SET", "t", "5s")
    advance(speaker, "2s")
    for _ in range(2):
        paused = timer(speaker, "PAUSE", "t")
        assert (paused["state"], paused["remaining_ms"]) == (b"paused", 3_000)
        assert paused["deadline_unix_ms"] is None
        advance(speaker, "1h")
    assert timer(speaker, "RETIME", "t", "2s")["remaining_ms"] == 2_000
    for _ in range(2):
        assert timer(speaker, "RESUME", "t")["state"] == b"running"
    assert timer(speaker, "RETIME", "t", "9s")["remaining_ms"] == 9_000
    advance(speaker, "9s")
    for words in (["PAUSE", "t"], ["RESUME", "t"], ["RETIME", "t", "1s"]):
        assert speaker("TIMER", *words).code == "NOTFOUND"


def test_delete_disarms_a_timer(speaker):
    assert speaker("TIMER", "DEL", "t") == 0
    timer(speaker, "SET", "t", "5s")
    assert speaker("TIMER", "DEL", "t") == 1
    assert speaker("TIMER", "GET", "t") is None


def test_set_replaces_a_timer_of_the_same_name(speaker):
    old = timer(speaker, "SET", "t", "5s")["generation"]
    new = timer(speaker, "SET", "t", "9s")
    assert new["generation"] > old and new["remaining_ms"] == 9_000
    assert speaker("DBSIZE") == 1
    for words in (["PAUSE", "t"], ["RESUME", "t"], ["RETIME", "t", "1s"], ["DEL", "t"]):
        assert speaker("TIMER", *words, "GENERATION", old).code == "STALE"
    assert speaker("TIMER", "DEL", "t", "GENERATION", new["generation"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["x"], ["-1"], ["3651d"], ["1s", "EVERY", "0"], ["1s", "EVERY", "x"], ["1s", "LATE", "x"],
        ["1s", "CLOCK", "x"], ["1s", "PAYLOAD", "x" * 4097], ["1s", "OWNER", "x"], ["1s", "EVERY"],
        ["1s", "WHAT"], ["1s", "EVERY", "1s", "EVERY", "1s"],
    ],
)  # fmt: skip
def test_bad_options_are_refused_and_change_nothing(client, words):
    timer(client, "SET", "t", "5s")
    before = client("TIMER", "GET", "t")
    assert client("TIMER", "SET", "t", *words).code == "ERR"
    assert client("TIMER", "GET", "t") == before
