"""What the clients' contract is tested with: a scripted server, and one driver for each language.

The server speaks RESP2 and RESP3, and does what a test says: it answers, holds an answer, cuts it or
closes the connection. A driver is a small program that uses the client of its language. It reads
operations from its input, one a line in JSON, and prints what came of each.
"""

import contextlib
import itertools
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from compiled import once, typescript_client
from countdownd import DEBUG_BUILD, PATIENCE, PROJECT, eventually
from proxy import CLOSE, CUT, HOLD, requests

DRIVERS = PROJECT / "Tests/Integration/contract"

class Failure(str):
    """An error reply."""


class Push(list):
    """A push of RESP3; an array in RESP2."""


def encoded(value, version):
    """Returns a reply in RESP2 or RESP3."""
    match value:
        case Failure(): return f"-{value}\r\n".encode()
        case None: return b"_\r\n" if version == 3 else b"$-1\r\n"
        case bool(): return f"#{'ft'[value]}\r\n".encode() if version == 3 else f":{int(value)}\r\n".encode()
        case int(): return f":{value}\r\n".encode()
        case str():
            data = value.encode()
            return b"$%d\r\n%s\r\n" % (len(data), data)
        case dict():
            head = f"%{len(value)}" if version == 3 else f"*{2 * len(value)}"
            parts = [encoded(one, version) for pair in value.items() for one in pair]
        case _:
            head = f"{'>' if version == 3 and isinstance(value, Push) else '*'}{len(value)}"
            parts = [encoded(one, version) for one in value]  # fmt: skip
    return head.encode() + b"\r\n" + b"".join(parts)


def answer(accepted=True, reason=None, **more):
    """Returns the answer to a request."""
    return {
        "key": "k", "generation": 1, "state": "counting", "accepted": accepted, "reason": reason, **more}


class Connection:
    """One connection of a client."""

    def __init__(self, server, far, number):
        self.server, self.far, self.number = server, far, number
        self.version = 2
        self.held, self.is_silent = 0, False
        self.lock = threading.Lock()

    def send(self, *values):
        data = b"".join(encoded(value, self.version) for value in values)
        with self.lock:
            self.far.sendall(data)

    def publish(self, channel, **fields):
        """Sends an event. Only the length of `pattern` matters: a channel needs none."""
        self.send(event(self.patterns, channel, **fields))

    def close(self):
        with contextlib.suppress(OSError):
            self.far.shutdown(socket.SHUT_RDWR)


def event(patterns, channel, **fields):
    """Returns the push of an event."""
    text = line(channel, **fields)
    if channel in patterns:
        return Push(["message", channel, text])
    return Push(["pmessage", patterns[0], channel, text])


def line(channel, **fields):
    """Returns the line of an event."""
    return json.dumps({"event": "fired", "key": channel.partition(":")[2], "generation": 1, **fields})


class Server:
    """A scripted server. Its `script` has what it does for each command, by its first words: a reply,
    HOLD, CLOSE or CUT; a function of the connection and the words that returns one of these; or a
    list of them, whose last one is repeated."""

    def __init__(self, path):
        self.path = str(path)
        self.script = {
            "HELLO": self.hello, "CLIENT": "OK", "PING": "PONG", "EVENTS CURSOR": "c0",
            "EVENTS SINCE": {"complete": True, "more": False, "events": [], "cursor": "c1", "last_seq": 0},
            "SUBSCRIBE": self.subscribe, "PSUBSCRIBE": self.subscribe, "UNSUBSCRIBE": self.subscribe,
            "PUNSUBSCRIBE": self.subscribe,
        }  # fmt: skip
        self.seen, self.count = [], 0
        self.open, self.subscribed = {}, queue.Queue()
        self.lock = threading.Lock()
        self.listener = None

    def start(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(100)
        threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()
        return self

    def stop(self):
        """Ends, with all connections; the socket goes first."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in list(self.open.values()):
            one.close()

    def accept(self, listener):
        for number in itertools.count():
            try:
                far, _ = listener.accept()
            except OSError:
                return
            one = Connection(self, far, number)
            with self.lock:
                self.count += 1
                self.open[id(one)] = one
            threading.Thread(target=self.serve, args=[one], daemon=True).start()

    def serve(self, one):
        with one.far:
            with contextlib.suppress(OSError, ValueError):
                for words in requests(one.far):
                    if not self.handle(one, words):
                        break
        with self.lock:
            del self.open[id(one)]

    def handle(self, one, words):
        """Does what the script says; false ends the connection."""
        name = next(
            (name for name in (" ".join(words[:2]).upper(), words[0].upper()) if name in self.script),
            None)
        with self.lock:
            self.seen.append(words)
            does = self.script.get(name, Failure("ERR not in the script"))
            if isinstance(does, list) and not isinstance(does, Push):
                does = does.pop(0) if len(does) > 1 else does[0]
        if callable(does):
            does = does(one, words)
        if does is HOLD:
            one.held += 1
            return True
        if does is CLOSE:
            return False
        if does is CUT:
            one.far.sendall(b"$100\r\nhal")
            return False
        if does is not None:
            one.send(does)
        return True

    def let_go(self, reply):
        """Answers at last what it has held."""
        for one in list(self.open.values()):
            with contextlib.suppress(OSError):
                one.send(*[reply] * one.held)
            one.held = 0

    def hello(self, one, words):
        if words[1:]:
            one.version = int(words[1])
        return {"server": "countdownd", "version": "0.1.0", "proto": one.version, "id": one.number}

    def subscribe(self, one, words):
        one.patterns = getattr(one, "patterns", []) + words[1:]
        for count, word in enumerate(words[1:]):
            one.send(Push([words[0].lower(), word, count + 1]))
        self.subscribed.put(one)

    def requests(self, *words):
        """Returns the requests so far that begin with these words."""
        with self.lock:
            return [one for one in self.seen if tuple(one[:len(words)]) == words]

    def wait_for(self, *words, count=1):
        eventually(lambda: len(self.requests(*words)) >= count, lambda: f"{words}: {self.seen}")


class Driver:
    """The client of one language, in a process of its own."""

    def __init__(self, words, environment, path):
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment, "COUNTDOWND_SOCKET": str(path)})
        self.results, self.changed = {}, threading.Condition()
        self.numbers = itertools.count(1)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for text in self.process.stdout:
            result = json.loads(text)
            with self.changed:
                self.results.setdefault(result["id"], queue.Queue()).put(result)
                self.changed.notify_all()

    def begin(self, operation, **fields):
        """Sends an operation, and returns its number."""
        number = next(self.numbers)
        with self.changed:
            self.results.setdefault(number, queue.Queue())
        self.process.stdin.write(json.dumps({"id": number, "do": operation, **fields}) + "\n")
        self.process.stdin.flush()
        return number

    def result(self, number):
        """Returns what came of an operation; the next event or the end, of a watch."""
        return self.results[number].get(timeout=PATIENCE)

    def do(self, operation, **fields):
        return self.result(self.begin(operation, **fields))

    def call(self, name, **fields):
        return self.do("call", call=name, **fields)

    @contextlib.contextmanager
    def stopped(self):
        """Stops the program meanwhile: what happens then, it sees all at once."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def end(self):
        """Closes its input: the program then ends by itself."""
        self.process.stdin.close()
        try:
            assert self.process.wait(PATIENCE) == 0
        finally:
            self.process.kill()


def python():
    return [sys.executable, DRIVERS / "driver.py"], {"PYTHONPATH": str(PROJECT / "Clients/Python/src")}


def go():
    if not (program := shutil.which("go")):
        pytest.skip("go is not installed")
    source, client = DRIVERS / "go", PROJECT / "Clients/Go"

    def make(folder):
        subprocess.run(
            [program, "build", "-race", "-o", folder / "driver", "."], cwd=source, check=True,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"})

    return [once("contract-go", make, program, source, client) / "driver"], {}


def node():
    client = typescript_client() / "dist/index.js"
    return ["node", DRIVERS / "driver.mjs"], {"COUNTDOWND_CLIENT": str(client)}


def swift():
    # A target of the package: `swift build` makes it beside the tests.
    program = DEBUG_BUILD / "contract-driver"
    if not program.exists():
        pytest.fail(f"{program} is not built: swift build --product contract-driver")
    return [program], {}


# What returns the command line of each language's driver, and its environment.
LANGUAGES = {"python": python, "go": go, "node": node, "swift": swift}


def driver(language, path):
    """Starts the driver of a language, whose client finds the server at a path."""
    words, environment = LANGUAGES[language]()
    return Driver(words, environment, path)


def failed(result, kind):
    """Returns whether an operation failed in this way."""
    return kind in result.get("is", [])
