"""The daemon's event loop: many connections, clients that vanish in any phase, and no idle work."""

import contextlib
import os
import pathlib
import resource
import socket

import pytest

from countdownd import PATIENCE, Client, Simple, eventually, is_asleep, request

LONG = request("ECHO", "x" * 60_000)


def connect(daemon):
    connection = socket.socket(socket.AF_UNIX)
    # connect() waits while the socket's queue is full.
    connection.connect(str(daemon.path))
    connection.settimeout(PATIENCE)
    return connection


def send_what_fits(connection, data):
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while data:
            data = data[connection.send(data) :]


def idle(connection, daemon):
    pass


def half_a_command(connection, daemon):
    connection.sendall(request("COUNTDOWN", "START", "half")[:-4])


def unread_replies(connection, daemon):
    send_what_fits(connection, LONG * 100)


def input_ended_with_unread_replies(connection, daemon):
    send_what_fits(connection, LONG * 10)
    connection.shutdown(socket.SHUT_WR)


def output_ended(connection, daemon):
    connection.shutdown(socket.SHUT_RD)
    send_what_fits(connection, request("PING") * 10)


def long_pipeline(connection, daemon):
    send_what_fits(connection, request("PING") * 20_000)


def unread_events(connection, daemon):
    connection.sendall(request("PSUBSCRIBE", "countdown:*"))
    with daemon.connect() as other:
        for number in range(2_000):
            # Countdowns of one step, so that no ticks follow.
            other.send("COUNTDOWN", "START", f"e{number}", "COUNT", 1, "EVERY", "1h")
        for number in range(2_000):
            other.receive()


def part_of_a_long_command(connection, daemon):
    channels = [f"channel-{number}" for number in range(5_000)]
    connection.sendall(request("SUBSCRIBE", *channels))


def unread_backup(connection, daemon):
    connection.sendall(request("BACKUP", "BEGIN"))


PHASES = [
    idle,
    half_a_command,
    unread_replies,
    input_ended_with_unread_replies,
    output_ended,
    long_pipeline,
    unread_events,
    part_of_a_long_command,
    unread_backup,
]


def connection_count(daemon):
    return int(daemon.info("clients")["connected_clients"])


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_may_vanish_in_any_phase(daemon, phase):
    for _ in range(20):
        connection = connect(daemon)
        phase(connection, daemon)
        connection.close()
    eventually(lambda: connection_count(daemon) == 1, "their connections are closed")
    with Client(daemon.path) as client:
        assert client("PING") == Simple("PONG")


def test_the_loop_sleeps_whatever_state_connections_are_in(daemon):
    """A socket that stays ready, and is neither read nor written, would wake the loop forever."""
    connections = []
    for phase in PHASES:
        connections.append(connect(daemon))
        phase(connections[-1], daemon)
    eventually(lambda: is_asleep(daemon.pid), "it sleeps")
    for connection in connections:
        connection.close()


def test_each_of_20000_connections_is_served(start_daemon):
    """With a low hard limit of descriptors, there are as many connections as it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = min(20_500, hard)
    count = needed - 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        limits = "limits: {max-connections: 20100, max-connections-per-uid: 20100}"
        daemon = start_daemon(config=limits, descriptors=needed)
        descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        connections = [connect(daemon) for _ in range(count)]
        for connection in connections:
            connection.sendall(request("PING"))
        for connection in connections:
            assert connection.recv(64) == b"+PONG\r\n"
        assert connection_count(daemon) == count + 1
        for connection in connections:
            connection.close()
        eventually(lambda: connection_count(daemon) == 1, "their connections are closed")
        eventually(
            lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= descriptors + 1, "their descriptors are closed"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_comes_in_small_pages(daemon):
    """Clearing a huge page blocks the loop for milliseconds."""
    status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
    assert "THP_enabled:\t0\n" in status
