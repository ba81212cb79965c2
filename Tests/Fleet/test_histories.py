"""Whatever happens to real servers, links and clocks, each key's history is linearizable.

Each history continues for half of DURATION, in seconds, after its fault.
"""

import time

import pytest

from countdownd import AWAY, Error, eventually
from fleet import parameter
from history import Histories
from servers import Cluster, SentinelTrio, Single

DURATION = parameter("DURATION", 6.0)


def trio(bench, *, replicas="all", clocks=False, more=""):
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(SentinelTrio, hosts[:3], clocks=clocks)
    return network, servers, bench.fleet(servers, hosts, replicas=replicas, more=more)


def cluster(bench, *, replicas="all", clocks=False):
    network = bench.network()
    hosts = [network.host() for _ in range(10)]
    servers = bench.topology(Cluster, hosts[:6], clocks=clocks)
    return network, servers, bench.fleet(servers, hosts[6:], replicas=replicas, partitions=8)


def single(bench, more=""):
    network = bench.network()
    hosts = [network.host() for _ in range(5)]
    servers = bench.topology(Single, hosts[0])
    return network, servers, bench.fleet(servers, hosts[1:], replicas=0, more=more)


def works(fleet):
    """Waits until each daemon accepts changes again."""
    for number, daemon in enumerate(fleet.daemons):
        def is_accepted():
            with_key = f"works-{number}-{time.monotonic_ns()}"
            with daemon.connect() as client:
                return not isinstance(client.either(AWAY, "ONCE", "BEGIN", with_key, "TTL", "1m"), Error)

        eventually(is_accepted, lambda: f"it works again: {daemon.log[-2000:]}")


def lose_a_server(network, servers, fleet):
    lost = servers.primaries()[0]
    servers.lose(lost)
    servers.elected(lost)
    servers.replace(lost)


def stop_a_server(network, servers, fleet):
    server = servers.primaries()[0]
    for seconds in (0.1, 0.35):
        server.stop()
        time.sleep(seconds)
        server.go_on()
        time.sleep(0.5)


def stop_a_server_until_it_is_replaced(network, servers, fleet):
    server = servers.primaries()[0]
    server.stop()
    time.sleep(4)
    server.go_on()


def stop_a_daemon(network, servers, fleet):
    for _ in range(3):
        process = fleet.daemons[0].process
        process.send_signal(19)
        time.sleep(0.4)
        process.send_signal(18)
        time.sleep(0.3)


def kill_a_daemon(network, servers, fleet):
    for _ in range(2):
        fleet.kill(fleet.daemons[1])
        time.sleep(0.3)
        fleet.start_again(fleet.daemons[1])


def cut_a_primary_off(network, servers, fleet):
    host = servers.primaries()[0].host
    network.isolate(host)
    time.sleep(3)
    network.heal()
    return host


def cut_a_daemon_off(network, servers, fleet):
    for _ in range(2):
        network.isolate(fleet.daemons[-1].host)
        time.sleep(0.7)
        network.heal()
        time.sleep(0.5)


def lose_replies(network, servers, fleet):
    """The requests of a daemon arrive, their replies do not."""
    for _ in range(3):
        network.drop([(server.host, fleet.daemons[-1].host) for server in servers.servers])
        time.sleep(0.4)
        network.heal()
        time.sleep(0.4)


def forget_the_scripts(network, servers, fleet):
    for _ in range(10):
        for server in servers.primaries():
            assert server("SCRIPT", "FLUSH") == "OK"
        time.sleep(0.2)


FAULTS = [stop_a_server, stop_a_daemon, kill_a_daemon, cut_a_daemon_off, lose_replies, forget_the_scripts]
FAILOVERS = [lose_a_server, cut_a_primary_off, stop_a_server_until_it_is_replaced]


def run(parts, fault, with_failovers, **options):
    network, servers, fleet = parts
    with Histories(fleet, pause=0.002, **options) as histories:
        histories.wait(1)
        behind = fault(network, servers, fleet) if fault else None
        histories.wait(DURATION / 2)
        works(fleet)
    count = histories.check(with_failovers=with_failovers, behind=behind)
    # There are enough operations for the check to mean something.
    assert count > 500, count
    return histories


def test_histories_on_one_server_without_faults_can_be_explained(bench):
    histories = run(single(bench), None, False)
    assert {code for _, _, code in histories.answers} <= {None, "NOTFOUND"}


@pytest.mark.parametrize("fault", FAULTS)
def test_histories_on_one_server_can_be_explained(bench, fault):
    run(single(bench), fault, False)


@pytest.mark.parametrize("fault", [stop_a_daemon, kill_a_daemon, lose_a_server])
def test_histories_of_hosts_that_hold_only_what_is_used_can_be_explained(bench, fault):
    topology = trio if fault is lose_a_server else single
    run(topology(bench, more="mirror: used"), fault, fault is lose_a_server)


@pytest.mark.parametrize("fault", FAILOVERS)
def test_histories_over_failovers_of_sentinel_can_be_explained(bench, fault):
    run(trio(bench), fault, True)


@pytest.mark.parametrize("fault", FAILOVERS)
def test_histories_over_failovers_of_a_cluster_can_be_explained(bench, fault):
    run(cluster(bench), fault, True)


@pytest.mark.parametrize("ahead", [0.3, -0.3])
def test_histories_over_failovers_to_a_server_with_another_time_can_be_explained(bench, ahead):
    network, servers, fleet = trio(bench, clocks=True)
    for server in servers.servers[1:]:
        server.clocks.set_wall(ahead)
    run((network, servers, fleet), lose_a_server, True)
