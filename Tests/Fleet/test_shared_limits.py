"""Named limits that several daemons share: what is accepted never exceeds one, and what a refused
request took of the others is given back."""

import collections
import socket
import threading

import pytest

from countdownd import AWAY, Closed, Error, eventually, sure, view
from servers import Single

RATES = """
throttles:
  ip: {burst: 6, rate: 1/1d}
  all: {burst: 25, rate: 1/1d, global: true}
policies:
  code: {every: 1s, limits: [ip, all]}
"""
WINDOWS = """
throttles:
  ip: {windows: [6/1d]}
  all: {windows: [25/12h, 1000/1d], global: true}
policies:
  code: {every: 1s, limits: [ip, all]}
"""
PASSED = """
throttles:
  range: {without-last: 2, windows: [1000/1d], passed: {least: 50%, of: 3, in: 1d, block: 1h}}
policies:
  code: {count: 1, every: 1ms, validity: 1h, on-resend: replace, limits: [range]}
"""
both = pytest.mark.parametrize("rules", [RATES, WINDOWS], ids=["rates", "windows"])
KEYS = [("all:", 25), *((f"ip:{number}", 6) for number in range(7))]


def single(bench):
    """A server at a port of its own: these tests need no network."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return bench.topology(Single, port=port)


def used(client, key, burst):
    reply = sure(client, "THROTTLE", "GET", key)
    return burst - view(reply)["remaining"] if reply else 0


def in_threads(count, body):
    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@both
def test_hosts_together_take_what_the_limits_allow(bench, rules):
    fleet = bench.fleet(single(bench), [None] * 4, replicas=0, config=rules)
    lock, accepted = threading.Lock(), collections.Counter()

    def work(number):
        client = fleet.connect(number)
        for request in range(60):
            ip = f"ip:{request % 7}"
            if request % 2:
                words = ["COUNTDOWN", "START", f"{number}-{request}", "POLICY", "code", "LIMIT", ip]
            else:
                words = ["THROTTLE", "TAKE", ip, "all:"]
            # Hosts that change a record all the time may have to ask again: nothing was done then.
            reply = client.either("UNAVAILABLE", *words)
            if not isinstance(reply, Error) and view(reply)["accepted"]:
                with lock:
                    accepted[ip] += 1

    in_threads(4, work)
    total = sum(accepted.values())
    assert 0 < total <= 25 and max(accepted.values()) <= 6
    for number in range(4):
        client = fleet.connect(number)
        for key, burst in KEYS:
            count = total if key == "all:" else accepted[key]
            eventually(lambda: used(client, key, burst) == count, f"{count} of {key} are used")


@both
def test_daemons_that_are_killed_while_they_start_exceed_no_limit(bench, rules):
    fleet = bench.fleet(single(bench), [None] * 4, replicas=0, config=rules)
    lock, accepted, kills = threading.Lock(), {}, []

    def work(number):
        daemon = fleet.daemons[number]
        for request in range(40):
            key, ip = f"{number}-{request}", f"ip:{request % 7}"
            for _ in range(100):
                try:
                    reply = daemon.connect().either(
                        AWAY, "COUNTDOWN", "START", key, "POLICY", "code", "LIMIT", ip, "TOKEN", key)
                except (Closed, OSError):
                    # The daemon was killed. Another one knows whether it has accepted the START.
                    daemon = fleet.daemons[0]
                    continue
                if not isinstance(reply, Error):
                    break
            if view(reply)["accepted"]:
                with lock:
                    accepted[key] = ip
            if number and request == 2 * number:
                kills.append(threading.Thread(target=fleet.kill, args=(daemon,)))
                kills[-1].start()

    in_threads(4, work)
    for kill in kills:
        kill.join()
    counts = collections.Counter(accepted.values())
    assert 0 < len(accepted) <= 25 and max(counts.values()) <= 6
    client = fleet.connect(0)
    for key, burst in KEYS:
        # What a killed daemon has taken, without a START, is not given back.
        count = len(accepted) if key == "all:" else counts[key]
        assert count <= used(client, key, burst) <= burst


@both
def test_a_token_that_all_hosts_send_is_accepted_once(bench, rules):
    fleet = bench.fleet(single(bench), [None] * 4, replicas=0, config=rules)
    lock, answers = threading.Lock(), collections.defaultdict(list)

    def work(number):
        client = fleet.connect(number)
        for token in range(20):
            words = ["THROTTLE", "TAKE", f"ip:{token % 7}", "all:", "TOKEN", f"t{token}"]
            reply = view(sure(client, *words))
            with lock:
                answers[token].append((reply["accepted"], reply["reason"]))

    in_threads(4, work)
    for token, given in answers.items():
        assert len(given) == 4 and {accepted for accepted, _ in given} == {1}, (token, given)
        assert [reason for _, reason in given].count(None) <= 1, (token, given)
    # What a daemon is not sure of stays taken.
    client = fleet.connect(0)
    eventually(lambda: 20 <= used(client, "all:", 25) <= 25, "each token was charged")


def test_codes_that_nobody_enters_block_a_range_on_all_hosts(bench):
    fleet = bench.fleet(single(bench), [None] * 3, replicas=0, config=PASSED)
    clients = [fleet.connect(number) for number in range(3)]

    def state(client, key):
        reply = sure(client, "THROTTLE", "GET", key)
        return reply and view(reply)["state"]

    for number, client in enumerate(clients):
        key = f"460{number}"
        assert view(sure(client, "COUNTDOWN", "START", key, "POLICY", "code", "TOKEN", "t"))["accepted"]
        # The code is entered on another host.
        sure(clients[number - 1], "COUNTDOWN", "PASS", key)

    def is_blocked():
        # Each code replaces the one before, which nobody has entered. Hosts take turns.
        clients.append(clients.pop(0))
        clients[0].either(AWAY, "COUNTDOWN", "START", "4501", "POLICY", "code")
        return state(clients[0], "range:45") == b"blocked"

    eventually(is_blocked, "codes that nobody enters block their range")
    for number, client in enumerate(clients):
        eventually(lambda: state(client, "range:45") == b"blocked", "all hosts know that it is blocked")
        assert state(client, "range:46") == b"available"
        refused = view(sure(client, "COUNTDOWN", "START", f"451{number}", "POLICY", "code"))
        assert (refused["accepted"], refused["reason"], refused["limit"]) == (0, b"blocked", b"range:45")
    assert view(sure(clients[1], "THROTTLE", "UNBLOCK", "range:45"))["accepted"] == 1
    for client in clients:
        eventually(lambda: state(client, "range:45") == b"available", "all hosts know that the block has ended")
    assert view(sure(clients[2], "COUNTDOWN", "START", "4520", "POLICY", "code", "TOKEN", "t"))["accepted"]
