"""NAV and PAGE over the real socket: errors and timed transitions. test_story.py has the rest."""

import pytest

from countdownd import eventually, view


pytestmark = pytest.mark.daemon(virtual_time=True)


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
        ("NAV PUSH main home", "scope 'home' already exists"),
        ("NAV PUSH main page DURATION soon", "neither a duration such as 350ms nor 'finish'"),
        ("NAV PUSH main page BAR some", "not one of shown, hidden, any"),
        ("NAV PRESENT main page EDGE 5", "unknown option 'EDGE'"),
        ("NAV PUSH main page GRACE 1s", "they need PAGE"),
        ("NAV SET main", "wrong number of arguments"),
        ("NAV SET none page", "NOTFOUND no stack 'none'"),
        ("NAV PROGRESS main 1.5", "not a number from 0 to 1"),
        ("PAGE LOADED none", "NOTFOUND no page 'none'"),
        ("PAGE APPEAR p REFRESH sometimes", "not one of always, never, every"),
        ("PAGE REFRESH none", "NOTFOUND no page 'none'"),
        ("PAGE LOADED p ITEMS -1", "not an integer"),
    ],
)
def test_wrong_calls_are_refused_and_change_nothing(daemon, client, command, problem):
    client("NAV", "PUSH", "main", "home")
    assert problem in client(*command.split())
    assert client("DBSIZE") == 2


def test_a_push_that_takes_time_ends_by_itself_and_refuses_swipes_meanwhile(daemon, client):
    watcher = daemon.connect()
    watcher("SUBSCRIBE", "nav:main")

    def told():
        """Returns the names of the events up to the next did-appear or did-disappear."""
        names = []
        while not names or names[-1] not in ("did-appear", "did-disappear"):
            event = watcher.event()[1]
            names.append(event["event"])
        return names

    client("NAV", "PUSH", "main", "home", "BAR", "shown")
    while told()[-1] != "did-appear":
        pass
    pushed = view(client("NAV", "PUSH", "main", "orders", "BAR", "hidden", "DURATION", "350ms"))
    assert (pushed["state"], pushed["transition"], pushed["remaining_ms"]) == (b"transitioning", b"push", 350)
    refused = view(client("NAV", "SWIPE", "main", "X", "1", "DX", "1"))
    assert (refused["accepted"], refused["reason"]) == (0, b"transitioning")
    client("CLOCK", "ADVANCE", "349ms")
    assert view(client("NAV", "GET", "main"))["bar"] == b"shown"
    client("CLOCK", "ADVANCE", "1ms")
    done = view(client("NAV", "GET", "main"))
    assert (done["state"], done["transition"], done["bar"]) == (b"settled", None, b"hidden")
    assert told() == ["will-disappear", "will-appear", "finished", "did-disappear"]
    assert told() == ["did-appear"]
    assert view(client("NAV", "SWIPE", "main", "X", "1", "DX", "1"))["accepted"] == 1


def test_a_page_that_is_pushed_with_its_load_follows_the_stack(daemon, client):
    def page(name):
        found = client("PAGE", "GET", name)
        return found and (view(found)["state"].decode(), bool(view(found)["visible"]))

    client("NAV", "PUSH", "main", "list", "PAGE", "TIMEOUT", "10s", "OWNER", "connection")
    assert page("list") == ("loading", True)
    assert view(client("HUD", "GET", "list"))["leases"] == 1
    client("PAGE", "LOADED", "list", "ITEMS", "3")
    client("NAV", "PUSH", "main", "detail", "PAGE", "DURATION", "350ms")
    assert (page("list"), page("detail")) == (("content", True), ("loading", True))
    client("CLOCK", "ADVANCE", "350ms")
    assert (page("list"), page("detail")) == (("content", False), ("loading", True))
    client("NAV", "SWIPE", "main", "X", "1", "DX", "1")
    client("NAV", "CANCEL", "main")
    assert page("list") == ("content", False)
    client("NAV", "POP", "main")
    assert (page("list"), page("detail")) == (("refreshing", True), None)
    client("CLOCK", "ADVANCE", "10s")
    assert page("list") == ("content", True)
    other = daemon.connect()
    client.close()
    eventually(lambda: other("DBSIZE") == 0, "all of it ends with the client")
