"""HUD: each command, each reply, in both versions of the protocol. Time is virtual."""

import pytest

from countdownd import view

pytestmark = pytest.mark.daemon(virtual_time=True)

FIELDS = [
    "key", "state", "generation", "level", "kind", "status", "mask", "fraction", "leases", "holds",
    "dismissing", "paused", "remaining_ms", "deadline_unix_ms", "now_unix_ms", "end", "owner", "durable",
]  # fmt: skip


def hud(client, name, screen, *words):
    return view(client("HUD", name, screen, *words))


def advance(client, duration):
    now = client("CLOCK", "ADVANCE", duration)
    assert isinstance(now, int), now


def test_show_replies_with_the_whole_view(speaker):
    reply = speaker("HUD", "SHOW", "main", "STATUS", "Loading…")
    assert isinstance(reply, dict if speaker.protocol == 3 else list)
    shown = view(reply)
    assert sorted(shown) == sorted(FIELDS)
    no = False if speaker.protocol == 3 else 0
    hold = view(shown.pop("holds")[0])
    assert hold == {
        "generation": shown["generation"], "kind": b"loading", "status": "Loading…".encode(), "mask": b"none",
        "fraction": None, "request": None, "grace_ms": 0, "max_ms": None, "owner": b"none", "durable": no,
    }  # fmt: skip
    assert shown["dismissing"] is no and shown["paused"] is no
    assert {name: shown[name] for name in FIELDS if not name.endswith(("generation", "_ms", "holds"))} == {
        "key": b"main", "state": b"appearing", "level": b"normal", "kind": b"loading",
        "status": "Loading…".encode(), "mask": b"none", "fraction": None, "leases": 1,
        "dismissing": no, "paused": no, "end": None, "owner": b"none", "durable": no,
    }  # fmt: skip
    assert shown["remaining_ms"] is None and shown["deadline_unix_ms"] is None


def test_a_presentation_from_show_to_hidden(speaker):
    hud(speaker, "SHOW", "s", "GRACE", "100ms", "MIN", "1s", "MAX", "10s")
    assert hud(speaker, "GET", "s")["state"] == b"waiting"
    advance(speaker, "100ms")
    assert hud(speaker, "GET", "s")["state"] == b"appearing"
    advance(speaker, "150ms")
    shown = hud(speaker, "GET", "s")
    assert (shown["state"], shown["remaining_ms"]) == (b"visible", 10_000)
    held = hud(speaker, "DISMISS", "s")
    assert (held["state"], held["remaining_ms"], bool(held["dismissing"])) == (
        b"visible", 1_000, True,
    )  # fmt: skip
    advance(speaker, "1s")
    going = hud(speaker, "GET", "s")
    assert (going["state"], going["end"]) == (b"disappearing", b"dismissed")
    advance(speaker, "150ms")
    assert speaker("HUD", "GET", "s") is None


def test_commands_on_an_empty_screen_find_nothing(speaker):
    for name in ("GET", "DISMISS", "POP"):
        assert speaker("HUD", name, "s") is None
    for words in (["PROGRESS", "s", "0.5"], ["STATUS", "s", "x"], ["TAP", "s"]):
        assert speaker("HUD", *words).code == "NOTFOUND"
    for name in ("PAUSE", "RESUME"):
        assert speaker("HUD", name, "s").code == "NOTFOUND"


def test_progress_and_status(speaker):
    hud(speaker, "SHOW", "s", "KIND", "progress")
    shown = hud(speaker, "PROGRESS", "s", "0.25", "STATUS", "a quarter")
    if speaker.protocol == 3:
        assert shown["fraction"] == 0.25
    else:
        assert shown["fraction"] == b"0.25"
    assert shown["status"] == b"a quarter"
    assert hud(speaker, "STATUS", "s", "half?")["status"] == b"half?"
    for fraction in ("0", "1", "1e-5"):
        assert float(hud(speaker, "PROGRESS", "s", fraction)["fraction"]) == float(fraction)
    for fraction in ("-0.1", "1.1", "nan", "inf", "half", "", " 1", "0x1p-1"):
        assert speaker("HUD", "PROGRESS", "s", fraction).code == "ERR", fraction
    assert speaker("HUD", "STATUS", "s", "x" * 4097).code == "ERR"


def test_each_show_adds_a_hold_and_pop_releases_one(speaker):
    for leases in (1, 2, 3):
        assert hud(speaker, "SHOW", "s")["leases"] == leases
    advance(speaker, "1s")
    assert hud(speaker, "POP", "s")["leases"] == 2
    assert hud(speaker, "POP", "s")["leases"] == 1
    last = hud(speaker, "POP", "s")
    assert (last["leases"], last["state"]) == (0, b"disappearing")


def test_tap_dismisses_where_the_mask_allows_it(speaker):
    hud(speaker, "SHOW", "s", "MASK", "black")
    advance(speaker, "1s")
    assert hud(speaker, "TAP", "s")["state"] == b"visible"
    hud(speaker, "SHOW", "s", "MASK", "none")
    assert hud(speaker, "TAP", "s")["state"] == b"visible"
    assert hud(speaker, "POP", "s")["mask"] == b"black"
    assert hud(speaker, "SHOW", "s", "KIND", "info")["mask"] == b"none"
    assert hud(speaker, "TAP", "s", "INSIDE")["state"] == b"visible"
    tapped = hud(speaker, "TAP", "s")
    assert (tapped["state"], tapped["end"]) == (b"disappearing", b"tapped")


def test_pause_and_resume(speaker):
    hud(speaker, "SHOW", "s", "MAX", "5s", "FADEIN", "0")
    advance(speaker, "2s")
    paused = hud(speaker, "PAUSE", "s")
    assert paused["paused"] and paused["remaining_ms"] == 3_000
    assert paused["deadline_unix_ms"] is None
    advance(speaker, "1h")
    assert hud(speaker, "RESUME", "s")["remaining_ms"] == 3_000
    advance(speaker, "3s")
    assert hud(speaker, "GET", "s")["end"] == b"timed-out"


def test_a_stale_generation_is_refused(speaker):
    old = hud(speaker, "SHOW", "s")["generation"]
    new = hud(speaker, "SHOW", "s")["generation"]
    for name in ["DISMISS", "TAP", "PAUSE", "RESUME"]:
        assert speaker("HUD", name, "s", "GENERATION", old).code == "STALE", name
    # These commands compare the generation with that of a hold.
    hud(speaker, "STATUS", "s", "old", "GENERATION", old)
    assert hud(speaker, "POP", "s", "GENERATION", new)["status"] == b"old"
    for words in [["POP", "s"], ["PROGRESS", "s", "1"], ["STATUS", "s", "x"]]:
        assert speaker("HUD", *words, "GENERATION", new).code == "STALE", words
    assert hud(speaker, "GET", "s")["leases"] == 1


def test_a_list_beside_a_submit_keeps_its_mask(speaker):
    hud(speaker, "SHOW", "s", "REQUEST", "https://example.test/api/Order/Submit?x=1", "FADEIN", "0")
    assert hud(speaker, "SHOW", "s", "REQUEST", "/api/Order/List")["mask"] == b"custom"
    assert hud(speaker, "TAP", "s")["state"] == b"visible"
    left = hud(speaker, "POP", "s", "REQUEST", "/api/Order/List")
    assert (left["mask"], left["leases"]) == (b"custom", 1)
    assert [view(hold)["request"] for hold in left["holds"]] == [b"/api/Order/Submit"]
    assert hud(speaker, "POP", "s", "REQUEST", "/api/Order/Submit/")["state"] == b"disappearing"


def test_why_explains_a_hud(speaker):
    assert view(speaker("HUD", "WHY", "s"))["why"].startswith(b"hidden: ")
    hud(speaker, "SHOW", "s", "MIN", "1s", "FADEIN", "0", "OWNER", "connection")
    advance(speaker, "570ms")
    why = view(speaker("HUD", "WHY", "s"))
    holder = b"connection %d" % speaker("CLIENT", "ID")
    assert why["why"] == b"visible: 430 ms of MIN left; held by " + holder
    assert (why["reasons"], why["holders"]) == ([b"min", b"held"], [holder])


@pytest.mark.daemon(virtual_time=True, config="hud: {blocking: {paths: [/api/order/Place], mask: black}}")
def test_mask_tries_out_a_request(speaker):
    def tried(url):
        reply = view(speaker("HUD", "MASK", url))
        return reply["request"], reply["mask"], reply["rule"]

    assert tried("https://example.test/api/v1/api/order/Place/") == (b"/api/order/Place", b"black", b"/api/order/Place")
    assert tried("/api/order/SubmitOrder") == (b"/api/order/SubmitOrder", b"black", b"Submit")
    assert tried("/api/order/List") == (b"/api/order/List", b"none", None)
    assert speaker("DBSIZE") == 0


@pytest.mark.daemon(
    virtual_time=True, config="hud: {max-level: statusbar, screens: {pay: {max-level: alert}}}"
)
def test_levels_are_separate_on_one_screen(speaker):
    error = speaker("HUD", "SHOW", "s", "LEVEL", "alert")
    assert error.code == "ERR" and "statusbar" in error
    assert speaker("HUD", "GET", "s") is None
    hud(speaker, "SHOW", "pay", "STATUS", "low")
    hud(speaker, "SHOW", "pay", "LEVEL", "alert", "STATUS", "high")
    assert hud(speaker, "GET", "pay")["status"] == b"high"
    assert hud(speaker, "GET", "pay", "LEVEL", "normal")["status"] == b"low"
    assert speaker("HUD", "GET", "pay", "LEVEL", "statusbar") is None
    assert speaker("DBSIZE") == 1
    advance(speaker, "1s")
    assert hud(speaker, "DISMISS", "pay")["level"] == b"alert"


@pytest.mark.daemon(virtual_time=True, config="hud: {blocking: {paths: [/api/order/Place]}}")
def test_request_picks_the_mask(speaker):
    def mask(*words):
        speaker("HUD", "DISMISS", "s")
        advance(speaker, "1s")
        return hud(speaker, "SHOW", "s", *words)["mask"]

    assert mask("REQUEST", "https://example.test/api/order/Place") == b"custom"
    assert mask("REQUEST", "/api/order/SubmitOrder?x=1") == b"custom"
    assert mask("REQUEST", "https://example.test/api/order/List") == b"none"
    assert mask("REQUEST", "/api/order/SubmitOrder", "MASK", "clear") == b"clear"


@pytest.mark.parametrize(
    "words",
    [
        ["KIND", "x"], ["MASK", "x"], ["LEVEL", "x"], ["MINFROM", "x"], ["EARLY", "x"],
        ["GRACE", "x"], ["MIN", "-1"], ["MAX", "3651d"], ["STATUS", "x" * 4097], ["OWNER", "x"],
        ["REQUEST", "x" * 8193], ["KIND"], ["KIND", "info", "KIND", "info"], ["WHAT"],
        ["LEVEL", "alert"],
    ],
)  # fmt: skip
def test_bad_options_are_refused_and_change_nothing(client, words):
    assert client("HUD", "SHOW", "s", *words).code == "ERR"
    assert client("DBSIZE") == 0
