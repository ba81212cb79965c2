"""No command blocks the loop for long; unread output stays within its limits."""

import threading
import time

import pytest

from countdownd import Client, eventually, request


class Pings:
    """Another client, which counts its PINGs until the `with` block ends."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.count = 0
        self.ends = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        with Client(self.daemon.path) as client:
            while not self.ends.is_set():
                client("PING")
                self.count += 1

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def in_pieces(client, commands, size=500):
    """Sends the commands in pieces, and reads the replies after each piece."""
    commands = list(commands)
    for start in range(0, len(commands), size):
        piece = commands[start : start + size]
        client.send_bytes(b"".join(request(*words) for words in piece))
        for _ in piece:
            client.reply()


def fields(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


@pytest.mark.alone
def test_events_since_with_many_patterns_does_not_hold_others_up(daemon, client):
    in_pieces(client, (("TIMER", "SET", f"t{number}", "1h") for number in range(5_000)))
    reader = daemon.connect(protocol=3)
    reader.send("PSUBSCRIBE", *[f"*{number:03}*x" for number in range(850)])
    for _ in range(850):
        reader.push()
    with Pings(daemon) as pings:
        sequence, pages = 0, 0
        while pages < 50:
            page = fields(reader("EVENTS", "SINCE", sequence, "SUBSCRIBED", "LIMIT", "10000"))
            sequence = page[b"last_seq"] if page[b"more"] else 0
            pages += 1
    # Each page is bounded, so that others have their turn after it.
    assert pings.count > pages / 2


def test_patterns_are_limited_for_all_connections_of_a_user(daemon, client):
    first, second = daemon.connect(), daemon.connect()
    first.send("PSUBSCRIBE", *[f"timer:{number}*" for number in range(600)])
    for _ in range(600):
        first.push()
    patterns = [f"timer:{number}*" for number in range(401)]
    error = second.error("LIMIT", "PSUBSCRIBE", *patterns)
    assert "max-patterns-per-uid is 1000" in error
    assert client("PUBSUB", "NUMPAT") == 600
    first.close()
    eventually(lambda: client("PUBSUB", "NUMPAT") == 0, "they go with the connection")
    second.send("PSUBSCRIBE", *patterns)
    assert second.push()[2] == 1


@pytest.mark.alone
def test_many_channels_at_once_do_not_hold_others_up(daemon, client):
    watcher = daemon.connect(protocol=3)
    with Pings(daemon) as pings:
        for start in range(0, 60_000, 15_000):
            channels = [f"timer:{number}" for number in range(start, start + 15_000)]
            watcher.send("SUBSCRIBE", *channels)
            for _ in range(2 * len(channels)):
                watcher.push()
        assert len(client("PUBSUB", "CHANNELS")) == 60_000
        watcher.send("UNSUBSCRIBE")
        for _ in range(60_000):
            message = watcher.push()
        assert message[2] == 0
    # Held up, it would have had an answer after each of the five commands.
    assert pings.count > 50


LIMITS = "limits: {max-output: 16MiB, max-output-per-uid: 32MiB}\nevents: {keep: 0}"


@pytest.mark.daemon(config="limits: {max-output: 4MiB, max-output-per-uid: 8MiB}\nevents: {keep: 0}")
def test_readers_that_are_dropped_free_their_output_at_once(daemon, client):
    """Many readers are dropped in a row, within the time that a closing connection may linger."""
    client("PING")
    before = daemon.resident()
    daemon.reset_peak()
    end = time.monotonic() + 60
    dropped = 0
    while dropped < 12 and time.monotonic() < end:
        deaf = [daemon.connect(receive_buffer=4_096) for _ in range(3)]
        for reader in deaf:
            reader.send("SUBSCRIBE", "timer:t")
            reader.push()
        # While a user's output is full, the daemon stops reading from clients with unread replies.
        timers = (("TIMER", "SET", "t", "1h", "PAYLOAD", "x" * 3_900) for _ in range(850))
        in_pieces(client, timers, size=20)
        dropped = int(daemon.info("stats")["output_limit_disconnections"])
        for reader in deaf:
            reader.close()
    assert dropped >= 12
    assert daemon.peak() - before < 24 << 20, (daemon.peak() - before) >> 20
    eventually(lambda: daemon.resident() - before < 8 << 20, "memory is returned to the system")


@pytest.mark.daemon(config=LIMITS)
def test_output_in_transport_buffers_counts_towards_the_limit(daemon, client):
    """Each reader has too little unread output to count as slow."""
    readers = [daemon.connect(receive_buffer=4_096) for _ in range(200)]
    for reader in readers:
        reader.send("SUBSCRIBE", "timer:t")
        reader.push()
    for _ in range(55):
        client("TIMER", "SET", "t", "1h", "PAYLOAD", "x" * 3_900)
    # The kernel buffers a part of it for each reader.
    assert int(daemon.info("clients")["output_bytes"]) > 4 << 20
    for reader in readers:
        reader.close()
    eventually(lambda: daemon.info("clients")["output_bytes"] == "0", "it is gone with them")
