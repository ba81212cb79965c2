"""Clocks that are set, and a machine that sleeps, while the daemon runs."""

import json
import pathlib
import re
import signal

import pytest

from clocks import SECOND, Clocks
from countdownd import KEPT, eventually, frames, request, states, view

HOUR = 3_600


@pytest.fixture
def clocks(tmp_path):
    return Clocks(tmp_path)


@pytest.fixture
def daemon(start_daemon, clocks):
    return start_daemon(environment=clocks.environment())


def listen(daemon):
    client = daemon.connect()
    client("PSUBSCRIBE", "*")
    return client


def test_a_step_of_the_wall_clock_moves_wall_timers_only_and_at_once(daemon, clocks):
    client, listener = daemon.connect(), listen(daemon)
    client("COUNTDOWN", "START", "c", "COUNT", 1, "EVERY", "90m")
    client("TIMER", "SET", "boot", "90m")
    client("TIMER", "SET", "wall", "90m", "CLOCK", "wall")
    client("TIMER", "SET", "later", "150m", "CLOCK", "wall")
    before = view(client("COUNTDOWN", "GET", "c"))
    clocks.set_wall(2 * HOUR)
    # There was no request since: the daemon notices the step itself.
    fired = listener.events(until=lambda event: event["event"] == "fired")
    assert [event["key"] for event in fired if event["event"] == "fired"] == ["wall"]
    assert fired[-1]["late_us"] >= HOUR / 2 * 1_000_000
    assert client("TIMER", "GET", "wall") is None
    left = view(client("TIMER", "GET", "later"))["remaining_ms"]
    assert left <= HOUR / 2 * 1_000
    # Entities on the boot clock keep their remaining time; only their wall time moves.
    after = view(client("COUNTDOWN", "GET", "c"))
    assert 0 <= before["remaining_ms"] - after["remaining_ms"] < HOUR * 1_000
    moved = after["deadline_unix_ms"] - before["deadline_unix_ms"]
    assert abs(moved - 2 * HOUR * 1_000) <= 100
    assert view(client("TIMER", "GET", "boot"))["remaining_ms"] > HOUR * 1_000

    clocks.set_wall(-26 * HOUR)
    # On the day before, the timer waits for its time again.
    waiting = eventually(
        lambda: (v := view(client("TIMER", "GET", "later")))["remaining_ms"] > 25 * HOUR * 1_000 and v,
        "the timer has as long to go as the clock says",
    )
    assert waiting["fired"] == 0
    clocks.set_wall(27 * HOUR)
    fired = listener.events(until=lambda event: event["event"] == "fired")
    assert fired[-1]["key"] == "later"
    assert view(client("COUNTDOWN", "GET", "c"))["state"] == b"counting"


def test_a_repeating_timer_goes_on_after_the_wall_clock_is_set_back(daemon, clocks):
    client, listener = daemon.connect(), listen(daemon)
    client("TIMER", "SET", "t", "100ms", "EVERY", "100ms", "CLOCK", "wall")
    listener.events(until=lambda event: event["event"] == "fired")
    clocks.set_wall(-HOUR)
    # Without a request, and not only in an hour.
    before = client("TIME")
    while listener.event()[1]["now_unix_ms"] > (int(before[0]) + 1) * 1_000:
        pass


def test_a_lease_has_a_moment_after_a_sleep(daemon, clocks):
    client = daemon.connect()
    client("SCOPE", "OPEN", "w", "TTL", "1h")
    client("ONCE", "BEGIN", "job", "TTL", "24h", "OWNER", "scope:w")
    clocks.suspend(2 * HOUR)
    assert view(client("ONCE", "BEGIN", "job", "TTL", "24h", "OWNER", "scope:w"))["accepted"] == 0
    assert 0 < view(client("SCOPE", "GET", "w"))["remaining_ms"] <= 10_000
    assert view(client("SCOPE", "TOUCH", "w"))["remaining_ms"] == HOUR * 1_000


def test_after_a_sleep_due_timers_fire_late_and_the_others_are_nearer(daemon, clocks):
    client, listener = daemon.connect(), listen(daemon)
    client("COUNTDOWN", "START", "due", "COUNT", 60)
    client("COUNTDOWN", "START", "later", "COUNT", 2, "EVERY", "1h")
    client("TIMER", "SET", "often", "10m", "EVERY", "10m")
    client("TIMER", "SET", "wall", "30m", "CLOCK", "wall")
    client("HUD", "SHOW", "screen", "GRACE", "5m", "MAX", "1m")
    clocks.suspend(HOUR)
    heard = []
    while {event["key"] for event in heard} != {"due", "often", "wall", "screen"}:
        ends = ["ready", "fired", "will-appear"]
        heard += [event for event in [listener.event()[1]] if event["event"] in ends]
    late = {event["key"]: event["late_us"] / 1_000_000 for event in heard}
    for key, minutes in [("due", 59), ("often", 50), ("wall", 30), ("screen", 55)]:
        # The part of the sleep after the deadline, plus the time that the test takes.
        assert minutes * 60 - 1 <= late[key] < HOUR, (key, late)
    often = view(client("TIMER", "GET", "often"))
    assert (often["fired"], often["missed"]) == (1, 5)
    later = view(client("COUNTDOWN", "GET", "later"))
    assert later["state"] == b"counting" and later["remaining"] == 1
    # The sleep counts as time that has passed.
    assert later["remaining_ms"] <= HOUR * 1_000


def test_many_due_timers_after_a_sleep_starve_nobody(daemon, clocks):
    """The timers fire in slices, and other clients are answered in between."""
    count = 30_000
    client = daemon.connect()
    client.send_bytes(
        b"".join(request("TIMER", "SET", n, "30m", "OWNER", "connection") for n in range(count))
    )
    for _ in range(count):
        client.reply()
    seen = daemon.during(lambda: clocks.suspend(HOUR), "DBSIZE")
    assert seen == sorted(seen, reverse=True)
    assert {left for left in seen if 0 < left < count}, seen
    eventually(lambda: client("DBSIZE") == 0, "all have fired")


def test_deadlines_survive_a_sleep_and_a_restart(daemon, clocks):
    """Stored deadlines stay right after a sleep and a restart: a sleep is time that passes."""
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 3, "EVERY", "1h")
    before = view(client("COUNTDOWN", "GET", "k"))["deadline_unix_ms"]
    clocks.suspend(HOUR)
    daemon.restart("kill")
    client = daemon.connect()
    after = view(client("COUNTDOWN", "GET", "k"))
    assert after["remaining_ms"] <= 2 * HOUR * 1_000
    assert abs(after["deadline_unix_ms"] - before) <= 100
    clocks.set_wall(12 * HOUR)
    daemon.restart()
    stepped = view(daemon.connect()("COUNTDOWN", "GET", "k"))
    assert stepped["state"] == b"counting"
    assert 0 <= after["remaining_ms"] - stepped["remaining_ms"] < HOUR * 1_000


@pytest.mark.parametrize("how", ["terminate", "kill"])
@pytest.mark.parametrize("step", [2 * HOUR, -2 * HOUR])
def test_a_step_that_nothing_follows_moves_nothing_over_a_reboot(daemon, clocks, how, step):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "10h")
    clocks.suspend(3 * HOUR)
    before = view(client("COUNTDOWN", "GET", "k"))["remaining_ms"]
    stored = len(frames(daemon.state))
    clocks.set_wall(step)
    if how == "kill":
        # There is no request: the daemon notices the step itself.
        eventually(lambda: len(frames(daemon.state)) > stored, "it is stored")
    daemon.stop(how)
    clocks.reboot(away=60)
    daemon.start_again()
    after = view(daemon.connect()("COUNTDOWN", "GET", "k"))["remaining_ms"]
    assert 60_000 <= before - after < HOUR / 2 * 1_000


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_clock_that_is_lost_in_a_reboot_takes_back_nothing_that_had_passed(daemon, clocks, how):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "10h")
    before = view(client("COUNTDOWN", "GET", "k"))["remaining_ms"]
    # Nothing happens for hours, but the daemon stores its clocks.
    stored = len(frames(daemon.state))
    clocks.suspend(3 * HOUR)
    eventually(lambda: len(frames(daemon.state)) > stored, "it is stored")
    daemon.stop(how)
    clocks.reboot(away=-10 * 365 * 86_400)
    daemon.start_again()
    after = view(daemon.connect()("COUNTDOWN", "GET", "k"))["remaining_ms"]
    assert 3 * HOUR * 1_000 - 60_000 <= before - after < 4 * HOUR * 1_000


def test_the_clocks_are_stored_each_minute_though_nothing_happens(daemon, clocks):
    stored = len(frames(daemon.state))
    # The wall clock is not set, so the daemon stores because a minute has passed.
    clocks.boot += 61 * SECOND
    clocks.write()
    eventually(lambda: len(frames(daemon.state)) > stored, "it is stored")


def test_a_backup_after_a_step_means_the_same_after_a_reboot(daemon, clocks):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "10h")
    before = view(client("COUNTDOWN", "GET", "k"))["remaining_ms"]
    clocks.set_wall(HOUR)
    daemon.change_stored()
    clocks.reboot(away=60)
    daemon.start_again()
    after = view(daemon.connect()("COUNTDOWN", "GET", "k"))["remaining_ms"]
    assert 60_000 <= before - after < HOUR / 2 * 1_000


def test_a_wall_timer_that_is_paused_after_a_step_back_is_kept(daemon, clocks):
    client = daemon.connect()
    client("TIMER", "SET", "wall", "1h", "CLOCK", "wall")
    client("COUNTDOWN", "START", "other", "COUNT", 1, "EVERY", "10h")
    clocks.set_wall(-50 * 365 * 86_400)
    most = 3_650 * 86_400 * 1_000
    assert view(client("TIMER", "PAUSE", "wall"))["remaining_ms"] == most
    daemon.restart()
    client = daemon.connect()
    assert view(client("TIMER", "GET", "wall"))["remaining_ms"] == most
    assert view(client("COUNTDOWN", "GET", "other"))["state"] == b"counting"
    assert KEPT not in daemon.log and len(states(daemon.state)) == 1


def test_a_wall_clock_beyond_dispatch_times_works(daemon, clocks):
    clocks.set_wall(150 * 365 * 86_400)
    client, listener = daemon.connect(), listen(daemon)
    client("TIMER", "SET", "soon", "300ms", "CLOCK", "wall")
    client("TIMER", "SET", "later", "1h", "CLOCK", "wall")
    fired = listener.events(until=lambda event: event["event"] == "fired")[-1]
    assert fired["key"] == "soon" and fired["late_us"] >= 0
    # The daemon notices that the clock is corrected.
    clocks.set_wall(-150 * 365 * 86_400)
    client("TIMER", "SET", "then", "300ms", "CLOCK", "wall")
    fired = listener.events(until=lambda event: event["event"] == "fired")[-1]
    assert fired["key"] == "then"
    assert view(client("TIMER", "GET", "later"))["remaining_ms"] > 100 * 365 * 86_400 * 1_000


@pytest.mark.parametrize("is_down", [False, True])
def test_one_shot_timers_fire_however_late(daemon, clocks, is_down):
    client = daemon.connect()
    last = client("EVENTS", "LAST")
    for late in ["fire", "skip", "coalesce"]:
        client("TIMER", "SET", late, "10m", "LATE", late)
    if is_down:
        daemon.stop("terminate")
    clocks.suspend(5 * HOUR)
    if is_down:
        daemon.start_again()
        client = daemon.connect()

    def fired():
        told = view(client("EVENTS", "SINCE", last))["events"]
        return [event for event in (json.loads(line) for _, line in told) if event["event"] == "fired"]

    eventually(lambda: len(fired()) == 3, "they have fired")
    assert {event["key"] for event in fired()} == {"fire", "skip", "coalesce"}
    assert all(event["late_us"] >= 4.8 * HOUR * 1_000_000 for event in fired())
    # The maximum is exact, even beyond the range of the percentiles.
    assert int(daemon.info("lateness")["late_us_max"]) == max(event["late_us"] for event in fired())


def test_signals_wait_for_their_handler_in_every_thread(daemon):
    tasks = list(pathlib.Path(f"/proc/{daemon.pid}/task").iterdir())
    blocked = [int(re.search(r"SigBlk:\s+(\w+)", (task / "status").read_text())[1], 16) for task in tasks]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert all(mask >> number - 1 & 1 for mask in blocked), (number, blocked)
