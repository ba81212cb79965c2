"""Faults of the servers, with the defaults: nothing is accepted twice, and nothing that was accepted is lost.

FAULTS is the number of faults, with a new fleet for every 20; PAUSE_S is the longest pause of a server.
"""

import random
import time

import pytest

from countdownd import Error, eventually
from fleet import parameter
from history import percentile
from servers import Cluster, SentinelTrio
from test_host_loss import ANSWER_MS, Asking

FAULTS = parameter("FAULTS", 5)
PAUSE_S = parameter("PAUSE_S", 3.0)
SEED = parameter("SEED", 0)
FAULTS_OF_A_FLEET = 20


def kill(bench, servers, choose):
    lost = servers.primaries()[0]
    servers.lose(lost)
    servers.elected(lost)
    servers.replace(lost)


def pause(bench, servers, choose):
    server = servers.primaries()[0]
    server.stop()
    time.sleep(1 + choose.random() * (PAUSE_S - 1))
    server.go_on()


def cut(bench, servers, choose):
    server = servers.primaries()[0]
    server.host.network.isolate(server.host)
    time.sleep(1 + choose.random() * 3)
    server.host.network.heal()


def false_alarm(bench, servers, choose):
    """Replaces a primary that runs."""
    if isinstance(servers, Cluster):
        replica = next(s for s in servers.servers if s.is_running and s.role() == "slave")
        replica("CLUSTER", "FAILOVER", "TAKEOVER")
    else:
        eventually(lambda: servers.sentinels[0]("SENTINEL", "FAILOVER", "mymaster") == "OK", "a failover begins")


def lag(bench, servers, choose):
    """A replica falls behind; then a primary that runs is replaced."""
    replica = next(s for s in servers.servers if s.is_running and s.role() == "slave")
    replica.stop()
    time.sleep(0.3 + choose.random() * 1.5)
    replica.go_on()
    false_alarm(bench, servers, choose)


KINDS = [kill, pause, cut, false_alarm, lag]


def settled(servers, asking):
    """Waits until the servers agree, all replicas follow, and starts are accepted."""
    servers.settled()
    asking.wait_until_accepted(time.monotonic())


def play(bench, topology, faults, seed):
    network = bench.network()
    count = 6 if topology is Cluster else 3
    hosts = [network.host() for _ in range(count + 3)]
    servers = bench.topology(topology, hosts[:count])
    fleet = bench.fleet(servers, hosts[count:])
    choose = random.Random(seed)
    outages = []
    with Asking(fleet) as asking:
        for number in range(faults):
            settled(servers, asking)
            asking.crowd.wait(0.3 + choose.random())
            begin = time.monotonic()
            KINDS[(seed + number) % len(KINDS)](bench, servers, choose)
            outages.append((begin, time.monotonic()))
        settled(servers, asking)
        asking.crowd.wait(1)
    # The last word: each key that was accepted is still in cooldown.
    client = fleet.connect(0)
    lost = []
    for key in asking.accepted:
        reply = eventually(
            lambda: (lambda r: None if isinstance(r, Error) else (r,))(client("COUNTDOWN", "GET", key)), "an answer")
        if reply[0] is None:
            lost.append(key)
    return asking, outages, lost


@pytest.mark.parametrize("topology", [SentinelTrio, Cluster])
def test_nothing_is_accepted_twice_or_lost(bench, topology):
    left, accepted, down = FAULTS, 0, []
    while left > 0:
        count = min(left, FAULTS_OF_A_FLEET)
        asking, outages, lost = play(bench, topology, count, SEED + left)
        bench.close()
        accepted += len(asking.accepted)
        down += [
            seconds * 1000 for caller in asking.callers for when, seconds, code in caller.answers
            if code in ("UNAVAILABLE", "UNSURE") and any(begin <= when <= end for begin, end in outages)
        ]  # fmt: skip
        assert asking.twice() == {} and lost == []
        left -= count
    print(
        f"\n{topology.__name__}: {FAULTS} faults, {accepted} keys accepted, none twice, none lost;"
        f" {len(down)} answers while down, p99 {percentile(down, 0.99):.0f} ms"
    )
    assert accepted > 20 * FAULTS
    assert not down or percentile(down, 0.99) <= ANSWER_MS
