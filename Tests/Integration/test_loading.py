"""While the daemon loads its state, clients get LOADING and the service manager waits."""

import os
import socket

import pytest

from countdownd import FIRST_STATE, Simple, eventually, request, view
from preloaded import compiled

COUNT = 20_000
LOADING = "LOADING"


class Gate:
    """While closed, blocks reads of the state after the first `READS`."""

    # A page holds about twenty of the countdowns below, and they are loaded some thousand at a time.
    READS = 500

    def __init__(self, directory):
        self.closed = directory / "closed"

    def environment(self, **more):
        return dict(
            os.environ,
            LD_PRELOAD=str(compiled("gate")),
            GATE_FILE=f"/{FIRST_STATE}",
            GATE_AFTER=str(self.READS),
            GATE_CLOSED=str(self.closed),
            **more,
        )

    def close(self):
        self.closed.touch()

    def open(self):
        self.closed.unlink()


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


@pytest.fixture
def manager(tmp_path):
    """A socket that receives the messages for the service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        yield manager


def fill(client):
    """Creates a state of a few MiB."""
    commands = [request("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 50) for n in range(COUNT)]
    for first in range(0, COUNT, 2_000):
        client.send_bytes(b"".join(commands[first : first + 2_000]))
        for _ in range(2_000):
            client.reply()


@pytest.fixture
def loading(start_daemon, gate, manager):
    """A daemon that loads and waits at the closed gate; `before` has two views from before."""
    daemon = start_daemon(environment=gate.environment(NOTIFY_SOCKET=manager.getsockname()))
    client = daemon.connect()
    fill(client)
    # Not due before the daemon has ended, even on a busy machine.
    client("COUNTDOWN", "START", "short", "COUNT", 1, "EVERY", "8s")
    client("TIMER", "SET", "once", "8s", "LATE", "skip")
    client("TIMER", "SET", "often", "8s", "EVERY", "1h", "LATE", "coalesce")
    client("COUNTDOWN", "START", "long", "COUNT", 3_600)
    daemon.before = {key: view(client("COUNTDOWN", "GET", key)) for key in ["short", "long"]}
    # Folds the whole log into the tables, whose file the gate is for.
    daemon.back_up(daemon.directory / "copy.db")
    daemon.stop("terminate")
    while True:
        if "READY=1" in manager.recv(4_096).decode():
            break
    manager.setblocking(False)
    while True:
        try:
            manager.recv(4_096)
        except BlockingIOError:
            break
    manager.settimeout(30)
    gate.close()
    daemon.is_expected_to_run = True
    daemon.start_without_waiting()
    eventually(daemon.listens, "it listens")
    yield daemon
    if gate.closed.exists():
        gate.open()
    eventually(lambda: daemon.info("persistence")["loading"] == "0", "it has loaded")


def test_commands_that_need_state_get_loading_and_others_are_answered(loading, gate):
    client = loading.connect()
    for command in [
        ("COUNTDOWN", "START", "new"), ("COUNTDOWN", "GET", "long"), ("COUNTDOWN", "LIST"),
        ("TIMER", "SET", "new", "1h"), ("HUD", "SHOW", "new"), ("SUBSCRIBE", "countdown:long"),
        ("PSUBSCRIBE", "*"), ("EVENTS", "SINCE", 0), ("DBSIZE",), ("BACKUP", "BEGIN"),
        # A health check with PING learns that the daemon is not ready.
        ("PING",),
    ]:  # fmt: skip
        client.error(LOADING, *command)
    assert client("ECHO", "x") == b"x"
    for command in [
        ("EVENTS", "HELP"), ("PUBSUB", "HELP"), ("PUBSUB", "CHANNELS"), ("PUBSUB", "NUMPAT"),
        ("UNSUBSCRIBE", "countdown:long"), ("PUNSUBSCRIBE",),
    ]:  # fmt: skip
        client(*command)
    assert view(client("HELLO", 3))["proto"] == 3
    assert client("CLIENT", "SETNAME", "early") == Simple("OK")

    def is_under_way():
        info = loading.info("persistence")
        assert info["loading"] == "1" and int(info["loading_entities"]) < COUNT, info
        return int(info["loading_entities"]) > 0

    eventually(is_under_way, "some of it is loaded")
    # The refused commands have changed nothing.
    gate.open()
    eventually(lambda: loading.info("persistence")["loading"] == "0", "it has loaded")
    assert client("COUNTDOWN", "GET", "new") is None and client("TIMER", "GET", "new") is None
    assert loading.info("persistence")["loading_entities"] == ""
    assert client("DBSIZE") >= COUNT + 3
    assert view(client("COUNTDOWN", "START", "new"))["accepted"]


def test_the_service_manager_waits_and_gets_the_progress(loading, gate, manager):
    heard = [manager.recv(4_096).decode()]
    # The first message comes before the file is opened, which may take long, too.
    assert "EXTEND_TIMEOUT_USEC=" in heard[0] and "STATUS=loading: 0 entities" in heard[0]
    # The daemon listens and answers, but its state is not loaded.
    assert loading.info("persistence")["loading"] == "1"
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            heard.append(manager.recv(4_096).decode())
    assert not any("READY=1" in message for message in heard), heard
    gate.open()
    manager.settimeout(30)
    while "READY=1" not in heard[-1]:
        heard.append(manager.recv(4_096).decode())
    client = loading.connect()
    assert client("DBSIZE") >= COUNT + 3


def test_due_timers_fire_after_loading_and_no_time_is_added(loading, gate):
    short, long = loading.before["short"], loading.before["long"]
    # Waits until `short` is due: it cannot fire before the state is loaded.
    eventually(
        lambda: int(loading.info("server")["now_unix_ms"]) > short["deadline_unix_ms"] + 200, "it is due"
    )
    assert loading.info("lateness")["expired"] == "0"
    gate.open()
    client = loading.connect()
    client.retry(LOADING, "PSUBSCRIBE", "*")
    with loading.connect() as other:
        found = view(other("COUNTDOWN", "GET", "short"))
        assert found["state"] == b"ready"
        assert abs(found["deadline_unix_ms"] - short["deadline_unix_ms"]) <= 2
        assert other("TIMER", "GET", "once") is None
        assert view(other("TIMER", "GET", "often"))["fired"] == 1
        after = view(other("COUNTDOWN", "GET", "long"))
        assert abs(after["deadline_unix_ms"] - long["deadline_unix_ms"]) <= 2
    assert int(loading.info("lateness")["late_us_max"]) >= 200_000


def test_a_reload_during_loading_is_answered_afterwards(loading, gate):
    first, second, gone = (loading.connect() for _ in range(3))
    loading.config_path.write_text("policies:\n  login: {count: 5}\n")
    for client in (first, second, gone):
        client.send("CONFIG", "RELOAD")
    first.send("ECHO", "after")
    gone.close()
    # By then the daemon has received all three requests.
    eventually(lambda: "calls=3" in loading.info("commandstats")["cmdstat_config|reload"], "it is asked")
    # A later command is answered, and what the daemon has sent before is there.
    loading.info("server")
    assert not first.has_more()
    gate.open()
    # Each reloads by itself: the first one has changed the policy for all.
    assert all(view(client.reply())["needs_restart"] == [] for client in (first, second))
    assert first.reply() == b"after"
    assert first("CONFIG", "GET", "policies.login.count") == [b"policies.login.count", b"5"]
    # Later reloads are answered as usual.
    assert view(second("CONFIG", "RELOAD"))["changed"] == []
