"""CLOCK SET, SUSPEND, RESTART and REBOOT, and the state of a daemon with virtual time."""

import os

import pytest

from countdownd import Closed, eventually, is_asleep, view

pytestmark = pytest.mark.daemon(virtual_time=True)


def milliseconds(client):
    seconds, microseconds = map(int, client("TIME"))
    return seconds * 1_000 + microseconds // 1_000


def remaining(client, key):
    return view(client("COUNTDOWN", "GET", key))["remaining_ms"]


def again(daemon, client, *words):
    """Sends CLOCK RESTART or REBOOT; returns a client of the restarted daemon, which has answered."""
    answer = client("CLOCK", *words)
    new = daemon.connect()
    assert answer == milliseconds(new)
    with pytest.raises(Closed):
        client.receive()
    return new


def test_set_moves_the_wall_clock_and_what_follows_it(client):
    start = milliseconds(client)
    client("COUNTDOWN", "START", "k")
    client("TIMER", "SET", "wall", "1h", "CLOCK", "wall")
    client("TIMER", "SET", "boot", "1h")
    assert client("CLOCK", "SET", "+30m") == start + 1_800_000
    assert remaining(client, "k") == 60_000
    assert view(client("TIMER", "GET", "wall"))["remaining_ms"] == 1_800_000
    assert view(client("TIMER", "GET", "boot"))["remaining_ms"] == 3_600_000
    assert client("CLOCK", "SET", "-1h") == start - 1_800_000
    assert view(client("TIMER", "GET", "wall"))["remaining_ms"] == 5_400_000
    # Timers that become due fire before the reply.
    assert client("CLOCK", "SET", start + 7_200_000) == start + 7_200_000
    assert client("TIMER", "GET", "wall") is None
    assert view(client("TIMER", "GET", "boot"))["remaining_ms"] == 3_600_000


@pytest.mark.parametrize("time", ["soon", "-100000d", "253402300800000", "+", "-1", "+3650d1ms", ""])
def test_an_impossible_time_is_refused(client, time):
    before = client("TIME")
    if time == "-1":
        # A relative time: one millisecond back.
        assert client("CLOCK", "SET", time) == int(before[0]) * 1_000 + int(before[1]) // 1_000 - 1
        return
    client.error("ERR", "CLOCK", "SET", time)
    assert client("TIME") == before


def test_suspend_lets_time_pass_in_which_nothing_runs(daemon, client):
    client("COUNTDOWN", "START", "k")
    client("TIMER", "SET", "t", "1m", "EVERY", "1m", "LATE", "coalesce")
    start = milliseconds(client)
    assert client("CLOCK", "SUSPEND", "9m") == start + 9 * 60_000
    assert view(client("COUNTDOWN", "GET", "k"))["state"] == b"ready"
    assert int(daemon.info("lateness")["late_us_max"]) == 8 * 60_000_000
    # The timer fires once for the nine minutes.
    assert view(client("TIMER", "GET", "t"))["fired"] == 1


@pytest.mark.parametrize("words", [["RESTART"], ["RESTART", "20s"], ["REBOOT"], ["REBOOT", "20s"]])
def test_the_daemon_starts_again_with_its_state(daemon, words):
    client, other = daemon.connect(), daemon.connect()
    client("COUNTDOWN", "START", "k")
    client("COUNTDOWN", "START", "own", "OWNER", "connection")
    other("SCOPE", "OPEN", "s")
    client("CLOCK", "ADVANCE", "10s")
    time, pid = milliseconds(client), daemon.pid
    generation = view(client("COUNTDOWN", "GET", "k"))["generation"]
    client = again(daemon, client, *words)
    assert other.is_closed()
    pause = 20_000 if len(words) > 1 else 0
    assert milliseconds(client) == time + pause, "time is frozen, also while it starts"
    assert remaining(client, "k") == 50_000 - pause
    assert view(client("COUNTDOWN", "GET", "k"))["generation"] == generation
    assert client("COUNTDOWN", "GET", "own") is None
    assert client("SCOPE", "GET", "s") is None
    assert daemon.pid == pid
    assert view(client("COUNTDOWN", "START", "new"))["generation"] > generation
    assert client("CLOCK", "ADVANCE", "50s") == time + pause + 50_000
    assert view(client("COUNTDOWN", "GET", "k"))["state"] == b"ready"


def test_what_falls_due_meanwhile_happens_after_the_start(daemon, client):
    client("COUNTDOWN", "START", "k")
    last = client("EVENTS", "LAST")
    client = again(daemon, client, "RESTART", "5m")
    assert view(client("COUNTDOWN", "GET", "k"))["state"] == b"ready"
    reply = view(client("EVENTS", "SINCE", last))
    assert reply["complete"] == 1 and b'"event":"ready"' in reply["events"][-1][-1]


def test_a_reboot_sets_the_boot_clock_back_and_a_restart_does_not(daemon, client):
    """The log has the boot ID and clock: they tell whether a deadline is from before this boot."""
    client("COUNTDOWN", "START", "k", "EVERY", "1h")
    client("CLOCK", "ADVANCE", "3h")
    client = again(daemon, client, "REBOOT")
    client = again(daemon, client, "RESTART", "1h")
    client("CLOCK", "SET", "-2h")
    # The wall clock falls back. It tells how long a reboot takes, at least zero.
    client("CLOCK", "ADVANCE", "1h")
    assert remaining(client, "k") == 55 * 3_600_000
    client = again(daemon, client, "REBOOT", "1h")
    assert remaining(client, "k") == 54 * 3_600_000


def test_the_wall_clock_may_be_set_back_across_a_reboot(daemon, client):
    client("COUNTDOWN", "START", "k", "EVERY", "1h")
    client = again(daemon, client, "REBOOT", "1h")
    client("CLOCK", "SET", "-5h")
    client("CLOCK", "ADVANCE", "30m")
    assert remaining(client, "k") == 58.5 * 3_600_000


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_daemon_that_is_started_again_continues_at_its_time(daemon, client, how):
    client("COUNTDOWN", "START", "k")
    client("CLOCK", "SET", "+10h")
    client("CLOCK", "ADVANCE", "7s")
    time = client("TIME")
    daemon.restart(how)
    client = daemon.connect()
    assert client("TIME") == time
    assert remaining(client, "k") == 53_000
    client("CLOCK", "ADVANCE", "53s")
    assert view(client("COUNTDOWN", "GET", "k"))["state"] == b"ready"


def test_many_restarts_leave_no_descriptors_behind(daemon, client):
    def descriptors():
        """Returns the number of open descriptors, once no thread does anything any more."""
        eventually(lambda: is_asleep(daemon.pid), "it sleeps")
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    client = again(daemon, client, "RESTART")
    before = descriptors()
    for _ in range(3):
        client = again(daemon, client, "REBOOT")
    assert descriptors() == before
    # The daemon still receives signals: the fixture ends it with one.
    client.error("ERR", "CLOCK", "RESTART", "x")


def test_without_a_state_nothing_survives_but_time_and_numbers(start_daemon):
    daemon = start_daemon(virtual_time=True, arguments=["--durability", "none"])
    client = daemon.connect()
    generation = view(client("COUNTDOWN", "START", "k"))["generation"]
    time = client("CLOCK", "ADVANCE", "10s")
    client = again(daemon, client, "RESTART", "1s")
    assert client("COUNTDOWN", "GET", "k") is None
    assert milliseconds(client) == time + 1_000
    assert view(client("COUNTDOWN", "START", "k"))["generation"] > generation


def test_time_ends_with_the_year_9999(client):
    for word in ("ADVANCE", "SUSPEND", "RESTART", "REBOOT"):
        client("CLOCK", "SET", 253_402_300_799_000)
        assert "year 9999" in client.error("ERR", "CLOCK", word, "1h")


def test_the_last_years_survive_a_restart(daemon, client):
    """Whatever time CLOCK SET accepts is stored: timers of both clocks, events and numbers."""
    client("CLOCK", "SET", 200_000_000_000_000)
    client("TIMER", "SET", "t", "30d", "CLOCK", "wall")
    client("TIMER", "SET", "u", "30d")
    for _ in range(2):
        client = again(daemon, client, "RESTART")
        for key in ["t", "u"]:
            assert view(client("TIMER", "GET", key))["remaining_ms"] == 30 * 86_400_000
        # Its numbers begin at that time, and its event is stored.
        generation = view(client("COUNTDOWN", "START", "k"))["generation"]
        assert generation > 1 << 53
        last = client("EVENTS", "LAST")
    client("CLOCK", "SET", 253_402_300_799_999)
    client = again(daemon, client, "REBOOT")
    assert view(client("EVENTS", "SINCE", last))["complete"] == 1
    assert view(client("TIMER", "GET", "u"))["remaining_ms"] == 30 * 86_400_000
    assert client("TIMER", "GET", "t") is None
    assert "corrupt" not in daemon.log
