"""NAV and PAGE: errors over the real socket. test_story.py plays the rest."""

import pytest


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
