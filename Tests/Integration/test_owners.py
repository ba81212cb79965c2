"""Entities end with the connection that owns them."""

import os
import re

import pytest

from countdownd import eventually, request, view


def test_entities_are_cancelled_when_their_client_disconnects(daemon, client):
    owner = daemon.connect()
    number = owner("CLIENT", "ID")
    owner("COUNTDOWN", "START", "k", "OWNER", "connection")
    owner("TIMER", "SET", "k", "1h", "OWNER", "connection")
    owner("HUD", "SHOW", "k", "OWNER", "connection", "FADEIN", "0", "FADEOUT", "0")
    owner("TIMER", "SET", "stays", "1h", "OWNER", "none")
    assert view(client("COUNTDOWN", "GET", "k"))["owner"] == b"connection:%d" % number
    watcher = daemon.connect()
    watcher.send("SUBSCRIBE", "countdown:k", "timer:k", "hud:k")
    for _ in range(6):
        watcher.push()
    owner.close()
    ends = {}
    while len(ends) < 3:
        channel, event = watcher.event()
        if channel == b"hud:k" and event["event"] == "did-disappear":
            ends[channel] = event["end"]
        elif event["event"] == "cancelled":
            ends[channel] = event["reason"]
    assert set(ends.values()) == {"owner-gone"}
    assert client("DBSIZE") == 1
    assert client("COUNTDOWN", "GET", "k") is None
    assert daemon.info("stats")["owner_gone"] == "3"


def test_entities_of_a_killed_client_are_cancelled(daemon, client):
    owner = daemon.connect()
    owner("TIMER", "SET", "t", "1h", "OWNER", "connection")
    client("CLIENT", "KILL", "ID", owner("CLIENT", "ID"))
    eventually(lambda: client("DBSIZE") == 0, "it is cancelled")


def test_holds_are_released_when_their_client_disconnects(daemon, client):
    owners = [daemon.connect() for _ in range(3)]
    for owner in owners:
        owner("HUD", "SHOW", "s", "OWNER", "connection")
    assert view(client("HUD", "GET", "s"))["leases"] == 3
    owners[0].close()
    eventually(lambda: view(client("HUD", "GET", "s"))["leases"] == 2, "a lease is back")
    owners[1].close()
    owners[2].close()
    eventually(lambda: client("HUD", "GET", "s") is None, "nobody wants it")


def test_a_client_with_20000_timers_disconnects_and_others_do_not_notice(daemon, client):
    count = 20_000
    owner = daemon.connect()
    for start in range(0, count, 1_000):
        owner.send_bytes(
            b"".join(
                request("TIMER", "SET", f"t{number}", "1h", "OWNER", "connection")
                for number in range(start, start + 1_000)
            )
        )
        for _ in range(1_000):
            owner.reply()
    assert client("DBSIZE") == count
    watcher = daemon.connect()
    watcher.send("SUBSCRIBE", f"timer:t{count - 1}")
    watcher.push(), watcher.event()
    seen = set(daemon.during(owner.close, "DBSIZE"))
    assert len(seen - {0, count}) > 3, "it was done in one go"
    eventually(lambda: client("DBSIZE") == 0, "all are gone")
    assert watcher.event()[1]["reason"] == "owner-gone"
    assert daemon.info("stats")["owner_gone"] == str(count)
    assert daemon.info("timers")["armed"] == "0"


def test_a_client_with_50000_subscriptions_vanishes_and_others_do_not_notice(daemon, client):
    count = 50_000
    watcher = daemon.connect(protocol=3)
    for start in range(0, count, 1_000):
        channels = [f"timer:{number}" for number in range(start, start + 1_000)]
        watcher.send("SUBSCRIBE", *channels)
        for _ in range(2_000):
            watcher.receive()
    assert len(client("PUBSUB", "CHANNELS")) == count
    watcher.close()
    # Another client is answered again and again while the channels go.
    left = [count]
    while left[-1] > 0:
        left.append(int(re.search(rb"pubsub_channels:(\d+)", client("INFO", "stats"))[1]))
    assert len({number for number in left if 0 < number < count}) > 10, "it was done in one go"


@pytest.mark.daemon(config="limits: {max-patterns-per-uid: 10000}")
def test_many_patterns_at_once_do_not_hold_others_up(daemon, client):
    watcher = daemon.connect()
    watcher.send("PSUBSCRIBE", *[f"timer:{number}:*" for number in range(10_000)])
    for number in range(10_000):
        assert watcher.push()[2] == number + 1
    client("TIMER", "SET", "7:x", "1h")
    while watcher.event()[1]["key"] != "7:x":
        pass
    watcher.close()
    eventually(lambda: client("PUBSUB", "NUMPAT") == 0, "all are gone")


def test_a_descriptor_used_again_after_hang_up_owns_nothing_of_before(daemon, client):
    directory = f"/proc/{daemon.pid}/fd"

    def sockets():
        found = {}
        for number in os.listdir(directory):
            try:
                target = os.readlink(f"{directory}/{number}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:"):
                found[number] = target
        return found

    client("TIMER", "SET", "other", "1h")
    eventually(lambda: len(sockets()) == 2, "there are a listening socket and this client")
    alone = sockets()

    def succeed():
        """Lets an owner hang up; returns its successor, if that has the same descriptor."""
        owner = daemon.connect()
        owner("TIMER", "SET", "before", "1h", "OWNER", "connection")
        used = sockets().keys() - alone.keys()
        owner.close()
        eventually(lambda: sockets() == alone, "it is closed")
        successor = daemon.connect()
        successor("TIMER", "SET", "after", "1h", "OWNER", "connection")
        if sockets().keys() - alone.keys() == used:
            return successor
        # The daemon has opened a file in between.
        successor.close()
        eventually(lambda: sockets() == alone, "it is closed, too")

    successor = eventually(succeed, "the number is used again")
    eventually(lambda: client("TIMER", "GET", "before") is None, "it is cancelled")
    assert view(client("TIMER", "GET", "after"))["owner"] == (
        b"connection:%d" % successor("CLIENT", "ID")
    )
    assert client("DBSIZE") == 2
