"""Rules about keys (`access.rules`): who may read and change what, and what the log says of it."""

import contextlib
import json
import os
import subprocess

import pytest
from countdownd import Client, Simple, binary, view
from test_access import NOBODY, OTHER, needs_root, open_up

pytestmark = needs_root

STRANGER = 1001
RULES = f"""
access:
  rules:
    shop: {{users: [{OTHER}], keys: ["shop:*"]}}
    shared: {{users: [{OTHER}, {NOBODY}], kinds: [timer], keys: ["both:*"]}}
    monitor: {{users: [{NOBODY}], keys: ["*"], role: read-only}}
"""
AUDIT = "2f0d0c4d5b7f4e0c8a5c6b1e9d3a7f10"


@pytest.fixture
def guarded(start_daemon):
    daemon = start_daemon(config=RULES + "log-format: json\n")
    open_up(daemon)
    return daemon


@contextlib.contextmanager
def user(uid):
    """The kernel attests the effective user at the time of the connection."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def connect_as(uid, daemon):
    with user(uid):
        client = Client(daemon.path)
    daemon.clients.append(client)
    return client


def keys(reply):
    return [view(one)["key"] for one in reply[1]]


def audit(daemon):
    lines = [json.loads(line) for line in daemon.log.splitlines() if AUDIT in line]
    assert all("an entity of another user was changed" in line["message"] for line in lines)
    return [
        (int(line["uid"]), line["command"], line["key"], int(line["maker"]), line["allowed-by"])
        for line in lines
    ]


def test_each_user_reads_and_changes_what_the_rules_say(guarded):
    root, shop, monitor, stranger = (
        connect_as(uid, guarded) for uid in (0, OTHER, NOBODY, STRANGER)
    )
    assert root("COUNTDOWN", "START", "other") is not None
    shop("COUNTDOWN", "START", "shop:1")
    assert shop.error("NOPERM", "COUNTDOWN", "START", "other") == (
        f"NOPERM COUNTDOWN START: no rule of access.rules lets uid {OTHER} change countdown "
        f"'other'; {{users: [{OTHER}], keys: [\"other\"]}} would allow it"
    )
    for words in ("GET other", "WHY other", "CANCEL other"):
        shop.error("NOPERM", "COUNTDOWN", *words.split())
    assert view(monitor("COUNTDOWN", "GET", "other"))["state"] == b"counting"
    for words in ("START other", "CANCEL shop:1", "PAUSE shop:1"):
        monitor.error("NOPERM", "COUNTDOWN", *words.split())
    stranger.error("NOPERM", "COUNTDOWN", "GET", "shop:1")
    assert stranger("PING") == Simple("PONG")
    assert keys(root("COUNTDOWN", "LIST")) == keys(monitor("COUNTDOWN", "LIST")) == [b"other", b"shop:1"]
    assert keys(shop("COUNTDOWN", "LIST")) == [b"shop:1"]
    assert keys(stranger("COUNTDOWN", "LIST")) == []
    # Nothing that was refused has happened.
    assert view(root("COUNTDOWN", "GET", "shop:1"))["state"] == b"counting"
    shop("MULTI")
    assert shop("TIMER", "SET", "shop:2", "1h") == Simple("QUEUED")
    shop.error("NOPERM", "TIMER", "SET", "other", "1h")
    shop.error("EXECABORT", "EXEC").startswith("EXECABORT")
    assert root("DBSIZE") == 2


def test_events_and_snapshots_are_of_what_a_user_may_read(guarded):
    root, shop, stranger = (connect_as(uid, guarded) for uid in (0, OTHER, STRANGER))
    begin = root("EVENTS", "LAST")
    root("TIMER", "SET", "other:1", "1h")
    root("TIMER", "SET", "shop:1", "1h")
    shop("HELLO", 3)
    stranger("HELLO", 3)
    shop.error("NOPERM", "SUBSCRIBE", "timer:shop:1", "timer:other:1")
    assert shop("PUBSUB", "CHANNELS") == []
    for client in (shop, stranger):
        client.send("PSUBSCRIBE", "*")
        assert client.push()[0] == b"psubscribe"
    assert shop.event()[0] == b"timer:shop:1"
    for number in range(2, 50):
        root("TIMER", "SET", f"other:{number}", "1h")
    root("TIMER", "SET", "shop:end", "1h")
    channel, event = shop.event()
    assert (channel, event["event"]) == (b"timer:shop:end", "set")
    for seen, client in ((["set", "set"], shop), ([], stranger)):
        since = client("EVENTS", "SINCE", begin)
        assert [json.loads(line)["event"] for _, line in since[b"events"]] == seen
        assert all(channel.startswith(b"timer:shop:") for channel, _ in since[b"events"])
        assert since[b"complete"]
    assert stranger.pushes == [], "no event and no snapshot came before the replies"
    root("HELLO", 3)
    root.send("SUBSCRIBE", "timer:other:1", "timer:shop:1")
    for _ in range(4):
        root.push()
    assert set(root("PUBSUB", "CHANNELS")) == {b"timer:other:1", b"timer:shop:1"}
    assert shop("PUBSUB", "CHANNELS") == [b"timer:shop:1"]


def test_the_log_says_who_was_let_change_anothers_entity(guarded):
    root, shop, monitor = (connect_as(uid, guarded) for uid in (0, OTHER, NOBODY))
    for number in range(30):
        shop("TIMER", "SET", f"shop:{number}", "1h")
    for number in range(30):
        assert root("TIMER", "DEL", f"shop:{number}") == 1
    shop("TIMER", "SET", "both:1", "1h")
    monitor("TIMER", "GET", "both:1")
    assert monitor("TIMER", "DEL", "both:1") == 1
    shop("TIMER", "SET", "shop:own", "1h")
    shop("TIMER", "DEL", "shop:own")
    monitor.error("NOPERM", "TIMER", "DEL", "shop:1")
    # Every change has a line: none are counted together.
    assert audit(guarded) == [
        *((0, "TIMER DEL", f"timer:shop:{number}", OTHER, "access.admin") for number in range(30)),
        (NOBODY, "TIMER DEL", "timer:both:1", OTHER, "shared"),
    ]


def test_wrong_rules_are_refused_and_the_old_ones_stay(guarded):
    root, shop = (connect_as(uid, guarded) for uid in (0, OTHER))
    wrong = 'access: {rules: {shop: {users: [1000]}, two: {keys: ["*"], role: reader}}}\n'
    guarded.config_path.write_text(wrong)
    refusal = root.error("ERR", "CONFIG", "RELOAD")
    assert 'access.rules.shop: no keys; add keys: ["shop:*"], or keys: ["*"] for all' in refusal
    assert "access.rules.two.role: \"reader\" is not allowed; allowed: one of read-write" in refusal
    shop.error("NOPERM", "TIMER", "SET", "other", "1h")
    check = subprocess.run(
        [binary(), "--check-config", "--config", guarded.config_path], capture_output=True, text=True
    )
    assert check.returncode != 0
    assert "access.rules.shop: no keys" in check.stderr

    # New rules apply to open connections and subscriptions.
    shop("HELLO", 3)
    shop.send("PSUBSCRIBE", "timer:*")
    assert shop.push()[0] == b"psubscribe"
    guarded.config_path.write_text(f'access: {{rules: {{new: {{users: [{OTHER}], keys: ["new:*"]}}}}}}\n')
    assert "access.rules.new.keys" in str(root("CONFIG", "RELOAD"))
    shop.error("NOPERM", "TIMER", "SET", "shop:1", "1h")
    root("TIMER", "SET", "shop:1", "1h")
    root("TIMER", "SET", "new:1", "1h")
    assert shop.event()[0] == b"timer:new:1"
    # Without rules everybody may do everything.
    guarded.config_path.write_text("")
    root("CONFIG", "RELOAD")
    assert shop("TIMER", "DEL", "shop:1") == 1
    assert root("CONFIG", "GET", "access.rules*") == []


def test_a_key_that_a_user_may_not_read_is_null_wherever_it_is_named(guarded):
    root, shop, monitor = (connect_as(uid, guarded) for uid in (0, OTHER, NOBODY))
    root("SCOPE", "OPEN", "secret")
    root("TIMER", "SET", "shop:1", "1h", "OWNER", "scope:secret")
    root("HUD", "SHOW", "shop:1", "DURABLE")
    for client, owner in ((shop, None), (monitor, "scope:secret")):
        client("HELLO", 3)
        client.send("SUBSCRIBE", "timer:shop:1", "hud:shop:1")
        assert [client.push()[0] for _ in range(2)] == [b"subscribe"] * 2
        assert client.event()[1]["owner"] == owner, "the snapshot"
        root("HUD", "SHOW", "shop:1", "OWNER", "scope:secret")
        shown = client.events(lambda event: event["event"] == "updated")[-1]
        assert shown["holds"][-1]["owner"] == shown["owner"] == owner
        listed = client("TIMER", "LIST", "MATCH", "shop:*")[1]
        for reply in (client("TIMER", "GET", "shop:1"), *listed):
            assert reply[b"owner"] == (owner and owner.encode())
        line = client("EVENTS", "SINCE", 0)[b"events"][-1][1]
        assert json.loads(line)["owner"] == owner
        assert (b"secret" in client("HUD", "WHY", "shop:1")[b"holders"][-1]) == bool(owner)


@pytest.mark.daemon(config="events: {keep: 2000}\n")
def test_a_user_with_many_events_evicts_none_of_another(daemon):
    open_up(daemon)
    few, many = connect_as(OTHER, daemon), connect_as(NOBODY, daemon)
    for number in range(3):
        few("COUNTDOWN", "START", f"few:{number}")
    for number in range(6_000):
        many("COUNTDOWN", "START", number)
    for _ in range(2):
        found = [channel for channel, _ in view(few("EVENTS", "SINCE", 0, "LIMIT", 3))["events"]]
        assert found == [f"countdown:few:{number}".encode() for number in range(3)]
        daemon.restart()
        open_up(daemon)
        few = connect_as(OTHER, daemon)
