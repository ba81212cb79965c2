"""Seven kinds of faults of the servers, with the defaults, on keys with a policy.

After a fault that keeps the data, nothing is accepted twice, nothing is lost, and starts are accepted
again. After a loss of all data, it is reported, and nothing exceeds its policy.

FAULTS is the number of faults for each topology, with a new fleet for every 20. PAUSE_S is the longest
pause of a server. ANSWER_MS limits the 99th percentile of the time to an answer while servers are down,
WRITE_MS the time until starts are accepted in each partition once the servers could store them.
"""

import random
import time

import pytest

from countdownd import eventually, sure
from fleet import parameter
from history import percentile
from servers import NO_FAILOVER, Cluster, SentinelTrio
from test_host_loss import ANSWER_MS, WRITE_MS, Asking

FAULTS = parameter("FAULTS", 7)
PAUSE_S = parameter("PAUSE_S", 3.0)
SEED = parameter("SEED", 0)
FAULTS_OF_A_FLEET = 20
WINDOW = 6
POLICIES = "policies:\n  once: {count: 1, every: 1h, windows: [1/1d]}\n"
SHORT_POLICIES = f"policies:\n  short: {{count: 1, every: 1s, windows: [1/{WINDOW}s]}}\n"


def primary_of(servers):
    return servers.primaries()[0] if isinstance(servers, Cluster) else servers.primary


def kill(servers, choose):
    lost = primary_of(servers)
    servers.lose(lost)
    servers.elected(lost)
    if isinstance(servers, Cluster):
        # The new primary has no replica before.
        servers.replace(lost)
        return None
    return lambda: servers.replace(lost)


def pause(servers, choose):
    server = primary_of(servers)
    server.stop()
    time.sleep(1 + choose.random() * (PAUSE_S - 1))
    server.go_on()


def cut(servers, choose):
    server = primary_of(servers)
    server.host.network.isolate(server.host)
    time.sleep(1 + choose.random() * 3)
    server.host.network.heal()


def false_alarm(servers, choose):
    """Replaces a primary that runs."""
    if isinstance(servers, Cluster):
        promote(next(s for s in servers.servers if s.is_running and s.role() == "slave"))
    else:
        eventually(lambda: servers.sentinels[0]("SENTINEL", "FAILOVER", "mymaster", errors=NO_FAILOVER) == "OK", "a failover begins")


def promote(replica):
    assert replica("CLUSTER", "FAILOVER", "TAKEOVER") == "OK"


def lag(servers, choose):
    """A replica falls behind; then a primary that runs is replaced."""
    replica = next(s for s in servers.servers if s.is_running and s.role() == "slave")
    replica.stop()
    time.sleep(0.3 + choose.random() * 1.5)
    replica.go_on()
    false_alarm(servers, choose)


def flush(servers, choose):
    for server in servers.primaries():
        assert server("FLUSHALL") == "OK"


def promote_empty(servers, choose):
    """Replicas that have lost their data replace primaries that run."""
    replicas = [s for s in servers.servers if s.is_running and s.role() == "slave"]

    def lose_data():
        for replica in replicas:
            assert replica("CONFIG", "SET", "replica-read-only", "no") == "OK"
            assert replica("FLUSHALL") == "OK"
            assert replica("CONFIG", "SET", "replica-read-only", "yes") == "OK"

    if isinstance(servers, Cluster):
        lose_data()
        for replica in replicas:
            promote(replica)
        return
    old = servers.primary

    def is_replaced():
        if servers.primary is not old:
            return True
        # Sentinel may give up a failover; then the replica has all data again.
        lose_data()
        servers.sentinels[0]("SENTINEL", "FAILOVER", "mymaster", errors=NO_FAILOVER)
        return False

    eventually(is_replaced, "a failover", pause=0.5)
    servers.elected(old)


KEEPING = [kill, pause, cut, false_alarm, lag]
LOSING = [flush, promote_empty]


def play(bench, topology, kinds, numbers, asking_of, config):
    """Plays faults; returns the clients, the outages as (begin, end), and the times until writes."""
    network = bench.network()
    count = 6 if topology is Cluster else 3
    hosts = [network.host() for _ in range(count + 3)]
    servers = bench.topology(topology, hosts[:count])
    fleet = bench.fleet(servers, hosts[count:], config=config)
    outages, back = [], []
    with asking_of(fleet) as asking:
        for number in numbers:
            servers.settled()
            asking.wait_until_accepted_everywhere(time.monotonic())
            choose = random.Random(SEED + number)
            asking.crowd.wait(0.3 + choose.random())
            begin = time.monotonic()
            losses = [int(daemon.info("fleet")["fleet_losses"]) for daemon in fleet.daemons]
            kind = kinds[number % len(kinds)]
            afterwards = kind(servers, choose)
            if kinds is LOSING:
                for daemon, before in zip(fleet.daemons, losses):
                    eventually(lambda: int(daemon.info("fleet")["fleet_losses"]) >= before + 4, "the loss is found")
            since, accepted = wait_until_accepted(servers, asking)
            back.append((accepted - since) * 1000)
            outages.append((begin, accepted))
            if afterwards:
                afterwards()
        servers.settled()
        asking.wait_until_accepted_everywhere(time.monotonic())
        asking.crowd.wait(1)
    return fleet, asking, outages, back


def fleets(count):
    """Returns the numbers of the faults of each fleet."""
    return [range(first, min(first + FAULTS_OF_A_FLEET, count)) for first in range(0, count, FAULTS_OF_A_FLEET)]


def wait_until_accepted(servers, asking):
    """Waits until starts are accepted everywhere; returns since when the servers could store them, and
    when they were accepted.

    A primary that was paused is perhaps deposed a moment after it runs again. Then Sentinel makes it a
    replica of the new one 8 s later, and until then the servers cannot store what all must have.
    """
    since = None
    while True:
        if not servers.can_store():
            since = None
        elif since is None:
            since = time.monotonic()
        elif min(asking.newest) >= since:
            return since, time.monotonic()
        asking.crowd.wait(0.02)
        assert not asking.crowd.is_over.is_set()


def report(name, faults, accepted, down, back):
    print(
        f"\n{name}: {faults} faults, {accepted} accepted; {len(down)} answers while down, p99"
        f" {percentile(down, 0.99):.0f} ms, max {max(down, default=0):.0f} ms; accepted again after"
        f" {percentile(back, 0.5):.0f} ms (p50), {max(back):.0f} ms (max)"
    )


@pytest.mark.parametrize("topology", [SentinelTrio, Cluster])
def test_nothing_is_accepted_twice_or_lost(bench, topology):
    faults = max(len(KEEPING), FAULTS * 5 // 7)
    accepted, down, back = 0, [], []
    for numbers in fleets(faults):
        fleet, asking, outages, more = play(
            bench, topology, KEEPING, numbers, lambda fleet: Asking(fleet, words=("POLICY", "once")), POLICIES)
        assert asking.twice() == {}
        # The last word: each key that was accepted is still in cooldown.
        client = fleet.connect(0)
        for key in asking.accepted:
            assert sure(client, "COUNTDOWN", "GET", key) is not None, f"{key} is lost"
        bench.close()
        accepted += len(asking.accepted)
        down += asking.unanswered(outages)
        back += more
    report(topology.__name__, faults, accepted, down, back)
    assert accepted > 20 * faults
    assert not down or percentile(down, 0.99) <= ANSWER_MS
    assert max(back) <= WRITE_MS


@pytest.mark.parametrize("topology", [SentinelTrio, Cluster])
def test_after_a_loss_of_all_data_nothing_exceeds_its_policy(bench, topology):
    faults = max(len(LOSING), FAULTS * 2 // 7)
    accepted, down, back = 0, [], []
    for numbers in fleets(faults):
        fleet, asking, outages, more = play(
            bench, topology, LOSING, numbers,
            lambda fleet: Asking(fleet, words=("POLICY", "short"), keys=[f"k{n}" for n in range(500)]), SHORT_POLICIES)
        for key, sends in asking.accepted.items():
            for (begin, _), (_, end) in zip(sends, sends[1:]):
                assert end - begin >= WINDOW, f"{key} was accepted twice in {end - begin:.3f} s"
        bench.close()
        accepted += sum(map(len, asking.accepted.values()))
        down += asking.unanswered(outages)
        back += more
    report(f"{topology.__name__}, data lost", faults, accepted, down, back)
    assert accepted > 20 * faults
    assert not down or percentile(down, 0.99) <= ANSWER_MS
