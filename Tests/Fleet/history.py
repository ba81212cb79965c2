"""Clients that load a fleet, and record their requests and replies with the times."""

import itertools
import math
import random
import threading
import time

from countdownd import AWAY, Client, Closed, Error, view
from linearizability import UNKNOWN, Countdown, Once, Throttle, is_linearizable, operation

YEARS = "3650d"
BURST = 4


class NotDone(Exception):
    """The daemon reports that nothing was done."""


class Unsure(Exception):
    """It is unknown whether the command was done."""


class Caller:
    """A client of one daemon that reconnects after the connection was lost."""

    def __init__(self, daemon, timeout=5):
        self.daemon = daemon
        self.timeout = timeout
        self.client = None
        # (begin, seconds, error code or None) of each answer.
        self.answers = []

    def __call__(self, *words):
        begin = time.monotonic()
        try:
            if self.client is None:
                self.client = Client(self.daemon.path, timeout=self.timeout)
        except OSError as error:
            time.sleep(0.02)
            raise NotDone from error
        try:
            reply = self.client.either(f"{AWAY} NOTFOUND", *words)
        except (OSError, Closed) as error:
            self.close()
            # A daemon must never hang, unless the test has stopped it.
            if isinstance(error, TimeoutError):
                self.answers.append((begin, time.monotonic() - begin, "TIMEOUT"))
            raise Unsure from error
        code = reply.code if isinstance(reply, Error) else None
        self.answers.append((begin, time.monotonic() - begin, code))
        if code == "UNSURE":
            raise Unsure(reply)
        if code in AWAY.split():
            raise NotDone(reply)
        return reply

    def view(self, *words):
        reply = self(*words)
        assert not isinstance(reply, Error), (words, reply)
        return None if reply is None else view(reply)

    def close(self):
        if self.client:
            self.client.close()
        self.client = None


class Crowd:
    """Threads that run until they are stopped. If one fails, the test fails."""

    def __init__(self):
        self.is_over = threading.Event()
        self.threads = []
        self.problems = []

    def add(self, work):
        """Adds a thread that calls `work()` repeatedly."""

        def go_on():
            try:
                while not self.is_over.is_set():
                    work()
            except BaseException as problem:
                self.problems.append(problem)
                self.is_over.set()

        self.threads.append(threading.Thread(target=go_on, daemon=True))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"
        if self.problems:
            raise self.problems[0]

    def wait(self, seconds):
        """Waits for `seconds`, or until a client fails."""
        self.is_over.wait(seconds)


class Histories:
    """Random commands on a few keys of each kind; each key's history is checked."""

    KINDS = ("countdown", "once", "throttle")

    def __init__(self, fleet, *, clients=3, per_key=36, seed=0, pause=0.0):
        self.fleet = fleet
        self.pause = pause
        self.per_key = per_key
        self.crowd = Crowd()
        self.callers = []
        self.keys = {}
        self.lock = threading.Lock()
        self.current = {kind: None for kind in self.KINDS}
        self.numbers = itertools.count()
        for daemon in fleet.daemons:
            for number in range(clients):
                self.add(Caller(daemon), random.Random(f"{seed} {len(self.callers)}"))

    def add(self, caller, choose):
        number = len(self.callers)
        self.callers.append(caller)

        def work():
            if self.pause:
                time.sleep(choose.random() * 2 * self.pause)
            kind = choose.choice(self.KINDS)
            key = self.key(kind)
            name, argument = self.command(kind, choose)
            begin = time.monotonic()
            try:
                result = getattr(self, kind)(caller, key, name, argument)
            except NotDone:
                # Keeps the clients from using up the processor.
                time.sleep(0.005)
                return
            except Unsure:
                result = UNKNOWN
            done = operation(number, name, argument, result, begin, time.monotonic())
            if result is not UNKNOWN or name != "GET":
                with self.lock:
                    self.keys[kind, key].append(done)

        self.crowd.add(work)

    def key(self, kind):
        """Returns a key that all clients use until its history has `per_key` operations."""
        with self.lock:
            key = self.current[kind]
            if key is None or len(self.keys[kind, key]) >= self.per_key:
                key = self.current[kind] = f"{kind}-{next(self.numbers)}"
                self.keys[kind, key] = []
            return key

    def command(self, kind, choose):
        match kind:
            case "countdown":
                return choose.choice(["START", "START", "START", "CANCEL", "GET", "GET"]), None
            case "once":
                name = choose.choice(["BEGIN", "BEGIN", "BEGIN", "DONE", "CANCEL", "GET", "GET"])
                return name, f"r{next(self.numbers)}" if name == "DONE" else None
        return choose.choice(["TAKE", "TAKE", "GET"]), None

    def countdown(self, caller, key, name, _):
        match name:
            case "START":
                reply = caller.view("COUNTDOWN", "START", key, "COUNT", 3600, "EVERY", "1s")
                return "accepted" if is_true(reply["accepted"]) else "refused", reply["generation"]
            case "CANCEL":
                return caller("COUNTDOWN", "CANCEL", key) == 1
        reply = caller.view("COUNTDOWN", "GET", key)
        return reply and reply["generation"]

    def once(self, caller, key, name, argument):
        match name:
            case "BEGIN":
                reply = caller.view("ONCE", "BEGIN", key, "TTL", "1h")
                return "accepted" if is_true(reply["accepted"]) else "refused", text(reply["result"])
            case "DONE":
                reply = caller("ONCE", "DONE", key, argument)
                if isinstance(reply, Error):
                    return "NOTFOUND"
                reply = view(reply)
                return "accepted" if is_true(reply["accepted"]) else "refused", text(reply["result"])
            case "CANCEL":
                return caller("ONCE", "CANCEL", key) == 1
        reply = caller.view("ONCE", "GET", key)
        return reply and (text(reply["result"]),)

    def throttle(self, caller, key, name, _):
        # The limit takes years to refill.
        parameters = ("BURST", BURST, "RATE", f"{BURST}/{YEARS}")
        if name == "TAKE":
            reply = caller.view("THROTTLE", "TAKE", key, *parameters)
            return "accepted" if is_true(reply["accepted"]) else "refused", reply["remaining"]
        reply = caller.view("THROTTLE", "GET", key)
        return reply["remaining"] if reply else BURST

    def __enter__(self):
        self.crowd.__enter__()
        return self

    def __exit__(self, *details):
        self.crowd.__exit__(*details)
        for caller in self.callers:
            caller.close()

    def wait(self, seconds):
        self.crowd.wait(seconds)

    @property
    def answers(self):
        return [answer for caller in self.callers for answer in caller.answers]

    def check(self, with_failovers=False, behind=None):
        """Checks that each key's history is linearizable; returns the number of operations.

        - with_failovers: an unconfirmed change may have been read before it was lost with its
          server, so on keys with an unknown reply only changes count, not reads.
        - behind: a host that was cut off together with an old primary. Its reads may be stale; its
          changes are not accepted, because no replica confirms them.
        """
        old = {n for n, caller in enumerate(self.callers) if behind and caller.daemon.host is behind}
        for (kind, key), operations in self.keys.items():
            operations = [one for one in operations if one.client not in old or is_confirmed_change(one)]
            if with_failovers and any(one.result is UNKNOWN for one in operations):
                operations = [one for one in operations if is_confirmed_change(one)]
                if kind == "throttle":
                    taken = sum(one.result is not UNKNOWN for one in operations)
                    assert taken <= BURST, lines(key, operations)
                    continue
            assert is_linearizable(operations, model(kind, operations)), lines(key, operations)
        return sum(map(len, self.keys.values()))


def is_confirmed_change(one):
    """Returns whether an operation made a change, or may have: that, too, explains later ones."""
    return one.result is UNKNOWN or one.result is True or isinstance(one.result, tuple) and one.result[0] == "accepted"


def model(kind, operations):
    match kind:
        case "countdown":
            return Countdown(operations)
        case "once":
            return Once()
    return Throttle(BURST)


def is_true(value):
    return value is True or value == 1


def text(value):
    return None if value is None else value.decode()


def lines(key, operations):
    first = min(one.begin for one in operations)
    return f"{key} cannot be explained:\n" + "\n".join(
        f"  {one.begin - first:9.6f} {one.end - first:9.6f}  client {one.client:2}  {one.name}"
        f" {one.argument or ''} -> {'?' if one.result is UNKNOWN else one.result}"
        for one in sorted(operations, key=lambda one: one.begin)
    )  # fmt: skip


def percentile(values, part):
    values = sorted(values)
    return values[min(math.ceil(len(values) * part) - 1, len(values) - 1)] if values else 0.0
