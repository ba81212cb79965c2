"""No command blocks the loop for long; unread output stays within its limits."""

import fcntl
import re
import struct
import termios
import time

import pytest

from countdownd import eventually, request


def numbers(replies, name):
    """Returns the numbers of this name in replies to INFO."""
    found = (re.search(rf"{name}(\d+)", reply.decode()) for reply in replies)
    return {int(match[1]) if match else 0 for match in found}


def has_read(client):
    """Returns whether the daemon has read all that this client has sent."""
    return struct.unpack("i", fcntl.ioctl(client.socket, termios.TIOCOUTQ, bytes(4)))[0] == 0


def in_pieces(client, commands, size=500):
    """Sends the commands in pieces, and reads the replies after each piece."""
    commands = list(commands)
    for start in range(0, len(commands), size):
        piece = commands[start : start + size]
        client.send_bytes(b"".join(request(*words) for words in piece))
        for _ in piece:
            client.reply()


def test_events_since_with_many_patterns_does_not_hold_others_up(daemon, client):
    in_pieces(client, (("TIMER", "SET", f"t{number}", "1h") for number in range(5_000)))
    reader = daemon.connect(protocol=3)
    reader.send("PSUBSCRIBE", *[f"*{number:03}*x" for number in range(850)])
    for _ in range(850):
        reader.push()
    pages = 50
    asked = request("EVENTS", "SINCE", 0, "SUBSCRIBED", "LIMIT", "10000") * pages
    seen = daemon.during(lambda: reader.send_bytes(asked), "INFO", "commandstats", count=1_000)
    # Each page is bounded, so that others have their turn after it.
    assert len(numbers(seen, r"cmdstat_events\|since:calls=") - {0, pages}) > 1
    for _ in range(pages):
        assert reader.reply()[b"more"]


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


def test_many_channels_at_once_do_not_hold_others_up(daemon, client):
    watcher, count = daemon.connect(protocol=3), 15_000
    command = request("SUBSCRIBE", *[f"timer:{number}" for number in range(count)])
    watcher.send_bytes(command[:-1])
    eventually(lambda: has_read(watcher), "all but the last byte is read")
    # Each channel has a confirmation, and a snapshot at first.
    for end, answers in [(command[-1:], 2 * count), (request("UNSUBSCRIBE"), count)]:
        seen = daemon.during(lambda: watcher.send_bytes(end), "INFO", "stats")
        assert numbers(seen, "pubsub_channels:") - {0, count}, "it was done in one go"
        for _ in range(answers):
            watcher.push()


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
