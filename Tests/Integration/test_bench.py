"""countdownctl bench: its reports are true, and it leaves nothing behind."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from countdownd import PATIENCE, binary, eventually
from test_ctl import ctl

COUNTDOWNCTL = binary().parent / "countdownctl"


def command(daemon, *options):
    return [COUNTDOWNCTL, "--socket", daemon.path, "bench", *map(str, options)]


def run(daemon, *options, status=0):
    done = subprocess.run(
        command(daemon, *options), capture_output=True, text=True, timeout=PATIENCE * 2
    )
    assert done.returncode == status, done
    return done


def report(daemon, *options):
    done = run(daemon, "--json", *options)
    assert done.stderr == "", "a progress bar where nobody sees it"
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "options, commands",
    [
        ([], {"start": 500}),
        (["--due", "1h", "--threads", 2], {"start": 500}),
        (["--mix", "start-cancel"], {"start": 500, "cancel": 500}),
        (["--mix", "start-cancel", "--rate", 5000], {"start": 500, "cancel": 500}),
        (["--mix", "get"], {"get": 500}),
    ],
)
@pytest.mark.parametrize("pipeline", [1, 7])
def test_commands_are_counted_by_both_ends(daemon, options, commands, pipeline):
    shown = report(daemon, "-n", 500, "-c", 3, "-P", pipeline, *options)
    assert {name: values["count"] for name, values in shown["latency_us"].items()} == commands
    assert shown["commands"] == sum(commands.values())
    assert shown["commands_per_second"] > 0 and shown["problems"] == []
    assert shown["events"] is None
    for values in shown["latency_us"].values():
        assert 0 < values["min"] <= values["p50"] <= values["p99"] <= values["max"]
    info = daemon.info()
    assert int(info["starts_accepted"]) == 500
    # Each countdown is cancelled once, by the mix or by the cleanup.
    assert int(info["cancelled"]) == 500
    assert int(info["countdowns"]) == 0
    assert int(info["total_error_replies"]) == 0


@pytest.mark.alone
@pytest.mark.parametrize(
    "options, ticks",
    [
        (["--mix", "burst", "--due", "500ms"], 0),
        (["--mix", "spread", "--due", "500ms"], 0),
        (["--mix", "watched", "--steps", 3, "--every", "2s", "-P", 5], 1000),
    ],
)
def test_bench_receives_every_event(daemon, options, ticks):
    shown = report(daemon, "-n", 500, "-c", 4, *options)
    events = shown["events"]
    assert (events["ready"], events["early"], events["lost"]) == (500, 0, 0)
    # The last step of a countdown sends ready, not a tick.
    assert events["ticks"] + events["ticks_merged"] == ticks
    assert events["late_us"]["count"] == 500 + events["ticks"]
    assert events["arrived_late_us"]["count"] == 500 + events["ticks"]
    pings = shown["ping_us"]["count"]
    assert pings > 0
    if "spread" in options:
        assert shown["ping_while_due_us"]["count"] == pings
    if "watched" in options:
        # Nothing ticks in the first 200 ms, and a PING is sent every 10 ms.
        assert 0 < shown["ping_while_due_us"]["count"] <= pings - 10
    assert int(daemon.info()["countdowns"]) == 0
    assert int(daemon.info("lateness")["expired"]) == 500 + ticks


def test_the_report_is_human_readable(daemon):
    output = run(daemon, "-n", 100, "--mix", "spread", "--due", "50ms").stdout
    assert "spread: 100 countdowns over 50 connections, pipeline 1, flat out" in output
    assert "100 ready" in output and "all accepted, none early, none lost" in output


def test_countdowns_are_kept_under_the_prefix_in_the_report(daemon, client):
    shown = report(daemon, "-n", 100, "--keep", "--due", "1h")
    assert re.fullmatch("bench:[0-9a-f]{8}:", shown["key_prefix"])
    _, page = client("COUNTDOWN", "LIST", "MATCH", shown["key_prefix"] + "*", "LIMIT", 1000)
    assert len(page) == 100
    assert int(daemon.info()["countdowns"]) == 100
    client("COUNTDOWN", "START", "other")
    done = ctl("clear", "--kind", "countdown", "--match", shown["key_prefix"] + "*", "--socket", daemon.path)
    assert (done.returncode, done.stdout) == (0, "ended: 100\n")
    assert client("DBSIZE") == 1


def test_latency_counts_from_when_a_command_should_have_been_sent(daemon):
    """A pause of half a second delays each command that is due in it, not only the one sent."""
    process = subprocess.Popen(
        command(daemon, "--json", "-n", 3000, "-c", 1, "--rate", 1000), stdout=subprocess.PIPE
    )
    try:
        eventually(lambda: int(daemon.info()["starts_accepted"]) > 0, "it has begun")
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=PATIENCE)
    latency = json.loads(output)["latency_us"]["start"]
    assert latency["count"] == 3000
    # A sixth of the commands is delayed, or less if the pause began late: more than this one command.
    assert latency["p99"] >= 200_000, latency


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("options", [["--mix", "burst", "--due", "1h"], ["--rate", 100]])
def test_an_interrupted_bench_cleans_up(daemon, name, options):
    process = subprocess.Popen(
        command(daemon, "--json", "-n", 2000, *options), stdout=subprocess.PIPE
    )
    enough = 2000 if "burst" in options else 10
    eventually(lambda: int(daemon.info()["starts_accepted"]) >= enough, "it has begun")
    process.send_signal(getattr(signal, name))
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    shown = json.loads(output)
    assert shown["interrupted"] and shown["problems"] == []
    info = daemon.info()
    assert int(info["countdowns"]) == 0
    assert int(info["starts_accepted"]) == shown["started"]


def test_a_terminal_shows_a_progress_bar(daemon):
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        command(daemon, "-n", 500, "--rate", 500),
        stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(terminal)
    output = b""
    try:
        while True:
            assert select.select([master], [], [], PATIENCE)[0], output
            try:
                data = os.read(master, 1 << 16)
            except OSError:
                break
            if not data:
                break
            output += data
    finally:
        os.close(master)
        assert process.wait(PATIENCE) == 0, output
    assert re.search(r"start +[━╾─]{30} \d+ %", output.decode()), output
    # The progress bar is erased from the line where the report begins.
    assert b"\r\x1b[K" in output.split(b"start: 500")[0][-30:], output


@pytest.mark.daemon(config="limits:\n  max-connections: 5\n  reserved-connections: 0\n")
def test_bench_reports_too_many_connections(daemon):
    error = run(daemon, "-n", 100, "-c", 10, status=4).stderr
    assert "LIMIT max-connections is 5" in error
    eventually(lambda: int(daemon.info()["connected_clients"]) == 1, "its connections are closed")


@pytest.mark.daemon(config="limits:\n  max-entities: 50\n")
def test_bench_reports_too_many_countdowns(daemon):
    error = run(daemon, "-n", 100, "-P", 4, status=4).stderr
    assert "LIMIT max-entities is 50" in error
    assert int(daemon.info()["countdowns"]) == 0


@pytest.mark.daemon(config="limits:\n  max-output: 1KiB\n")
def test_bench_reports_a_listener_that_was_dropped(daemon):
    error = run(daemon, "-n", 5000, "-P", 100, "--mix", "burst", "--due", "100ms", status=4).stderr
    assert "max-output" in error
    assert int(daemon.info()["countdowns"]) == 0


def test_bench_without_a_daemon_says_how_to_start_one(daemon):
    daemon.terminate()
    error = run(daemon, "-n", 10, status=3).stderr
    assert "no countdownd listens" in error and "countdownd --socket" in error


def test_help_has_examples(daemon):
    output = run(daemon, "--help").stdout
    assert "Examples:" in output and "--mix burst" in output
