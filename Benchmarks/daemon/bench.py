#!/usr/bin/env python3
"""Measures countdownd side by side with Redis, beanstalkd and a bare loop on the same work (see README.md).

The servers take turns in each round, each in a newly started process, so that other load on the
machine affects all of them alike. Results are medians of the rounds.
"""

import argparse
import contextlib
import functools
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import pages
import servers
import wire
from report import Results, load_averages
from servers import BARE_LOOP, CANCELLED_CALLS, COUNTDOWNCTL, COUNTDOWND, BareLoop, Beanstalkd, Countdownd, Redis, request
from work import FULL, LOADS, MODES


def say(text):
    print(text, file=sys.stderr, flush=True)


def redis_benchmark(server, clients, pipeline, count, words=None):
    """Returns the rate and latencies that redis-benchmark reports, the server's processor time per
    command, and the share of a core that the client takes."""
    command = [
        "redis-benchmark", "-s", str(server.path), "-c", str(clients), "-P", str(pipeline),
        "-n", str(count), "-r", "2000000000", "--csv", *(words or server.start_command),
    ]  # fmt: skip
    before, client_before = server.cpu_seconds(), client_seconds()
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE * 2)
    used, client_used = server.cpu_seconds() - before, client_seconds() - client_before
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"redis-benchmark: {(done.stderr or done.stdout)[-300:]}")
    cells = done.stdout.strip().splitlines()[-1].split('","')
    numbers = [float(cell.strip('"')) for cell in cells[1:]]
    return {
        "per_second": numbers[0], "p50_ms": numbers[3], "p99_ms": numbers[5],
        "cpu_us": used * 1e6 / count, "client_busy": client_used * numbers[0] / count,
    }  # fmt: skip


def client_seconds():
    """Returns the processor time of all clients that have ended, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def own_bench(server, *options):
    """Runs `countdownctl bench` and returns its report."""
    command = [COUNTDOWNCTL, "--socket", server.path, "bench", "--json", *options]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True,
        timeout=servers.PATIENCE * 5,
    )  # fmt: skip
    if not done.stdout:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def in_turns(makers, number):
    """Returns the makers in the order of a round: each round begins with the next one."""
    makers = list(makers)
    first = number % len(makers)
    return makers[first:] + makers[:first]


def far_requests(server, count):
    """Returns requests that start entries not due before the measurement ends."""
    return (server.start_in(b"k:%010d" % n, 30 * 3_600_000) for n in range(count))


# The groups. Each call measures one round, except for those in AT_ONCE.


def throughput(results, options, number):
    for mode, durability, fsync, log in MODES:
        kinds = {
            "countdownd": functools.partial(Countdownd, durability), FULL: functools.partial(Countdownd, durability),
            "Redis": functools.partial(Redis, fsync), "bare loop": functools.partial(BareLoop, *log),
        }  # fmt: skip
        for load, clients, pipeline, count, synced in LOADS:
            for name, make in in_turns(kinds.items(), number):
                if name == FULL and pipeline == 1:
                    continue
                with make() as server:
                    words = server.start_command[:-1] if name == FULL else None
                    commands = max((synced if mode == "always" else count) // options.shrink, clients)
                    found = redis_benchmark(server, clients, pipeline, commands, words)
                results.add((mode, load), name, found)


def burst(results, options, number):
    """Measures watched countdowns that are all due at one moment."""
    count = 100_000 // options.shrink
    for kind in in_turns([Countdownd, Redis], number):
        with kind() as server:
            due = int(time.time() * 1000) + 1_500 + count // 50
            found = wire.expiry(server, [due] * count, patience=2)
        if not found["filled_in_time"]:
            say(f"{kind.name}: filling took longer than until the moment")
        results.add_expiry(("burst",), kind.name, found)


def ping(results, options, number):
    """Measures PING of another client during a fan-out, a flood of new keys and opening scopes."""
    for kind in in_turns([Countdownd, Redis], number):
        results.add(("ping", "fan-out"), kind.name, ping_during_fan_out(kind, options))
        with kind("process" if kind is Countdownd else "everysec") as server, probing(server) as found:
            redis_benchmark(server, 50, 16, 1_000_000 // options.shrink)
        results.add(("ping", "flood"), kind.name, found)
    # Redis has no scopes.
    with Countdownd() as server, server.connect() as client:
        server.ok = b"state\r\n$4\r\nopen"
        wire.send(client, [request(b"SCOPE", b"OPEN", b"0")], server.ok)
        scopes = (request(b"SCOPE", b"OPEN", b"%d" % n, b"PARENT", b"0") for n in range(1, 1_000_000 // options.shrink))
        with probing(server) as found:
            wire.send(client, scopes, server.ok)
    results.add(("ping", "scopes"), "countdownd", found)


@contextlib.contextmanager
def probing(server):
    """Sends PING each millisecond during the block; fills the yielded dictionary at the end."""
    found = {}
    prober = wire.Background(wire.ping, str(server.path), 0.001)
    yield found
    found |= wire.summary([took * 1000 for _, took in prober.stop()])


def ping_during_fan_out(kind, options):
    """Measures PING while 5,000 countdowns become ready at one moment for 100 slow subscribers.

    Their events are 150 MB. With twice as much, max-output-per-uid would close some connections.
    """
    count, subscribers = 5_000 // options.shrink, 100
    with kind() as server:
        readers = wire.Background(wire.read_slowly, str(server.path), wire.SUBSCRIBE[kind.name], subscribers)
        prober = wire.Background(wire.ping, str(server.path), 0.001)
        due = time.time() + 4 / options.shrink + 0.5
        wire.fill(server, ((lambda n=n: server.start_request(b"k:%010d" % n, due * 1000)) for n in range(count)))
        wire.sleep_until(due + 2)
        samples = prober.stop()
        readers.stop()
    return wire.summary([took * 1000 for asked, took in samples if asked >= due])


def memory(results, options, number):
    count = 1_000_000 // options.shrink
    for kind in in_turns([Countdownd, Redis, Beanstalkd], number):
        if not kind.version():
            continue
        with kind() as server:
            before, used = server.resident(), server.cpu_seconds()
            seconds = wire.fill(server, far_requests(server, count))
            found = {
                "bytes": (server.resident() - before) / count, "per_second": count / seconds,
                "cpu_us": (server.cpu_seconds() - used) * 1e6 / count,
            }  # fmt: skip
            if number == 1:
                # Idle threads end first.
                time.sleep(6)
                found["wakeups"] = server.wakeups(6)
        results.add(("memory",), kind.name, found)
        if number == 1 and kind is not Beanstalkd:
            with kind() as server:
                results.add(("connections",), kind.name, {"bytes": wire.connections(server, 10_000)})


def lateness(results, options, number):
    """Measures lateness at low load, and with 100,000 ticking countdowns."""
    generator = random.Random(number)
    seconds = 3
    # countdownd's deadlines are in microseconds, which only `countdownctl bench` reads.
    with Redis() as server:
        start = time.time() * 1000 + 500
        dues = [int(start + generator.random() * seconds * 1000) for _ in range(seconds * 200)]
        found = wire.expiry(server, dues, patience=1)
    results.add_expiry(("quiet",), "Redis", found)
    with Countdownd() as server:
        shown = own_bench(server, "--mix", "spread", "-n", seconds * 200, "--due", f"{seconds}s", "-c", 1)
        results.add(("quiet",), "countdownd", lateness_of(shown))
    with Countdownd() as server:
        shown = own_bench(
            server, "--mix", "watched", "-n", 100_000 // options.shrink, "--steps", 3, "-P", 16, "-c", 10
        )
        results.add(("ticking",), "countdownd", lateness_of(shown))


def lateness_of(shown):
    events = shown["events"]
    return {
        "late_p50": events["arrived_late_us"]["p50"] / 1000, "late_p99": events["arrived_late_us"]["p99"] / 1000,
        "early": events["early"], "lost": events["lost"], "ping_p99": shown["ping_us"]["p99"] / 1000,
    }  # fmt: skip


def loading(results, options, number):
    """Measures a start that loads all entities: fills each server once, restarts it each round."""
    count = options.entities // options.shrink
    most = {"max-entities": 2 * count, "max-entities-per-uid": 2 * count}
    # Redis rewrites its file only on request.
    never = ["--auto-aof-rewrite-percentage", "0"]
    with (
        Countdownd("process", limits=Countdownd.limits | most) as ours,
        Redis("everysec", never) as commands, Redis("everysec", never) as rewritten,
    ):  # fmt: skip
        kept = {"countdownd": ours, "Redis, log of commands": commands, "Redis": rewritten}
        for server in kept.values():
            wire.fill(server, far_requests(server, count))
        rewrite(rewritten)
        for server in kept.values():
            server.stop()
        for again in range(options.rounds):
            for name, server in in_turns(kept.items(), again):
                results.add(("loading",), name, load(server, count))


def load(server, count):
    begin = time.monotonic()
    server.start()
    while wire.ask(server, b"DBSIZE") != b":%d\r\n" % count:
        if time.monotonic() - begin > servers.PATIENCE:
            raise RuntimeError(f"{server.name} has lost some: {wire.ask(server, b'DBSIZE')}")
        time.sleep(0.005)
    seconds = time.monotonic() - begin
    found = {"seconds": seconds, "cpu": server.cpu_seconds(), "bytes": size(server)}
    server.stop()
    return found


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


def cancelled(results, options, number):
    """Measures how long calls of the Swift client still take after they are cancelled, while the
    daemon is stopped."""
    with Countdownd() as server:
        program = subprocess.Popen(
            [CANCELLED_CALLS, server.path, str(200 // options.shrink)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        program.stdout.readline()
        server.process.send_signal(signal.SIGSTOP)
        try:
            told, _ = program.communicate("\n", timeout=servers.PATIENCE)
        finally:
            server.process.send_signal(signal.SIGCONT)
            program.kill()
    for line in told.splitlines():
        state, *took = line.split()
        took = [int(value) / 1e3 for value in took]
        results.add(
            ("cancelled", state), "countdownd",
            {"p50": wire.percentile(took, 50), "most": max(took)})  # fmt: skip


GROUPS = {
    "throughput": throughput, "burst": burst, "ping": ping, "memory": memory, "lateness": lateness,
    "loading": loading, "cancelled": cancelled,
}  # fmt: skip
# Groups that measure all rounds in one call, because they share the preparation.
AT_ONCE = {"loading"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="groups to measure, with commas; there are: " + ", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, one round; prints only")
    parser.add_argument("--rounds", type=int, help="5 unless told; 1 with --quick")
    parser.add_argument("--entities", type=lambda text: int(float(text)), default=1_000_000, help="for loading; 1e6 unless told")
    parser.add_argument("--save", metavar="FILE", help="what was measured, for --put-together")
    parser.add_argument(
        "--put-together", nargs="+", metavar="FILE", help="measures nothing; writes the pages from what was saved"
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.shrink = 5 if options.quick else 1
    options.groups = options.only.split(",") if options.only else list(GROUPS)
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    return options


def measure(options, results):
    for program in (COUNTDOWND, COUNTDOWNCTL, BARE_LOOP, CANCELLED_CALLS):
        if not program.exists():
            raise SystemExit(f"{program.name} is not built; `make bench` builds it")
    if not Redis.version() or not shutil.which("redis-benchmark"):
        raise SystemExit("there is no redis-server or redis-benchmark; install the package redis-tools")
    if "memory" in options.groups and not Beanstalkd.version():
        results.trouble("beanstalkd: its package cannot be downloaded")
    servers.raise_descriptor_limit()
    for number in range(1, options.rounds + 1):
        for group in options.groups:
            if group in AT_ONCE and number > 1:
                continue
            say(f"round {number} of {options.rounds}: {group}")
            begin = time.monotonic()
            try:
                GROUPS[group](results, options, number)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                results.trouble(f"{group}, round {number}: {error}")
                say(results.troubles[-1])
            say(f"  {time.monotonic() - begin:.0f} s")


def main():
    options = parse()
    results = Results()
    about = {
        "loads": load_averages(), "rounds": options.rounds, "shrink": options.shrink, "entities": options.entities,
        "version": Countdownd.version(),
    }  # fmt: skip
    if options.put_together:
        for name in options.put_together:
            about |= results.load(name)
    else:
        measure(options, results)
    if options.save:
        results.save(options.save, about)
    text, goals = pages.for_users(results, about), pages.goals(results)
    print(text, goals, sep="\n")
    if options.put_together or not (options.quick or options.only):
        pages.write(text, goals, results)


if __name__ == "__main__":
    main()
