#!/usr/bin/env python3
"""Measures countdown-gateway: the memory of idle streams, and how late events arrive.

    make gateway build && Benchmarks/gateway/streams.py [--idle 10000] [--streams 1000] [--rate 1000]

Starts its own daemon and gateway. Lateness is the time from the daemon's timestamp in the event, in
whole milliseconds, until this program has read it.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "Tests/Screen"), str(PROJECT / "Tests/Integration")]

from countdownd import Daemon  # noqa: E402
from gateway import Gateway, ticket  # noqa: E402


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


async def open_stream(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    text = ticket({"a": f"countdown:k{number}"}, 900)
    # Each stream has its own client address, as behind a proxy.
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    writer.write(
        f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {text}\r\n"
        f"X-Forwarded-For: {address}\r\n\r\n".encode())
    while b'"snapshot"' not in await reader.readline():
        pass
    return reader, writer


async def open_streams(port, count):
    streams = []
    for first in range(0, count, 100):
        streams += await asyncio.gather(
            *(open_stream(port, number) for number in range(first, min(first + 100, count))))
    return streams


def close(streams):
    for _, writer in streams:
        writer.close()


async def idle(gateway, count):
    before = resident(gateway.process.pid)
    streams = await open_streams(gateway.port, count)
    await asyncio.sleep(20)
    after = resident(gateway.process.pid)
    print(f"{count} idle streams: {after:.0f} MB resident ({before:.0f} MB without)")
    close(streams)


def drive(daemon, count, rate, seconds):
    """Starts and cancels countdowns in turn, every 10 ms; returns the number of commands."""
    client, sent, begin = daemon.connect(), 0, time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        due = int(passed * rate)
        for number in range(sent, due):
            client.send("COUNTDOWN", ["START", "CANCEL"][number // count % 2], f"k{number % count}")
        for _ in range(sent, due):
            client.receive()
        sent = max(sent, due)
        time.sleep(.01)
    return sent


async def events(gateway, daemon, count, rate, seconds):
    streams = await open_streams(gateway.port, count)
    late = []

    async def read(reader):
        while line := await reader.readline():
            if line.startswith(b"data:"):
                event = json.loads(line[6:])
                if event["event"] in ("started", "cancelled"):
                    late.append(time.time() * 1000 - event["now_unix_ms"])

    readers = [asyncio.create_task(read(reader)) for reader, _ in streams]
    sent = await asyncio.to_thread(drive, daemon, count, rate, seconds)
    await asyncio.sleep(1)
    for reader in readers:
        reader.cancel()
    late.sort()
    p50, p99 = (late[int(len(late) * part)] for part in (.5, .99))
    print(
        f"{count} streams, {sent / seconds:.0f} events/s: {len(late)} of {sent} arrived; "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {late[-1]:.1f} ms")
    close(streams)


def ping_p99(daemon, seconds=5):
    client, took, end = daemon.connect(), [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        client("PING")
        took.append((time.perf_counter() - begin) * 1e6)
        time.sleep(.001)
    return sorted(took)[int(len(took) * .99)]


# The flood: 500 connections with half a request, and one with complete requests, as fast as it can.
FLOOD = """
import socket, sys, time
port, end = int(sys.argv[1]), time.monotonic() + 8
slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(500)]
for one in slow:
    one.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nX: ")
asked = 0
with socket.create_connection(("127.0.0.1", port)) as fast:
    while time.monotonic() < end:
        fast.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" * 20)
        fast.recv(1 << 20)
        asked += 20
print(asked)
"""


def hostile(gateway, daemon):
    before = ping_p99(daemon)
    # The gateway's unit sets this priority. The flood's is lower: a real one comes from elsewhere.
    os.setpriority(os.PRIO_PROCESS, gateway.process.pid, 10)
    for thread in os.listdir(f"/proc/{gateway.process.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), 10)
    flood = subprocess.Popen(
        ["nice", "-n19", sys.executable, "-c", FLOOD, str(gateway.port)],
        stdout=subprocess.DEVNULL)
    time.sleep(1)
    during = ping_p99(daemon)
    flood.communicate()
    print(
        f"PING p99 {before:.0f} us; beside 500 slow requests and a flood of quick ones "
        f"{during:.0f} us")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=15)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(directory=directory)
        gateway = Gateway(daemon, "--trust-forwarded-for")
        try:
            if options.streams:
                await events(gateway, daemon, options.streams, options.rate, options.seconds)
            if options.idle:
                await idle(gateway, options.idle)
            hostile(gateway, daemon)
        finally:
            gateway.close()
            daemon.close()


asyncio.run(main())
