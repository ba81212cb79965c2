"""The daemon that is killed, and the connections to it."""

import json
import os
import signal
import socket
import time

import hiredis

from countdownd import PATIENCE, Daemon, eventually, request


class Died(Exception):
    """The daemon was killed, as intended."""


def milliseconds():
    return time.time_ns() // 1_000_000


def as_view(reply):
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])} if isinstance(reply, list) else reply


def is_refused(reply):
    return isinstance(reply, Exception) and str(reply).startswith("READONLY")


class Victim(Daemon):
    """A daemon that may be killed at any moment, also while it starts."""

    def start(self):
        self.start_without_waiting()

    # Whether it may also end with EX_IOERR.
    may_give_up = False

    def has_been_killed(self):
        if self.process.poll() is None:
            return False
        ends = {-signal.SIGKILL, os.EX_IOERR} if self.may_give_up else {-signal.SIGKILL}
        assert self.process.returncode in ends, (self.process.returncode, self.log[-4000:])
        return True

    def wait_until_up(self):
        self.is_expected_to_run = False

        def is_up():
            if self.has_been_killed():
                raise Died
            try:
                return Peer(self.path).ask("INFO", "persistence").count(b"loading:0") == 1
            except Died:
                return False

        eventually(is_up, "it is up", pause=0.002)


class Peer:
    """A connection that sends whole pipelines, and records the reply to each command."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            raise Died from error
        self.reader = hiredis.Reader()
        self.sent = []
        self.replies = []
        self.output = b""
        self.is_closed = False

    def send(self, words):
        self.sent.append((words, milliseconds()))
        self.output += request(*words)

    def write(self):
        try:
            self.output = self.output[self.socket.send(self.output) :]
        except BlockingIOError:
            pass
        except OSError:
            self.output = b""
            self.is_closed = True

    def read(self):
        """Reads what has arrived; returns False once the connection is closed."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            self.replies.append((reply, milliseconds()))
        return True

    def ask(self, *words):
        return self.ask_all([words])[0]

    def ask_all(self, commands):
        """Sends all commands and returns all replies; raises Died if the connection closes."""
        try:
            self.socket.sendall(b"".join(request(*words) for words in commands))
        except OSError as error:
            raise Died from error
        count = len(self.replies) + len(commands)
        while len(self.replies) < count:
            if not self.read():
                raise Died
        replies = [reply for reply, _ in self.replies[-len(commands) :]]
        del self.replies[-len(commands) :]
        return replies


class Subscriber(Peer):
    """A connection that receives all events."""

    def __init__(self, path):
        super().__init__(path)
        self.ask("HELLO", 3)
        self.ask("PSUBSCRIBE", "*")
        self.socket.setblocking(False)

    def heard(self, but_for_time):
        """Returns the events that the event log must have, as (channel, line). `but_for_time`
        leaves out events caused by time, which may be repeated."""
        heard, owned = set(), set()
        for message, _ in self.replies:
            if message[0] != b"pmessage":
                continue
            event = json.loads(message[3])
            # Of a countdown or timer, only the first event of a generation has the owner.
            if event.get("owner", "none") != "none":
                owned.add(event["generation"])
            kind = message[2].split(b":")[0]
            is_kept = event.get("durable") if kind == b"hud" else kind != b"throttle"
            is_change = event["event"] not in ("tick", "refused", "snapshot", "touched")
            is_meant = is_kept and is_change and not (but_for_time and "late_us" in event)
            if is_meant and event["generation"] not in owned:
                heard.add((message[2], message[3]))
        return heard
