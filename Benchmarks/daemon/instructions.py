#!/usr/bin/env python3
"""Counts the instructions that the daemon executes for each command, with callgrind.

Instruction counts do not depend on other load, so they show small changes. Each workload has its
own daemon. Callgrind counts all threads after a warm-up, without the kernel and without the
daemon's start and end.

    Benchmarks/daemon/instructions.py                     # all workloads, as a table
    Benchmarks/daemon/instructions.py --write FILE        # also writes the page
    Benchmarks/daemon/instructions.py --only "START BRIEF, pipeline 16"

Callgrind's output for the last workload is in .build/bench/callgrind.out:

    callgrind_annotate --inclusive=yes .build/bench/callgrind.out | swift demangle --compact
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from servers import BUILD, COUNTDOWND, Countdownd, request

# Older versions of Valgrind cannot read this compiler's debug information; symbols are enough.
PROGRAM = BUILD / "countdownd-symbols"
BATCHES = 500


class Counted(Countdownd):
    """The daemon under callgrind."""

    def __init__(self, durability=None, options=(), settings=()):
        self.options = options
        super().__init__(durability, settings=settings)

    def arguments(self):
        _, *arguments = super().arguments()
        return [
            "valgrind", "--tool=callgrind", "--callgrind-out-file=callgrind.out", PROGRAM, *arguments,
            *self.options,
        ]  # fmt: skip

    def dump(self):
        """Writes the counts since the last dump to a file, resets them, and returns the file."""
        before = set(self.directory.glob("callgrind.out.*"))
        command = ["callgrind_control", "--dump", str(self.process.pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        (file,) = set(self.directory.glob("callgrind.out.*")) - before
        return file


class Client:
    def __init__(self, server):
        self.socket = server.connect()
        self.buffer = b""
        self.position = 0

    def line(self):
        while (end := self.buffer.find(b"\r\n", self.position)) < 0:
            self.more()
        line = self.buffer[self.position : end]
        self.position = end + 2
        return line

    def more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the daemon closed the connection")
        self.buffer = self.buffer[self.position :] + data
        self.position = 0

    def reply(self):
        """Reads a reply. Raises RuntimeError for an error reply."""
        missing = 1
        while missing:
            line = self.line()
            missing -= 1
            match line[:1]:
                case b"-":
                    raise RuntimeError(line.decode())
                case b"$" if line != b"$-1":
                    end = int(line[1:]) + 2
                    while len(self.buffer) < self.position + end:
                        self.more()
                    self.position += end
                case b"*":
                    missing += int(line[1:])

    def is_answered(self, command):
        """Sends a command and returns whether the reply is not an error."""
        try:
            self.send([command])
        except RuntimeError:
            return False
        return True

    def send(self, commands):
        """Sends all commands at once and reads their replies."""
        self.socket.sendall(b"".join(commands))
        self.receive(len(commands))

    def receive(self, count):
        for _ in range(count):
            self.reply()

    def send_batches(self, commands, pipeline):
        for first in range(0, len(commands), pipeline):
            self.send(commands[first : first + pipeline])


def keys(first, count):
    return [b"key:%012d" % number for number in range(first, first + count)]


def start(key):
    return request(b"COUNTDOWN", b"START", key)


def start_brief(key):
    return request(b"COUNTDOWN", b"START", key, b"BRIEF")


def get(key):
    return request(b"COUNTDOWN", b"GET", key)


def timer_set(key):
    return request(b"TIMER", b"SET", key, b"60s")


def throttle(key):
    return request(b"THROTTLE", b"TAKE", key, b"BURST", b"10", b"RATE", b"5/1m")


RULES = [
    "throttles:",
    "  ip: {burst: 1000000, rate: 1000000/1h}",
    "  prefix: {without-last: 4, windows: [10000/1d], passed: {least: 1%, of: 50, in: 1h, block: 1h}}",
    "  all: {windows: [10000/1d], global: true}",
    "policies:",
    "  alone: {ladder: [30s, 60s], windows: [5/1h, 10/1d], validity: 5m, attempts: 3}",
    "  limited:",
    "    {ladder: [30s, 60s], windows: [5/1h, 10/1d], validity: 5m, attempts: 3,",
    "     limits: [ip, prefix, all]}",
]


def start_policy(key):
    return request(b"COUNTDOWN", b"START", key, b"POLICY", b"alone")


def start_limited(key):
    return request(b"COUNTDOWN", b"START", key, b"POLICY", b"limited", b"LIMIT", b"ip:10.0.0.7")


def commands(make, pipeline, durability=None, prepare=None, first=None, count=None):
    """Returns a workload of one command, on keys that are new unless `prepare` creates them.

    `first` is how many commands come before those that are counted, `count` how many are.
    """

    def run():
        counted = count or BATCHES * pipeline
        before = first or counted
        with Counted(durability, settings=RULES) as server:
            client = Client(server)
            while not client.is_answered(get(b"key")):
                pass  # The daemon is loading its state.
            all_keys = keys(0, before + counted)
            if prepare:
                client.send_batches([prepare(key) for key in all_keys], 16)
            client.send_batches([make(key) for key in all_keys[:before]], pipeline)
            server.dump()
            client.send_batches([make(key) for key in all_keys[before:]], pipeline)
            return read(server.dump(), counted)

    return run


def ready():
    """Measures countdowns that become ready at one moment for one subscriber."""
    count = BATCHES * 8
    with Counted(options=["--virtual-time"]) as server:
        client, listener = Client(server), Client(server)
        listener.send([request(b"PSUBSCRIBE", b"countdown:*")])

        def pass_time(time):
            client.send([request(b"CLOCK", b"ADVANCE", time)])

        def start_all():
            step = [b"COUNT", b"1", b"EVERY", b"60s", b"BRIEF"]
            starts = [request(b"COUNTDOWN", b"START", key, *step) for key in keys(0, count)]
            client.send_batches(starts, 16)
            listener.receive(count)

        start_all()
        pass_time(b"60s")
        listener.receive(count)
        pass_time(b"3650d")
        start_all()
        server.dump()
        pass_time(b"60s")
        listener.receive(count)
        return read(server.dump(), count)


WORKLOADS = {
    "START BRIEF, pipeline 16": commands(start_brief, 16),
    "START BRIEF, one at a time": commands(start_brief, 1),
    "START BRIEF, pipeline 16, stored (`process`)": commands(start_brief, 16, "process"),
    "START, pipeline 16": commands(start, 16),
    "START with a policy, pipeline 16": commands(start_policy, 16, count=960, first=960),
    "START with a policy and three limits, pipeline 16": commands(
        start_limited, 16, count=960, first=960),
    "the same, with 9,000 sends in each window of 10,000": commands(
        start_limited, 16, count=960, first=9_008),
    "START with a policy, stored (`process`)": commands(
        start_policy, 16, "process", count=960, first=960),
    "START with a policy and three limits, stored (`process`)": commands(
        start_limited, 16, "process", count=960, first=960),
    "GET, pipeline 16": commands(get, 16, prepare=start_brief),
    "TIMER SET, pipeline 16": commands(timer_set, 16),
    "THROTTLE, pipeline 16": commands(throttle, 16),
    "`ready` event, one subscriber": ready,
}

PAGE = """# Instructions per command

What the release daemon executes for each command, counted by callgrind: all of its threads, without
the kernel. Keys are new, of 16 bytes; nothing is stored unless the row says so. The counts do not
depend on what else the machine does, so they show small changes. Compare counts of one machine
only: a pipeline that takes longer than a millisecond under callgrind is read in parts, so a slower
machine counts up to 10 % more. Written by `make callgrind`.

{table}
"""


def read(file, count):
    """Returns the instructions per command; keeps a copy of the file for `callgrind_annotate`."""
    shutil.copy(file, BUILD / "callgrind.out")
    return int(re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)[1]) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="workloads whose names contain it")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the page there")
    options = parser.parse_args()

    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-debug", "-o", PROGRAM, COUNTDOWND], check=True)
    rows = ["| work | instructions |", "|---|--:|"]
    for name, run in WORKLOADS.items():
        if options.only in name:
            rows.append(f"| {name} | {run():,.0f} |")
            print(rows[-1], file=sys.stderr, flush=True)
    table = "\n".join(rows)
    print(table)
    if options.write:
        options.write.write_text(PAGE.format(table=table))


if __name__ == "__main__":
    main()
