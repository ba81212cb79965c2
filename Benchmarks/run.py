#!/usr/bin/env python3
"""Measures our timer wheel side by side with other timer libraries (see peers/README.md).

Each combination of library and workload runs in its own process. The libraries take turns in each
round, so that other load on the machine affects all of them alike. Results are medians of rounds.
"""

import argparse
import datetime
import glob
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, ".build", "peers")
BENCH = os.path.join(HERE, ".build", "release", "timer-bench")
DOCUMENT = os.path.join(HERE, "..", "docs", "dev", "benchmarks-wheel.md")

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
QUICK_SIZES = [10_000]
WORKLOADS = ["cancel", "reschedule", "expire", "hour", "same", "next"]
# The columns of the tables: (heading, workload, phase).
COLUMNS = [
    ("schedule", "cancel", "schedule"),
    ("schedule again", "cancel", "again"),
    ("cancel", "cancel", "cancel"),
    ("reschedule", "reschedule", "reschedule"),
    ("expire, all due", "expire", "expire"),
    ("expire, in steps", "hour", "expire"),
    ("same: schedule", "same", "schedule"),
    ("same: expire", "same", "expire"),
    ("next", "next", "next"),
]
OURS = ["TimerWheel-1ms", "TimerWheel-1us"]


class Peer:
    """A row of the tables. `limit` is the largest number of timers to measure it with."""

    def __init__(self, name, title, limit, package=None, ours=False):
        self.name, self.title, self.limit = name, title, limit
        self.package, self.ours = package, ours
        self.command, self.missing, self.version = None, None, None


PEERS = [
    Peer("TimerWheel-1ms", "**TimerWheel, ticks of 1 ms**", 10**7, ours=True),
    Peer("TimerWheel-1us", "**TimerWheel, ticks of 1 µs**", 10**7, ours=True),
    Peer("TimerQueue", "**TimerQueue**", 10**6, ours=True),
    Peer("libuv", "libuv", 10**7, "libuv1-dev"),
    Peer("libev", "libev", 10**7, "libev-dev"),
    Peer("libevent", "libevent", 10**7, "libevent-dev"),
    Peer("libevent-common", "libevent, common timeout", 10**7, "libevent-dev"),
    Peer("netty", "Netty HashedWheelTimer", 10**6, "libnetty-java"),
    Peer("go", "Go", 10**7, "golang-go"),
    Peer("DispatchSourceTimer", "DispatchSourceTimer", 10**5),
    Peer("Task.sleep", "Task.sleep", 10**5),
    Peer("NIO", "NIO scheduleTask", 10**5),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


def output(*command, **options):
    """Returns the output of a command, or an empty string if it fails."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, **options
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run_build(command, **options):
    """Runs a build command and returns its first error, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, **options)
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if "error" in line] or lines or ["failed"]
    return errors[0]


def netty_class_path():
    jars = [
        next(iter(sorted(glob.glob(f"/usr/share/java/{name}.jar"))), None)
        for name in ("netty-common", "jctools-core")
    ]
    return ":".join(jar for jar in jars if jar) if jars[0] else None


def build(peer):
    source = os.path.join(HERE, "peers")
    program = os.path.join(BUILD, peer.name)
    libraries = {
        "libuv": ["libuv.c", "-luv"],
        "libev": ["libev.c", "-lev"],
        "libevent": ["libevent.c", "-levent_core"],
        "libevent-common": ["-DCOMMON", "libevent.c", "-levent_core"],
    }
    if peer.name in libraries:
        compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
        # Debian compiles the libraries with the same level of optimization.
        peer.missing = run_build(
            [compiler, "-O2", "-Wall", "-o", program, *libraries[peer.name]], cwd=source
        )
        peer.command = [program]
    elif peer.name == "go":
        peer.missing = run_build(
            ["go", "build", "-o", program, "."], cwd=os.path.join(source, "go")
        )
        peer.command = [program]
    elif peer.name == "netty":
        path = netty_class_path()
        if not path:
            peer.missing = "no netty-common.jar in /usr/share/java"
            return
        peer.missing = run_build(
            ["javac", "-cp", path, "-d", program, "NettyTimers.java"], cwd=source
        )
        peer.command = ["java", "-cp", f"{path}:{program}", "NettyTimers"]
    else:
        peer.command = [BENCH, peer.name]


def find_versions():
    swift = next(iter(output("swift", "--version").splitlines()), "Swift")
    swift = swift.split("version ")[-1].split(" ")[0]
    ours = output("git", "-C", HERE, "describe", "--tags", "--always", "--dirty") or "?"
    nio = "?"
    try:
        with open(os.path.join(HERE, "Package.resolved")) as file:
            for pin in json.load(file)["pins"]:
                if pin["identity"] == "swift-nio":
                    nio = pin["state"].get("version") or pin["state"]["revision"][:10]
    except (OSError, ValueError, KeyError):
        pass
    try:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True)
        java = told.stderr.splitlines()[0].replace('"', "")
    except (OSError, IndexError):
        java = ""
    for peer in PEERS:
        if peer.ours:
            peer.version = ours
        elif peer.name == "NIO":
            peer.version = nio
        elif peer.name in ("DispatchSourceTimer", "Task.sleep"):
            peer.version = f"Swift {swift}"
    return swift, java


def measure(peer, workload, size, seed, number, timeout):
    """Runs one program. Returns the lines it prints, as dictionaries, and the error or None."""
    command = [*peer.command, workload, str(size), str(seed), str(number)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return [], f"took longer than {timeout} s"
    except OSError as error:
        return [], str(error)
    if done.returncode != 0:
        first = next(iter(done.stderr.strip().splitlines()), "")
        return [], first or f"ended with status {done.returncode}"
    keys = "peer version workload n phase ns peak_kib bytes mix".split()
    return [dict(zip(keys, line.split("\t"))) for line in done.stdout.splitlines()], None


class Results:
    def __init__(self):
        self.times = {}  # (size, peer, workload, phase) -> ns of each round
        self.bytes = {}  # (size, peer) -> bytes of each round
        self.peaks = {}  # (size, peer) -> KiB of each run of "cancel"
        self.mixes = {}  # (size, round) -> checksum of the random numbers
        self.troubles = []

    def add(self, peer, size, number, line):
        key = (size, peer.name, line["workload"], line["phase"])
        self.times.setdefault(key, []).append(float(line["ns"]))
        if line["workload"] == "cancel":
            self.peaks.setdefault((size, peer.name), []).append(int(line["peak_kib"]))
            if line["bytes"] != "-":
                self.bytes.setdefault((size, peer.name), []).append(float(line["bytes"]))
        if line["version"] != "-":
            peer.version = line["version"]
        known = self.mixes.setdefault((size, number), line["mix"])
        if known != line["mix"]:
            raise SystemExit(f"{peer.name} had other random numbers than the rest")

    def time(self, size, peer, workload, phase):
        values = self.times.get((size, peer, workload, phase))
        if not values and (workload, phase) == ("cancel", "schedule"):
            # For libraries that are too slow at cancelling: `expire` arms timers in the same way.
            values = self.times.get((size, peer, "expire", phase))
        return statistics.median(values) if values else None


def measure_all(peers, sizes, rounds, seed, timeout):
    results = Results()
    given_up = set()
    for size in sizes:
        for number in range(1, rounds + 1):
            say(f"{size} timers, round {number} of {rounds}")
            for workload in WORKLOADS:
                for peer in peers:
                    key = (size, peer.name, workload)
                    if size > peer.limit or key in given_up:
                        continue
                    lines, trouble = measure(peer, workload, size, seed, number, timeout)
                    if trouble:
                        # One failure can be due to a busy machine; the other rounds still count.
                        text = f"{peer.title}, {workload}, {size}, round {number}: {trouble}"
                        say(text)
                        results.troubles.append(text)
                        if "longer than" in trouble:
                            given_up.add(key)
                    for line in lines:
                        results.add(peer, size, number, line)
    return results


def short(ns):
    if ns is None:
        return "–"
    if ns < 1:
        return "< 1"
    return f"{ns:.1f}" if ns < 10 else f"{ns:.0f}"


def median_of(values):
    return statistics.median(values) if values else None


def table(results, peers, size):
    heads = ["ns per operation", *(head for head, _, _ in COLUMNS), "B per timer", "peak MiB"]
    rows = [heads, ["---", *["--:"] * (len(heads) - 1)]]
    for peer in peers:
        times = [results.time(size, peer.name, w, p) for _, w, p in COLUMNS]
        if not any(time is not None for time in times):
            continue
        needed = median_of(results.bytes.get((size, peer.name)))
        peak = median_of(results.peaks.get((size, peer.name)))
        # With few timers, pages and blocks are too coarse a measure.
        memory = f"{needed:.0f}" if needed is not None and size >= 100_000 else "–"
        rows.append(
            [peer.title, *map(short, times), memory, f"{peak / 1024:.0f}" if peak else "–"]
        )
    for name in OURS:
        cells = []
        for _, workload, phase in COLUMNS:
            ours = results.time(size, name, workload, phase)
            others = [
                (results.time(size, peer.name, workload, phase), peer.title)
                for peer in peers
                if not peer.ours
            ]
            others = [(time, title) for time, title in others if time is not None]
            if ours is None or not others or ours < 1 or min(others)[0] < 1:
                cells.append("–")
            else:
                fastest, title = min(others)
                cells.append(f"{fastest / ours:.1f}× ({title.split(' ')[0].rstrip(',')})")
        if any(cell != "–" for cell in cells):
            label = f"fastest other / ours at {'1 ms' if name.endswith('ms') else '1 µs'}"
            rows.append([label, *cells, "", ""])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return f"## {size:,} timers\n\n" + "\n".join(lines) + "\n"


def machine():
    model, cores = "unknown processor", os.cpu_count()
    for line in output("lscpu").splitlines():
        if line.startswith("Model name:"):
            model = line.split(":", 1)[1].strip()
    memory = ""
    try:
        with open("/proc/meminfo") as file:
            kib = int(file.readline().split()[1])
            memory = f", {kib / 1024 / 1024:.0f} GiB"
    except (OSError, ValueError):
        pass
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    return f"{model}, {cores} cores{memory}, Linux {platform.release()}, {system}"


def wrap(text, width=100):
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) + "\n"


def bullets(*texts):
    return "".join("- " + textwrap.indent(wrap(text, 98), "  ")[2:] for text in texts)


def document(results, peers, sizes, options, load_before, swift, java):
    today = datetime.date.today().isoformat()
    load = ", ".join(f"{value:.1f}" for value in load_before)
    versions = [f"{p.title.replace('**', '')} {p.version}" for p in peers if not p.ours and p.version]
    parts = [
        "# The timer wheel, measured\n",
        wrap("Written by `make bench-wheel`; [how it is measured, and what each library is allowed]"
             "(../../Benchmarks/peers/README.md)."),
        bullets(
            f"Machine: {machine()}; load averages before the start: {load}.",
            f"Date: {today}. Medians of {options.rounds} alternating rounds; seed {options.seed}.",
            f"Ours: {PEERS[0].version}, Swift {swift}, release build.",
            f"Others: {'; '.join(versions)}.",
            *([f"Java: {java}."] if java else []),
            "**schedule**: into a structure that starts empty; **again**: once it has its memory. **same**: all timers "
            "due at the same moment. **expire, all due**: uniform over an hour, then the whole hour has passed. **in "
            "steps**: the hour passes bit by bit; of the wheel, cascades included. **next**: what asking for the next "
            "deadline after each change adds.",
            "–: not possible with the library, or not in reasonable time; the page above says why.",
        ),
    ]  # fmt: skip
    parts += [table(results, peers, size) for size in sizes]
    left_out = [f"- {p.title}: {p.missing}" for p in PEERS if p.missing]
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(left_out) + "\n")
    if results.troubles:
        parts.append("## Runs without a result\n\n" + "\n".join(f"- {t}" for t in results.troubles) + "\n")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 timers, one round; print only")
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--sizes", help="how many timers, as in 10000,1000000")
    parser.add_argument("--peers", help="only these, as in TimerWheel-1us,libev")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument("--output", help="where to write; docs/dev/benchmarks-wheel.md unless --quick")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    sizes = QUICK_SIZES if options.quick else SIZES
    if options.sizes:
        sizes = [int(float(size)) for size in options.sizes.split(",")]
    load_before = os.getloadavg()

    say("building")
    os.makedirs(BUILD, exist_ok=True)
    trouble = run_build(["swift", "build", "-c", "release", "--package-path", HERE])
    if trouble:
        raise SystemExit(f"timer-bench does not build: {trouble}")
    chosen = set(options.peers.split(",")) if options.peers else None
    wanted = [peer for peer in PEERS if chosen is None or peer.name in chosen]
    for peer in wanted:
        build(peer)
        if peer.missing:
            hint = f" (package {peer.package})" if peer.package else ""
            say(f"left out: {peer.title}{hint}: {peer.missing}")
    peers = [peer for peer in wanted if not peer.missing]
    swift, java = find_versions()

    results = measure_all(peers, sizes, options.rounds, options.seed, options.timeout)
    text = document(results, peers, sizes, options, load_before, swift, java)
    print(text)
    target = options.output or (None if options.quick else DOCUMENT)
    if target:
        with open(target, "w") as file:
            file.write(text)
        say(f"wrote {os.path.relpath(target)}")


if __name__ == "__main__":
    main()
