"""The tests' own client fails a test that does not name the error which it receives."""

import pytest

from countdownd import Refused, request

PAUSE = ["COUNTDOWN", "PAUSE", "none"]


def in_a_pipeline(client):
    client.send_bytes(request("PING") + request(*PAUSE))
    client.reply()
    client.reply()


def in_a_transaction(client):
    client("MULTI")
    client(*PAUSE)
    client("EXEC")


@pytest.mark.parametrize("unnamed", [
    lambda client: client(*PAUSE), lambda client: client.error("STALE", *PAUSE),
    lambda client: client.either("STALE ERR", *PAUSE), lambda client: client.retry("LOADING", *PAUSE),
    lambda client: client.error("ERR", "THROTTLE", "PEEK", "k"), in_a_pipeline, in_a_transaction,
], ids=["alone", "another code", "other codes", "repeated", "no such command", "in a pipeline", "in a transaction"])  # fmt: skip
def test_an_error_that_is_not_named_fails_a_test(client, unnamed):
    with pytest.raises(Refused):
        unnamed(client)


def test_an_error_that_does_not_come_fails_a_test(client):
    with pytest.raises(AssertionError, match="PONG"):
        client.error("ERR", "PING")


def test_a_marker_comes_after_all_events_and_snapshots(client, daemon):
    watcher = daemon.connect()
    for number in range(3_000):
        client("TIMER", "SET", number, "1h")
    watcher.send("PSUBSCRIBE", "timer:*")
    assert len(watcher.caught_up(client)) == 3_001
    client("TIMER", "DEL", "5")
    assert len(watcher.arrived()) == 1 and not watcher.arrived()
