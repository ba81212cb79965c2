"""A policy of 3 sends a day, used by 4 daemons on 4 hosts at once, while primaries are killed.

SECONDS_OF_POLICY is the duration, KEYS the number of phone numbers, KILL_EVERY the seconds between
two kills.
"""

import collections
import itertools
import random
import threading
import time

from countdownd import sure
from fleet import parameter
from history import Caller, Crowd, NotDone, Unsure
from servers import SentinelTrio

SECONDS = parameter("SECONDS_OF_POLICY", 16.0)
KEYS = parameter("KEYS", 1000)
KILL_EVERY = parameter("KILL_EVERY", 6.0)
# The pause of each of the 8 clients between two requests.
PAUSE_MS = parameter("PAUSE_MS", 1.0)
# The cooldown spreads the three sends over the run, so that primaries are killed between them.
POLICY = f"policies:\n  login: {{ladder: [{max(1, int(SECONDS / 5))}s], windows: [3/1d]}}\n"


def test_there_is_never_a_fourth_send(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(SentinelTrio, hosts[:3])
    fleet = bench.fleet(servers, hosts, config=POLICY)
    crowd, lock, tokens = Crowd(), threading.Lock(), itertools.count()
    sends = collections.defaultdict(set)
    asked = itertools.count()

    def add(number):
        caller, choose = Caller(fleet.daemons[number % 4]), random.Random(number)
        # Each client has its own order of the same keys.
        keys = choose.sample(range(KEYS), KEYS)

        def work():
            key = f"+45{keys[next(asked) % KEYS]}" if choose.random() < 0.5 else f"+45{choose.randrange(KEYS)}"
            token = f"t{next(tokens)}"
            while True:
                try:
                    reply = caller.view("COUNTDOWN", "START", key, "POLICY", "login", "TOKEN", token)
                    break
                except NotDone:
                    time.sleep(0.02)
                    return
                except Unsure:
                    # Retries with the same token, as a client should.
                    time.sleep(0.02)
                    if crowd.is_over.is_set():
                        return
            if reply["accepted"]:
                with lock:
                    sends[key].add(token)
            time.sleep(PAUSE_MS / 1000)

        crowd.add(work)

    for number in range(8):
        add(number)
    kills = 0
    with crowd:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not crowd.is_over.is_set():
            begin = time.monotonic()
            crowd.wait(min(KILL_EVERY / 2, 5))
            lost = servers.primary
            servers.lose(lost)
            kills += 1
            servers.elected(lost)
            crowd.wait(1)
            servers.replace(lost)
            crowd.wait(max(0, min(end, begin + KILL_EVERY) - time.monotonic()))
    count = sum(map(len, sends.values()))
    print(f"\n{kills} primaries killed in {SECONDS:.0f} s, {count} sends to {len(sends)} of {KEYS} numbers")
    assert {key: tokens for key, tokens in sends.items() if len(tokens) > 3} == {}
    # The limit was reached, so that a fourth would have been possible.
    assert sum(len(tokens) == 3 for tokens in sends.values()) > KEYS / 20
    # The limit holds afterwards, too, on each host.
    full = [key for key, tokens in sends.items() if len(tokens) == 3][:20]
    for daemon in fleet.daemons:
        with daemon.connect() as client:
            for key in full:
                assert sure(client, "COUNTDOWN", "START", key, "POLICY", "login", "BRIEF")[0] == 0, key
