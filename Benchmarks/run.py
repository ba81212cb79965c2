#!/usr/bin/env python3
"""Measures our timer wheel side by side with other timer libraries (see peers/README.md).

Each combination of library and workload runs in its own process. The libraries take turns in each
round, so that other load on the machine affects all of them alike. Results are medians of rounds.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "daemon"))

import report  # noqa: E402
from servers import PROJECT, output  # noqa: E402

BUILD = HERE / ".build" / "peers"
BENCH = HERE / ".build" / "release" / "timer-bench"
DOCUMENT = PROJECT / "docs" / "dev" / "benchmarks-wheel.md"

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
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
# The programs in peers/, and how each is linked. timer-bench measures everything else.
LIBRARIES = {"libuv": "-luv", "libev": "-lev"}
WHEELS = {"TimerWheel-1ms": "1 ms", "TimerWheel-1us": "1 µs"}
OURS = [*WHEELS, "TimerQueue"]
# Those that read the real clock.
REAL = ["TimerQueue", "DispatchSourceTimer", "Task.sleep", "NIO"]
# The rows of the tables, with their titles.
ROWS = {
    **{name: f"**TimerWheel, ticks of {tick}**" for name, tick in WHEELS.items()},
    "TimerQueue": "**TimerQueue**",
    "libuv": "libuv",
    "libev": "libev",
    "DispatchSourceTimer": "DispatchSourceTimer",
    "Task.sleep": "Task.sleep",
    "NIO": "NIO scheduleTask",
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def build(*command):
    if subprocess.run(command, cwd=HERE, stdout=sys.stderr).returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")


def build_all(names):
    say("building")
    build("swift", "build", "-c", "release")
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in [name for name in names if name in LIBRARIES]:
        # Debian compiles the libraries with the same level of optimization.
        build("gcc", "-O2", "-Wall", "-o", BUILD / name, f"peers/{name}.c", LIBRARIES[name])


def find_versions():
    """Returns the versions of Swift and of all rows whose programs do not print them."""
    swift = output("swift", "--version").partition("version ")[2].split(" ")[0]
    ours = output("git", "-C", str(HERE), "describe", "--tags", "--always", "--dirty") or "?"
    pins = json.loads((HERE / "Package.resolved").read_text())["pins"]
    nio = next(pin["state"]["version"] for pin in pins if pin["identity"] == "swift-nio")
    return swift, {
        **dict.fromkeys(OURS, ours),
        **dict.fromkeys(["DispatchSourceTimer", "Task.sleep"], f"Swift {swift}"),
        "NIO": nio,
    }


def measure(name, arguments, timeout):
    """Runs one program. Returns the lines it prints, as dictionaries, and the error or None.

    It prints nothing if the library cannot do the workload, or not with so many timers."""
    program = [BUILD / name] if name in LIBRARIES else [BENCH, name]
    try:
        done = subprocess.run(
            [*program, *map(str, arguments)], capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return [], f"took longer than {timeout} s"
    if done.returncode != 0:
        return [], next(iter(done.stderr.splitlines()), f"ended with status {done.returncode}")
    keys = "peer version workload n phase ns peak_kib bytes mix".split()
    return [dict(zip(keys, line.split("\t"))) for line in done.stdout.splitlines()], None


def measure_all(names, sizes, options, versions):
    """Returns the lines by (size, name, workload, phase), and the errors."""
    found, troubles = {}, []
    for size in sizes:
        for number in range(1, options.rounds + 1):
            say(f"{size} timers, round {number} of {options.rounds}")
            mix = None
            for workload in WORKLOADS:
                for name in names:
                    arguments = [workload, size, options.seed, number]
                    lines, trouble = measure(name, arguments, options.timeout)
                    if trouble:
                        # It can be due to a busy machine; the other rounds still count.
                        troubles.append(f"{name}, {workload}, {size}, round {number}: {trouble}")
                        say(troubles[-1])
                    for line in lines:
                        mix = mix or line["mix"]
                        if line["mix"] != mix:
                            raise SystemExit(f"{name} had other random numbers than the rest")
                        if line["version"] != "-":
                            versions[name] = line["version"]
                        found.setdefault((size, name, workload, line["phase"]), []).append(line)
    return found, troubles


def measure_one(names, options):
    """Returns the lines of one timer at a time, by (name, phase), and the errors."""
    found, troubles = {}, []
    for number in range(1, options.rounds + 1):
        for name in names:
            if name not in REAL:
                continue
            lines, trouble = measure(name, ["one", 10_000, options.seed, number], options.timeout)
            if trouble:
                troubles.append(f"{name}, one timer, round {number}: {trouble}")
            for line in lines:
                found.setdefault((name, line["phase"]), []).append(float(line["ns"]))
    return found, troubles


def table_of_one(found, names):
    rows = [
        [ROWS[name], *(short(statistics.median(found[name, phase])) for phase in ("schedule", "cancel"))]
        for name in names if (name, "schedule") in found
    ]  # fmt: skip
    return "## One timer\n\n" + report.table(["ns", "schedule", "cancel"], rows)


def short(value):
    if value is None:
        return "–"
    if value < 1:
        return "< 1"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def table(found, names, size):
    def median(name, workload, phase, column="ns"):
        lines = found.get((size, name, workload, phase), [])
        values = [float(line[column]) for line in lines if line[column] != "-"]
        return statistics.median(values) if values else None

    def time(name, workload, phase):
        value = median(name, workload, phase)
        if value is None and (workload, phase) == ("cancel", "schedule"):
            # For those that are too slow at cancelling: `expire` arms timers in the same way.
            value = median(name, "expire", phase)
        return value

    times = {name: [time(name, *column[1:]) for column in COLUMNS] for name in names}
    rows = []
    for name in names:
        if any(value is not None for value in times[name]):
            needed = median(name, "cancel", "schedule", "bytes")
            peak = median(name, "cancel", "schedule", "peak_kib")
            # With few timers, pages and blocks are too coarse a measure.
            memory = f"{needed:.0f}" if needed is not None and size >= 100_000 else "–"
            peak = f"{peak / 1024:.0f}" if peak else "–"
            rows.append([ROWS[name], *map(short, times[name]), memory, peak])
    for wheel in [name for name in names if name in WHEELS]:
        cells = []
        for place, own in enumerate(times[wheel]):
            others = [(times[name][place], name) for name in names if name not in OURS]
            others = [(value, name) for value, name in others if value is not None]
            fastest, name = min(others, default=(0, ""))
            known = own is not None and own >= 1 and fastest >= 1
            cells.append(f"{fastest / own:.1f}× ({name})" if known else "–")
        if any(cell != "–" for cell in cells):
            rows.append([f"fastest other / ours at {WHEELS[wheel]}", *cells, "", ""])
    heads = ["ns per operation", *(column[0] for column in COLUMNS), "B per timer", "peak MiB"]
    return f"## {size:,} timers\n\n" + report.table(heads, rows)


def document(found, troubles, names, sizes, options, loads, swift, versions, one):
    others = [
        f"{ROWS[name]} {versions[name]}"
        for name in names if name in versions and name not in OURS
    ]  # fmt: skip
    parts = [
        "# The timer wheel, measured\n",
        report.paragraph("""Written by `make bench-wheel`; [how it is measured, and what each
            library is allowed](../../Benchmarks/peers/README.md)."""),
        report.bullets(
            f"Machine: {report.machine()}; load averages before the start: {loads}.",
            f"Date: {datetime.date.today().isoformat()}. Medians of {options.rounds} alternating "
            f"rounds; seed {options.seed}.",
            f"Ours: {versions['TimerQueue']}, Swift {swift}, release build.",
            f"Others: {'; '.join(others) or 'none'}.",
            """**schedule**: into a structure that starts empty; **again**: once it has its memory.
            **same**: all timers due at the same moment. **expire, all due**: uniform over an hour,
            then the whole hour has passed. **in steps**: the hour passes bit by bit; of the wheel,
            cascades included. **next**: what asking for the next deadline after each change
            adds.""",
            """–: not possible with the library, or not in reasonable time; the page above says
            why.""",
        ),
        table_of_one(one, names),
        *(table(found, names, size) for size in sizes),
    ]  # fmt: skip
    if troubles:
        parts.append("## Runs without a result\n\n" + report.bullets(*troubles))
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 timers, one round; print only")
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--sizes", help="how many timers, as in 10000,1000000")
    parser.add_argument("--peers", help="only these, as in TimerWheel-1us,libev")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument(
        "--output", help="where to write; docs/dev/benchmarks-wheel.md unless --quick"
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    sizes = SIZES[:1] if options.quick else SIZES
    if options.sizes:
        sizes = [int(float(size)) for size in options.sizes.split(",")]
    chosen = options.peers.split(",") if options.peers else ROWS
    names = [name for name in ROWS if name in chosen]
    loads = report.load_averages()

    build_all(names)
    swift, versions = find_versions()
    found, troubles = measure_all(names, sizes, options, versions)
    one, more = measure_one(names, options)
    text = document(found, troubles + more, names, sizes, options, loads, swift, versions, one)
    print(text)
    target = options.output or (None if options.quick else DOCUMENT)
    if target:
        pathlib.Path(target).write_text(text)
        say(f"wrote {target}")


if __name__ == "__main__":
    main()
