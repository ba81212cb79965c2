#!/usr/bin/env python3
"""Measures what durability costs, beside none and beside Redis with its append-only file (see README.md).

The servers take turns in each round, each in a process of its own that has just been started; what is
reported is the median of the rounds.
"""

import argparse
import datetime
import functools
import pathlib
import subprocess
import time

import servers
import wire
from bench import redis_benchmark, say
from report import Results, load_averages, machine, number, table, verdict
from servers import COUNTDOWND, PROJECT, Countdownd, Redis

DOCUMENT = PROJECT / "docs" / "benchmarks-durable.md"

# (clients, pipeline, commands, and those where each reply waits for the disk)
LOADS = [(1, 1, 40_000, 10_000), (50, 1, 200_000, 100_000), (50, 16, 500_000, 300_000), (50, 64, 500_000, 500_000)]
# By the names of the columns.
OURS = {name: functools.partial(Countdownd, name) for name in ("none", "process", "power")}
PEERS = {fsync: functools.partial(Redis, fsync) for fsync in ("everysec", "always")}
WAITING = {"power", "always"}
# (ours, what it is compared with, goals at pipelines of 1, 16 and 64)
GOALS = [
    ("process", "none", {1: 0.9, 16: 0.9, 64: 0.9}), ("process", "everysec", {1: 1.0, 16: 2.0, 64: 2.0}),
    ("power", "always", {1: 1.0, 16: 1.2, 64: 1.2}),
]  # fmt: skip
# A start that brings back a million takes so many seconds at most.
LOADING_GOAL = 1.0

COMMANDS, REWRITTEN = "Redis, AOF of commands", "Redis, AOF rewritten"


def load_name(clients, pipeline, is_brief=False):
    name = f"{clients} client{'s' if clients > 1 else ''}"
    return name + (f", pipeline {pipeline}" if pipeline > 1 else "") + (", brief" if is_brief else "")


def throughput(results, options, number):
    for clients, pipeline, count, waiting in LOADS:
        for is_brief in (False, True):
            # Redis has no shorter reply, and is measured once.
            makers = list((OURS if is_brief else OURS | PEERS).items())
            for name, make in makers if number % 2 else makers[::-1]:
                with make() as server:
                    commands = max((waiting if name in WAITING else count) // options.shrink, clients)
                    found = redis_benchmark(server, clients, pipeline, commands, is_brief=is_brief)
                results.add((clients, pipeline, is_brief), name, found)


def loading(results, options):
    """How long a start takes that brings everything back: filled once, started again in each round."""
    count = 1_000_000 // options.shrink
    with (
        Countdownd("process") as ours,
        # What it would do by itself now and then is done at a moment of our choice, or not at all.
        Redis("everysec", ["--auto-aof-rewrite-percentage", "0"]) as commands,
        Redis("everysec", ["--auto-aof-rewrite-percentage", "0"]) as rewritten,
    ):
        kept = [("countdownd", ours), (COMMANDS, commands), (REWRITTEN, rewritten)]
        far = time.time() * 1000 + 30 * 3_600_000
        for _, server in kept:
            wire.fill(server, (server.start_request(b"k:%010d" % n, far) for n in range(count)))
        rewrite(rewritten)
        for _, server in kept:
            server.stop()
        for round_number in range(options.rounds):
            for name, server in kept if round_number % 2 else kept[::-1]:
                say(f"loading, round {round_number + 1} of {options.rounds}: {name}")
                begin = time.monotonic()
                server.start()
                while wire.ask(server, b"DBSIZE") != b":%d\r\n" % count:
                    if time.monotonic() - begin > servers.PATIENCE:
                        raise RuntimeError(f"{name} has lost some: {wire.ask(server, b'DBSIZE')}")
                    time.sleep(0.005)
                seconds = time.monotonic() - begin
                results.add("load", name, {"seconds": seconds, "cpu": server.cpu_seconds(), "bytes": size(server)})
                server.stop()


def rewrite(server):
    wire.ask(server, b"BGREWRITEAOF")
    end = time.monotonic() + servers.PATIENCE
    while b"aof_rewrite_in_progress:0" not in (told := wire.ask(server, b"INFO", b"persistence")) or (
        b"aof_rewrite_scheduled:0" not in told
    ):
        if time.monotonic() > end:
            raise RuntimeError("Redis does not finish rewriting its file")
        time.sleep(0.05)


def size(server):
    return sum(file.stat().st_size for file in server.directory.rglob("*") if file.is_file())


def row_of(results, what, row, unit=""):
    """A line: ours, and the peers'."""
    clients, pipeline, is_brief = row
    peers = (clients, pipeline, False)
    values = [results.get(row, name, what) for name in OURS] + [results.get(peers, name, what) for name in PEERS]
    return [load_name(*row), *(number(value, unit) for value in values)]


def ratio(results, row, ours, other, goals):
    """How many times the other's throughput ours has, and whether that meets the goal."""
    clients, pipeline, is_brief = row
    own = results.get(row, ours, "per_second")
    peer = results.get(row if other in OURS else (clients, pipeline, False), other, "per_second")
    if not own or not peer:
        return "–"
    text = f"{own / peer:.2f}×"
    return text if own >= goals[pipeline] * peer else f"**{text}** (≥ {goals[pipeline]:g}×)"


def document(results, options, loads):
    count = 1_000_000 // options.shrink
    rows = [(clients, pipeline, is_brief) for clients, pipeline, *_ in LOADS for is_brief in (False, True)]
    names = [*OURS, *(f"Redis {name}" for name in PEERS)]
    parts = [
        "# What durability costs\n",
        "Written by `make bench-durable`; [what is the same for all](../Benchmarks/daemon/README.md). "
        "[durability.md](durability.md) says what is promised.\n",
        f"- Machine: {machine()}; load averages before the start {loads}. The clients run on the same cores.\n"
        f"- Date {datetime.date.today().isoformat()}; medians of {options.rounds} rounds in turns"
        f"{f', 1/{options.shrink} of the work' if options.shrink > 1 else ''}.\n"
        f"- countdownd {Countdownd.version()}; Redis {Redis.version()}. Release build, Unix sockets, files on the same disk.\n",
        "## Commands a second\n",
        "redis-benchmark, distinct keys: `COUNTDOWN START key` with `durability` none, process and power, beside "
        "`SET key v EX 60` with `appendfsync` everysec and always. `process` and `everysec` survive `kill -9`; `power` and `always` "
        "survive a power failure, too. brief: `START key BRIEF`, whose reply is three integers.\n",
        table(["load", *names], [row_of(results, "per_second", row) for row in rows]),
        "Ratios of these; bold where a goal is missed:\n",
        table(
            ["load", *(f"{ours} / {other}" for ours, other, _ in GOALS)],
            [[load_name(*row), *(ratio(results, row, *goal) for goal in GOALS)] for row in rows],
        ),
        "## Processor time of the server for each command\n",
        table(["load", *names], [row_of(results, "cpu_us", row, " µs") for row in rows]),
        f"## Loading {count:,}\n",
        "From the start of the process until `DBSIZE` says that all are there. Redis once from a file of commands, and once from one "
        "that `BGREWRITEAOF` has just written.\n",
        table(
            ["server", "seconds", "CPU, s", "files, MiB"],
            [load_row(results, name) for name in ("countdownd", COMMANDS, REWRITTEN)],
        ),
        f"Goal: at most {LOADING_GOAL:g} s for a million. Met: {verdict(is_load_met(results, options))}.\n",
    ]  # fmt: skip
    if results.troubles:
        parts.append("## Left out\n\n" + "\n".join(f"- {text}" for text in results.troubles) + "\n")
    return "\n".join(parts)


def load_row(results, name):
    get = lambda what: results.get("load", name, what)  # noqa: E731
    size = get("bytes")
    return [name, number(get("seconds")), number(get("cpu")), number(size and size / (1 << 20))]


def is_load_met(results, options):
    seconds = results.get("load", "countdownd", "seconds")
    return seconds <= LOADING_GOAL if seconds and options.shrink == 1 else None


PARTS = {"throughput": throughput, "loading": loading}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of everything, one round; print only")
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--shrink", type=int, help="so many times less work; 1 unless told")
    parser.add_argument("--parts", default=",".join(PARTS), help="only these: " + ",".join(PARTS))
    parser.add_argument("--output", type=pathlib.Path, help="where to write; docs/benchmarks-durable.md unless --quick, --shrink or --parts")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.shrink = options.shrink or (5 if options.quick else 1)
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if not COUNTDOWND.exists():
        raise SystemExit("countdownd is not built; `make bench-durable` does it")
    if not Redis.version():
        raise SystemExit("there is no redis-server (package redis-tools or redis-server)")

    results, loads = Results(), load_averages()

    def run(what, *arguments):
        try:
            PARTS[what](results, options, *arguments)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            results.trouble(f"{what}: {error}")
            say(results.troubles[-1])

    for number in range(1, options.rounds + 1):
        if "throughput" in parts:
            say(f"round {number} of {options.rounds}: throughput")
            run("throughput", number)
    if "loading" in parts:
        run("loading")
    text = document(results, options, loads)
    print(text)
    if options.output or not (options.quick or options.shrink > 1 or parts != list(PARTS)):
        (options.output or DOCUMENT).write_text(text)


if __name__ == "__main__":
    main()
