"""Gateways of the hosts of a fleet: a page that reconnects to another one continues there."""

import pathlib
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Fleet"))

from countdownd import reserved_port  # noqa: E402
from fleet import Fleet  # noqa: E402
from gateway import Gateway, ticket  # noqa: E402
from servers import Single  # noqa: E402

WATCH = {"shared": "timer:t", "quiet": "countdown:c"}


@pytest.fixture(scope="module")
def hosts():
    servers = Single(port=reserved_port())
    fleet = Fleet(servers, [None, None], replicas=0)
    for daemon in fleet.daemons:
        fleet.wait_until_open(daemon)
    gateways = [Gateway(daemon) for daemon in fleet.daemons]
    yield [(gateway, daemon.connect()) for gateway, daemon in zip(gateways, fleet.daemons)]
    for gateway in gateways:
        gateway.close()
    fleet.close()
    servers.close()


def opened(gateway, last=None, watch=WATCH):
    """Returns a stream, and the events of what is shared up to the last snapshot."""
    stream = gateway.stream(ticket(watch), last=last)
    found, snapshots = [], 0
    while snapshots < len(watch):
        message = stream.next()
        snapshots += message["event"] == "snapshot"
        if message["event"] not in ("hello", "snapshot"):
            found.append(message["event"])
    return stream, found


def test_another_host_continues_with_each_event_once(hosts):
    (here, a), (there, b) = hosts
    a("TIMER", "SET", "t", "1h")
    stream, found = opened(here)
    assert found == []
    watching, _ = opened(there)
    for round in range(3):
        b("TIMER", "PAUSE", "t")
        assert stream.next()["event"] == watching.next()["event"] == "paused"
        stream.close()
        # What other keys do does not matter.
        for number in range(20):
            a("TIMER", "SET", f"other-{round}-{number}", "1h")
        a("TIMER", "RESUME", "t")
        b("TIMER", "RETIME", "t", "2h")
        assert [watching.next()["event"] for _ in range(2)] == ["resumed", "retimed"]
        here, there, a, b = there, here, b, a
        stream, found = opened(here, stream.last)
        assert found == ["resumed", "retimed"], round
        watching.close()
        watching, found = opened(there, watching.last)
        assert found == [], round


def test_events_of_one_hosts_own_kinds_are_missing_elsewhere_which_is_reported(hosts):
    (here, a), (there, _) = hosts
    watch = WATCH | {"own": "hud:h"}
    a("TIMER", "SET", "t", "1h")
    stream, _ = opened(here, watch=watch)
    a("TIMER", "PAUSE", "t")
    assert stream.next()["event"] == "paused"
    stream.close()
    a("TIMER", "RESUME", "t")
    a("HUD", "SHOW", "h", "DURABLE", "GRACE", "0", "FADEIN", "0")
    assert opened(there, stream.last, watch)[1] == ["gap", "resumed"]
    assert opened(here, stream.last, watch)[1] == ["resumed", "will-appear", "did-appear"]


def test_a_page_that_moves_while_things_happen_sees_each_event_once(hosts):
    (here, a), (there, _) = hosts
    watch = {"shared": "timer:busy"}
    a("TIMER", "SET", "busy", "1h")
    stream, seen = opened(here, watch=watch)

    def work():
        for _ in range(100):
            a("TIMER", "PAUSE", "busy")
            a("TIMER", "RESUME", "busy")
        a("TIMER", "DEL", "busy")

    thread = threading.Thread(target=work)
    thread.start()
    while "cancelled" not in seen:
        for _ in range(5):
            seen.append(stream.next()["event"])
            if seen[-1] == "cancelled":
                break
        else:
            stream.close()
            here, there = there, here
            stream, found = opened(here, stream.last, watch)
            seen += found
    thread.join()
    assert seen == ["paused", "resumed"] * 100 + ["cancelled"]


def test_what_is_no_cursor_of_a_fleet_brings_a_gap(hosts):
    (here, a), _ = hosts
    a("TIMER", "SET", "t", "1h")
    for last in (0, a("EVENTS", "LAST"), "1.2-nonsense", "1.2", "1-2.3.4"):
        assert opened(here, last)[1][:1] == ["gap"], last


def test_an_id_has_only_what_the_streams_need(hosts):
    (here, a), _ = hosts
    stream, _ = opened(here)
    a("TIMER", "SET", "t", "1h")
    stream.until("set")
    # The log, and at most the partitions of the channels of this module.
    assert stream.last.count("-") <= 3 and len(stream.last) < 200
