"""What must not stop the service: a journal that stands still or drops, and no more descriptors."""

import concurrent.futures
import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time

import pytest

from countdownd import Client, Closed
from machine import CONFIGURATION, SOCKET, comm, descendants, needs_binary, needs_systemd, ping
from machine import with_countdownd
from preloaded import compiled
from test_systemd import PROJECT, entries, entry_number, message_ids, socket_group

pytestmark = [*needs_systemd, needs_binary]

FAULTS = "/usr/local/lib/faults.so"
# More than the queue of the journal's socket holds.
MANY = 2_000
# Sets timers, and waits until they are set.
SET_TIMERS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    for number in range(int(sys.argv[2])):
        client.sendall(b"TIMER SET k%d 1h\\r\\n" % number)
    client.sendall(b"PING\\r\\n")
    assert b"+PONG\\r\\n" in client.makefile("rb")
"""


@pytest.fixture
def machine():
    machine = with_countdownd("-c", f"{compiled('faults')}:{FAULTS}")
    # A daemon that misses its heartbeats is restarted soon.
    machine.drop_in("countdownd.service", "[Service]\nWatchdogSec=4s\nTimeoutAbortSec=2s\n")
    machine.write(CONFIGURATION + ".d/test.yaml", "access: {rules: {all: {keys: ['*']}}}\n")
    yield machine
    machine.close()


def critical_lines(machine):
    """By the name of the program: a line without fields of its own has no unit once journald has
    forgotten the process."""
    return machine.run("journalctl", "-q", "-p", "2", "-t", "countdownd", check=False)


@contextlib.contextmanager
def journal_stopped(machine):
    def send(name):
        machine.run("systemctl", "kill", "-s", name, "systemd-journald.service")

    send("STOP")
    try:
        yield
    finally:
        send("CONT")


def delete_foreign_entities(machine, count=MANY):
    """Has nobody make entities, and root delete them: each of them is a line of the audit."""
    nobody = pwd.getpwnam("nobody")
    machine.run("setpriv", f"--reuid={nobody.pw_uid}", f"--regid={socket_group(machine)}", "--clear-groups",
                "python3", "-I", "-c", SET_TIMERS, SOCKET, str(count))  # fmt: skip

    def delete():
        with Client(machine.path(SOCKET)) as client:
            client.send_bytes(b"".join(b"TIMER DEL k%d\r\n" % number for number in range(count)))
            assert [client.reply() for _ in range(count)] == [1] * count

    return delete


def test_a_journal_that_stands_still_stops_neither_the_daemon_nor_its_start(machine):
    ids = message_ids()
    machine.run("systemctl", "start", "countdownd.service")
    delete = delete_foreign_entities(machine)
    with journal_stopped(machine):
        delete()
        machine.heartbeats_arrive()
    machine.eventually(
        "no line is lost", lambda: len(entries(machine, "MESSAGE_ID=" + ids["changed for another"])) == MANY)
    delete = delete_foreign_entities(machine)
    with journal_stopped(machine):
        delete()
        machine.run("systemctl", "restart", "countdownd.service")
        assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
        # A critical line survives the end of the process, without its fields.
        machine.write(CONFIGURATION + ".d/test.yaml", "limits: {max-conections: 5}\n")
        machine.run("systemctl", "restart", "countdownd.service", check=False)
        machine.eventually("it failed", lambda: machine.show("ActiveState") == "failed")
        assert machine.show("ExecMainStatus") == "78"
    machine.eventually(
        "the reason is in the journal",
        lambda: "cannot start: the configuration is refused" in critical_lines(machine))


def test_the_reason_of_an_end_is_kept_while_the_journal_stands_still(machine):
    failing = "/run/failing"
    machine.drop_in(
        "countdownd.service",
        f"[Service]\nEnvironment=LD_PRELOAD={FAULTS} FAULTS_DIRECTORY=/var/lib/private/countdownd\n"
        f"Environment=FAULTS_AT=1 FAULTS_ACTION=EIO FAULTS_WHILE={failing}\n")
    machine.run("systemctl", "start", "countdownd.service")
    delete = delete_foreign_entities(machine)
    with journal_stopped(machine):
        delete()
        with Client(machine.path(SOCKET)) as client:
            machine.write(failing, "")
            client.send("TIMER", "SET", "k", "1h")
            with pytest.raises(Closed):
                client.receive()
        machine.path(failing).unlink()
        machine.eventually("it is started again", lambda: machine.show("ActiveState") == "active")
    machine.eventually(
        "the reason is in the journal",
        lambda: "ending with status 74, as changes cannot be stored" in critical_lines(machine))


def daemon_pid(machine):
    return next(pid for pid in descendants(machine.leader) if comm(pid) == "countdownd")


def test_clients_that_take_all_descriptors_do_not_stop_the_heartbeats(machine):
    machine.drop_in(
        "countdownd.service", "[Service]\nWatchdogSec=4s\nTimeoutAbortSec=2s\nLimitNOFILE=64\n")
    machine.run("systemctl", "start", "countdownd.service")
    entry = entry_number(1, machine, "MESSAGE_ID=" + message_ids()["too few descriptors"])
    assert "there is room for 24" in entry["MESSAGE"] and entry["PRIORITY"] == "4"
    checked = machine.run("/usr/bin/countdownd", "--check-config")
    assert "countdownd: warning: limits.max-connections is 20000, but there is room for 24" in checked
    with contextlib.ExitStack() as clients:

        def connect():
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(machine.path(SOCKET)))

        for _ in range(100):
            connect()
        machine.heartbeats_arrive()
        # Without any descriptor, too.
        pid = daemon_pid(machine)
        opened = len(os.listdir(f"/proc/{pid}/fd"))
        user, group = (str(getattr(os.stat(f"/proc/{pid}"), name)) for name in ("st_uid", "st_gid"))
        subprocess.run(["setpriv", "--reuid", user, "--regid", group, "--clear-groups",
                        "prlimit", "--pid", str(pid), f"--nofile={opened}:{opened}"], check=True)  # fmt: skip
        connect()
        machine.heartbeats_arrive()
    machine.eventually("it serves again", lambda: ping(machine.path(SOCKET)) == b"+PONG\r\n")


def test_who_causes_more_of_the_audit_than_a_slow_journal_takes_waits_for_it(machine):
    # More than may wait for the journal.
    count = 40_000
    machine.write("/etc/systemd/journald.conf.d/test.conf", "[Journal]\nRateLimitIntervalSec=0\n")
    machine.run("systemctl", "restart", "systemd-journald.service")
    machine.run("systemctl", "start", "countdownd.service")
    delete = delete_foreign_entities(machine, count)
    journald = next(pid for pid in descendants(machine.leader) if comm(pid) == "systemd-journal")
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        deletion = thread.submit(delete)
        try:
            # A slow journal: it stands still most of the time.
            while not deletion.done():
                os.kill(journald, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(journald, signal.SIGCONT)
                time.sleep(0.005)
                # Others are served meanwhile.
                assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
        finally:
            os.kill(journald, signal.SIGCONT)
        deletion.result()
    assert b"log_lost_lines:0\r" in ping(machine.path(SOCKET), command=b"INFO server\r\n")
    machine.heartbeats_arrive()


def test_a_log_namespace_keeps_the_audit_that_the_journal_of_all_drops(machine):
    match = "MESSAGE_ID=" + message_ids()["changed for another"]
    # As low a limit as a burst reaches quickly.
    low = "[Journal]\nRateLimitIntervalSec=1h\nRateLimitBurst=100\n"
    machine.write("/etc/systemd/journald.conf.d/test.conf", low)
    machine.run("systemctl", "restart", "systemd-journald.service")
    machine.run("systemctl", "start", "countdownd.service")
    delete_foreign_entities(machine)()
    # The daemon has written all lines once it has ended.
    machine.run("systemctl", "stop", "countdownd.service")
    machine.run("journalctl", "--sync")
    assert 0 < len(entries(machine, match)) < MANY

    for name, target in [
        ("journald@countdownd.conf", "/etc/systemd"),
        ("log-namespace.conf", "/etc/systemd/system/countdownd.service.d"),
    ]:
        text = (PROJECT / "systemd" / name).read_text()
        # Without the settings of the file, its journal would drop as many lines.
        machine.write(f"{target}/{name}", text.replace("[Journal]\n", low))
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "countdownd.service")
    delete_foreign_entities(machine)()
    machine.eventually(
        "all lines are there", lambda: len(entries(machine, "--namespace=countdownd", match)) == MANY)
    assert machine.run("systemctl", "is-active", "systemd-journald@countdownd.service") == "active"
    # It has the size of the file.
    assert "max 1.0G" in machine.run("journalctl", "--namespace=countdownd", "--no-pager")
    assert b"log_lost_lines:0\r" in ping(machine.path(SOCKET), command=b"INFO server\r\n")
