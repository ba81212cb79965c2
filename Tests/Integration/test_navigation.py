"""Navigation stacks and pages over the real socket."""

import pytest

from countdownd import view

pytestmark = pytest.mark.daemon(virtual_time=True)


def test_a_cancelled_swipe_is_not_noticed_and_a_finished_one_ends_what_the_page_owns(daemon, client):
    client("NAV", "PUSH", "main", "home")
    client("NAV", "PUSH", "main", "register", "EDGE", "20")
    client("COUNTDOWN", "START", "code", "OWNER", "scope:register")
    client("CLOCK", "ADVANCE", "5s")
    assert view(client("NAV", "SWIPE", "main", "X", "25", "DX", "3"))["reason"] == b"outside-edge"
    swipe = view(client("NAV", "SWIPE", "main", "X", "5", "DX", "3"))
    assert (swipe["accepted"], swipe["state"]) == (1, b"transitioning")
    assert view(client("NAV", "PUSH", "main", "other"))["reason"] == b"transitioning"
    assert view(client("NAV", "PROGRESS", "main", "0.4"))["fraction"] == b"0.4"
    assert view(client("NAV", "CANCEL", "main", "GENERATION", swipe["generation"]))["accepted"] == 1
    assert view(client("COUNTDOWN", "GET", "code"))["remaining"] == 55
    client("NAV", "SWIPE", "main", "X", "5", "DX", "3")
    assert client("NAV", "FINISH", "main", "GENERATION", swipe["generation"]).code == "STALE"
    finished = view(client("NAV", "FINISH", "main"))
    assert (finished["accepted"], finished["pages"]) == (1, [b"home"])
    assert client("COUNTDOWN", "GET", "code") is None
    assert view(client("NAV", "FINISH", "main"))["reason"] == b"not-transitioning"
    assert client("NAV", "DISMISS", "main") == 1
    assert client("DBSIZE") == 0


def test_a_page_loads_fails_is_tried_again_and_returns_silently(daemon, client):
    options = ("TIMEOUT", "5s", "SCREEN", "main", "GRACE", "200ms", "MIN", "1s")
    first = view(client("PAGE", "APPEAR", "orders", *options))
    assert (first["state"], first["animated"]) == (b"loading", 1)
    client("CLOCK", "ADVANCE", "400ms")
    assert view(client("HUD", "GET", "main"))["state"] == b"visible"
    assert view(client("PAGE", "FAILED", "orders", "MESSAGE", "offline"))["state"] == b"error"
    client("CLOCK", "ADVANCE", "2s")
    assert client("HUD", "GET", "main") is None
    again = view(client("PAGE", "RETRY", "orders"))
    assert client("PAGE", "LOADED", "orders", "GENERATION", first["generation"]).code == "STALE"
    client("CLOCK", "ADVANCE", "5s")
    assert view(client("PAGE", "GET", "orders"))["state"] == b"error"
    assert view(client("PAGE", "LOADED", "orders", "GENERATION", again["generation"]))["reason"] == (
        b"not-loading"
    )
    client("PAGE", "RETRY", "orders")
    assert view(client("PAGE", "LOADED", "orders", "ITEMS", "0"))["state"] == b"empty"
    # It had come back while it faded out, and stays for MIN.
    client("CLOCK", "ADVANCE", "2s")
    assert client("HUD", "GET", "main") is None
    client("PAGE", "DISAPPEAR", "orders")
    returned = view(client("PAGE", "APPEAR", "orders"))
    assert (returned["state"], returned["animated"]) == (b"refreshing", 0)
    client("CLOCK", "ADVANCE", "1s")
    assert client("HUD", "GET", "main") is None
    assert view(client("PAGE", "FAILED", "orders"))["state"] == b"empty"
    assert client("PAGE", "CLOSE", "orders") == 1
    assert client("DBSIZE") == 0


@pytest.mark.parametrize(
    "command, problem",
    [
        ("NAV SWIPE main X 5", "usage: NAV SWIPE"),
        ("NAV SWIPE main X inf DX 1", "is not a number"),
        ("NAV SWIPE main X 5 DX 0x1", "is not a number"),
        ("NAV SWIPE main X 5 X 6", "given twice"),
        ("NAV SWIPE none X 5 DX 1", "NOTFOUND no stack 'none'"),
        ("NAV PUSH main page EDGE -1", "EDGE is not negative"),
        ("NAV PUSH main page POP maybe", "not one of on, off"),
        ("NAV PUSH main home", "there is a scope 'home' already"),
        ("NAV PROGRESS main 1.5", "not a number from 0 to 1"),
        ("PAGE LOADED none", "NOTFOUND no page 'none'"),
        ("PAGE APPEAR p REFRESH sometimes", "not one of always, never"),
        ("PAGE LOADED p ITEMS -1", "not an integer"),
    ],
)
def test_wrong_calls_say_so_and_change_nothing(daemon, client, command, problem):
    client("NAV", "PUSH", "main", "home")
    assert problem in client(*command.split())
    assert client("DBSIZE") == 2
