"""Decorators of async functions, and an embedded daemon."""

import asyncio
import subprocess
import sys

import pytest

import countdownd as package


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
