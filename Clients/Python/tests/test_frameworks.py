"""Middleware and decorators in Django; those of FastAPI are tested by Examples/service."""

import asyncio
import subprocess
import sys

import pytest

import countdownd as package


@pytest.fixture
def site(countdownd):
    django = pytest.importorskip("django")
    from django.conf import settings
    from django.http import JsonResponse
    from django.test import Client
    from django.urls import path

    from countdownd.django import rate_limit

    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="test",
            MIDDLEWARE=["countdownd.django.ErrorReplies"])  # fmt: skip
        django.setup()

    @rate_limit("ip:{request.META[REMOTE_ADDR]}", burst=1, rate="1/10s")
    def search(request):
        return JsonResponse({"found": []})

    @package.idempotent("order:{key}")
    def place(key, item):
        return {"item": item}

    def order(request):
        return JsonResponse(place(request.headers["Idempotency-Key"], request.POST["item"]))

    globals()["urlpatterns"] = [path("search", search), path("order", order)]
    from django.urls import clear_url_caches

    clear_url_caches()
    return Client()


def test_django_limits_requests(site, countdownd):
    first = site.get("/search")
    assert first.status_code == 200 and first["RateLimit"] == '"default";r=0;t=10'
    refused = site.get("/search")
    assert refused.status_code == 429 and refused["Retry-After"] == "10"
    countdownd.advance("10s")
    assert site.get("/search").status_code == 200
    countdownd.stop()
    assert site.get("/search").status_code == 503


def test_django_places_an_order_once(site, countdownd):
    def order(item, key="a"):
        return site.post("/order", {"item": item}, headers={"Idempotency-Key": key})

    assert order("tea").json() == order("tea").json() == {"item": "tea"}
    assert order("coffee").status_code == 422
    countdownd.client.once.begin("order:b", ttl="1h")
    assert order("tea", "b").status_code == 409


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
