"""Named limits that several daemons share: what is accepted never exceeds one, and what a refused
request took of the others is given back."""

import collections
import threading

from countdownd import Closed, Error, eventually, view
from servers import Single

RULES = """
throttles:
  ip: {burst: 6, rate: 1/1d}
  all: {burst: 25, rate: 1/1d, global: true}
policies:
  code: {every: 1s, limits: [ip, all]}
"""
KEYS = [("all:", 25), *((f"ip:{number}", 6) for number in range(7))]


def used(client, key, burst):
    reply = client("THROTTLE", "GET", key)
    return burst - view(reply)["remaining"] if reply else 0


def in_threads(count, body):
    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_hosts_together_take_what_the_limits_allow(bench):
    fleet = bench.fleet(bench.topology(Single), [None] * 4, replicas=0, config=RULES)
    lock, accepted = threading.Lock(), collections.Counter()

    def work(number):
        client = fleet.connect(number)
        for request in range(60):
            ip = f"ip:{request % 7}"
            if request % 2:
                words = ["COUNTDOWN", "START", f"{number}-{request}", "POLICY", "code", "LIMIT", ip]
            else:
                words = ["THROTTLE", "TAKE", ip, "all:"]
            reply = client(*words)
            # Hosts that change a record all the time may have to ask again.
            if isinstance(reply, Error):
                assert "Nothing was done" in str(reply)
            elif view(reply)["accepted"]:
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


def test_daemons_that_are_killed_while_they_start_exceed_no_limit(bench):
    fleet = bench.fleet(bench.topology(Single), [None] * 4, replicas=0, config=RULES)
    lock, accepted, kills = threading.Lock(), {}, []

    def work(number):
        daemon = fleet.daemons[number]
        for request in range(40):
            key, ip = f"{number}-{request}", f"ip:{request % 7}"
            for _ in range(100):
                try:
                    reply = daemon.connect()(
                        "COUNTDOWN", "START", key, "POLICY", "code", "LIMIT", ip, "TOKEN", key)
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
