#!/usr/bin/env python3
"""Counts the instructions and allocations of each command, with callgrind.

Instruction counts do not depend on other load, so they show small changes. Each workload has its
own daemon. Callgrind counts all threads after a warm-up, without the kernel and without the
daemon's start and end.

    Benchmarks/daemon/instructions.py                     # all workloads, as a table
    Benchmarks/daemon/instructions.py --write             # also writes the page
    Benchmarks/daemon/instructions.py --check             # fails if one costs more than the page says
    Benchmarks/daemon/instructions.py --only "START BRIEF"

Callgrind's output for the last workload is in .build/bench/callgrind.out:

    callgrind_annotate --inclusive=yes .build/bench/callgrind.out | swift demangle --compact
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from servers import BUILD, COUNTDOWND, PROJECT, Countdownd, request

# Older versions of Valgrind cannot read this compiler's debug information; symbols are enough.
PROGRAM = BUILD / "countdownd-symbols"
PAGE = PROJECT / "docs/dev/instructions.md"
BATCHES = 500
# Without a limit a connection's commands run at once. Callgrind is slow, so that the number of turns
# that they would take otherwise depends on the machine.
LIMITS = Countdownd.limits | {"max-commands-per-turn": 1 << 20}
# A workload may cost so much more than the page says.
TOLERANCE = 0.03
ALLOCATORS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign"}


class Counted(Countdownd):
    """The daemon under callgrind."""

    def __init__(self, durability=None, options=(), settings=()):
        self.options = options
        super().__init__(durability, LIMITS, settings)

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


def once_begin(key):
    return request(b"ONCE", b"BEGIN", key, b"TTL", b"1h")


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


def commands(make, durability=None, prepare=None, first=None, count=8_000, pipeline=16):
    """Returns a workload of one command, on keys that are new unless `prepare` creates them.

    `first` is how many commands come before those that are counted, `count` how many are, and
    `pipeline` how many are sent at once.
    """

    def run():
        before = first or count
        with Counted(durability, options=["--virtual-time"], settings=RULES) as server:
            client = Client(server)
            while not client.is_answered(get(b"key")):
                pass  # The daemon is loading its state.
            all_keys = keys(0, before + count)
            if prepare:
                client.send_batches([prepare(key) for key in all_keys], 16)
            client.send_batches([make(key) for key in all_keys[:before]], pipeline)
            server.dump()
            client.send_batches([make(key) for key in all_keys[before:]], pipeline)
            return Counts(server.dump(), count)

    return run


def ready():
    """Measures countdowns that become ready at one moment for one subscriber."""
    count = 4_000
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
        return Counts(server.dump(), count)


WORKLOADS = {
    "START BRIEF": commands(start_brief),
    "START BRIEF, one at a time": commands(start_brief, count=500, pipeline=1),
    "START BRIEF, stored (`process`)": commands(start_brief, "process"),
    "START": commands(start),
    "START with a policy": commands(start_policy, count=960),
    "START with a policy and three limits": commands(start_limited, count=960),
    "the same, with 9,000 sends in each window of 10,000": commands(
        start_limited, count=960, first=9_008),
    "START with a policy, stored (`process`)": commands(start_policy, "process", count=960),
    "START with a policy and three limits, stored (`process`)": commands(
        start_limited, "process", count=960),
    "GET": commands(get, prepare=start_brief),
    "TIMER SET": commands(timer_set),
    "THROTTLE TAKE": commands(throttle),
    "ONCE BEGIN": commands(once_begin),
    "`ready` event, one subscriber": ready,
}

TEXT = """# Instructions per command

What the release daemon executes for each command, counted by callgrind: all of its threads, without
the kernel. Keys are new, of 16 bytes; nothing is stored unless the row says so. Commands are
pipelined by 16 unless the row says so. Time is frozen (`--virtual-time`) and a turn has no limit
of commands, so the counts do not depend on the machine's speed.

This is the baseline: `make check-instructions` counts again, and fails if a row costs over 3 %
more. A change that has a reason to cost more writes the page with `make callgrind`, and gives the
reason in its commit.

{table}
"""


class Counts:
    """Instructions and allocations per command; a copy of the file is kept for
    `callgrind_annotate`."""

    def __init__(self, file, count):
        shutil.copy(file, BUILD / "callgrind.out")
        text = file.read_text()
        self.instructions = int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1]) / count
        self.allocations = sum(calls(text, ALLOCATORS)) / count


def calls(text, functions):
    """Yields how often functions are called, for each place that calls one. Callgrind writes a name
    once, and then its number."""
    names = dict(re.findall(r"^c?fn=(\(\d+\)) (.+)$", text, re.M))
    found = re.compile(r"^cfn=(\(\d+\)).*\ncalls=(\d+)", re.M)
    for number, count in found.findall(text):
        if names[number] in functions:
            yield int(count)


def written():
    """Returns the instructions and allocations on the page, by the name of their row."""
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    return {name: (int(count.replace(",", "")), float(made)) for name, count, made in rows}


def excess(name, counts, baseline):
    """Returns what costs more than the page says, or an empty string."""
    if name not in baseline:
        return f"{name}: not in {PAGE.name}; run `make callgrind`\n"
    instructions, allocations = baseline[name]
    text = ""
    if counts.instructions > instructions * (1 + TOLERANCE):
        text += f"{name}: {counts.instructions:,.0f} instructions, the page has {instructions:,}\n"
    # How many changes a thread writes at once differs from run to run.
    if counts.allocations > allocations * (1 + TOLERANCE) + 0.1:
        text += f"{name}: {counts.allocations:.2f} allocations, the page has {allocations}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="workloads whose names contain it")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--check", action="store_true", help=f"compare with {PAGE.name}")
    options = parser.parse_args()

    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-debug", "-o", PROGRAM, COUNTDOWND], check=True)
    baseline = written()
    too_much = ""
    rows = ["| work | instructions | allocations |", "|---|--:|--:|"]
    for name, run in WORKLOADS.items():
        if options.only in name:
            counts = run()
            rows.append(f"| {name} | {counts.instructions:,.0f} | {counts.allocations:.2f} |")
            print(rows[-1], file=sys.stderr, flush=True)
            too_much += excess(name, counts, baseline)
    table = "\n".join(rows)
    print(table)
    if options.write:
        PAGE.write_text(TEXT.format(table=table))
    if options.check and too_much:
        sys.exit(f"more than {TOLERANCE:.0%} above the baseline:\n{too_much}")


if __name__ == "__main__":
    main()
