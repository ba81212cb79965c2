"""Clients for what redis-benchmark does not measure; the same ones for all servers.

They do as little as possible while time counts: bytes are kept with the moment they came, and read
afterwards.
"""

import array
import bisect
import math
import multiprocessing
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import time

from servers import BUILD, PATIENCE, request

FORK = multiprocessing.get_context("fork")


def percentile(values, percent):
    """The smallest value that so many percent of the values do not exceed; None without values."""
    values = sorted(values)
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)] if values else None


def fill(server, requests, pipeline=500):
    """Sends requests over one connection, so many at a time; seconds that it took. A request is bytes,
    or a function that makes them when they are sent."""
    with server.connect() as client:
        return send(client, requests, server.ok, pipeline)


def send(client, requests, ok, pipeline=500):
    """`fill` over a connection that stays."""
    begin = time.perf_counter()
    batch = []
    for one in requests:
        batch.append(one() if callable(one) else one)
        if len(batch) == pipeline:
            exchange(client, batch, ok)
            batch = []
    if batch:
        exchange(client, batch, ok)
    return time.perf_counter() - begin


def exchange(client, batch, ok):
    client.sendall(b"".join(batch))
    seen, missing = b"", len(batch)
    while missing:
        data = client.recv(1 << 20)
        if not data:
            raise RuntimeError(f"the server closed the connection after {seen[-200:]!r}")
        seen = seen[-len(ok) + 1 :] + data
        missing -= seen.count(ok)


class Background:
    """A function in a process of its own, which returns when it is told to stop."""

    def __init__(self, function, *arguments):
        self.ours, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self._run, args=(function, theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.wait()  # It is ready.

    @staticmethod
    def _run(function, pipe, arguments):
        try:
            pipe.send(function(pipe, *arguments))
        except BaseException as error:
            pipe.send(error)

    def wait(self, seconds=PATIENCE):
        if not self.ours.poll(seconds):
            self.process.kill()
            raise RuntimeError("a client has not answered")
        value = self.ours.recv()
        if isinstance(value, BaseException):
            raise RuntimeError(f"a client failed: {value!r}")
        return value

    def stop(self):
        self.ours.send("stop")
        result = self.wait()
        self.process.join()
        return result


# What tells in a stream of events that one is over, and when it was due if it says so.
EVENT = {
    "countdownd": re.compile(rb'"event":"ready","key":"([^"]*)".*?"due_unix_ms":(\d+)[^\n]*\n'),
    "Redis": re.compile(rb":expired\r\n\$\d+\r\n([^\r]*)\r\n()"),
}
SUBSCRIBE = {
    "countdownd": request(b"PSUBSCRIBE", b"countdown:*"),
    "Redis": request(b"SUBSCRIBE", b"__keyevent@0__:expired"),
}


class Listener:
    """A client that listens: `listen.c`, which only notes what came when, so that what is measured is the
    server. It is read once that is over."""

    def __init__(self, server):
        self.name = server.name
        self.process = subprocess.Popen(
            [listener_program(), str(server.path), SUBSCRIBE[server.name]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        if select.select([self.process.stdout], [], [], PATIENCE)[0]:
            said = os.read(self.process.stdout.fileno(), 100)
        else:
            said = b""
        if said != b"ready\n":
            self.process.kill()
            raise RuntimeError(f"the listener does not start: {self.process.communicate()[1]!r}")

    def stop(self):
        """What it has heard: [(key, when it was due or None, when it came)], in milliseconds."""
        try:
            heard, error = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        if self.process.returncode:
            raise RuntimeError(error.decode().strip())
        count = int.from_bytes(heard[:8], sys.byteorder)
        pieces = array.array("q", heard[8 : 8 + 16 * count])
        times, ends = pieces[::2], pieces[1::2]
        events = EVENT[self.name].finditer(heard, 8 + 16 * count)
        return [
            (
                match[1], int(match[2]) if match[2] else None,
                times[bisect.bisect_left(ends, match.end() - 8 - 16 * count)] / 1000,
            )
            for match in events
        ]  # fmt: skip


def listener_program():
    """Compiled here, by the compiler that comes with Swift."""
    source = pathlib.Path(__file__).with_name("listen.c")
    program = BUILD / "listen"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("clang") or shutil.which("cc")
        if not compiler:
            raise RuntimeError("no C compiler for the listener; clang comes with Swift")
        subprocess.run([compiler, "-O2", "-o", program, source], check=True, timeout=PATIENCE)
    return str(program)


def ping(pipe, path, interval=0.005):
    """Asks PING at fixed moments, whether or not those before are answered: [(when it was to be asked,
    seconds until the answer)]."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(b"PING\r\n")
    client.recv(100)
    pipe.send("ready")
    asked, answered, missing = [], [], 0
    due = time.time()
    while missing or not pipe.poll():
        while due <= time.time() and not pipe.poll():
            client.sendall(b"PING\r\n")
            asked.append(due)
            missing += len(b"+PONG\r\n")
            due += interval
        wait = PATIENCE if pipe.poll() else max(0, due - time.time())
        if select.select([client], [], [], wait)[0]:
            data = client.recv(1 << 16)
            if not data:
                raise RuntimeError("the server closed the connection that asks PING")
            if b"-" in data:
                raise RuntimeError(f"PING is refused: {data[data.index(b'-') :][:200].decode()}")
            missing -= len(data)
            whole = len(asked) - -(-missing // len(b"+PONG\r\n"))
            answered += [time.time()] * (whole - len(answered))
        elif pipe.poll() and wait == PATIENCE:
            raise RuntimeError("PING is not answered")
    pipe.recv()
    return [(due, came - due) for due, came in zip(asked, answered)]


def summary(milliseconds):
    return {
        "ping_p99": percentile(milliseconds, 99), "ping_max": max(milliseconds, default=None),
        "pings": len(milliseconds),
    }  # fmt: skip


def read_slowly(pipe, path, subscribe, count):
    """Subscribers that read 16 KiB each 50 ms, and that much only."""
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(subscribe)
        client.recv(4096)
        client.setblocking(False)
        clients.append(client)
    pipe.send("ready")
    while not pipe.poll(0.05):
        for client in clients:
            try:
                if not client.recv(1 << 14):
                    raise RuntimeError("the server closed the connection of a subscriber")
            except BlockingIOError:
                pass
    pipe.recv()
    return None


def expiry(server, dues, patience):
    """Lets keys become due at these moments (milliseconds since 1970, one for each) while one client
    listens and another asks PING. Returns the lateness of each event and the PINGs from the first due
    moment to the last event, all in milliseconds, how many events were early and lost, and what the server
    needed of the processor from just before the first to a second after the last moment, in
    microseconds for each event."""
    listener = Listener(server)
    prober = Background(ping, str(server.path))
    planned = {b"k:%010d" % number: due for number, due in enumerate(dues)}
    fill(
        server,
        ((lambda k=key, d=due: server.start_request(k, d)) for key, due in planned.items()),
        pipeline=200,
    )
    filled = time.time() * 1000
    sleep_until(min(dues) / 1000 - 0.01)
    before = server.cpu_seconds()
    sleep_until(max(dues) / 1000 + 1)
    used = server.cpu_seconds() - before
    sleep_until(max(dues) / 1000 + patience)
    samples = prober.stop()
    heard = listener.stop()
    lateness, early, last = [], 0, 0
    first = min(dues)
    for key, due, came in heard:
        due = planned[key] if due is None else due
        early += came < due
        lateness.append(max(0.0, came - due))
        last = max(last, came)
    pings = [took * 1000 for asked, took in samples if first <= asked * 1000 <= last]
    return {
        "late": lateness, "ping": pings, "early": early, "lost": len(dues) - len(heard),
        "cpu_us": used * 1e6 / len(dues), "filled_in_time": filled <= first,
    }  # fmt: skip


def sleep_until(moment):
    time.sleep(max(0, moment - time.time()))


def connections(server, count):
    """Opens connections and has each answered; bytes of memory that one costs."""
    before = server.resident()
    clients = []
    try:
        for _ in range(count):
            clients.append(server.connect())
            if len(clients) % 100 == 0:
                answer(clients[-100:])
        answer(clients)
        return (server.resident() - before) / count
    finally:
        for client in clients:
            client.close()


def answer(clients):
    for client in clients:
        client.sendall(b"PING\r\n")
    for client in clients:
        reply = client.recv(100)
        if reply != b"+PONG\r\n":
            raise RuntimeError(f"PING was answered with {reply!r}")


def ask(server, *words):
    """One command, and its reply as bytes as far as they came at once."""
    with server.connect() as client:
        client.sendall(request(*words))
        return client.recv(1 << 16)
