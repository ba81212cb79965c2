"""Each subscriber of each host receives each event once, and never before its deadline."""

import json
import time

from countdownd import eventually
from history import percentile
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
