"""The middleware's contract, docs/reference/middleware.md: an app of each framework over HTTP, with
the real daemon on virtual time. middleware_tools.py has the routes of the apps."""

import concurrent.futures
import itertools
import re

import pytest

from countdownd import eventually, view
from middleware_tools import AGAIN, ANSWERS, APPS, FRAMEWORKS, App
from proxy import CLOSE, REFUSE

#: Longer than any test takes; a test lets go of its handler.
LONG = 60

numbers = itertools.count(1)


@pytest.fixture(scope="module", params=[
    # In one worker for each, as the tests of a framework share an app.
    pytest.param(name, id=re.sub(r"(_app)?\.\w+", "", name), marks=pytest.mark.xdist_group(name))
    for name in FRAMEWORKS if (APPS / name.split()[0]).exists()])  # fmt: skip
def shared(request):
    app = App(request.param)
    yield app
    app.close()


@pytest.fixture
def app(shared):
    yield shared
    shared.proxy.fates.clear()
    if shared.process.poll() is not None:
        shared.start()
    if shared.daemon.process.poll() is not None:
        shared.daemon.start_again()


@pytest.fixture
def key():
    return f"k{next(numbers)}"


@pytest.fixture
def client():
    """An address that no other test has."""
    return f"10.1.0.{next(numbers)}"


def entries(app, kind, text):
    """Returns the entries of a kind in whose key there is a text."""
    with app.daemon.connect() as client:
        _, found = client(kind, "LIST", "MATCH", f"*{text}*")
    return [view(one) for one in found]


# Idempotency: what is recorded


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_is_stored_and_replayed(app, key, answer):
    first, again = app.order(key, answer), app.order(key, answer)
    assert first.status == ANSWERS[answer]
    assert again.content == first.content
    assert again.is_replayed and not first["Idempotency-Replayed"]
    assert app.runs(key) == 1
    match answer:
        case "text": assert first.body.decode() == "tea for two: 2 €"
        case "bytes": assert first.body == bytes(range(256))
        case "created" | "redirect": assert first["Location"] == "/orders/1"
        case "empty": assert first.body == b""
        case "cookie": assert len(first.headers.get_all("Set-Cookie")) == 2  # fmt: skip


@pytest.mark.parametrize("answer", AGAIN)
def test_an_answer_that_invites_to_try_again_is_not_stored(app, key, answer):
    for count in (1, 2):
        reply = app.order(key, answer)
        assert reply.status == AGAIN[answer] and not reply.is_replayed
        assert app.runs(key) == count
    if answer == "many":
        assert reply["Retry-After"] == "7"
    assert not entries(app, "ONCE", key)


@pytest.mark.parametrize("fields", [
    {"answer": "stream"}, {"answer": "huge", "size": 100_000},
    {"answer": "huge", "size": 1_000_000},
])  # fmt: skip
def test_an_answer_that_cannot_be_stored_is_an_error_at_once(app, key, fields):
    """The work is done, so nothing says that it may be done again: not before the lease is over."""
    before = len(app.log)
    reply = app.order(key, **fields)
    assert reply.status == 500, reply
    eventually(lambda: "cannot be stored" in app.log[before:], lambda: app.log[-2000:])
    assert app.order(key, **fields).status == 409
    assert app.runs(key) == 1


def test_an_answer_is_replayed_after_the_app_and_the_daemon_are_killed(app, key):
    first = app.order(key, "created")
    app.daemon.restart("kill")
    app.process.kill()
    app.process.wait()
    app.start()
    assert app.order(key, "created").content == first.content
    app.advance("23h59m")
    assert app.order(key, "created").is_replayed
    app.advance("1m")
    assert not app.order(key, "created").is_replayed
    assert app.runs(key) == 2


# Idempotency: while it runs


def test_a_repetition_is_refused_while_the_first_request_runs(app, key):
    first = app.beside(key, wait=LONG)
    app.wait_for_run(key)
    refused = app.order(key, wait=LONG)
    assert (refused.status, refused["Retry-After"]) == (409, "2")
    assert not refused.is_replayed
    app.let_go(key)
    assert first().status == 200
    assert app.order(key, wait=LONG).content == first().content
    assert app.runs(key) == 1


def test_one_of_many_requests_at_once_runs(app, key):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: app.order(key), range(24)))
    assert {reply.status for reply in replies} <= {200, 409}
    assert sum(reply.status == 200 and not reply.is_replayed for reply in replies) == 1
    assert app.runs(key) == 1


def test_the_lease_is_extended_while_the_handler_runs(app, key):
    first = app.beside(key, wait=LONG)
    app.wait_for_run(key)
    for _ in range(4):
        before = app.proxy.count("ONCE", "EXTEND")
        # The daemon has answered the one before.
        eventually(lambda: app.proxy.count("ONCE", "EXTEND") > before + 1, "the lease is extended")
        app.advance("1500ms")
        assert app.order(key, wait=LONG).status == 409
    app.let_go(key)
    assert first().status == 200 and app.runs(key) == 1


def test_a_handler_that_never_answers_holds_its_key_until_the_ttl_is_over(app, key):
    """Each extension of its lease ends there."""
    first = app.beside(key, path="/brief", wait=LONG)
    eventually(lambda: app.runs(key, "brief") == 1, "it runs")
    for _ in range(2):
        before = app.proxy.count("ONCE", "EXTEND")
        eventually(lambda: app.proxy.count("ONCE", "EXTEND") > before + 1, "the lease is extended")
        assert app.order(key, path="/brief", wait=LONG).status == 409
        app.advance("1499ms")
    assert app.order(key, path="/brief", wait=LONG).status == 409
    app.advance("2ms")
    again = app.beside(key, path="/brief", wait=LONG)
    eventually(lambda: app.runs(key, "brief") == 2, "the next request runs")
    app.let_go(key)
    assert first().status == again().status == 200


def test_a_client_that_disconnects_does_not_stop_the_handler(app, key):
    connection = app.connection()
    words, headers = app.request(key, "created", wait=LONG)
    connection.request(*words, headers)
    app.wait_for_run(key)
    connection.close()
    assert app.order(key, "created", wait=LONG).status == 409
    app.let_go(key)
    eventually(lambda: app.order(key, "created", wait=LONG).is_replayed, "the answer is stored")
    assert app.runs(key) == 1


def test_after_an_app_has_died_the_next_request_runs_once_the_lease_is_over(app, key):
    with pytest.raises((ConnectionError, OSError, EOFError)):
        app.order(key, "die")
    app.process.wait()
    app.start()
    refused = app.order(key, "die")
    assert (refused.status, refused["Retry-After"]) == (409, "2")
    app.advance("1999ms")
    refused = app.order(key, "die")
    assert (refused.status, refused["Retry-After"]) == (409, "1")
    app.advance("1ms")
    with pytest.raises((ConnectionError, OSError, EOFError)):
        app.order(key, "die")
    app.process.wait()
    assert app.runs(key) == 2


# Idempotency: lost replies, and no daemon


@pytest.mark.parametrize("command", ["ONCE BEGIN", "ONCE DONE"])
def test_a_lost_reply_changes_nothing(app, key, command):
    app.proxy.fates[command] = [CLOSE]
    first = app.order(key, "created")
    assert first.status == 201 and not first.is_replayed
    again = app.order(key, "created")
    assert again.is_replayed and again.content == first.content
    assert app.runs(key) == 1


def test_if_the_daemon_cannot_be_told_the_key_is_left_to_its_lease(app, key):
    """The work is done: its answer leaves, and no CANCEL invites to do it again."""
    cancelled = app.proxy.count("ONCE", "CANCEL")
    app.proxy.fates["ONCE DONE"] = [REFUSE] * 1000
    assert app.order(key, "created").status == 201
    app.proxy.fates.clear()
    refused = app.order(key, "created")
    assert (refused.status, refused["Retry-After"]) == (409, "2")
    assert app.proxy.count("ONCE", "CANCEL") == cancelled
    app.advance("2s")
    assert app.order(key, "created").status == 201 and app.runs(key) == 2
    assert app.order(key, "created").is_replayed


def test_without_a_daemon_nothing_runs(app, key):
    app.daemon.kill()
    reply = app.order(key)
    assert reply.status == 503 and int(reply["Retry-After"]) > 0
    assert app.runs(key) == 0
    app.daemon.start_again()
    assert app.order(key).status == 200


def test_a_daemon_that_comes_back_while_the_handler_runs_is_told(app, key):
    first = app.beside(key, "created", wait=LONG)
    app.wait_for_run(key)
    app.daemon.restart("kill")
    app.let_go(key)
    assert first().status == 201
    assert app.order(key, "created", wait=LONG).is_replayed and app.runs(key) == 1


# Idempotency: keys


def test_a_key_of_another_request_is_refused(app, key):
    first = app.beside(key, wait=LONG)
    app.wait_for_run(key)
    assert app.order(key, wait=LONG, item="tea").status == 422
    app.let_go(key)
    assert first().status == 200
    assert app.order(key, wait=LONG, item="tea").status == 422
    assert app.order(key, wait=LONG, path="/orders?gift=yes").status == 422
    assert app.runs(key) == 1


def test_two_handlers_share_no_key(app, key):
    assert app.order(key, "created").status == 201
    assert not app.order(key, "created", path="/payments").is_replayed
    assert app.order(key, "created", path="/payments").is_replayed
    assert (app.runs(key), app.runs(key, "payments")) == (1, 1)


def test_two_users_share_no_key(app, key):
    users = [("a", key), ("b", key), (None, key), ("a:b", key), ("a", f"b:{key}"), ("a%3Ab", key)]
    for user, its in users:
        assert not app.order(its, user=user).is_replayed
        assert app.order(its, user=user).is_replayed


def test_without_a_key_each_request_runs(app):
    before = app.runs("-")
    for _ in range(2):
        assert app.order(None).status == 200
    assert app.runs("-") == before + 2


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_empty_or_longer_than_255_bytes_is_the_mistake_of_the_client(app, key):
    assert app.order(key).status == 400
    assert app.runs(key) == 0


# Limits


def test_a_limit_of_each_address(app, client):
    for left in range(10)[::-1]:
        reply = app.get("/search", client)
        assert reply.status == 200
        assert reply["RateLimit-Policy"] == '"default";q=10;w=3600'
        assert reply["RateLimit"] == f'"default";r={left};t={360 * (10 - left)}'
    refused = app.get("/search", client)
    assert (refused.status, refused["Retry-After"]) == (429, "360")
    assert app.get("/search", "10.2.0.1").status == 200
    app.advance("6m")
    assert app.get("/search", client).status == 200


def test_two_limiters_share_nothing(app, client):
    for path in ("/search", "/costly"):
        while app.get(path, client).status == 200:
            pass
    reply = app.ask("POST", "/login", **{"X-Client": client})
    assert (reply.status, reply["RateLimit"]) == (200, '"default";r=9;t=360')


def test_a_request_has_a_cost(app, client):
    assert [app.get("/costly", client).status for _ in range(3)] == [200, 200, 429]


def test_a_request_that_is_skipped_uses_nothing(app, client):
    for _ in range(12):
        reply = app.get("/health", client)
        assert reply.status == 200 and not reply["RateLimit"]
    assert app.get("/search", client)["RateLimit"] == '"default";r=9;t=360'


def test_addresses_of_one_network_of_ipv6_share_a_limit(app):
    def left(address):
        return app.get("/search", address)["RateLimit"].split(";")[1]

    assert [left(one) for one in ("2001:db8::1", "2001:db8::2:0:0:2", "2001:DB8:0:0:ffff::")] == [
        "r=9", "r=8", "r=7"]
    assert left("2001:db8:0:1::1") == "r=9"
    mapped = ("10.3.0.1", "::ffff:10.3.0.1", "::ffff:10.3.0.2")
    assert [left(one) for one in mapped] == ["r=9", "r=8", "r=9"]


def test_without_a_daemon_a_limit_is_open_or_closed_as_it_says(app, client):
    assert [app.get("/open", client).status for _ in range(2)] == [200, 429]
    app.daemon.kill()
    for _ in range(2):
        assert app.get("/open", client).status == 200
    # The default of limits.
    assert app.get("/search", client).status == 200
    reply = app.ask("POST", "/login", **{"X-Client": client})
    assert reply.status == 503 and int(reply["Retry-After"]) > 0
    app.daemon.start_again()
    assert app.get("/open", client).status == 429


@pytest.mark.parametrize("path, what", [("/unknown", "nowhere"), ("/nokey", "key")])
def test_a_mistake_of_the_program_is_an_error_of_its_own_that_is_logged(app, client, path, what):
    """It is not 503: to try again does not help; nor is it let through."""
    before = len(app.log)
    reply = app.get(path, client)
    assert reply.status == 500 and not reply["Retry-After"]
    eventually(lambda: what in app.log[before:], lambda: app.log[-2000:])
    assert app.get("/search", client).status == 200
