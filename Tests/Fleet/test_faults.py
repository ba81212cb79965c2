"""Single faults whose outcome is certain."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from countdownd import AWAY, Error, eventually, sure, view
from history import percentile
from servers import SentinelTrio, Single


def start(key, *options):
    return ["COUNTDOWN", "START", key, "COUNT", 3600, "EVERY", "1s", *options]


def single(bench, daemons=2, config="", **options):
    network = bench.network()
    hosts = [network.host() for _ in range(daemons + 1)]
    server = bench.topology(Single, hosts[0], **options)
    return network, server, bench.fleet(server, hosts[1:], replicas=0, config=config)


def start_without_reply(network, servers, fleet):
    """Sends a START that arrives, but whose reply does not. Returns the clients and the key.

    A server refuses a START that arrives before the time at which it was decided. Then there is
    another one.
    """
    first, second = (daemon.connect() for daemon in fleet.daemons)
    for number in range(30):
        key = f"k{number}"
        sure(first, *start(f"warm{key}"))
        network.drop([(servers.server.host, fleet.daemons[0].host)])
        first.send(*start(key, "TOKEN", "t"))
        with contextlib.suppress(AssertionError):
            eventually(lambda: sure(second, "COUNTDOWN", "GET", key) is not None, "the change is made", 1, 0.005)
            return first, second, key
        first.reply(AWAY)
        network.heal()
    raise AssertionError("no START is made")


def test_a_daemon_that_is_killed_before_it_replies_has_sent_once(bench):
    network, servers, fleet = single(bench)
    _, other, key = start_without_reply(network, servers, fleet)
    fleet.daemons[0].kill()
    network.heal()
    again = view(other(*start(key, "TOKEN", "t")))
    assert (again["accepted"], again["reason"]) == (1, b"repeated")
    assert view(other(*start(key, "TOKEN", "u")))["accepted"] == 0


def test_replies_that_do_not_come_are_unsure_and_a_retry_is_repeated(bench):
    network, servers, fleet = single(bench)
    client, other, key = start_without_reply(network, servers, fleet)
    client.refusal("UNSURE")
    network.heal()
    again = view(other(*start(key, "TOKEN", "t")))
    assert (again["accepted"], again["reason"]) == (1, b"repeated")


def test_nothing_is_accepted_after_all_records_are_gone(bench):
    """Earlier sends are unknown, so nothing is accepted until the longest window has passed."""
    network, servers, fleet = single(bench, config="policies:\n  login: {every: 1s, windows: [3/1d]}\n")
    clients = [daemon.connect() for daemon in fleet.daemons]
    assert view(clients[0](*start("k")))["accepted"]
    assert servers.server("FLUSHALL") == "OK"
    for daemon, client in zip(fleet.daemons, clients):
        eventually(lambda: isinstance(client.either("UNAVAILABLE", *start("k")), Error), "a refusal")
        eventually(lambda: re.search(r"(?i)critical.*\n", daemon.log), "it is reported as critical")
        client.error("UNAVAILABLE", *start("another"))


def test_a_server_that_evicts_keys_is_refused_with_the_setting_to_change(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(2)]
    server = bench.topology(Single, hosts[0], policy="allkeys-lru")
    fleet = bench.fleet(server, hosts[1:], replicas=0, is_open=False)
    daemon = fleet.daemons[0]
    eventually(lambda: "noeviction" in daemon.log, "the log names the setting")
    daemon.connect().error("UNAVAILABLE LOADING", *start("k"))
    # With the right setting, the daemon works without a restart.
    assert server.server("CONFIG", "SET", "maxmemory-policy", "noeviction") == "OK"
    fleet.begin()
    fleet.wait_until_open(daemon)
    assert view(daemon.connect()(*start("k")))["accepted"]


def test_a_daemon_without_its_server_answers_and_the_others_work(bench):
    network, servers, fleet = single(bench)
    clients = [daemon.connect() for daemon in fleet.daemons]
    network.cut(fleet.daemons[0].host, [servers.server.host])
    seconds = []
    for number in range(30):
        begin = time.monotonic()
        clients[0].error("UNAVAILABLE UNSURE", *start(f"a{number}"))
        seconds.append(time.monotonic() - begin)
        assert view(clients[1](*start(f"b{number}")))["accepted"]
    # The circuit breaker is open: most answers come at once.
    assert percentile(seconds, 0.5) < 0.2, seconds
    network.heal()
    sure(clients[0], *start("c"))


def test_a_change_that_no_replica_confirms_is_unsure(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(SentinelTrio, hosts[:3])
    fleet = bench.fleet(servers, hosts[3:])
    client = fleet.connect(0)
    assert view(client(*start("k")))["accepted"]
    primary = servers.primary
    for server in servers.servers:
        if server is not primary:
            network.cut(server.host, [primary.host])
    client.error("UNSURE", *start("l", "TOKEN", "t"))
    network.heal()


@pytest.mark.parametrize("ahead", [0.3, -0.3])
def test_a_daemon_with_another_time_agrees_with_the_others(bench, ahead):
    from clocks import Clocks
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        clocks = Clocks(directory)
        network = bench.network()
        hosts = [network.host() for _ in range(3)]
        servers = bench.topology(Single, hosts[0])
        fleet = bench.fleet(servers, hosts[1:], replicas=0, environments=[clocks.environment()])
        clients = [daemon.connect() for daemon in fleet.daemons]
        clocks.set_wall(ahead)
        begin = time.monotonic()
        assert view(clients[0]("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "1s"))["accepted"]
        remaining = [view(client("COUNTDOWN", "GET", "k"))["remaining_ms"] for client in clients]
        passed = (time.monotonic() - begin) * 1000
        assert all(1000 - passed - 50 <= left <= 1001 for left in remaining), (remaining, passed)
        eventually(lambda: view(clients[1]("COUNTDOWN", "GET", "k"))["state"] == b"ready", "it is ready", pause=0.005)
        assert time.monotonic() - begin >= 1


@contextlib.contextmanager
def own_files(host):
    """Yields the folder with what a host has in place of files in /etc."""
    files = pathlib.Path("/etc/netns") / host.name
    files.mkdir(parents=True)
    try:
        yield files
    finally:
        shutil.rmtree(files)


def test_a_name_whose_first_address_does_not_answer_is_reached_by_the_second(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(3)]
    servers = bench.topology(Single, hosts[0])
    network.cut(hosts[1], [hosts[2]])
    with own_files(hosts[2]) as files:
        # Packets to the first address are dropped.
        (files / "hosts").write_text(f"{hosts[1].address} redis\n{hosts[0].address} redis\n")
        (files / "nsswitch.conf").write_text("hosts: files\n")
        servers.server.address = "redis"
        fleet = bench.fleet(servers, hosts[2:], replicas=0)
        assert view(fleet.connect(0)(*start("k")))["accepted"]


# Answers each question for an IPv4 address with that of its argument.
NAME_SERVER = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
while True:
    query, client = server.recvfrom(512)
    end = query.index(0, 12) + 5
    found = query[end - 4:end - 2] == bytes([0, 1])
    answer = bytes([192, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]) + socket.inet_aton(sys.argv[1])
    counts = bytes([0, 1, 0, int(found), 0, 0, 0, 0])
    server.sendto(query[:2] + bytes([0x81, 0x80]) + counts + query[12:end] + (answer if found else b""), client)
"""


def test_a_dead_first_name_server_does_not_disable_a_fleet(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(3)]
    servers = bench.topology(Single, hosts[0])
    network.cut(hosts[1], [hosts[2]])
    names = subprocess.Popen([*hosts[0].prefix, sys.executable, "-c", NAME_SERVER, hosts[0].address])
    with own_files(hosts[2]) as files, contextlib.ExitStack() as ending:
        ending.callback(names.wait)
        ending.callback(names.kill)
        # Each look-up takes two seconds, as packets to the first name server are dropped.
        (files / "resolv.conf").write_text(
            f"nameserver {hosts[1].address}\nnameserver {hosts[0].address}\noptions timeout:2 attempts:1\n"
        )
        (files / "nsswitch.conf").write_text("hosts: dns\n")
        servers.server.address = "redis.test"
        fleet = bench.fleet(servers, hosts[2:], replicas=0)
        assert view(fleet.connect(0)(*start("k")))["accepted"]
        # A connection that is made again uses the addresses that are known.
        names.kill()
        assert isinstance(servers.server("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), int)
        fleet.wait_until_open(fleet.daemons[0])
        sure(fleet.connect(0), *start("l"))
