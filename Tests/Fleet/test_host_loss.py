"""Hosts are lost, each with its server, its Sentinel and its daemon; no accepted start is lost.

LOSSES is the number of losses, with a new fleet for every 40, as each fleet accumulates records.
ANSWER_MS limits the 99th percentile of the time to an answer while a server is down, WRITE_MS the
time until a start is accepted again.

On a busy machine, Sentinel may also depose a new primary that still runs. Nothing may be accepted
twice then, either, but the time until a start is accepted again does not count.
"""

import binascii
import collections
import itertools
import random
import threading
import time

from fleet import parameter
from history import Caller, Crowd, NotDone, Unsure, percentile
from servers import SentinelTrio

LOSSES = parameter("LOSSES", 3)
ANSWER_MS = parameter("ANSWER_MS", 1000.0)
LOSSES_OF_A_FLEET = 40
WRITE_MS = parameter("WRITE_MS", 10_000.0)
# The pause of each of the 8 clients between two requests.
PAUSE_MS = parameter("PAUSE_MS", 1.0)
# The share of requests about new keys; the others repeat a start that was accepted.
NEW = parameter("NEW", 0.3)
SEED = parameter("SEED", 0)


class Asking:
    """Clients of all daemons that start new countdowns, and retry keys with an accepted start.

    With `keys`, they start these instead, at random.
    """

    def __init__(self, fleet, clients=2, words=("COUNT", 3600, "EVERY", "1s"), keys=None, partitions=4):
        self.words = words
        self.keys = keys
        # When a start was accepted last, by partition.
        self.newest = [0.0] * partitions
        self.crowd = Crowd()
        self.lock = threading.Lock()
        self.accepted = collections.defaultdict(list)
        self.recent = collections.deque(maxlen=3000)
        self.times = []
        # (begin, end) of failovers without a lost host.
        self.false_alarms = []
        self.numbers = itertools.count()
        self.callers = []
        for daemon in fleet.daemons:
            for _ in range(clients):
                self.add(Caller(daemon))

    def add(self, caller):
        choose = random.Random(len(self.callers))
        self.callers.append(caller)

        def work():
            is_new = not self.recent or choose.random() < NEW
            if self.keys:
                key = choose.choice(self.keys)
            else:
                key = f"k{next(self.numbers)}" if is_new else choose.choice(self.recent)
            begin = time.monotonic()
            try:
                reply = caller.view("COUNTDOWN", "START", key, *self.words)
            except NotDone:
                time.sleep(0.01)
                return
            except Unsure:
                return
            if reply["accepted"]:
                with self.lock:
                    end = time.monotonic()
                    self.accepted[key].append((begin, end))
                    self.recent.append(key)
                    self.times.append(end)
                    self.newest[binascii.crc_hqx(key.encode(), 0) % len(self.newest)] = end
            time.sleep(PAUSE_MS / 1000)

        self.crowd.add(work)

    def twice(self):
        return {
            key: sends for key, sends in self.accepted.items() if len(sends) > 1
        }  # fmt: skip

    def wait_until_accepted(self, after):
        while not self.times or self.times[-1] < after:
            assert time.monotonic() < after + 30, "nothing is accepted any more"
            assert not self.crowd.is_over.is_set()
            time.sleep(0.01)

    def wait_until_accepted_everywhere(self, after):
        """Waits until a start is accepted in each partition; returns the time."""
        while min(self.newest) < after:
            assert time.monotonic() < after + 60, "nothing is accepted any more"
            assert not self.crowd.is_over.is_set()
            time.sleep(0.01)
        return time.monotonic()

    def unanswered(self, outages):
        """Returns the milliseconds to each answer without a result while servers were down."""
        return [
            seconds * 1000 for caller in self.callers for when, seconds, code in caller.answers
            if code in ("UNAVAILABLE", "UNSURE") and any(begin <= when <= end for begin, end in outages)
        ]  # fmt: skip

    def __enter__(self):
        self.crowd.__enter__()
        return self

    def __exit__(self, *details):
        self.crowd.__exit__(*details)
        for caller in self.callers:
            caller.close()


def lose_hosts(bench, losses, replicas, seed=SEED, until_twice=False):
    """Loses the primary's host repeatedly; returns the clients, and (begin, end) of each outage."""
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(SentinelTrio, hosts[:3])
    fleet = bench.fleet(servers, hosts, replicas=replicas)
    choose = random.Random(seed)
    outages = []
    with Asking(fleet) as asking:
        for number in range(losses):
            asking.wait_until_accepted(time.monotonic())
            asking.crowd.wait(0.5 + choose.random())
            lost = servers.primary
            if outages and lost is not elected:
                asking.false_alarms.append((outages[-1][0], time.monotonic()))
            daemon = next(daemon for daemon in fleet.daemons if daemon.host is lost.host)
            # Half of the hosts are isolated for a moment before they are lost: then only their own
            # daemon still reaches the primary, whose changes reach no replica.
            if number % 2 == 0:
                network.isolate(lost.host)
                time.sleep(0.3)
            begin = time.monotonic()
            servers.lose(lost)
            fleet.kill(daemon)
            network.heal()
            elected = servers.elected(lost)
            asking.wait_until_accepted(time.monotonic())
            outages.append((begin, next(moment for moment in asking.times if moment > begin + 0.3)))
            servers.replace(lost)
            fleet.start_again(daemon)
            if until_twice and asking.twice():
                break
        asking.crowd.wait(1)
        if servers.primary is not elected:
            asking.false_alarms.append((outages[-1][0], time.monotonic()))
    return asking, outages


def report(name, asking, outages):
    down = asking.unanswered(outages)
    back = [
        (end - begin) * 1000 for begin, end in outages
        if not any(alarm <= end and begin <= over for alarm, over in asking.false_alarms)
    ]  # fmt: skip
    print(
        f"\n{name}: {len(outages)} hosts lost, {len(asking.accepted)} starts accepted,"
        f" {len(asking.twice())} keys twice, {len(asking.false_alarms)} false alarms; {len(down)} answers while down, p50 {percentile(down, 0.5):.0f} ms,"
        f" p99 {percentile(down, 0.99):.0f} ms, max {max(down, default=0):.0f} ms; first write after"
        f" {percentile(back, 0.5):.0f} ms (p50), {max(back, default=0):.0f} ms (max)"
    )
    return down, back


def test_nothing_is_accepted_twice_when_hosts_are_lost(bench):
    left, accepted, down, back = LOSSES, 0, [], []
    while left > 0:
        losses = min(left, LOSSES_OF_A_FLEET)
        asking, outages = lose_hosts(bench, losses, replicas="all", seed=SEED + left)
        more_down, more_back = report("replicas all", asking, outages)
        bench.close()
        assert asking.twice() == {}
        accepted += len(asking.accepted)
        down += more_down
        back += more_back
        left -= losses
    assert accepted > 20 * LOSSES
    assert down and percentile(down, 0.99) <= ANSWER_MS
    assert back and max(back) <= WRITE_MS


def test_something_is_accepted_twice_without_replicas_to_wait_for(bench):
    """Shows that the test above can find keys that were accepted twice."""
    asking, outages = lose_hosts(bench, max(10, LOSSES // 3), replicas=0, until_twice=True)
    report("replicas 0", asking, outages)
    assert asking.twice()
