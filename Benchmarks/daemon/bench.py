#!/usr/bin/env python3
"""Measures countdownd side by side with Redis and beanstalkd on the same work (see README.md).

The servers take turns in each round, each in a process of its own that has just been started, so that
whatever else the machine does meets all of them; what is reported is the median of the rounds.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time

import report
import servers
import wire
from servers import COUNTDOWNCTL, COUNTDOWND, Beanstalkd, Countdownd, Redis

# (row, clients, pipeline, our durability, Redis's appendfsync, commands, in every round)
THROUGHPUT = [
    ("unpipelined, 1 client", 1, 1, None, None, 40_000),
    ("unpipelined, 50 clients", 50, 1, None, None, 200_000),
    ("pipeline 16", 50, 16, None, None, 500_000),
    ("pipeline 64", 50, 64, None, None, 500_000),
    ("brief, 50 clients", 50, 1, None, None, 200_000),
    ("brief, pipeline 16", 50, 16, None, None, 500_000),
    ("brief, pipeline 64", 50, 64, None, None, 500_000),
    ("everysec, 1 client", 1, 1, "process", "everysec", 40_000),
    ("everysec, 50 clients", 50, 1, "process", "everysec", 200_000),
    ("everysec, pipeline 16", 50, 16, "process", "everysec", 500_000),
    ("always, 1 client", 1, 1, "power", "always", 10_000),
    ("always, 50 clients", 50, 1, "power", "always", 100_000),
    ("always, pipeline 16", 50, 16, "power", "always", 300_000),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


def redis_benchmark(server, clients, pipeline, count, is_brief=False):
    """What the neutral client says, and what the kernel says of the server meanwhile."""
    words = server.brief_command if is_brief else server.start_command
    command = [
        "redis-benchmark", "-s", str(server.path), "-c", str(clients), "-P", str(pipeline),
        "-n", str(count), "-r", "2000000000", "--csv", *words,
    ]  # fmt: skip
    before = server.cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE * 2)
    used = server.cpu_seconds() - before
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"redis-benchmark: {(done.stderr or done.stdout)[-300:]}")
    cells = done.stdout.strip().splitlines()[-1].split('","')
    numbers = [float(cell.strip('"')) for cell in cells[1:]]
    return {
        "per_second": numbers[0], "p50_ms": numbers[3], "p99_ms": numbers[5],
        "cpu_us": used * 1e6 / count,
    }  # fmt: skip


def own_bench(server, *options):
    """countdownctl bench."""
    command = [COUNTDOWNCTL, "--socket", server.path, "bench", "--json", *options]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True,
        timeout=servers.PATIENCE * 5,
    )  # fmt: skip
    if not done.stdout:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def make(kind, durability, fsync):
    return Countdownd(durability) if kind is Countdownd else Redis(fsync)


def throughput(results, options, kinds, number):
    for row, clients, pipeline, durability, fsync, count in THROUGHPUT:
        if fsync and not Countdownd.keeps():
            continue
        for kind in kinds:
            if kind is Beanstalkd:
                continue
            with make(kind, durability, fsync) as server:
                found = redis_benchmark(
                    server, clients, pipeline, count // options.shrink, row.startswith("brief")
                )
            results.add(row, kind.name, found)


def delayed_put(results, options, kinds, number):
    """The work that beanstalkd can do too, from a client that can speak to all of them."""
    count = 200_000 // options.shrink
    for kind in kinds:
        with kind() as server:
            due = time.time() * 1000 + 60_000
            requests = [server.start_request(b"k:%010d" % n, due) for n in range(count)]
            before = server.cpu_seconds()
            seconds = wire.fill(server, requests, pipeline=64)
            used = server.cpu_seconds() - before
        found = {"per_second": count / seconds, "cpu_us": used * 1e6 / count}
        results.add("one connection, pipeline 64", kind.name, found)


def memory_and_idle(results, options, kinds, number):
    count = 1_000_000 // options.shrink
    for kind in kinds:
        with kind() as server:
            before = server.resident()
            far = time.time() * 1000 + 30 * 3_600_000
            wire.fill(server, (server.start_request(b"k:%010d" % n, far) for n in range(count)))
            results.add("memory", kind.name, {"bytes": (server.resident() - before) / count})
            # Until threads that are no longer needed have ended.
            time.sleep(6)
            idle = server.wakeups(10 // min(options.shrink, 3))
            results.add("idle", kind.name, {"per_second": idle})


def burst(results, options, kinds, number):
    count = 100_000 // options.shrink
    for kind in kinds:
        with kind() as server:
            due = int(time.time() * 1000) + 3_000 + count // 50
            found = wire.expiry(server, [due] * count, patience=4)
        if not found["filled_in_time"]:
            say(f"{kind.name}: filling took longer than until the moment")
        results.add_expiry("burst", kind.name, found)


def quiet(results, options, kinds, number):
    generator = random.Random(number)
    seconds = 5 // min(options.shrink, 2)
    for kind in kinds:
        with kind() as server:
            start = time.time() * 1000 + 1_000
            dues = [int(start + generator.random() * seconds * 1000) for _ in range(seconds * 200)]
            found = wire.expiry(server, dues, patience=1)
        results.add_expiry("quiet", kind.name, found)
    with Countdownd() as server:
        shown = own_bench(server, "--mix", "spread", "-n", 1000, "--due", f"{seconds}s", "-c", 1)
        results.add("quiet, as it says", "countdownd", lateness_of(shown))


def ticking(results, options, kinds, number):
    count, steps = 100_000 // options.shrink, 10 // min(options.shrink, 3)
    with Countdownd() as server:
        shown = own_bench(
            server, "--mix", "watched", "-n", count, "--steps", steps, "-P", 16, "-c", 10
        )
        results.add("ticking", "countdownd", lateness_of(shown))


def lateness_of(shown):
    events = shown["events"]
    return {
        "late_p50": events["late_us"]["p50"] / 1000, "late_p99": events["late_us"]["p99"] / 1000,
        "arrived_p99": events["arrived_late_us"]["p99"] / 1000, "early": events["early"],
        "lost": events["lost"], "merged": events["ticks_merged"],
        "ping_p99": shown["ping_us"]["p99"] / 1000,
    }  # fmt: skip


def many_connections(results, options, kinds, number):
    for kind in kinds:
        if kind is Beanstalkd:
            continue
        with kind() as server:
            results.add("connections", kind.name, {"bytes": wire.connections(server, 10_000)})


def restart(results, options, kinds, number):
    """How long a start takes that brings back what was kept."""
    if not Countdownd.keeps():
        return
    count = 1_000_000 // options.shrink
    for kind in kinds:
        if kind is Beanstalkd:
            continue
        with make(kind, "process", "everysec") as server:
            far = time.time() * 1000 + 30 * 3_600_000
            wire.fill(server, (server.start_request(b"k:%010d" % n, far) for n in range(count)))
            server.stop()
            begin = time.monotonic()
            server.start()
            while wire.ask(server, b"DBSIZE") != b":%d\r\n" % count:
                if time.monotonic() - begin > servers.PATIENCE:
                    raise RuntimeError(f"{kind.name} has lost some: {wire.ask(server, b'DBSIZE')}")
                time.sleep(0.005)
            results.add("restart", kind.name, {"seconds": time.monotonic() - begin})


PARTS = {
    "throughput": throughput, "put": delayed_put, "memory": memory_and_idle, "burst": burst,
    "quiet": quiet, "ticking": ticking, "connections": many_connections, "restart": restart,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of everything, one round; print only"
    )
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--save", help="a file for what was measured, to be put together later")
    parser.add_argument(
        "--put-together", nargs="+", metavar="FILE",
        help="measures nothing; the page from what was saved of the same build",
    )
    parser.add_argument("--parts", help="only these: " + ",".join(PARTS))
    parser.add_argument(
        "--output", help="where to write; docs/benchmarks.md unless --quick or --parts"
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.shrink = 5 if options.quick else 1
    parts = options.parts.split(",") if options.parts else list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"there is no part '{part}'; there are {', '.join(PARTS)}")
    if not COUNTDOWND.exists() or not COUNTDOWNCTL.exists():
        raise SystemExit("countdownd is not built; `make bench` does it")
    servers.raise_descriptor_limit()

    kinds, missing = [Countdownd], []
    for kind, package in ((Redis, "redis-tools"), (Beanstalkd, "beanstalkd")):
        (kinds.append(kind) if kind.version() else missing.append(f"{kind.name} (package {package})"))
    for name in missing:
        say(f"left out, cannot be installed: {name}")
    if not shutil.which("redis-benchmark"):
        missing.append("throughput: no redis-benchmark (package redis-tools)")
        parts = [part for part in parts if part != "throughput"]
        say(missing[-1])

    results = report.Results()
    loads = report.load_averages()
    if options.put_together:
        parts = []
        for name in options.put_together:
            saved = results.load(name)
            loads = saved["loads"]
            options.rounds = saved["rounds"]
            options.shrink = saved["shrink"]
    for number in range(1, options.rounds + 1) if parts else []:
        for part in parts:
            say(f"round {number} of {options.rounds}: {part}")
            # Who comes first changes, too. beanstalkd is asked where the work is the same.
            turn = kinds if number % 2 else kinds[::-1]
            if part in ("burst", "quiet"):
                turn = [kind for kind in turn if kind is not Beanstalkd]
            try:
                PARTS[part](results, options, turn, number)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                results.trouble(f"{part}, round {number}: {error}")
                say(results.troubles[-1])
    if options.save:
        about = {"loads": loads, "rounds": options.rounds, "shrink": options.shrink}
        results.save(options.save, about)
    text = report.document(results, options, kinds, missing, loads)
    print(text)
    if options.output or options.put_together or not (options.quick or options.parts):
        report.write(text, results, options.output)


if __name__ == "__main__":
    main()
