"""Scopes over the real socket: a tree of owners, and the events that travel in it."""

import json

import redis

from countdownd import PATIENCE, eventually, request, view


def test_an_event_is_taken_once_by_the_nearest_handler(daemon, client):
    controller, window = daemon.connect(protocol=3), daemon.connect(protocol=3)
    client("SCOPE", "OPEN", "window")
    client("SCOPE", "OPEN", "controller", "PARENT", "window")
    client("SCOPE", "OPEN", "cell", "PARENT", "controller")
    assert client("SCOPE", "EMIT", "cell", "tap") is None
    assert window("SCOPE", "HANDLE", "window", "*") == 1
    assert controller("SCOPE", "HANDLE", "controller", "tap") == 1
    assert client("SCOPE", "EMIT", "cell", "tap", b"\xff\x00") == b"controller"
    channel, event = controller.event()
    assert channel == b"scope:controller"
    assert (event["event"], event["name"], event["target"], event["phase"]) == (
        "emitted", "tap", "cell", "bubble",
    )  # fmt: skip
    assert event["payload_base64"] == "/wA="
    assert not window.arrived()
    # A capturing handler further up takes the event first.
    window("SCOPE", "HANDLE", "window", "tap", "CAPTURE")
    assert client("SCOPE", "EMIT", "cell", "tap") == b"window"
    assert window.event()[1]["phase"] == "capture"
    # The handler of a closed connection is skipped.
    window("SCOPE", "UNHANDLE", "window", "tap")
    controller.close()
    eventually(lambda: client("SCOPE", "EMIT", "cell", "tap") == b"window", "the next one up takes it")


def test_redis_py_handles_events_while_it_is_subscribed(daemon, client):
    with redis.Redis(unix_socket_path=str(daemon.path), protocol=2) as library:
        client("SCOPE", "OPEN", "page")
        pubsub = library.pubsub()
        pubsub.subscribe("scope:page")
        messages = [pubsub.get_message(timeout=PATIENCE) for _ in range(2)]
        assert [message["type"] for message in messages] == ["subscribe", "message"]
        pubsub.execute_command("SCOPE", "HANDLE", "page", "tap")
        answer = pubsub.get_message(timeout=PATIENCE)
        assert (answer["type"], answer["channel"], answer["data"]) == ("handle", b"scope:page", 1)
        assert library.execute_command("SCOPE", "EMIT", "page", "tap", "7") == b"page"
        message = pubsub.get_message(timeout=PATIENCE)
        assert json.loads(message["data"])["payload"] == "7"
        assert library.execute_command("SCOPE", "CLOSE", "page") == 1
        assert json.loads(pubsub.get_message(timeout=PATIENCE)["data"])["event"] == "closed"
        pubsub.close()


def fill(client, count, command):
    for start in range(0, count, 1_000):
        numbers = range(start, min(start + 1_000, count))
        client.send_bytes(b"".join(request(*command(number)) for number in numbers))
        for _ in numbers:
            reply = client.reply()
            assert view(reply)["state"] == b"open", reply


def test_a_deep_tree_closes_and_is_no_deeper_than_the_limit(daemon, client):
    count = 10_000
    client("SCOPE", "OPEN", "0")
    fill(client, count - 1, lambda number: ("SCOPE", "OPEN", f"{number + 1}", "PARENT", f"{number}"))
    assert "max-scope-depth" in client.error("LIMIT", "SCOPE", "OPEN", "x", "PARENT", f"{count - 1}")
    client("TIMER", "SET", "t", "1h", "OWNER", f"scope:{count - 1}")
    assert client("SCOPE", "EMIT", f"{count - 1}", "tap") is None
    cursor, views = client("SCOPE", "TREE", "0", "LIMIT", "3")
    assert [view(each)["depth"] for each in views] == [1, 2, 3]
    assert client("SCOPE", "CLOSE", "0") == 1
    assert client("TIMER", "GET", "t") is None
    eventually(lambda: client("DBSIZE") == 0, "all of it is gone")


def test_scopes_do_not_outlive_the_daemon(daemon, client):
    client("SCOPE", "OPEN", "app")
    client("TIMER", "SET", "its", "1h", "OWNER", "scope:app")
    client("TIMER", "SET", "mine", "1h")
    daemon.restart("kill")
    client = daemon.connect()
    assert client("DBSIZE") == 1
    assert client("SCOPE", "GET", "app") is None


def test_only_leases_take_a_timer(daemon, client):
    client("SCOPE", "OPEN", "app", "TTL", "1h")
    assert daemon.info("timers")["armed"] == "1"
    client("SCOPE", "OPEN", "free")
    assert daemon.info("timers")["scopes"] == "2"
    assert daemon.info("timers")["armed"] == "1"
