"""Hosts that do not have copies of everything: `mirror: used`."""

import os
import re
import signal
import subprocess
import time

from countdownd import AWAY, PATIENCE, Error, ctl_binary, eventually, sure, view
from servers import Single

COUNT = 30


class Hosts:
    """Three hosts that share one server, with a subscriber of all timers each."""

    def __init__(self, bench, *, partitions=1, mirrors=("used",) * 3):
        network = bench.network()
        hosts = [network.host() for _ in range(4)]
        topology = bench.topology(Single, hosts[0])
        self.server = topology.server
        self.fleet = bench.fleet(
            topology, hosts[1:], replicas=0, partitions=partitions,
            mores=[f"mirror: {mirror}" for mirror in mirrors],
        )  # fmt: skip
        self.partitions = partitions

    def kept(self, daemon):
        return int(daemon.info("fleet")["fleet_kept_partitions"])

    def keeper(self):
        """Waits until one host keeps the partition; returns it, and the others."""
        daemons = self.fleet.daemons
        eventually(lambda: sum(self.kept(daemon) for daemon in daemons) == 1, "there is a keeper")
        return sorted(daemons, key=self.kept, reverse=True)

    def set(self, daemon, duration):
        with daemon.connect() as client:
            for number in range(COUNT):
                assert view(sure(client, "TIMER", "SET", f"t{number}", duration))

    def ends(self):
        """Returns the timers that ended, once for each time."""
        entries = self.server("XRANGE", "cd:{test.0}:ev", "-", "+")
        changes = [dict(zip(fields[::2], fields[1::2])) for _, fields in entries]
        return sorted(change[b"k"].decode() for change in changes if not change[b"r"])


def ctl(daemon, *words):
    """Returns what countdownctl writes to standard error, and to standard output in one line."""
    done = subprocess.run(
        [ctl_binary(), *words, "--socket", daemon.path], capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert done.returncode == 0, done
    return done.stderr, " ".join(done.stdout.split())


def subscribed(client, *channels):
    """Returns the first reply to SUBSCRIBE; None if the servers did not answer in time."""
    client.send("SUBSCRIBE", *channels)
    reply = client.receive(AWAY)
    return None if isinstance(reply, Error) else reply


def test_an_entry_that_no_daemon_has_written_is_read_once(bench):
    hosts = Hosts(bench)
    keeper, *_ = hosts.keeper()
    hosts.set(keeper, "1h")

    def reads():
        return int(re.match(r"calls=(\d+)", hosts.server.info("commandstats")["cmdstat_xread"])[1])

    newest = hosts.server("XREVRANGE", "cd:{test.0}:ev", "+", "-", "COUNT", "1")[0][0].decode()
    hosts.server("XADD", "cd:{test.0}:ev", newest.replace("-0", "-7"), "a", "b")
    before = reads()
    # Each host's read waits for a second.
    time.sleep(3)
    assert reads() - before < 1_000
    with keeper.connect() as client:
        assert view(sure(client, "TIMER", "SET", "after", "1h"))


def subscribe(daemon):
    client = daemon.connect()
    client.send("PSUBSCRIBE", "timer:*")
    client.receive()
    return client


def fired(client):
    """Returns the timers that fired, each once for each time, once all have."""
    found = []

    def has_all():
        while client.has_more(0.05):
            channel, event = client.event()
            if event["event"] == "fired":
                found.append((channel.decode(), event["generation"]))
        return len({channel for channel, _ in found}) == COUNT

    eventually(has_all, lambda: f"all fire: {found}")
    assert len(set(found)) == len(found), found
    return sorted(channel for channel, _ in found)


def without_writer(bench):
    """Kills the writer of timers; returns the hosts, the keeper and its subscriber, another one and its."""
    hosts = Hosts(bench)
    keeper, writer, other = hosts.keeper()
    heard = subscribe(keeper), subscribe(other)
    hosts.set(writer, "2s")
    writer.kill()
    return hosts, keeper, heard[0], other, heard[1]


def test_what_is_due_happens_once_though_its_writer_was_killed_and_nobody_holds_it(bench):
    hosts, _, of_keeper, other, of_other = without_writer(bench)
    assert fired(of_keeper) == fired(of_other) == hosts.ends()
    assert int(other.info("fleet")["fleet_copies"]) == 0


def test_what_is_due_happens_once_though_writer_and_keeper_were_killed(bench):
    hosts, keeper, _, other, of_other = without_writer(bench)
    keeper.kill()
    assert fired(of_other) == hosts.ends()
    eventually(lambda: hosts.kept(other) == 1, "it is the keeper")


def test_what_is_due_happens_once_though_the_keeper_was_stopped(bench):
    hosts, keeper, of_keeper, other, of_other = without_writer(bench)
    os.kill(keeper.pid, signal.SIGSTOP)
    first = fired(of_other)
    eventually(lambda: hosts.kept(other) == 1, "another one keeps the partition")
    os.kill(keeper.pid, signal.SIGCONT)
    assert first == fired(of_keeper) == hosts.ends()
    eventually(lambda: hosts.kept(keeper) + hosts.kept(other) == 1, "there is one keeper again")
    assert first == hosts.ends()


def test_keepers_share_the_partitions_and_give_them_back(bench):
    hosts = Hosts(bench, partitions=6)
    daemons = hosts.fleet.daemons
    eventually(lambda: sorted(hosts.kept(daemon) for daemon in daemons) == [2, 2, 2], "each keeps its share")
    hosts.set(daemons[0], "1h")
    daemons[1].stop("terminate")
    left = [daemons[0], daemons[2]]
    eventually(lambda: sorted(hosts.kept(daemon) for daemon in left) == [3, 3], "the others keep them")
    hosts.fleet.start_again(daemons[1])
    eventually(lambda: sorted(hosts.kept(daemon) for daemon in daemons) == [2, 2, 2], "it keeps its share again")
    for daemon in daemons:
        with daemon.connect() as client:
            assert all(sure(client, "TIMER", "GET", f"t{number}") for number in range(COUNT))


def test_a_host_with_all_copies_keeps_everything_for_those_without(bench):
    hosts = Hosts(bench, partitions=4, mirrors=("used", "all", "used"))
    first, whole, last = hosts.fleet.daemons
    eventually(lambda: [hosts.kept(daemon) for daemon in hosts.fleet.daemons] == [0, 4, 0], "one keeps all")
    hosts.set(whole, "1h")
    with first.connect() as client, last.connect() as other, first.connect() as lister:
        assert view(sure(client, "TIMER", "GET", "t1"))
        reply = eventually(lambda: subscribed(client, "timer:t2", "timer:absent"), "it subscribes")
        assert [reply[0], *(client.receive()[0] for _ in range(3))] == [b"subscribe"] * 2 + [b"message"] * 2
        assert view(sure(other, "TIMER", "SET", "t2", "2h", "PAYLOAD", "new"))
        eventually(lambda: client.event()[1].get("payload") == "new", "it receives the change")
        # A host that was the keeper for a moment has to let go of the rest first.
        eventually(lambda: len(lister("TIMER", "LIST")[1]) == 2, lambda: f"it has two: {lister('TIMER', 'LIST')}")

    def says_so():
        _, rows = ctl(first, "fleet", "status")
        omission, listed = ctl(first, "timer", "list")
        return re.search(r"entities +\d+ used here, 0 partitions kept", rows) and "only what this host holds" in omission and " t2 " in f" {listed} "

    eventually(says_so, lambda: ctl(first, "timer", "list"))
    assert ctl(whole, "timer", "list")[0] == "" and ctl(first, "hud", "list")[0] == ""
