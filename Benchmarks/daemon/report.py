"""What was measured, as a page with tables and plots."""

import datetime
import json
import os
import pathlib
import platform
import statistics

import svg
from servers import PROJECT, Countdownd, output
from wire import percentile

DOCUMENT = PROJECT / "docs" / "benchmarks.md"


def load_averages():
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


class Results:
    def __init__(self):
        self.values = {}  # (row, server) -> {what: [a value for each round]}
        self.latenesses = {}  # (row, server) -> all of them, of all rounds
        self.troubles = []

    def add(self, row, server, found):
        values = self.values.setdefault((row, server), {})
        for name, value in found.items():
            values.setdefault(name, []).append(value)

    def add_expiry(self, row, server, found):
        late, pings = found["late"], found["ping"]
        self.latenesses.setdefault((row, server), []).extend(late)
        self.add(
            row, server,
            {
                "late_p50": percentile(late, 50), "late_p99": percentile(late, 99),
                "ping_p99": percentile(pings, 99), "ping_max": max(pings, default=None),
                "early": found["early"], "lost": found["lost"], "cpu_us": found["cpu_us"],
            },
        )  # fmt: skip

    def save(self, path, about):
        """For `load`, perhaps after other parts were measured."""
        text = json.dumps({
            **about, "values": [[*names, values] for names, values in self.values.items()],
            "latenesses": [
                [*names, [round(value, 3) for value in values]]
                for names, values in self.latenesses.items()
            ],
            "troubles": self.troubles,
        })  # fmt: skip
        pathlib.Path(path).write_text(text)

    def load(self, path):
        saved = json.loads(pathlib.Path(path).read_text())
        for row, server, values in saved["values"]:
            known = self.values.setdefault((row, server), {})
            for what, measured in values.items():
                known.setdefault(what, []).extend(measured)
        for row, server, values in saved["latenesses"]:
            self.latenesses.setdefault((row, server), []).extend(values)
        self.troubles += saved["troubles"]
        return saved

    def trouble(self, text):
        self.troubles.append(text)

    def get(self, row, server, what):
        """The median of the rounds; None where there is none."""
        values = self.values.get((row, server), {}).get(what, [])
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def worst(self, row, server, what):
        values = self.values.get((row, server), {}).get(what, [])
        return max((value for value in values if value is not None), default=None)


def number(value, unit="", digits=3):
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}{unit}"
    return f"{float(f'{value:.{digits}g}'):g}{unit}"


def table(heads, rows):
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdict(met):
    return "–" if met is None else "yes" if met else "**no**"


# (row, goal: at least so many times Redis's commands a second)
THROUGHPUT_GOALS = [
    ("unpipelined, 1 client", 1.0), ("unpipelined, 50 clients", 1.0), ("pipeline 16", 2.5),
    ("pipeline 64", 3.5), ("brief, 50 clients", 1.0), ("brief, pipeline 16", 2.5),
    ("brief, pipeline 64", 3.5), ("everysec, 1 client", 1.0), ("everysec, 50 clients", 1.0),
    ("everysec, pipeline 16", 2.0), ("always, 1 client", 1.0), ("always, 50 clients", 1.0),
    ("always, pipeline 16", 1.2),
]  # fmt: skip


def goals(results):
    rows = []

    def row(name, ours, peer, goal, met, unit=""):
        ratio = f"{ours / peer:.2f}×" if ours is not None and peer else "–"
        rows.append([name, number(ours, unit), number(peer, unit), ratio, goal, verdict(met)])

    def at_most(value, bound):
        return None if value is None or bound is None else value <= bound

    for name, goal in THROUGHPUT_GOALS:
        ours = results.get(name, "countdownd", "per_second")
        peer = results.get(name, "Redis", "per_second")
        if ours is None:
            continue
        met = ours >= goal * peer if peer else None
        row(f"START, {name}", ours, peer, f"≥ {goal:g}×", met, " /s")
    ours, peer = (results.get("memory", name, "bytes") for name in ("countdownd", "Redis"))
    row("memory of one, key of 12 bytes included", ours, peer, "≤ 0.6×", at_most(ours, peer and 0.6 * peer), " B")
    ours, peer = (results.get("burst", name, "late_p99") for name in ("countdownd", "Redis"))
    row("all due at one moment, watched: late p99", ours, peer, "≤ 0.1×", at_most(ours, peer and 0.1 * peer), " ms")
    ours, peer = (results.get("burst", name, "ping_p99") for name in ("countdownd", "Redis"))
    row("PING of another client meanwhile: p99", ours, peer, "≤ 5 ms", at_most(ours, 5), " ms")
    ours = results.get("ticking", "countdownd", "late_p99")
    row("ticking once a second, watched: late p99", ours, None, "≤ 5 ms", at_most(ours, 5), " ms")
    ours = results.get("quiet, as it says", "countdownd", "late_p99")
    peer = results.get("quiet", "Redis", "late_p99")
    row("late when quiet: p99", ours, peer, "≤ 1 ms", at_most(ours, 1), " ms")
    early = [results.worst(name, "countdownd", "early") for name in ("burst", "quiet", "ticking")]
    early = [value for value in early if value is not None]
    ours = max(early, default=None)
    row("events before their time, most of a round", ours, results.worst("burst", "Redis", "early"), "0", at_most(ours, 0))
    lost = [results.worst(name, "countdownd", "lost") for name in ("burst", "quiet", "ticking")]
    ours = max((value for value in lost if value is not None), default=None)
    row("events lost, most of a round", ours, results.worst("burst", "Redis", "lost"), "0", at_most(ours, 0))
    ours, peer = (results.get("idle", name, "per_second") for name in ("countdownd", "Redis"))
    row("wake-ups when idle, many pending", ours, peer, "0 /s", at_most(ours, 0), " /s")
    ours, peer = (results.get("connections", name, "bytes") for name in ("countdownd", "Redis"))
    row("memory of a connection, of 10,000", ours, peer, "≤ 20 KB", at_most(ours, 20_000), " B")
    ours, peer = (results.get("restart", name, "seconds") for name in ("countdownd", "Redis"))
    if ours is not None:
        row("start with what was kept", ours, peer, "≤ 1×", at_most(ours, peer), " s")
    return table(["work", "countdownd", "Redis", "ratio", "goal", "met"], rows)


def throughput_table(results):
    rows = []
    for name, _ in THROUGHPUT_GOALS:
        for server in ("countdownd", "Redis"):
            if (name, server) in results.values:
                get = lambda what: results.get(name, server, what)  # noqa: E731
                rows.append([
                    name, server, number(get("per_second")), number(get("p50_ms"), " ms"),
                    number(get("p99_ms"), " ms"), number(get("cpu_us"), " µs"),
                ])  # fmt: skip
    return table(["clients", "server", "commands a second", "p50", "p99", "server's CPU per command"], rows)


def others_table(results):
    rows = []
    for server in ("countdownd", "Redis", "beanstalkd"):
        put = "one connection, pipeline 64"
        rows.append([
            server, number(results.get(put, server, "per_second")),
            number(results.get(put, server, "cpu_us"), " µs"),
            number(results.get("memory", server, "bytes"), " B"),
            number(results.get("idle", server, "per_second"), " /s"),
        ])  # fmt: skip
    return table(["server", "started a second", "CPU for each", "memory for each", "wake-ups when idle"], rows)


def lateness_table(results):
    rows = []
    for name in ("burst", "quiet", "quiet, as it says", "ticking"):
        for server in ("countdownd", "Redis"):
            if (name, server) in results.values:
                get = lambda what: results.get(name, server, what)  # noqa: E731
                rows.append([
                    name, server, number(get("late_p50"), " ms"), number(get("late_p99"), " ms"),
                    number(get("ping_p99"), " ms"), number(get("cpu_us") if name == "burst" else None, " µs"),
                    number(results.worst(name, server, "early")),
                    number(results.worst(name, server, "lost")),
                ])  # fmt: skip
    heads = ["work", "server", "late p50", "late p99", "PING p99", "server's CPU per event", "early", "lost"]
    return table(heads, rows)


def machine():
    model = next(
        (line.split(":", 1)[1].strip() for line in output("lscpu").splitlines()
         if line.startswith("Model name:")), "unknown processor",
    )  # fmt: skip
    with open("/proc/meminfo") as file:
        gib = int(file.readline().split()[1]) / 1024 / 1024
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB, Linux {platform.release()}, {system}"


def document(results, options, kinds, missing, loads):
    shrink = options.shrink
    versions = "; ".join(f"{kind.name} {kind.version()}" for kind in kinds)
    parts = [
        "# The daemon, measured\n",
        "Written by `make bench`; [how it is measured, and what is the same for all]"
        "(../Benchmarks/daemon/README.md). The timer wheel alone: [benchmarks-wheel.md](benchmarks-wheel.md).\n",
        f"- Machine: {machine()}; load averages before the start {loads}. The clients run on the same cores.\n"
        f"- Date {datetime.date.today().isoformat()}; medians of {options.rounds} rounds in turns"
        f"{', a fifth of the work' if shrink > 1 else ''}.\n"
        f"- {versions}. Release build, Unix sockets.\n",
        "## Goals\n", goals(results),
    ]  # fmt: skip
    if not Countdownd.keeps():
        parts.append("Countdowns that are kept over a restart: this build has none, so nothing is measured.\n")
    parts += [
        "## Commands a second\n",
        "redis-benchmark, distinct keys: `COUNTDOWN START key` and `SET key v EX 60`. The reply to START is the "
        "whole view, about 400 bytes in 32 elements, and the client takes it apart; so at pipelines it is the "
        "client that sets the pace, and what the server needs for a command says more. brief: `START key BRIEF`, whose "
        "reply is three integers. Without everysec or always, both keep nothing.\n",
        throughput_table(results),
        "![Commands a second](benchmarks/throughput.svg)\n",
        "## Lateness\n",
        f"burst: {100_000 // shrink:,} become ready at one moment; quiet: 200 a second; ticking: "
        f"{100_000 // shrink:,} tick once a second. One client listens to all of it, another asks PING. Of burst and "
        "quiet by the clock of the client (times of countdownd's events are rounded down to milliseconds, so up to one "
        "of it is none), else as the daemon says.\n",
        lateness_table(results),
        "![Lateness of events](benchmarks/burst.svg)\n",
        "## The same work for beanstalkd\n",
        "Something that is due in a minute (`put` with a delay, `SET … PXAT`, `START`), from the same small client.\n",
        others_table(results),
    ]  # fmt: skip
    left_out = missing + results.troubles
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(f"- {text}" for text in left_out) + "\n")
    return "\n".join(parts)


def write(text, results, target=None):
    target = pathlib.Path(target) if target else DOCUMENT
    folder = target.parent / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    names = ["countdownd", "Redis"]
    rows = [name for name, _ in THROUGHPUT_GOALS if (name, "countdownd") in results.values]
    if rows:
        values = {n: [results.get(row, n, "per_second") for row in rows] for n in names}
        groups = [row.replace("unpipelined, ", "") for row in rows]
        (folder / "throughput.svg").write_text(
            svg.bars("START and SET EX", "commands a second", groups, names, values)
        )
    known = [name for name in names if results.latenesses.get(("burst", name))]
    if known:
        at = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100]
        points = {
            name: [(p, max(percentile(results.latenesses[("burst", name)], p), 0.01)) for p in at]
            for name in known
        }
        (folder / "burst.svg").write_text(
            svg.lines("All due at one moment: how late", "ms", "percentile of events", known, points)
        )
