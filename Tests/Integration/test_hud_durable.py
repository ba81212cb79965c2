"""HUD SHOW ... DURABLE: HUDs that survive restarts."""

import json
import subprocess

import pytest

from countdownd import eventually, view
from watching import CTL

ENDS = ["terminate", "kill"]


@pytest.mark.parametrize("how", ENDS)
def test_it_is_shown_again_as_it_was(daemon, how):
    client = daemon.connect(protocol=3)
    client("HUD", "SHOW", "ephemeral")
    shown = view(client(
        "HUD", "SHOW", "s", "KIND", "progress", "STATUS", "重试…", "MAX", "1h", "MASK", "black", "DURABLE"
    ))  # fmt: skip
    assert shown["durable"] is True and view(client("HUD", "GET", "ephemeral"))["durable"] is False
    client("HUD", "PROGRESS", "s", "0.25")
    eventually(lambda: view(client("HUD", "GET", "s"))["state"] == b"visible", "it is visible")
    client("HUD", "DISMISS", "s", "DELAY", "30m")
    before = view(client("HUD", "GET", "s"))
    assert before["dismissing"] and before["fraction"] == 0.25
    daemon.restart(how)
    client = daemon.connect(protocol=3)
    assert client("DBSIZE") == 1
    after = view(client("HUD", "GET", "s"))
    passing = {"now_unix_ms", "remaining_ms", "deadline_unix_ms"}
    assert {n: v for n, v in after.items() if n not in passing} == {
        n: v for n, v in before.items() if n not in passing
    }
    assert abs(after["deadline_unix_ms"] - before["deadline_unix_ms"]) <= 2
    assert view(client("HUD", "LIST")[1][0])["durable"] is True
    # Its later changes are stored, too.
    client("HUD", "DISMISS", "s")
    eventually(lambda: client("HUD", "GET", "s") is None, "it is gone")
    assert client("PING")
    daemon.restart(how)
    assert daemon.connect()("DBSIZE") == 0


def test_what_was_shown_for_long_enough_meanwhile_ends_late(daemon):
    client = daemon.connect()
    client("HUD", "SHOW", "s", "MAX", "300ms", "DURABLE")
    eventually(lambda: view(client("HUD", "GET", "s"))["state"] == b"visible", "it is visible")
    client("PING")
    last = client("EVENTS", "LAST")
    daemon.kill()
    daemon.start_again()
    client = daemon.connect()
    eventually(lambda: client("HUD", "GET", "s") is None, "it is gone")
    # Clients that were disconnected receive the events, with the reason.
    told = view(client("EVENTS", "SINCE", last, "MATCH", "hud:*"))
    assert told["complete"]
    events = [json.loads(event) for _, event in told["events"]]
    assert [event["event"] for event in events] == ["will-disappear", "did-disappear"]
    assert all(event["end"] == "timed-out" and event["durable"] for event in events)


def test_an_owner_and_durable_exclude_each_other(client):
    assert "DURABLE" in client.error("ERR", "HUD", "SHOW", "s", "DURABLE", "OWNER", "connection")
    assert client("HUD", "GET", "s") is None
    assert view(client("HUD", "SHOW", "s", "DURABLE", "OWNER", "none"))["durable"]


def test_its_events_survive_the_end_of_the_daemon(daemon):
    client = daemon.connect()
    last = client("EVENTS", "LAST")
    client("HUD", "SHOW", "plain")
    client("HUD", "SHOW", "s", "STATUS", "one", "FADEIN", 0, "FADEOUT", 0, "DURABLE")
    client("HUD", "STATUS", "s", "two")
    client("HUD", "SHOW", "s", "STATUS", "three", "DURABLE")
    before = view(client("EVENTS", "SINCE", last))
    events = [json.loads(event) for _, event in before["events"]]
    assert [(event["event"], event["status"]) for event in events] == [
        ("will-appear", "one"), ("did-appear", "one"), ("updated", "two"), ("updated", "three"),
    ]  # fmt: skip
    assert events[3]["superseded_generation"] == events[0]["generation"]
    daemon.restart("kill")
    after = view(daemon.connect()("EVENTS", "SINCE", last))
    assert after["events"] == before["events"]


@pytest.mark.skipif(not CTL.exists(), reason=f"{CTL} is not built")
def test_countdownctl_shows_one(daemon, client):
    command = [CTL, "--socket", daemon.path, "hud", "show", "s", "--durable"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    assert view(client("HUD", "GET", "s"))["durable"]
