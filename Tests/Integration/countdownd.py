"""The real daemon, and a client that shows exactly what it receives.

The client shows details that libraries hide: the type of a reply, the pushes before it, and what
happens to a client that misbehaves. Client libraries are tested in test_clients.py.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import typing

import stored

PROJECT = pathlib.Path(__file__).resolve().parents[2]

# Seconds; longer than anything takes on a busy machine.
PATIENCE = 120.0


def binary():
    """Returns the path of the daemon: COUNTDOWND, else the debug build, else the release build."""
    named = os.environ.get("COUNTDOWND")
    if named:
        return pathlib.Path(named).resolve()
    built = [PROJECT / ".build" / kind / "countdownd" for kind in ("debug", "release")]
    return next((path for path in built if path.exists()), built[0])


# What programs of users are compiled against, whichever daemon is tested.
DEBUG_BUILD = (PROJECT / ".build/debug").resolve()


def ctl_binary():
    """Returns the path of countdownctl, beside the daemon."""
    return binary().parent / "countdownctl"


def eventually(condition, what, seconds=PATIENCE, pause=0.02):
    """Waits until `condition()` is true, and returns its result. `what` (a text or a function that
    returns one) is for the failure."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(pause)


# What a fleet answers while its servers are slow or gone, and what a daemon answers as it starts.
AWAY = "UNAVAILABLE UNSURE LOADING"


def sure(client, *words):
    """Repeats a command until it is accepted: servers of a fleet may be slow for a moment."""
    return client.retry(AWAY, *words)


# Executes a command and passes the descriptor as sd_listen_fds(3) describes.
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="countdownd")
os.execv(sys.argv[2], sys.argv[2:])
"""


def is_asleep(pid):
    """Returns whether all threads of a process sleep now, and did so at each of some moments
    before. One that waits for a processor does not sleep."""
    for _ in range(20):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            # It may have ended meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if (thread / "stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
                    return False
        time.sleep(0.01)
    return True


# Sockets that keep ports until this process ends.
RESERVATIONS = []


def reserved_port():
    """Returns a port of 127.0.0.1 for a server that cannot choose one itself. The kernel gives it to
    nobody else. A server can listen on it, because servers set SO_REUSEADDR."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    RESERVATIONS.append(reservation)
    return reservation.getsockname()[1]


def random_by_seed():
    """Returns a random generator. Its seed is SEED, or is printed if the test fails."""
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    print(f"SEED={seed}")
    return random.Random(seed)


class Nearly(int):
    """Milliseconds that were converted between two clocks, and rounded up: equal to neighbours."""

    def __eq__(self, other):
        return abs(self - other) <= 2

    __hash__ = None


def check(path):
    """Runs `countdownctl state check`, and returns how it ended."""
    return subprocess.run(
        [ctl_binary(), "state", "check", str(path)], capture_output=True, text=True, timeout=PATIENCE)


class Frame(typing.NamedTuple):
    """A batch in the log; `docs/explanation/durability.md` says where its format is described."""

    path: pathlib.Path
    place: int
    number: int
    payload: bytes

    @property
    def end(self):
        return (self.place + FRAME_HEADER + len(self.payload) + 7) & ~7


SEGMENT_HEADER = 32
FRAME_HEADER = 24

# The names of the stored state. A directory has numbered states, each with a log.
FIRST_STATE = "state-1.db"
SECOND_STATE = "state-2.db"
STATE_NAME = re.compile(r"state-([1-9]\d*)\.db")
SEGMENT_NAME = re.compile(r"state-[1-9]\d*-changes-\d+\.log")
# What the daemon logs about a corrupt state, which stays where it is.
KEPT = "the state is corrupt and is kept, not deleted"


def states(directory):
    """Returns the states of a directory, the newest last: the daemon continues with that one."""
    found = [path for path in directory.iterdir() if STATE_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(STATE_NAME.fullmatch(path.name)[1]))


def state_file(directory):
    """Returns the path of the newest state, or of the first one if there is none yet."""
    return (states(directory) or [directory / FIRST_STATE])[-1]


def segments_of(state):
    """Returns the files of the log of a state, oldest first."""
    return sorted(state.parent.glob(f"{state.stem}-changes-*.log"))


def segments(directory):
    """Returns the files of the log of the newest state, oldest first."""
    return segments_of(state_file(directory))


def files_of(state):
    """Returns the names and contents of a state and its log."""
    return {path.name: path.read_bytes() for path in [state, *segments_of(state)]}


def put(file, place):
    """Copies a file to a place where a daemon may look at any moment."""
    unfinished = place.with_name("unfinished")
    shutil.copy(file, unfinished)
    unfinished.chmod(0o600)
    unfinished.replace(place)


def frames(directory):
    """Returns the batches in the log of the newest state, oldest first, without checking their
    CRCs."""
    found = []
    for path in segments(directory):
        data, place = path.read_bytes(), SEGMENT_HEADER
        while place + FRAME_HEADER <= len(data):
            _, length, number, _ = struct.unpack_from("<IIQI", data, place)
            # A reused segment still holds older batches at its end.
            if number == 0 or found and number != found[-1].number + 1:
                break
            begin = place + FRAME_HEADER
            found.append(Frame(path, place, number, data[begin : begin + length]))
            place = found[-1].end
    return found


class Daemon:
    """One daemon with its own directory."""

    def __init__(
        self,
        *,
        virtual_time=False,
        config=None,
        arguments=(),
        descriptors=None,
        directory=None,
        state=None,
        environment=None,
        listener=None,
        segment_size="256KiB",
        prefix=(),
        is_waited_for=True,
    ):
        self.owns_directory = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="countdownd-"))
        # A listening socket to hand over as systemd does; if None, the daemon makes its own.
        self.listener = listener
        self.path = pathlib.Path(listener.getsockname()) if listener else self.directory / "socket"
        self.log_path = self.directory / "log"
        self.config_path = self.directory / "config.yaml"
        self.config_path.write_text(config or "")
        # Small segments make starts fast and folding frequent.
        settings = self.directory / "config.yaml.d" / "segments.yaml"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(f"log: {{segment-size: {segment_size}}}\n")
        self.arguments = ["--socket", str(self.path), "--config", str(self.config_path)]
        self.state = pathlib.Path(state or self.directory / "state")
        self.arguments += ["--state-directory", str(self.state)]
        self.arguments += ["--virtual-time"] if virtual_time else []
        self.arguments += list(arguments)
        self.descriptors = descriptors
        self.environment = environment
        # A command that runs the daemon, for example `ip netns exec HOST`.
        self.prefix = list(prefix)
        self.is_expected_to_run = True
        self.clients = []
        if is_waited_for:
            self.start()
        else:
            self.start_without_waiting()

    def start(self):
        """Starts the daemon, and waits until it has loaded its state and accepts all commands."""
        self.start_without_waiting()
        self.wait_until_started()

    def wait_until_started(self):
        eventually(self.listens, "it listens")
        eventually(lambda: self.info("persistence")["loading"] == "0", "it has loaded")

    def start_without_waiting(self):
        def limit_descriptors():
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

        with open(self.log_path, "ab") as log:
            command = [*self.prefix, binary(), *self.arguments]
            if self.listener:
                command = [sys.executable, "-c", HAND_OVER, str(self.listener.fileno()), *command]
            self.process = subprocess.Popen(
                command,
                pass_fds=[self.listener.fileno()] if self.listener else [],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=limit_descriptors if self.descriptors else None,
                env=self.environment,
            )

    def listens(self):
        assert self.process.poll() is None, f"it ended: {self.log}"
        return self.accepts()

    def accepts(self):
        """Returns whether it accepts connections."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.path))
        except OSError:
            return False
        return True

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        return self.log_path.read_text()

    def resident(self):
        """Returns the resident memory in bytes."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def peak(self):
        """Returns the highest resident memory since `reset_peak`, in bytes."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def connect(self, protocol=2, **options):
        client = Client(self.path, **options)
        self.clients.append(client)
        if protocol == 3:
            hello = client("HELLO", 3)
            assert isinstance(hello, dict), hello
        return client

    def info(self, *sections):
        """Returns INFO as one dictionary of texts for all sections."""
        with Client(self.path) as client:
            text = client("INFO", *sections).decode()
        lines = (line for line in text.split("\r\n") if line and not line.startswith("#"))
        return dict(line.split(":", 1) for line in lines)

    @contextlib.contextmanager
    def paused(self):
        """Stops the process for the time of the block. All that clients send meanwhile has arrived
        when it goes on."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def during(self, cause, *words, count=2_000):
        """Calls `cause`, and returns the replies to a command that a client sends `count` times at
        the same moment. Each turn of the daemon executes some of them."""
        with Client(self.path) as client:
            client("PING")
            with self.paused():
                cause()
                client.send_bytes(request(*words) * count)
            return [client.reply() for _ in range(count)]

    def terminate(self, wait=True):
        self.is_expected_to_run = False
        self.process.send_signal(signal.SIGTERM)
        if wait:
            return self.process.wait(timeout=PATIENCE)

    def kill(self):
        self.is_expected_to_run = False
        self.process.kill()
        self.process.wait()

    def stop(self, how):
        """Ends the daemon by SIGKILL if `how` is "kill", else by SIGTERM."""
        if how == "kill":
            self.kill()
        else:
            status = self.terminate()
            assert status == 0, f"status {status}\n{self.log[-4000:]}"

    def start_again(self):
        self.is_expected_to_run = True
        self.start()

    def restart(self, how="terminate"):
        self.stop(how)
        self.start_again()

    def back_up(self, file):
        """Makes a backup of the current state in `file`, which folds the whole log."""
        with Client(self.path) as client:
            number = client("BACKUP", "BEGIN")
            size = eventually(lambda: client("BACKUP", "SIZE", number), "it is made, or not")
            assert isinstance(size, int), size
            copy = bytearray()
            while len(copy) < size:
                copy += client("BACKUP", "READ", number, len(copy), 1 << 20)
        file.write_bytes(copy)

    def stored(self, kind):
        """Returns the views of a kind in a new backup of the running daemon."""
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory) / "copy.db"
            self.back_up(copy)
            done = subprocess.run(
                [ctl_binary(), "state", "list", "--json", "--kind", kind, copy],
                capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
        assert done.returncode == 0 and not done.stderr, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    def query_stored(self, sql):
        """Returns the rows of a query in a new backup of the running daemon."""
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory) / "copy.db"
            self.back_up(copy)
            return stored.query(copy, sql)

    def change_stored(self, *changes):
        """Kills the daemon and changes its stored state, as `stored.run` does. The log is empty
        afterwards."""
        copy = self.directory / "changed.db"
        self.back_up(copy)
        self.kill()
        # Undoes the lower floor of a backup, which says that events after it are missing.
        def raise_floor(database):
            return stored.change_meta(database, number_floor=lambda floor: floor + 1)

        stored.run(copy, raise_floor, *changes)
        file = state_file(self.state)
        put(copy, file)
        for each in [*segments_of(file), file.with_name(f"{file.name}-journal")]:
            each.unlink(missing_ok=True)

    def close(self):
        """Stops the daemon; checks that it still answers, exits soon and has logged no crash."""
        try:
            for client in self.clients:
                client.close()
            if self.is_expected_to_run:
                assert self.process.poll() is None, f"{self.process.returncode}: {self.log[-8000:]}"
                with Client(self.path) as client:
                    assert client("PING") == Simple("PONG")
                self.stop("terminate")
                assert bool(self.listener) == self.path.exists(), "whose socket is it?"
            crash = re.search(r"(?i)fatal|crash|trap|precondition|backtrace", self.log)
            assert not crash, self.log[max(crash.start() - 500, 0) :][:8000]
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)


# Types of replies for which Python has no type.


class Simple(str):
    pass


class Error(str):
    @property
    def code(self):
        return self.split(" ", 1)[0]


class Refused(Exception):
    """A reply is an error that the test does not name."""


class Push(list):
    pass


class Verbatim(bytes):
    pass


class Closed(Exception):
    """The daemon has closed the connection."""


class Incomplete(Exception):
    pass


def request(*words):
    """Returns a command as an array of bulk strings."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    parts = [b"*%d\r\n" % len(encoded)]
    for word in encoded:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return b"".join(parts)


UNKNOWN = re.compile("ERR unknown (sub)?command")

# Names every error, where a test compares the replies themselves.
ANY = "any error"


def is_named(error, codes):
    """Returns whether `codes`, divided by blanks, have the code of an error. That of a command that
    does not exist is UNKNOWN, so that no test sends one by mistake."""
    return codes == ANY or ("UNKNOWN" if UNKNOWN.match(error) else error.code) in codes.split()


class Client:
    """A connection. Calling it sends a command and returns the reply; `pushes` holds the pushes.
    An error fails the test, unless the test names its code: see `error`, `either` and `retry`."""

    def __init__(self, path, timeout=PATIENCE, receive_buffer=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(str(path))
        self.socket.settimeout(timeout)
        self.buffer = bytearray()
        self.start = 0
        self.pushes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

    def error(self, codes, *words):
        """Sends a command that must be refused with one of these codes, and returns the error."""
        self.send(*words)
        return self.refusal(codes)

    def either(self, codes, *words):
        """Sends a command that may be refused with one of these codes, and returns the reply."""
        self.send(*words)
        return self.reply(codes)

    def retry(self, codes, *words):
        """Repeats a command while it is refused with one of these codes, and returns the reply."""
        def accepted():
            reply = self.either(codes, *words)
            return None if isinstance(reply, Error) else [reply]

        return eventually(accepted, f"{words} is accepted")[0]

    def send(self, *words):
        self.socket.sendall(request(*words))

    def send_bytes(self, data):
        self.socket.sendall(data)

    def end_input(self):
        self.socket.shutdown(socket.SHUT_WR)

    def reply(self, codes=""):
        """Returns the next reply, and queues the pushes before it."""
        while True:
            value = self.receive(codes)
            if not isinstance(value, Push):
                return value
            self.pushes.append(value)

    def refusal(self, codes):
        """Returns the next reply, which must be an error with one of these codes."""
        reply = self.reply(codes)
        assert isinstance(reply, Error), reply
        return reply

    def push(self):
        """Returns the next push; with RESP2, the next array."""
        return self.pushes.pop(0) if self.pushes else self.receive()

    def event(self):
        """Returns the next event as (channel, content), from a message or a pmessage."""
        message = self.push()
        assert message[0] in (b"message", b"pmessage"), message
        return message[-2], json.loads(message[-1])

    def events(self, until):
        """Returns the events up to and including the first for which `until` is true."""
        events = []
        while True:
            _, event = self.event()
            events.append(event)
            if until(event):
                return events

    def arrived(self):
        """Returns the pushes that the daemon has sent until it answers a PING that is sent now.
        Snapshots of a pattern may follow it, as the daemon creates them later: see `caught_up`."""
        self.send("PING", "so far")
        found, self.pushes = self.pushes, []
        while (message := self.receive()) not in (b"so far", [b"pong", b"so far"]):
            found.append(message)
        return found

    def caught_up(self, other):
        """Returns the pushes that the daemon has sent, with all snapshots of all patterns: they come
        before those of a later pattern. `other` is another client, which makes a timer for it."""
        other("TIMER", "SET", "caught up", "1h")
        last = "timer:caught u[p]"
        self.send("PSUBSCRIBE", last)
        found, self.pushes = self.pushes, []
        while (message := self.receive())[:2] != [b"pmessage", last.encode()]:
            found.append(message)
        self.send("PUNSUBSCRIBE", last)
        other("TIMER", "DEL", "caught up")
        found += self.arrived()
        parts = [(message, [part for part in message if isinstance(part, bytes)]) for message in found]
        return [message for message, texts in parts if not any(b"caught u" in text for text in texts)]

    def send_what_fits(self, daemon, data):
        """Sends until the daemon takes no more, and returns the number of bytes: the socket is full
        while the daemon sleeps."""
        timeout, sent, is_full = self.socket.gettimeout(), 0, False
        self.socket.setblocking(False)
        while sent < len(data):
            try:
                sent += self.socket.send(data[sent : sent + (1 << 16)])
                is_full = False
            except BlockingIOError:
                if is_full:
                    break
                eventually(
                    lambda: select.select([], [self.socket], [], 0)[1] or is_asleep(daemon.pid),
                    "there is room, or the daemon sleeps")
                is_full = True
        self.socket.settimeout(timeout)
        return sent

    def has_more(self, seconds=0):
        """Returns whether more data is there, or arrives within `seconds`. That nothing more is sent
        shows only after a marker, such as those of `arrived` and `caught_up`."""
        if self.pushes or len(self.buffer) > self.start:
            return True
        return bool(select.select([self.socket], [], [], seconds)[0])

    def is_closed(self):
        """Reads until the daemon closes the connection."""
        try:
            while True:
                if not self.socket.recv(1 << 20):
                    return True
        except ConnectionError:
            return True

    def receive(self, codes=""):
        """Returns the next reply or push. An error must have one of these codes."""
        while True:
            try:
                value, end = parse(self.buffer, self.start)
            except Incomplete:
                self.fill()
                continue
            self.start = end
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Error) and not is_named(each, codes):
                    raise Refused(each)
            if self.start > 1 << 20:
                del self.buffer[: self.start]
                self.start = 0
            return value

    def fill(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError as error:
            raise Closed from error
        if not data:
            raise Closed
        self.buffer += data


def parse(data, start):
    """Returns the value at `start` and its end. Source: the RESP2 and RESP3 specifications."""
    end = data.find(b"\r\n", start)
    if end < 0:
        raise Incomplete
    kind, line, rest = chr(data[start]), bytes(data[start + 1 : end]), end + 2
    match kind:
        case "+":
            return Simple(line.decode()), rest
        case "-":
            return Error(line.decode()), rest
        case ":":
            return int(line), rest
        case ",":
            return float(line), rest
        case "#":
            assert line in (b"t", b"f"), line
            return line == b"t", rest
        case "_":
            assert line == b""
            return None, rest
        case "$" | "=":
            length = int(line)
            if length < 0:
                assert (kind, length) == ("$", -1)
                return None, rest
            if len(data) < rest + length + 2:
                raise Incomplete
            value = bytes(data[rest : rest + length])
            assert data[rest + length : rest + length + 2] == b"\r\n"
            if kind == "=":
                assert value.startswith(b"txt:")
                value = Verbatim(value[4:])
            return value, rest + length + 2
        case "*" | "~" | ">" | "%":
            count = int(line) * (2 if kind == "%" else 1)
            values = []
            for _ in range(count):
                value, rest = parse(data, rest)
                values.append(value)
            if kind == "%":
                pairs = dict(zip(values[::2], values[1::2]))
                assert len(pairs) == int(line), "a map with the same key twice"
                return pairs, rest
            if kind == "~":
                return set(values), rest
            return (Push(values) if kind == ">" else values), rest
    raise AssertionError(f"{kind} is no type: {bytes(data[start:start + 60])}")


# The fields of views that pass with time.
PASSING = {
    "now_unix_ms", "remaining", "remaining_ms", "retry_after_ms", "reset_after_ms", "expires_in_ms"}


def view(reply):
    """Returns a view of either protocol version as a dictionary whose names are texts."""
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2]))
    assert isinstance(reply, dict), reply
    return {name.decode(): value for name, value in reply.items()}
