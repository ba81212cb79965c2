"""COUNTDOWN: each command, each reply, in both versions of the protocol. Time is virtual."""

import pytest

from countdownd import Simple, view

pytestmark = pytest.mark.daemon(virtual_time=True)

FIELDS = [
    "key", "state", "generation", "remaining", "remaining_ms", "deadline_unix_ms", "now_unix_ms",
    "title", "retry_after_ms", "count", "every_ms", "sends", "owner", "meta",
]  # fmt: skip
DECIDED = sorted(FIELDS + ["accepted", "reason"])


def advance(client, duration):
    now = client("CLOCK", "ADVANCE", duration)
    assert isinstance(now, int), now
    return now


def start(client, *words):
    return view(client("COUNTDOWN", "START", *words))


def get(client, key):
    return view(client("COUNTDOWN", "GET", key))


def test_start_replies_with_the_whole_view(speaker):
    reply = speaker("COUNTDOWN", "START", "+45")
    assert isinstance(reply, dict if speaker.protocol == 3 else list)
    shown = view(reply)
    assert sorted(shown) == DECIDED
    generation, now = shown.pop("generation"), shown.pop("now_unix_ms")
    assert generation > 0
    accepted = shown.pop("accepted")
    assert accepted is True if speaker.protocol == 3 else accepted == 1
    assert shown == {
        "key": b"+45", "state": b"counting", "remaining": 60, "remaining_ms": 60_000,
        "deadline_unix_ms": shown["deadline_unix_ms"], "title": None, "reason": None,
        "retry_after_ms": 60_000, "count": 60, "every_ms": 1_000, "sends": 1, "owner": b"none",
        "meta": None,
    }  # fmt: skip
    assert shown["deadline_unix_ms"] - now in (60_000, 60_001)


def test_get_of_an_unknown_key_is_null(speaker):
    assert speaker("COUNTDOWN", "GET", "nothing") is None


def test_get_replies_with_the_view(speaker):
    start(speaker, "k", "META", b"\x00\xff", "TITLE", "%ds left 100%%")
    shown = get(speaker, "k")
    assert sorted(shown) == sorted(FIELDS)
    assert shown["meta"] == b"\x00\xff"
    assert shown["title"] == b"60s left 100%"


def test_start_in_cooldown_is_refused_and_changes_nothing(speaker):
    first = start(speaker, "k", "META", "a")
    advance(speaker, "1500ms")
    again = start(speaker, "k", "COUNT", "5", "META", "b")
    assert (bool(again["accepted"]), again["reason"]) == (False, b"cooldown")
    assert again["retry_after_ms"] == again["remaining_ms"] == 58_500
    assert again["remaining"] == 59
    for name in ("generation", "count", "meta", "sends", "deadline_unix_ms"):
        assert again[name] == first[name]


def test_a_start_is_accepted_again_when_ready(speaker):
    first = start(speaker, "k", "READYTITLE", "again?")
    advance(speaker, "59999ms")
    assert get(speaker, "k")["remaining_ms"] == 1
    advance(speaker, 1)
    ready = get(speaker, "k")
    assert (ready["state"], ready["remaining"], ready["remaining_ms"]) == (b"ready", 0, 0)
    assert (ready["retry_after_ms"], ready["title"]) == (0, b"again?")
    # The deadline is the same, but rounded up before it is reached and down afterwards.
    assert first["deadline_unix_ms"] - ready["deadline_unix_ms"] in (0, 1)
    second = start(speaker, "k", "COUNT", "2", "EVERY", "10s")
    assert second["accepted"] and second["sends"] == 2
    assert second["generation"] > first["generation"]
    assert (second["remaining_ms"], second["title"]) == (20_000, None)


@pytest.mark.parametrize(
    "words",
    [
        ["COUNT", "0"], ["COUNT", "2147483648"], ["COUNT", "-1"], ["COUNT", "x"], ["COUNT"],
        ["COUNT", "9223372036854775808"], ["EVERY", "0"], ["EVERY", "-1s"], ["EVERY", "1.5"],
        ["EVERY", "1w"], ["EVERY", "3651d"], ["EVERY", "99999999999999999999"], ["EVERY", ""],
        ["EVERY", "s"], ["COUNT", "3651", "EVERY", "1d"], ["COUNT", "1", "COUNT", "2"],
        ["TITLE", "x" * 1025], ["READYTITLE", "x" * 1025], ["META", "x" * 4097],
        ["TOKEN", "x" * 65], ["TOKEN", ""], ["OWNER", "me"], ["OWNER", "connection:1"], ["WHAT"],
        ["FIRE", "FIRE"], ["", "x"], ["WHAT", "x"],
    ],
)  # fmt: skip
def test_bad_options_are_refused_and_change_nothing(client, words):
    error = client("COUNTDOWN", "START", "k", *words)
    assert error.code == "ERR"
    assert client("COUNTDOWN", "GET", "k") is None
    assert client("DBSIZE") == 0


def test_the_longest_values_are_taken(client):
    key, meta = b"k" * 512, bytes(range(256)) * 16
    shown = start(client, key, "TITLE", "t" * 1024, "META", meta, "TOKEN", "o" * 64)
    assert (shown["key"], shown["meta"], shown["title"]) == (key, meta, b"t" * 1024)


def test_options_come_in_any_order_and_case(client):
    shown = start(client, "k", "fire", "every", "2s", "Count", "3")
    assert (shown["remaining_ms"], shown["count"]) == (4_000, 3)


def test_resend_starts_again_with_the_last_options(speaker):
    assert speaker("COUNTDOWN", "RESEND", "k").code == "NOTFOUND"
    first = start(speaker, "k", "COUNT", "3", "META", "m", "TITLE", "%d", "OWNER", "connection")
    refused = view(speaker("COUNTDOWN", "RESEND", "k"))
    assert sorted(refused) == DECIDED
    assert (bool(refused["accepted"]), refused["reason"]) == (False, b"cooldown")
    advance(speaker, "3s")
    again = view(speaker("COUNTDOWN", "RESEND", "k"))
    assert again["accepted"] and again["sends"] == 2
    for name in ("count", "meta", "title", "owner", "remaining_ms"):
        assert again[name] == first[name]


def test_cancel_ends_a_countdown(speaker):
    assert speaker("COUNTDOWN", "CANCEL", "k") == 0
    start(speaker, "k")
    assert speaker("COUNTDOWN", "CANCEL", "k") == 1
    assert speaker("COUNTDOWN", "GET", "k") is None
    assert start(speaker, "k")["accepted"]


def test_pause_and_resume(speaker):
    start(speaker, "k", "COUNT", "10")
    advance(speaker, "2500ms")
    for _ in range(2):
        paused = view(speaker("COUNTDOWN", "PAUSE", "k"))
        assert sorted(paused) == sorted(FIELDS)
        assert (paused["state"], paused["remaining_ms"]) == (b"paused", 7_500)
        assert paused["deadline_unix_ms"] is None
        advance(speaker, "1h")
    assert start(speaker, "k")["reason"] == b"cooldown"
    for _ in range(2):
        resumed = view(speaker("COUNTDOWN", "RESUME", "k"))
        assert (resumed["state"], resumed["remaining_ms"]) == (b"counting", 7_500)
    advance(speaker, "7500ms")
    assert get(speaker, "k")["state"] == b"ready"
    for name in ("PAUSE", "RESUME"):
        assert speaker("COUNTDOWN", name, "k").code == "ERR"
        assert speaker("COUNTDOWN", name, "nothing").code == "NOTFOUND"


def test_retime_moves_the_end(speaker):
    assert speaker("COUNTDOWN", "RETIME", "k", "5s").code == "NOTFOUND"
    start(speaker, "k", "COUNT", "10")
    assert view(speaker("COUNTDOWN", "RETIME", "k", "25s"))["remaining"] == 25
    speaker("COUNTDOWN", "PAUSE", "k")
    paused = view(speaker("COUNTDOWN", "RETIME", "k", "2s"))
    assert (paused["state"], paused["remaining_ms"]) == (b"paused", 2_000)
    speaker("COUNTDOWN", "RESUME", "k")
    ready = view(speaker("COUNTDOWN", "RETIME", "k", "0"))
    assert (ready["state"], ready["remaining_ms"]) == (b"ready", 0)
    assert speaker("COUNTDOWN", "RETIME", "k", "5s").code == "ERR"
    assert speaker("COUNTDOWN", "RETIME", "k", "soon").code == "ERR"


def test_a_stale_generation_is_refused(speaker):
    old = start(speaker, "k", "COUNT", "1")["generation"]
    advance(speaker, "1s")
    new = start(speaker, "k")["generation"]
    for words in (["CANCEL"], ["PAUSE"], ["RESUME"], ["RETIME", "1s"]):
        command = ["COUNTDOWN", words[0], "k", *words[1:], "GENERATION"]
        error = speaker(*command, old)
        assert error.code == "STALE" and str(new) in error
        assert speaker(*command, "-1").code == "ERR"
        assert speaker(*command, "x").code == "ERR"
        assert speaker(*command).code == "ERR"
    shown = get(speaker, "k")
    assert (shown["state"], shown["remaining_ms"]) == (b"counting", 60_000)
    assert view(speaker("COUNTDOWN", "PAUSE", "k", "GENERATION", new))["state"] == b"paused"
    assert speaker("COUNTDOWN", "CANCEL", "k", "GENERATION", new) == 1


def test_why_explains_a_countdown(speaker):
    reply = view(speaker("COUNTDOWN", "WHY", "k"))
    assert reply["why"] == b"idle: there is no countdown; START is accepted"
    speaker("COUNTDOWN", "START", "k")
    speaker("CLOCK", "ADVANCE", "19s")
    reply = view(speaker("COUNTDOWN", "WHY", "k"))
    assert reply == {
        "key": b"k", "state": b"counting", "why": b"refused: in cooldown; 41 s of 60 s left",
        "reason": b"cooldown", "retry_after_ms": 41_000, "limits": [], "code": None,
        "code_why": None, "owner": b"none",
    }  # fmt: skip
    assert speaker("COUNTDOWN", "WHY", "").code == "ERR"


@pytest.mark.daemon(virtual_time=True, config="countdown: {count: 3, every: 2s, keep-ready: 5s}")
def test_defaults_and_keep_ready_come_from_the_configuration(client):
    assert start(client, "k")["remaining_ms"] == 6_000
    advance(client, "10999ms")
    assert get(client, "k")["state"] == b"ready"
    advance(client, 1)
    assert client("COUNTDOWN", "GET", "k") is None
    assert client("COUNTDOWN", "RESEND", "k").code == "NOTFOUND"
    assert client("DBSIZE") == 0


# LIST, which three families share


CREATE = {
    "COUNTDOWN": ["START"],
    "HUD": ["SHOW"],
    "TIMER": ["SET"],
}


def create(client, family, key, *words):
    extra = ["1h"] if family == "TIMER" else []
    return client(family, *CREATE[family], key, *extra, *words)


def pages(client, family, *words):
    cursor, found = b"0", []
    while True:
        cursor, views = client(family, "LIST", *words, "CURSOR", cursor)
        found += [view(one) for one in views]
        if cursor == b"0":
            return found


@pytest.mark.parametrize("family", CREATE)
def test_list_pages_through_countdowns(speaker, family):
    assert speaker(family, "LIST") == [b"0", []]
    keys = {b"key:%d" % number for number in range(250)}
    for key in keys:
        assert view(create(speaker, family, key))["key"] == key
    shown = pages(speaker, family)
    assert sorted(one["key"] for one in shown) == sorted(keys)
    first = view(speaker(family, "GET", "key:0"))
    assert next(one for one in shown if one["key"] == b"key:0") == first
    cursor, page = speaker(family, "LIST", "LIMIT", "3")
    assert len(page) == 3 and cursor != b"0"
    assert len(speaker(family, "LIST")[1]) == 100
    matching = pages(speaker, family, "MATCH", "key:1[0-4]?", "LIMIT", "7")
    assert len(matching) == 50


@pytest.mark.parametrize("family", CREATE)
def test_list_by_owner(daemon, client, family):
    other = daemon.connect()
    create(client, family, "nobody's")
    create(client, family, "mine", "OWNER", "connection")
    create(other, family, "other's", "OWNER", "connection")
    number = other("CLIENT", "ID")

    def listed(owner):
        return [one["key"] for one in pages(client, family, "OWNER", owner)]

    assert listed("none") == [b"nobody's"]
    assert listed("connection") == [b"mine"]
    assert listed(f"connection:{number}") == [b"other's"]
    assert listed("connection:99999") == []
    shown = view(client(family, "GET", "other's"))
    assert shown["owner"] == b"connection:%d" % number


@pytest.mark.parametrize("family", CREATE)
@pytest.mark.parametrize(
    "words",
    [["LIMIT", "0"], ["LIMIT", "1001"], ["CURSOR", "x"], ["CURSOR", "-1"], ["MATCH"], ["OWNER", "x"]]
    + [["OWNER", "connection:x"], ["CURSOR", "99999999999"], ["WHAT"], ["MATCH", "a", "MATCH", "b"]],
)
def test_bad_list_options_are_refused(client, family, words):
    assert client(family, "LIST", *words).code == "ERR"


def test_kinds_have_separate_keys(client):
    client("COUNTDOWN", "START", "k")
    client("HUD", "SHOW", "k")
    client("TIMER", "SET", "k", "1h")
    assert client("DBSIZE") == 3
    assert client("COUNTDOWN", "CANCEL", "k") == 1
    assert client("TIMER", "DEL", "k") == 1
    assert client("DBSIZE") == 1
    assert client("PING") == Simple("PONG")
