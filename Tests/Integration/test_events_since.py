"""EVENTS SINCE: clients that were disconnected catch up from the event log."""

import json

import pytest

from countdownd import Error, eventually, request, view
from fault_injection import Faults

virtual = pytest.mark.daemon(virtual_time=True)


def since(client, sequence, *options):
    reply = view(client("EVENTS", "SINCE", sequence, *options))
    reply["events"] = [(channel.decode(), json.loads(line)) for channel, line in reply["events"]]
    return reply


def happened(client, sequence=0, *options):
    return [
        (event["key"], event["event"]) for _, event in since(client, sequence, *options)["events"]
    ]


@virtual
def test_the_log_has_the_lines_that_subscribers_get(daemon, speaker):
    watcher = daemon.connect(protocol=3)
    watcher.send("PSUBSCRIBE", "*")
    watcher.push()
    speaker("COUNTDOWN", "START", "k", "COUNT", "3", "TITLE", "%ds", "META", b"\xff\x00 m")
    speaker("CLOCK", "ADVANCE", "1s")
    for word in ("PAUSE", "RESUME"):
        speaker("COUNTDOWN", word, "k")
    speaker("COUNTDOWN", "RETIME", "k", "2s")
    speaker("COUNTDOWN", "START", "k")
    speaker("CLOCK", "ADVANCE", "10s")
    speaker("COUNTDOWN", "CANCEL", "k")
    speaker("TIMER", "SET", "t", "1s", "EVERY", "2s", "PAYLOAD", "p\né")
    speaker("CLOCK", "ADVANCE", "4s")
    speaker("TIMER", "SET", "t", "1s", "CLOCK", "wall")
    speaker("CLOCK", "ADVANCE", "1s")
    speaker("TIMER", "SET", "t", "1s")
    speaker("TIMER", "DEL", "t")
    speaker("HUD", "SHOW", "main", "FADEIN", "0", "FADEOUT", "0")
    speaker("HUD", "DISMISS", "main")
    told = [message[-2:] for message in watcher.arrived()]
    unkept = (b'"event":"tick"', b'"event":"refused"', b'"event":"snapshot"')
    told = [
        event
        for event in told
        if not event[0].startswith(b"hud:") and not any(word in event[1] for word in unkept)
    ]
    assert len(told) > 12
    reply = view(speaker("EVENTS", "SINCE", 0))
    assert reply["events"] == told
    assert reply["last_seq"] == speaker("EVENTS", "LAST")
    assert reply["more"] in (0, False)
    # From the middle on, and by pattern.
    middle = json.loads(told[5][1])["seq"]
    assert view(speaker("EVENTS", "SINCE", middle))["events"] == told[6:]
    timers = [event for event in told if event[0] == b"timer:t"]
    assert view(speaker("EVENTS", "SINCE", 0, "MATCH", "timer:*"))["events"] == timers


@pytest.mark.daemon(
    virtual_time=True,
    config="policies:\n  p: {ladder: [1s], windows: [5/1m], channels: [sms, sms, call], validity: 5s, "
    "attempts: 1}\n",
)
def test_events_of_policies(daemon, client):
    watcher = daemon.connect(protocol=3)
    watcher.send("PSUBSCRIBE", "*")
    watcher.push()
    client("COUNTDOWN", "START", "k", "POLICY", "p")
    client("COUNTDOWN", "ATTEMPT", "k")
    started = view(client("COUNTDOWN", "START", "r", "POLICY", "p"))
    client("COUNTDOWN", "REFUND", "r", "GENERATION", started["generation"])
    client("CLOCK", "ADVANCE", "2s")
    client("COUNTDOWN", "START", "k", "POLICY", "p")
    client("COUNTDOWN", "PASS", "k")
    client("CLOCK", "ADVANCE", "2s")
    client("COUNTDOWN", "START", "k", "POLICY", "p")
    client("CLOCK", "ADVANCE", "10s")
    told = [message[-2:] for message in watcher.arrived()]
    kept = view(client("EVENTS", "SINCE", 0))["events"]
    names = {json.loads(line)["event"] for _, line in kept}
    assert names == {"started", "locked", "refunded", "passed", "expired", "ready"}
    assert kept == [event for event in told if json.loads(event[1])["event"] in names]


@virtual
def test_events_of_owned_entities_are_not_logged(client):
    client("COUNTDOWN", "START", "mine", "OWNER", "connection")
    client("TIMER", "SET", "mine", "1s", "OWNER", "connection")
    client("COUNTDOWN", "START", "ours")
    assert happened(client) == [("ours", "started")]


@virtual
def test_a_page_is_bounded_by_its_encoded_length(daemon, client):
    """The limit is for the encoded length, which base64 increases."""
    begin = client("EVENTS", "LAST")
    sent = b"".join(request("TIMER", "SET", f"t{n}", "1h", "PAYLOAD", b"\xff" * 4096) for n in range(600))
    client.send_bytes(sent)
    for _ in range(600):
        client.reply()
    keys, sequence, more, pages = [], begin, True, 0
    while more:
        page = since(client, sequence, "LIMIT", 10_000)
        assert page["complete"]
        length = sum(len(json.dumps(event)) for _, event in page["events"])
        assert length < (1 << 20) + 8_192
        if page["more"]:
            assert length > 1 << 19, "no page is shorter than it has to be"
        keys += [event["key"] for _, event in page["events"]]
        sequence, more, pages = page["last_seq"], page["more"], pages + 1
    assert keys == [f"t{n}" for n in range(600)] and pages >= 3
    assert sequence == client("EVENTS", "LAST")


@pytest.mark.daemon(config="events: {keep: 0}\n")
def test_a_log_that_keeps_nothing_is_never_complete(daemon, client):
    first = client("EVENTS", "LAST")
    client("COUNTDOWN", "START", "k")
    reply = since(client, first)
    assert not reply["complete"] and reply["events"] == []
    assert since(client, client("EVENTS", "LAST"))["complete"]
    assert daemon.info("persistence")["events_kept"] == "0"


@pytest.mark.parametrize(
    "words",
    [
        ["SINCE"], ["SINCE", "x"], ["SINCE", "-1"], ["SINCE", "1", "LIMIT", "0"],
        ["SINCE", "1", "LIMIT", "10001"], ["SINCE", "1", "MATCH"], ["SINCE", "1", "OTHER"],
        ["LAST", "1"], ["NOTHING"],
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(client, words):
    client.error("UNKNOWN" if words == ["NOTHING"] else "ERR", "EVENTS", *words)
    assert client("PING") == "PONG"


@pytest.mark.parametrize("durability", ["process", "power"])
def test_logged_events_survive_kill_9(start_daemon, durability):
    daemon = start_daemon(arguments=["--durability", durability])
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for number in range(20):
        client("COUNTDOWN", "START", f"k{number}", "EVERY", "1h")
    client("COUNTDOWN", "START", "short", "COUNT", "1", "EVERY", "300ms")
    before = client("EVENTS", "LAST")
    daemon.kill()
    daemon.start()
    client = daemon.connect()
    # A countdown that became due while no daemon ran has an event, too, with its own number.
    eventually(lambda: ("short", "ready") in happened(client, before), "it becomes ready")
    reply = since(client, begin)
    assert reply["complete"]
    names = [(event["key"], event["event"]) for _, event in reply["events"]]
    started = [(f"k{number}", "started") for number in range(20)] + [("short", "started")]
    assert names[:21] == started
    assert names.count(("short", "ready")) == 1
    numbers = [event["seq"] for _, event in reply["events"]]
    assert numbers == sorted(set(numbers))
    assert client("EVENTS", "LAST") > before


def test_nothing_is_missing_where_nothing_had_happened(start_daemon):
    daemon = start_daemon()
    begin = daemon.connect()("EVENTS", "LAST")
    for _ in range(2):
        daemon.kill()
        daemon.start()
        reply = since(daemon.connect(), begin)
        assert reply["complete"] and reply["events"] == []
    client = daemon.connect()
    client("COUNTDOWN", "START", "k")
    assert happened(client, begin) == [("k", "started")]


def test_without_durability_the_log_ends_with_the_daemon(start_daemon):
    daemon = start_daemon(arguments=["--durability", "none"])
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    client("COUNTDOWN", "START", "k")
    assert happened(client, begin) == [("k", "started")]
    daemon.kill()
    daemon.start()
    reply = since(daemon.connect(), begin)
    assert not reply["complete"] and reply["events"] == []


def test_a_smaller_log_drops_the_oldest_events(start_daemon):
    daemon = start_daemon()
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for number in range(30):
        client("COUNTDOWN", "START", f"k{number}")
    daemon.terminate()
    daemon.config_path.write_text("events: {keep: 5}\n")
    daemon.start()
    reply = since(daemon.connect(), begin)
    assert not reply["complete"] and len(reply["events"]) == 5
    daemon.terminate()
    daemon.config_path.write_text("events: {keep: 0}\n")
    daemon.start_again()
    daemon.terminate()
    daemon.config_path.write_text("")
    daemon.start()
    daemon.is_expected_to_run = True
    reply = since(daemon.connect(), begin)
    assert not reply["complete"] and reply["events"] == []


def test_subscribing_before_asking_misses_and_repeats_nothing(daemon):
    """The reply and the pushes after it have every event exactly once."""
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    reader = daemon.connect(protocol=3)
    for number in range(200):
        client.send("COUNTDOWN", "START", f"k{number}")
        if number == 100:
            reader.send("PSUBSCRIBE", "countdown:k*")
            reader.send("EVENTS", "SINCE", begin, "SUBSCRIBED")
    for _ in range(200):
        client.reply()
    reply = view(reader.reply())
    read = {json.loads(line)["seq"] for _, line in reply["events"]}
    early = {number for number in numbers_of(reader.pushes)}
    late = set()
    while len(read | late) < 200:
        message = reader.receive()
        number = json.loads(message[-1])["seq"]
        # A snapshot has the number of an earlier event.
        if json.loads(message[-1])["event"] == "started":
            assert number not in late, "twice"
            late.add(number)
    assert not read & late, "what comes after the answer is not in it"
    assert early <= read, "what came before the answer is"


def numbers_of(messages):
    events = [json.loads(message[-1]) for message in messages if message[0] == b"pmessage"]
    return [event["seq"] for event in events if event["event"] == "started"]


def test_subscribed_limits_events_to_own_subscriptions(daemon):
    client = daemon.connect(protocol=3)
    client("COUNTDOWN", "START", "a")
    client("COUNTDOWN", "START", "b")
    client("TIMER", "SET", "a", "1h")
    client.send("SUBSCRIBE", "countdown:a")
    client.send("PSUBSCRIBE", "timer:?")
    events = [channel for channel, _ in since(client, 0, "SUBSCRIBED")["events"]]
    assert events == ["countdown:a", "timer:a"]


def test_refused_changes_leave_no_events(start_daemon, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, segment_size="64KiB", environment=faults.environment(1, "ENOSPC", lasting=True))
    client = daemon.connect()
    accepted, refused = [], []
    faults.damage()
    while len(refused) < 3:
        key = f"k{len(accepted) + len(refused)}"
        reply = client.either("READONLY", "COUNTDOWN", "START", key, "META", "m" * 4_000)
        (refused if isinstance(reply, Error) else accepted).append(key)
    assert [key for key, _ in happened(client)] == accepted
    faults.mend()
    client.retry("READONLY", "COUNTDOWN", "START", "after")
    assert [key for key, _ in happened(client)] == [*accepted, "after"]
    daemon.restart("kill")
    assert [key for key, _ in happened(daemon.connect())] == [*accepted, "after"]


@pytest.mark.daemon(config="events: {keep: 1000}")
def test_ends_of_owned_entities_are_in_the_log_and_evict_no_other_event(daemon, client):
    for number in range(300):
        client("TIMER", "SET", f"own-{number}", "1h")
    before = client("EVENTS", "LAST")
    owner = daemon.connect()
    owner("COUNTDOWN", "START", "a", "OWNER", "connection")
    owner("TIMER", "SET", "b", "1h", "OWNER", "connection")
    owner.close()
    eventually(lambda: len(happened(client, before)) == 2, "both have ended")
    daemon.restart("kill")
    client = daemon.connect()
    found = since(client, before)
    ends = {event["key"]: (event["event"], event["reason"]) for _, event in found["events"]}
    assert ends == {"a": ("cancelled", "owner-gone"), "b": ("cancelled", "owner-gone")}
    assert found["complete"]
    owner = daemon.connect()
    for number in range(2_000):
        owner("TIMER", "SET", f"owned-{number}", "1h", "OWNER", "connection")
    owner.close()
    eventually(lambda: client("DBSIZE") == 300, "all have ended")
    for _ in range(2):
        found = since(client, 0, "LIMIT", 10_000)
        assert sum(event["event"] == "set" for _, event in found["events"]) == 300
        assert 200 < sum(event["event"] == "cancelled" for _, event in found["events"]) <= 252
        assert not since(client, before, "LIMIT", 10_000)["complete"]
        daemon.restart("kill")
        client = daemon.connect()


def test_several_patterns_on_another_connection(client):
    for key in ("a", "b", "c"):
        client("TIMER", "SET", key, "1h")
    client("COUNTDOWN", "START", "a")
    found = happened(client, 0, "MATCH", "timer:a", "MATCH", "countdown:*", "MATCH", "timer:[c]")
    assert found == [("a", "set"), ("c", "set"), ("a", "started")]
    assert "at most 16 times" in client.error("ERR", "EVENTS", "SINCE", 0, *["MATCH", "*"] * 17)
    assert "given twice" in client.error("ERR", "EVENTS", "SINCE", 0, "LIMIT", 1, "LIMIT", 1)
