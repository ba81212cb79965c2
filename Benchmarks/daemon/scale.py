#!/usr/bin/env python3
"""Measures how costs grow with the number of countdowns and of connections (see README.md)."""

import argparse
import datetime
import statistics
import sys
import time

import report
import servers
import svg
import wire
from bench import own_bench, say
from servers import COUNTDOWND, PROJECT, Countdownd, request

SIZES = [1_000, 10_000, 100_000, 1_000_000]
CONNECTIONS = [1, 10, 100, 1_000, 10_000]
# Trees of scopes: how many, and whether one below the other or all below one.
TREES = [(10_000, True), (1_000_000, False)]
DOCUMENT = PROJECT / "docs" / "benchmarks-scale.md"


def cost(server, *options):
    """Microseconds of the daemon's processor time for a command, and what the load test says."""
    before = server.cpu_seconds()
    shown = own_bench(server, *options)
    return (server.cpu_seconds() - before) * 1e6 / shown["commands"], shown


def of_size(count):
    """One daemon that is filled with so many, and asked things while it is full."""
    found = {}
    with Countdownd() as server:
        before = server.resident()
        start, shown = cost(server, "-n", count, "-P", 64, "--due", "30h", "--keep")
        found["start_us"], found["fill_s"] = start, shown["seconds"]
        found["bytes"] = (server.resident() - before) / count
        # Started and cancelled, so that it stays as full as it is.
        found["start_cancel_us"], _ = cost(
            server, "-n", 50_000, "-P", 16, "--mix", "start-cancel", "--due", "1h"
        )
        spread = own_bench(server, "--mix", "spread", "-n", 2_000, "--due", "2s", "-c", 2)
        found["late_p99_ms"] = spread["events"]["late_us"]["p99"] / 1000
        found["full_ping_p99_ms"] = spread["ping_us"]["p99"] / 1000
        problems = shown["problems"] + spread["problems"]
    with Countdownd(limits={**Countdownd.limits, "max-output": "1024MiB"}) as server:
        seconds = 3 + count // 100_000
        burst = own_bench(server, "--mix", "burst", "-n", count, "-P", 64, "--due", f"{seconds}s")
        found["drain_s"] = burst["events"]["late_us"]["max"] / 1e6
        found["drain_ping_p99_ms"] = burst["ping_us"]["p99"] / 1000
        problems += burst["problems"]
    if problems:
        raise RuntimeError("; ".join(problems))
    return found


def of_connections(count, commands):
    with Countdownd() as server:
        used, shown = cost(server, "-n", commands, "-c", count, "--due", "1h", "--keep")
    latency = shown["latency_us"]["start"]
    return {
        "start_us": used, "per_second": shown["commands_per_second"],
        "p50_ms": latency["p50"] / 1000, "p99_ms": latency["p99"] / 1000,
    }  # fmt: skip


def of_tree(count, is_deep):
    """Fills a tree of scopes, the last of which owns a timer, and closes it while another client asks PING."""
    with Countdownd() as server:

        def opening(number):
            parent = number - 1 if is_deep else 0
            return request(b"SCOPE", b"OPEN", b"%d" % number, b"PARENT", b"%d" % parent)

        wire.ask(server, b"SCOPE", b"OPEN", b"0")
        before = server.resident()
        server.ok = b"state\r\n$4\r\nopen"
        fill = wire.fill(server, ((lambda n=number: opening(n)) for number in range(1, count)))
        each = (server.resident() - before) / count
        wire.ask(server, b"TIMER", b"SET", b"t", b"1h", b"OWNER", b"scope:%d" % (count - 1))
        prober = wire.Background(wire.ping, str(server.path), 0.001)
        begin = time.time()
        answered = wire.ask(server, b"SCOPE", b"CLOSE", b"0")
        answer = time.time() - begin
        if answered != b":1\r\n" or wire.ask(server, b"TIMER", b"GET", b"t") != b"$-1\r\n":
            raise RuntimeError(f"CLOSE was answered with {answered!r}, or what the tree owned is not mute")
        while wire.ask(server, b"DBSIZE") != b":0\r\n":
            time.sleep(0.002)
        end = time.time()
        # Little is over before the next PING: then those just after count as well.
        time.sleep(0.01)
        pings = [took * 1000 for asked, took in prober.stop() if begin <= asked <= end + 0.01]
    return {
        "fill_s": fill, "bytes": each, "answer_ms": answer * 1000, "close_s": end - begin,
        "ping_p99_ms": wire.percentile(pings, 99), "ping_max_ms": max(pings),
    }  # fmt: skip


def medians(found):
    """Of some runs of the same, each value's median."""
    return {name: statistics.median(run[name] for run in found) for name in found[0]}


def table_of(heads, measured, names):
    rows = []
    for size, found in measured.items():
        rows.append([f"{size:,}", *(report.number(found[name]) for name in names)])
    return report.table(heads, rows)


def tree_table(trees):
    columns = ("fill_s", "bytes", "answer_ms", "close_s", "ping_p99_ms", "ping_max_ms")
    return report.table(
        ["tree", "fill, s", "B each", "answer, ms", "close, s", "PING p99, ms", "PING max, ms"],
        [[name, *(report.number(found[column]) for column in columns)] for name, found in trees.items()],
    )


def document(sizes, connections, trees, options, loads):
    return "\n".join([
        "# The daemon's costs as it grows\n",
        "Written by `make bench-scale`; [how it is measured](../Benchmarks/daemon/README.md).\n",
        f"- Machine: {report.machine()}; load averages before the start {loads}. The clients run on the same cores.\n"
        f"- Date {datetime.date.today().isoformat()}; medians of {options.rounds} runs; countdownd {Countdownd.version()}.\n",
        "## Countdowns\n",
        "fill: 50 connections, pipeline 64. start, start and cancel: the daemon's processor time for a command, while it "
        "fills and while it is full. late: 1,000 a second that are watched, while it is full. drain: all become ready at "
        "one moment and are watched, until the last event. PING: of another client, p99.\n",
        table_of(
            ["countdowns", "fill, s", "B each", "start, µs", "start and cancel, µs", "late p99, ms",
             "PING while full, ms", "drain, s", "PING meanwhile, ms"],
            sizes,
            ["fill_s", "bytes", "start_us", "start_cancel_us", "late_p99_ms", "full_ping_p99_ms",
             "drain_s", "drain_ping_p99_ms"],
        ),
        "![Cost of a command](benchmarks/scale.svg)\n",
        "## Connections\n",
        "Unpipelined starts, as fast as they go. start: as above.\n",
        table_of(
            ["connections", "commands a second", "start, µs", "p50, ms", "p99, ms"], connections,
            ["per_second", "start_us", "p50_ms", "p99_ms"],
        ),
        "![Cost of a command by connections](benchmarks/connections.svg)\n",
        "## Trees of scopes\n",
        "One is filled and closed with `SCOPE CLOSE` of its top. answer: until that is answered, from when on nothing of the tree is there for anybody. close: "
        "until all of it is cleared up. PING: of another client meanwhile, every millisecond.\n",
        tree_table(trees),
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 100,000, once; print only")
    parser.add_argument("--trees", action="store_true", help="trees of scopes alone; print only")
    parser.add_argument("--most", type=float, default=1e6, help="countdowns at most, as in 1e7")
    parser.add_argument("--rounds", type=int, help="3 unless told; 1 with --quick")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    if not COUNTDOWND.exists():
        raise SystemExit("countdownd is not built; `make bench-scale` does it")
    loads = report.load_averages()
    most = 100_000 if options.quick else int(options.most)
    trees = {}
    for count, is_deep in TREES:
        count = min(count, most)
        name = f"{count:,} {'deep' if is_deep else 'wide'}"
        say(f"a tree of scopes, {name}")
        trees[name] = medians([of_tree(count, is_deep) for _ in range(options.rounds)])
    if options.trees:
        return print(tree_table(trees))
    sizes, connections = {}, {}
    for size in [size for size in [*SIZES, 10_000_000] if size <= most]:
        say(f"{size} countdowns")
        sizes[size] = medians([of_size(size) for _ in range(options.rounds)])
    for count in [count for count in CONNECTIONS if not options.quick or count <= 1_000]:
        say(f"{count} connections")
        commands = 30_000 if count == 1 else 100_000
        connections[count] = medians(
            [of_connections(count, commands) for _ in range(options.rounds)]
        )
    text = document(sizes, connections, trees, options, loads)
    print(text)
    if options.quick:
        return
    folder = DOCUMENT.parent / "benchmarks"
    folder.mkdir(exist_ok=True)
    DOCUMENT.write_text(text)
    for name, label, measured in (
        ("scale", "countdowns", sizes), ("connections", "connections", connections)
    ):  # fmt: skip
        points = {"START": [(size, found["start_us"]) for size, found in measured.items()]}
        if name == "scale":
            points["START and CANCEL when full"] = [
                (size, found["start_cancel_us"]) for size, found in measured.items()
            ]
        (folder / f"{name}.svg").write_text(
            svg.lines("The daemon's CPU for a command", "µs", label, list(points), points)
        )
    print(f"wrote {DOCUMENT.relative_to(PROJECT)}", file=sys.stderr)


if __name__ == "__main__":
    servers.raise_descriptor_limit()
    main()
