"""A sign-up, from its first page until nothing of it is left, played by an app and its backend
over the real socket."""

import pytest

from countdownd import view


class Story:
    """The app owns and shows things, the backend acts on them, a watcher receives all events."""

    def __init__(self, daemon):
        self.app = daemon.connect(protocol=3)
        self.backend = daemon.connect()
        self.watcher = daemon.connect(protocol=3)
        self.watcher.send("PSUBSCRIBE", "*")
        assert self.watcher.push()[0] == b"psubscribe"
        self.daemon = daemon

    def ask(self, *words):
        return view(self.backend(*words))

    def tell(self, *words):
        return view(self.app(*words))

    def pass_time(self, duration):
        self.backend("CLOCK", "ADVANCE", duration)

    def watched(self, event, key):
        """Returns the events up to and with this one."""
        return self.watcher.events(until=lambda e: (e["event"], e["key"]) == (event, key))

    def counts(self):
        timers = self.daemon.info("timers")
        names = (
            "entities", "armed", "countdowns", "huds", "timers", "throttles", "onces", "gates",
            "scopes", "stacks", "pages",
        )  # fmt: skip
        return {name: timers[name] for name in names}


@pytest.mark.daemon(virtual_time=True)
def test_one_client_can_use_all_kinds_together(daemon):
    story = Story(daemon)
    before = story.counts()
    app = story.app

    # Registering needs a login: the newest action waits at the gate, and runs once it opens.
    for wanted in ("home", "register"):
        asked = story.tell("GATE", "CHECK", "session", wanted, "TTL", "5m")
        assert (asked["accepted"], asked["reason"]) == (False, b"login")
    story.ask("GATE", "OPEN", "session", "TTL", "1h")
    ran = [event for event in story.watched("run", "session") if event["event"] == "run"]
    assert [event["action"] for event in ran] == ["register"]
    assert story.tell("GATE", "CHECK", "session", "orders")["accepted"] is True

    # Two register pages in a window that the app's connection owns.
    app("SCOPE", "OPEN", "window", "OWNER", "connection")
    story.tell("NAV", "PUSH", "main", "register-1", "PARENT", "window", "BAR", "hidden")
    story.tell("NAV", "PUSH", "main", "register-2", "EDGE", "20")
    assert story.ask("SCOPE", "GET", "register-2")["parent"] == b"window"

    # A code is sent; page 2 owns its countdown.
    code = story.tell("COUNTDOWN", "START", "+4512345678", "OWNER", "scope:register-2")
    assert code["accepted"] is True
    story.pass_time("10s")

    # A swipe back begins and is cancelled; the countdown is not affected.
    assert story.tell("NAV", "SWIPE", "main", "X", "30", "DX", "9")["reason"] == b"outside-edge"
    assert story.tell("NAV", "SWIPE", "main", "X", "4", "DX", "9")["accepted"] is True
    story.pass_time("1s")
    assert story.tell("NAV", "CANCEL", "main")["accepted"] is True
    seen = story.watched("did-appear", "main")
    assert not [event for event in seen if event["event"] == "cancelled" and event["key"] != "main"]
    running = story.ask("COUNTDOWN", "GET", "+4512345678")
    assert (running["generation"], running["remaining"]) == (code["generation"], 49)

    # No other code is sent before the countdown is over, and never more than one per minute.
    again = story.ask("COUNTDOWN", "START", "+4512345678", "OWNER", "scope:register-2")
    assert (again["accepted"], again["reason"]) == (0, b"cooldown")
    rate = ("BURST", "1", "RATE", "1/1m")
    assert story.ask("THROTTLE", "TAKE", "sms:+4512345678", *rate)["accepted"] == 1
    assert story.ask("THROTTLE", "TAKE", "sms:+4512345678", *rate)["reason"] == b"rate"

    # The form is submitted twice and accepted once; the second receives the result of the first.
    submit = ("ONCE", "BEGIN", "register-7", "TTL", "10m", "OWNER", "scope:register-2")
    assert story.tell(*submit)["accepted"] is True
    twice = story.ask(*submit)
    assert (twice["accepted"], twice["reason"], twice["state"]) == (0, b"duplicate", b"running")
    story.ask("ONCE", "DONE", "register-7", "welcome")
    assert story.ask(*submit)["result"] == b"welcome"

    # A swipe that finishes closes the page, and cancels its countdown.
    story.tell("NAV", "SWIPE", "main", "X", "4", "DX", "9")
    story.pass_time("300ms")
    assert story.tell("NAV", "FINISH", "main")["pages"] == [b"register-1"]
    seen = story.watched("closed", "register-2")
    ended = [event for event in seen if event["event"] == "cancelled" and event["key"] != "main"]
    assert [(event["key"], event["reason"]) for event in ended] == [("+4512345678", "owner-gone")]
    assert story.backend("COUNTDOWN", "GET", "+4512345678") is None

    # A page fails to load, is retried, and is refreshed without an animation when it returns.
    story.tell("NAV", "PUSH", "main", "orders")
    options = ("OWNER", "scope:orders", "SCREEN", "screen", "TIMEOUT", "8s", "GRACE", "0", "MIN", "0")
    first = story.tell("PAGE", "APPEAR", "orders", *options)
    assert (first["state"], first["animated"]) == (b"loading", True)
    assert story.ask("HUD", "GET", "screen")["owner"] == b"page:orders"
    story.pass_time("8s")
    assert story.ask("PAGE", "GET", "orders")["state"] == b"error"
    story.pass_time("1s")
    assert story.backend("HUD", "GET", "screen") is None
    second = story.tell("PAGE", "RETRY", "orders")
    story.backend.error("STALE", "PAGE", "LOADED", "orders", "ITEMS", "9", "GENERATION", first["generation"])
    loaded = story.ask("PAGE", "LOADED", "orders", "ITEMS", "3", "GENERATION", second["generation"])
    assert (loaded["state"], loaded["items"]) == (b"content", 3)
    story.tell("PAGE", "DISAPPEAR", "orders")
    back = story.tell("PAGE", "APPEAR", "orders")
    assert (back["state"], back["animated"]) == (b"refreshing", False)
    assert story.ask("PAGE", "FAILED", "orders")["state"] == b"content"

    # A tap on a cell's button travels up to the page's controller, and no further.
    app("SCOPE", "OPEN", "cell", "PARENT", "orders")
    app("SCOPE", "OPEN", "button", "PARENT", "cell")
    assert app("SCOPE", "HANDLE", "orders", "tap") == 1
    assert app("SCOPE", "HANDLE", "window", "*") == 1
    assert story.backend("SCOPE", "EMIT", "button", "tap", "order 7") == b"orders"
    taken = app.event()[1]
    assert (taken["key"], taken["target"], taken["payload"]) == ("orders", "button", "order 7")
    assert not app.arrived()

    # Everything is dismissed, and nothing is left.
    assert app("NAV", "DISMISS", "main") == 1
    story.watched("dismissed", "main")
    assert app("SCOPE", "CLOSE", "window") == 1
    assert story.backend("GATE", "CLOSE", "session") == 1
    # The result of the form has no owner, and is kept for its TTL.
    story.pass_time("10m")
    assert story.counts() == before


@pytest.mark.daemon(virtual_time=True)
def test_the_story_leaves_no_memory_behind(daemon):
    client = daemon.connect()

    def play(rounds):
        for number in range(rounds):
            client("SCOPE", "OPEN", "window")
            client("NAV", "PUSH", "main", "a", "PARENT", "window")
            for index in range(20):
                client("NAV", "PUSH", "main", f"page-{number}-{index}")
                client("COUNTDOWN", "START", f"k{index}", "OWNER", f"scope:page-{number}-{index}")
                client("PAGE", "APPEAR", f"p{index}", "OWNER", f"scope:page-{number}-{index}")
            client("NAV", "SWIPE", "main", "X", "1", "DX", "1")
            client("NAV", "FINISH", "main")
            client("NAV", "DISMISS", "main")
            client("SCOPE", "CLOSE", "window")
        client("CLOCK", "ADVANCE", "1s")
        assert client("DBSIZE") == 0
        assert daemon.info("timers")["armed"] == "0"

    play(20)
    settled = daemon.resident()
    play(60)
    # Thousands of scopes, pages, HUDs and countdowns have been opened and closed meanwhile.
    assert daemon.resident() - settled < 4 << 20


@pytest.mark.daemon(virtual_time=True)
def test_an_app_that_vanishes_in_the_middle_leaves_nothing(daemon):
    story = Story(daemon)
    before = story.counts()
    app = story.app
    app("SCOPE", "OPEN", "window", "OWNER", "connection")
    story.tell("NAV", "PUSH", "main", "a", "PARENT", "window")
    story.tell("NAV", "PUSH", "main", "b")
    story.tell("PAGE", "APPEAR", "b", "OWNER", "scope:b")
    story.tell("COUNTDOWN", "START", "k", "OWNER", "scope:b")
    story.tell("NAV", "SWIPE", "main", "X", "1", "DX", "1")
    app.close()
    ends = story.watched("closed", "window")
    assert ("cancelled", "k", "owner-gone") in [
        (event["event"], event["key"], event.get("reason")) for event in ends
    ]
    story.pass_time("1s")
    assert story.counts() == before
