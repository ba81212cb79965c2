"""Clients that connect early wait at the socket until the daemon accepts them."""

import contextlib
import os
import resource
import signal
import socket

import pytest

from countdownd import PATIENCE

COUNT = 1_000


@pytest.fixture(autouse=True)
def descriptors():
    """Raises the limit to enough descriptors for the clients, here and in the daemon."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * COUNT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def connect():
    """Connects clients like Go and Node.js do, which receive EAGAIN where others would wait."""
    with contextlib.ExitStack() as clients:

        def connect(path):
            new = []
            refused = 0
            for _ in range(COUNT):
                client = clients.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                try:
                    client.connect(str(path))
                except BlockingIOError:
                    refused += 1
                client.settimeout(PATIENCE)
                new.append(client)
            assert refused == 0
            return new

        yield connect


def are_served(clients):
    for client in clients:
        client.sendall(b"PING\r\n")
    return all(client.recv(100) == b"+PONG\r\n" for client in clients)


def test_a_thousand_clients_wait_for_a_daemon_that_is_busy(daemon, connect):
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        clients = connect(daemon.path)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert are_served(clients)


def test_a_thousand_clients_wait_at_an_activated_socket(start_daemon, connect, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        # Like systemd: a queue as long as the kernel allows.
        listener.listen(2**31 - 1)
        daemon = start_daemon(listener=listener)
        daemon.kill()
        before = connect(daemon.path)
        daemon.start_again()
        assert are_served(before)
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            after = connect(daemon.path)
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        assert are_served(before + after)
