"""countdown-gateway under a real systemd: its units, its sandbox, and restarts with open streams.

Each test boots its own systemd, as Tests/Integration/test_systemd.py does.
"""

import http.client
import json
import subprocess
import threading

import pytest

from countdownd import PROJECT
from gateway import KEY, SERVER_KEY, Server, bearer, binary, ticket
from machine import SOCKET, needs_binary, needs_systemd, ping, with_countdownd
from sandbox import check, probe, settings

UNITS = PROJECT / "Gateway/systemd"
SERVICE, LISTENER = "countdown-gateway.service", "countdown-gateway.socket"
ADMIN_LISTENER = "countdown-gateway-admin.socket"
KEYS = "/etc/countdown-gateway/ticket-keys"
WATCH = {"timer": "timer:t"}

pytestmark = [*needs_systemd, needs_binary]


class Service(Server):
    """The gateway, running in a machine."""

    def __init__(self, machine, port=8787):
        self.machine, self.port = machine, port

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.sock = self.machine.dial(self.port)
        return connection

    @property
    def admin(self):
        return Service(self.machine, 8789)

    def show(self, name):
        return self.machine.show(name, SERVICE)

    def systemctl(self, *words, check=True):
        return self.machine.run("systemctl", *words, check=check)

    def is_active(self):
        return self.show("ActiveState") == "active"


@pytest.fixture
def service():
    machine = with_countdownd(
        "-c", f"{binary()}:/usr/bin/countdown-gateway",
        *(word for unit in (SERVICE, LISTENER, ADMIN_LISTENER) for word in ("-u", str(UNITS / unit))))
    machine.write(KEYS, f"test {KEY}\n")
    machine.path(KEYS).chmod(0o600)
    yield Service(machine)
    machine.close()


def test_systemd_verifies_the_units(service):
    assert service.machine.run("systemd-analyze", "verify", "--man=no", SERVICE, LISTENER, ADMIN_LISTENER) == ""


def test_start_returns_once_it_answers_and_reaches_the_daemon(service):
    service.systemctl("start", SERVICE)
    assert service.is_active()
    # The gateway connects to the daemon's socket as a member of its group, which starts the daemon.
    assert service.ask("/readyz")[0] == 200
    assert service.machine.show("ActiveState") == "active"
    assert service.stream(ticket(WATCH)).until("snapshot")


def test_is_not_active_before_it_listens(service):
    # Stopped before its first instruction, it cannot have reported that it is ready.
    service.machine.drop_in(
        SERVICE,
        "[Service]\nExecStart=\n"
        "ExecStart=/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/countdown-gateway'\n",
    )
    service.systemctl("start", "--no-block", SERVICE)
    service.machine.eventually("it is stopped", lambda: service.machine.is_stopped(SERVICE))
    assert service.show("ActiveState") == "activating"
    service.systemctl("kill", "--kill-whom=main", "-s", "CONT", SERVICE)
    service.machine.eventually("it is active", service.is_active)


def test_the_first_connection_starts_it(service):
    service.systemctl("start", LISTENER)
    assert service.show("ActiveState") == "inactive"
    assert service.ask("/healthz")[0] == 200
    assert service.is_active()


def test_stop_ends_streams_and_leaves_the_socket(service):
    service.systemctl("start", SERVICE)
    stream = service.stream(ticket(WATCH))
    stream.until("snapshot")
    service.systemctl("stop", SERVICE)
    assert stream.next()["event"] == "end" and stream.next() is None
    assert service.show("Result") == "success" and service.show("ExecMainStatus") == "0"
    assert service.ask("/healthz")[0] == 200


def test_a_restart_ends_streams_refuses_nobody_and_loses_no_event(service):
    service.systemctl("start", SERVICE)
    stream = service.stream(ticket(WATCH))
    stream.until("snapshot")
    statuses, is_over = [], threading.Event()

    def visit():
        while not is_over.is_set():
            try:
                statuses.append(service.ask("/healthz")[0])
            except OSError as error:
                statuses.append(error)

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        for _ in range(3):
            service.systemctl("restart", SERVICE)
            assert stream.until("end")[-1]["event"] == "end" and stream.next() is None
            ping(service.machine.path(SOCKET), command=b"TIMER SET t 1h\r\n")
            stream = service.stream(ticket(WATCH), last=stream.last)
            assert "set" in [message["event"] for message in stream.until("snapshot")]
            served = statuses.count(200)
            service.machine.eventually("the visitor is served", lambda: statuses.count(200) > served)
    finally:
        is_over.set()
        visitor.join()
    # Connections that the old process had accepted may be cut off when it ends.
    refused = [status for status in statuses if isinstance(status, ConnectionRefusedError)]
    assert refused == []
    assert len(statuses) - statuses.count(200) <= 3


def test_it_is_started_again_when_it_is_killed(service):
    service.systemctl("start", SERVICE)
    stream = service.stream(ticket(WATCH))
    stream.until("snapshot")
    service.systemctl("kill", "--kill-whom=main", "-s", "KILL", SERVICE)
    # This client waits in the queue of the socket.
    assert service.stream(ticket(WATCH)).until("snapshot")
    assert service.show("NRestarts") == "1"


def test_a_restart_of_the_daemon_ends_no_stream(service):
    service.systemctl("start", SERVICE)
    stream = service.stream(ticket(WATCH))
    stream.until("snapshot")
    service.systemctl("restart", "countdownd.service")
    assert [message["event"] for message in stream.until("snapshot")][-2:] == [
        "recovered", "snapshot"]  # fmt: skip


def test_keys_are_for_root_only_and_change_with_a_restart(service):
    service.systemctl("start", SERVICE)
    user = service.machine.run("ps", "-o", "uid=", "-p", service.show("MainPID"))
    assert int(user) >= 61184, "it is not a dynamic user"
    old = ticket(WATCH)
    assert service.ask("/v1/views/timer", headers=bearer(old))[0] == 404
    service.machine.write(KEYS, f"test {KEY[::-1]}\n")
    service.systemctl("restart", SERVICE)
    assert service.ask("/v1/views/timer", headers=bearer(old))[0] == 401


def test_a_drop_in_adds_the_server_key_and_a_file_the_options(service):
    path = "/etc/countdown-gateway/server-key"
    service.machine.write(path, SERVER_KEY)
    service.machine.path(path).chmod(0o600)
    service.machine.drop_in(SERVICE, f"[Service]\nLoadCredential=server-key:{path}\n")
    options = (UNITS / "countdown-gateway.default").read_text()
    assert "\n#OPTIONS=" in options
    service.machine.write(
        "/etc/default/countdown-gateway", options.replace("#OPTIONS=", "OPTIONS="))
    service.systemctl("start", SERVICE)
    headers = bearer(SERVER_KEY) | {"Content-Type": "application/json"}
    assert service.ask("/v1/commands", "POST", json.dumps(["PING"]), headers)[0] == 200
    # An option in the file.
    stream = service.stream(ticket(WATCH), Origin="https://app.example")
    assert stream.answer.headers["Access-Control-Allow-Origin"] == "https://app.example"


def test_without_a_key_it_does_not_start_and_its_status_names_the_file(service):
    service.machine.path(KEYS).unlink()
    assert "Assertion failed" in service.systemctl("start", SERVICE, check=False)
    assert f"{KEYS} was not met" in service.systemctl("status", SERVICE, check=False)
    service.machine.write(KEYS, f"test {KEY}\n")
    service.systemctl("start", SERVICE)


def test_figures_come_only_from_their_own_socket(service):
    service.systemctl("start", ADMIN_LISTENER)
    assert service.show("ActiveState") == "inactive"
    # The daemon is started, too, and may take its time.
    has_figures = lambda: service.admin.ask("/metrics")[0] == 200  # noqa: E731
    service.machine.eventually("there are figures", has_figures)
    assert service.admin.ask("/healthz")[0] == service.ask("/metrics")[0] == 404
    service.systemctl("stop", SERVICE, ADMIN_LISTENER)
    # `mask` does this to a unit in /usr/lib.
    unit = service.machine.path(f"/etc/systemd/system/{ADMIN_LISTENER}")
    text = unit.read_text()
    unit.unlink()
    unit.symlink_to("/dev/null")
    service.systemctl("daemon-reload")
    service.systemctl("start", SERVICE)
    assert service.ask("/readyz")[0] == 200 and service.ask("/metrics")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        service.admin.ask("/metrics")
    # An upgrade brings the socket while the service runs, and restarts it.
    unit.unlink()
    unit.write_text(text)
    service.systemctl("daemon-reload")
    service.systemctl("restart", SERVICE)
    service.machine.eventually("there are figures", has_figures)


# The sandbox

# Settings that confine nothing, or belong to one that does.
NO_SANDBOX = set(
    """Type NotifyAccess EnvironmentFile ExecStart LoadCredential Restart RestartSec TimeoutStopSec
    LimitNOFILE Nice CPUWeight User SupplementaryGroups SystemCallErrorNumber""".split()
)


def test_every_setting_of_the_sandbox_is_in_force(service):
    check(probe(service.machine, SERVICE), settings(UNITS / SERVICE) - NO_SANDBOX)


def test_systemd_rates_the_sandbox_well():
    """The exposure is at most 0.5 of 10 (`--threshold` is in tenths of that)."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=5", UNITS / SERVICE],
        capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


def test_every_route_works_in_the_sandbox(service):
    service.machine.write("/etc/default/countdown-gateway", "OPTIONS=--dashboard\n")
    service.systemctl("start", SERVICE)
    for path in ("healthz", "readyz", "openapi.json", "components/countdown-button.js"):
        assert service.ask(f"/{path}")[0] == 200, path
    for path in ("metrics", "dashboard", "dashboard/dashboard.js", "dashboard/data"):
        assert service.admin.ask(f"/{path}")[0] == 200, path
        assert service.ask(f"/{path}")[0] == 404, path
    assert service.ask("/v1/views/timer", headers=bearer(ticket(WATCH)))[0] == 404
    log = service.machine.journal(SERVICE)
    assert "not permitted" not in log and "denied" not in log, log
    # The gateway reaches no network; it only has the socket that systemd hands over.
    addresses = service.machine.run(
        "nsenter", "-t", service.show("MainPID"), "-n", "--", "ip", "-brief", "address")
    assert all(line.startswith("lo ") for line in addresses.splitlines())
