"""countdownd under a real systemd: the units of systemd/ and the binary, booted privately.

    swift build && scripts/integration-test.sh Tests/Integration/test_systemd.py

Needs root: each test boots a
systemd of its own with scripts/with-systemd.sh, and reaches into it by its process id.
"""

import json
import os
import pathlib
import pwd
import re
import socket
import subprocess
import time

import pytest

from countdownd import binary

PROJECT = pathlib.Path(__file__).resolve().parents[2]
BINARY = binary().resolve()
SOCKET = "/run/countdownd/countdownd.sock"
CONFIGURATION = "/etc/countdownd/countdownd.yaml"
UNITS = [PROJECT / "systemd/countdownd.service", PROJECT / "systemd/countdownd.socket"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to boot a systemd of its own"),
    pytest.mark.skipif(
        not os.access("/lib/systemd/systemd", os.X_OK), reason="systemd is not installed here"
    ),
    pytest.mark.skipif(
        not BINARY.exists(), reason=f"{BINARY} is not built; or name another one in COUNTDOWND"
    ),
]


class Machine:
    """A private systemd with countdownd installed and not started."""

    def __init__(self):
        options = ["-c", f"{BINARY}:/usr/bin/countdownd"]
        options += ["-c", f"{PROJECT}/config/countdownd.yaml:{CONFIGURATION}"]
        options += [word for unit in UNITS for word in ("-u", unit)]
        options += [word for path in runtime_directories() for word in ("-b", path)]
        # What runs inside only holds the machine open, until its input ends.
        self.process = subprocess.Popen(
            [PROJECT / "scripts/with-systemd.sh", "-t", "300", *options]
            + ["--", "sh", "-c", "echo booted; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"booted\n", "the private systemd did not boot"
        self.leader = next(pid for pid in descendants(self.process.pid) if comm(pid) == "systemd")
        # What a daemon that was run by hand has left on the host shows through; systemd would want
        # to move it, which it cannot from one layer of the overlay to the other.
        self.run("rm", "-rf", "/var/lib/countdownd", "/var/lib/private/countdownd")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def run(self, *command, check=True):
        """What `command` prints inside, on both outputs."""
        inside = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
        done = subprocess.run(
            [*inside, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd="/",
        )
        if check and done.returncode != 0:
            log = self.run("journalctl", "--no-pager", "-q", "-n", "40", check=False)
            pytest.fail(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{log}")
        return done.stdout.strip()

    def show(self, name, unit="countdownd.service"):
        return self.run("systemctl", "show", "--value", "-p", name, unit)

    def path(self, inside):
        """Where a path of the machine is seen from here."""
        return pathlib.Path(f"/proc/{self.leader}/root{inside}")

    def write(self, inside, text):
        self.path(inside).parent.mkdir(parents=True, exist_ok=True)
        self.path(inside).write_text(text)

    def drop_in(self, unit, text):
        self.write(f"/run/systemd/system/{unit}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")

    def journal(self):
        return self.run("journalctl", "--no-pager", "-q", "-u", "countdownd.service", check=False)

    def eventually(self, what, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"not after {seconds} s: {what}\n{self.journal()}")
            time.sleep(0.05)


def descendants(pid):
    found = []
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def comm(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def runtime_directories():
    """Where the binary's libraries are, apart from the system's own; none if linked statically."""
    listing = subprocess.run(["ldd", BINARY], capture_output=True, text=True).stdout
    assert "not found" not in listing, listing
    libraries = re.findall(r"=> (/\S+)", listing)
    directories = {os.path.dirname(os.path.realpath(library)) for library in libraries}
    return sorted(path for path in directories if not path.startswith(("/lib", "/usr/lib")))


def ping(path, timeout=2.0, command=b"PING\r\n"):
    """What the daemon answers to an inline command; an OSError when it does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        client.sendall(command)
        return client.recv(4_096)


def ping_as(machine, user, group):
    """The same as another user and group; False when the socket does not let them in."""
    child = os.fork()
    if child == 0:
        try:
            # Only root may look into the machine through /proc, so go there before the change.
            os.chdir(machine.path(os.path.dirname(SOCKET)))
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            os._exit(0 if ping(os.path.basename(SOCKET)) == b"+PONG\r\n" else 2)
        except PermissionError:
            os._exit(1)
        except BaseException:
            os._exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"the child's status is {status}"
    return status == 0


@pytest.fixture
def machine():
    machine = Machine()
    yield machine
    machine.close()


def test_the_units_are_sound(machine):
    output = machine.run("systemd-analyze", "verify", "countdownd.service", "countdownd.socket")
    assert output == ""


def test_start_returns_once_the_socket_answers(machine):
    machine.run("systemctl", "start", "countdownd.service")
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
    assert machine.show("ActiveState") == "active"
    assert machine.show("StatusText") != ""


def test_is_not_active_before_it_is_ready(machine):
    # Stopped before its first instruction, the daemon cannot have said that it is ready.
    machine.drop_in(
        "countdownd.service",
        "[Service]\nExecStart=\n"
        "ExecStart=/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/countdownd --config "
        f"{CONFIGURATION}'\n",
    )
    machine.run("systemctl", "start", "--no-block", "countdownd.service")
    machine.eventually("it starts", lambda: machine.show("MainPID") != "0")
    time.sleep(0.5)
    assert machine.show("ActiveState") == "activating"
    with pytest.raises(socket.timeout):
        ping(machine.path(SOCKET), timeout=0.2)
    machine.run("systemctl", "kill", "--kill-whom=main", "-s", "CONT", "countdownd.service")
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"


def test_the_first_connection_starts_it(machine):
    machine.run("systemctl", "start", "countdownd.socket")
    assert machine.show("ActiveState") == "inactive"
    assert ping(machine.path(SOCKET), timeout=10) == b"+PONG\r\n"
    assert machine.show("ActiveState") == "active"


def test_stop_is_quick_and_leaves_the_socket(machine):
    machine.run("systemctl", "start", "countdownd.service")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(machine.path(SOCKET)))
        begin = time.monotonic()
        machine.run("systemctl", "stop", "countdownd.service")
        assert time.monotonic() - begin < 2
    assert machine.show("Result") == "success"
    assert machine.show("ExecMainStatus") == "0"
    assert machine.path(SOCKET).is_socket()
    assert ping(machine.path(SOCKET), timeout=10) == b"+PONG\r\n"


def test_the_watchdog_restarts_a_daemon_that_hangs(machine):
    machine.drop_in("countdownd.service", "[Service]\nWatchdogSec=1s\nTimeoutAbortSec=2s\n")
    machine.run("systemctl", "start", "countdownd.service")
    first = machine.show("MainPID")
    time.sleep(2.5)
    assert machine.show("MainPID") == first, "it was restarted although it was well"
    machine.run("systemctl", "kill", "--kill-whom=main", "-s", "STOP", "countdownd.service")
    machine.eventually(
        "another process is active",
        lambda: machine.show("NRestarts") == "1" and machine.show("ActiveState") == "active",
    )
    assert machine.show("MainPID") != first
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"


def test_a_configuration_that_is_refused_is_not_tried_again(machine):
    machine.write(CONFIGURATION + ".d/test.yaml", "limits:\n  max-conections: 5\n")
    machine.run("systemctl", "start", "countdownd.service", check=False)
    machine.eventually("it failed", lambda: machine.show("ActiveState") == "failed")
    assert machine.show("ExecMainStatus") == "78"
    assert machine.show("NRestarts") == "0"
    place = f"{CONFIGURATION}.d/test.yaml:2: limits.max-conections"
    machine.eventually("the journal says where", lambda: place in machine.journal())


def test_reload_takes_a_good_configuration_and_keeps_the_old_one_for_a_bad(machine):
    start = b"COUNTDOWN START k POLICY login\r\n"
    machine.run("systemctl", "start", "countdownd.service")
    first = machine.show("MainPID")
    assert b"no policy 'login'" in ping(machine.path(SOCKET), command=start)
    machine.write(CONFIGURATION + ".d/test.yaml", "policies:\n  login: {count: 5}\n")
    machine.run("systemctl", "reload", "countdownd.service")
    machine.eventually("it is reloaded", lambda: "configuration reloaded" in machine.journal())
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert b"accepted" in ping(machine.path(SOCKET), command=start)
    machine.write(CONFIGURATION + ".d/test.yaml", "policies:\n  login: {count: 0}\n")
    machine.run("systemctl", "reload", "countdownd.service")
    place = f"{CONFIGURATION}.d/test.yaml:2: policies.login.count"
    machine.eventually("the journal says where", lambda: place in machine.journal())
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert b"cooldown" in ping(machine.path(SOCKET), command=start)
    assert machine.show("MainPID") == first


def entries(machine, *matches):
    """What the journal holds, field by field."""
    lines = machine.run("journalctl", "-o", "json", "--no-pager", "-q", *matches, check=False)
    return [json.loads(line) for line in lines.splitlines()]


def message_ids():
    """The ids that docs/operations.md promises, by what they are about."""
    text = (PROJECT / "docs/operations.md").read_text()
    return {name: id for id, name in re.findall(r"^\| `([0-9a-f]{32})` \| ([a-z ]+) \|", text, re.M)}


def test_the_journal_has_ids_and_fields(machine):
    ids = message_ids()
    machine.write(CONFIGURATION + ".d/test.yaml", "limits: {max-entities-per-uid: 1}\n")
    machine.run("systemctl", "start", "countdownd.service")
    for name in ("started", "ready"):
        (entry,) = entries(machine, "MESSAGE_ID=" + ids[name])
        assert entry["SYSLOG_IDENTIFIER"] == "countdownd" and entry["PRIORITY"] == "6"
        assert entry["_SYSTEMD_UNIT"] == "countdownd.service"
        assert entry["CODE_FILE"].endswith(".swift") and int(entry["CODE_LINE"]) > 0
    secret = b"k9-secret-marker"
    commands = b"".join(
        b"COUNTDOWN START %b META %b\r\n" % (key, secret) for key in (b"first", b"second")
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(machine.path(SOCKET)))
        client.sendall(commands)
        client.settimeout(10)
        answer = b""
        while b"-LIMIT" not in answer:
            answer += client.recv(4_096)
    limit = "MESSAGE_ID=" + ids["refused at a limit"]
    machine.eventually("the refusal is there", lambda: entries(machine, limit))
    (entry,) = entries(machine, limit)
    assert entry["COUNTDOWND_KEY"] == "second" and entry["COUNTDOWND_UID"] == "0"
    assert int(entry["COUNTDOWND_CONNECTION"]) > 0 and entry["PRIORITY"] == "4"
    assert entries(machine, "COUNTDOWND_KEY=second") == [entry]

    reload = b"CONFIG RELOAD\r\n"
    assert b"needs_restart" in ping(machine.path(SOCKET), command=reload)
    assert entries(machine, "MESSAGE_ID=" + ids["reloaded"])
    machine.write(CONFIGURATION + ".d/test.yaml", "limits: {x: 1}\n")
    assert b"-ERR the configuration is refused" in ping(machine.path(SOCKET), command=reload)
    (entry,) = entries(machine, "MESSAGE_ID=" + ids["reload refused"])
    assert entry["PRIORITY"] == "3" and "limits.x" in entry["MESSAGE"]
    assert secret.decode() not in machine.run("journalctl", "-o", "export", "--no-pager")


def test_the_socket_lets_in_its_group_and_nobody_else(machine):
    nobody, group = pwd.getpwnam("nobody"), 1  # the group "daemon", which every system has
    machine.drop_in("countdownd.socket", f"[Socket]\nSocketGroup={group}\n")
    machine.run("systemctl", "start", "countdownd.service")
    assert ping_as(machine, nobody.pw_uid, group)
    assert not ping_as(machine, nobody.pw_uid, nobody.pw_gid)
