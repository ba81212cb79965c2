"""Commands that describe and manage the daemon."""

import os
import re
import time

import pytest

from countdownd import PATIENCE, Closed, Simple, Verbatim, eventually, request, view

SECTIONS = [
    "Server", "Clients", "Memory", "Cpu", "Stats", "Timers", "Lateness", "Persistence", "Systemd",
    "Commandstats", "Users", "Fleet",
]  # fmt: skip


# INFO, DBSIZE, TIME


def test_info_has_all_sections(speaker):
    text = speaker("INFO")
    assert isinstance(text, Verbatim if speaker.protocol == 3 else bytes)
    assert re.findall(r"^# (\w+)\r$", text.decode(), re.M) == SECTIONS
    for name in ("all", "default", "everything"):
        assert text.count(b"# ") == speaker("INFO", name).count(b"# ")
    for section in SECTIONS:
        assert speaker("INFO", section).startswith(f"# {section}\r\n".encode())
    assert re.findall(rb"# (\w+)", speaker("INFO", "timers", "SERVER")) == [b"Timers", b"Server"]
    assert speaker("INFO", "replication") == b""


def test_info_prints_a_repeated_section_once(client):
    assert client("INFO", *["commandstats"] * 16_000).count(b"# ") == 1


def test_info_counts_correctly(daemon, client):
    info = daemon.info()
    assert int(info["process_id"]) == daemon.pid
    assert info["socket"] == str(daemon.path)
    assert info["clock"] == "real"
    assert abs(int(info["used_memory_rss"]) - daemon.resident()) < 8 << 20
    assert int(info["maxclients"]) == 20_000
    before = daemon.info("stats")
    client("COUNTDOWN", "START", "a")
    client("COUNTDOWN", "START", "a")
    client("COUNTDOWN", "START", "b")
    client("COUNTDOWN", "CANCEL", "b")
    client("HUD", "SHOW", "s", "FADEIN", "0")
    client("TIMER", "SET", "t", "1h")
    client("TIMER", "SET", "u", "1ms")
    client.error("UNKNOWN", "NONSENSE")
    client.error("ERR", "TIMER", "GET", "")
    eventually(lambda: client("TIMER", "GET", "u") is None, "u fires")
    others = [daemon.connect(protocol=3) for _ in range(5)]
    others[0].send("SUBSCRIBE", "timer:t", "timer:x")
    others[1].send("PSUBSCRIBE", "t*")
    others[2]("MONITOR")
    eventually(lambda: int(daemon.info("clients")["pubsub_clients"]) == 2, "they are subscribed")
    after = daemon.info()

    def grown(name):
        return int(after[name]) - int(before[name])

    assert grown("starts_accepted") == 2
    assert grown("starts_refused") == 1
    assert grown("cancelled") == 1
    assert grown("total_error_replies") == 2
    assert (after["countdowns"], after["huds"], after["timers"]) == ("1", "1", "1")
    assert after["entities"] == "3" == str(client("DBSIZE"))
    assert after["armed"] == "2", "a visible HUD waits for nothing"
    assert 0 < int(after["next_deadline_in_ms"]) <= 60_000
    assert after["connected_clients"] == "7"
    assert after["monitors"] == "1"
    assert (after["pubsub_channels"], after["pubsub_patterns"]) == ("2", "1")
    assert int(after["expired"]) >= 1
    assert int(after["late_us_p50"]) <= int(after["late_us_p99"]) <= int(after["late_us_max"])
    stat = dict(pair.split("=") for pair in after["cmdstat_countdown|start"].split(","))
    assert stat["calls"] == "3" and stat["failed_calls"] == "0"
    stat = dict(pair.split("=") for pair in after["cmdstat_timer|get"].split(","))
    assert stat["failed_calls"] == "1"
    assert grown("total_connections_received") >= 5


def test_resetstat_zeroes_the_counters(daemon, client):
    client("COUNTDOWN", "START", "a")
    client("TIMER", "SET", "t", "1ms")
    eventually(lambda: client("TIMER", "GET", "t") is None, "it fires")
    assert client("CONFIG", "RESETSTAT") == Simple("OK")
    info = daemon.info()
    assert (info["starts_accepted"], info["expired"]) == ("0", "0")
    assert "cmdstat_countdown|start" not in info
    assert info["countdowns"] == "1"


def test_time_replies_with_the_wall_clock(client):
    before = time.time()
    seconds, microseconds = client("TIME")
    assert before <= int(seconds) + int(microseconds) / 1e6 + 0.001 and int(seconds) <= time.time()


# CONFIG, COMMAND


@pytest.mark.daemon(config="limits: {max-arguments: 99}\nhud: {screens: {pay: {max-level: alert}}}")
def test_config_get_shows_settings(speaker):
    reply = speaker("CONFIG", "GET", "limits.*")
    assert isinstance(reply, dict if speaker.protocol == 3 else list)
    limits = view(reply)
    assert limits["limits.max-arguments"] == b"99"
    assert limits["limits.max-output"] == b"67108864"
    everything = view(speaker("CONFIG", "GET", "*"))
    assert everything.items() >= limits.items()
    assert everything["hud.screens.pay.max-level"] == b"alert"
    assert everything["socket.path"].endswith(b"/socket")
    two = view(speaker("CONFIG", "GET", "COUNTDOWN.COUNT", "hud.min"))
    assert two == {"countdown.count": b"60", "hud.min": b"0"}
    assert view(speaker("CONFIG", "GET", "nothing")) == {}
    speaker.error("ERR", "CONFIG", "GET")
    speaker.error("ERR", "CONFIG", "SET", "a", "b")


def test_command_lists_what_there_is(speaker):
    rows = speaker("COMMAND")
    count = speaker("COMMAND", "COUNT")
    assert count == len(rows) == len({row[0] for row in rows})
    names = speaker("COMMAND", "LIST")
    assert len(names) == len(set(names))
    for row in rows:
        assert len(row) == 10
        subcommands = [subcommand[0] for subcommand in row[9]]
        assert row[0] in names or all(name in names for name in subcommands)
    info = speaker("COMMAND", "INFO", "countdown", "nonsense", "ping")
    assert [row and row[0] for row in info] == [b"countdown", None, b"ping"]
    start = next(row for row in info[0][9] if row[0] == b"countdown|start")
    assert start[1] == -3 and start[3:6] == [2, 2, 1]
    assert info[2][1] == -1


def test_command_knows_subcommands_by_name(speaker):
    (row,) = speaker("COMMAND", "INFO", "countdown|start")
    assert row[0] == b"countdown|start"
    docs = view(speaker("COMMAND", "DOCS", "countdown|start", "hello"))
    assert list(docs) == ["countdown|start", "hello"]
    assert view(docs["hello"])["group"] == b"connection"


def test_command_docs(speaker):
    docs = view(speaker("COMMAND", "DOCS"))
    assert len(docs) == speaker("COMMAND", "COUNT")
    countdown = view(docs["countdown"])
    start = view(view(countdown["subcommands"])["countdown|start"])
    arguments = [view(argument) for argument in start["arguments"]]
    assert arguments[0]["name"] == b"key" and arguments[0]["type"] == b"key"
    assert [argument.get("token") for argument in arguments[2:6]] == [b"LIMIT", b"COUNT", b"EVERY", b"FIRE"]
    owner = next(one for one in arguments if one.get("token") == b"OWNER")
    assert [view(choice)["token"] for choice in owner["arguments"]] == [b"none", b"connection", b"scope:ID"]
    assert list(view(speaker("COMMAND", "DOCS", "ping", "nonsense", "ping"))) == ["ping"]


def test_command_getkeys(client):
    assert client("COMMAND", "GETKEYS", "TIMER", "SET", "t", "1s") == [b"t"]
    for words in (["PING"], ["NONSENSE", "x"], ["COUNTDOWN", "LIST"], ["COUNTDOWN", "START"], []):
        client.error("ERR UNKNOWN", "COMMAND", "GETKEYS", *words)


# SLOWLOG, MONITOR


@pytest.mark.daemon(config="slowlog: {threshold: 0, length: 3}")
def test_slowlog_keeps_slow_commands(speaker):
    speaker("SLOWLOG", "RESET")
    speaker("CLIENT", "SETNAME", "me")
    speaker("COUNTDOWN", "START", "meta", "META", "secret", "TITLE", "x" * 200)
    speaker("TIMER", "SET", "t", "1h", "PAYLOAD", "secret")
    speaker("PUBSUB", "NUMSUB", *map(str, range(100)))
    entries = speaker("SLOWLOG", "GET")
    assert len(entries) == 3
    assert [entry[0] for entry in entries] == sorted((e[0] for e in entries), reverse=True)
    _, when, took, words, address, name = entries[2]
    assert abs(when - time.time()) < 60 and took >= 0
    assert words[:5] == [b"COUNTDOWN", b"START", b"meta", b"META", b"(redacted)"]
    assert words[6] == b"x" * 128 + b"... (72 more bytes)"
    assert address == b"unix:%d" % os.getpid() and name == b"me"
    assert b"secret" not in b"".join(entries[1][3])
    assert len(entries[0][3]) == 32 and entries[0][3][-1] == b"... (71 more arguments)"
    assert len(speaker("SLOWLOG", "GET", "1")) == 1
    assert len(speaker("SLOWLOG", "GET", "-1")) == 3
    speaker.error("ERR", "SLOWLOG", "GET", "-2")
    assert speaker("SLOWLOG", "LEN") == 3
    assert speaker("SLOWLOG", "RESET") == Simple("OK")


def monitored(monitor, until):
    lines = []
    while True:
        lines.append(monitor.receive())
        assert isinstance(lines[-1], Simple)
        if until in lines[-1]:
            return lines


def test_monitor_shows_every_command_but_no_secrets(daemon, client):
    monitor = daemon.connect()
    assert monitor("MONITOR") == Simple("OK")
    client("COUNTDOWN", "START", "k", "meta", "SECRET", "Token", "SECRET")
    client("TIMER", "SET", "payload", "1s", "PAYLOAD", "SECRET")
    client("COUNTDOWN", "RESEND", "k", "TOKEN", "SECRET")
    client("COUNTDOWN", "START", "k", "TITLE", "META", "META", "SECRET")
    client.error("ERR", "AUTH", "SECRET")
    client.error("ERR", "HELLO", "3", "AUTH", "user", "SECRET")
    client("ECHO", b"\x00\"\\\r\n\xff")
    lines = monitored(monitor, '"ECHO"')
    text = "\n".join(lines)
    assert "SECRET" not in text
    assert re.match(r'^\d+\.\d{6} \[0 unix:\d+\] "COUNTDOWN" "START" "k" "meta" ', lines[0])
    assert '"TIMER" "SET" "payload" "1s" "PAYLOAD" "(redacted)"' in text
    assert lines[-1].endswith(r'"ECHO" "\x00\"\\\r\n\xff"')


@pytest.mark.daemon(config="limits: {max-output: 1KiB}")
def test_a_monitor_whose_failing_command_overflows_is_closed(daemon, client):
    """The begun reply is rolled back, but by then the whole output has been discarded."""
    monitor = daemon.connect()
    # The error and its MONITOR line are long, so a few overflow the output even in small batches.
    monitor.send_bytes(request("MONITOR") + request("COUNTDOWN", "LIST", "k" * 100) * 200)
    assert monitor.is_closed()
    eventually(lambda: "what MONITOR shows" in daemon.log, "the log says why")
    assert client("PING") == Simple("PONG")


# Virtual time


@pytest.mark.daemon(virtual_time=True)
def test_clock_advance_runs_due_timers(daemon, client):
    before = client("TIME")
    assert client("TIME") == before, "it stands still, to the microsecond"
    now = client("CLOCK", "ADVANCE", "1h")
    assert now == (int(before[0]) + 3_600) * 1_000 + int(before[1]) // 1_000
    assert client("CLOCK", "ADVANCE", "0") == now
    client.error("ERR", "CLOCK", "ADVANCE", "x")
    assert daemon.info("server")["clock"] == "virtual"


@pytest.mark.daemon(virtual_time=True)
def test_what_follows_clock_advance_in_a_pipeline_is_later(client):
    client.send_bytes(
        request("COUNTDOWN", "START", "k")
        + request("CLOCK", "ADVANCE", "10s")
        + request("COUNTDOWN", "GET", "k")
        + request("CLOCK", "ADVANCE", "50s")
        + request("COUNTDOWN", "START", "k")
    )
    replies = [client.reply() for _ in range(5)]
    assert view(replies[2])["remaining_ms"] == 50_000
    assert view(replies[4])["accepted"] == 1


@pytest.mark.daemon(virtual_time=True)
def test_clock_advance_stops_when_too_much_is_due(client):
    client("TIMER", "SET", "t", "1ms", "EVERY", "1ms")
    assert client("CLOCK", "ADVANCE", "1000ms") > 0
    assert view(client("TIMER", "GET", "t"))["fired"] == 1_000


@pytest.mark.parametrize(
    "words",
    [["ADVANCE", "1s"], ["SET", "+1h"], ["SUSPEND", "1h"], ["RESTART"], ["REBOOT", "1m"]],
)
def test_real_time_cannot_be_moved(client, words):
    assert f"--virtual-time to use CLOCK {words[0]}" in client.error("ERR", "CLOCK", *words)
    assert client("PING") == Simple("PONG")


# The end


@pytest.mark.parametrize("words", [[], ["NOSAVE"], ["SAVE"]])
def test_shutdown_ends_the_daemon(daemon, words):
    client, other = daemon.connect(), daemon.connect()
    other("PING")
    daemon.is_expected_to_run = False
    client.send("SHUTDOWN", *words)
    with pytest.raises(Closed):
        client.receive()
    assert other.is_closed()
    assert daemon.process.wait(timeout=PATIENCE) == 0
    assert not daemon.path.exists()
    assert "ended by=SHUTDOWN" in daemon.log


def test_shutdown_with_a_bad_option_is_refused(client):
    client.error("ERR", "SHUTDOWN", "NOW")
    assert client("PING") == Simple("PONG")
