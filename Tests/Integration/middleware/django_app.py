"""The app of Django; middleware_tools.py has the routes. With the argument `async`, its views are
async, and a server of ASGI runs them, which tells them when a client disconnects."""

import asyncio
import json
import os
import pathlib
import signal
import socket
import socketserver
import sys
import time
import wsgiref.simple_server

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from countdownd.django import idempotent, rate_limit

RUNS = os.environ["RUNS"]
IS_ASYNC = sys.argv[1:] == ["async"]


def handle(request, name):
    key = request.headers.get("Idempotency-Key") or "-"
    with open(RUNS, "a") as runs:
        runs.write(f"{name} {key}\n")
    body = json.loads(request.body)
    end = time.monotonic() + body.get("wait", 0)
    while time.monotonic() < end and not pathlib.Path(f"{RUNS}.{key}").exists():
        time.sleep(0.01)
    match body["answer"]:
        case "json": return JsonResponse({"id": 1})
        case "text": return HttpResponse("tea for two: 2 €", "text/plain; charset=utf-8")
        case "bytes": return HttpResponse(bytes(range(256)), "application/octet-stream")
        case "created":
            return JsonResponse({"id": 1}, status=201, headers={"Location": "/orders/1"})
        case "redirect":
            response = HttpResponseRedirect("/orders/1")
            response.status_code = 303
            return response
        case "empty": return HttpResponse(status=204)
        case "cookie":
            response = JsonResponse({"id": 1})
            response.set_cookie("a", "1", httponly=True, samesite="Lax")
            response.set_cookie("b", "2", max_age=60)
            return response
        case "missing": return JsonResponse({"message": "no such tea"}, status=404)
        case "stream": return StreamingHttpResponse(iter([b"a", b"b"]))
        case "huge": return HttpResponse("x" * body["size"], content_type="text/plain")
        case "many": return JsonResponse({}, status=429, headers={"Retry-After": "7"})
        case "error": return JsonResponse({}, status=500)
        case "raise": raise RuntimeError("as asked")
        case "die": os.kill(os.getpid(), signal.SIGKILL)  # fmt: skip


def user(request):
    return request.headers.get("X-User", "")


def client(request):
    return request.headers["X-Client"]


def nobody(request):
    return ""


def view(function):
    """Returns a view, or an async one with the same name."""
    if not IS_ASYNC:
        return function

    async def run(request):
        return await asyncio.to_thread(function, request)

    run.__qualname__ = function.__qualname__
    return run


once = idempotent(ttl="24h", lease="2s", user=user)


@csrf_exempt
@once
@view
def orders(request):
    return handle(request, "orders")


@csrf_exempt
@once
@view
def payments(request):
    return handle(request, "payments")


@csrf_exempt
@idempotent(ttl="3s", lease="2s", user=user)
@view
def brief(request):
    return handle(request, "brief")


@view
def answer(request):
    return JsonResponse({})


by_address = {"burst": 10, "rate": "10/1h", "address": client}
search = rate_limit(
    **by_address, name="search", skip=lambda request: request.path == "/health")(answer)
login = csrf_exempt(rate_limit(**by_address, fail="closed")(answer))
costly = rate_limit(**by_address, cost=5)(answer)
opened = rate_limit(burst=1, rate="1/1h", address=client, fail="open")(answer)
unknown = rate_limit(named=["nowhere"], address=client, fail="open")(answer)
nokey = rate_limit(burst=1, rate="1/1h", key=nobody)(answer)
urlpatterns = [
    path("orders", orders), path("payments", payments), path("brief", brief), path("search", search),
    path("health", search), path("login", login), path("costly", costly), path("open", opened),
    path("unknown", unknown), path("nokey", nokey)]  # fmt: skip


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
django.setup()
if IS_ASYNC:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print("port", listener.getsockname()[1], flush=True)
    config = uvicorn.Config(get_asgi_application(), log_level="warning", lifespan="off")
    uvicorn.Server(config).run([listener])
else:
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, get_wsgi_application(), Server)
    print("port", server.server_port, flush=True)
    server.serve_forever()
