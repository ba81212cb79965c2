"""TIMER on virtual time: late periods, the wall clock, timers that are set again, times of day."""

import json

import pytest

from countdownd import Closed, view

pytestmark = pytest.mark.daemon(virtual_time=True)
HOUR = 3_600_000


def get(client, key="t"):
    return view(client("TIMER", "GET", key))


def again(daemon, client, *words):
    """Sends CLOCK RESTART or REBOOT; returns a client of the restarted daemon."""
    client("CLOCK", *words)
    with pytest.raises(Closed):
        client.receive()
    return daemon.connect()


def now(client):
    seconds, microseconds = map(int, client("TIME"))
    return seconds * 1_000 + microseconds // 1_000


def fired(client, start, since=0):
    """Returns when timers fired, in milliseconds since `start`."""
    lines = view(client("EVENTS", "SINCE", since))["events"]
    events = [json.loads(line) for _, line in lines]
    return [one["now_unix_ms"] - start for one in events if one["event"] == "fired"]


@pytest.mark.parametrize("how", [["SUSPEND"], ["RESTART"], ["REBOOT"]])
def test_a_period_that_is_hours_late_is_skipped(daemon, client, how):
    client("TIMER", "SET", "t", "24h", "EVERY", "24h", "LATE", "skip")
    client("CLOCK", "ADVANCE", "23h")
    if how == ["SUSPEND"]:
        client("CLOCK", "SUSPEND", "8h")
    else:
        client = again(daemon, client, *how, "8h")
    timer = get(client)
    assert (timer["fired"], timer["missed"], timer["remaining_ms"]) == (0, 1, 17 * HOUR)
    # What was skipped stays so.
    client = again(daemon, client, "RESTART")
    assert get(client)["missed"] == 1


def test_a_timer_of_the_wall_clock_goes_on_after_a_set_back(client):
    start = now(client)
    client("TIMER", "SET", "t", "5s", "EVERY", "5s", "CLOCK", "wall")
    client("TIMER", "SET", "once", "5m", "CLOCK", "wall")
    client("CLOCK", "ADVANCE", "7s")
    client("CLOCK", "SET", "-1h")
    assert get(client)["remaining_ms"] == 3_000
    client("CLOCK", "ADVANCE", "10s")
    assert fired(client, start) == [5_000, 10_000 - HOUR, 15_000 - HOUR]
    assert get(client, "once")["remaining_ms"] == 5 * 60_000 - 17_000 + HOUR


def test_a_set_back_survives_a_restart_and_one_meanwhile_is_noticed(daemon, client):
    client("TIMER", "SET", "t", "5s", "EVERY", "5s", "CLOCK", "wall")
    client("CLOCK", "ADVANCE", "7s")
    client("CLOCK", "SET", "-1h")
    client = again(daemon, client, "RESTART", "12s")
    timer = get(client)
    # It was due 3 s after the set-back.
    assert (timer["fired"], timer["missed"], timer["remaining_ms"]) == (2, 1, 1_000)
    client = again(daemon, client, "REBOOT")
    client("CLOCK", "SET", "-2h")
    client = again(daemon, client, "RESTART")
    # The next time would be 1 s away, less than half a period after it fired.
    assert get(client)["remaining_ms"] == 6_000


def test_set_back_while_it_sleeps_in_either_order(client):
    client("TIMER", "SET", "t", "24h", "EVERY", "24h", "LATE", "skip", "CLOCK", "wall")
    client("CLOCK", "ADVANCE", "23h")
    client("CLOCK", "SUSPEND", "2h")
    assert get(client)["missed"] == 1
    client("CLOCK", "SET", "-1h30m")
    assert get(client)["remaining_ms"] == 30 * 60_000
    client("CLOCK", "ADVANCE", "30m")
    assert get(client)["fired"] == 1
    client("CLOCK", "SET", "-1h")
    # It has just fired, so the same time of day does not count again.
    assert get(client)["remaining_ms"] == 25 * HOUR
    client("CLOCK", "SUSPEND", "26h")
    timer = get(client)
    assert (timer["fired"], timer["missed"], timer["remaining_ms"]) == (1, 2, 23 * HOUR)


def test_a_timer_that_is_set_again_keeps_its_phase(client):
    start = now(client)
    for _ in range(4):
        reply = view(client("TIMER", "SET", "report", "1h", "EVERY", "1h", "KEEP"))
        assert (reply["accepted"], reply["reason"]) == (1, None)
        client("CLOCK", "ADVANCE", "50m")
    assert fired(client, start) == [HOUR, 2 * HOUR, 3 * HOUR]


def test_nx_and_keep_in_a_transaction(client):
    client("MULTI")
    client("TIMER", "SET", "t", "1h", "EVERY", "1h", "NX")
    client("TIMER", "SET", "t", "2h", "NX", "PAYLOAD", "b")
    client("TIMER", "SET", "t", "2h", "EVERY", "1h", "KEEP", "PAYLOAD", "c")
    first, second, third = map(view, client("EXEC"))
    assert (first["accepted"], second["accepted"], third["accepted"]) == (1, 0, 1)
    assert second["reason"] == b"exists" and second["payload"] is None
    assert third["remaining_ms"] == HOUR and third["payload"] == b"c"
    assert first["generation"] == second["generation"] == third["generation"]


def test_a_timer_at_a_time_of_day(daemon, client):
    start = now(client)
    reply = view(client("TIMER", "SET", "t", "AT", start + HOUR, "EVERY", "24h"))
    assert (reply["deadline_unix_ms"], reply["clock"]) == (start + HOUR, b"wall")
    client("CLOCK", "SET", "-1h")
    assert get(client)["remaining_ms"] == 2 * HOUR
    client = again(daemon, client, "REBOOT", "1h")
    client("CLOCK", "SET", "+30m")
    assert get(client)["remaining_ms"] == HOUR // 2
    client("CLOCK", "ADVANCE", "1h")
    assert fired(client, start) == [HOUR]


def test_a_time_that_has_passed_fires_at_once(client):
    start = now(client)
    client("TIMER", "SET", "t", "AT", start - HOUR)
    assert client("TIMER", "GET", "t") is None
    client("TIMER", "SET", "f", "AT", start - 90_000, "EVERY", "1m")
    client("TIMER", "SET", "s", "AT", start - 90_000, "EVERY", "1m", "LATE", "skip")
    assert [get(client, key)["fired"] for key in "fs"] == [1, 0]
    assert [get(client, key)["missed"] for key in "fs"] == [1, 2]
    assert fired(client, start) == [0, 0]


@pytest.mark.parametrize(
    "words, problem",
    [
        (["AT", "0", "CLOCK", "boot"], "AT is a time of the wall clock"),
        (["5s", "AT", "0"], "give the duration or AT, not both"),
        (["KEEP"], "the time until it fires is missing"),
        (["5s", "KEEP", "NX"], "KEEP updates a timer that NX leaves as it is"),
        (["AT", "soon"], "AT 'soon' is not an integer"),
        (["AT", "253402300799999"], "more than 3650d from now"),
        (["5s", "NX", "TOKEN", "t"], "unknown option 'TOKEN'"),
    ],
)
def test_contradictions_are_refused(client, words, problem):
    assert problem in client.error("ERR", "TIMER", "SET", "t", *words)
    assert client("TIMER", "GET", "t") is None


def test_leases_have_a_moment_after_a_suspend(client):
    client("SCOPE", "OPEN", "w", "TTL", "30s")
    begin = ("ONCE", "BEGIN", "job", "TTL", "24h", "OWNER", "scope:w")
    assert view(client(*begin))["accepted"] == 1
    client("CLOCK", "SUSPEND", "8h")
    assert view(client(*begin))["reason"] == b"duplicate"
    assert view(client("SCOPE", "GET", "w"))["remaining_ms"] == 10_000
    client("CLOCK", "ADVANCE", "9s")
    client("SCOPE", "TOUCH", "w")
    client("CLOCK", "SUSPEND", "8h")
    client("CLOCK", "ADVANCE", "10s")
    assert client("SCOPE", "GET", "w") is None
    assert view(client(*begin[:-1], "none"))["accepted"] == 1
