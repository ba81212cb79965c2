#!/usr/bin/env python3
"""Times single commands with their largest inputs: `make bench-largest`.

No request may hold the loop for long: another client pings meanwhile, and the table has its longest
wait. The goal is 10 ms. The daemon is COUNTDOWND; it runs with default limits and keeps no state.
"""

import multiprocessing
import pathlib
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "Tests/Integration"))

from countdownd import Daemon, Error  # noqa: E402

KEY = "a" * 510
MANY = 100_000


def pages(client):
    """A stack of many pages, each bound to a page with a load."""
    for number in range(1_000):
        reply = client.either("LIMIT", "NAV", "PUSH", "stack", f"page {number}", "PAGE")
        if isinstance(reply, Error):
            return


def timers(client):
    for first in range(0, MANY, 100):
        for number in range(first, first + 100):
            client.send("TIMER", "SET", f"{KEY[:480]}{number}", "1h", "CLOCK", "wall")
        for _ in range(100):
            client.receive()


def patterns(pattern):
    def subscribe(client, watcher):
        for number in range(900):
            watcher.send("PSUBSCRIBE", pattern.replace("#", str(number)))
            watcher.receive()

    return subscribe


CASES = [
    ("PING", None, ["PING"]),
    ("HUD MASK, 8 KiB of slashes", None, ["HUD", "MASK", "/" * 8_192]),
    ("HUD MASK, 8 KiB of é", None, ["HUD", "MASK", "/api/" + "é" * 4_000]),
    ("HUD SHOW with such a REQUEST", None, ["HUD", "SHOW", "s", "REQUEST", "/" * 8_192]),
    ("PAGE LIST of bound pages", lambda c, _: pages(c), ["PAGE", "LIST", "LIMIT", "1000"]),
    ("START, 900 patterns of 250 stars", patterns("*a" * 250 + "*#*"), ["COUNTDOWN", "START", KEY]),
    (
        "START, 900 patterns of long sections",
        patterns("*" + "a" * 200 + "?" + "a" * 50 + "#*"),
        ["COUNTDOWN", "START", KEY],
    ),
    (
        f"EVENTS SINCE with 500 stars, {MANY:,} timers",
        lambda c, _: timers(c),
        ["EVENTS", "SINCE", 0, "MATCH", "*a" * 500 + "b"],
    ),
    (
        f"TIMER LIST with 500 stars, {MANY:,} timers",
        lambda c, _: timers(c),
        ["TIMER", "LIST", "LIMIT", 1_000, "MATCH", "*a" * 500 + "b"],
    ),
    (
        f"INFO everything, {MANY:,} timers",
        lambda c, _: timers(c),
        ["INFO", "everything"],
    ),
    ("COMMAND DOCS", None, ["COMMAND", "DOCS"]),
    ("HELP", None, ["HELP"]),
    ("MULTI of 1,024 STARTs", "multi", ["EXEC"]),
]


def ping(client, longest, ends):
    while not ends.is_set():
        begin = time.perf_counter()
        client("PING")
        longest.value = max(longest.value, (time.perf_counter() - begin) * 1e3)


def measure(prepare, words):
    daemon = Daemon(arguments=["--durability", "none"])
    try:
        client, watcher, pinger = daemon.connect(), daemon.connect(), daemon.connect()
        if prepare == "multi":
            client("MULTI")
            for number in range(1_024):
                client("COUNTDOWN", "START", f"k{number}")
        elif prepare:
            prepare(client, watcher)
        longest, ends = multiprocessing.Value("d"), multiprocessing.Event()
        process = multiprocessing.Process(target=ping, args=(pinger, longest, ends))
        process.start()
        time.sleep(0.1)
        longest.value = 0
        begin = time.perf_counter()
        client.send(*words)
        # Without the time that this program takes to read the reply.
        client.socket.recv(1)
        took = (time.perf_counter() - begin) * 1e3
        time.sleep(0.1)
        ends.set()
        process.join()
        return took, longest.value
    finally:
        daemon.close()


def main():
    print("| request | reply after (ms) | longest PING (ms) |\n|---|--:|--:|")
    for name, prepare, words in CASES:
        took, longest = measure(prepare, words)
        print(f"| {name} | {took:.1f} | {longest:.1f} |", flush=True)


main()
