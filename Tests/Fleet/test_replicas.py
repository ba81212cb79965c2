"""With `replicas: all`, whichever replica is promoted has what was accepted."""

import itertools
import time

import pytest

from countdownd import AWAY, Error, eventually, sure, view
from servers import SentinelTrio, Server, Single

numbers = itertools.count()


def start(key=None):
    """Returns the command that starts a countdown, with a new key if none is given."""
    return ["COUNTDOWN", "START", key or f"k{next(numbers)}", "COUNT", 3600, "EVERY", "1s"]


def works(client):
    """Waits until a start is accepted, each of another key: one that is repeated changes nothing."""
    eventually(lambda: not isinstance(client.either(AWAY, *start()), Error), "something is accepted")


def is_accepted(client, key):
    return view(sure(client, *start(key)))["accepted"]


def facts(daemon):
    """Returns what the daemon reports about its first server."""
    return dict(part.split("=", 1) for part in daemon.info("fleet")["fleet_server0"].split(",") if "=" in part)


def misses(daemon, server):
    eventually(lambda: facts(daemon)["missing"] == server.node, lambda: f"it is missing: {daemon.info('fleet')}")


def trio(bench, daemons=1, *, grace="60s", replicas="all", more="", **options):
    network = bench.network()
    hosts = [network.host() for _ in range(3 + daemons)]
    servers = bench.topology(SentinelTrio, hosts[:3], **options)
    fleet = bench.fleet(servers, hosts[3:], replicas=replicas, more=f"replica-grace: {grace}\n{more}")
    return network, servers, fleet


@pytest.mark.parametrize("replicas", ["all", 1])
def test_a_primary_that_wakes_up_with_a_replica_confirms_nothing_that_the_new_primary_lacks(bench, replicas):
    """A pauses for longer than the grace, C is promoted, A wakes up with B still attached.

    The first daemon does not reach the Sentinels any more. With `replicas: 1` it accepts what C lacks: that shows
    that the trap is one.
    """
    network = bench.network()
    a, b, c, *sentinels, first, second = [network.host() for _ in range(8)]
    servers = bench.topology(SentinelTrio, [a, b, c], sentinel_hosts=sentinels)
    fleet = bench.fleet(servers, [first, second], replicas=replicas, more="replica-grace: 1s")
    clients = [fleet.connect(0), fleet.connect(1)]
    for client in clients:
        works(client)
    old, _, new = servers.servers
    # B follows A whatever happens, and the first daemon sees A and B only.
    network.cut(b, [c, *sentinels])
    network.cut(first, [c, *sentinels])
    old.stop()
    assert servers.elected(old) is new
    time.sleep(1.5)
    old.go_on()
    eventually(lambda: old.role() == "master" and old.replicas_online() >= 1, "A has B")
    accepted = []
    for number in range(40):
        reply = clients[0].either(AWAY, *start(f"trap{number}"))
        if not isinstance(reply, Error) and view(reply)["accepted"]:
            accepted.append(f"trap{number}")
        time.sleep(0.05)
    network.heal()
    works(clients[1])
    twice = [key for key in accepted if is_accepted(clients[1], key)]
    if replicas == "all":
        assert accepted == [] and twice == []
    else:
        assert twice, accepted


def test_another_replica_does_not_stand_in_for_one_that_is_gone(bench):
    """WAIT counts replicas and does not name them."""
    network, servers, fleet = trio(bench)
    client = fleet.connect(0)
    works(client)
    gone = servers.servers[2]
    gone.kill()
    another = bench.keep(Server(network.host(), servers.directory / "another")).start(servers.primary)
    eventually(lambda: servers.primary.replicas_online() == 2, "the primary has two replicas again")
    misses(fleet.daemons[0], gone)
    assert gone.node in client.error("UNSURE", *start())
    another.close()


def test_a_replica_that_dies_costs_unsure_for_the_grace_only(bench):
    network, servers, fleet = trio(bench, grace="2s")
    client = fleet.connect(0)
    works(client)
    gone = servers.servers[2]
    gone.kill()
    client.error("UNSURE", *start())
    works(client)
    assert facts(fleet.daemons[0])["missing"] == ""
    assert "no longer wait for it" in fleet.daemons[0].log
    # Once it is back, changes wait for it again.
    gone.start(servers.primary)
    eventually(lambda: facts(fleet.daemons[0])["replicas"] == "2", "it follows again")
    works(client)
    gone.kill()
    client.error("UNSURE", *start())


def test_the_last_replica_is_never_forgotten(bench):
    network, servers, fleet = trio(bench, grace="1s")
    client = fleet.connect(0)
    works(client)
    for server in servers.servers[1:]:
        server.kill()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        client.error("UNSURE UNAVAILABLE", *start())
        time.sleep(0.1)


def test_a_replica_that_is_connected_but_silent_counts_as_missing_after_the_grace(bench):
    network, servers, fleet = trio(bench, grace="2s")
    client = fleet.connect(0)
    works(client)
    silent = servers.servers[2]
    assert servers.primary("CONFIG", "SET", "repl-timeout", "600") == "OK"
    silent.stop()
    client.error("UNSURE", *start())
    works(client)
    # The primary still believes in its connection.
    assert servers.primary.replicas_online() == 2
    silent.go_on()


def test_a_daemon_that_starts_waits_for_replicas_that_only_sentinel_knows(bench):
    network, servers, fleet = trio(bench)
    works(fleet.connect(0))
    gone = servers.servers[2]
    gone.kill()
    eventually(lambda: servers.primary.replicas_online() == 1, "the primary has one replica left")
    daemon = fleet.daemons[0]
    fleet.kill(daemon)
    fleet.start_again(daemon)
    assert gone.node in fleet.connect(0).error("UNSURE", *start())


def test_a_daemon_that_starts_confirms_nothing_before_a_majority_names_the_primary(bench):
    network, servers, fleet = trio(bench)
    client = fleet.connect(0)
    works(client)
    daemon = fleet.daemons[0]
    fleet.kill(daemon)
    sentinels = [host for host in servers.hosts if host is not servers.primary.host]
    network.cut(daemon.host, sentinels)
    daemon.start_again()
    eventually(lambda: "no majority names it" in daemon.info("fleet").get("fleet_server0", ""), "one Sentinel is not enough")
    fleet.connect(0).error("UNAVAILABLE", *start())
    network.heal()
    works(fleet.connect(0))


def alone(bench, *, replica, **options):
    network = bench.network()
    hosts = [network.host() for _ in range(3)]
    servers = bench.topology(Single, hosts[0])
    follower = bench.keep(Server(hosts[1], servers.directory / "replica")) if replica else None
    if follower:
        follower.start(servers.server)
        follower.join()
    return servers.server, follower, bench.fleet(servers, hosts[2:], **options)


def test_the_replica_of_a_single_server_is_never_forgotten(bench):
    server, replica, fleet = alone(bench, replica=True, more="replica-grace: 1s")
    client = fleet.connect(0)
    works(client)
    replica.kill()
    misses(fleet.daemons[0], replica)
    time.sleep(3)
    client.error("UNSURE", *start())


def test_a_single_server_without_a_replica_is_refused_with_the_setting_to_change(bench):
    server, _, fleet = alone(bench, replica=False, is_open=False)
    daemon = fleet.daemons[0]
    eventually(lambda: "a single server needs fleet.replicas: 0" in daemon.log, "the log names the setting")
    daemon.connect().error("UNAVAILABLE LOADING", *start())


def test_a_number_below_the_replicas_that_exist_is_reported(bench):
    network, servers, fleet = trio(bench, replicas=1)
    daemon = fleet.daemons[0]
    client = fleet.connect(0)
    eventually(lambda: daemon.info("fleet")["fleet_replicas_unasked"] == "1", "INFO reports it")
    assert "fleet.replicas is lower than the replicas of a server" in daemon.log
    assert b"countdownd_fleet_replicas_unasked 1" in client("METRICS")


def test_a_promoted_replica_that_lacks_accepted_changes_is_found(bench):
    network, servers, fleet = trio(bench, replicas=0)
    client = fleet.connect(0)
    works(client)
    old = servers.primary
    for server in servers.servers:
        if server is not old:
            network.cut(server.host, [old.host])
    for number in range(8):
        assert view(client(*start(f"lost{number}")))["accepted"]
    servers.lose(old)
    servers.elected(old)
    daemon = fleet.daemons[0]
    eventually(lambda: int(daemon.info("fleet")["fleet_takeovers_behind"]) > 0, "it is found")
    assert "lacks changes which were accepted" in daemon.log
    works(client)


def test_an_empty_replica_that_is_promoted_is_found_and_nothing_is_accepted(bench):
    """What was sent is unknown: nothing is accepted until the longest cooldown is over."""
    network, servers, fleet = trio(bench)
    client = fleet.connect(0)
    for number in range(8):
        sure(client, *start(f"lost{number}"))
    old = servers.primary
    old.stop()
    for server in servers.servers:
        if server is not old:
            assert server("CONFIG", "SET", "replica-read-only", "no") == "OK"
            assert server("FLUSHALL") == "OK"
    servers.elected(old)
    daemon = fleet.daemons[0]
    eventually(lambda: int(daemon.info("fleet")["fleet_losses"]) > 0, "it is found")
    eventually(lambda: "have lost records" in daemon.log, "it is in the log")
    eventually(lambda: int(daemon.info("fleet")["fleet_losses"]) == 4, "in all partitions")
    for number in range(8):
        client.error(AWAY, *start(f"lost{number}"))
    old.go_on()
