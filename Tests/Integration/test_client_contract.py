"""The clients' contract, docs/reference/clients.md: each case runs against the client of each language."""

import contextlib
import random
import tempfile
import threading
import time

import pytest

import contract_tools as contract
from contract_tools import Failure, answer, failed, line
from countdownd import PATIENCE, eventually, view
from proxy import CLOSE, CUT, HOLD, Unreliable

START = ("COUNTDOWN", "START")


@pytest.fixture
def server():
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="contract-") as folder:
        server = contract.Server(f"{folder}/socket").start()
        yield server
        server.stop()


@pytest.fixture(params=contract.LANGUAGES)
def driver(request, server):
    driver = contract.driver(request.param, server.path)
    yield driver
    driver.end()


@pytest.fixture
def opened(driver):
    driver.do("open")
    return driver


def ended(driver, number):
    """Returns how a watch ended, whatever it returned before."""
    while "end" not in (result := driver.result(number)):
        pass
    return result


# Cancelled


def test_a_call_that_is_cancelled_before_it_is_written_sends_nothing(server, opened):
    assert opened.call("ping")["value"] == "PONG"
    for _ in range(20):
        result = opened.call("start", is_cancelled=True)
        assert failed(result, "cancelled") and not failed(result, "unsure"), result
    opened.call("ping")
    assert not server.requests(*START)


def test_a_call_that_is_cancelled_later_says_that_it_may_have_run(server, opened):
    server.script["COUNTDOWN START"] = HOLD
    for count in range(1, 6):
        call = opened.begin("call", call="start")
        server.wait_for(*START, count=count)
        opened.do("cancel", of=call)
        result = opened.result(call)
        assert failed(result, "cancelled") and failed(result, "unsure"), result
        assert not failed(result, "down"), result
    # The late reply is nobody else's.
    server.let_go(answer())
    assert opened.call("ping")["value"] == "PONG"


def test_a_deadline_of_the_language_is_recognizable(server, driver):
    """Each time, whichever notices it first."""
    # The client's own timeout is far away, even if this machine stands still for a while.
    driver.do("open", timeout_ms=int(PATIENCE) * 1000)
    server.script["COUNTDOWN START"] = HOLD
    for _ in range(20):
        result = driver.call("start", within_ms=15)
        assert failed(result, "timeout"), result
        assert not failed(result, "down"), result
    # Requests of the calls before may still be arriving.
    assert failed(driver.call("start", key="last", within_ms=1000), "unsure")
    assert len(server.requests(*START, "last")) == 1


# Lost replies


@pytest.mark.parametrize("loss", [CLOSE, CUT], ids=["closed", "cut"])
def test_the_repetition_of_a_lost_call_has_the_first_answer(server, opened, loss):
    server.script["COUNTDOWN START"] = [loss, answer(reason="repeated")]
    assert opened.call("start")["value"] == "accepted"
    first, second = server.requests(*START)
    assert first == second and "TOKEN" in first


def test_a_token_of_the_program_stays_repeated(server, opened):
    server.script["COUNTDOWN START"] = [CLOSE, answer(reason="repeated")]
    assert opened.call("start", token="t")["value"] == "repeated"


def test_a_command_that_is_harmless_is_repeated(server, opened):
    server.script["ONCE DONE"] = [CLOSE, answer(False, "duplicate", state="done", result="r")]
    assert opened.call("done")["value"] == "accepted"
    assert len(server.requests("ONCE", "DONE")) == 2


def test_a_result_of_somebody_else_stays_refused(server, opened):
    server.script["ONCE DONE"] = [CLOSE, answer(False, "duplicate", state="done", result="other")]
    assert opened.call("done")["value"] == "refused"


def test_a_command_that_may_do_harm_is_not_repeated(server, opened):
    server.script["TIMER SET"] = CLOSE
    result = opened.call("set")
    assert failed(result, "unsure") and not failed(result, "down"), result
    assert len(server.requests("TIMER", "SET")) == 1


@pytest.mark.parametrize("loss", [CLOSE, CUT], ids=["closed", "cut"])
def test_if_the_repetition_fails_too_the_call_may_have_run(server, opened, loss):
    server.script["COUNTDOWN START"] = loss
    result = opened.call("start")
    assert failed(result, "unsure") and not failed(result, "down"), result
    assert len(server.requests(*START)) == 2


def test_if_the_daemon_is_down_for_the_repetition_the_call_may_have_run(server, opened):
    def stop(one, words):
        server.stop()
        return CLOSE

    server.script["COUNTDOWN START"] = stop
    result = opened.call("start")
    assert failed(result, "unsure") and not failed(result, "down"), result


# Down, or hanging


def test_a_call_fails_at_once_while_the_daemon_is_down(server, opened):
    server.stop()
    result = opened.call("start")
    assert failed(result, "down") and not failed(result, "unsure"), result
    server.start()
    server.script["COUNTDOWN START"] = answer()
    assert opened.call("start")["value"] == "accepted"


def test_a_watch_waits_for_the_daemon(server, opened):
    server.stop()
    watch = opened.begin("watch", patterns=["timer:*"])
    assert failed(opened.call("ping"), "down")
    server.start()
    server.subscribed.get(timeout=PATIENCE).publish("timer:a", seq=1)
    assert opened.result(watch)["key"] == "a"
    opened.do("end", of=watch)
    assert not failed(ended(opened, watch), "down")


def test_there_is_a_timeout_if_the_program_sets_none(driver):
    assert driver.do("open")["timeout_ms"] > 0


def test_a_daemon_that_hangs_is_given_up(server, driver):
    # Long enough for the answered call, even on a busy machine.
    driver.do("open", timeout_ms=2000)
    assert driver.call("ping")["value"] == "PONG"
    server.script["COUNTDOWN START"] = HOLD
    begin = time.monotonic()
    result = driver.call("start")
    assert time.monotonic() - begin > 1.9
    assert failed(result, "unsure") and not failed(result, "down"), result
    # Its time is over, so it is not repeated.
    assert len(server.requests(*START)) == 1


def test_a_connection_that_did_not_answer_in_time_is_not_used_again(server, driver):
    """Otherwise, behind a proxy that never answers, every later call would time out, too."""
    driver.do("open", timeout_ms=2000)
    silent = threading.Event()

    def silence(one, words):
        one.is_silent = one.is_silent or not silent.is_set() and words[0] == "COUNTDOWN"
        silent.set() if one.is_silent else None
        return HOLD if one.is_silent else {"PING": "PONG"}.get(words[0], answer())

    server.script.update({"COUNTDOWN START": silence, "PING": silence})
    assert driver.call("ping")["value"] == "PONG"
    assert failed(driver.call("start"), "unsure")
    assert driver.call("ping")["value"] == "PONG"
    assert driver.call("start")["value"] == "accepted"
    # The abandoned connection is closed.
    eventually(lambda: len(server.open) == 1, lambda: f"{len(server.open)} connections")


def test_a_daemon_that_hangs_is_given_up_while_connecting(server, driver):
    driver.do("open", timeout_ms=300)
    server.script.update({"HELLO": HOLD, "COUNTDOWN START": HOLD, "CLIENT": HOLD})
    result = driver.call("start")
    # Without HELLO, the command itself is what hangs.
    assert failed(result, "unsure" if server.requests(*START) else "down"), result
    assert server.count == 1


def test_a_client_that_the_daemon_refuses_is_not_told_that_it_is_down(server, opened):
    server.script["HELLO"] = Failure("NOPERM this user may not connect")
    result = opened.call("start")
    assert failed(result, "NOPERM") and not failed(result, "down"), result
    assert not server.requests(*START)


def test_a_connection_that_ends_while_idle_is_no_error(server, opened):
    """Also if the client learns of its end and of the next calls at once, and cannot repeat them."""
    server.script["TIMER SET"] = answer(state="running")
    for count in range(1, 31):
        assert "value" in opened.call("set"), count
        with opened.stopped():
            for one in list(server.open.values()):
                one.close()
            calls = [opened.begin("call", call="set") for _ in range(5)]
        for result in map(opened.result, calls):
            assert "value" in result, (count, result)
        assert len(server.requests("TIMER", "SET")) == 6 * count


# Closed


def test_calls_and_watches_end_when_the_client_is_closed(server, opened):
    watch = opened.begin("watch", patterns=["timer:*"])
    server.subscribed.get(timeout=PATIENCE)
    server.script["COUNTDOWN START"] = HOLD
    call = opened.begin("call", call="start")
    server.wait_for(*START)
    opened.do("close")
    result = opened.result(call)
    assert failed(result, "closed") and failed(result, "unsure"), result
    assert "end" in ended(opened, watch)
    count = server.count
    result = opened.call("ping")
    assert failed(result, "closed") and not failed(result, "unsure"), result
    eventually(lambda: not server.open, "no connection is left")
    assert server.count == count


def test_lost_connections_leave_none_behind(server, opened):
    server.script["TIMER SET"] = CLOSE
    for _ in range(10):
        opened.call("set")
        opened.call("ping")
    eventually(lambda: len(server.open) <= 1, lambda: f"{len(server.open)} connections")


# Wrong calls


def test_a_wrong_argument_is_an_error_of_the_language(server, opened):
    for call in ("wrong", "missing"):
        result = opened.call(call)
        assert failed(result, "argument") and not failed(result, "unsure"), result
    assert not server.requests("TIMER") and not server.requests("COUNTDOWN")


@pytest.mark.parametrize("words", [
    ("CLIENT", "REPLY", "SKIP"), ("MONITOR",), ("multi",), ("SUBSCRIBE", "timer:a"), ("HELLO", "2"),
    ("Client", "reply", "off"), ("RESET",), ("QUIT",), ("EXEC",), ("WATCH", "k"),
    ("punsubscribe",)], ids=" ".join)  # fmt: skip
def test_a_raw_command_that_breaks_a_shared_connection_is_refused(server, opened, words):
    opened.call("ping")
    seen = len(server.seen)
    result = opened.call("raw", words=words)
    assert failed(result, "argument") and not failed(result, "unsure"), result
    assert len(server.seen) == seen
    assert opened.call("raw", words=["PING"])["value"] == "PONG"


def test_a_raw_command_without_words_is_refused(opened):
    assert failed(opened.call("raw", words=[]), "argument")


# Watches


def test_every_event_has_a_cursor(server, opened):
    watch = opened.begin("watch", patterns=["timer:a"])
    one = server.subscribed.get(timeout=PATIENCE)
    one.publish("timer:a", event="snapshot", seq=1)
    one.publish("timer:a", seq=2)
    assert [opened.result(watch)["cursor"] for _ in range(2)] == ["c0", "c0-2"]


def test_a_watch_without_permission_ends(server, opened):
    server.script["PSUBSCRIBE"] = Failure("NOPERM not for you")
    assert failed(ended(opened, opened.begin("watch", patterns=["timer:*"])), "NOPERM")


def test_a_watch_that_loses_its_permission_ends(server, opened):
    watch = opened.begin("watch", patterns=["timer:*"])
    one = server.subscribed.get(timeout=PATIENCE)
    server.script["PSUBSCRIBE"] = Failure("NOPERM this user may no longer subscribe")
    one.close()
    assert failed(ended(opened, watch), "NOPERM")


@pytest.mark.parametrize("name", ["HELLO", "SUBSCRIBE", "EVENTS SINCE"])
def test_a_watch_that_loses_a_part_of_its_permission_ends(server, opened, name):
    """Even if the daemon still allows its other channel, or refuses only the missed events."""
    watch = opened.begin("watch", patterns=["timer:a", "timer:b"])
    server.subscribed.get(timeout=PATIENCE)
    one = server.subscribed.get(timeout=PATIENCE)
    script = server.script[name]

    def refuse(one, words):
        if name == "SUBSCRIBE" and words[1:] == ["timer:a"]:
            return script(one, words)
        return Failure("NOPERM this user may no longer do so")

    server.script[name] = refuse
    one.close()
    assert failed(ended(opened, watch), "NOPERM")


@pytest.mark.parametrize("driver", ["swift"], indirect=True)
def test_a_subscription_outlives_a_channel_that_is_refused(server, opened):
    """Only the Swift client has subscriptions that continue. Each error is matched to its command."""
    seen = opened.begin("subscribe", patterns=["timer:a", "timer:b", "timer:c"])
    one = [server.subscribed.get(timeout=PATIENCE) for _ in range(3)][0]
    one.publish("timer:b", seq=1)
    assert opened.result(seen)["seq"] == 1

    def subscribe(one, words):
        if words[1] == "timer:b":
            return Failure("NOPERM this user may no longer do so")
        return server.subscribe(one, words)

    server.script["SUBSCRIBE"] = subscribe
    for number in range(2, 5):
        one.close()
        result = opened.result(seen)
        assert (result["name"], result["key"]) == ("denied", "b"), result
        assert result["cursor"]
        one = [server.subscribed.get(timeout=PATIENCE) for _ in range(2)][0]
        one.publish("timer:c", seq=number)
        assert opened.result(seen)["seq"] == number
    # It requests the channel again on each connection.
    server.script["SUBSCRIBE"] = server.subscribe
    one.close()
    one = [server.subscribed.get(timeout=PATIENCE) for _ in range(3)][0]
    one.publish("timer:b", seq=9)
    assert opened.result(seen)["seq"] == 9


def test_a_watch_gives_up_a_connection_that_does_not_answer(server, driver):
    driver.do("open", timeout_ms=500)
    server.script["EVENTS CURSOR"] = [HOLD, "c0"]
    server.script["EVENTS SINCE"] = [HOLD, server.script["EVENTS SINCE"]]
    watch = driver.begin("watch", patterns=["timer:a"])
    one = server.subscribed.get(timeout=PATIENCE)
    one.publish("timer:a", seq=1)
    assert driver.result(watch)["seq"] == 1
    one.close()
    for _ in range(2):
        one = server.subscribed.get(timeout=PATIENCE)
    one.publish("timer:a", seq=2)
    assert driver.result(watch)["seq"] == 2


@pytest.mark.parametrize("code", ["LOADING", "UNAVAILABLE"])
def test_a_watch_waits_for_a_daemon_that_is_not_ready(server, opened, code):
    server.script["EVENTS CURSOR"] = [Failure(f"{code} not yet"), "c0"]
    watch = opened.begin("watch", patterns=["timer:*"])
    server.subscribed.get(timeout=PATIENCE).publish("timer:a", seq=1)
    assert opened.result(watch)["key"] == "a"


@pytest.mark.parametrize("name, limit", [
    ("HELLO", "max-connections"), ("SUBSCRIBE", "max-patterns-per-uid"),
    ("EVENTS SINCE", "max-output-per-uid"),
])  # fmt: skip
def test_a_watch_that_was_connected_waits_for_room(server, opened, name, limit):
    """After a restart all clients connect at once, and some find room only later."""
    watch = opened.begin("watch", patterns=["timer:a"])
    one = server.subscribed.get(timeout=PATIENCE)
    one.publish("timer:a", seq=1)
    assert opened.result(watch)["seq"] == 1
    full = Failure(f"LIMIT {limit} is 1 and reached")
    server.script[name] = [full, full, server.script[name]]
    one.close()
    for _ in range(3 if name == "EVENTS SINCE" else 1):
        one = server.subscribed.get(timeout=PATIENCE)
    one.publish("timer:a", seq=2)
    assert opened.result(watch)["seq"] == 2


def test_a_watch_that_finds_no_room_at_first_ends(server, opened):
    server.script["HELLO"] = Failure("LIMIT max-connections is 1 and reached")
    assert failed(ended(opened, opened.begin("watch", patterns=["timer:*"])), "LIMIT")


def test_a_watch_catches_up_in_pages(server, opened):
    """The second page is read only once the program has the first."""
    first = threading.Event()

    def page(one, words):
        place = int(words[2][1:].partition("-")[0])
        if place > 1:
            assert first.wait(PATIENCE)
        return {
            "complete": True, "more": place < 3, "last_seq": place, "cursor": f"c{place + 1}",
            "events": [["timer:a", line("timer:a", seq=place)]]}

    server.script["EVENTS SINCE"] = page
    watch = opened.begin("watch", patterns=["timer:a"], since="c1")
    assert opened.result(watch)["seq"] == 1
    first.set()
    assert [opened.result(watch)["seq"] for _ in range(2)] == [2, 3]
    server.subscribed.get(timeout=PATIENCE).publish("timer:a", seq=4)
    result = opened.result(watch)
    assert (result["seq"], result["cursor"]) == (4, "c4-4")


def test_an_event_that_comes_both_ways_is_reported_once(server, opened):
    def missed(one, words):
        server.last.publish("timer:a", seq=7)
        server.last.publish("timer:a", seq=8)
        return {"complete": True, "more": False, "last_seq": 7, "cursor": "c7",
                "events": [["timer:a", line("timer:a", seq=6)], ["timer:a", line("timer:a", seq=7)]]}  # fmt: skip

    def subscribe(one, words):
        server.last = one
        return server.subscribe(one, words)

    server.script.update({"EVENTS SINCE": missed, "SUBSCRIBE": subscribe})
    watch = opened.begin("watch", patterns=["timer:a"], since="c5")
    assert [opened.result(watch)["seq"] for _ in range(3)] == [6, 7, 8]


def test_missing_events_are_reported_as_a_gap(server, opened):
    server.script["EVENTS SINCE"] = {
        "complete": False, "more": False, "events": [], "cursor": "c9", "last_seq": 9}
    watch = opened.begin("watch", patterns=["timer:a"], since="c1")
    result = opened.result(watch)
    assert result["name"] == "gap" and result["cursor"]


def test_a_slow_reader_of_events_is_bounded_and_then_has_a_gap(server, opened):
    """Events that a program does not read fill no memory: the client stops to take them."""
    watch = opened.begin("watch", patterns=["timer:*"], count=1)
    one = server.subscribed.get(timeout=PATIENCE)
    server.script["EVENTS SINCE"] = {
        "complete": False, "more": False, "events": [], "cursor": "c1", "last_seq": 1}
    one.far.settimeout(3)
    sent = 0
    with contextlib.suppress(OSError):
        # As the daemon does, the server gives up a client that does not read.
        for sent in range(40_000):
            one.publish("timer:a", seq=sent + 1, payload="x" * 1000)
    one.close()
    assert sent < 39_000
    opened.result(watch)
    opened.do("more", of=watch, count=1 << 17)
    seen = 1
    while (result := opened.result(watch))["name"] != "gap":
        seen += 1
        assert result["seq"] == seen
    assert seen <= sent
    server.subscribed.get(timeout=PATIENCE).publish("timer:a", seq=50_000)
    assert opened.result(watch)["seq"] == 50_000


def test_pauses_grow_until_a_connection_has_lasted(server, opened):
    moments = []

    def subscribe(one, words):
        moments.append(time.monotonic())
        server.subscribe(one, words)
        return CLOSE

    server.script["PSUBSCRIBE"] = subscribe
    opened.begin("watch", patterns=["timer:*"])
    eventually(lambda: len(moments) >= 9, "it connects again")
    assert moments[8] - moments[7] > 0.2


# A real daemon, behind a proxy that cuts, delays and drops its replies


@pytest.fixture
def unreliable(daemon):
    proxy = Unreliable(daemon, daemon.directory / "proxy")
    yield proxy
    proxy.listener.close()


@pytest.fixture(params=contract.LANGUAGES)
def through(request, unreliable):
    """A driver whose client reaches the daemon through the proxy."""
    driver = contract.driver(request.param, unreliable.path)
    yield driver
    driver.end()


@pytest.mark.parametrize("losses, expected", [
    ([CLOSE], "accepted"), ([CUT], "accepted"), ([0.1], "accepted"), ([CLOSE, 0.1], "accepted"),
    ([CLOSE, CLOSE], "unsure"), ([CUT, CLOSE], "unsure"),
], ids=["closed", "cut", "late", "closed then late", "closed twice", "cut then closed"])  # fmt: skip
def test_a_start_whose_reply_is_lost_runs_once(unreliable, through, client, losses, expected):
    """The daemon ran it the first time, when nobody heard its answer."""
    through.do("open")
    for number in range(10):
        unreliable.fates["COUNTDOWN START"] = list(losses)
        result = through.call("start", key=f"k{number}")
        if expected == "accepted":
            assert result.get("value") == "accepted", result
        else:
            assert failed(result, expected) and not failed(result, "down"), result
        assert not unreliable.fates["COUNTDOWN START"]
        assert view(client("COUNTDOWN", "GET", f"k{number}"))["sends"] == 1
    assert through.call("start", key="k0")["value"] == "refused"


@pytest.mark.parametrize("loss", [4, HOLD], ids=["late", "held"])
def test_a_start_whose_reply_comes_too_late_runs_once(unreliable, through, client, loss):
    # Long enough for the answered calls, even on a busy machine.
    through.do("open", timeout_ms=2000)
    assert through.call("ping")["value"] == "PONG"
    unreliable.fates["COUNTDOWN START"] = [loss]
    result = through.call("start")
    assert failed(result, "unsure") and not failed(result, "down"), result
    assert view(client("COUNTDOWN", "GET", "k"))["sends"] == 1
    # A late reply reaches no other call, and delays none.
    assert through.call("ping")["value"] == "PONG"
    assert through.call("start")["value"] == "refused"
    assert through.call("start", key="other")["value"] == "accepted"


def test_events_over_connections_that_are_cut_are_neither_lost_nor_doubled(unreliable, through, client):
    """Each cut is somewhere in what comes next: between events, or in the middle of one. More events
    come while the watch asks for what it has missed: it has those in both ways."""
    chance, keys, lock = random.Random(1), [], threading.Lock()

    def add(count):
        with lock:
            for _ in range(count):
                keys.append(f"t{len(keys)}")
                client("TIMER", "SET", keys[-1], "1h")

    through.do("open")
    watch = through.begin("watch", patterns=["timer:*"])
    # An event or a snapshot: it is subscribed.
    client("TIMER", "SET", "first", "1h")
    assert through.result(watch)["key"] == "first"
    unreliable.before["EVENTS SINCE"] = lambda: add(3)
    events = []
    for _ in range(12):
        unreliable.cut_after(chance.randrange(1500))
        add(12)
        while len(events) < len(keys):
            if (event := through.result(watch))["name"] != "snapshot":
                events.append(event)
    assert len(unreliable.links) > 6
    assert [(event["name"], event["key"]) for event in events] == [("set", key) for key in keys]
    # Each has its place: a new watch continues after it.
    place = chance.randrange(len(events) - 1)
    del unreliable.before["EVENTS SINCE"]
    again = through.begin("watch", patterns=["timer:*"], since=events[place]["cursor"])
    assert [through.result(again)["key"] for _ in keys[place + 1:]] == keys[place + 1:]
