#!/usr/bin/env python3
"""Runs each command with the largest inputs, alone and 1,024 times in MULTI: `make bench-largest`.

No turn of the loop may use more than 10 ms of processor time. Another client pings meanwhile, and
the table has the most processor time of the daemon's loop between a ping and its reply, which
depends little on what else the machine does. The commands and their arguments come from the
schema, so a new command is in the table without being listed here. Tables are full: 100,000 timers,
and for each kind an entity as large as it can be; 1,000 patterns take long to compare. The daemon
is COUNTDOWND; it runs with default limits and keeps no state.

    Benchmarks/daemon/largest.py [--check] [COMMAND...]
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import threading
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "Tests/Integration"))

from countdownd import Closed, Daemon, Error, Refused, ctl_binary  # noqa: E402

GOAL = 10.0
KEY = "a" * 510
TIMERS = 100_000
QUEUED = 1_024
# They end the connection or the daemon, change the protocol, reply with pushes, or need a fleet or a
# virtual clock.
LEFT_OUT = {
    "AUTH", "CLIENT KILL", "CLIENT REPLY", "HELLO", "MONITOR", "QUIT", "RESET", "SHUTDOWN",
    "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"}
LEFT_OUT_GROUPS = ("BACKUP", "CLOCK", "EXEC", "FLEET", "MULTI", "DISCARD")


def schema():
    return json.loads(subprocess.run(
        [ctl_binary(), "schema"], check=True, capture_output=True, text=True).stdout)


def value(argument):
    """Returns the largest value of an argument that its type allows."""
    kind, most = argument["type"], argument.get("max")
    match kind:
        case "key":
            return KEY
        case "text" | "bytes" | "token":
            return "a" * min(most or 1_000, 60_000)
        case "integer" | "number":
            return str(argument["most"])
        case "choice":
            return argument["values"][-1]
        case "toggle":
            return "on"
        case "duration":
            return "10d"
        case "generation":
            return "1"
        case "rate":
            return "1000000/10d"
        case "owner":
            return f"scope:{KEY}"
    return "1"


def requests(command):
    """Returns requests of a command: with what it must have, and with all options at once."""
    words, more = command["name"].split(), []
    for argument in command["arguments"]:
        part = [argument["token"]] if argument["token"] else []
        if argument["type"] != "flag":
            part.append(value(argument))
        (words if argument["required"] else more).extend(part)
    limit = [word for pair in zip(more, more[1:]) if pair[0] == "LIMIT" for word in pair]
    return [words] + ([words + limit] if limit else []) + ([words + more] if more else [])


def fill(client, kind):
    """Makes the entity of a kind that has the key KEY as large as it can be, if it is not there."""
    if kind == "hud" or client.either("NOTFOUND", kind.upper(), "GET", KEY) is None:
        for words in FILLED[kind]:
            # The limits of entities end it, and some may be there already.
            client.either("ERR LIMIT NOTFOUND", *words)


LONG = "a" * 60_000
FILLED = {
    "nav": [["NAV", "PUSH", KEY, f"{number:04}" + KEY[:500]] for number in range(1_000)],
    "hud": [
        ["HUD", "SHOW", KEY, "STATUS", "a" * 1_000, "REQUEST", f"/{number}" + "a" * 4_000]
        for number in range(64)],
    "scope": [["SCOPE", "OPEN", KEY]] + [
        ["SCOPE", "OPEN", f"s{number}" + KEY[:400], "PARENT", KEY] for number in range(1_000)],
    "once": [["ONCE", "BEGIN", KEY, "TTL", "1h"], ["ONCE", "DONE", KEY, LONG]],
    "timer": [["TIMER", "SET", KEY, "1h", "PAYLOAD", LONG[:4_096]]],
    "gate": [["GATE", "CHECK", KEY, "a", "PAYLOAD", LONG]],
    "debounce": [["DEBOUNCE", "CALL", KEY, "1h", "PAYLOAD", LONG]],
    "countdown": [["COUNTDOWN", "START", KEY, "META", "a" * 1_000]],
    "page": [["PAGE", "APPEAR", KEY]],
    "throttle": [["THROTTLE", "TAKE", KEY, "BURST", "1000000", "RATE", "1000000/10d"]],
}


def prepare(daemon, kinds):
    client, watcher = daemon.connect(3), daemon.connect()
    for first in range(0, TIMERS, 100):
        for number in range(first, first + 100):
            client.send("TIMER", "SET", f"{KEY[:480]}{number}", "1h", "CLOCK", "wall")
        for _ in range(100):
            client.receive()
    for kind in kinds:
        fill(client, kind)
    for number in range(1_000):
        watcher.send("PSUBSCRIBE", "*a" * 250 + f"*{number}*")
        watcher.receive()
    return client, watcher


class Turns:
    """Pings, and notes the processor time of the daemon's loop between a ping and its reply."""

    def __init__(self, daemon):
        self.client = daemon.connect()
        self.task = pathlib.Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/schedstat")
        self.longest, self.ends = 0.0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def cpu(self):
        return int(self.task.read_text().split()[0]) / 1e6

    def run(self):
        while not self.ends:
            begin = self.cpu()
            self.client("PING")
            self.longest = max(self.longest, self.cpu() - begin)

    def stop(self):
        self.ends = True
        self.thread.join()


def measure(daemon, turns, client, kind, words, times):
    """Returns the longest turn in milliseconds, and what came of the request."""
    if kind:
        fill(client, kind)
    time.sleep(0.02)
    turns.longest = 0.0
    outcome = "accepted"
    with contextlib.suppress(Closed):
        if times > 1:
            client.either("ERR", "MULTI")
            for _ in range(times):
                if isinstance(client.either("ERR LIMIT NOPERM", *words), Error):
                    break
            words = ["EXEC"]
        try:
            reply = client.either("ERR LIMIT NOTFOUND STALE EXECABORT NOPERM NOPROTO", *words)
        except Refused as error:
            # An error within a reply.
            return turns.longest, str(error).split()[0]
        if isinstance(reply, Error):
            outcome = str(reply).split()[0]
    # Events are delivered afterwards.
    time.sleep(0.05)
    return turns.longest, outcome


def main():
    parser = argparse.ArgumentParser(description="Runs each command with the largest inputs.")
    parser.add_argument("--check", action="store_true", help="fail if a turn is longer than 10 ms")
    parser.add_argument("commands", nargs="*", help="only these, such as 'NAV GET'")
    options = parser.parse_args()
    commands = [
        command for command in schema()["commands"]
        if command["name"] not in LEFT_OUT
        and not command["name"].startswith(LEFT_OUT_GROUPS)
        and (not options.commands or command["name"] in options.commands)
    ]
    kinds = [kind["name"] for kind in schema()["kinds"]]
    slow = []
    daemon = Daemon(arguments=["--durability", "none"])
    try:
        client, watcher = prepare(daemon, kinds)
        turns = Turns(daemon)
        print("| command | longest turn alone (ms) | 1,024 times in MULTI (ms) |\n|---|--:|--:|")
        for command in commands:
            kind = command["group"] if command["group"] in kinds else None
            cells = []
            for times in (1, QUEUED):
                found = [
                    measure(daemon, turns, client, kind, words, times)
                    for words in requests(command)
                ]
                longest = max(took for took, _ in found)
                outcomes = ", ".join(dict.fromkeys(outcome for _, outcome in found))
                cells.append(f"{longest:.1f} ({outcomes})")
                if longest > GOAL:
                    slow.append(command["name"])
            print(f"| {command['name']} | {' | '.join(cells)} |", flush=True)
        turns.stop()
    finally:
        daemon.close()
    if slow:
        print(f"above {GOAL:.0f} ms: {', '.join(dict.fromkeys(slow))}")
    sys.exit(1 if slow and options.check else 0)


main()
