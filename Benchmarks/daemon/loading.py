#!/usr/bin/env python3
"""Measures what it costs the daemon to load 1,000,000 stored countdowns, as a ratio.

The fixed program beside it reads the same rows with SQLite and puts them into a dictionary. Both
run on the same machine at the same time, so the ratio of their processor times depends on the
daemon, and little on the machine.

    Benchmarks/daemon/loading.py            # prints the ratio
    Benchmarks/daemon/loading.py --check    # fails if it is far above the baseline
"""

import argparse
import re
import resource
import subprocess
import sys
import time

from instructions import Client, keys
from servers import PATIENCE, Countdownd, request

COUNTDOWNS = 1_000_000
ROUNDS = 3
# The ratio as it was last measured, and how much more a check allows: it is a measurement, no count.
BASELINE = 0.85
TOLERANCE = 0.15

FIXED_PROGRAM = """
import pathlib, sqlite3, sys
[state] = pathlib.Path(sys.argv[1]).glob("state-*.db")
database = sqlite3.connect(f"file:{state}?mode=ro", uri=True)
rows = 0
for [table] in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
    found = {row[0]: row for row in database.execute(f'SELECT * FROM "{table}"')}
    rows = max(rows, len(found))
print(rows)
"""


def start(key):
    return request(b"COUNTDOWN", b"START", key, b"COUNT", b"1", b"EVERY", b"1h", b"BRIEF")


def fold(server):
    """Waits until the log is folded into the database, which the fixed program reads."""
    client = server.connect()
    end = time.monotonic() + PATIENCE
    while True:
        client.sendall(request(b"INFO", b"persistence"))
        segments = re.search(rb"log_segments:(\d+)", client.recv(1 << 16))
        if segments and int(segments[1]) <= 2:
            return
        if time.monotonic() > end:
            raise RuntimeError("the log is not folded")
        time.sleep(0.1)


def seconds_to_load(server):
    """Starts the daemon and returns its processor time until it has loaded its state."""
    server.start()
    client = Client(server)
    end = time.monotonic() + PATIENCE
    while not client.is_answered(request(b"COUNTDOWN", b"GET", b"key")):
        if time.monotonic() > end:
            raise RuntimeError("the daemon does not load its state")
        time.sleep(0.005)
    seconds = server.cpu_seconds()
    server.stop()
    return seconds


def seconds_of_fixed_program(server):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", FIXED_PROGRAM, server.directory / "state"]
    rows = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if rows < COUNTDOWNS * 9 // 10:
        raise RuntimeError(f"the database has only {rows} rows")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the baseline")
    options = parser.parse_args()

    limits = Countdownd.limits | {"max-entities": 2 * COUNTDOWNS}
    with Countdownd("process", limits) as server:
        Client(server).send_batches([start(key) for key in keys(0, COUNTDOWNS)], 64)
        fold(server)
        server.stop()
        rounds = [
            (seconds_to_load(server), seconds_of_fixed_program(server)) for _ in range(ROUNDS)
        ]
    daemon, fixed = map(min, zip(*rounds))
    print(f"daemon {daemon:.2f} s, fixed program {fixed:.2f} s", file=sys.stderr)
    ratio = daemon / fixed
    print(f"loading {COUNTDOWNS:,}: {ratio:.2f} times the fixed program's processor time")
    if options.check and ratio > BASELINE * (1 + TOLERANCE):
        sys.exit(f"the baseline is {BASELINE}")


if __name__ == "__main__":
    main()
