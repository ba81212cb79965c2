"""Clients for what redis-benchmark does not measure; the same ones for all servers.

They do as little as possible during a measurement: they store bytes with their time of arrival and
parse them afterwards.
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
    """Returns the smallest of `values` that `percent` % of them do not exceed; None without any."""
    values = sorted(values)
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)] if values else None


def fill(server, requests, pipeline=500):
    """Sends requests over one connection, `pipeline` at a time, and returns the seconds it took. A
    request is bytes, or a function that returns them when they are sent."""
    with server.connect() as client:
        return send(client, requests, server.ok, pipeline)


def send(client, requests, ok, pipeline=500):
    """Does the same as `fill` on an open connection."""
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
    """Runs a function in a separate process until `stop`."""

    def __init__(self, function, *arguments):
        self.ours, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self._run, args=(function, theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.wait()  # Until it is ready.

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


# Matches the event of an expired key: its key and, if it has one, its due time.
EVENT = {
    "countdownd": re.compile(rb'"event":"ready","key":"([^"]*)".*?"due_unix_ms":(\d+)[^\n]*\n'),
    "Redis": re.compile(rb":expired\r\n\$\d+\r\n([^\r]*)\r\n()"),
}
SUBSCRIBE = {
    "countdownd": request(b"PSUBSCRIBE", b"countdown:*"),
    "Redis": request(b"SUBSCRIBE", b"__keyevent@0__:expired"),
}


class Listener:
    """A subscriber process (`listen.c`). It only records bytes and times, so that the measurement
    shows the server; they are parsed afterwards."""

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
        """Returns the events: [(key, due time or None, arrival time)], in ms since 1970."""
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
    """Returns the path of the listener; compiles it first if necessary."""
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
    """Sends PING at fixed times, without waiting for replies. Returns [(scheduled time, seconds
    until the reply)]."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(b"PING\r\n")
    client.recv(100)
    pipe.send("ready")
    asked, answered, missing = [], [], 0
    due = time.time()
    while not (stopping := pipe.poll()) or missing:
        while not stopping and due <= time.time():
            client.sendall(b"PING\r\n")
            asked.append(due)
            missing += len(b"+PONG\r\n")
            due += interval
        wait = PATIENCE if stopping else max(0, due - time.time())
        if select.select([client], [], [], wait)[0]:
            data = client.recv(1 << 16)
            if not data:
                raise RuntimeError("the server closed the connection that asks PING")
            if b"-" in data:
                raise RuntimeError(f"PING is refused: {data[data.index(b'-') :][:200].decode()}")
            missing -= len(data)
            whole = len(asked) - -(-missing // len(b"+PONG\r\n"))
            answered += [time.time()] * (whole - len(answered))
        elif stopping:
            raise RuntimeError("PING is not answered")
    pipe.recv()
    return [(due, came - due) for due, came in zip(asked, answered)]


def summary(milliseconds):
    return {
        "ping_p99": percentile(milliseconds, 99), "ping_max": max(milliseconds, default=None),
        "pings": len(milliseconds),
    }  # fmt: skip


def read_slowly(pipe, path, subscribe, count):
    """Runs subscribers that each read at most 16 KiB every 50 ms."""
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
    """Lets one key become due at each time in `dues` (milliseconds since 1970) while one client is
    subscribed and another sends PING. Returns the lateness of each event and the PINGs from the
    first due time to the last event, in milliseconds; the numbers of early and lost events; the
    server's processor time per event from just before the first due time to a second after the
    last, in microseconds; and whether all keys were set before the first due time."""
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
    """Opens connections, sends PING on each, and returns the server's bytes per connection."""
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
    """Sends one command and returns the bytes of its reply that arrive at once."""
    with server.connect() as client:
        client.sendall(request(*words))
        return client.recv(1 << 16)
