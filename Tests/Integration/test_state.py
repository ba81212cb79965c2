"""Which state survives a restart of the real daemon."""

import re

import pytest

from clocks import Clocks
from countdownd import PASSING, Nearly, eventually, request, view
from stored import KINDS

ENDS = ["terminate", "kill"]

POLICIES = """
policies:
  login:
    ladder: [40s, 2m]
    windows: [4/10m, 6/1h]
    channels: [sms, call, mail]
    validity: 5m
    attempts: 3
    title: "%m:%02s"
    ready-title: again
"""


def lasting(reply):
    fields = view(reply)
    if fields["deadline_unix_ms"] is not None:
        fields["deadline_unix_ms"] = Nearly(fields["deadline_unix_ms"])
    return {name: value for name, value in fields.items() if name not in PASSING}


@pytest.mark.daemon(config=POLICIES)
@pytest.mark.parametrize("how", ENDS)
def test_a_policy_is_as_it_was(daemon, how):
    client = daemon.connect()
    start = ["COUNTDOWN", "START", "k", "POLICY", "login"]
    client(*start)
    client("COUNTDOWN", "RETIME", "k", 0)
    second = view(client(*start))["generation"]
    client("COUNTDOWN", "ATTEMPT", "k")
    client("COUNTDOWN", "START", "idle", "POLICY", "login", "TOKEN", "gone")
    client("COUNTDOWN", "CANCEL", "idle")
    client("COUNTDOWN", "START", "passed", "POLICY", "login")
    client("COUNTDOWN", "PASS", "passed")
    keys = ["k", "idle", "passed"]
    before = {key: lasting(client("COUNTDOWN", "GET", key)) for key in keys}
    assert before["k"]["sends"] == 2 and before["k"]["attempts_left"] == 2
    assert before["idle"]["state"] == b"idle" and before["idle"]["sends_left"] == 2

    # Countdowns keep the rules that they were started with.
    daemon.config_path.write_text(POLICIES.replace("attempts: 3", "attempts: 9"))
    daemon.restart(how)
    client = daemon.connect()
    assert {key: lasting(client("COUNTDOWN", "GET", key)) for key in keys} == before
    answers = [view(client("COUNTDOWN", "ATTEMPT", "k"))["reason"] for _ in range(3)]
    assert answers == [None, None, b"locked"]
    assert view(client("COUNTDOWN", "ATTEMPT", "passed"))["reason"] == b"passed"
    # An attempt is a change like any other.
    daemon.restart(how)
    client = daemon.connect()
    assert view(client("COUNTDOWN", "ATTEMPT", "k"))["reason"] == b"locked"
    refunded = view(client("COUNTDOWN", "REFUND", "k", "GENERATION", second))
    assert (refunded["accepted"], refunded["sends"]) == (1, 1)
    # A new start uses the current rules.
    assert view(client("COUNTDOWN", "START", "new", "POLICY", "login"))["attempts_left"] == 9
    daemon.config_path.write_text("")
    daemon.restart(how)
    assert view(daemon.connect()("COUNTDOWN", "GET", "k"))["policy"] == b"login"


def test_timers_that_fell_due_meanwhile_fire_late_by_their_rule(start_daemon, tmp_path):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(environment=clocks.environment())
    client = daemon.connect()
    client("COUNTDOWN", "START", "c", "COUNT", 1, "EVERY", "60s")
    for late in ["fire", "skip", "coalesce"]:
        client("TIMER", "SET", f"once-{late}", "60s", "LATE", late, "PAYLOAD", late)
        client("TIMER", "SET", f"often-{late}", "60s", "EVERY", "40s", "LATE", late)
        client("TIMER", "SET", f"wall-{late}", "60s", "LATE", late, "CLOCK", "wall")
    due = {}
    for late in ["fire", "skip", "coalesce"]:
        for kind in ["once", "often", "wall"]:
            due[f"{kind}-{late}"] = view(client("TIMER", "GET", f"{kind}-{late}"))["deadline_unix_ms"]
    due["c"] = view(client("COUNTDOWN", "GET", "c"))["deadline_unix_ms"]
    daemon.stop("terminate")
    clocks.suspend(220)

    # The client connects before the daemon has loaded, and subscribes as soon as it may.
    daemon.is_expected_to_run = True
    daemon.start_without_waiting()
    eventually(daemon.listens, "it listens")
    client = daemon.connect()
    client.retry("LOADING", "PSUBSCRIBE", "*")
    daemon_info = eventually(
        lambda: (info := daemon.info("lateness", "stats"))["events"] != "0" and info, "events")
    assert daemon_info
    with daemon.connect() as other:
        page = other("TIMER", "LIST")[1]
        left = {view(reply)["key"].decode(): view(reply) for reply in page}
        assert set(left) == {"often-fire", "often-skip", "often-coalesce"}
        for key, timer in left.items():
            phase = (timer["deadline_unix_ms"] - due[key]) % 40_000
            assert min(phase, 40_000 - phase) <= 2, (key, phase)
            assert timer["missed"] >= 3
        assert left["often-skip"]["fired"] < left["often-fire"]["fired"]
        ready = view(other("COUNTDOWN", "GET", "c"))
        assert ready["state"] == b"ready" and abs(ready["deadline_unix_ms"] - due["c"]) <= 2
    info = daemon.info("lateness")
    assert any(re.search(r"max", name) and float(value) >= 1_000_000 for name, value in info.items()), info


@pytest.mark.parametrize("how", ENDS)
def test_entities_owned_by_a_connection_do_not_survive(daemon, how):
    client = daemon.connect()
    client("COUNTDOWN", "START", "kept")
    client("COUNTDOWN", "START", "mine", "OWNER", "connection")
    client("TIMER", "SET", "mine", "1h", "OWNER", "connection")
    client("HUD", "SHOW", "screen")
    # `given` passes from no owner to the connection, `taken` from the connection to no owner.
    client("COUNTDOWN", "START", "given")
    client("COUNTDOWN", "RETIME", "given", 0)
    client("COUNTDOWN", "START", "given", "OWNER", "connection")
    client("COUNTDOWN", "START", "taken", "OWNER", "connection")
    client("COUNTDOWN", "RETIME", "taken", 0)
    client("COUNTDOWN", "START", "taken")
    client("TIMER", "SET", "given", "1h")
    client("TIMER", "SET", "given", "1h", "OWNER", "connection")
    assert client("DBSIZE") == 7
    daemon.restart(how)
    client = daemon.connect()
    assert client("DBSIZE") == 2
    assert client("COUNTDOWN", "GET", "kept") and client("COUNTDOWN", "GET", "taken")


def test_places_are_used_again(daemon):
    client = daemon.connect()
    for n in range(50):
        client("COUNTDOWN", "START", f"a{n}")
        client("TIMER", "SET", f"a{n}", "1h")
    for round in range(3):
        client = daemon.connect()
        old, new = "abcd"[round], "abcd"[round + 1]
        pipeline = []
        for n in range(50):
            pipeline += [("COUNTDOWN", "CANCEL", f"{old}{n}"), ("TIMER", "DEL", f"{old}{n}")]
            if n % 2:
                pipeline += [("COUNTDOWN", "START", f"{new}{n}", "META", n)]
                pipeline += [("TIMER", "SET", f"{new}{n}", "1h", "PAYLOAD", n)]
            else:
                # Takes the place for a moment, and is never stored.
                pipeline += [("COUNTDOWN", "START", f"x{n}", "OWNER", "connection")]
                pipeline += [("COUNTDOWN", "CANCEL", f"x{n}"), ("PING",)]
                pipeline += [("COUNTDOWN", "START", f"{new}{n}", "META", n)]
                pipeline += [("TIMER", "SET", f"{new}{n}", "1h", "PAYLOAD", n)]
        client.send_bytes(b"".join(request(*words) for words in pipeline))
        for _ in pipeline:
            client.reply()
        daemon.restart(["kill", "terminate", "kill"][round])
        client = daemon.connect()
        assert client("DBSIZE") == 100
        for n in range(50):
            assert view(client("COUNTDOWN", "GET", f"{new}{n}"))["meta"] == b"%d" % n
            assert view(client("TIMER", "GET", f"{new}{n}"))["payload"] == b"%d" % n


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_place_is_free_once_nothing_is_stored_there(start_daemon, durability):
    daemon = start_daemon(arguments=["--durability", durability])
    client = daemon.connect()
    client("COUNTDOWN", "START", "first", "EVERY", "1h")
    for n in range(100):
        client("COUNTDOWN", "START", f"k{n}", "EVERY", "1h")
        client("TIMER", "SET", f"k{n}", "1h")
        client("COUNTDOWN", "CANCEL", f"k{n}")
        client("TIMER", "DEL", f"k{n}")
    client("COUNTDOWN", "START", "last", "EVERY", "1h")
    client("TIMER", "SET", "last", "1h")
    rows = daemon.query_stored("SELECT kind, max(place) < 4, count(*) FROM entities GROUP BY kind")
    assert rows == [(KINDS["countdown"], 1, 2), (KINDS["timer"], 1, 1)]


@pytest.mark.daemon(config="countdown:\n  keep-ready: 100ms\n")
@pytest.mark.parametrize("how", ENDS)
def test_ended_entities_leave_no_row(daemon, how):
    client = daemon.connect()
    client("COUNTDOWN", "START", "cancelled")
    client("COUNTDOWN", "CANCEL", "cancelled")
    client("COUNTDOWN", "START", "forgotten", "COUNT", 1, "EVERY", "10ms")
    client("TIMER", "SET", "deleted", "1h")
    client("TIMER", "DEL", "deleted")
    client("TIMER", "SET", "fired", "10ms")
    client("TIMER", "SET", "kept", "1h")
    eventually(lambda: client("DBSIZE") == 1, "it is forgotten")
    daemon.restart(how)
    assert daemon.query_stored("SELECT kind, count(*) FROM entities GROUP BY kind") == [(KINDS["timer"], 1)]
    assert [view["key"] for view in daemon.stored("timer")] == ["kept"]
    assert daemon.query_stored("PRAGMA integrity_check") == [("ok",)]


def test_a_ready_countdown_is_forgotten_in_time_over_a_restart(start_daemon, tmp_path):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(config="countdown:\n  keep-ready: 1h\n", environment=clocks.environment())
    client = daemon.connect()
    client("COUNTDOWN", "START", "c", "COUNT", 1, "EVERY", "1ms")
    eventually(lambda: view(client("COUNTDOWN", "GET", "c"))["state"] == b"ready", "ready")
    daemon.restart()
    client = daemon.connect()
    assert view(client("COUNTDOWN", "GET", "c"))["state"] == b"ready"
    clocks.suspend(3_600)
    eventually(lambda: client("COUNTDOWN", "GET", "c") is None, "it is forgotten")


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("durability", ["none", "process", "power"])
def test_each_durability(start_daemon, durability, how):
    daemon = start_daemon(arguments=["--durability", durability])
    client = daemon.connect()
    client.send_bytes(b"".join(request("COUNTDOWN", "START", n) for n in range(1_000)))
    views = [view(client.reply()) for _ in range(1_000)]
    assert all(fields["accepted"] for fields in views)
    assert daemon.info("persistence")["durability"] == durability
    daemon.restart(how)
    client = daemon.connect()
    assert client("DBSIZE") == (0 if durability == "none" else 1_000)
    assert daemon.state.exists() == (durability != "none")
    newest = max(fields["generation"] for fields in views)
    assert view(client("COUNTDOWN", "START", "next"))["generation"] > newest
