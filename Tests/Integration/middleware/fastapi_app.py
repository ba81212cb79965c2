"""The app of FastAPI; middleware_tools.py has the routes."""

import asyncio
import os
import pathlib
import signal
import socket
import time

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel

from countdownd.fastapi import Idempotent, RateLimit, install

RUNS = os.environ["RUNS"]
app = FastAPI()
install(app)


@app.middleware("http")
async def others(request, call_next):
    """Middleware such as that of many programs: it makes each answer a stream."""
    return await call_next(request)


class Order(BaseModel):
    answer: str
    wait: float = 0
    size: int = 0


async def handle(request, body, name):
    key = request.headers.get("Idempotency-Key") or "-"
    with open(RUNS, "a") as runs:
        runs.write(f"{name} {key}\n")
    end = time.monotonic() + body.wait
    while time.monotonic() < end and not pathlib.Path(f"{RUNS}.{key}").exists():
        await asyncio.sleep(0.01)
    match body.answer:
        case "json": return {"id": 1}
        case "text": return PlainTextResponse("tea for two: 2 €")
        case "bytes": return Response(bytes(range(256)), media_type="application/octet-stream")
        case "created": return JSONResponse({"id": 1}, 201, {"Location": "/orders/1"})
        case "redirect": return RedirectResponse("/orders/1", 303)
        case "empty": return Response(status_code=204)
        case "cookie":
            response = JSONResponse({"id": 1})
            response.set_cookie("a", "1", httponly=True)
            response.set_cookie("b", "2", max_age=60)
            return response
        case "missing": raise HTTPException(404, "no such tea")
        case "stream": return StreamingResponse(iter([b"a", b"b"]))
        case "huge": return PlainTextResponse("x" * body.size)
        case "many": raise HTTPException(429, "too many", {"Retry-After": "7"})
        case "error": return JSONResponse({}, 500)
        case "raise": raise RuntimeError("as asked")
        case "die": os.kill(os.getpid(), signal.SIGKILL)  # fmt: skip


def user(request: Request) -> str:
    return request.headers.get("X-User", "")


def client(request: Request) -> str:
    return request.headers["X-Client"]


async def nobody(request: Request) -> str:
    return ""


once = Depends(Idempotent(ttl="24h", lease="2s", user=user))


@app.post("/orders", dependencies=[once])
async def orders(request: Request, body: Order):
    return await handle(request, body, "orders")


@app.post("/payments", dependencies=[once])
def payments(request: Request, body: Order):
    # In a thread.
    return asyncio.run(handle(request, body, "payments"))


@app.post("/brief", dependencies=[Depends(Idempotent(ttl="3s", lease="2s", user=user))])
async def brief(request: Request, body: Order):
    return await handle(request, body, "brief")


def answer() -> dict[str, str]:
    return {}


by_address = {"burst": 10, "rate": "10/1h", "address": client}
for method, route, limit in [
    ("GET", "/search", search := RateLimit(
        **by_address, name="search", skip=lambda request: request.url.path == "/health")),
    ("GET", "/health", search),
    ("POST", "/login", RateLimit(**by_address, fail="closed")),
    ("GET", "/costly", RateLimit(**by_address, cost=lambda request: 5)),
    ("GET", "/open", RateLimit(burst=1, rate="1/1h", address=client, fail="open")),
    ("GET", "/unknown", RateLimit(named=["nowhere"], address=client, fail="open")),
    ("GET", "/nokey", RateLimit(burst=1, rate="1/1h", key=nobody)),
]:  # fmt: skip
    app.add_api_route(route, answer, methods=[method], dependencies=[Depends(limit)])

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print("port", listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
