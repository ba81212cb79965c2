"""Owners of what hosts share: connections, each of one host that may end at any time."""

import os
import signal
import time

from countdownd import Closed, eventually, sure, view
from servers import Single


def fleet_of(bench, daemons=2):
    network = bench.network()
    hosts = [network.host() for _ in range(daemons + 1)]
    server = bench.topology(Single, hosts[0])
    return network, server, bench.fleet(server, hosts[1:], replicas=0)


def test_what_a_host_owns_ends_after_the_host_was_killed_and_not_before(bench):
    network, server, fleet = fleet_of(bench, daemons=3)
    first, second, third = fleet.daemons
    owner, others = first.connect(), [second.connect(), third.connect()]
    for number in range(20):
        assert view(sure(owner, "TIMER", "SET", f"t{number}", "1h", "OWNER", "connection"))
    assert view(sure(owner, "COUNTDOWN", "START", "c", "EVERY", "1h", "OWNER", "connection"))
    assert view(sure(others[0], "GATE", "CHECK", "s", "pay"))["accepted"] == 0
    assert view(sure(others[0], "GATE", "OPEN", "s"))
    assert view(sure(owner, "GATE", "TAKE", "s"))["accepted"]
    assert view(sure(others[0], "GATE", "TAKE", "s"))["accepted"] == 0
    # For longer than a lease.
    time.sleep(6)
    assert all(sure(other, "TIMER", "GET", f"t{n}") for n in range(20) for other in others)
    first.kill()
    for other in others:
        for number in range(20):
            eventually(lambda: sure(other, "TIMER", "GET", f"t{number}") is None, "a timer ends")
        eventually(lambda: sure(other, "COUNTDOWN", "GET", "c") is None, "the countdown ends")
    eventually(lambda: view(sure(others[1], "GATE", "TAKE", "s"))["accepted"], "the gate is free")
    assert sure(others[0], "GATE", "DONE", "s") == 0
    sure(others[1], "GATE", "DONE", "s")
    eventually(lambda: second.info("fleet")["fleet_owners"] == "0", "no owner is left")


def test_a_host_that_was_stopped_closes_the_connections_whose_entities_have_ended(bench):
    network, server, fleet = fleet_of(bench)
    first, second = fleet.daemons
    owner, plain, other = first.connect(), first.connect(), second.connect()
    assert view(sure(owner, "TIMER", "SET", "t", "1h", "OWNER", "connection"))
    assert view(sure(plain, "TIMER", "SET", "u", "1h"))
    eventually(lambda: sure(other, "TIMER", "GET", "t"), "the other host has it")
    os.kill(first.pid, signal.SIGSTOP)
    eventually(lambda: sure(other, "TIMER", "GET", "t") is None, "it ends")
    os.kill(first.pid, signal.SIGCONT)
    eventually(lambda: int(first.info("fleet")["fleet_leases_lost"]) == 1, "the host learns of it")
    eventually(lambda: is_closed(owner), "its owner is disconnected")
    assert plain("PING") == "PONG"
    assert sure(other, "TIMER", "GET", "u")
    # It takes another lease.
    assert view(sure(plain, "TIMER", "SET", "t", "1h", "OWNER", "connection"))
    eventually(lambda: sure(other, "TIMER", "GET", "t"), "the other host has it")
    plain.close()
    eventually(lambda: sure(other, "TIMER", "GET", "t") is None, "it ends with its connection")


def test_work_ends_with_its_lease_when_its_host_was_killed_and_not_before(bench):
    network, server, fleet = fleet_of(bench)
    first, second = fleet.daemons
    worker, other = first.connect(), second.connect()
    began = time.monotonic()
    held = view(sure(worker, "ONCE", "BEGIN", "pay", "TTL", "1h", "LEASE", "3s"))
    assert held["accepted"] == 1
    first.kill()
    # Refused until the lease is over, and accepted by itself afterwards.
    asked = []

    def is_accepted():
        asked.append(view(sure(other, "ONCE", "BEGIN", "pay", "TTL", "1h", "LEASE", "20s")))
        return asked[-1]["accepted"]

    eventually(is_accepted, "the lease is over")
    assert time.monotonic() - began >= 3
    assert len(asked) > 1 and {answer["reason"] for answer in asked[:-1]} == {b"duplicate"}
    again = asked[-1]
    assert again["generation"] > held["generation"]
    # What the first one did cannot replace what the second one does.
    stale = ("GENERATION", held["generation"])
    for late in (("EXTEND", "pay"), ("DONE", "pay", "first"), ("CANCEL", "pay")):
        other.error("STALE", "ONCE", *late, *stale)
    sure(other, "ONCE", "DONE", "pay", "second", "GENERATION", again["generation"])
    repeated = view(sure(other, "ONCE", "BEGIN", "pay", "TTL", "1h", "LEASE", "3s"))
    assert (repeated["accepted"], repeated["result"]) == (0, b"second")


def is_closed(client):
    try:
        client("PING")
    except (OSError, Closed):
        return True
    return False
