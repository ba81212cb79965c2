#!/usr/bin/env python3
"""Measures what keeping costs, side by side with Redis and its append-only file (see README.md).

The servers take turns in each round, each in a process of its own that has just been started; what is
reported is the median of the rounds.
"""

import argparse
import datetime
import pathlib
import subprocess
import time

import servers
import wire
from bench import redis_benchmark, say
from report import Results, load_averages, machine, number, table, verdict
from servers import COUNTDOWND, PROJECT, Countdownd, Redis

DOCUMENT = PROJECT / "docs" / "benchmarks-durable.md"

# (clients, pipeline, commands for process and everysec, for power and always)
LOADS = [(1, 1, 40_000, 10_000), (50, 1, 200_000, 100_000), (50, 16, 500_000, 300_000), (50, 64, 500_000, 500_000)]
# What of ours stands beside what of Redis's, and the goals at pipelines of 1, 16 and 64.
PROMISES = [
    ("process", "everysec", {1: 1.0, 16: 2.0, 64: 2.0}),
    ("power", "always", {1: 1.0, 16: 1.2, 64: 1.2}),
]
EVENTS = [("events.keep 0", ["events: {keep: 0}"]), ("events.keep as it is", [])]
NO_EVENTS, EVENTS_KEPT = (name for name, _ in EVENTS)
# The same daemon, asked for the short reply.
BRIEF = "countdownd, brief"

COMMANDS, REWRITTEN = "Redis, AOF of commands", "Redis, AOF rewritten"


def load_name(clients, pipeline):
    return f"{clients} client{'s' if clients > 1 else ''}" + (f", pipeline {pipeline}" if pipeline > 1 else "")


def throughput(results, options, number):
    for durability, fsync, _ in PROMISES:
        for clients, pipeline, *counts in LOADS:
            count = counts[durability == "power"] // options.shrink
            makers = [
                ("countdownd", lambda: Countdownd(durability)),
                (BRIEF, lambda: Countdownd(durability)),
                ("Redis", lambda: Redis(fsync)),
            ]
            for name, make in makers if number % 2 else makers[::-1]:
                with make() as server:
                    found = redis_benchmark(server, clients, pipeline, count, is_brief=name == BRIEF)
                results.add((durability, clients, pipeline), name, found)


def events(results, options, number):
    for clients, pipeline, count, _ in LOADS:
        for name, settings in EVENTS if number % 2 else EVENTS[::-1]:
            with Countdownd("process", settings=settings) as server:
                found = redis_benchmark(server, clients, pipeline, count // options.shrink)
            results.add(("events", clients, pipeline), name, found)


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


def goal_row(results, name, durability, fsync, clients, pipeline, goal):
    row = (durability, clients, pipeline)
    get = lambda server, what: results.get(row, server, what)  # noqa: E731
    ours, peer = get(name, "per_second"), get("Redis", "per_second")
    met = ours >= goal * peer if ours and peer else None
    return [
        f"{durability} / {fsync}, {load_name(clients, pipeline)}{', brief' if name == BRIEF else ''}", number(ours), number(peer),
        f"{ours / peer:.2f}×" if ours and peer else "–", f"≥ {goal:g}×", verdict(met),
        number(get(name, "p99_ms"), " ms"), number(get("Redis", "p99_ms"), " ms"),
        number(get(name, "cpu_us"), " µs"), number(get("Redis", "cpu_us"), " µs"),
    ]  # fmt: skip


def document(results, options, loads):
    count = 1_000_000 // options.shrink
    heads = ["promise, clients", "countdownd /s", "Redis /s", "ratio", "goal", "met", "p99", "Redis p99", "CPU each", "Redis CPU each"]
    rows = [
        goal_row(results, name, durability, fsync, clients, pipeline, goals[pipeline])
        for durability, fsync, goals in PROMISES
        for clients, pipeline, *_ in LOADS
        for name in ("countdownd", BRIEF)
    ]
    parts = [
        "# What keeping costs\n",
        "Written by `make bench-durable`; [what is the same for all](../Benchmarks/daemon/README.md). "
        "[durability.md](durability.md) says what is promised, and what the store alone can do.\n",
        f"- Machine: {machine()}; load averages before the start {loads}. The clients run on the same cores.\n"
        f"- Date {datetime.date.today().isoformat()}; medians of {options.rounds} rounds in turns"
        f"{f', 1/{options.shrink} of the work' if options.shrink > 1 else ''}.\n"
        f"- countdownd {Countdownd.version()}; Redis {Redis.version()}. Release build, Unix sockets, files on the same disk.\n",
        "## START beside SET EX\n",
        "redis-benchmark, distinct keys: `COUNTDOWN START key` with `durability: process` beside `SET key v EX 60` with "
        "`appendfsync everysec`, and `power` beside `always`. `process` and `everysec` promise the same over `kill -9` (both have given the "
        "kernel everything before they answer); over a loss of power both may lose the newest, Redis up to a second of them. `power` and "
        "`always` lose nothing that was answered. brief: `START key BRIEF`, whose reply is three integers rather than the whole view.\n",
        table(heads, rows),
        "## What the event log costs\n",
        "START with `durability: process`. Each START is an event of something that is kept, so with `events.keep` it is encoded "
        "once and stored with the turn.\n",
        table(
            ["clients", "kept: /s", "not kept: /s", "ratio", "kept: CPU each", "not kept: CPU each"],
            [event_row(results, clients, pipeline) for clients, pipeline, *_ in LOADS],
        ),
        f"## Loading {count:,}\n",
        "From the start of the process until `DBSIZE` says that all are there. Redis once from a file of commands, as it grows, and once from one "
        "that `BGREWRITEAOF` has just written.\n",
        table(
            ["server", "seconds", "CPU, s", "files, MiB"],
            [load_row(results, name) for name in ("countdownd", COMMANDS, REWRITTEN)],
        ),
        f"Goal: at most what Redis needs to load the same from its AOF. Met: {verdict(is_load_met(results))}.\n",
    ]  # fmt: skip
    if results.troubles:
        parts.append("## Left out\n\n" + "\n".join(f"- {text}" for text in results.troubles) + "\n")
    return "\n".join(parts)


def event_row(results, clients, pipeline):
    row = ("events", clients, pipeline)
    kept, without = (results.get(row, name, "per_second") for name in (EVENTS_KEPT, NO_EVENTS))
    ratio = f"{kept / without:.2f}×" if kept and without else "–"
    cpu = [number(results.get(row, name, "cpu_us"), " µs") for name in (EVENTS_KEPT, NO_EVENTS)]
    return [load_name(clients, pipeline), number(kept), number(without), ratio, *cpu]


def load_row(results, name):
    get = lambda what: results.get("load", name, what)  # noqa: E731
    size = get("bytes")
    return [name, number(get("seconds")), number(get("cpu")), number(size and size / (1 << 20))]


def is_load_met(results):
    ours, peer = (results.get("load", name, "seconds") for name in ("countdownd", COMMANDS))
    return ours <= peer if ours and peer else None


PARTS = {"throughput": throughput, "events": events, "loading": loading}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of everything, one round; print only")
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--parts", default=",".join(PARTS), help="only these: " + ",".join(PARTS))
    parser.add_argument("--output", type=pathlib.Path, help="where to write; docs/benchmarks-durable.md unless --quick or --parts")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.shrink = 5 if options.quick else 1
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
        for part in ("throughput", "events"):
            if part in parts:
                say(f"round {number} of {options.rounds}: {part}")
                run(part, number)
    if "loading" in parts:
        run("loading")
    text = document(results, options, loads)
    print(text)
    if options.output or not (options.quick or parts != list(PARTS)):
        (options.output or DOCUMENT).write_text(text)


if __name__ == "__main__":
    main()
