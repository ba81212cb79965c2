"""Malformed, excessive or endless input: the daemon keeps serving other clients."""

import contextlib
import os
import random
import resource
import socket
import threading
import time

import pytest

from countdownd import ANY, PATIENCE, Client, Closed, Simple, eventually, is_asleep, request, view


@pytest.fixture(autouse=True)
def bystander(daemon):
    """A second client, which must be answered before, during and after the test."""
    client = daemon.connect()
    assert client("PING") == Simple("PONG")
    stop = threading.Event()
    failures = []

    def ask():
        number = 0
        while not stop.is_set():
            try:
                assert client("ECHO", number) == b"%d" % number
            except Exception as failure:
                failures.append(failure)
                return
            number += 1
            time.sleep(0.01)

    thread = threading.Thread(target=ask)
    thread.start()
    yield client
    stop.set()
    thread.join()
    assert not failures


def refused(client, data):
    """Returns the replies to `data` until the daemon closes the connection."""
    try:
        client.send_bytes(data)
    except ConnectionError:
        pass
    replies = []
    try:
        while True:
            replies.append(client.receive(ANY))
    except Closed:
        return replies


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1x\r\n", "invalid multibulk length"),
        (b"*--1\r\n", "invalid multibulk length"),
        (b"*1\rx", "invalid multibulk length"),
        (b"*" + b"1" * 30, "invalid multibulk length"),
        (b"*9223372036854775807\r\n", "max-arguments"),
        (b"*99999999999999999999\r\n", "max-arguments"),
        (b"*16385\r\n", "16385 arguments, max-arguments is 16384"),
        (b"*1000000\r\n" + b"$1\r\na\r\n" * 1_000_000, "max-arguments"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n\x00", "expected '$', got '\\x00'"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", "max-bulk-length"),
        (b"*1\r\n$9223372036854775808\r\n", "max-bulk-length"),
        (b"*1\r\n$262145\r\n", "bulk of 262145 bytes, max-bulk-length is 262144"),
        (b"*2\r\n$1\r\nabc", "bulk does not end where its length says"),
        (request("ECHO", *["x" * 65_536] * 17), "max-request-length"),
        (b'ECHO "a\r\n', "unbalanced quotes"),
        (b"ECHO 'a\r\n", "unbalanced quotes"),
        (b'ECHO "a"b\r\n', "unbalanced quotes"),
        (b"x" * 65_537, "max-inline-length"),
        (b"x" * 100_000 + b"\r\n", "max-inline-length"),
        (b"a " * 16_385 + b"\r\n", "max-arguments"),
    ],
    ids=lambda value: str(value[:24]) if isinstance(value, bytes) else None,
)
def test_protocol_errors_are_answered_and_close_the_connection(daemon, client, data, reason):
    before = int(daemon.info("stats")["protocol_errors"])
    replies = refused(client, request("PING") + data)
    assert replies[0] == Simple("PONG"), "what came before is answered"
    assert len(replies) == 2
    assert replies[1].startswith("ERR Protocol error: ") and reason in replies[1], replies[1]
    assert int(daemon.info("stats")["protocol_errors"]) == before + 1
    assert "protocol error: " in daemon.log


@pytest.mark.parametrize("data", [b"*0\r\n", b"*-1\r\n", b"\r\n", b"\n", b" \r\n", b"*-5\r\n"])
def test_empty_requests_are_ignored(client, data):
    client.send_bytes(data + request("PING"))
    assert client.receive() == Simple("PONG")
    assert not client.arrived()


def test_the_largest_requests_are_accepted(client):
    assert client("ECHO", "x" * 262_144) == b"x" * 262_144
    names = ["x"] * 16_381
    assert len(client("PUBSUB", "NUMSUB", *names)) == 2 * len(names)
    client.send_bytes(b"ECHO " + b"x" * 65_531 + b"\n")
    assert client.receive() == b"x" * 65_531


@pytest.mark.parametrize("name, value, data", [
    ("max-bulk-length", 100, request("ECHO", "x" * 101)),
    ("max-inline-length", 100, b"ECHO " + b"x" * 100 + b"\r\n"),
    ("max-arguments", 10, request(*["ECHO"] * 11)),
    ("max-request-length", 100, request("ECHO", "x" * 60, "x" * 60)),
])  # fmt: skip
def test_configured_limits_are_enforced_and_named(start_daemon, name, value, data):
    daemon = start_daemon(config=f"limits: {{{name}: {value}}}")
    (error,) = refused(daemon.connect(), data)
    assert name in error and str(value) in error


# Limits on connections and entities


@pytest.mark.parametrize("name", ["max-connections", "max-connections-per-uid"])
def test_connections_beyond_the_limit_are_refused(start_daemon, name):
    daemon = start_daemon(config=f"limits: {{{name}: 3, reserved-connections: 0}}")
    clients = [eventually(lambda: can_ping(daemon) and daemon.connect(), "it answers")]
    eventually(lambda: b"connected_clients:1\r" in clients[0]("INFO", "clients"), "none but it")
    clients += [daemon.connect() for _ in range(2)]
    assert all(client("PING") == Simple("PONG") for client in clients)
    for _ in range(5):
        refusal = daemon.connect()
        assert refusal.refusal("LIMIT") == f"LIMIT {name} is 3 and reached"
        assert refusal.is_closed()
    assert f"limits.{name} is reached" in daemon.log
    assert b"rejected_connections:" in clients[0]("INFO", "clients")
    clients.pop().close()
    eventually(lambda: b"connected_clients:2" in clients[0]("INFO", "clients"), "one is gone")
    assert daemon.connect()("PING") == Simple("PONG")
    for client in clients:
        client.close()
    for other in daemon.clients:
        other.close()
    eventually(lambda: can_ping(daemon), "there is room again")


def can_ping(daemon):
    try:
        with Client(daemon.path) as client:
            return client.either("LIMIT", "PING") == Simple("PONG")
    except (OSError, Closed):
        return False


@pytest.mark.parametrize("name", ["max-entities", "max-entities-per-uid"])
def test_entities_beyond_the_limit_are_refused(start_daemon, name):
    daemon = start_daemon(config=f"limits: {{{name}: 3}}")
    client = daemon.connect()
    client("COUNTDOWN", "START", "k")
    client("HUD", "SHOW", "k")
    client("TIMER", "SET", "k", "1h")
    for words in (["COUNTDOWN", "START", "l"], ["HUD", "SHOW", "l"], ["TIMER", "SET", "l", "1h"]):
        assert client.error("LIMIT", *words) == f"LIMIT {name} is 3 and reached"
    assert client("DBSIZE") == 3
    assert view(client("TIMER", "SET", "k", "2h"))["remaining_ms"] > 0, "it takes the old one's place"
    client("TIMER", "DEL", "k")
    assert view(client("COUNTDOWN", "START", "l"))["accepted"] == 1


# Streams and crowds


def returns(daemon, before, slack=24 << 20):
    eventually(
        lambda: daemon.resident() < before + slack,
        f"memory returns: {daemon.resident() >> 20} MiB, it was {before >> 20} MiB",
    )


@pytest.mark.parametrize("kind", ["random", "lines", "zeros", "frames"])
def test_the_daemon_survives_100_mb_of_garbage(daemon, kind):
    generator = random.Random(1)
    block = {
        "random": generator.randbytes(1 << 20),
        "lines": b"".join(b"garbage%d\r\n" % n for n in range(80_000))[: 1 << 20],
        "zeros": bytes(1 << 20),
        "frames": (request("GARBAGE", generator.randbytes(500)) * 2_000)[: 1 << 20],
    }[kind]
    before = daemon.resident()
    client = daemon.connect()
    client.socket.setblocking(False)
    sent, reader_ends = 0, False
    end = time.monotonic() + 60
    while sent < 100 << 20 and not reader_ends and time.monotonic() < end:
        progress = False
        try:
            sent += client.socket.send(block[sent % len(block) :][: 1 << 18])
            progress = True
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        try:
            reader_ends = client.socket.recv(1 << 20) == b""
            progress = True
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        if not progress:
            time.sleep(0.001)
        if kind in ("lines", "frames") and sent > 2 << 20:
            # Each line or frame is a command that gets an error, so this would never end.
            break
    client.close()
    assert daemon.peak() - before < 64 << 20
    returns(daemon, before)


def test_commands_faster_than_they_are_done_wait_within_bounds(daemon):
    """A client reads its replies and never stops sending."""
    before = daemon.resident()
    client = daemon.connect()
    data = request("PING") * 4_000
    stop = threading.Event()

    def read():
        while not stop.is_set():
            if not client.socket.recv(1 << 20):
                return

    reader = threading.Thread(target=read)
    reader.start()
    sent, end = 0, time.monotonic() + 3
    while sent < 64 << 20 and time.monotonic() < end:
        client.send_bytes(data)
        sent += len(data)
    stop.set()
    client.end_input()
    reader.join()
    assert daemon.peak() - before < 32 << 20
    client.close()
    returns(daemon, before)


def test_a_client_that_never_reads_takes_bounded_memory(daemon):
    before = daemon.resident()
    client = daemon.connect()
    data = request("COMMAND", "DOCS") * 1_000_000
    assert client.send_what_fits(daemon, data) < len(data)
    assert daemon.peak() - before < 64 << 20
    assert int(daemon.info("clients")["backed_up_clients"]) == 1
    client.close()
    eventually(lambda: daemon.info("clients")["output_bytes"] == "0", "it is gone")
    returns(daemon, before)


def test_the_daemon_survives_1000_clients_that_vanish(daemon):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2_100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    before = daemon.resident()
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for how in range(5):
        clients = []
        for number in range(200):
            client = daemon.connect()
            if how == 1:
                client.send_bytes(b"*3\r\n$9\r\nSUBSCRIBE\r\n$100\r\nhalf")
            elif how == 2:
                client.send_bytes(request("PSUBSCRIBE", "*") + request("PING") * 10)
            elif how == 3:
                client.send_bytes(request("TIMER", "SET", number, "1h", "OWNER", "connection"))
            elif how == 4:
                client.send_bytes(request("MONITOR"))
            clients.append(client)
        for client in clients:
            client.close()
    # The bystander and the connection of `info`.
    eventually(lambda: daemon.info("clients")["connected_clients"] == "2", "they are gone")
    eventually(lambda: daemon.info("timers")["entities"] == "0", "what they owned is gone")
    eventually(
        lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= descriptors + 1,
        "their descriptors are given back",
    )
    eventually(lambda: daemon.info("stats")["pubsub_patterns"] == "0", "their patterns are gone")
    returns(daemon, before)


def ping_on(client, path):
    """Connects a socket, and returns what it receives first."""
    client.connect(str(path))
    client.settimeout(PATIENCE)
    # It may be refused already.
    with contextlib.suppress(BrokenPipeError):
        client.sendall(b"PING\r\n")
    return client.recv(1_000).decode().strip()


@pytest.mark.daemon(descriptors=64)
def test_connections_leave_descriptors_to_the_daemon(daemon):
    assert int(daemon.info("clients")["missing_descriptors"]) == 20_000 + 8 + 128 - 64
    assert "limits.max-connections is 20000, but there is room for 24" in daemon.log
    with contextlib.ExitStack() as clients:
        answers = [ping_on(clients.enter_context(socket.socket(socket.AF_UNIX)), daemon.path) for _ in range(40)]
        assert set(answers[:30]) == {"+PONG"}
        assert answers[-1] == "-LIMIT max-connections is 24 and reached"
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < 60
        eventually(lambda: is_asleep(daemon.pid), "it waits without spinning")
    eventually(lambda: can_ping(daemon), "it takes connections again")


def test_a_connection_without_a_descriptor_is_refused(daemon, client):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # It has accepted this client beside the bystander, and let go of all before.
    eventually(lambda: b"connected_clients:2\r" in client("INFO", "clients"), "it has both clients")
    # All that it has opened, and none more.
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{daemon.pid}/fd")), hard))
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as other:
            assert ping_on(other, daemon.path) == (
                "-LIMIT the daemon can open no more files; LimitNOFILE= is the limit")
    assert client("PING") is not None
    eventually(lambda: is_asleep(daemon.pid), "it waits without spinning")
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (1_000, hard))
    eventually(lambda: can_ping(daemon), "it takes connections again")
    assert "no more files can be opened" in daemon.log
