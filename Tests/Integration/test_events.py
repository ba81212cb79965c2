"""Events, snapshots, and slow readers. Tests marked with `virtual` use virtual time."""

import json

import pytest

from clocks import Clocks
from countdownd import Closed, Push, eventually, request, view

virtual = pytest.mark.daemon(virtual_time=True)


def names(events):
    return [event["event"] for event in events]


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def watcher(request, daemon):
    client = daemon.connect(protocol=request.param)
    client.protocol = request.param
    return client


def subscribe(client, *channels, command="SUBSCRIBE"):
    client.send(command, *channels)
    for count, channel in enumerate(channels, 1):
        assert client.push() == [command.lower().encode(), channel.encode(), count]


def collect(client):
    return [json.loads(message[-1]) for message in client.arrived()]


@virtual
def test_a_countdown_sends_its_events(client, watcher):
    subscribe(watcher, "countdown:k")
    channel, snapshot = watcher.event()
    assert channel == b"countdown:k"
    assert snapshot["event"] == "snapshot" and snapshot["state"] == "idle"
    client("COUNTDOWN", "START", "k", "COUNT", "3", "TITLE", "%ds", "READYTITLE", "go", "META", "m")
    client("CLOCK", "ADVANCE", "500ms")
    client("COUNTDOWN", "START", "k")
    client("COUNTDOWN", "PAUSE", "k")
    client("COUNTDOWN", "PAUSE", "k")
    client("CLOCK", "ADVANCE", "1h")
    client("COUNTDOWN", "RESUME", "k")
    client("CLOCK", "ADVANCE", "1s")
    client("COUNTDOWN", "RETIME", "k", "1s")
    client("CLOCK", "ADVANCE", "1s")
    client("COUNTDOWN", "CANCEL", "k")
    events = watcher.events(lambda event: event["event"] == "cancelled")
    assert names(events) == [
        "started", "refused", "paused", "resumed", "tick", "retimed", "ready", "cancelled",
    ]  # fmt: skip
    started, refused, paused, _, tick, _, ready, cancelled = events
    assert (started["remaining"], started["title"], started["meta"]) == (3, "3s", "m")
    assert refused["reason"] == "cooldown" and refused["retry_after_ms"] == 2_500
    assert paused["state"] == "paused" and paused["deadline_unix_ms"] is None
    assert (tick["remaining"], tick["remaining_ms"], tick["late_us"]) == (2, 2_000, 0)
    assert (ready["state"], ready["title"], ready["remaining_ms"]) == ("ready", "go", 0)
    assert cancelled["reason"] == "cancelled" and cancelled["state"] == "idle"
    sequences = [event["seq"] for event in events]
    assert sequences == sorted(set(sequences)), "seq rises"
    assert len({event["generation"] for event in events}) == 1
    for event in events:
        assert ("due_unix_ms" in event) == (event["event"] in ("tick", "ready"))


@virtual
def test_a_presentation_appears_and_disappears_in_pairs(client, watcher):
    subscribe(watcher, "hud:s")
    assert watcher.event()[1]["state"] == "hidden"
    client("HUD", "SHOW", "s", "GRACE", "1s", "MIN", "2s")
    client("CLOCK", "ADVANCE", "1s")
    client("HUD", "DISMISS", "s")
    client("CLOCK", "ADVANCE", "1s")
    client("HUD", "SHOW", "s", "MIN", "0")
    client("CLOCK", "ADVANCE", "1s")
    client("HUD", "TAP", "s")
    client("CLOCK", "ADVANCE", "50ms")
    client("HUD", "SHOW", "s", "MAX", "1s")
    client("CLOCK", "ADVANCE", "1h")
    client("HUD", "SHOW", "s", "GRACE", "1s")
    client("HUD", "DISMISS", "s")
    events = watcher.events(lambda event: event.get("end") == "never-shown")
    assert names(events) == [
        "will-appear", "did-appear", "updated", "touched", "will-disappear", "did-disappear",
        "will-appear", "did-appear", "will-disappear", "did-disappear", "did-disappear",
    ] or pytest.fail(str(names(events)))  # fmt: skip
    open_since = None
    for event in events:
        match event["event"]:
            case "will-appear":
                assert open_since is None
                open_since = event["event"]
            case "did-appear":
                assert open_since == "will-appear"
                open_since = event["event"]
            case "will-disappear":
                assert open_since == "did-appear" and event["end"]
                open_since = event["event"]
            case "did-disappear":
                assert open_since == ("will-disappear" if event["end"] != "never-shown" else None)
                open_since = None
    superseding = events[2]
    assert superseding["superseded_generation"] == events[0]["generation"]
    assert superseding["generation"] > events[0]["generation"]


@virtual
def test_timers_send_their_events(client, watcher):
    subscribe(watcher, "timer:t")
    assert watcher.event()[1]["state"] == "idle"
    client("TIMER", "SET", "t", "1s", "PAYLOAD", "hello")
    client("TIMER", "SET", "t", "1s", "EVERY", "500ms", "PAYLOAD", b"\x00\xff")
    client("CLOCK", "ADVANCE", "1500ms")
    client("TIMER", "PAUSE", "t")
    client("TIMER", "RETIME", "t", "3s")
    client("TIMER", "RESUME", "t")
    client("TIMER", "DEL", "t")
    events = watcher.events(lambda event: event.get("reason") == "cancelled")
    assert names(events) == [
        "set", "cancelled", "set", "fired", "fired", "paused", "retimed", "resumed", "cancelled",
    ]  # fmt: skip
    assert events[0]["payload"] == "hello" and events[1]["reason"] == "replaced"
    fired = events[3:5]
    assert [event["fired"] for event in fired] == [1, 2]
    assert [event["payload_base64"] for event in fired] == ["AP8=", "AP8="]
    assert [event["missed"] for event in fired] == [0, 0]


@virtual
def test_events_are_pushes_in_resp3_and_arrays_in_resp2(client, watcher):
    """Each has one line of JSON."""
    subscribe(watcher, "timer:t")
    first = watcher.receive()
    subscribe_pattern = request("PSUBSCRIBE", "timer:*")
    watcher.send_bytes(subscribe_pattern)
    assert watcher.push() == [b"psubscribe", b"timer:*", 2]
    client("TIMER", "SET", "t", "1s")
    second, third = watcher.receive(), watcher.receive()
    assert all(isinstance(frame, Push) == (watcher.protocol == 3) for frame in (first, second))
    assert first[:2] == second[:2] == [b"message", b"timer:t"]
    assert third[:3] == [b"pmessage", b"timer:*", b"timer:t"]
    assert second[2] == third[3] and b"\n" not in second[2]
    assert json.loads(first[2])["event"] == "snapshot"


@virtual
def test_channels_of_binary_keys_work(client, watcher):
    key = b"\xff\x00\n\"\\"
    watcher.send("SUBSCRIBE", b"timer:" + key)
    watcher.push()
    client("TIMER", "SET", key, "1s")
    for _ in range(2):
        channel, event = watcher.event()
        assert channel == b"timer:" + key
        assert "key" not in event and event["key_base64"]
    text = "a\"\\\n\t\x01 é 数"
    watcher.send("SUBSCRIBE", "timer:" + text)
    watcher.push()
    assert watcher.event()[1]["key"] == text


@virtual
def test_a_snapshot_comes_first(client, watcher):
    client("COUNTDOWN", "START", "k", "TITLE", "%ds", "META", "m")
    client("CLOCK", "ADVANCE", "1500ms")
    client("HUD", "SHOW", "k", "STATUS", "x")
    client("TIMER", "SET", "k", "9s", "PAYLOAD", "p")
    watcher.send("SUBSCRIBE", "countdown:k", "hud:k", "timer:k", "nothing", "countdown:")
    confirmed, events = [], {}
    while len(confirmed) < 5 or len(events) < 3:
        message = watcher.push()
        if message[0] == b"subscribe":
            confirmed.append(message[1])
        else:
            assert message[1] in confirmed, "not before it is confirmed"
            events[message[1]] = json.loads(message[2])
    assert all(event["event"] == "snapshot" for event in events.values())
    counting = events[b"countdown:k"]
    assert (counting["state"], counting["remaining"], counting["title"]) == ("counting", 59, "59s")
    assert (counting["meta"], counting["sends"], counting["count"]) == ("m", 1, 60)
    assert events[b"hud:k"]["status"] == "x"
    assert events[b"timer:k"]["payload"] == "p"
    assert not watcher.arrived()


@virtual
def test_a_pattern_gets_snapshots_of_all_matches(client, watcher):
    for number in range(5):
        client("COUNTDOWN", "START", f"a{number}")
        client("TIMER", "SET", f"a{number}", "1h")
    client("TIMER", "SET", "b", "1h")
    subscribe(watcher, "*:a[1-3]", command="PSUBSCRIBE")
    channels = [watcher.event()[0].decode() for _ in range(6)]
    assert sorted(channels) == sorted(
        [f"countdown:a{n}" for n in (1, 2, 3)] + [f"timer:a{n}" for n in (1, 2, 3)]
    )
    assert not watcher.caught_up(client)
    client("CLOCK", "ADVANCE", "1s")
    assert sorted(names(collect(watcher))) == ["tick"] * 3


def fill(client, count, command=lambda number: ("TIMER", "SET", f"t{number}", "1h")):
    for start in range(0, count, 1_000):
        numbers = range(start, min(start + 1_000, count))
        client.send_bytes(b"".join(request(*command(number)) for number in numbers))
        for _ in numbers:
            client.reply()


def test_a_slow_reader_gets_thousands_of_snapshots(daemon, client):
    count = 20_000
    fill(client, count, lambda n: ("TIMER", "SET", f"t{n}", "1h", "PAYLOAD", "x" * 500))
    daemon.reset_peak()
    before = daemon.resident()
    slow = daemon.connect()
    slow.send("PSUBSCRIBE", "timer:*")
    eventually(lambda: daemon.info("clients")["pubsub_clients"] == "1", "it has subscribed")
    # 20 MB of snapshots are due; they are created as the reader reads, and do not wait in memory.
    assert int(daemon.info("clients")["output_bytes"]) < 2 << 20
    assert daemon.peak() - before < 10 << 20
    client("TIMER", "SET", "t5", "2h")
    client("TIMER", "DEL", "t19999")
    assert slow.push()[0] == b"psubscribe"
    seen = {}
    while len(seen) < count - 1 or seen.get(b"timer:t19999", "gone") != "gone":
        channel, event = slow.event()
        if event["event"] == "snapshot":
            assert channel not in seen or seen[channel] == "event"
            seen[channel] = "snapshot"
        elif event["event"] == "cancelled" and event["reason"] == "cancelled":
            seen.pop(channel, None)
        else:
            seen[channel] = "event"
    assert not slow.caught_up(client)
    assert int(daemon.info("stats")["output_limit_disconnections"]) == 0


@virtual
def test_unwatched_countdowns_have_no_ticks(daemon, client):
    for number in range(100):
        client("COUNTDOWN", "START", number, "COUNT", "1000", "EVERY", "10ms")

    def half_a_second():
        """Returns the number of events in half a second."""
        before = int(daemon.info("stats")["events"])
        client("CLOCK", "ADVANCE", "500ms")
        return int(daemon.info("stats")["events"]) - before

    assert half_a_second() == 0
    watcher = daemon.connect()
    subscribe(watcher, "countdown:7")
    assert watcher.event()[1]["event"] == "snapshot"
    assert half_a_second() == 50
    watcher.close()
    eventually(lambda: daemon.info("clients")["pubsub_clients"] == "0", "nobody watches")
    client("COUNTDOWN", "GET", "7")
    assert half_a_second() == 0
    assert int(daemon.info("timers")["armed"]) == 100


def test_a_slow_readers_ticks_are_merged_and_the_rest_is_not(daemon, client):
    """The reader reads nothing until many ticks are merged; then it soon catches up."""
    fill(client, 200, lambda n: ("COUNTDOWN", "START", n, "COUNT", "100000", "EVERY", "5ms"))
    slow = daemon.connect(receive_buffer=4_096)
    slow.send("PSUBSCRIBE", "countdown:*")
    eventually(lambda: int(daemon.info("stats")["ticks_merged"]) > 1_000, "ticks are merged")
    for number in range(50):
        client("COUNTDOWN", "CANCEL", number)
    assert int(daemon.info("clients")["backed_up_clients"]) == 1
    newest = view(client("COUNTDOWN", "GET", "199"))["remaining"]
    slow.push()
    cancelled, sequences, last = [], {}, {}
    while len(cancelled) < 50 or last.get(b"countdown:199", newest + 1) > newest:
        channel, event = slow.event()
        if event["event"] == "cancelled":
            cancelled.append(event["key"])
        elif event["event"] == "tick":
            assert event["key"] not in cancelled, "a tick after the end"
            assert event["remaining"] < last.get(channel, 100_001)
            last[channel] = event["remaining"]
        if event["event"] != "snapshot":
            assert event["seq"] > sequences.get(channel, 0)
            sequences[channel] = event["seq"]
    assert cancelled == [str(number) for number in range(50)]
    assert int(daemon.info("stats")["output_limit_disconnections"]) == 0


@pytest.mark.daemon(config="limits: {max-output: 100KiB}")
def test_ticks_that_wait_count_for_max_output(daemon, client):
    """However many countdowns a client watches without reading, memory is bounded."""
    slow = daemon.connect(receive_buffer=4_096)
    slow.send("PSUBSCRIBE", "countdown:*")
    slow.push()
    watched = 3_000
    fill(client, watched, lambda n: ("COUNTDOWN", "START", n, "COUNT", "100000", "EVERY", "20ms"))
    eventually(lambda: "max-output is 102400" in daemon.log, "it is closed")


@pytest.mark.daemon(config="limits: {max-output: 1MiB}")
def test_beyond_max_output_the_connection_is_closed(daemon, client):
    deaf = daemon.connect()
    subscribe(deaf, "timer:t")
    reader = daemon.connect()
    subscribe(reader, "timer:t")
    for number in range(1_500):
        client("TIMER", "SET", "t", "1h", "PAYLOAD", "x" * 2_000)
        while reader.has_more(0):
            reader.event()
    eventually(lambda: "max-output is 1048576" in daemon.log, "the log says why")
    line = next(line for line in daemon.log.splitlines() if "max-output" in line)
    unread = int(line.split("has not read ")[1].split()[0])
    assert unread > 1 << 20, line
    assert daemon.info("stats")["output_limit_disconnections"] == "1"
    assert deaf.is_closed()
    reader.send("PING")
    while reader.receive() != [b"pong", b""]:
        pass
    eventually(lambda: daemon.info("clients")["output_bytes"] == "0", "memory is let go")


def test_unsubscribing_ends_events(watcher):
    watcher.send("UNSUBSCRIBE")
    assert watcher.push() == [b"unsubscribe", None, 0]
    watcher.send("PUNSUBSCRIBE")
    assert watcher.push() == [b"punsubscribe", None, 0]
    subscribe(watcher, "a", "b", "c")
    watcher.send("PSUBSCRIBE", "x*")
    assert watcher.push() == [b"psubscribe", b"x*", 4]
    watcher.send("UNSUBSCRIBE", "b", "nothing")
    assert watcher.push() == [b"unsubscribe", b"b", 3]
    assert watcher.push() == [b"unsubscribe", b"nothing", 3]
    watcher.send("UNSUBSCRIBE")
    rest = [watcher.push() for _ in range(2)]
    assert sorted(channel for _, channel, _ in rest) == [b"a", b"c"]
    assert [count for _, _, count in rest] == [2, 1]
    watcher.send("PUNSUBSCRIBE", "x*")
    assert watcher.push() == [b"punsubscribe", b"x*", 0]


def test_pubsub_lists_channels_and_subscribers(daemon, client, watcher):
    subscribe(watcher, "timer:a", "timer:b", "other")
    third = daemon.connect()
    subscribe(third, "timer:a")
    watcher.send("PSUBSCRIBE", "t*", "u*")
    eventually(lambda: client("PUBSUB", "NUMPAT") == 2, "two patterns")
    assert sorted(client("PUBSUB", "CHANNELS")) == [b"other", b"timer:a", b"timer:b"]
    assert sorted(client("PUBSUB", "CHANNELS", "timer:*")) == [b"timer:a", b"timer:b"]
    assert client("PUBSUB", "NUMSUB") == []
    counts = client("PUBSUB", "NUMSUB", "timer:a", "other", "none")
    assert counts == [b"timer:a", 2, b"other", 1, b"none", 0]
    client("HELLO", 3)
    # An array in RESP3, too, as in Redis: libraries rely on that.
    assert client("PUBSUB", "NUMSUB", "timer:a") == [b"timer:a", 2]
    watcher.close()
    eventually(lambda: client("PUBSUB", "NUMPAT") == 0, "they go with the connection")
    assert client("PUBSUB", "CHANNELS") == [b"timer:a"]


@pytest.mark.daemon(config="limits: {max-subscriptions: 3}")
def test_beyond_max_subscriptions_nothing_changes(client, watcher):
    subscribe(watcher, "timer:a", "timer:b")
    for _ in range(2):
        watcher.event()
    for command in ("SUBSCRIBE", "PSUBSCRIBE"):
        error = watcher.error("LIMIT", command, "timer:c", "timer:d")
        assert "max-subscriptions is 3" in error
    assert not watcher.caught_up(client), "not even a snapshot"
    assert client("PUBSUB", "NUMSUB", "timer:c", "timer:d") == [b"timer:c", 0, b"timer:d", 0]
    assert client("PUBSUB", "NUMPAT") == 0
    watcher.send("SUBSCRIBE", "timer:a", "timer:b", "timer:c")
    assert [watcher.push()[2] for _ in range(3)] == [2, 2, 3] or pytest.fail("known ones are free")


def test_the_reply_comes_before_the_event_it_causes(daemon):
    client = daemon.connect(protocol=3)
    subscribe(client, "timer:t")
    client.receive()
    client.send("TIMER", "SET", "t", "1h")
    assert isinstance(client.receive(), dict)
    assert isinstance(client.receive(), Push)


def test_closing_a_connection_ends_its_subscriptions(daemon, client):
    for _ in range(50):
        watcher = daemon.connect()
        subscribe(watcher, "timer:t")
        watcher.close()
    client("TIMER", "SET", "t", "1h")
    eventually(lambda: client("PUBSUB", "CHANNELS") == [], "nobody listens")
    with pytest.raises(Closed):
        client("QUIT")
        client.receive()


@pytest.fixture
def clocks(tmp_path):
    return Clocks(tmp_path)


@pytest.fixture
def burst(start_daemon, clocks):
    """Starts a daemon with countdowns that become ready at the same time, when `clocks` sleep."""

    def start(count, **options):
        daemon = start_daemon(environment=clocks.environment(), **options)
        client = daemon.connect()
        fill(client, count, lambda n: ("COUNTDOWN", "START", n, "COUNT", "1", "EVERY", "1h"))
        return daemon, client

    return start


def test_commands_are_answered_while_very_many_become_ready(burst, clocks):
    count = 20_000
    daemon, client = burst(count)
    before = client("EVENTS", "LAST")
    seen = daemon.during(lambda: clocks.suspend(3_600), "EVENTS", "LAST")
    between = {number for number in seen if before < number < before + count}
    assert len(between) > 3, "commands are done between slices of what is due"
    eventually(lambda: client("EVENTS", "LAST") == before + count, "all are ready")


def test_a_slow_reader_gets_every_event_of_a_mass_expiry(burst, clocks):
    count = 20_000
    daemon, _ = burst(count)
    slow = daemon.connect(receive_buffer=4_096)
    slow.send("PSUBSCRIBE", "countdown:*")
    eventually(lambda: daemon.info("clients")["pubsub_clients"] == "1", "it has subscribed")
    clocks.suspend(3_600)
    ready = set()
    while len(ready) < count:
        event = slow.receive()
        if event[0] == b"pmessage":
            event = json.loads(event[3])
            if event["event"] == "ready":
                assert event["key"] not in ready
                ready.add(event["key"])
    assert daemon.info("stats")["output_limit_disconnections"] == "0"


def test_a_client_that_does_not_read_does_not_delay_timers(burst, clocks):
    count = 20_000
    daemon, client = burst(count, config="limits: {max-output: 256KiB}")
    before = client("EVENTS", "LAST")
    deaf = daemon.connect(receive_buffer=4_096)
    deaf.send("PSUBSCRIBE", "countdown:x*", "countdown:*")
    eventually(lambda: daemon.info("clients")["pubsub_clients"] == "1", "it has subscribed")
    clocks.suspend(3_600)
    eventually(lambda: client("EVENTS", "LAST") == before + count, "time goes on")
    eventually(lambda: daemon.info("stats")["output_limit_disconnections"] == "1", "it is closed")
