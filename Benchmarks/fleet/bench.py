#!/usr/bin/env python3
"""Measures daemons that share Redis servers, and one that shares nothing: `make bench-fleet`.

Everything runs on this machine: the servers, the daemons and the clients share its processors and its
loopback, so round trips are shorter, and throughput is lower, than between hosts.
"""

import argparse
import contextlib
import datetime
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemon"))

import report  # noqa: E402
from servers import COUNTDOWNCTL, COUNTDOWND, PROJECT, output  # noqa: E402

DOCUMENT = PROJECT / "docs" / "dev" / "benchmarks-fleet.md"
# (name, daemons, replicas; None: nothing is shared)
MODES = [
    ("local", 1, None), ("1 daemon, no replica", 1, 0), ("1 daemon, 1 replica", 1, 1),
    ("4 daemons, no replica", 4, 0), ("4 daemons, 1 replica", 4, 1),
]  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"bench-fleet: not within {seconds} s: {what}")
        time.sleep(0.05)


def info(path, section):
    text = output(str(COUNTDOWNCTL), "--socket", str(path), "info", section, "--json")
    return json.loads(text).get(section, {}) if text else {}


class Disturbed(Exception):
    """The load test received an error, for example because a replica was late on a busy machine."""


class Bench:
    """The servers and daemons of a mode; `with` ends them."""

    def __init__(self, daemons, replicas, mirrors=()):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-fleet-"))
        self.processes = []
        self.paths = [self.directory / f"socket-{number}" for number in range(daemons)]
        self.port = None
        settings = "log-level: warning\n"
        if replicas is not None:
            ports = [free_port() for _ in range(1 + replicas)]
            self.port = ports[0]
            for number, port in enumerate(ports):
                self.spawn(
                    "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", self.directory,
                    "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0",
                    *(["--replicaof", "127.0.0.1", ports[0]] if number else []),
                )  # fmt: skip
            wait_for(
                lambda: output("redis-cli", "-p", str(ports[0]), "INFO", "replication").count("state=online") == replicas,
                "Redis runs",
            )
            settings += (
                f"fleet:\n  engine: redis\n  nodes: ['127.0.0.1:{ports[0]}']\n  discovery: single\n"
                f"  replicas: {'all' if replicas else 0}\n  timeout: 5s\n"
            )
        for number, path in enumerate(self.paths):
            file = self.directory / f"config-{number}.yaml"
            file.write_text(settings + (f"  mirror: {mirrors[number]}\n" if mirrors else ""))
            self.spawn(COUNTDOWND, "--config", file, "--socket", path, "--state-directory", f"{path}-state")
        for path in self.paths:
            wait_for(lambda: output(str(COUNTDOWNCTL), "--socket", str(path), "ping"), "the daemons answer")
            if replicas is not None:
                wait_for(lambda: output(str(COUNTDOWNCTL), "--socket", str(path), "fleet", "init"), "the fleet is begun")
                wait_for(lambda: is_open(info(path, "fleet")), "the fleet is open")
                # A replica that has just connected acknowledges nothing for a moment.
                wait_for(lambda: self.is_confirmed(path), "replicas confirm changes")

    def is_confirmed(self, path):
        return output(str(COUNTDOWNCTL), "--socket", str(path), "once", "begin", f"first-{path.name}", "--ttl", "1s")

    def spawn(self, *words):
        with open(self.directory / "log", "ab") as log:
            self.processes.append(
                subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def load(self, *options):
        """Runs `countdownctl bench` on all daemons at once and returns the reports."""
        running = [
            subprocess.Popen(
                [str(word) for word in (COUNTDOWNCTL, "--socket", path, "bench", "--json", *options)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for path in self.paths
        ]  # fmt: skip
        results = []
        for process in running:
            text, errors = process.communicate(timeout=300)
            if process.returncode not in (0, 1) or not text:
                raise Disturbed(errors)
            results.append(json.loads(text))
        return results

    def memory(self):
        """Returns the bytes used by Redis and by the first daemon."""
        lines = output("redis-cli", "-p", str(self.port), "INFO", "memory").splitlines() if self.port else []
        redis = sum(int(line.split(":")[1]) for line in lines if line.startswith("used_memory:"))
        return redis, int(info(self.paths[0], "memory")["used_memory_rss"])

    def trim(self):
        """Empties the streams, so that only the records take memory."""
        for key in output("redis-cli", "-p", str(self.port), "KEYS", "*:ev").split():
            output("redis-cli", "-p", str(self.port), "XTRIM", key, "MAXLEN", "0")

    def requests(self):
        return sum(info(path, "fleet").get("fleet_requests", 0) for path in self.paths)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def is_open(facts):
    return "fleet_partitions" in facts and facts["fleet_partitions"] == facts.get("fleet_loaded_partitions")


def measure(daemons, replicas, scale):
    for _ in range(3):
        try:
            return measure_once(daemons, replicas, scale)
        except Disturbed as error:
            print(f"  again: {error}", file=sys.stderr)
    sys.exit("bench-fleet: the machine is too busy")


def measure_once(daemons, replicas, scale):
    found = {}
    with Bench(daemons, replicas) as bench:
        bench.load("-n", 500, "-c", 1)
        alone = bench.load("-n", int(4000 * scale), "-c", 1)
        for name in ("p50", "p99"):
            found[f"start_{name}_us"] = statistics.mean(one["latency_us"]["start"][name] for one in alone)
        if bench.port:
            bench.trim()
        before, (redis, resident) = bench.requests(), bench.memory()
        count = int(40_000 * scale) // daemons
        many = bench.load("-n", count, "-c", 50, "-P", 4, "--keep")
        found["per_second"] = sum(one["commands_per_second"] for one in many)
        found["requests"] = (bench.requests() - before) / (count * daemons) if replicas is not None else None
        time.sleep(1)
        full, filled = bench.memory()
        if bench.port:
            bench.trim()
        started = count * daemons
        found["stream_bytes"] = (full - bench.memory()[0]) / started if bench.port else None
        found["record_bytes"] = (bench.memory()[0] - redis) / started if bench.port else None
        found["daemon_bytes"] = (filled - resident) / started
        spread = bench.load("--mix", "spread", "-n", int(1000 * scale), "--due", "3s", "-c", 2)
        for name in ("p50", "p99"):
            found[f"late_{name}_us"] = max(one["events"]["late_us"][name] for one in spread)
        found["problems"] = [problem for one in alone + many + spread for problem in one["problems"]]
    return found


def document(rows, runs):
    heads = ["mode", "START p50, µs", "START p99, µs", "STARTs a second", "requests to Redis per START",
             "ready late p50, µs", "ready late p99, µs", "B in Redis, record", "B in Redis, stream",
             "B in each daemon"]  # fmt: skip
    table = [
        [name, *(report.number(found[key], digits=3) if found[key] is not None else "–" for key in (
            "start_p50_us", "start_p99_us", "per_second", "requests", "late_p50_us", "late_p99_us",
            "record_bytes", "stream_bytes", "daemon_bytes"))]
        for name, found in rows
    ]  # fmt: skip
    redis = output("redis-server", "--version").split("v=")[1].split()[0]
    return "\n".join([
        "# Daemons that share a Redis server", "",
        "Written by `make bench-fleet`. Everything runs on one machine and shares its cores: Redis, its",
        "replica, the daemons and the clients. Between hosts a START takes a round trip of that network more",
        "than here, and more daemons have more cores.", "",
        report.bullets(
            f"Machine: {report.machine()}; load averages before the start: {runs['load']}.",
            f"Date: {datetime.date.today()}. Medians of {runs['count']} runs. Redis {redis}.",
            "START p50, p99: one client for each daemon, one command after the other.",
            "STARTs a second: 50 clients for each daemon, 4 commands each on the way; all daemons together.",
            "B: memory for each countdown. A stream keeps the newest 10,000 changes of its partition.",
            "Ready late: from the deadline to the event, 1,000 countdowns for each daemon that end within 3 s.",
        ), "",
        report.table(heads, table), "",
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the usual work")
    parser.add_argument("--print", action="store_true", help="write no page")
    options = parser.parse_args()
    load = report.load_averages()
    rows = []
    for name, daemons, replicas in MODES:
        print(name, file=sys.stderr)
        runs = [measure(daemons, replicas, options.scale) for _ in range(options.runs)]
        for problem in {problem for run in runs for problem in run["problems"]}:
            print(f"  {problem}", file=sys.stderr)
        rows.append((name, {
            key: None if runs[0][key] is None else statistics.median(run[key] for run in runs)
            for key in runs[0] if key != "problems"
        }))  # fmt: skip
    page = document(rows, {"load": load, "count": options.runs})
    if options.print:
        print(page)
    else:
        DOCUMENT.write_text(page)


if __name__ == "__main__":
    main()
