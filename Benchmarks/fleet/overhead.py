#!/usr/bin/env python3
"""Measures what a shared START costs beside a bare script on the same server: `make bench-fleet`.

One client sends both, in turn: `COUNTDOWN START` to the daemon, and the script to the server. The
script compares a version, stores a record of the same size and adds it to a stream, as anyone would
write it; with a replica, `WAIT` follows. So both have the same round trips, and the same noise.
"""

import argparse
import math
import socket
import sys
import time

from bench import Bench, report

SCRIPT = """
if string.sub(redis.call('HGET', KEYS[1], ARGV[1]) or '', 1, 16) ~= '' then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 10000, '*', 'k', ARGV[1], 'r', ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""


class Link:
    """A connection that sends a request and waits for so many lines."""

    def __init__(self, family, address):
        self.socket = socket.socket(family)
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __call__(self, *requests, lines=1):
        self.socket.sendall(b"".join(map(encoded, requests)))
        reply = b""
        while reply.count(b"\r\n") < lines:
            reply += self.socket.recv(4096)
        assert not reply.startswith(b"-"), reply
        return reply


def encoded(words):
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def measure(replicas, count):
    with Bench(1, replicas) as bench:
        daemon = Link(socket.AF_UNIX, str(bench.paths[0]))
        server = Link(socket.AF_INET, ("127.0.0.1", bench.port))
        sha = server(("SCRIPT", "LOAD", SCRIPT), lines=2).split(b"\r\n")[1]
        record = bytes(100)
        waits = [("WAIT", replicas, 1000)] if replicas else []
        times = {"START": [], "script": []}
        for number in range(count + 200):
            begin = time.perf_counter_ns()
            reply = daemon(("COUNTDOWN", "START", f"k{number}", "COUNT", 60, "EVERY", "1s", "BRIEF"), lines=4)
            middle = time.perf_counter_ns()
            server(("EVALSHA", sha, 2, "bare", "bare:ev", f"k{number}", record), *waits, lines=1 + len(waits))
            end = time.perf_counter_ns()
            assert reply.startswith(b"*3\r\n:1"), reply
            if number >= 200:
                times["START"].append((middle - begin) / 1000)
                times["script"].append((end - middle) / 1000)
    return times


def percentile(values, part):
    return sorted(values)[math.ceil(len(values) * part) - 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10_000)
    options = parser.parse_args()
    rows = []
    for replicas in (0, 1):
        times = measure(replicas, options.n)
        row = [f"{replicas} replicas"]
        for part in (0.5, 0.99):
            start, script = (percentile(times[name], part) for name in ("START", "script"))
            row += [f"{start:.0f}", f"{script:.0f}", f"{start - script:.0f}"]
        rows.append(row)
    heads = ["µs", "START p50", "script p50", "more", "START p99", "script p99", "more"]
    print(report.table(heads, rows))
    return 0 if all(int(row[3]) <= 300 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
