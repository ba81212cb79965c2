"""A private machine: a real systemd, booted with scripts/with-systemd.sh, and access to it."""

import concurrent.futures
import ctypes
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest

from countdownd import PATIENCE, PROJECT, binary

SOCKET = "/run/countdownd/countdownd.sock"
CONFIGURATION = "/etc/countdownd/countdownd.yaml"

needs_systemd = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to boot a systemd of its own"),
    pytest.mark.skipif(
        not os.access("/lib/systemd/systemd", os.X_OK), reason="systemd is not installed here"
    ),
]
needs_binary = pytest.mark.skipif(
    not binary().exists(), reason=f"{binary()} is not built; or name another one in COUNTDOWND"
)


class Machine:
    """Boots with the given options of with-systemd.sh; `close` ends it and all processes inside."""

    def __init__(self, *options):
        # The command inside only keeps the machine running until its input ends.
        self.process = subprocess.Popen(
            [PROJECT / "scripts/with-systemd.sh", "-t", "500", *options]
            + ["--", "sh", "-c", "echo booted; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"booted\n", "the private systemd did not boot"
        self.leader = next(pid for pid in descendants(self.process.pid) if comm(pid) == "systemd")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def run(self, *command, check=True, timeout=60):
        """Runs `command` inside, and returns what it prints to stdout and stderr."""
        inside = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        done = subprocess.run(
            [*inside, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            cwd="/",
            env={"PATH": path, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
        if check and done.returncode != 0:
            log = self.run("journalctl", "--no-pager", "-q", "-n", "40", check=False)
            pytest.fail(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{log}")
        return done.stdout.strip()

    def show(self, name, unit="countdownd.service"):
        return self.run("systemctl", "show", "--value", "-p", name, unit)

    def is_stopped(self, unit="countdownd.service"):
        """Returns whether the main process is stopped by a signal."""
        return self.run("ps", "-o", "state=", "-p", self.show("MainPID", unit), check=False) == "T"

    def heartbeats_arrive(self):
        """Waits for two more, and checks that the service was not restarted."""
        for _ in range(2):
            last = self.show("WatchdogTimestampMonotonic")
            self.eventually("a heartbeat arrives", lambda: self.show("WatchdogTimestampMonotonic") != last)
        assert self.show("NRestarts") == "0"

    def path(self, inside):
        """Returns the path on the host of a path inside."""
        return pathlib.Path(f"/proc/{self.leader}/root{inside}")

    def dial(self, port):
        """Connects to a port inside the machine's own network."""

        # setns changes the network of this thread only; a socket keeps the network it was made in.
        def enter():
            with open(f"/proc/{self.leader}/ns/net") as network:
                assert ctypes.CDLL(None).setns(network.fileno(), 0) == 0
            return socket.create_connection(("127.0.0.1", port), timeout=30)

        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(enter).result()

    def write(self, inside, text):
        self.path(inside).parent.mkdir(parents=True, exist_ok=True)
        self.path(inside).write_text(text)

    def drop_in(self, unit, text):
        self.write(f"/run/systemd/system/{unit}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")

    def journal(self, unit="countdown*"):
        return self.run("journalctl", "--no-pager", "-q", "-u", unit, check=False)

    def eventually(self, what, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"not after {seconds} s: {what}\n{self.journal()}")
            time.sleep(0.05)


def with_countdownd(*options):
    """Boots a machine with the binary, the units and the configuration, and starts nothing."""
    options = [*options, "-c", f"{binary()}:/usr/bin/countdownd"]
    options += ["-c", f"{PROJECT}/config/countdownd.yaml:{CONFIGURATION}"]
    options += ["-c", f"{PROJECT}/systemd/countdownd.sysusers:/usr/lib/sysusers.d/countdownd.conf"]
    for unit in ("countdownd.service", "countdownd.socket"):
        options += ["-u", str(PROJECT / "systemd" / unit)]
    for path in runtime_directories():
        options += ["-b", path]
    machine = Machine(*options)
    machine.run("systemd-sysusers", "countdownd.conf")
    # Removes the state of a daemon that was started by hand on the host. systemd would try to move
    # it, which fails across the layers of the overlay.
    machine.run("rm", "-rf", "/var/lib/countdownd", "/var/lib/private/countdownd")
    return machine


def runtime_directories():
    """Returns the directories of the binary's libraries, except the system's; none if static."""
    listing = subprocess.run(["ldd", binary()], capture_output=True, text=True).stdout
    assert "not found" not in listing, listing
    libraries = re.findall(r"=> (/\S+)", listing)
    directories = {os.path.dirname(os.path.realpath(library)) for library in libraries}
    return sorted(path for path in directories if not path.startswith(("/lib", "/usr/lib")))


def descendants(pid):
    found = []
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def comm(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def ping(path, timeout=PATIENCE, command=b"PING\r\n"):
    """Returns the daemon's reply to an inline command, once the daemon has loaded its state.

    Raises an OSError if there is no reply.
    """
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        while True:
            client.sendall(command)
            answer = client.recv(4_096)
            if not answer.startswith(b"-LOADING") or time.monotonic() > deadline:
                return answer
            time.sleep(0.005)


def ping_as(machine, user, group):
    """Sends PING as another user and group; returns False if the socket refuses them."""
    child = os.fork()
    if child == 0:
        try:
            # Only root may enter the machine through /proc, so change the directory first.
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


class Load:
    """Clients that repeatedly connect, send a command and disconnect."""

    def __init__(self, path, clients=8):
        self.path = str(path)
        self.answered = 0
        self.cut_off = 0
        self.refused = []
        self.is_ending = False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while not self.is_ending:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(60)
                try:
                    client.connect(self.path)
                except OSError as error:
                    with self.lock:
                        self.refused.append(error)
                    return
                try:
                    client.sendall(b"COUNTDOWN GET nothing\r\n")
                    is_answered = client.recv(64) != b""
                except (BrokenPipeError, ConnectionResetError):
                    is_answered = False
            with self.lock:
                self.answered += is_answered
                self.cut_off += not is_answered

    def end(self):
        self.is_ending = True
        for thread in self.threads:
            thread.join()
