"""Navigation stacks and pages over the real socket."""

import json

import pytest
import redis

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


def test_a_swipe_times_out_with_its_appearance_events_in_pairs(daemon, client):
    watcher = daemon.connect(protocol=3)
    client("NAV", "PUSH", "main", "home", "BAR", "hidden")
    client("NAV", "PUSH", "main", "page")
    watcher.send("SUBSCRIBE", "nav:main")
    assert watcher.push()[0] == b"subscribe"
    assert watcher.event()[1]["pages"] == ["home", "page"]
    client("NAV", "SWIPE", "main", "X", "5", "DX", "3", "TIMEOUT", "2s")
    client("CLOCK", "ADVANCE", "2s")
    events = watcher.events(until=lambda event: event["event"] == "did-appear")
    assert [(event["event"], event["page"]) for event in events] == [
        ("swiping", "page"), ("will-disappear", "page"), ("will-appear", "home"),
        ("cancelled", "page"), ("will-disappear", "home"), ("will-appear", "page"),
        ("did-disappear", "home"), ("did-appear", "page"),
    ]  # fmt: skip
    assert events[3]["reason"] == "timed-out"
    assert events[7]["bar_changed"] is False
    client("NAV", "POP", "main")
    events = watcher.events(until=lambda event: event["event"] == "did-appear")
    assert (events[-1]["bar"], events[-1]["bar_changed"], events[-1]["first"]) == ("hidden", True, False)
    assert [event.get("last") for event in events if "disappear" in event["event"]] == [True, True]


def test_a_stack_goes_with_its_window_and_with_its_client(daemon, client):
    owner = daemon.connect()
    owner("SCOPE", "OPEN", "window", "OWNER", "connection")
    owner("NAV", "PUSH", "main", "a", "PARENT", "window")
    owner("NAV", "PUSH", "main", "b")
    client("TIMER", "SET", "t", "1h", "OWNER", "scope:b")
    owner.close()
    for _ in range(1000):
        if client("DBSIZE") == 0:
            break
    assert client("DBSIZE") == 0
    assert client("NAV", "GET", "main") is None


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


def test_events_of_pages_and_stacks_come_to_redis_py(daemon, client):
    with redis.Redis(unix_socket_path=str(daemon.path)) as library:
        pubsub = library.pubsub(ignore_subscribe_messages=True)
        pubsub.psubscribe("page:*", "nav:*")
        pubsub.get_message(timeout=1)
        pubsub.get_message(timeout=1)
        library.execute_command("PAGE", "APPEAR", "p", "TIMEOUT", "1s")
        library.execute_command("NAV", "PUSH", "n", "p")
        library.execute_command("CLOCK", "ADVANCE", "1s")
        events = []
        while not events or events[-1]["event"] != "failed":
            message = pubsub.get_message(timeout=5)
            events += [json.loads(message["data"])] if message else []
        assert [event["event"] for event in events] == [
            "did-appear", "loading", "will-appear", "did-appear", "failed",
        ]  # fmt: skip
        assert (events[-1]["reason"], events[-1]["error_page"]) == ("timed-out", True)
        pubsub.close()


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
