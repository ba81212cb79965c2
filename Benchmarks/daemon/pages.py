"""The pages: docs/benchmarks.md for users, and the goals in docs/dev/benchmarks.md for contributors."""

import datetime

import svg
from report import bullets, machine, number, paragraph, table, times
from servers import PROJECT, Beanstalkd, Countdownd, Redis
from work import FULL, FULL_GOAL, GOALS, LOADS, MODE_TITLES, MODES

PAGE = PROJECT / "docs" / "benchmarks.md"
GOALS_PAGE = PROJECT / "docs" / "dev" / "benchmarks.md"
BEGIN, END = "<!-- goals: written by `make bench` -->\n", "<!-- end of goals -->\n"
US, REDIS, BARE = "countdownd", "Redis", "bare loop"


def loads():
    return [(mode, load) for mode, *_ in MODES for load, *_ in LOADS]


# MARK: For users


def for_users(results, about):
    quick = f", 1/{about['shrink']} of the work" if about["shrink"] > 1 else ""
    parts = [
        "# Benchmarks: countdownd beside Redis\n",
        paragraph("""Ratios are countdownd's figure divided by Redis's. For commands per second, more than 1× is
            better; for everything else, less than 1×. CPU is the server's own processor time for each command
            or event."""),
        glance(results, about),
        paragraph("""Commands per second are those of `COUNTDOWN START key BRIEF` beside `SET key v EX 60`, with new
            keys. The clients share the two cores with the server and often set the pace, so CPU tells more about
            the server than throughput does."""),
        "![Throughput and processor time relative to Redis](benchmarks/throughput.svg)\n",
        "![Lateness of 100,000 countdowns due at one moment](benchmarks/burst.svg)\n",
        "## What the rows mean\n",
        bullets(
            "**Survives `kill -9`**: `durability: process` beside `appendfsync everysec`. **Survives a power failure**: "
            "`durability: power` beside `appendfsync always`; each reply waits for the disk.",
            "**100,000 due at one moment**: one subscriber receives an event for each; lateness is the time from the "
            "moment until the event arrives.",
            "**Quiet**: 200 countdowns a second at random moments. Redis finds keys that have expired by sampling, a few "
            "times a second. **Ticking**: 100,000 countdowns that tick once a second, all watched.",
            "**PING**: another client's, p99, while the server is busy with the burst; with 5,000 countdowns that become "
            "ready at one moment for 100 subscribers that read slowly; with 50 clients that start new countdowns at "
            "pipeline 16, persisted; with a client that opens a million scopes, which Redis does not have.",
            "**Idle**: a million countdowns pending, nobody connected.",
            f"Events that were early: {worst(results, 'early')}. Events that were lost: {worst(results, 'lost')}.",
        ),
        "## beanstalkd\n",
        paragraph("beanstalkd delays jobs (`put` with a delay). The same client fills all three over one connection, with "
            "500 requests on their way at a time and keys of 12 bytes."),
        beanstalkd_table(results),
        "## How it was measured\n",
        bullets(
            f"Machine: {machine()}; load averages before the start: {about['loads']}.",
            f"Versions: countdownd {about['version']}, Redis {Redis.version()}, beanstalkd {Beanstalkd.version() or '–'}; "
            f"release build, Unix sockets. Date: {datetime.date.today().isoformat()}.",
            f"{about['rounds']} rounds{quick}; the figures are medians. In each round the servers take turns, each in a "
            "process that has just been started. The clients run on the same cores.",
            "redis-benchmark measures throughput; the kernel's accounting (`/proc/PID/task/*/schedstat`) gives CPU. "
            "Redis runs with its defaults, without snapshots and without limits for slow subscribers. "
            "[Benchmarks/daemon](../Benchmarks/daemon/README.md) describes each measurement.",
        ),
        "## Repeat it\n",
        "    make bench                                        # all of it; writes this page\n"
        "    make bench BENCH_OPTIONS=--quick                  # a fifth of the work, once; prints only\n"
        "    make bench BENCH_OPTIONS=\"--only burst --rounds 3\"\n"
        "    countdownctl bench                                # load a daemon of your own\n",
        paragraph("""Contributors: [goals and progress](dev/benchmarks.md), [growth with the number of
            countdowns and connections](dev/benchmarks-scale.md), [the timer wheel](dev/benchmarks-wheel.md),
            [many pages](dev/benchmarks-gateway.md)."""),
    ]  # fmt: skip
    if results.troubles:
        parts.append("## Not measured\n\n" + bullets(*results.troubles))
    return "\n".join(parts)


PINGS = {
    "100,000 due at one moment": ("burst",), "fan-out to 100 slow subscribers": ("ping", "fan-out"),
    "flood of new keys": ("ping", "flood"), "1,000,000 scopes opened": ("ping", "scopes"),
}  # fmt: skip


def glance(results, about):
    """Returns all results in one table."""
    nothing = ["", "", ""]

    def compared(row, what, unit=""):
        ours, peer = (results.get(row, name, what) for name in (US, REDIS))
        return [number(ours, unit), number(peer, unit), times(results.ratio(row, what))]

    rows = []
    for mode, *_ in MODES:
        rows.append([f"**Commands per second; {MODE_TITLES[mode]}**", *nothing, *nothing])
        for load, *_ in LOADS:
            rows.append([load, *compared((mode, load), "per_second"), *compared((mode, load), "cpu_us", " µs")])
    rows.append(["**Lateness of events**, p99", *nothing, *nothing])
    rows.append(["100,000 due at one moment", *compared(("burst",), "late_p99", " ms"), *compared(("burst",), "cpu_us", " µs")])
    for name in ("quiet", "ticking"):
        rows.append([name, *compared((name,), "late_p99", " ms"), *nothing])
    rows.append(["**PING of another client**, p99, during", *nothing, *nothing])
    rows += [[title, *compared(row, "ping_p99", " ms"), *nothing] for title, row in PINGS.items()]
    rows.append(["**Memory**", *nothing, *nothing])
    rows.append(["per countdown, 12-byte key", *compared(("memory",), "bytes", " B"), *nothing])
    rows.append(["per connection, of 10,000", *compared(("connections",), "bytes", " B"), *nothing])
    rows.append(["**Other**", *nothing, *nothing])
    rows.append(["wake-ups per second when idle", *compared(("memory",), "wakeups"), *nothing])
    count = f"{about['entities'] // about['shrink']:,}"
    rows.append([f"start with {count} stored", *compared(("loading",), "seconds", " s"), *nothing])
    return table(["", US, REDIS, "ratio", "CPU", "Redis's CPU", "ratio"], rows)


def worst(results, what):
    rows = [("burst",), ("quiet",), ("ticking",)]
    found = {
        name: [results.worst(row, name, what) for row in rows if (row, name) in results.values] for name in (US, REDIS)
    }  # fmt: skip
    return ", ".join(f"{name} {max(values)}" for name, values in found.items() if values) or "–"


def beanstalkd_table(results):
    rows = []
    for name in (US, REDIS, "beanstalkd"):
        get = lambda what: results.get(("memory",), name, what)  # noqa: E731
        rows.append([
            name, number(get("per_second")), number(get("cpu_us"), " µs"), number(get("bytes"), " B"),
            number(get("wakeups")),
        ])  # fmt: skip
    return table(["server", "started per second", "CPU for each", "memory for each", "wake-ups per second when idle"], rows)


# MARK: For contributors


def verdict(*met):
    return "–" if None in met else "yes" if all(met) else "**no**"


def goals(results):
    rows = []
    for row in loads():
        mode, load = row
        floors, ceiling = GOALS[load]
        rows.append(goal_row(results, f"{load}, {mode}", row, US, floors[mode], ceiling))
    for row in loads():
        if (row, FULL) in results.values:
            rows.append(goal_row(results, f"{row[1]}, {row[0]}, full reply", row, FULL, *FULL_GOAL))
    heads = ["work", "throughput", "goal", "server CPU", "goal", "met", "client busy", "bare loop's throughput", "its CPU", "CPU beside it"]
    text = table(heads, rows) + "\n"

    late, cpu = results.ratio(("burst",), "late_p99"), results.get(("burst",), US, "cpu_us")
    memory = results.get(("memory",), US, "bytes")
    others = [
        ["100,000 due at one moment: p99 lateness beside Redis", times(late), "≤ 0.1×", below(late, 0.1)],
        ["the same: CPU per event", number(cpu, " µs"), "≤ 0.5 µs", below(cpu, 0.5)],
        ["bytes per countdown, 12-byte key", number(memory, " B"), "≤ 84 B", below(memory, 84)],
        ["the same, beside Redis", times(results.ratio(("memory",), "bytes")), "≤ 0.6×", below(results.ratio(("memory",), "bytes"), 0.6)],
    ]  # fmt: skip
    for title, row in PINGS.items():
        ours, most = results.get(row, US, "ping_p99"), results.worst(row, US, "ping_max")
        measured = f"{number(ours, ' ms')} (longest {number(most, ' ms')})"
        others.append([f"PING p99 of another client, {title}", measured, "≤ 5 ms", below(ours, 5)])
    ticking = results.get(("ticking",), US, "late_p99")
    loading = results.get(("loading",), US, "seconds")
    others += [
        ["100,000 ticking, watched: p99 lateness", number(ticking, " ms"), "≤ 5 ms", below(ticking, 5)],
        ["wake-ups per second when idle", number(results.get(("memory",), US, "wakeups")), "0", below(results.get(("memory",), US, "wakeups"), 0)],
        ["loading, 1,000,000", number(loading, " s"), "≤ 1 s", below(loading, 1)],
    ]  # fmt: skip
    for state in ("call", "pipeline", "connecting", "events"):
        row = ("cancelled", state)
        half, most = results.get(row, US, "p50"), results.worst(row, US, "most")
        measured = f"{number(half, ' ms')} (longest {number(most, ' ms')})"
        others.append([f"Swift client: a cancelled call ends, {state}", measured, "≤ 10 ms", below(most, 10)])
    return text + table(["work", "measured", "goal", "met"], others)


def below(value, bound):
    return verdict(None if value is None else value <= bound)


def goal_row(results, title, row, ours, floor, ceiling):
    fast, cpu = (results.ratio(row, what, ours) for what in ("per_second", "cpu_us"))
    met = [None if fast is None else fast >= floor, None if cpu is None else cpu <= ceiling]
    bare = [times(results.ratio(row, what, BARE)) for what in ("per_second", "cpu_us")]
    factor = times(results.ratio(row, "cpu_us", ours, BARE))
    busy = results.get(row, ours, "client_busy")
    busy = "–" if busy is None else f"{busy:.0%}"
    return [
        title, times(fast), f"≥ {floor:g}×", times(cpu), f"≤ {ceiling:g}×", verdict(*met), busy, *bare, factor,
    ]  # fmt: skip


# MARK: Writing


def write(text, goals_text, results):
    PAGE.write_text(text)
    page = GOALS_PAGE.read_text()
    before, rest = page.split(BEGIN)
    stamp = f"Date {datetime.date.today().isoformat()}, countdownd {Countdownd.version()}.\n\n"
    GOALS_PAGE.write_text(before + BEGIN + "\n" + stamp + goals_text + "\n" + END + rest.split(END)[1])
    write_charts(results, PAGE.with_suffix(""))


def write_charts(results, folder):
    folder.mkdir(exist_ok=True)
    rows = []
    for mode, *_ in MODES:
        rows.append((MODE_TITLES[mode].replace("`", ""), None))
        for load, *_ in LOADS:
            values = [results.ratio((mode, load), what) for what in ("per_second", "cpu_us")]
            if any(values):
                rows.append((load, values))
    if any(values for _, values in rows):
        names = ["throughput (more is better)", "the server's CPU per command (less is better)"]
        form = lambda value: f"{value:.2f}×"  # noqa: E731
        chart = svg.bars("countdownd relative to Redis (1×)", names, rows, mark=1, form=form)
        (folder / "throughput.svg").write_text(chart)
    known = [name for name in (US, REDIS) if results.latenesses.get((("burst",), name))]
    if known:
        values = [sorted(results.latenesses[(("burst",), name)]) for name in known]
        chart = svg.percentiles("100,000 due at one moment: lateness of their events", known, values, "milliseconds")
        (folder / "burst.svg").write_text(chart)
