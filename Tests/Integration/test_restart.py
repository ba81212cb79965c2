"""Countdowns without a policy over a restart of the daemon and a reboot of the machine."""

import pytest

from clocks import Clocks
from countdownd import PASSING, eventually, view

# Fields that depend on the time of the request.
# The boot clock usually shows less after a reboot; if it shows more, only the boot ID tells.
UPTIMES = {"reboot": 5, "reboot long ago": 10_000_000}
ENDS = ["terminate", "kill", *UPTIMES]
AWAY = 20


@pytest.fixture
def clocks(tmp_path):
    return Clocks(tmp_path)


@pytest.fixture
def daemon(start_daemon, clocks):
    return start_daemon(environment=clocks.environment())


@pytest.fixture(params=ENDS)
def restart(request, daemon, clocks):
    """Restarts the daemon or reboots the machine; returns how many seconds the machine was off."""

    def restart():
        if request.param not in UPTIMES:
            daemon.restart(request.param)
            return 0
        # A machine that goes down does not wait for the daemon.
        daemon.stop("kill")
        clocks.reboot(away=AWAY, uptime=UPTIMES[request.param])
        daemon.start_again()
        return AWAY

    return restart


def countdown(client, key):
    return view(client("COUNTDOWN", "GET", key))


def is_near(milliseconds, wanted, tolerance=3_000):
    """Returns whether two times agree; the tolerance is for a busy machine, and below `AWAY`."""
    return abs(milliseconds - wanted) <= tolerance


def lasting(fields):
    fields = dict(fields)
    fields.pop("deadline_unix_ms")
    return {name: value for name, value in fields.items() if name not in PASSING}


def test_all_options_of_start_survive(daemon, restart):
    client = daemon.connect()
    start = ["COUNTDOWN", "START", "k", "COUNT", 600, "EVERY", "1s", "FIRE"]
    start += ["TITLE", "%m:%02s 后重发", "READYTITLE", "重发验证码", "META", b"\0\xff\r\n", "TOKEN", "t-1"]
    first = view(client(*start))
    before = countdown(client, "k")
    assert before["title"] and before["meta"] == b"\0\xff\r\n"
    away = restart()
    client = daemon.connect()
    after = countdown(client, "k")
    # The wall clock was not set, so the deadline is the same.
    assert is_near(after["deadline_unix_ms"], before["deadline_unix_ms"], 100)
    assert after["remaining_ms"] <= before["remaining_ms"] - away * 1_000
    assert lasting(after) | {"title": None} == lasting(before) | {"title": None}
    # The title shows the remaining steps.
    seconds = after["remaining"]
    assert after["title"].decode() == f"{seconds // 60}:{seconds % 60:02} 后重发"
    # A repetition of the request receives the first result; another token is refused.
    again = view(client(*start))
    assert (again["accepted"], again["reason"]) == (1, b"repeated")
    assert again["generation"] == first["generation"]
    other = view(client("COUNTDOWN", "START", "k", "TOKEN", "t-2"))
    assert (other["accepted"], other["reason"]) == (0, b"cooldown")
    # RESEND uses the options of START.
    client("COUNTDOWN", "RETIME", "k", 0)
    assert countdown(client, "k")["title"].decode() == "重发验证码"
    resent = view(client("COUNTDOWN", "RESEND", "k"))
    assert (resent["accepted"], resent["count"], resent["every_ms"]) == (1, 600, 1_000)
    assert resent["meta"] == b"\0\xff\r\n" and resent["sends"] == 2
    assert resent["generation"] > first["generation"]


def test_a_paused_countdown_keeps_its_time(daemon, restart):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 60)
    before = view(client("COUNTDOWN", "PAUSE", "k"))
    restart()
    client = daemon.connect()
    after = countdown(client, "k")
    assert after["state"] == b"paused"
    # Neither the downtime nor the loading reduces the remaining time.
    assert after["remaining_ms"] == before["remaining_ms"]
    assert view(client("COUNTDOWN", "START", "k"))["reason"] == b"cooldown"
    resumed = view(client("COUNTDOWN", "RESUME", "k"))
    assert resumed["state"] == b"counting"
    assert is_near(resumed["remaining_ms"], before["remaining_ms"])


def test_a_refund_is_known_and_given_once(daemon, restart):
    client = daemon.connect()
    client("COUNTDOWN", "START", "given", "EVERY", "1h")
    generation = countdown(client, "given")["generation"]
    client("COUNTDOWN", "REFUND", "given", "GENERATION", generation)
    client("COUNTDOWN", "START", "open", "EVERY", "1h")
    sends = countdown(client, "given")["sends"]
    restart()
    client = daemon.connect()
    assert countdown(client, "given")["sends"] == sends
    again = view(client("COUNTDOWN", "REFUND", "given", "GENERATION", generation))
    assert (again["reason"], again["sends"]) == (b"repeated", sends)
    still = countdown(client, "open")
    refunded = view(client("COUNTDOWN", "REFUND", "open", "GENERATION", still["generation"]))
    assert refunded["accepted"] and refunded["sends"] == still["sends"] - 1
    assert view(client("COUNTDOWN", "START", "open"))["accepted"]


def test_ready_but_kept_is_ready_and_its_sends_count_on(daemon, restart):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "10ms", "READYTITLE", "again")
    eventually(lambda: countdown(client, "k")["state"] == b"ready", "it is ready")
    # The batch in which it became ready is stored before a later batch is answered.
    assert client("PING")
    before = countdown(client, "k")
    restart()
    client = daemon.connect()
    after = countdown(client, "k")
    assert (after["state"], after["title"]) == (b"ready", b"again")
    assert lasting(after) == lasting(before)
    assert view(client("COUNTDOWN", "RESEND", "k"))["sends"] == 2


def test_counting_goes_on_and_a_wall_timer_keeps_its_hour(daemon, restart):
    client = daemon.connect()
    client("TIMER", "SET", "wall", "1h", "EVERY", "15m", "CLOCK", "wall")
    client("TIMER", "SET", "boot", "1h", "EVERY", "15m")
    before = {key: view(client("TIMER", "GET", key)) for key in ["wall", "boot"]}
    away = restart()
    client = daemon.connect()
    for key, old in before.items():
        new = view(client("TIMER", "GET", key))
        assert is_near(new["deadline_unix_ms"], old["deadline_unix_ms"], 100), key
        assert new["remaining_ms"] <= old["remaining_ms"] - away * 1_000
        for name in ["generation", "every_ms", "clock", "late", "fired", "missed"]:
            assert new[name] == old[name], (key, name)


def test_what_fell_due_while_the_machine_was_off_happens_late(daemon, clocks):
    client = daemon.connect()
    client("COUNTDOWN", "START", "c", "COUNT", 10, "EVERY", "1s")
    client("TIMER", "SET", "t", "5s", "EVERY", "4s", "LATE", "coalesce")
    client("TIMER", "SET", "once", "5s", "LATE", "skip")
    due = {
        "c": countdown(client, "c")["deadline_unix_ms"],
        "t": view(client("TIMER", "GET", "t"))["deadline_unix_ms"],
    }
    last = client("EVENTS", "SINCE", 0)
    daemon.stop("kill")
    clocks.reboot(away=AWAY)
    daemon.start_again()
    client = daemon.connect()
    assert countdown(client, "c")["state"] == b"ready"
    timer = view(client("TIMER", "GET", "t"))
    assert timer["fired"] == 1 and timer["missed"] >= 3
    # The timer stays in phase with its first deadline: the wall clock runs through a reboot.
    phase = (timer["deadline_unix_ms"] - due["t"]) % 4_000
    assert min(phase, 4_000 - phase) <= 100
    assert client("TIMER", "GET", "once") is None
    assert last is not None
    late = int(daemon.info("lateness")["late_us_max"])
    # The countdown runs for 10 s of the downtime; it is late by the rest.
    assert late >= (AWAY - 10) * 1_000_000
    assert late < (AWAY + 600) * 1_000_000


def test_a_wall_clock_that_was_lost_stretches_nothing(daemon, clocks):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "COUNT", 60)
    before = countdown(client, "k")
    daemon.stop("kill")
    # Without a battery, the wall clock is years behind after a reboot.
    clocks.reboot(away=-10 * 365 * 86_400)
    daemon.start_again()
    after = countdown(daemon.connect(), "k")
    # No time counts since the clocks were last stored, which happens each minute.
    assert after["state"] == b"counting"
    assert after["remaining_ms"] <= before["remaining_ms"] + 60_000
    # Generations rise nevertheless.
    new = view(daemon.connect()("COUNTDOWN", "START", "new"))
    assert new["generation"] > before["generation"]
