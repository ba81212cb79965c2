"""Who may connect, who may manage the daemon, and that no user can starve another.

Child processes with another uid act as other users, which needs root.
"""

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import traceback

import pytest
from countdownd import ANY, PROJECT, Client, Simple, eventually, request, view

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")

NOBODY, OTHER = 65534, 1000


class Child:
    """A process of another user that calls a function; `output` reads what it prints.

    It is forked without exec, because another user may not be able to read this Python.
    """

    def __init__(self, user, function, *arguments, groups=()):
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(reading)
                sys.stdout = open(writing, "w", buffering=1)
                os.setgroups(list(groups))
                os.setgid(user)
                os.setuid(user)
                function(*arguments)
                status = 0
            except BaseException:
                traceback.print_exc(file=sys.stdout)
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(writing)
        self.output = open(reading)

    def wait(self):
        """Waits for the end, and returns the exit status; negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        """Waits for a successful end, and returns the printed lines."""
        lines = self.output.read().splitlines()
        assert self.wait() == 0, lines
        return lines


def wait_for(daemon):
    """Waits until the daemon has loaded its state; it listens before that."""
    with Client(daemon.path) as client:
        eventually(lambda: client("PING") == Simple("PONG"), "it has read its state")


def open_up(daemon):
    """Lets every user reach the socket."""
    wait_for(daemon)
    os.chmod(daemon.directory, 0o755)
    os.chmod(daemon.path, 0o777)


def say(path, *commands):
    with Client(path) as client:
        for words in commands:
            print(client.either(ANY, *words.split()))


def say_as(user, daemon, *commands, groups=()):
    return Child(user, say, daemon.path, *commands, groups=groups).lines()


# Rules


@needs_root
def test_only_the_daemons_user_and_named_users_may_manage_it(daemon, client):
    open_up(daemon)
    ping, refusal = say_as(OTHER, daemon, "PING", "SLOWLOG RESET")
    assert ping == "PONG"
    assert refusal.startswith("NOPERM SLOWLOG RESET is for root")
    assert f"access.admin.users: [{OTHER}] would allow it" in refusal
    assert say_as(OTHER, daemon, "SHUTDOWN")[0].startswith("NOPERM SHUTDOWN")
    assert client("SLOWLOG", "RESET") == Simple("OK")

    daemon.config_path.write_text("access: {admin: {groups: [4242]}}")
    reply = dict(zip(*[iter(client("CONFIG", "RELOAD"))] * 2))
    assert reply == {
        b"changed": [[b"access.admin.groups", b"", b"4242"]],
        b"needs_restart": [],
    }
    assert say_as(OTHER, daemon, "SLOWLOG RESET")[0].startswith("NOPERM")
    assert say_as(OTHER, daemon, "SLOWLOG RESET", groups=[7, 4242]) == ["OK"]
    many = [*range(5000, 5100), 4242]
    assert say_as(OTHER, daemon, "SLOWLOG RESET", groups=many) == ["OK"]


@needs_root
@pytest.mark.daemon(config="limits: {max-entities-per-uid: 1}\n")
def test_a_user_who_is_refused_often_hides_no_other_in_the_log(daemon):
    open_up(daemon)
    for user, count in [(OTHER, 30), (NOBODY, 2)]:
        say_as(user, daemon, *[f"TIMER SET {user}-{number} 1h" for number in range(count)])
    refused = re.findall(r"command refused: limits.max-entities-per-uid.* uid=(\d+)", daemon.log)
    assert (refused.count(str(OTHER)), refused.count(str(NOBODY))) == (10, 1)


@needs_root
def test_only_named_users_may_connect(start_daemon):
    daemon = start_daemon(config=f"access: {{connect: {{users: [{OTHER}], groups: [4242]}}}}")
    open_up(daemon)
    assert say_as(OTHER, daemon, "PING") == ["PONG"]
    assert say_as(NOBODY, daemon, "PING", groups=[4242]) == ["PONG"]

    def be_refused(path):
        client = Client(path)
        print(client.refusal("NOPERM"))
        print(client.is_closed())

    assert Child(NOBODY, be_refused, daemon.path).lines() == [
        f"NOPERM uid {NOBODY} may not connect: access.connect in the configuration names neither "
        "it nor any of its groups",
        "True",
    ]
    assert daemon.connect()("PING") == Simple("PONG"), "root always may"
    assert "access.connect does not name its user" in daemon.log


# Reload


def test_config_reload_reports_what_changed_or_is_wrong(start_daemon):
    daemon = start_daemon(config="countdown: {count: 5}")
    client = daemon.connect(protocol=3)
    assert client("CONFIG", "RELOAD") == {b"changed": [], b"needs_restart": []}
    daemon.config_path.write_text(
        "socket: {mode: 0600}\npolicies: {login: {count: 7}}\nlog-level: notice\n"
    )
    reply = client("CONFIG", "RELOAD")
    assert [b"countdown.count", b"5", b"60"] in reply[b"changed"]
    assert [b"log-level", b"info", b"notice"] in reply[b"changed"]
    assert [b"policies.login.count", None, b"7"] in reply[b"changed"]
    assert reply[b"needs_restart"] == [b"socket.mode"]

    daemon.config_path.write_text("countdown: {count: 0}\nlimits: {x: 1}\n")
    error = client.error("ERR", "CONFIG", "RELOAD")
    assert error.startswith("ERR the configuration is refused, the old one stays: ")
    assert f"{daemon.config_path}:1: countdown.count" in error
    assert f"{daemon.config_path}:2: limits.x" in error
    assert "the configuration is refused, the old one stays: " in daemon.log
    assert client("CONFIG", "GET", "countdown.count") == {b"countdown.count": b"60"}


def test_what_follows_a_reload_in_a_pipeline_is_answered_after_it(start_daemon):
    daemon = start_daemon(config="countdown: {count: 5}")
    client = daemon.connect()
    daemon.config_path.write_text("countdown: {count: 6}")
    for words in (["PING"], ["CONFIG", "RELOAD"], ["CONFIG", "GET", "countdown.count"], ["PING"]):
        client.send(*words)
    client.end_input()
    assert client.reply() == Simple("PONG")
    assert client.reply()[1] == [[b"countdown.count", b"5", b"6"]]
    assert client.reply() == [b"countdown.count", b"6"]
    assert client.reply() == Simple("PONG")
    assert client.is_closed()


def test_countdownctl_reload_reports_what_changed(start_daemon):
    daemon = start_daemon(config="countdown: {count: 5}")
    tool = PROJECT / ".build/debug/countdownctl"
    if not tool.exists():
        tool = PROJECT / ".build/release/countdownctl"

    def reload():
        return subprocess.run(
            [tool, "--socket", daemon.path, "reload"], capture_output=True, text=True, timeout=30
        )

    assert reload().stdout == "nothing has changed\n"
    daemon.config_path.write_text("countdown: {count: 6}")
    done = reload()
    assert (done.returncode, done.stdout) == (0, "countdown.count: 5 -> 6\n")
    daemon.config_path.write_text("countdown: {count: 0}")
    done = reload()
    assert done.returncode == 4
    assert f"{daemon.config_path}:1: countdown.count" in done.stderr


# One user and another


def flood(path):
    """Sends endless pipelines, causes unread output, and creates entities and connections; prints
    the limits that it reaches."""
    pings = request("PING") * 2_000
    echoes = request("ECHO", "x" * 60_000) * 20
    timers = b"".join(request("TIMER", "SET", f"flood{n}", "1h") for n in range(500))
    kinds = itertools.cycle([(timers, True), (pings, True), (echoes, False)])
    connections, met = [], set()

    def learn(data):
        if not data:
            raise ConnectionResetError
        for line in data.split(b"\r\n"):
            name = line.split()[1] if line.startswith(b"-LIMIT ") else None
            if name and name not in met:
                met.add(name)
                print(name.decode())

    while True:
        # Reaches the entity limit first: unread output at its limit would hold back the timers.
        if len(connections) < 40 and (b"max-entities-per-uid" in met or not connections):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(path))
            connection.setblocking(False)
            connections.append([connection, 0, *next(kinds)])
        for entry in list(connections):
            connection, sent, data, reads = entry
            try:
                try:
                    sent += connection.send(data[sent : sent + (1 << 16)])
                    entry[1] = sent % len(data)
                except BlockingIOError:
                    pass
                # Without reading, it still peeks for an immediate refusal.
                learn(connection.recv(1 << 16, 0 if reads else socket.MSG_PEEK))
            except BlockingIOError:
                pass
            except OSError:
                connection.close()
                connections.remove(entry)


def echo_on_many_connections(path, count):
    """Keeps sending long pipelines on many connections at once."""
    pipeline = request("ECHO", "x") * 1_000
    connections = []
    for _ in range(count):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        connection.setblocking(False)
        connections.append([connection, 0])
    print("connected")
    while True:
        for entry in connections:
            with contextlib.suppress(BlockingIOError):
                entry[1] += entry[0].send(pipeline[entry[1] % len(pipeline) :])
            with contextlib.suppress(BlockingIOError):
                entry[0].recv(1 << 16)


def echoes(info):
    """Returns the number of ECHO commands so far, from INFO."""
    found = re.search(r"cmdstat_echo:calls=(\d+)", info)
    return int(found[1]) if found else 0


def ping_in_a_pipeline(path, count):
    """Prints the number of ECHO commands of others between the first and the last PING."""
    with Client(path) as client:
        ask = request("INFO", "commandstats")
        client.send_bytes(ask + request("PING") * count + ask)
        print("sent")
        before = client.receive().decode()
        for _ in range(count):
            assert client.receive() == Simple("PONG")
        print(echoes(client.receive().decode()) - echoes(before))


@needs_root
def test_a_user_with_many_connections_gets_no_more_than_eight_shares(start_daemon):
    daemon = start_daemon()
    open_up(daemon)
    flooder = Child(NOBODY, echo_on_many_connections, daemon.path, 300)
    try:
        assert flooder.output.readline() == "connected\n"
        with Client(daemon.path) as client:
            eventually(lambda: echoes(client("INFO", "commandstats").decode()) > 1_000, "the flood is under way")
            # All PINGs wait when the daemon goes on.
            count = 8_000
            with daemon.paused():
                pings = Child(OTHER, ping_in_a_pipeline, daemon.path, count)
                assert pings.output.readline() == "sent\n"
            (meanwhile,) = pings.lines()
            assert int(meanwhile) < 16 * count
            assert client("PING") == Simple("PONG")
    finally:
        os.kill(flooder.pid, signal.SIGKILL)
        flooder.wait()


def live(path, prefix):
    with Client(path) as client:
        for number in range(200):
            assert client("PING") == Simple("PONG")
            assert view(client("COUNTDOWN", "START", f"{prefix}{number}"))["accepted"] == 1
    print("done")


@needs_root
def test_one_user_cannot_starve_another(start_daemon):
    daemon = start_daemon(
        config="""
limits:
  max-connections: 40
  max-connections-per-uid: 30
  max-entities-per-uid: 450
  max-output: 256KiB
  max-output-per-uid: 512KiB
"""
    )
    open_up(daemon)
    flooder = Child(NOBODY, flood, daemon.path)
    met = set()
    reader = threading.Thread(target=lambda: [met.add(line.strip()) for line in flooder.output])
    try:
        reader.start()
        for name in ("connections", "entities"):
            limit = f"max-{name}-per-uid"
            eventually(lambda: limit in met, f"the flood meets {limit}")
        # Connections that do not read are held back, so the others never meet max-output-per-uid.
        unread = int(daemon.info("clients")["output_bytes"])
        assert unread < (512 << 10) + 60_100 * 10, unread
        for prefix in ("mine", "again"):
            assert Child(OTHER, live, daemon.path, prefix).lines() == ["done"]
        assert os.waitpid(flooder.pid, os.WNOHANG) == (0, 0), "the flood goes on"
    finally:
        os.kill(flooder.pid, signal.SIGKILL)
        flooder.wait()
        reader.join()
    eventually(lambda: daemon.info("clients")["users"] == "1", "the flood is over")
    with Client(daemon.path) as client:
        assert client("DBSIZE") == 450 + 400
        assert view(client("COUNTDOWN", "START", "k"))["accepted"] == 1


def test_unread_output_of_a_user_holds_its_connections_back_until_there_is_room(start_daemon):
    daemon = start_daemon(config="limits: {max-output: 256KiB, max-output-per-uid: 512KiB}")
    open_up(daemon)
    held = daemon.connect()
    # More than the socket takes, less than `max-output`.
    held.send_bytes(request("ECHO", "x" * 60_000) * 4)
    eventually(lambda: int(daemon.info("clients")["output_bytes"]) > 0, "replies wait")
    others = [daemon.connect() for _ in range(4)]
    for other in others:
        other.send_bytes(request("ECHO", "x" * 60_000) * 6)
    client = daemon.connect()

    def refusal():
        return "LIMIT max-output-per-uid" in client.either("LIMIT", "PING")

    eventually(refusal, "the limit is met")
    held.send("TIMER", "SET", "t", "1h")
    assert refusal(), "the daemon has received what `held` sent, and the limit is still met"
    for other in others:
        other.close()
    # `held` has not read anything, but there is room again.
    eventually(lambda: not refusal() and client("TIMER", "GET", "t") is not None, "it goes on")
    held.close()


# The log


def test_a_flood_of_the_same_warning_is_summed_up(start_daemon):
    daemon = start_daemon(config="limits: {max-entities-per-uid: 1}")
    wait_for(daemon)
    client = daemon.connect()
    client("COUNTDOWN", "START", "k")
    for number in range(1000):
        client.error("LIMIT", "COUNTDOWN", "START", f"l{number}")
    line = "command refused: limits.max-entities-per-uid is 1 and reached"
    eventually(lambda: "990 like this" in daemon.log, "the others are counted")
    assert daemon.log.count(line) == 11
    assert "key=l0 uid=" in daemon.log


def test_secrets_are_never_logged(start_daemon):
    daemon = start_daemon(
        config="limits: {max-entities-per-uid: 3}\nslowlog: {threshold: 0}",
        arguments=["--log-level", "trace"],
    )
    secret = "k9-secret-marker"
    wait_for(daemon)
    client = daemon.connect()
    monitor = daemon.connect()
    monitor("MONITOR")
    for words in (
        ["COUNTDOWN", "START", "a", "META", secret, "TOKEN", secret],
        ["COUNTDOWN", "RESEND", "a", "TOKEN", secret],
        ["COUNTDOWN", "START", "b", "TOKEN", secret * 9],
        ["COUNTDOWN", "START", "b", "META", secret * 999],
        ["COUNTDOWN", "START", "b", "META", secret, secret],
        ["COUNTDOWN", "START", "b", "META", secret, "NONSENSE"],
        ["AUTH", secret],
        ["TIMER", "SET", "t", "10ms", "PAYLOAD", secret, "OWNER", "connection"],
        ["TIMER", "SET", "u", "1h", "PAYLOAD", secret],
        ["COUNTDOWN", "START", "c", "META", secret],
        ["COUNTDOWN", "START", "d", "META", secret],
        ["COUNTDOWN", "START", "e", "META", secret],
        ["CONFIG", "RELOAD"],
    ):
        client.either("ERR LIMIT", *words)
    client.send_bytes(b"*6\r\n$9\r\nCOUNTDOWN\r\n$5\r\nSTART\r\n$1\r\nz\r\n$4\r\nMETA\r\n$3\r\n" + secret.encode())
    assert client.is_closed()
    other = daemon.connect()
    other.send_bytes(b"TIMER SET x 1h PAYLOAD '" + secret.encode() + b"\r\n")
    assert other.is_closed()
    assert "protocol error" in daemon.log and "limits.max-entities-per-uid" in daemon.log
    assert daemon.terminate() == 0
    assert secret not in daemon.log
