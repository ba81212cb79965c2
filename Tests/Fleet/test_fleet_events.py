"""Each subscriber of each host receives each event once, and never before its deadline."""

import collections
import json
import os
import subprocess
import sys
import threading
import time

from countdownd import PROJECT, ctl_binary, eventually, view
from history import Crowd, percentile
from servers import SentinelTrio, Single

COUNT = 200


class Subscriber:
    def __init__(self, daemon, pattern):
        self.client = daemon.connect()
        self.client.send("PSUBSCRIBE", pattern)
        self.client.receive()
        # A list of (name, time, event) for each key.
        self.events = {}

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.client.has_more(0.01):
                channel, event = self.client.event()
                key = channel.decode().split(":", 1)[1]
                self.events.setdefault(key, []).append((event["event"], time.monotonic(), event))


def check(fleet, servers=None):
    subscribers = [Subscriber(daemon, "countdown:e*") for daemon in fleet.daemons]
    clients = [daemon.connect() for daemon in fleet.daemons]
    begins = {}
    for number in range(COUNT):
        key, duration = f"e{number}", 400 + number * 7
        begins[key] = (time.monotonic(), duration / 1000)
        client = clients[number % len(clients)]
        reply = client("COUNTDOWN", "START", key, "COUNT", 1, "EVERY", f"{duration}ms", "BRIEF")
        assert reply[0] == 1, reply

    def has_all(subscriber):
        subscriber.read(0.1)
        return all(
            any(name == "ready" for name, _, _ in subscriber.events.get(key, [])) for key in begins
        )

    eventually(lambda: all(has_all(subscriber) for subscriber in subscribers), "all are ready")
    for subscriber in subscribers:
        subscriber.read(1)
    late = []
    for subscriber in subscribers:
        for key, (begin, duration) in begins.items():
            names = [name for name, _, _ in subscriber.events[key] if name not in ("tick", "snapshot")]
            assert names == ["started", "ready"], (key, names)
            *_, (_, _, event) = (one for one in subscriber.events[key] if one[0] == "ready")
            assert event["deadline_unix_ms"] <= event["now_unix_ms"], event
            late.append(event["now_unix_ms"] - event["deadline_unix_ms"])
    print(f"\nready is late by p50 {percentile(late, 0.5)} ms, p99 {percentile(late, 0.99)} ms, max {max(late)} ms")


def test_each_event_comes_once_at_each_subscriber_of_each_host(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(5)]
    servers = bench.topology(Single, hosts[0])
    check(bench.fleet(servers, hosts[1:], replicas=0))


def test_each_event_comes_once_with_replicas(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(SentinelTrio, hosts[:3])
    check(bench.fleet(servers, hosts, replicas=1))


def test_a_countdown_is_ready_once_although_its_writer_is_gone(bench):
    network = bench.network()
    hosts = [network.host() for _ in range(4)]
    servers = bench.topology(Single, hosts[0])
    fleet = bench.fleet(servers, hosts[1:], replicas=0)
    subscribers = [Subscriber(daemon, "countdown:e*") for daemon in fleet.daemons[1:]]
    client = fleet.connect(0)
    begin = time.monotonic()
    assert client("COUNTDOWN", "START", "e", "COUNT", 1, "EVERY", "1s", "BRIEF")[0] == 1
    fleet.kill(fleet.daemons[0])
    for subscriber in subscribers:
        subscriber.read(1.7 if subscriber is subscribers[0] else 0.2)
        names = [name for name, _, _ in subscriber.events["e"] if name != "tick"]
        assert names == ["started", "ready"], json.dumps(names)
        assert [when for name, when, _ in subscriber.events["e"] if name == "ready"][0] >= begin + 1


PYTHON = """
import countdownd, json, sys
for event in countdownd.Client(sys.argv[1]).watch("once:m*", snapshots=False):
    print(json.dumps({**event.raw, "event": event.name}), flush=True)
"""


class Follower:
    """A program that prints the events of a socket, whichever daemon listens there."""

    def __init__(self, words):
        self.program = subprocess.Popen(
            words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(PROJECT / "Clients/Python/src")})
        self.started, self.others = collections.Counter(), []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.program.stdout:
            event = json.loads(line)
            if event["event"] == "started":
                self.started[event["key"]] += 1
            else:
                self.others.append(event["event"])

    def close(self):
        self.program.kill()
        self.program.wait()
        self.thread.join()


def test_clients_that_move_to_another_host_miss_and_double_nothing(bench, tmp_path):
    network = bench.network()
    hosts = [network.host() for _ in range(3)]
    fleet = bench.fleet(bench.topology(Single, hosts[0]), hosts[1:], replicas=0)
    first, second = fleet.daemons
    socket, next_socket = tmp_path / "socket", tmp_path / "next"
    socket.symlink_to(first.path)
    followers = [
        bench.keep(Follower(words))
        for words in (
            [ctl_binary(), "--socket", socket, "watch", "--json", "once:m*"],
            [sys.executable, "-c", PYTHON, socket],
        )
    ]  # fmt: skip
    control = first.connect()
    eventually(lambda: control("CLIENT", "LIST").count(b"psub=1") == len(followers), "both follow")
    crowd, made = Crowd(), []

    def write():
        key = f"m{len(made)}"
        assert view(writer("ONCE", "BEGIN", key, "TTL", "1h"))["accepted"]
        made.append(key)

    def all_have_seen(count):
        eventually(
            lambda: all(len(one.started) >= count for one in followers),
            lambda: [(len(one.started), one.others) for one in followers])

    writer = second.connect()
    crowd.add(write)
    with crowd:
        all_have_seen(100)
        fleet.kill(first)
        missed = len(made) + 100
        eventually(lambda: len(made) > missed, "events that nobody follows")
        next_socket.symlink_to(second.path)
        next_socket.rename(socket)
        all_have_seen(missed + 100)
    all_have_seen(len(made))
    for one in followers:
        assert set(one.started) == set(made) and set(one.started.values()) == {1}
        assert "gap" not in one.others
