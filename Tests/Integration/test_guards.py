"""THROTTLE, ONCE, GATE and DEBOUNCE on the real daemon: what survives a restart."""

import contextlib
import json
import os
import random
import subprocess
import threading

import pytest

from clocks import Clocks
from countdownd import Closed, Error, Nearly, eventually, request, view

ENDS = ["terminate", "kill"]


def say(client, *words):
    return view(client(*words))


def lasting(reply):
    """Returns a view without the fields that depend on the time of the request."""
    fields = view(reply)
    if fields.get("deadline_unix_ms") is not None:
        fields["deadline_unix_ms"] = Nearly(fields["deadline_unix_ms"])
    return {name: value for name, value in fields.items() if name not in {"now_unix_ms", "remaining_ms"}}


def happened(client, sequence, pattern="*"):
    """Returns the events after `sequence`, of which none may be missing."""
    reply = view(client("EVENTS", "SINCE", sequence, "MATCH", pattern))
    assert reply["complete"] in (1, True)
    return [json.loads(line) for _, line in reply["events"]]


# THROTTLE


def take(client, key, *words):
    return view(client("THROTTLE", "TAKE", key, *words))


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_limit_is_not_forgotten_by_a_restart(daemon, how):
    client = daemon.connect()
    limit = ["BURST", 3, "RATE", "3/1h"]
    for _ in range(2):
        assert take(client, "k", *limit)["accepted"]
    client("THROTTLE", "TAKE", "gone", "BURST", 1, "RATE", "1/1h")
    client("THROTTLE", "REFUND", "gone", 1)
    before = view(client("THROTTLE", "GET", "k"))
    daemon.restart(how)
    client = daemon.connect()
    after = view(client("THROTTLE", "GET", "k"))
    assert after["generation"] == before["generation"]
    assert (after["remaining"], after["limit"]) == (1, 3)
    passed = after["now_unix_ms"] - before["now_unix_ms"]
    assert abs(before["reset_after_ms"] - after["reset_after_ms"] - passed) <= 2
    assert client("THROTTLE", "GET", "gone") is None
    assert take(client, "k", *limit)["accepted"]
    assert not take(client, "k", *limit)["accepted"]
    # Uses after the restart are stored as well; refusals are not.
    daemon.restart(how)
    assert not take(daemon.connect(), "k", *limit)["accepted"]


# ONCE


def test_a_worker_that_dies_leaves_the_work_to_others(daemon):
    worker, other = daemon.connect(), daemon.connect()
    say(worker, "ONCE", "BEGIN", "k", "TTL", "1h", "OWNER", "connection")
    assert not say(other, "ONCE", "BEGIN", "k", "TTL", "1h")["accepted"]
    worker.close()
    eventually(lambda: say(other, "ONCE", "BEGIN", "k", "TTL", "1h")["accepted"], "it is the other's")


@pytest.mark.parametrize("how", ENDS)
def test_once_survives_a_restart(daemon, how):
    client = daemon.connect()
    running = say(client, "ONCE", "BEGIN", "running", "TTL", "1h")["generation"]
    say(client, "ONCE", "BEGIN", "finished", "TTL", "1h", "OWNER", "connection")
    large = b"\x00" + b"r" * 65_535
    refused = client.error("LIMIT", "ONCE", "DONE", "finished", large + b"r")
    assert "raise limits.max-result-length" in refused, refused
    say(client, "ONCE", "DONE", "finished", large)
    say(client, "ONCE", "BEGIN", "owned", "TTL", "1h", "OWNER", "connection")
    say(client, "ONCE", "BEGIN", "gone", "TTL", "1h")
    client("ONCE", "CANCEL", "gone")
    before = {key: lasting(client("ONCE", "GET", key)) for key in ["running", "finished"]}
    daemon.restart(how)
    client = daemon.connect()
    assert {key: lasting(client("ONCE", "GET", key)) for key in ["running", "finished"]} == before
    repeated = say(client, "ONCE", "BEGIN", "finished", "TTL", "1h")
    assert (repeated["accepted"], repeated["result"]) == (0, large)
    assert not say(client, "ONCE", "BEGIN", "running", "TTL", "1h")["accepted"]
    assert say(client, "ONCE", "DONE", "running", "r", "GENERATION", running)["accepted"]
    for key in ["owned", "gone"]:
        assert say(client, "ONCE", "BEGIN", key, "TTL", "1h")["accepted"], key


# GATE


@pytest.mark.parametrize("how", ENDS)
def test_gate_survives_a_restart_and_runs_once(daemon, how):
    client = daemon.connect()
    say(client, "GATE", "OPEN", "open", "TTL", "1h")
    say(client, "GATE", "OPEN", "good")
    asked = say(client, "GATE", "CHECK", "waits", "buy", "PAYLOAD", b"\x00p")
    say(client, "GATE", "CHECK", "owned", "buy", "OWNER", "connection")
    say(client, "GATE", "OPEN", "closed")
    client("GATE", "CLOSE", "closed")
    keys = ["open", "good", "waits"]
    before = {key: lasting(client("GATE", "GET", key)) for key in keys}
    start = client("EVENTS", "LAST")
    daemon.restart(how)
    client = daemon.connect()
    assert {key: lasting(client("GATE", "GET", key)) for key in keys} == before
    assert client("GATE", "GET", "owned") is None and client("GATE", "GET", "closed") is None
    assert say(client, "GATE", "CHECK", "open", "buy")["accepted"]
    say(client, "GATE", "OPEN", "waits", "TTL", "1h")
    daemon.restart(how)
    client = daemon.connect()
    say(client, "GATE", "OPEN", "waits", "TTL", "1h")
    runs = [event for event in happened(client, start, "gate:*") if event["event"] == "run"]
    assert [(event["action"], event["generation"]) for event in runs] == [("buy", asked["generation"])]


def test_one_of_several_subscribers_takes_the_action_and_the_next_one_if_it_disconnects(daemon, client):
    workers = [daemon.connect() for _ in range(3)]
    for worker in workers:
        worker("HELLO", "3")
        worker.send("SUBSCRIBE", "gate:s")
        assert [worker.push()[0] for _ in range(2)] == [b"subscribe", b"message"]
    say(client, "GATE", "CHECK", "s", "buy", "PAYLOAD", "42")
    client("GATE", "OPEN", "s")

    def told(worker, name):
        while True:
            event = worker.event()[1]
            if event["event"] == name:
                return event

    left = list(workers)
    while len(left) > 1:
        runs = {told(worker, "run")["generation"] for worker in left}
        replies = [say(worker, "GATE", "TAKE", "s") for worker in left]
        assert [reply["accepted"] for reply in replies] == [True] + [False] * (len(left) - 1)
        assert {reply["reason"] for reply in replies[1:]} == {b"taken"}
        assert (replies[0]["action"], replies[0]["payload"]) == (b"buy", b"42")
        assert runs == {replies[0]["generation"]}
        assert say(client, "GATE", "GET", "s")["taken"]
        left.pop(0).close()
    assert told(left[0], "run")["action"] == "buy"
    assert say(left[0], "GATE", "TAKE", "s")["accepted"]
    assert client("GATE", "DONE", "s") == 0
    assert left[0]("GATE", "DONE", "s") == 1
    left[0].close()
    assert say(client, "GATE", "TAKE", "s")["reason"] == b"no-action"


@pytest.mark.parametrize("how", ENDS)
def test_an_action_that_was_taken_can_be_taken_again_after_a_restart(daemon, how):
    client = daemon.connect()
    asked = say(client, "GATE", "CHECK", "s", "buy", "PAYLOAD", b"\x00p")
    say(client, "GATE", "OPEN", "s", "TTL", "1h")
    assert say(client, "GATE", "TAKE", "s")["accepted"]
    say(client, "GATE", "CHECK", "done", "buy")
    say(client, "GATE", "OPEN", "done")
    client("GATE", "DONE", "done")
    daemon.restart(how)
    client = daemon.connect()
    found = say(client, "GATE", "GET", "s")
    assert (found["state"], found["action"], found["taken"]) == (b"open", b"buy", False)
    assert (found["payload"], found["generation"]) == (b"\x00p", asked["generation"])
    assert say(client, "GATE", "TAKE", "s", "GENERATION", asked["generation"])["accepted"]
    assert client("GATE", "DONE", "s") == 1
    assert say(client, "GATE", "GET", "done")["action"] is None


# DEBOUNCE


@pytest.mark.parametrize("how", ENDS)
def test_debounce_survives_a_restart(start_daemon, tmp_path, how):
    clocks = Clocks(tmp_path)
    daemon = start_daemon(environment=clocks.environment())
    client = daemon.connect()
    say(client, "DEBOUNCE", "CALL", "k", "1h", "PAYLOAD", b"\x00p", "MAXWAIT", "2h")
    say(client, "DEBOUNCE", "CALL", "k", "1h", "PAYLOAD", b"\x00q", "MAXWAIT", "2h")
    say(client, "DEBOUNCE", "CALL", "owned", "1h", "OWNER", "connection")
    say(client, "DEBOUNCE", "CALL", "soon", "10m", "PAYLOAD", "s")
    before = lasting(client("DEBOUNCE", "GET", "k"))
    start = client("EVENTS", "LAST")
    daemon.stop(how)
    clocks.suspend(1_200)
    daemon.start_again()
    client = daemon.connect()
    assert lasting(client("DEBOUNCE", "GET", "k")) == before
    assert client("DEBOUNCE", "GET", "owned") is None
    eventually(lambda: client("DEBOUNCE", "GET", "soon") is None, "it has fired")
    fired = [event for event in happened(client, start, "debounce:soon") if event["event"] == "fired"]
    assert [(event["payload"], event["calls"]) for event in fired] == [("s", 1)]


# All kinds


def test_a_backup_lists_the_stored_guards(daemon):
    client = daemon.connect()
    client("THROTTLE", "TAKE", "k", "BURST", 3, "RATE", "7/1s")
    client("THROTTLE", "TAKE", "k2", "BURST", 3, "RATE", "3/1h")
    say(client, "ONCE", "BEGIN", "k", "TTL", "1h")
    say(client, "GATE", "CHECK", "k", "buy")
    say(client, "DEBOUNCE", "CALL", "k", "1h", "PAYLOAD", "p")
    (throttle,) = [view for view in daemon.stored("throttle") if view["key"] == "k2"]
    assert (throttle["limit"], throttle["remaining"]) == (3, 2)
    (once,) = daemon.stored("once")
    assert (once["key"], once["state"], once["result"]) == ("k", "running", None)
    (gate,) = daemon.stored("gate")
    assert (gate["key"], gate["state"], gate["action"]) == ("k", "pending", "buy")
    (debounce,) = daemon.stored("debounce")
    assert (debounce["key"], debounce["state"], debounce["calls"], debounce["payload"]) == ("k", "waiting", 1, "p")


def test_the_log_counts_what_was_loaded(daemon):
    client = daemon.connect()
    client("COUNTDOWN", "START", "c")
    client("TIMER", "SET", "t", "1h")
    client("HUD", "SHOW", "h", "DURABLE")
    for number in range(4):
        client("THROTTLE", "TAKE", f"t{number}", "BURST", 1, "RATE", "1/1h")
    for number in range(3):
        say(client, "ONCE", "BEGIN", f"o{number}", "TTL", "1h")
    for number in range(2):
        say(client, "GATE", "CHECK", f"g{number}", "buy")
    say(client, "DEBOUNCE", "CALL", "d", "1h")
    daemon.restart()

    def loaded():
        lines = [line for line in daemon.log.splitlines() if "state loaded" in line]
        return dict(word.split("=") for word in lines[-1].split() if "=" in word)

    counts = {"countdowns": 1, "timers": 1, "huds": 1, "throttles": 4, "onces": 3, "gates": 2, "debounces": 1}
    eventually(lambda: loaded().items() >= {kind: str(count) for kind, count in counts.items()}.items(), "all are counted")


@pytest.mark.parametrize("seed", range(5))
def test_kills_never_let_more_than_the_limit_pass(daemon, seed):
    """Under load, the daemon is killed repeatedly; accepted requests count after the restart."""
    chance = random.Random(seed)
    limit = 3_000
    accepted = {"k": 0, "o": 0}
    unanswered = {"k": 0, "o": 0}

    def ask(client, key, words):
        """Sends 60 requests at once; counts the accepted and, after a kill, the unanswered."""
        sent = 0
        try:
            for _ in range(60):
                client.send_bytes(words)
                sent += 1
            while sent:
                accepted[key] += view(client.reply())["accepted"]
                sent -= 1
        except (Closed, ConnectionError):
            unanswered[key] += sent
            raise

    take = request("THROTTLE", "TAKE", "k", "BURST", limit, "RATE", f"{limit}/3650d")
    begin = request("ONCE", "BEGIN", "o", "TTL", "1d")
    for _ in range(4):
        clients = [daemon.connect() for _ in range(3)]
        timer = threading.Timer(chance.uniform(0.002, 0.05), daemon.kill)
        timer.start()
        with contextlib.suppress(Closed, ConnectionError):
            while True:
                for client in clients:
                    ask(client, "o", begin)
                    ask(client, "k", take)
        timer.join()
        daemon.start_again()
    client = daemon.connect()
    while view(client("THROTTLE", "GET", "k") or {b"remaining": limit})["remaining"]:
        ask(client, "k", take)
    assert accepted["k"] <= limit <= accepted["k"] + unanswered["k"]
    assert accepted["o"] <= 1 <= accepted["o"] + unanswered["o"]
    assert not view(client("ONCE", "BEGIN", "o", "TTL", "1d"))["accepted"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")
@pytest.mark.daemon(segment_size="64KiB")
def test_requests_that_cannot_be_stored_are_not_accepted(daemon):
    daemon.stop("terminate")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", daemon.state], check=True)
    try:
        daemon.start_again()
        client = daemon.connect()
        filler = daemon.state / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 512)
        accepted = 0
        take = ["THROTTLE", "TAKE", "k", "BURST", 3000, "RATE", "3000/3650d"]
        while not isinstance(reply := client.either("READONLY", *take), Error):
            accepted += view(reply)["accepted"]
            assert accepted < 3000, "the disk is never full"
        remaining = 3000 - accepted
        if accepted:
            assert view(client("THROTTLE", "GET", "k"))["remaining"] == remaining
        else:
            assert client("THROTTLE", "GET", "k") is None
        assert view(client("THROTTLE", "TAKE", "new", "BURST", 1, "RATE", "1/1s", "PEEK"))["accepted"]
        for words in [("ONCE", "BEGIN", "k", "TTL", "1h"), ("GATE", "OPEN", "k"), ("DEBOUNCE", "CALL", "k", "1h")]:
            client.error("READONLY", *words)
            assert client(words[0], "GET", "k") is None
        assert view(client("ONCE", "BEGIN", "own", "TTL", "1h", "OWNER", "connection"))["accepted"]

        filler.unlink()
        client.retry("READONLY", "GATE", "OPEN", "k")
        taken = view(client(*take))
        assert taken["accepted"] and taken["remaining"] == remaining - 1
        daemon.restart("kill")
        client = daemon.connect()
        assert view(client("THROTTLE", "GET", "k"))["remaining"] == remaining - 1
        assert view(client("GATE", "GET", "k"))["state"] == b"open"
        daemon.stop("terminate")
    finally:
        daemon.process.kill()
        daemon.process.wait()
        daemon.is_expected_to_run = False
        subprocess.run(["umount", "-l", daemon.state], check=True)
