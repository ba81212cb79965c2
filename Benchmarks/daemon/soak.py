#!/usr/bin/env python3
"""Loads the daemon with good and bad clients for minutes; exits with status 1 if anything fails.

Good clients run countdownctl bench repeatedly, which checks that no event is early or lost. Bad
clients never read, disconnect in the middle of a command, send garbage, or announce bytes that they
never send. At the end everything they created must be removed, memory must not have grown, and the
state must be intact. The change log has small segments, so that they are folded and reused often.
"""

import argparse
import collections
import os
import random
import statistics
import subprocess
import threading
import time

import servers
import wire
from bench import own_bench, say
from servers import COUNTDOWNCTL, COUNTDOWND, Countdownd, request

MIB = 1 << 20
# How many bytes memory may grow from the second quarter of the time to the last one.
ROOM = 8 * MIB

LIMITS = {"max-output": "4MiB", "max-connections": 2_000, "max-connections-per-uid": 2_000}


def garbage(client, generator):
    client.sendall(bytes(generator.randrange(256) for _ in range(generator.randrange(1, 5_000))))


def huge_lengths(client, generator):
    client.sendall(
        generator.choice([
            b"*1000000000\r\n", b"*3\r\n$999999999999\r\nabc", b"*-5\r\n*99999999999999999999\r\n",
            b"*2\r\n$4\r\nPING\r\n$65537\r\n", b"*1048577\r\n" + b"$1\r\na\r\n" * 1_000,
        ])
    )  # fmt: skip


def half_a_command(client, generator):
    whole = request(b"COUNTDOWN", b"START", b"soak:half", b"META", b"x" * 3_000)
    client.sendall(whole[: generator.randrange(1, len(whole))])


def endless_line(client, generator):
    client.sendall(b"PING " + b"x" * generator.randrange(1, 200_000))


def never_read_replies(client, generator):
    """Requests long replies until the daemon stops reading."""
    client.settimeout(0.2)
    for _ in range(100):
        client.sendall(request(b"COMMAND", b"DOCS") * 20)


def never_read_events(client, generator):
    client.sendall(request(b"PSUBSCRIBE", b"*"))


def owner_that_goes(client, generator):
    words = [b"OWNER", b"connection"]
    for number in range(200):
        key = b"soak:owned:%d:%d" % (generator.randrange(1 << 30), number)
        client.sendall(request(b"COUNTDOWN", b"START", key, b"EVERY", b"10ms", *words))
        client.sendall(request(b"TIMER", b"SET", key, b"50ms", b"EVERY", b"50ms", *words))
        client.sendall(request(b"HUD", b"SHOW", key, *words))


MISBEHAVIOURS = [
    garbage, huge_lengths, half_a_command, endless_line, never_read_replies, never_read_events,
    owner_that_goes,
]  # fmt: skip


class BadClients(threading.Thread):
    """Runs misbehaving clients, each for up to 3 seconds."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.generator = server, random.Random(seed)
        self.is_over = threading.Event()
        self.counts = collections.Counter()
        self.trouble = None

    def run(self):
        clients = []
        try:
            while not self.is_over.wait(0.02):
                misbehaviour = self.generator.choice(MISBEHAVIOURS)
                client = self.server.connect()
                clients.append((time.monotonic() + self.generator.random() * 3, client))
                self.counts[misbehaviour.__name__] += 1
                try:
                    misbehaviour(client, self.generator)
                except OSError:
                    pass  # The daemon has closed the connection or stopped reading, as it should.
                now = time.monotonic()
                for end, client in clients:
                    if end < now:
                        client.close()
                clients = [one for one in clients if one[0] >= now]
        except Exception as error:
            self.trouble = f"the daemon does not accept connections: {error!r}"
        finally:
            for _, client in clients:
                client.close()


def good_load(server, number):
    """Runs one of several mixes for a few seconds and returns its problems."""
    mixes = [
        ["--mix", "spread", "-n", 20_000, "--due", "4s", "--rate", 20_000],
        ["--mix", "start-cancel", "-n", 100_000, "-P", 16],
        ["--mix", "watched", "-n", 2_000, "--steps", 20, "--every", "100ms"],
        ["--mix", "burst", "-n", 5_000, "--due", "2s", "-P", 16],
        ["--mix", "get", "-n", 50_000, "-P", 4],
    ]
    options = mixes[number % len(mixes)]
    shown = own_bench(server, *options)
    return [f"{options[1]}: {problem}" for problem in shown["problems"]]


def information(server):
    text = wire.ask(server, b"INFO").decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def settle(server):
    """Waits until everything that clients created is removed; returns what is left."""
    end = time.monotonic() + 15
    while True:
        info = information(server)
        left = {name: int(info[name]) for name in ("countdowns", "timers", "huds")}
        left["connected_clients"] = int(info["connected_clients"]) - 1
        if not any(left.values()) or time.monotonic() > end:
            return [f"{count} {name} are left" for name, count in left.items() if count]
        time.sleep(0.1)


def trouble_with_state(info):
    """Returns the problems with the state that INFO reports."""
    names = {"read_only": ("", "0"), "last_error": ("",), "fold_error": ("",)}
    found = [(name, info.get(name, "")) for name in names if info.get(name, "") not in names[name]]
    return [f"{name}: {value}" for name, value in found]


def check_state(server):
    """Returns the problems that `countdownctl state check` finds after the daemon has ended."""
    command = [str(COUNTDOWNCTL), "state", "check", str(server.directory / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
    return [f"state check: {done.stdout}{done.stderr}"] if done.returncode != 0 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--durability", default="process", choices=["none", "process", "power"])
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    options = parser.parse_args()
    if not COUNTDOWND.exists():
        raise SystemExit("countdownd is not built; `make soak` does it")
    seed = options.seed or int.from_bytes(os.urandom(4), "little")
    say(f"{options.seconds} s, seed {seed}")
    problems, sizes, rounds = [], [], 0
    with Countdownd(options.durability, LIMITS, ["log: {segment-size: 64KiB}"]) as server:
        bad = BadClients(server, seed)
        bad.start()
        begin = time.monotonic()
        try:
            while (passed := time.monotonic() - begin) < options.seconds and not problems:
                problems += good_load(server, rounds)
                rounds += 1
                sizes.append((passed, server.resident()))
                if bad.trouble or server.process.poll() is not None:
                    break
                say(f"{passed:5.0f} s  {sizes[-1][1] / MIB:6.1f} MiB  {sum(bad.counts.values())} bad clients")
        except RuntimeError as error:
            problems.append(str(error))
        finally:
            bad.is_over.set()
            bad.join()
        if bad.trouble:
            problems.append(bad.trouble)
        if server.process.poll() is None:
            problems += settle(server)
            info = information(server)
            problems += trouble_with_state(info)
            say(f"protocol errors {info['protocol_errors']}, cut off {info['output_limit_disconnections']}")
            server.stop()
        if server.process.returncode != 0:
            log = (server.directory / "log").read_text()[-3000:]
            problems.append(f"the daemon ended with status {server.process.returncode}: {log}")
        elif options.durability != "none":
            problems += check_state(server)
    say("bad clients: " + ", ".join(f"{name} {count}" for name, count in sorted(bad.counts.items())))
    problems += growth(sizes, options.seconds)
    for problem in problems:
        say(f"NOT WELL: {problem}")
    if problems:
        raise SystemExit(1)
    say(f"well: {rounds} rounds of load; none early, none lost, nothing left, memory flat")


def growth(sizes, seconds):
    """Returns a problem if memory kept growing after the second quarter of the time."""
    second = [size for at, size in sizes if seconds / 4 <= at < seconds / 2]
    last = [size for at, size in sizes if at >= seconds * 3 / 4]
    if not second or not last:
        return ["it was too short to tell whether memory is flat; 60 s are enough"]
    grown = statistics.median(last) - statistics.median(second)
    say(f"memory: {statistics.median(second) / MIB:.1f} MiB, then {statistics.median(last) / MIB:.1f} MiB")
    return [f"memory has grown by {grown / MIB:.1f} MiB"] if grown > ROOM else []


if __name__ == "__main__":
    servers.raise_descriptor_limit()
    main()
