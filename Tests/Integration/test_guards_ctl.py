"""countdownctl throttle, once, gate and debounce: their output and their exit status."""

import json
import os
import subprocess

import pytest

from countdownd import PATIENCE, binary, eventually, view

CTL = binary().parent / "countdownctl"

pytestmark = pytest.mark.daemon(virtual_time=True)


def ctl(daemon, *words):
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        [CTL, *words, "--socket", daemon.path], capture_output=True, text=True, env=environment,
        timeout=PATIENCE)


def says(daemon, status, text, *words):
    done = ctl(daemon, *words)
    assert done.returncode == status, done
    assert text in done.stdout + done.stderr, done


def test_throttle_commands_print_their_views(daemon):
    limit = ["--burst", "2", "--rate", "2/60s"]
    says(daemon, 0, "accepted  k  2 of 2 left", "throttle", "take", "k", *limit, "--peek")
    says(daemon, 0, "accepted  k  1 of 2 left, all again in 30 s", "throttle", "take", "k", *limit)
    says(daemon, 0, "0 of 2 left", "throttle", "take", "k", *limit)
    says(daemon, 1, "refused   k: try again in 30 s, 0 of 2 left", "throttle", "take", "k", *limit)
    says(daemon, 4, "COST 3 is more than BURST 2", "throttle", "take", "k", *limit, "--cost", "3")
    says(daemon, 0, "exhausted", "throttle", "get", "k")
    says(daemon, 0, "0/2", "throttle", "list")
    shown = json.loads(ctl(daemon, "throttle", "list", "--json").stdout)
    assert (shown["key"], shown["remaining"]) == ("k", 0)
    says(daemon, 0, "k  2 of 2 left", "throttle", "refund", "k", "9")
    says(daemon, 1, "rate limit 'k' is unused", "throttle", "refund", "k")
    says(daemon, 1, "rate limit 'k' is unused", "throttle", "get", "k")


def test_once_commands_print_their_views(daemon):
    says(daemon, 0, "accepted  k  running", "once", "begin", "k", "--ttl", "1h")
    says(daemon, 1, "refused   k was used before: running", "once", "begin", "k", "--ttl", "1h")
    says(daemon, 0, "accepted  k  done: paid", "once", "done", "k", "paid")
    says(daemon, 1, "done: paid", "once", "done", "k", "again")
    says(daemon, 1, "done: paid", "once", "begin", "k", "--ttl", "1h")
    says(daemon, 0, "paid", "once", "list")
    says(daemon, 0, "cancelled", "once", "cancel", "k")
    says(daemon, 1, "there is no idempotency key 'k'", "once", "cancel", "k")
    says(daemon, 1, "there is no idempotency key 'k'", "once", "get", "k")


def test_gate_commands_print_their_views(daemon):
    asked = ["gate", "check", "s", "buy", "--payload", "p", "--ttl", "30s"]
    says(daemon, 1, "login     s: 'buy' waits for 30 s", *asked)
    says(daemon, 0, "buy", "gate", "list")
    says(daemon, 0, "run       s", "gate", "check", "s", "look", "--required", "off")
    says(daemon, 1, "login     s: 'buy' waits for 30 s", "gate", "take", "s")
    says(daemon, 0, "s  open  for 30 s  'buy'  p", "gate", "open", "s", "--ttl", "30s")
    says(daemon, 0, "run       s  open", "gate", "check", "s", "buy")
    says(daemon, 0, "run       s  open  for 30 s  'buy'  p", "gate", "take", "s")
    says(daemon, 1, "refused: no-action  s  open", "gate", "take", "s")
    says(daemon, 1, "session 's' has no action to run, or another client runs it", "gate", "done", "s")
    says(daemon, 1, "no action waits for session 's'", "gate", "cancel", "s")
    says(daemon, 0, "s  closed", "gate", "close", "s")
    says(daemon, 1, "session 's' is not open", "gate", "close", "s")
    says(daemon, 1, "session 's' is closed and no action waits for it", "gate", "get", "s")


def test_debounce_commands_print_their_views(daemon):
    says(daemon, 0, "k  waiting  1 call, fires in 2 s", "debounce", "call", "k", "2s", "--payload", "p")
    says(daemon, 0, "2 calls", "debounce", "call", "k", "2s", "--max-wait", "9s")
    says(daemon, 0, "waiting", "debounce", "list")
    says(daemon, 0, "fired", "debounce", "flush", "k")
    says(daemon, 1, "no call of debouncer 'k' waits", "debounce", "flush", "k")
    says(daemon, 0, "k  resting  nothing waits, quiet in 2 s", "debounce", "call", "k", "2s", "--leading")
    says(daemon, 0, "cancelled", "debounce", "cancel", "k")
    says(daemon, 1, "debouncer 'k' is idle", "debounce", "get", "k")


@pytest.mark.parametrize("words", [
    ["once", "begin", "k", "--ttl", "1h"], ["throttle", "take", "k", "--burst", "5", "--rate", "5/1h"],
    ["throttle", "refund", "k", "1"], ["debounce", "call", "k", "1h"],
])  # fmt: skip
def test_the_exit_status_of_a_repetition_is_2(daemon, words):
    daemon.connect()("THROTTLE", "TAKE", "k", "BURST", 5, "RATE", "5/1h", "COST", 2)
    says(daemon, 0, "k", *words, "--token", "t")
    says(daemon, 2, "k", *words, "--token", "t")


@pytest.mark.parametrize("family", ["throttle", "once", "gate", "debounce"])
def test_help_lists_the_subcommands(daemon, family):
    done = ctl(daemon, family, "--help")
    assert done.returncode == 0
    assert f"countdownctl {family}" in done.stdout and "list" in done.stdout


def test_watch_shows_them_line_by_line(daemon):
    client = daemon.connect()
    watch = subprocess.Popen(
        [CTL, "watch", "--gate", "--throttle", "--once", "--debounce", "--socket", daemon.path],
        stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: client("PUBSUB", "NUMPAT") == 4, "it has subscribed")
        client("GATE", "CHECK", "s", "buy", "PAYLOAD", "42")
        client("GATE", "OPEN", "s")
        client("THROTTLE", "TAKE", "t", "BURST", 1, "RATE", "1/30s")
        client("THROTTLE", "TAKE", "t", "BURST", 1, "RATE", "1/30s")
        client("ONCE", "BEGIN", "o", "TTL", "1h")
        client("ONCE", "DONE", "o", "paid")
        client("DEBOUNCE", "CALL", "d", "1s", "PAYLOAD", "text", "LEADING")
        lines = [watch.stdout.readline().split("  ") for _ in range(8)]
    finally:
        watch.terminate()
        watch.wait()
    told = [" ".join(part.strip() for part in line[1:]) for line in lines]
    assert told == [
        "gate:s pending pending buy 42", "gate:s opened open buy 42", "gate:s run open buy 42",
        "throttle:t accepted exhausted 0 of 1 left",
        "throttle:t refused exhausted 0 of 1 left try again in 30 s reason: rate",
        "once:o started running", "once:o done done paid",
        "debounce:d fired resting × 1 text reason: leading",
    ]  # fmt: skip
    assert view(client("GATE", "GET", "s"))["state"] == b"open"
