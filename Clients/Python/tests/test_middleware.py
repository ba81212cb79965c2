"""The middleware for Python alone; Tests/Integration/test_middleware.py has the contract."""

import asyncio

import django
import pytest
from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.test import RequestFactory
from fastapi import Depends, FastAPI, Form, Request, UploadFile
from fastapi.testclient import TestClient

import countdownd as package
from countdownd import AsyncClient, CountdowndError, Down
from countdownd._base import key_of
from countdownd._middleware import network
from countdownd.django import ErrorReplies, idempotent, rate_limit
from countdownd.fastapi import Idempotent, RateLimit, install

if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"])
    django.setup()

LIMITS = "throttles:\n  ip: {burst: 2, rate: 2/1m}\n  all: {burst: 3, rate: 3/1h, global: true}\n"


def post(view, key=None, body="{}", **more):
    headers = {} if key is None else {"Idempotency-Key": key}
    request = RequestFactory().post("/orders", body, "application/json", headers=headers, **more)
    return view(request)


@pytest.mark.parametrize("address, counted", [
    ("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:db8::1:2", "2001:db8::/64"),
    ("fe80::1%eth0", "fe80::/64"), ("testclient", "testclient"), ("", ""),
])  # fmt: skip
def test_an_address_counts_as_its_network(address, counted):
    assert network(address) == counted


def test_no_two_keys_look_alike():
    assert key_of("request", "a", "b:c") != key_of("request", "a:b", "c")
    assert key_of("request", "%3A", "c") != key_of("request", ":", "c")
    long = [key_of("request", "a" * 600, name) for name in "bc"]
    assert long[0] != long[1] and len(long[0]) <= 512


@pytest.mark.parametrize("options, says", [
    ({}, "burst and rate"), ({"burst": 1}, "burst and rate"),
    ({"burst": 0, "rate": "1/1m"}, "burst"),
    ({"burst": 1, "rate": "1m"}, "rate"), ({"burst": 1, "rate": "1/minute"}, "duration"),
    ({"burst": 1, "rate": "1/1m", "cost": 2}, "cost"),
    ({"burst": 1, "rate": "1/1m", "fail": "x"}, "fail"),
    ({"burst": 1, "rate": "1/1m", "named": ["ip"]}, "configuration"),
])  # fmt: skip
def test_a_limit_that_cannot_work_is_an_error_at_start(options, says):
    for make in (rate_limit, RateLimit):
        with pytest.raises(ValueError, match=says):
            make(**options)
    with pytest.raises(TypeError):
        rate_limit(named="ip")


@pytest.mark.parametrize("options", [
    {"ttl": "a day"}, {"lease": "2h", "ttl": "1h"}, {"lease": "0s"}, {"fail": "ajar"}])
def test_idempotency_that_cannot_work_is_an_error_at_start(options):
    for make in (idempotent, Idempotent):
        with pytest.raises(ValueError):
            make(**options)


def test_a_client_of_the_wrong_kind_is_an_error_at_start():
    with pytest.raises(TypeError, match="AsyncClient"):
        RateLimit(burst=1, rate="1/1m", client=package.Client())

    async def view(request):
        raise AssertionError

    with pytest.raises(TypeError, match="AsyncClient"):
        idempotent(client=package.Client())(view)


def test_a_key_can_be_required(countdownd):
    @idempotent(required=True)
    def order(request):
        raise AssertionError

    assert post(order).status_code == 400


def test_without_a_daemon_an_idempotent_view_can_be_open(countdownd):
    errors = []

    @idempotent(fail="open", on_error=lambda *what: errors.append(what))
    def view(request):
        return HttpResponse("ran")

    countdownd.stop()
    assert post(view, "a").content == post(view, "a").content == b"ran"
    assert len(errors) == 2 and isinstance(errors[0][0], Down) and errors[0][1].path == "/orders"


@pytest.mark.countdownd(config=LIMITS)
def test_named_limits_are_taken_all_or_none(countdownd):
    @rate_limit(named={"ip": lambda request: request.META["REMOTE_ADDR"], "all": None})
    def search(request):
        return HttpResponse()

    def ask(address):
        return search(RequestFactory().get("/", REMOTE_ADDR=address))

    assert [ask(one).status_code for one in ("1", "1", "1", "2", "3")] == [200, 200, 429, 200, 429]
    assert ask("9")["RateLimit"].startswith('"ip";r=2')


def test_views_with_a_name_share_a_limit(countdownd):
    limit = rate_limit(burst=1, rate="1/1m", name="pages")
    one, other = [limit(lambda request: HttpResponse()) for _ in range(2)]
    request = RequestFactory().get("/")
    assert (one(request).status_code, other(request).status_code) == (200, 429)


def test_a_form_is_the_same_with_another_boundary(countdownd):
    runs = []

    @idempotent()
    def upload(request):
        runs.append(request.FILES["file"].read())
        return JsonResponse({"name": request.POST["name"]})

    def ask(boundary, name="tea", content="leaves"):
        head = f"--{boundary}\r\nContent-Disposition: form-data; name="
        body = (
            f'{head}"name"\r\n\r\n{name}\r\n{head}"file"; filename="f"\r\n\r\n{content}\r\n'
            f"--{boundary}--\r\n")
        type_ = f"multipart/form-data; boundary={boundary}"
        return upload(RequestFactory().post("/", body, type_, headers={"Idempotency-Key": "a"}))

    assert ask("one").content == ask("two").content and runs == [b"leaves"]
    assert ask("one", name="coffee").status_code == ask("one", content="beans").status_code == 422


def test_errors_of_clients_make_replies(countdownd):
    replies = ErrorReplies(lambda request: None)
    request = RequestFactory().get("/")
    assert replies.process_exception(request, Down("gone")).status_code == 503
    assert replies.process_exception(request, package.Mismatch("other")).status_code == 422
    # To try again does not help.
    assert replies.process_exception(request, package.Invalid("burst is missing")) is None


def test_async_views(countdownd):
    async def main():
        runs, gate = [], asyncio.Event()

        @rate_limit(burst=3, rate="3/1h")
        @idempotent(user=lambda request: request.META["REMOTE_ADDR"])
        async def order(request):
            runs.append(1)
            await gate.wait()
            return JsonResponse({"id": len(runs)}, status=201)

        first = asyncio.ensure_future(post(order, "a"))
        while not runs:
            await asyncio.sleep(0.001)
        # As Django does when the client disconnects.
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await post(order, "a")).status_code == 409
        gate.set()
        while (again := await post(order, "a")).status_code == 409:
            countdownd.advance("20m")
        assert (again.status_code, again.content, len(runs)) == (201, b'{"id": 1}', 1)
        assert again["RateLimit"]

    asyncio.run(main())


@pytest.fixture
def web(countdownd):
    app = FastAPI()
    install(app)
    app.runs = []

    @app.post("/form", dependencies=[Depends(Idempotent(required=True))])
    async def form(file: UploadFile, name: str = Form()):
        app.runs.append(await file.read())
        return {"name": name}

    @app.post("/raw", dependencies=[Depends(Idempotent(fail="open"))])
    async def raw(request: Request):
        app.runs.append(await request.body())
        return {}

    @app.get("/error", dependencies=[Depends(RateLimit(burst=1, rate="1/1m"))])
    async def error():
        await AsyncClient().countdown.start("a", count=0)

    with TestClient(app, raise_server_exceptions=False) as client:
        client.runs = app.runs
        yield client


def test_fastapi_reads_a_form_and_the_fingerprint_has_its_values(web):
    def ask(name="tea", content=b"leaves", key="a"):
        # With a boundary of its own each time.
        headers = {} if key is None else {"Idempotency-Key": key}
        files = {"file": ("f", content)}
        return web.post("/form", data={"name": name}, files=files, headers=headers)

    assert ask().json() == ask().json() == {"name": "tea"} and web.runs == [b"leaves"]
    assert ask("coffee").status_code == ask(content=b"beans").status_code == 422
    assert ask(key=None).status_code == 400


def test_fastapi_endpoints_still_read_the_body(web, countdownd):
    def ask():
        return web.post("/raw", content=b"\xff raw", headers={"Idempotency-Key": "a"})

    assert [ask().headers.get("Idempotency-Replayed") for _ in range(2)] == [None, "true"]
    countdownd.stop()
    assert ask().status_code == 200 and web.runs == [b"\xff raw"] * 2


def test_fastapi_has_limits_and_an_error_of_the_program_is_500(web):
    assert web.get("/error").status_code == 500
    refused = web.get("/error")
    assert refused.status_code == 429 and refused.headers["Retry-After"] == "60"


def test_fastapi_without_install_says_so():
    app = FastAPI()
    app.get("/", dependencies=[Depends(RateLimit(burst=1, rate="1/1m"))])(lambda: {})
    with pytest.raises(RuntimeError, match="install"):
        TestClient(app).get("/")


def test_all_errors_share_a_base():
    for name in package.__all__:
        kind = getattr(package, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, CountdowndError), name
