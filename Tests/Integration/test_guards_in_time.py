"""ONCE with LEASE, DEBOUNCE with SPACING and `hud.reorder` on virtual time: suspends and restarts."""

import pytest

from countdownd import view

pytestmark = pytest.mark.daemon(virtual_time=True, config="hud: {reorder: 200ms}")


def say(client, *words):
    return view(client(*words))


def again(daemon, client, *words):
    """Sends CLOCK RESTART or REBOOT; returns a client of the restarted daemon."""
    client("CLOCK", *words)
    return daemon.connect()


def begin(client, *more):
    return say(client, "ONCE", "BEGIN", "k", "TTL", "24h", "LEASE", "30s", *more)


def test_a_lease_ends_in_a_suspend_and_its_late_result_is_accepted_once(client):
    first = begin(client)["generation"]
    client("CLOCK", "ADVANCE", "29s")
    assert say(client, "ONCE", "EXTEND", "k", "GENERATION", first)["lease_ms"] == 30_000
    assert begin(client)["reason"] == b"duplicate"
    client("CLOCK", "SUSPEND", "8h")
    assert client("ONCE", "GET", "k") is None
    client.error("NOTFOUND", "ONCE", "EXTEND", "k", "GENERATION", first)
    client.error("ERR", "ONCE", "DONE", "k", "late")
    assert say(client, "ONCE", "DONE", "k", "late", "GENERATION", first)["accepted"]
    assert not say(client, "ONCE", "DONE", "k", "later", "GENERATION", first)["accepted"]
    assert begin(client)["result"] == b"late"


@pytest.mark.parametrize("how", ["RESTART", "REBOOT"])
def test_a_lease_goes_on_over_a_restart_and_a_stale_worker_is_refused(daemon, client, how):
    first = begin(client, "FINGERPRINT", "a body")["generation"]
    client = again(daemon, client, how, "20s")
    refused = begin(client, "FINGERPRINT", "another")
    assert (refused["accepted"], refused["reason"]) == (0, b"mismatch")
    assert 0 < refused["lease_ms"] <= 10_000
    client = again(daemon, client, how, "10s")
    second = begin(client)
    assert second["accepted"] and second["generation"] > first
    for command in (["DONE", "k", "r"], ["EXTEND", "k"], ["CANCEL", "k"]):
        client.error("STALE", "ONCE", *command, "GENERATION", first)
    client.error("ERR", "ONCE", "CANCEL", "k")
    assert say(client, "ONCE", "DONE", "k", "r", "GENERATION", second["generation"])["accepted"]


def test_a_lease_that_is_over_is_known_after_a_restart(daemon, client):
    first = begin(client)["generation"]
    client("CLOCK", "ADVANCE", "30s")
    client = again(daemon, client, "RESTART", "1h")
    assert client("ONCE", "GET", "k") is None and client("DBSIZE") == 1
    assert say(client, "ONCE", "DONE", "k", "late", "GENERATION", first)["accepted"]
    client("CLOCK", "ADVANCE", "24h")
    assert client("DBSIZE") == 0


def test_a_lease_in_a_transaction(client):
    client("MULTI")
    client("ONCE", "BEGIN", "k", "TTL", "1h", "LEASE", "1m")
    client("ONCE", "BEGIN", "k", "TTL", "1h", "LEASE", "1m")
    first, second = client("EXEC")
    assert view(first)["accepted"] and view(second)["reason"] == b"duplicate"


def test_the_distance_of_firings_goes_on_over_a_restart(daemon, client):
    words = ["DEBOUNCE", "CALL", "k", "1s", "EDGES", "both", "SPACING", "10s"]
    assert say(client, *words)["state"] == b"resting"
    client = again(daemon, client, "RESTART", "5s")
    assert client("DEBOUNCE", "GET", "k") is None
    last = client("EVENTS", "LAST")
    assert say(client, *words)["remaining_ms"] <= 5_000
    client("CLOCK", "ADVANCE", "5s")
    events = [line for _, line in view(client("EVENTS", "SINCE", last, "MATCH", "debounce:*"))["events"]]
    assert len(events) == 1 and b'"reason":"spacing"' in events[0]


def test_a_pop_that_overtakes_its_show_is_remembered(daemon, client):
    other = daemon.connect()
    assert other("HUD", "POP", "s", "REQUEST", "/api/a") is None
    shown = say(client, "HUD", "SHOW", "s", "REQUEST", "/api/a", "MAX", "1h")
    assert (shown["state"], shown["end"]) == (b"hidden", b"never-shown")
    assert client("HUD", "GET", "s") is None
    # Once, and for 200 ms.
    assert say(client, "HUD", "SHOW", "s", "REQUEST", "/api/a")["leases"] == 1
    other("HUD", "POP", "t", "REQUEST", "/api/a")
    client("CLOCK", "ADVANCE", "200ms")
    assert say(client, "HUD", "SHOW", "t", "REQUEST", "/api/a")["leases"] == 1
