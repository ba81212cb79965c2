"""Decorators of functions, and private daemons."""

import asyncio
import datetime
import os
import pickle
import subprocess
import sys
import threading

import pytest

import countdownd as package
from countdownd.testing import eventually


def test_decorators_of_async_functions(countdownd):
    async def main():
        client = package.AsyncClient(countdownd.path)
        calls = []

        @package.throttled("ip", burst=1, rate="1/1h", client=client)
        async def visit():
            calls.append(1)

        @package.idempotent("order:{key}", client=client)
        async def order(key):
            calls.append(key)
            return key

        await visit()
        with pytest.raises(package.TooMany):
            await visit()
        assert await order("a") == await order("a") == "a"
        await client.aclose()
        return calls

    assert asyncio.run(main()) == [1, "a"]


def test_an_embedded_daemon_ends_with_the_program(tmp_path):
    program = (
        "import sys, countdownd\n"
        "client = countdownd.embedded(sys.argv[1])\n"
        "print(client.countdown.start('a').accepted, client.path)\n")
    for answer in ("True", "False"):  # Its state is kept.
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "d"], capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == answer
    with pytest.raises(package.Down):
        package.Client(done.stdout.split()[1]).ping()


class Opaque:
    pass


def test_arguments_are_compared_by_their_values(countdownd):
    calls = []

    @package.idempotent("{key}")
    def order(key, item="tea", count=1, *, at=None):
        calls.append(item)
        return len(calls)

    day = datetime.date(2026, 12, 1)
    assert order("a", "tea") == order("a", item="tea", count=1) == order(key="a") == 1
    assert order("b", at=day) == order("b", at=datetime.date(2026, 12, 1)) == 2
    others = [("a", {"item": "coffee"}), ("a", {"count": 1.5}), ("b", {"at": "2026-12-01"})]
    for key, other in others:
        with pytest.raises(package.Mismatch):
            order(key, **other)
    assert order("c", {"x", "y"}) == order("c", {"y", "x"}) == 3


def test_an_argument_without_a_value_is_refused(countdownd):
    @package.idempotent("{key}")
    def order(key, connection):
        raise AssertionError

    with pytest.raises(TypeError, match="Opaque.*ignore"):
        order("a", Opaque())

    @package.idempotent("{key}", ignore=["connection"])
    def other(key, connection):
        return key

    assert other("a", Opaque()) == other("a", Opaque()) == "a"

    class Shop:
        @package.idempotent("{key}")
        def order(self, key):
            return key

    assert Shop().order("a") == Shop().order("a") == "a"


@pytest.mark.parametrize("result", [Opaque(), (1, 2), {1: 2}, float("nan"), b"bytes"])
def test_a_result_that_cannot_be_kept_is_refused_at_once(countdownd, result):
    calls = []

    @package.idempotent("{key}")
    def order(key):
        calls.append(key)
        return result

    with pytest.raises(TypeError, match="the result of .*order"):
        order("a")
    # It is done, so nobody is invited to do it again at once.
    with pytest.raises(package.Running) as running:
        order("a")
    assert running.value.headers == {"Retry-After": "10"}
    assert pickle.loads(pickle.dumps(running.value)).retry_after == datetime.timedelta(seconds=10)
    countdownd.advance("10s")
    with pytest.raises(TypeError):
        order("a")
    assert calls == ["a", "a"]


def test_two_functions_share_no_key(countdownd):
    one = package.idempotent("{key}")(lambda key: "one")

    @package.idempotent("{key}")
    def two(key):
        return "two"

    @package.idempotent("{key}", name="shared")
    def three(key):
        return "three"

    @package.idempotent("{key}", name="shared")
    def four(key):
        return "four"

    assert [each("a") for each in (one, two, three, four)] == ["one", "two", "three", "three"]
    limit = package.throttled("{key}", burst=1, rate="1/1h")
    first, second = limit(one), limit(two)
    assert first("x") and second("x")
    with pytest.raises(package.TooMany):
        first("x")


def test_a_value_with_a_colon_is_no_other_key(countdownd):
    @package.idempotent("{user}:{key}", ignore=["user", "key"])
    def order(user, key):
        return [user, key]

    assert order("a", "b:c") == ["a", "b:c"] and order("a:b", "c") == ["a:b", "c"]


def test_the_lease_of_a_function_is_extended(countdownd):
    gate, started = threading.Event(), threading.Event()

    @package.idempotent("{key}", lease="300ms")
    def order(key):
        started.set()
        gate.wait()
        return key

    thread = threading.Thread(target=order, args=["a"])
    thread.start()
    started.wait()
    once = countdownd.client.once
    key = once.list()[0].key
    for _ in range(3):
        countdownd.advance("200ms")
        eventually(lambda: once.get(key).lease == datetime.timedelta(milliseconds=300))
    with pytest.raises(package.Running):
        order("a")
    gate.set()
    thread.join()
    assert order("a") == "a"


def test_a_client_of_the_wrong_kind_is_refused(countdownd):
    async def visit():
        raise AssertionError

    for decorate in (
        package.throttled("a", burst=1, rate="1/1h", client=countdownd.client),
        package.idempotent("a", client=countdownd.client),
        package.debounced("a", quiet="1s", client=countdownd.client),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="AsyncClient"):
            decorate(visit)


def test_what_is_debounced_is_kept_as_json(countdownd):
    @package.debounced("reindex", quiet="2s")
    def reindex(what):
        raise AssertionError

    with pytest.raises(TypeError, match="kept as JSON"):
        reindex(Opaque())
