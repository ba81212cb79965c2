#!/usr/bin/env python3
"""Measures how costs grow with the number of countdowns and of connections (see README.md)."""

import argparse
import datetime
import socket
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
# The events of more countdowns could exceed the output buffer of one subscriber.
MOST_AT_ONE_MOMENT = 1_000_000
# Scopes that close at one moment: their number, and the shape of their tree.
TREES = [(10_000, "deep"), (1_000_000, "wide"), (1_000_000, "of one connection")]
DOCUMENT = PROJECT / "docs" / "dev" / "benchmarks-scale.md"


def cost(server, *options):
    """Returns the daemon's CPU time per command, in microseconds, and the load test's report."""
    before = server.cpu_seconds()
    shown = own_bench(server, *options)
    return (server.cpu_seconds() - before) * 1e6 / shown["commands"], shown


def of_size(count):
    """Measures filling a daemon with `count` countdowns, commands while it is full, and a drain."""
    found = {}
    limits = {**Countdownd.limits, "max-entities": 20_000_000, "max-entities-per-uid": 20_000_000}
    with Countdownd(limits=limits) as server:
        before = server.resident()
        start, shown = cost(server, "-n", count, "-P", 64, "--due", "30h", "--keep")
        found["start_us"], found["fill_s"] = start, shown["seconds"]
        found["bytes"] = (server.resident() - before) / count
        # Starts and cancels countdowns, so that their number stays the same.
        found["start_cancel_us"], _ = cost(
            server, "-n", 50_000, "-P", 16, "--mix", "start-cancel", "--due", "1h"
        )
        spread = own_bench(server, "--mix", "spread", "-n", 2_000, "--due", "2s", "-c", 2)
        found["late_p99_ms"] = spread["events"]["late_us"]["p99"] / 1000
        found["full_ping_p99_ms"] = spread["ping_us"]["p99"] / 1000
        problems = shown["problems"] + spread["problems"]
    found["drain_s"] = found["drain_ping_p99_ms"] = None
    if count <= MOST_AT_ONE_MOMENT:
        with Countdownd(limits={**limits, "max-output": "1024MiB"}) as server:
            seconds = 3 + count // 100_000
            burst = own_bench(
                server, "--mix", "burst", "-n", count, "-P", 64, "--due", f"{seconds}s"
            )
            found["drain_s"] = burst["events"]["late_us"]["max"] / 1e6
            pings = burst["ping_while_due_us"]
            found["drain_ping_p99_ms"] = pings["p99"] / 1000 if pings else None
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


def of_tree(count, shape):
    """Measures opening scopes and closing all of them at one moment, while another client sends
    PING. A tree ("deep" or "wide") is closed at its top; scopes of a connection close when it ends.
    The last scope owns a timer: once that is cancelled, no client sees any of the scopes."""

    def opening(number):
        belonging = [b"OWNER", b"connection"] if shape == "of one connection" else []
        if shape != "of one connection" and number > 0:
            belonging = [b"PARENT", b"%d" % (number - 1 if shape == "deep" else 0)]
        return request(b"SCOPE", b"OPEN", b"%d" % number, *belonging)

    with Countdownd() as server, server.connect() as client:
        server.ok = b"state\r\n$4\r\nopen"
        wire.send(client, [opening(0)], server.ok)
        before = server.resident()
        prober = wire.Background(wire.ping, str(server.path), 0.001)
        start = time.time()
        fill = wire.send(
            client, ((lambda n=number: opening(n)) for number in range(1, count)), server.ok
        )
        filled = time.time()
        each = (server.resident() - before) / count
        wire.ask(server, b"TIMER", b"SET", b"t", b"1h", b"OWNER", b"scope:%d" % (count - 1))
        time.sleep(0.01)
        begin = time.time()
        if shape == "of one connection":
            client.shutdown(socket.SHUT_RDWR)  # The prober, a fork, has the socket open, too.
        elif (answered := wire.ask(server, b"SCOPE", b"CLOSE", b"0")) != b":1\r\n":
            raise RuntimeError(f"CLOSE was answered with {answered!r}")
        while wire.ask(server, b"TIMER", b"GET", b"t") != b"$-1\r\n":
            if shape != "of one connection":
                raise RuntimeError("what the tree owned is not mute")
        mute = time.time()
        while wire.ask(server, b"DBSIZE") != b":0\r\n":
            time.sleep(0.002)
        end = time.time()
        # A small tree closes before the next PING, so the PINGs just after it count, too.
        time.sleep(0.01)
        asked = prober.stop()
        filling = [took * 1000 for at, took in asked if start <= at <= filled]
        closing = [took * 1000 for at, took in asked if begin <= at <= end + 0.01]
        left = server.resident() - before
    return {
        "fill_s": fill, "bytes": each, "fill_ping_p99_ms": wire.percentile(filling, 99),
        "fill_ping_max_ms": max(filling), "answer_ms": (mute - begin) * 1000,
        "close_s": end - begin, "ping_p99_ms": wire.percentile(closing, 99),
        "ping_max_ms": max(closing), "left_mib": left / (1 << 20),
    }  # fmt: skip


def medians(found):
    """Returns the median of each value over several runs."""
    return {
        name: None if value is None else statistics.median(run[name] for run in found)
        for name, value in found[0].items()
    }


def table_of(heads, measured, names):
    rows = []
    for size, found in measured.items():
        rows.append([f"{size:,}", *(report.number(found[name]) for name in names)])
    return report.table(heads, rows)


def tree_table(trees):
    columns = (
        "fill_s", "bytes", "fill_ping_p99_ms", "fill_ping_max_ms", "answer_ms", "close_s",
        "ping_p99_ms", "ping_max_ms", "left_mib",
    )  # fmt: skip
    return report.table(
        ["scopes", "fill, s", "B each", "PING meanwhile p99, ms", "max, ms", "mute, ms", "close, s",
         "PING meanwhile p99, ms", "max, ms", "left, MiB"],
        [[name, *(report.number(found[column]) for column in columns)] for name, found in trees.items()],
    )  # fmt: skip


def document(sizes, connections, trees, options, loads):
    return "\n".join([
        "# The daemon's costs as it grows\n",
        report.paragraph("""Written by `make bench-scale`; [how it is
            measured](../../Benchmarks/daemon/README.md)."""),
        report.bullets(
            f"Machine: {report.machine()}; load averages before the start: {loads}. The clients run on the same cores.",
            f"Date: {datetime.date.today().isoformat()}. Medians of {options.rounds} runs. countdownd {Countdownd.version()}.",
        ),
        "## Countdowns\n",
        report.bullets(
            "Fill: 50 connections, pipeline 64. Start, and start and cancel: the daemon's processor time for a command, "
            "while it fills and while it is full.",
            "Late: 1,000 a second that are watched, while the daemon is full.",
            "Drain: all become ready at one moment and are watched, until the last event; a million at most.",
            "PING: of another client, p99; of the drain, from the due moment on.",
        ),
        table_of(
            ["countdowns", "fill, s", "B each", "start, µs", "start and cancel, µs", "late p99, ms",
             "PING while full, ms", "drain, s", "PING meanwhile, ms"],
            sizes,
            ["fill_s", "bytes", "start_us", "start_cancel_us", "late_p99_ms", "full_ping_p99_ms",
             "drain_s", "drain_ping_p99_ms"],
        ),
        "![CPU per command](benchmarks/scale.svg)\n",
        "## Connections\n",
        "Unpipelined starts, as fast as they go. Start: as above.\n",
        table_of(
            ["connections", "commands a second", "start, µs", "p50, ms", "p99, ms"], connections,
            ["per_second", "start_us", "p50_ms", "p99_ms"],
        ),
        "![CPU per command by connections](benchmarks/connections.svg)\n",
        "## Trees of scopes\n",
        report.paragraph("""One below the other or all below one, closed with `SCOPE CLOSE` of the top; or all of one
            connection, which ends. Mute: until no client sees any of them. Close: until all are removed. PING:
            of another client, each millisecond, while scopes are opened and while they are closed. Left: the memory
            that is in use then and was not before."""),
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
    for count, shape in TREES:
        count = min(count, most)
        name = f"{count:,} {shape}"
        say(f"scopes, {name}")
        trees[name] = medians([of_tree(count, shape) for _ in range(options.rounds)])
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
    charts = {
        "scale": ("countdowns", {
            "START": [(size, found["start_us"]) for size, found in sizes.items()],
            "START and CANCEL when full": [(size, found["start_cancel_us"]) for size, found in sizes.items()],
        }),
        "connections": ("connections", {"START": [(size, found["start_us"]) for size, found in connections.items()]}),
    }  # fmt: skip
    for name, (across, curves) in charts.items():
        chart = svg.growth("The daemon's CPU per command", list(curves), list(curves.values()), "microseconds", across)
        (folder / f"{name}.svg").write_text(chart)
    print(f"wrote {DOCUMENT.relative_to(PROJECT)}", file=sys.stderr)


if __name__ == "__main__":
    servers.raise_descriptor_limit()
    main()
