"""State under a real systemd: however the daemon ends, all answered changes are there again.

Needs root: each test boots a private systemd with scripts/with-systemd.sh.
"""

import contextlib
import pathlib
import shutil
import tempfile
import threading
import uuid

import pytest

import stored
from clocks import Clocks, library
from countdownd import PASSING, Client, Closed, Error, request, state_file, view
from machine import SOCKET, needs_binary, needs_systemd, ping, with_countdownd
from watching import CTL, watchers

pytestmark = [*needs_systemd, needs_binary]

LIBRARY = "/usr/local/lib/clocks.so"


@pytest.fixture
def machine():
    machine = with_countdownd("-c", f"{library()}:{LIBRARY}")
    yield machine
    machine.close()


@pytest.fixture
def client(machine):
    machine.run("systemctl", "start", "countdownd.service")
    with Client(machine.path(SOCKET)) as client:
        yield client


# Commands for entities of several kinds, with various options.
COMMANDS = [
    ("COUNTDOWN", "START", "c", "COUNT", 60, "EVERY", "1m", "TITLE", "%ds", "META", b"\0m", "TOKEN", "t"),
    ("COUNTDOWN", "START", "paused", "EVERY", "1h"),
    ("COUNTDOWN", "PAUSE", "paused"),
    ("TIMER", "SET", "wall", "1h", "CLOCK", "wall", "EVERY", "10m"),
    ("TIMER", "SET", "boot", "1h", "PAYLOAD", b"\xffp"),
    ("HUD", "SHOW", "screen", "OWNER", "connection"),
]
KEYS = [("COUNTDOWN", "c"), ("COUNTDOWN", "paused"), ("TIMER", "wall"), ("TIMER", "boot")]


def state(client):
    """Returns all fields that do not depend on the time of the request."""
    found = {}
    for kind, key in KEYS:
        fields = view(client(kind, "GET", key))
        if fields["deadline_unix_ms"] is not None and fields["state"] != b"paused":
            fields["deadline_unix_ms"] = round(fields["deadline_unix_ms"] / 1_000)
        else:
            fields.pop("deadline_unix_ms")
        found[key] = {name: value for name, value in fields.items() if name not in PASSING | {"title"}}
    return found


def is_near(state, other):
    for key, fields in state.items():
        for name, value in fields.items():
            if name == "deadline_unix_ms":
                assert abs(value - other[key][name]) <= 1, key
            else:
                assert value == other[key][name], (key, name)
    return True


def fill(client):
    for command in COMMANDS:
        view(client(*command))
    return state(client)


def check_state(machine, before):
    with Client(machine.path(SOCKET)) as client:
        assert client("DBSIZE") == len(KEYS)
        assert is_near(state(client), before)
        duplicate = view(client(*COMMANDS[0]))
        assert (duplicate["accepted"], duplicate["reason"]) == (1, b"repeated")


def wait_for_another_process(machine, old):
    machine.eventually(
        "another process is active",
        lambda: machine.show("MainPID") not in ("0", old)
        and machine.show("ActiveState") == "active",
    )


def test_killed_it_is_started_again_with_all_it_had(machine, client):
    before = fill(client)
    for _ in range(3):
        old = machine.show("MainPID")
        machine.run("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "countdownd.service")
        # The next client waits in the socket's queue meanwhile.
        assert ping(machine.path(SOCKET), timeout=30) == b"+PONG\r\n"
        wait_for_another_process(machine, old)
        check_state(machine, before)
    assert machine.show("NRestarts") == "3"


def stored_meta(machine):
    """Returns the row of meta in the state of the stopped service."""
    with tempfile.TemporaryDirectory() as copy:
        file = state_file(machine.path("/var/lib/private/countdownd"))
        for each in file.parent.glob(f"{file.name}*"):
            shutil.copy(each, copy)
        return stored.meta_of(f"{copy}/{file.name}")


def test_the_boot_is_known_in_the_sandbox(machine, client):
    """With the shipped unit: the test replaces nothing that the sandbox hides."""
    client("COUNTDOWN", "START", "k")
    machine.run("systemctl", "stop", "countdownd.service")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert stored_meta(machine)["boot_id"].decode() == boot.replace("-", "")


def test_a_reboot_is_told_from_a_restart_in_the_sandbox(machine):
    """Also if the machine has run for longer than before the reboot: only the boot ID differs."""
    clocks = Clocks(machine.path("/run"), seen_as="/run")
    variables = clocks.variables(LIBRARY)
    # The boot ID comes only from the unit.
    variables.pop("CLOCKS_BOOT_ID")

    def boot(away, uptime):
        clocks.reboot(away=away, uptime=uptime)
        variables["COUNTDOWND_BOOT_ID"] = uuid.uuid4().hex
        text = " ".join(f"{name}={value}" for name, value in variables.items())
        machine.drop_in("countdownd.service", f"[Service]\nEnvironment={text}\n")
        machine.run("systemctl", "start", "countdownd.service")

    def left():
        with Client(machine.path(SOCKET)) as client:
            return view(client("COUNTDOWN", "GET", "k"))["remaining_ms"] / 3_600_000

    boot(away=0, uptime=20)
    with Client(machine.path(SOCKET)) as client:
        client("COUNTDOWN", "START", "k", "COUNT", 1, "EVERY", "10h")
    clocks.suspend(3_600)
    machine.run("systemctl", "restart", "countdownd.service")
    assert left() == pytest.approx(9, abs=0.1)
    machine.run("systemctl", "stop", "countdownd.service")
    boot(away=3 * 3_600, uptime=3 * 3_600)
    assert left() == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize("how", ["freeze", "stall"])
def test_a_clock_or_a_loop_that_stands_still_is_noticed(machine, how):
    """The process is alive and its threads run, but time stops or the event loop hangs."""
    clocks = Clocks(machine.path("/run"), seen_as="/run")
    variables = " ".join(f"{name}={value}" for name, value in clocks.variables(LIBRARY).items())
    machine.drop_in(
        "countdownd.service",
        f"[Service]\nEnvironment={variables}\nWatchdogSec=1s\nTimeoutAbortSec=2s\n",
    )
    machine.run("systemctl", "start", "countdownd.service")
    with Client(machine.path(SOCKET)) as client:
        before = fill(client)
    old = machine.show("MainPID")
    getattr(clocks, how)()

    def is_noticed():
        if how == "freeze":
            # Sockets are still served, but that is no heartbeat.
            with contextlib.suppress(ConnectionError):
                assert ping(machine.path(SOCKET), timeout=30) in (b"+PONG\r\n", b"")
        return machine.show("MainPID") != old

    machine.eventually("systemd has noticed", is_noticed)
    clocks.go_on()
    wait_for_another_process(machine, old)
    assert "watchdog" in machine.journal().lower()
    check_state(machine, before)


class Writers:
    """Clients that start countdowns, a few at once, and note which were answered."""

    def __init__(self, path, count=4):
        self.path = path
        self.acknowledged = [set() for _ in range(count)]
        self.refused = []
        self.is_ending = False
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        next_key = 0
        while not self.is_ending:
            try:
                client = Client(self.path)
            except OSError as error:
                self.refused.append(error)
                return
            with client:
                try:
                    while not self.is_ending:
                        keys = [f"w{number}-{next_key + n}" for n in range(8)]
                        next_key += len(keys)
                        start = ["COUNTDOWN", "START"]
                        client.send_bytes(b"".join(request(*start, key, "EVERY", "1h") for key in keys))
                        for key in keys:
                            reply = client.reply("LOADING")
                            if not isinstance(reply, Error) and view(reply)["accepted"]:
                                self.acknowledged[number].add(key)
                except (Closed, ConnectionError):
                    # Unanswered commands may or may not have been executed.
                    pass

    def count(self):
        return sum(map(len, self.acknowledged))

    def end(self):
        self.is_ending = True
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("command", [["restart"], ["kill", "--kill-whom=main", "-s", "KILL"]])
def test_under_load_nothing_acknowledged_is_lost_and_no_connection_refused(machine, client, command):
    writers = Writers(machine.path(SOCKET))
    try:
        for _ in range(4):
            old, before = machine.show("MainPID"), writers.count()
            machine.eventually("clients are answered", lambda: writers.count() > before + 200)
            machine.run("systemctl", *command, "countdownd.service")
            wait_for_another_process(machine, old)
    finally:
        writers.end()
    assert writers.refused == []
    keys = sorted(set().union(*writers.acknowledged))
    assert len(keys) > 800
    with Client(machine.path(SOCKET)) as client:
        client.send_bytes(b"".join(request("COUNTDOWN", "GET", key) for key in keys))
        lost = [key for key in keys if client.reply() is None]
    assert lost == []


@pytest.mark.skipif(not CTL.exists(), reason=f"{CTL} is not built")
def test_a_watcher_misses_nothing_over_restarts(machine, client, watch):
    path = machine.path(SOCKET)
    socket_identity = path.stat().st_ino
    watcher = watch(path, "*", "timer:*")
    machine.eventually("it watches", lambda: watchers(path) == 2)
    expected = []
    for turn in range(3):
        with Client(path) as writer:
            for number in range(20):
                writer("COUNTDOWN", "START", f"k{turn}-{number}", "EVERY", "1h")
                expected.append(f"k{turn}-{number}")
            writer("COUNTDOWN", "START", f"short{turn}", "COUNT", 1, "EVERY", "50ms")
        # The watcher may have received only some of these events.
        machine.run("systemctl", "restart", "countdownd.service")
        # This event may come before the watcher has reconnected.
        with Client(path) as writer:
            writer("TIMER", "SET", f"away{turn}", "1h")
        watcher.wait("resubscribed", count=turn + 1)
        watcher.wait("set", f"away{turn}")
        watcher.wait("ready", f"short{turn}")
    assert [event["key"] for event in watcher.seen("started") if event["key"] in expected] == expected
    assert not watcher.seen("gap")
    numbers = [e["seq"] for e in watcher.events if e["event"] not in ("snapshot", "tick") and "seq" in e]
    assert numbers == sorted(set(numbers))
    assert path.stat().st_ino == socket_identity
