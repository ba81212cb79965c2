"""The measured servers, each with its own process and directory, and the kernel's figures about
them."""

import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
BUILD = PROJECT / ".build" / "bench"
COUNTDOWND = PROJECT / ".build" / "release" / "countdownd"
COUNTDOWNCTL = PROJECT / ".build" / "release" / "countdownctl"
BARE_LOOP = PROJECT / "Benchmarks" / ".build" / "release" / "bare-loop"
CANCELLED_CALLS = BARE_LOOP.with_name("cancelled-calls")
PATIENCE = 60.0


def output(*command):
    """Returns the output of a command, or an empty string if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def raise_descriptor_limit():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Server:
    """A server that starts on creation; `with` ends it."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-"))
        self.path = self.directory / "socket"
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def arguments(self):
        raise NotImplementedError

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.arguments()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    log = (self.directory / "log").read_text()[-2000:]
                    raise RuntimeError(f"{self.name} does not start: {log}") from None
                time.sleep(0.002)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.path))
        client.settimeout(PATIENCE)
        return client

    # Values from the kernel: see proc(5).

    def _tasks(self, name):
        """Returns the text of the file `name` of each thread, by thread ID."""
        texts = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                texts[task.name] = (task / name).read_text()
            except OSError:
                pass  # The thread has just ended.
        return texts

    def cpu_seconds(self):
        """Returns the processor time of all live threads, in seconds."""
        return sum(int(text.split()[0]) for text in self._tasks("schedstat").values()) / 1e9

    def switches(self):
        """Returns the number of context switches of each thread, voluntary or not."""
        return {
            thread: sum(
                int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line
            )
            for thread, text in self._tasks("status").items()
        }

    def wakeups(self, seconds):
        """Returns how many times a second the idle server's threads run."""
        before = self.switches()
        time.sleep(seconds)
        after = self.switches()
        # A thread that has ended in the meantime has run once to do so.
        ended = sum(1 for thread in before if thread not in after)
        ran = sum(count - before.get(thread, 0) for thread, count in after.items())
        return (ran + ended) / seconds

    def resident(self):
        """Returns the resident memory in bytes."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"{self.name} has ended")


class Countdownd(Server):
    name = "countdownd"
    start_command = ["COUNTDOWN", "START", "key:__rand_int__", "BRIEF"]
    ok = b"$4\r\nmeta\r\n$-1\r\n"

    # Enough for the events of all countdowns at once, and for all measured connections.
    limits = {"max-output": "512MiB", "max-connections": 20_000, "max-connections-per-uid": 20_000}

    def __init__(self, durability=None, limits=None, settings=()):
        """`settings`: additional lines of the configuration."""
        self.durability = durability
        self.limits = limits or self.limits
        self.settings = settings
        super().__init__()

    def arguments(self):
        lines = ["limits:", *(f"  {name}: {value}" for name, value in self.limits.items())]
        lines += [f"durability: {self.durability or 'none'}", *self.settings]
        (self.directory / "config.yaml").write_text("\n".join(lines) + "\n")
        return [
            COUNTDOWND, "--socket", self.path, "--config", self.directory / "config.yaml",
            "--state-directory", self.directory / "state",
        ]  # fmt: skip

    @staticmethod
    def version():
        return output("git", "-C", str(PROJECT), "describe", "--tags", "--always", "--dirty") or "?"

    @staticmethod
    def start_in(key, left_ms):
        """Returns a request to start a countdown due after `left_ms` milliseconds."""
        return request(b"COUNTDOWN", b"START", key, b"COUNT", b"1", b"EVERY", b"%d" % left_ms)

    @classmethod
    def start_request(cls, key, due_ms):
        """Returns a request to start a countdown due at `due_ms`, in milliseconds since 1970."""
        return cls.start_in(key, max(1, int(due_ms - time.time() * 1000 + 0.999)))


class Redis(Server):
    name = "Redis"
    start_command = ["SET", "key:__rand_int__", "v", "EX", "60"]
    ok = b"+OK\r\n"

    def __init__(self, fsync=None, settings=()):
        """`settings`: additional words of the command line."""
        self.fsync = fsync
        self.settings = settings
        super().__init__()

    def arguments(self):
        words = [
            self.program(), "--port", 0, "--unixsocket", self.path, "--save", "", "--dir",
            self.directory, "--maxclients", 20_000, "--notify-keyspace-events", "Ex",
            # Slow subscribers are not disconnected, as with countdownd.
            "--client-output-buffer-limit", "pubsub 0 0 0",
        ]  # fmt: skip
        keep = ["--appendonly", "yes", "--appendfsync", self.fsync] if self.fsync else []
        return [*words, *keep, *self.settings]

    @staticmethod
    def program():
        """Returns the path of redis-server, or None. Its package would run a service; redis-tools
        is enough, because its redis-check-rdb is the same program, which acts by its name."""
        found = shutil.which("redis-server")
        if found:
            return found
        same = shutil.which("redis-check-rdb")
        if not same:
            return None
        link = BUILD / "redis-server"
        BUILD.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.realpath(same))
        return str(link)

    @classmethod
    def version(cls):
        words = output(cls.program(), "--version").split() if cls.program() else []
        return next((word[2:] for word in words if word.startswith("v=")), None)

    @staticmethod
    def start_in(key, left_ms):
        return request(b"SET", key, b"v", b"PX", b"%d" % left_ms)

    @staticmethod
    def start_request(key, due_ms):
        return request(b"SET", key, b"v", b"PXAT", b"%d" % due_ms)


class BareLoop(Server):
    """The least that START BRIEF can cost: see Sources/bare-loop."""

    name = "bare loop"
    start_command = Countdownd.start_command

    def __init__(self, *mode):
        """`mode`: nothing, "log", or "log" and "sync"."""
        self.mode = mode
        super().__init__()

    def arguments(self):
        return [BARE_LOOP, self.path, *self.mode]

    @staticmethod
    def version():
        return Countdownd.version() if BARE_LOOP.exists() else None


class Beanstalkd(Server):
    name = "beanstalkd"
    ok = b"INSERTED "

    def arguments(self):
        return [self.program(), "-l", f"unix:{self.path}"]

    @staticmethod
    def program():
        """Returns the path of beanstalkd, or None. Installing its package would run a service, so
        this unpacks it."""
        found = shutil.which("beanstalkd")
        unpacked = BUILD / "beanstalkd"
        program = unpacked / "usr" / "bin" / "beanstalkd"
        if found or program.exists():
            return found or str(program)
        unpacked.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", "beanstalkd"], ["dpkg", "-x", "*.deb", "."]):
            words = [str(next(unpacked.glob(w), w)) if w == "*.deb" else w for w in command]
            try:
                subprocess.run(words, cwd=unpacked, capture_output=True, timeout=PATIENCE, check=True)
            except (OSError, subprocess.SubprocessError):
                return None
        return str(program) if program.exists() else None

    @classmethod
    def version(cls):
        return output(cls.program(), "-v").removeprefix("beanstalkd ") if cls.program() else None

    @staticmethod
    def start_in(key, left_ms):
        return b"put 0 %d 60 %d\r\n%s\r\n" % (left_ms // 1000, len(key), key)


def request(*words):
    """Returns a command as a RESP array of bulk strings."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
