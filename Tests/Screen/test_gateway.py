"""The routes of countdown-gateway."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

from countdownd import HAND_OVER, PATIENCE, PROJECT, eventually, request, reserved_port
from gateway import KEY, SERVER_KEY, Admin, bearer, binary, raw, ticket

PHONE = "+4512345678"
WATCH = {"resend": f"countdown:{PHONE}"}
APP = "https://app.example"


# Streams


def test_a_stream_has_a_greeting_a_snapshot_and_changes(gateway, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    stream = gateway.stream(ticket(WATCH))
    headers = stream.answer.headers
    assert headers["Content-Type"] == "text/event-stream"
    assert headers["Cache-Control"] == "no-store" and headers["X-Accel-Buffering"] == "no"
    assert stream.next()["event"] == "hello"
    snapshot = stream.next()
    assert snapshot["event"] == "snapshot" and snapshot["state"] == "counting"
    assert snapshot["deadline_unix_ms"] > snapshot["now_unix_ms"]
    client("COUNTDOWN", "CANCEL", PHONE)
    assert stream.next()["event"] == "cancelled"
    stream.close()


def test_no_keys_leave_the_gateway(gateway, client):
    client("COUNTDOWN", "START", PHONE, "META", "secret-4512345678")
    client("TIMER", "SET", PHONE, "1h", "PAYLOAD", "secret-4512345678")
    watch = WATCH | {"timer": f"timer:{PHONE}"}
    text = ticket(watch)
    stream = gateway.stream(text)
    found = [stream.next() for _ in range(3)]
    client("COUNTDOWN", "CANCEL", PHONE)
    client("TIMER", "DEL", PHONE)
    found += [stream.next() for _ in range(2)]
    found.append(gateway.ask("/v1/views/timer", headers=bearer(text))[2])
    assert {message.get("alias") for message in found} == {None, "resend", "timer"}
    assert "4512345678" not in json.dumps(found)


SECRET = "secret-4512345678"
LIMITED = "throttles: {ip: {burst: 1, rate: 1/1h}}\npolicies: {phone: {ladder: [30s], limits: [ip]}}"


@pytest.mark.daemon(config=LIMITED)
def test_addresses_owners_and_requests_stay_inside_also_those_in_lists(gateway, daemon):
    client = daemon.connect(protocol=3)
    client("SCOPE", "OPEN", SECRET)
    client("HUD", "SHOW", SECRET, "REQUEST", f"/{SECRET}", "OWNER", f"scope:{SECRET}", "GRACE", "0")
    client("COUNTDOWN", "START", SECRET, "POLICY", "phone", "LIMIT", f"ip:{SECRET}")
    client("PAGE", "APPEAR", SECRET, "SCREEN", f"{SECRET}-page")
    # What must stay inside is there.
    (hold,) = client("HUD", "GET", SECRET)[b"holds"]
    assert SECRET.encode() in hold[b"request"] and SECRET.encode() in hold[b"owner"]
    assert SECRET.encode() in client("COUNTDOWN", "GET", SECRET)[b"limit"]
    assert SECRET.encode() in client("PAGE", "GET", SECRET)[b"screen"]
    kinds = ("hud", "countdown", "page", "scope")
    text = ticket({kind: f"{kind}:{SECRET}" for kind in kinds})
    stream = gateway.stream(text)
    found = [stream.next() for _ in range(5)]
    client("HUD", "STATUS", SECRET, "wait")
    found += stream.until("updated")
    found += [gateway.ask(f"/v1/views/{kind}", headers=bearer(text))[2] for kind in kinds]
    assert "4512345678" not in json.dumps(found)
    (hold,) = found[-4]["holds"]
    assert (hold["kind"], hold["status"]) == ("loading", "wait")


@pytest.mark.daemon(virtual_time=True)
def test_a_stream_has_no_ticks(gateway, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "3")
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    client("CLOCK", "ADVANCE", "3s")
    assert [message["event"] for message in stream.until("ready")] == ["ready"]


def test_streams_of_a_channel_share_one_subscription(gateway, client):
    streams = [gateway.stream(ticket(WATCH)) for _ in range(5)]
    for stream in streams:
        stream.until("snapshot")
    channel = f"countdown:{PHONE}"
    assert client("PUBSUB", "NUMSUB", channel) == [channel.encode(), 1]
    # The two connections of the gateway, and this one.
    assert len(client("CLIENT", "LIST").decode().splitlines()) == 3
    client("COUNTDOWN", "START", PHONE)
    for stream in streams:
        assert stream.until("started")[-1]["alias"] == "resend"
        stream.close()
    eventually(lambda: client("PUBSUB", "NUMSUB", channel)[1] == 0, "nobody watches")


@pytest.mark.daemon(config="hud: {max-level: alert}")
def test_a_page_that_joins_costs_the_other_pages_nothing(gateway, client):
    client("HUD", "SHOW", "screen", "LEVEL", "normal", "GRACE", "0", "FADEIN", "0")
    client("HUD", "SHOW", "screen", "LEVEL", "alert", "GRACE", "0", "FADEIN", "0")
    watch = {"resend": f"countdown:{PHONE}", "hud": "hud:screen"}
    streams = [gateway.stream(ticket(watch)) for _ in range(3)]
    client("COUNTDOWN", "START", PHONE)
    for stream in streams:
        found = [(m["event"], m.get("level")) for m in stream.until("started")]
        # The page's own snapshots, one for each level of the HUD, and none for the pages after it.
        assert sorted(found, key=str) == sorted([
            ("hello", None), ("snapshot", None), ("snapshot", "alert"), ("snapshot", "normal"),
            ("started", None)], key=str)  # fmt: skip
        stream.close()


def test_pages_that_open_together_each_have_a_snapshot(gateway, client):
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        streams = list(pool.map(lambda _: gateway.stream(ticket(WATCH)), range(60)))
    client("COUNTDOWN", "CANCEL", PHONE)
    for stream in streams:
        events = [message["event"] for message in stream.until("cancelled")]
        assert events == ["hello", "snapshot", "cancelled"]
        stream.close()


def test_a_channel_can_have_two_aliases(gateway):
    stream = gateway.stream(ticket({"a": "timer:t", "b": "timer:t"}))
    stream.until("hello")
    assert [stream.next()["alias"] for _ in range(2)] == ["a", "b"]


def test_a_stream_resumes_with_missed_events_each_once(gateway, client):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    client("COUNTDOWN", "START", PHONE)
    stream.until("started")
    last = stream.last
    stream.close()
    client("COUNTDOWN", "CANCEL", PHONE)
    client("COUNTDOWN", "START", PHONE)
    again = gateway.stream(ticket(WATCH), last=last)
    events = [message["event"] for message in again.until("snapshot")]
    assert events == ["hello", "cancelled", "started", "snapshot"]
    client("COUNTDOWN", "CANCEL", PHONE)
    assert again.next()["event"] == "cancelled"
    # Resuming includes the newest event, also while another stream of the channel is open.
    third = gateway.stream(ticket(WATCH), last=int(again.last) - 1)
    assert [m["event"] for m in third.until("snapshot")] == ["hello", "cancelled", "snapshot"]


def test_a_stream_that_resumes_beyond_the_log_reports_a_gap(gateway, client):
    for last in (10**15, 10**30):
        stream = gateway.stream(ticket(WATCH), last=last)
        assert [m["event"] for m in stream.until("snapshot")] == ["hello", "gap", "snapshot"]


def test_a_page_that_sends_no_cursor_gets_a_gap(gateway, client):
    client("COUNTDOWN", "START", PHONE)
    for last in ("nonsense", "-1", "+1", "0x1", "1-2-x", "1.2.3.4.5.6.7", "é", " ", "1" * 10_000):
        stream = gateway.stream(ticket(WATCH), last=last.encode())
        assert [m["event"] for m in stream.until("snapshot")] == ["hello", "gap", "snapshot"], last
        stream.close()


@pytest.mark.daemon(config="durability: none\nevents: {keep: 200000}")
def test_zero_reads_a_bounded_depth(gateway, client):
    client("TIMER", "SET", "old", "1h")
    watch = {"old": "timer:old", "new": "timer:new"}
    found = gateway.stream(ticket(watch), last=0).until("snapshot")
    assert [m["event"] for m in found[:4]] == ["hello", "gap", "set", "snapshot"]
    last = client("EVENTS", "LAST")
    while client("EVENTS", "LAST") <= last + 100_000:
        client.send_bytes(request("TIMER", "SET", "filler", "1h") * 100)
        for _ in range(100):
            client.reply()
    client("TIMER", "SET", "new", "1h")
    found = gateway.stream(ticket(watch), last=0).until("snapshot")
    assert [(m["event"], m.get("alias")) for m in found[:3]] == [
        ("hello", None), ("gap", None), ("set", "new")]


@pytest.mark.daemon(config="events: {keep: 10}")
def test_a_page_that_was_away_for_longer_than_the_log_gets_a_gap_and_the_rest(gateway, client):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    client("COUNTDOWN", "START", PHONE)
    stream.until("started")
    stream.close()
    for number in range(20):
        client("TIMER", "SET", number, "1h")
    client("COUNTDOWN", "CANCEL", PHONE)
    found = gateway.stream(ticket(WATCH), last=stream.last).until("snapshot")
    assert [m["event"] for m in found] == ["hello", "gap", "cancelled", "snapshot"]


def test_a_stream_ends_with_its_ticket(gateway):
    tickets = []

    # A slow machine may read a ticket only when it has ended.
    def short():
        tickets.append(int(time.time()) + 3)
        return ticket(WATCH, exp=tickets[-1])

    stream = gateway.eventual_stream(short)
    assert stream.until("end")[-1]["event"] == "end" and stream.next() is None
    assert time.time() >= tickets[-1], "it ended early"


def test_a_silent_stream_has_comments(gateway):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    # It has the time.
    assert re.fullmatch(rb": \d+\n", stream.answer.readline())


def test_streams_survive_the_daemon_and_report_the_outage(gateway, daemon):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    with daemon.connect() as client:
        client("COUNTDOWN", "START", PHONE)
    stream.until("started")
    daemon.kill()
    assert stream.next()["event"] == "outage"
    assert gateway.problem("/v1/events", headers=bearer(ticket(WATCH)))[0] == 503
    assert gateway.problem("/v1/views/resend", headers=bearer(ticket(WATCH)))[0] == 503
    eventually(lambda: gateway.ask("/readyz")[0] == 503, "it is not ready")
    assert gateway.ask("/healthz")[0] == 200 and gateway.admin.problem("/metrics")[0] == 503
    daemon.start_again()
    assert stream.next()["event"] == "recovered"
    assert stream.next()["state"] == "counting"
    eventually(lambda: gateway.ask("/readyz")[0] == 200, "it is ready")


def test_old_and_new_streams_continue_after_an_outage(gateway, daemon):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    daemon.kill()
    assert stream.next()["event"] == "outage"
    eventually(lambda: gateway.ask("/readyz")[0] == 503, "it is not ready")
    daemon.start_again()
    for last in (None, stream.last):
        gateway.eventual_stream(lambda: ticket(WATCH), last).until("snapshot")
    assert stream.until("snapshot")[0]["event"] == "recovered"


def test_streams_end_when_the_gateway_does(gateway):
    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    gateway.stop()
    assert stream.next()["event"] == "end" and stream.next() is None
    assert gateway.process.returncode == 0


# Tickets


def test_wrong_and_expired_tickets_are_refused_with_401(gateway):
    good = ticket(WATCH)
    header, claims, signature = good.split(".")
    unsigned = "eyJhbGciOiJub25lIiwia2lkIjoidGVzdCJ9"
    for text in [
        "", "nonsense", f"{header}.{claims}.", f"{unsigned}.{claims}.",
        f"{header}.{claims}.{signature[::-1]}", ticket(WATCH, life=-1), ticket(WATCH, life=3600),
        ticket({}), ticket({f"a{i}": f"timer:{i}" for i in range(17)}), ticket({"a": "nothing:b"}),
    ]:  # fmt: skip
        for path in ("/v1/events", "/v1/views/resend"):
            status, detail = gateway.problem(path, headers=bearer(text))
            assert status == 401 and detail, text
    assert gateway.problem("/v1/events")[0] == 401
    assert gateway.ask("/v1/events")[1]["WWW-Authenticate"] == "Bearer"
    # A ticket in the URL is refused, because logs would keep it.
    assert gateway.problem(f"/v1/events?ticket={good}")[0] == 401


def issue(gateway, *words):
    return subprocess.run(
        [binary(), "ticket", "--keys", gateway.keys, *words], capture_output=True, text=True)


def test_it_issues_tickets(gateway, client):
    client("COUNTDOWN", "START", PHONE)
    done = issue(gateway, "--minutes", "1", f"resend=countdown:{PHONE}")
    assert done.returncode == 0, done.stderr
    stream = gateway.stream(done.stdout.strip())
    assert stream.until("snapshot")[-1]["state"] == "counting"


@pytest.mark.parametrize(
    "words, text",
    [
        (["resend"], "is not ALIAS=KIND:KEY"),
        (["a=nothing:b"], "is not KIND:KEY"),
        (["a b=timer:b"], "alias"),
        (["a=timer:b", "a=timer:c"], "is there twice"),
        (["a=timer:b", "--minutes", "16"], "valid for 1 to 15 minutes"),
        (["a=timer:b", "--kid", "other"], "has no key other"),
        ([f"a{i}=timer:b" for i in range(17)], "has 1 to 16 channels"),
    ],
)
def test_it_issues_no_ticket_that_it_would_refuse(gateway, words, text):
    done = issue(gateway, *words)
    assert done.returncode != 0 and text in done.stderr and not done.stdout


def revoke(gateway, subject):
    headers = bearer(SERVER_KEY) | {"Content-Type": "application/json"}
    return gateway.ask("/v1/revoke", "POST", json.dumps({"sub": subject}), headers)


def test_a_user_who_logs_out_loses_streams_and_tickets_also_after_a_restart(
    start_gateway, daemon, tmp_path
):
    key = tmp_path / "key"
    key.write_text(SERVER_KEY)
    gateway = start_gateway("--server-key", key)
    now = int(time.time())
    old, undated = ticket(WATCH, sub="42", iat=now - 10), ticket(WATCH, sub="42")
    later, other = ticket(WATCH, sub="42", iat=now + 600), ticket(WATCH, sub="43", iat=now - 10)
    streams = {text: gateway.stream(text) for text in (old, undated, other)}
    for stream in streams.values():
        stream.until("snapshot")
    assert revoke(gateway, "42")[0] == 204
    for text in (old, undated):
        assert streams[text].next()["event"] == "end" and streams[text].next() is None
    with daemon.connect() as client:
        client("COUNTDOWN", "START", PHONE)
    assert streams[other].next()["event"] == "started"
    for _ in range(2):
        for text in (old, undated):
            status, detail = gateway.problem("/v1/events", headers=bearer(text))
            assert status == 401 and "revoked" in detail
            assert gateway.problem("/v1/views/resend", headers=bearer(text))[0] == 401
        for text in (later, other):
            gateway.stream(text).until("snapshot")
        gateway.stop()
        gateway.start()


def test_only_servers_revoke(start_gateway, tmp_path):
    key = tmp_path / "key"
    key.write_text(SERVER_KEY)
    gateway = start_gateway("--server-key", key, origins=[APP])
    headers = bearer(SERVER_KEY) | {"Content-Type": "application/json"}
    for more, body, expected in [
        ({"Origin": APP}, '{"sub":"42"}', 403), ({"Sec-Fetch-Site": "same-origin"}, '{"sub":"42"}', 403),
        ({"Authorization": "Bearer x"}, '{"sub":"42"}', 401), ({}, "{}", 400), ({}, '{"sub":""}', 400),
        ({}, '{"sub":42}', 400), ({}, "", 400), ({"Content-Type": "text/plain"}, '{"sub":"42"}', 415),
    ]:  # fmt: skip
        assert gateway.problem("/v1/revoke", "POST", body, headers | more)[0] == expected, body
    assert start_gateway().problem("/v1/revoke", "POST", "{}", headers)[0] == 404


# Origins, hosts, limits


def test_only_allowed_origins_read(start_gateway):
    gateway = start_gateway(origins=[APP])
    text = ticket(WATCH)
    for origin in ("https://evil.example", "https://app.example.evil", "http://app.example", "null"):
        status, detail = gateway.problem("/v1/events", headers=bearer(text, Origin=origin))
        assert status == 403 and "origin" in detail
    stream = gateway.stream(text, Origin=APP)
    assert stream.answer.headers["Access-Control-Allow-Origin"] == APP
    # A page can read why its request was refused.
    status, headers, _ = gateway.ask("/v1/events", headers={"Origin": APP})
    assert status == 401 and headers["Access-Control-Allow-Origin"] == APP
    status, headers, _ = gateway.ask(
        "/v1/events", "OPTIONS",
        headers={"Origin": APP, "Access-Control-Request-Headers": "authorization"})  # fmt: skip
    assert status == 204 and "Authorization" in headers["Access-Control-Allow-Headers"]
    assert headers["Access-Control-Allow-Credentials"] == "true"


def test_every_answer_varies_with_the_origin(start_gateway):
    gateway = start_gateway("--dashboard", origins=[APP])
    for origin in ({}, {"Origin": APP}, {"Origin": "https://evil.example"}):
        for server, path in [
            (gateway, "/v1/events"), (gateway, "/v1/views/a"), (gateway, "/healthz"), (gateway, "/nothing"),
            (gateway, "/components/countdown-button.js"), (gateway.admin, "/metrics"),
            (gateway.admin, "/dashboard"),
        ]:  # fmt: skip
            vary = server.ask(path, headers=origin)[1]["Vary"].split(", ")
            assert vary[0] == "Origin" and vary[1:] in ([], ["Accept-Encoding"]), (path, origin)


FIGURES = ("/metrics", "/dashboard", "/dashboard/data", "/dashboard/dashboard.js")


def test_figures_are_served_by_a_listener_of_their_own(start_gateway):
    gateway = start_gateway("--dashboard")
    for path in (*FIGURES, "//metrics", "/metrics/", "/%6detrics"):
        assert gateway.problem(path)[0] == 404, path
    for path in FIGURES:
        assert gateway.admin.ask(path)[0] == 200, path
    for path in ("/v1/events", "/v1/views/a", "/v1/commands", "/healthz", "/openapi.json"):
        assert gateway.admin.problem(path)[0] == 404, path
    for path in FIGURES[1:]:
        assert start_gateway().admin.problem(path)[0] == 404, path


def test_without_its_listener_there_are_no_figures(daemon):
    port = reserved_port()
    process = subprocess.Popen(
        [binary(), "--socket", daemon.path, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        local = Admin(port)

        def answers():
            with contextlib.suppress(ConnectionRefusedError):
                return local.ask("/healthz")[0] == 200

        eventually(answers, "it listens")
        assert local.problem("/metrics")[0] == 404
        sockets = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
        assert sockets.count(f"pid={process.pid},") == 1, sockets
    finally:
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0


def test_other_origins_read_no_figures_not_even_allowed_ones(start_gateway):
    admin = start_gateway("--dashboard", origins=[APP]).admin
    for path in (*FIGURES, "//metrics", "/metrics/", "/%6detrics"):
        for method in ("GET", "HEAD", "OPTIONS"):
            status, headers, _ = admin.ask(path, method, headers={"Origin": APP})
            assert status == 403 and "Access-Control-Allow-Origin" not in headers, (path, method)
    for path in FIGURES:
        assert admin.ask(path, headers={"Origin": admin.url[:-1]})[0] == 200, path


def test_head_has_the_headers_of_get_and_other_methods_name_those_that_work(start_gateway, client):
    gateway = start_gateway("--dashboard", "--max-streams-per-ticket", "1")
    client("COUNTDOWN", "START", PHONE)
    text = ticket(WATCH)
    for server, path in [
        (gateway, "/healthz"), (gateway, "/openapi.json"), (gateway, "/v1/views/resend"),
        (gateway, "/components/countdown-button.js"), (gateway.admin, "/metrics"),
        (gateway.admin, "/dashboard"),
    ]:  # fmt: skip
        status, headers, body = server.ask(path, "HEAD", headers=bearer(text))
        assert status == 200 and not body, path
        assert headers["Content-Type"] == server.ask(path, headers=bearer(text))[1]["Content-Type"]
        for method in ("POST", "DELETE", "PUT", "PATCH", "TRACE"):
            status, headers, _ = server.ask(path, method, headers=bearer(text))
            assert status == 405 and "GET, HEAD" in headers["Allow"], (path, method)
    # HEAD opens no stream, of which this ticket has one.
    for _ in range(2):
        status, headers, _ = gateway.ask("/v1/events", "HEAD", headers=bearer(text))
        assert status == 200 and headers["Content-Type"] == "text/event-stream"
    assert gateway.ask("/v1/events", "HEAD")[0] == 401
    gateway.stream(text).until("hello")
    headers = gateway.ask("/v1/events", "POST", headers=bearer(text))[1]
    assert headers["Allow"] == "GET, HEAD, OPTIONS"


def test_other_hosts_are_refused(start_gateway):
    gateway = start_gateway()
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil"):
        assert gateway.problem("/healthz", headers={"Host": host})[0] == 421
    assert gateway.ask("/healthz", headers={"Host": "localhost:1"})[0] == 200
    named = start_gateway("--allowed-host", "events.example")
    assert named.ask("/healthz", headers={"Host": "Events.example:443"})[0] == 200
    assert named.problem("/healthz", headers={"Host": "other.example"})[0] == 421
    # Monitoring on this machine uses the loopback address.
    assert named.ask("/healthz")[0] == 200


def test_other_channels_are_refused_with_403(gateway):
    status, detail = gateway.problem("/v1/views/other", headers=bearer(ticket(WATCH)))
    assert status == 403 and "alias" in detail


def test_a_ticket_has_4_streams(gateway):
    text = ticket(WATCH)
    streams = [gateway.stream(text) for _ in range(4)]
    status, detail = gateway.problem("/v1/events", headers=bearer(text))
    assert status == 429 and "at most 4 streams" in detail
    streams.pop().close()
    eventually(
        lambda: gateway.problem("/v1/views/resend", headers=bearer(text))[0] == 404, "views work")

    gateway.eventual_stream(lambda: text)


def test_an_address_has_64_streams(gateway):
    streams = [gateway.stream(ticket(WATCH)) for _ in range(64)]
    status, detail = gateway.problem("/v1/events", headers=bearer(ticket(WATCH)))
    assert status == 429 and "at most 64 streams" in detail
    for stream in streams:
        stream.close()


def test_limits_are_options(start_gateway):
    gateway = start_gateway("--max-streams-per-ticket", "2", "--max-streams-per-address", "3")
    text = ticket(WATCH)
    streams = [gateway.stream(text) for _ in range(2)]
    assert "at most 2 streams" in gateway.problem("/v1/events", headers=bearer(text))[1]
    streams.append(gateway.stream(ticket(WATCH)))
    refusal = gateway.problem("/v1/events", headers=bearer(ticket(WATCH)))
    assert refusal[0] == 429 and "at most 3 streams" in refusal[1]
    small = start_gateway("--max-connections", "1")
    stream = small.stream(ticket(WATCH))
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        small.ask("/healthz")
    stream.close()

    def serves():
        try:
            return small.ask("/healthz")[0] == 200
        except (ConnectionError, http.client.RemoteDisconnected):
            return False

    eventually(serves, "there is room again")


def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_has_seen(start_gateway):
    gateway = start_gateway("--trust-forwarded-for")
    for number in range(70):
        # The client's own claim comes first.
        address = f"1.1.1.1, 10.0.0.{number}"
        gateway.stream(ticket(WATCH), **{"X-Forwarded-For": address}).until("hello")


def test_a_client_that_does_not_read_is_closed(gateway, client):
    watch = {f"a{i}": f"timer:k{i}" for i in range(16)}
    connection = raw(
        gateway, f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {ticket(watch)}\r\n\r\n".encode())  # fmt: skip
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    channel = b"timer:k0"
    eventually(lambda: client("PUBSUB", "NUMSUB", channel)[1] == 1, "it is subscribed")

    def is_closed():
        for number in range(500):
            client("TIMER", "SET", f"k{number % 16}", "1h")
        return client("PUBSUB", "NUMSUB", channel)[1] == 0

    eventually(is_closed, "it was closed")
    connection.close()


def test_slow_requests_are_closed_and_others_are_served_meanwhile(gateway):
    begin = time.monotonic()
    slow = [raw(gateway, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") for _ in range(200)]
    assert gateway.ask("/healthz")[0] == 200
    for connection in slow:
        # On a slow machine, it may be closed already.
        with contextlib.suppress(ConnectionError):
            connection.send(b"a")
    for connection in slow:
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
    assert time.monotonic() - begin >= 10, "they have ten seconds"


def test_large_headers_are_refused(gateway):
    connection = raw(gateway, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000)
    assert connection.recv(100).startswith(b"HTTP/1.1 400")


# Views and commands


@pytest.mark.daemon(virtual_time=True)
def test_a_view_is_one_entity(gateway, client):
    text = ticket(WATCH | {"hud": "hud:screen"})
    assert gateway.problem("/v1/views/resend", headers=bearer(text))[0] == 404
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    status, headers, view = gateway.ask("/v1/views/resend", headers=bearer(text))
    assert status == 200 and view["alias"] == "resend" and view["remaining"] == 600
    assert headers["Cache-Control"] == "no-store"


def test_commands_are_off_by_default(gateway):
    assert gateway.ask("/v1/commands", "POST", "[]", bearer(SERVER_KEY))[0] in (404, 405)


def test_servers_send_commands(start_gateway, tmp_path):
    key = tmp_path / "key"
    key.write_text(SERVER_KEY + "\n")
    gateway = start_gateway("--server-key", key, origins=[APP])
    headers = bearer(SERVER_KEY) | {"Content-Type": "application/json"}

    def post(*words, **more):
        return gateway.ask("/v1/commands", "POST", json.dumps(words), headers | more)

    status, _, view = post("COUNTDOWN", "START", PHONE, "COUNT", 60)
    assert status == 200 and view["accepted"] is True and view["key"] == PHONE
    assert post("COUNTDOWN", "START", PHONE)[2]["reason"] == "cooldown"
    assert post("TIMER", "GET", "none")[2] is None
    for words, expected in [
        (["NONSENSE"], 403), (["SHUTDOWN"], 403), (["SUBSCRIBE", "a"], 403), (["HELLO", "2"], 403),
        (["CONFIG", "GET", "*"], 403), ([], 400), (["COUNTDOWN"], 400), ([["a"]], 400),
        (["COUNTDOWN", "CANCEL", PHONE, "GENERATION", 1], 409),
    ]:  # fmt: skip
        assert post(*words)[0] == expected, words
    assert post("PING", Origin=APP)[0] == 403
    assert post("PING", **{"Sec-Fetch-Site": "same-origin"})[0] == 403
    assert post("PING", Authorization=f"Bearer {SERVER_KEY}x")[0] == 401
    assert post("PING", **{"Content-Type": "text/plain"})[0] == 415
    assert gateway.problem("/v1/commands", "POST", "[" + " " * 70_000 + "]", headers)[0] == 413


def test_commands_that_bind_to_the_shared_connection_are_refused(start_gateway, client, tmp_path):
    key = tmp_path / "key"
    key.write_text(SERVER_KEY)
    gateway = start_gateway("--server-key", key)
    headers = bearer(SERVER_KEY) | {"Content-Type": "application/json"}

    def post(words):
        status, _, value = gateway.ask("/v1/commands", "POST", json.dumps(words.split()), headers)
        return status, value

    client("SCOPE", "OPEN", "s")
    for words in [
        "SCOPE HANDLE s paid", "scope handle s *", "SCOPE UNHANDLE s paid", "GATE TAKE g", "gate take g",
        "TIMER SET t 1h OWNER connection", "timer set t 1h owner CONNECTION", "HUD SHOW h OWNER connection",
        "COUNTDOWN START c OWNER connection", "COUNTDOWN START c META OWNER OWNER connection",
        "ONCE BEGIN o TTL 1h OWNER connection", "DEBOUNCE CALL d 1h OWNER connection",
        "GATE CHECK g buy OWNER connection", "SCOPE OPEN t OWNER connection", "NAV PUSH n p OWNER connection",
        "NAV PRESENT n p OWNER connection", "PAGE APPEAR p OWNER connection", "EVENTS SINCE 0 SUBSCRIBED",
    ]:
        status, problem = post(words)
        assert status == 403 and "connection of your own" in problem["detail"], words
    assert client("DBSIZE") == 1
    # These are keys and values, or about what is there.
    for words in [
        "GATE CHECK OWNER connection", "NAV PUSH OWNER connection", "TIMER SET OWNER 1h OWNER scope:s",
        "COUNTDOWN START OWNER META connection", "TIMER LIST OWNER connection", "EVENTS SINCE 0 MATCH SUBSCRIBED:*",
    ]:
        assert post(words)[0] == 200, words


# Monitoring


def test_metrics_are_those_of_the_daemon(gateway, client):
    status, headers, text = gateway.admin.ask("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    names = re.findall(r"^# TYPE (\w+)", text, re.M)
    own = [name for name in names if name.startswith("countdown_gateway_")]
    assert names == re.findall(r"^# TYPE (\w+)", client("METRICS").decode(), re.M) + own and own
    if promtool := shutil.which("promtool"):
        done = subprocess.run([promtool, "check", "metrics"], input=text, text=True)
        assert done.returncode == 0


def test_floods_cost_the_daemon_one_question_a_second(gateway, client):
    def calls():
        found = re.search(rb"cmdstat_metrics:calls=(\d+)", client("INFO", "commandstats"))
        return int(found[1]) if found else 0

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: gateway.admin.ask("/metrics")[0], range(500))) == {200}
    assert calls() <= time.monotonic() - begin + 2


def statuses_of(connection):
    """Reads all answers of a connection to its end; returns their statuses."""
    data = b"".join(iter(lambda: connection.recv(65536), b""))
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", data)]


def test_floods_with_tickets_cost_the_daemon_few_questions(gateway, client):
    def questions():
        found = re.findall(rb"cmdstat_(?:countdown|events)\|?\w*:calls=(\d+)", client("INFO", "commandstats"))
        return sum(map(int, found))

    before, begin, text = questions(), time.monotonic(), ticket(WATCH)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ask = lambda _: gateway.ask("/v1/views/resend", headers=bearer(text))  # noqa: E731
        answers = list(pool.map(ask, range(300)))
    took = time.monotonic() - begin
    statuses = [status for status, _, _ in answers]
    assert set(statuses) == {404, 429} and statuses.count(404) <= 20 + 5 * took + 1
    assert {headers["Retry-After"] for status, headers, _ in answers if status == 429} == {"1"}
    assert questions() - before <= statuses.count(404)
    # All tickets of an address share its limit.
    requests = [
        b"GET /v1/views/resend HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\n"
        % ticket(WATCH).encode() for _ in range(2_000)]  # fmt: skip
    others = statuses_of(raw(gateway, b"\r\n".join(requests) + b"Connection: close\r\n\r\n"))
    assert len(others) == len(requests) and set(others) == {404, 429}
    assert others.count(404) <= 200 + 50 * (time.monotonic() - begin)
    # Without a good ticket, nothing reaches the daemon.
    before = questions()
    for _ in range(300):
        assert gateway.ask("/v1/events", headers=bearer(text[:-4] + "AAAA"))[0] == 401
    assert questions() == before


def test_the_gateway_counts_what_it_does(gateway, client):
    def value(name):
        return float(re.search(rf"^countdown_gateway_{name} (.+)$", gateway.admin.ask("/metrics")[2], re.M)[1])

    stream = gateway.stream(ticket(WATCH))
    stream.until("snapshot")
    assert (value("streams"), value("streams_opened_total")) == (1, 1)
    before = value("messages_total"), value("message_bytes_total"), value("delivery_seconds_count")
    client("COUNTDOWN", "START", PHONE)
    stream.until("started")
    after = lambda: (value("messages_total"), value("delivery_seconds_count"))  # noqa: E731
    eventually(lambda: after() == (before[0] + 1, before[2] + 1), "it was counted")
    assert value("message_bytes_total") > before[1]
    gateway.problem("/v1/events")
    assert value('refusals_total{status="401"}'.replace("{", r"\{")) == 1
    stream.close()
    eventually(lambda: value("streams") == 0, "the stream is closed")


def test_files_are_compressed_and_revalidated(start_gateway):
    gateway = start_gateway("--dashboard")
    version = subprocess.run(
        [binary(), "--version"], capture_output=True, text=True).stdout.strip()
    paths = [f"/components/countdown-{name}.js" for name in ("stream", "button", "hud")]
    files = [(gateway, path) for path in (*paths, "/openapi.json")]
    files += [(gateway.admin, path) for path in ("/dashboard", "/dashboard/dashboard.css")]
    for server, path in files:
        plain = server.ask(path)[1]
        assert "Content-Encoding" not in plain and plain["Cache-Control"] == "public, max-age=300"
        for accepted, is_compressed in [("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False)]:
            connection = server.connect()
            connection.request("GET", path, headers={"Accept-Encoding": accepted})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            assert (answer.getheader("Content-Encoding") == "gzip") == is_compressed, (path, accepted)
            text = gzip.decompress(body) if is_compressed else body
            assert len(text) == int(plain["Content-Length"])
            assert len(body) == int(answer.getheader("Content-Length"))
        status, headers, body = server.ask(path, headers={"If-None-Match": f'"x", {plain["ETag"]}'})
        assert status == 304 and not body and headers["ETag"] == plain["ETag"]
        assert server.ask(path, headers={"If-None-Match": '"x"'})[0] == 200
    for path in paths:
        forever = path.replace("components", f"components/{version}")
        assert "immutable" in gateway.ask(forever)[1]["Cache-Control"]
        assert gateway.problem(path.replace("components", "components/0.0.0"))[0] == 404


def test_requests_on_one_connection_are_answered_in_order(gateway):
    connection = raw(gateway, b"".join(
        f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for path in ("healthz", "nothing", "readyz")))
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert statuses_of(connection) == [200, 404, 200, 200]


def test_what_is_no_http_is_refused_after_the_requests_before_it(gateway):
    connection = raw(
        gateway, b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\nnothing\r\n\r\n")
    assert statuses_of(connection) == [200, 400]


def test_a_stream_may_be_the_second_request_of_a_connection(gateway, client):
    connection = raw(
        gateway, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        + ticket(WATCH).encode() + b"\r\n\r\n")  # fmt: skip
    data = b""
    while b'"snapshot"' not in data:
        more = connection.recv(65536)
        assert more, data
        data += more
    client("COUNTDOWN", "START", PHONE)
    while b'"started"' not in data:
        data += connection.recv(65536)
    # What a page sends afterwards is ignored.
    connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n" * 10)
    client("COUNTDOWN", "CANCEL", PHONE)
    while b'"cancelled"' not in data:
        data += connection.recv(65536)
    connection.close()


def test_schemathesis_finds_nothing(start_gateway, tmp_path):
    program = PROJECT / ".build/schemathesis/bin/schemathesis"
    if not program.exists():
        pytest.skip("schemathesis is not installed")
    key = tmp_path / "key"
    key.write_text(SERVER_KEY)
    gateway = start_gateway("--server-key", key)
    done = subprocess.run(
        [program, "run", f"{gateway.url}openapi.json", "--max-examples", "20", "--seed", "1",
         "--exclude-path", "/v1/events", "-H", f"Authorization: Bearer {SERVER_KEY}"],
        capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_unknown_paths_are_problems(gateway):
    for path in ("/", "/nothing", "/components/nothing.js", "/components/../keys", "/dashboard"):
        assert gateway.problem(path)[0] == 404, path


def test_all_routes_are_in_the_openapi_document(start_gateway, tmp_path):
    key = tmp_path / "key"
    key.write_text(SERVER_KEY)
    gateway = start_gateway("--server-key", key)
    document = gateway.ask("/openapi.json")[2]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            place = path.replace("{alias}", "resend")
            status, headers, _ = gateway.ask(place, method.upper(), "[]" if method == "post" else None)
            expected = operation["responses"]
            assert str(status) in expected, (path, status)


def test_a_start_that_cannot_work_says_why(daemon, tmp_path):
    short = tmp_path / "short"
    short.write_text("kid secret\n")
    for words, text in [
        (["--ticket-keys", tmp_path / "none"], "cannot read"),
        (["--ticket-keys", short], "at least 32 bytes"),
        (["--server-key", short], "at least 32 bytes"),
        (["--allowed-origin", "app.example"], "is not an origin"),
        (["--allowed-origin", "https://app.example/"], "is not an origin"),
        (["--listen", "nowhere"], "is not HOST:PORT"),
        (["--admin-listen", "nowhere"], "is not HOST:PORT"),
        (["--dashboard"], "needs --admin-listen"),
        (["--max-connections", "0"], "is not a limit"),
    ]:
        done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0 and text in done.stderr, done


def test_a_ticket_may_be_in_a_cookie(start_gateway, client):
    client("COUNTDOWN", "START", PHONE)
    gateway = start_gateway(origins=["https://app.example"])
    cookie = f"a=b; countdown-ticket={ticket(WATCH)}; countdown-ticket-2=x"
    allowed = {"Cookie": cookie, "Origin": "https://app.example"}
    status, headers, _ = gateway.ask("/v1/views/resend", headers=allowed)
    assert status == 200 and headers["Access-Control-Allow-Credentials"] == "true"
    assert headers["Access-Control-Allow-Origin"] == "https://app.example"
    # The header comes first, and a page of another origin reads nothing.
    both = {"Cookie": cookie, "Authorization": "Bearer x"}
    assert gateway.problem("/v1/views/resend", headers=both)[0] == 401
    assert gateway.problem("/v1/views/resend", headers={"Cookie": "countdown-ticket="})[0] == 401
    other = {"Cookie": cookie, "Origin": "https://other.example"}
    assert gateway.problem("/v1/views/resend", headers=other)[0] == 403


def test_keys_are_not_in_the_log(gateway):
    text = ticket(WATCH)
    gateway.stream(text).until("snapshot")
    gateway.problem("/v1/views/other", headers=bearer(text))
    assert KEY not in gateway.log and text not in gateway.log and PHONE not in gateway.log


# Other readers


def test_curl_reads_the_stream(gateway, client):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    process = subprocess.Popen(
        ["curl", "-sN", "-H", f"Authorization: Bearer {ticket(WATCH)}", f"{gateway.url}v1/events"],
        stdout=subprocess.PIPE, text=True)  # fmt: skip
    lines = iter(process.stdout.readline, "")
    assert next(line for line in lines if '"snapshot"' in line).startswith("data: {")
    process.kill()
    process.wait()


GO = """package main

import ("bufio"; "fmt"; "net/http"; "os"; "strings")

func main() {
	request, _ := http.NewRequest("GET", os.Args[1], nil)
	request.Header.Set("Authorization", "Bearer " + os.Args[2])
	answer, err := http.DefaultClient.Do(request)
	if err != nil { panic(err) }
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if data := lines.Text(); strings.HasPrefix(data, "data: ") {
			fmt.Println(data[6:])
			if strings.Contains(data, "snapshot") { return }
		}
	}
}
"""


@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_go_reads_the_stream(gateway, tmp_path):
    (tmp_path / "main.go").write_text(GO)
    done = subprocess.run(
        ["go", "run", tmp_path / "main.go", f"{gateway.url}v1/events", ticket(WATCH)],
        capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["hello", "snapshot"]


def test_systemd_can_hand_over_the_socket(daemon, tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-c", HAND_OVER, str(listener.fileno()), str(binary()), "--socket",
             str(daemon.path)],
            pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL, env=dict(os.environ))  # fmt: skip
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
