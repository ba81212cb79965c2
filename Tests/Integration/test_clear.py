"""CLEAR and `countdownctl clear`: what they end, who may use them, and what the log says."""

import re

import pytest

from test_access import NOBODY, needs_root, open_up, say_as
from test_ctl import ctl, says

# For each kind that can be cleared, a command that creates an entity of a key.
MADE = {
    "countdown": "COUNTDOWN START {}",
    "timer": "TIMER SET {} 1h",
    "throttle": "THROTTLE TAKE {} BURST 2 RATE 1/1h",
    "once": "ONCE BEGIN {} TTL 1h",
    "gate": "GATE OPEN {} TTL 1h",
    "debounce": "DEBOUNCE CALL {} 1h",
}


@pytest.mark.parametrize("kind", MADE)
def test_keys_that_match_are_ended(daemon, client, kind):
    events = daemon.connect()
    events("PSUBSCRIBE", f"{kind}:*")
    for number in range(500):
        for prefix in ("in", "out"):
            client(*MADE[kind].format(f"{prefix}:{number}").split())
    for other in MADE:
        client(*MADE[other].format("in:other").split())
    done = ctl("clear", "--kind", kind, "--match", "in:*", "--socket", daemon.path)
    assert (done.returncode, done.stdout) == (0, "ended: 501\n"), done
    _, left = client(kind.upper(), "LIST", "LIMIT", 1_000)
    assert len(left) == 500
    assert client("DBSIZE") == 500 + len(MADE) - 1
    assert re.search(rf"ended by an administrator count=501 kind={kind} match=in:\* uid=\d+", daemon.log)
    ended = [f"{kind}:in:{number}" for number in range(500)]
    told = set()
    while len(told) < 501:
        channel, event = events.event()
        if event["event"] in ("cancelled", "closed"):
            told.add(channel.decode())
    assert told == {*ended, f"{kind}:in:other"}
    # What is ended stays ended.
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == 500 + len(MADE) - 1


def test_a_command_after_it_waits_for_its_end(client):
    for number in range(2_000):
        client("COUNTDOWN", "START", number)
    client.send("CLEAR", "countdown", "*")
    client.send("DBSIZE")
    assert (client.reply(), client.reply()) == (2_000, 0)


def test_what_is_wrong_is_said(daemon, client):
    reply = client.error("ERR", "CLEAR", "hud", "*")
    assert reply.startswith("ERR 'hud' is no kind that can be cleared: countdown, timer")
    says(daemon, 4, "is no kind that can be cleared", "clear", "--kind", "x", "--match", "*")
    assert ctl("clear", "--kind", "timer").returncode == 64


@needs_root
def test_only_admins_clear(daemon, client):
    open_up(daemon)
    client("COUNTDOWN", "START", "k")
    (reply,) = say_as(NOBODY, daemon, "CLEAR countdown *")
    assert reply.startswith("NOPERM CLEAR is for root") and client("DBSIZE") == 1
