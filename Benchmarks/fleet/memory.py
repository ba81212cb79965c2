#!/usr/bin/env python3
"""Measures the memory of a host that uses few of a fleet's records: `make bench-fleet`.

One daemon with `mirror: all` makes many countdowns, another one with `mirror: used` asks for some. Then
the first one ends, and the other one keeps all partitions.
"""

import argparse
import signal
import socket
import sys

from bench import Bench, info, report, wait_for
from overhead import encoded

GOAL = 50 << 20


class Pipeline:
    """Sends many commands at once, and counts errors among the replies."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))

    def __call__(self, commands):
        self.socket.sendall(b"".join(map(encoded, commands)) + b"*1\r\n$4\r\nPING\r\n")
        reply = b""
        while not reply.endswith(b"+PONG\r\n"):
            reply += self.socket.recv(1 << 16)
        return reply.count(b"\r\n-") + reply.startswith(b"-")


def resident(path):
    return int(info(path, "memory")["used_memory_rss"])


def fact(path, name):
    return info(path, "fleet").get(f"fleet_{name}")


def measure(records, used):
    rows = []
    with Bench(2, 0, mirrors=("all", "used")) as bench:
        maker, user = bench.paths
        wait_for(lambda: fact(user, "kept_partitions") == 0 and fact(maker, "kept_partitions") == 16, "one host keeps all")
        rows.append(["used, before", 0, resident(user)])
        pipeline = Pipeline(maker)
        failed = 0
        for first in range(0, records, 500):
            failed += pipeline(
                ("COUNTDOWN", "START", f"+4512345{number:07}", "COUNT", 1, "EVERY", "24h", "BRIEF")
                for number in range(first, min(first + 500, records))
            )
        assert failed == 0, failed
        asker = Pipeline(user)
        assert asker(("COUNTDOWN", "GET", f"+4512345{number:07}") for number in range(0, records, records // used)) == 0
        wait_for(lambda: fact(user, "entries_read") >= records, "it has read the streams")
        rows.append(["all", fact(maker, "copies"), resident(maker)])
        held, size = fact(user, "copies"), resident(user)
        rows.append(["used", held, size])
        assert held == used, held
        bench.processes[-2].send_signal(signal.SIGTERM)
        bench.processes[-2].wait()
        wait_for(lambda: fact(user, "kept_partitions") == 16, "the other one keeps all", seconds=120)
        rows.append(["used, keeps everything", fact(user, "copies"), resident(user)])
    return rows, size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--used", type=int, default=1_000)
    options = parser.parse_args()
    rows, size = measure(options.records, options.used)
    print(report.table(["mirror", "records", "MB"], [[name, str(count), f"{size / (1 << 20):.1f}"] for name, count, size in rows]))
    return 0 if size <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
