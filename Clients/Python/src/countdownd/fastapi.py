"""Rate limits and idempotent endpoints of FastAPI. docs/reference/middleware.md says what they do.

    app = FastAPI()
    install(app)

    @app.get("/search", dependencies=[Depends(RateLimit(burst=10, rate="10/1m"))])
    @app.post("/orders", dependencies=[Depends(Idempotent(user=lambda request: request.user.id))])

They are dependencies: those before them, such as that of the user, come first.
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from starlette.middleware import Middleware

from ._async.client import AsyncClient
from ._async.run import AsyncRun
from ._base import Duration, Rate
from ._decorators import Mismatch, Running, TooMany, function_name, of_type
from ._failures import CountdowndError
from ._middleware import (
    KEY_HEADER,
    REPLAYED_HEADER,
    BadKey,
    Fail,
    Limit,
    MOST_STORED,
    Once,
    Stored,
    async_take,
    fingerprint,
    form_content,
    is_stored,
    recording,
    reply_to,
    running,
    settled,
    streamed,
    too_large,
    unstorable,
)

OnError = Callable[[CountdowndError, Request], Any]
KeyFunction = Callable[[Request], Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
ASGI = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: Where the middleware keeps the answer of a request, in its scope.
PLACE = "countdownd.answer"


def address(request: Request) -> str:
    """Returns the address of the client, as the server has it."""
    return request.client.host if request.client else ""


class RateLimit:
    """A dependency that limits requests: 429 with `RateLimit` and `Retry-After`.

    burst, rate: What may come at once, and in the long run, such as 10 and "10/1m".
    named: Names of limits of the configuration instead, all or none; or a key function for each
        name, and None for a limit that has one key.
    key: Whose limit it is, a function of the request; without it, the address of the client.
    address: The address, a function of the request: another one behind a proxy.
    cost: How much a request uses; a number, or a function of the request.
    skip: Requests for which it is true are not limited.
    name: Endpoints with the same name share a limit. Without it, each has its own for each method.
    fail: "open": requests pass while the daemon cannot be asked; "closed": they get 503.
    on_error: Called with an error of the daemon, and the request.

    Functions may be async.
    """

    def __init__(
        self, *, burst: int | None = None, rate: Rate | None = None,
        named: Sequence[str] | Mapping[str, KeyFunction | None] = (),
        key: KeyFunction | None = None, address: KeyFunction = address,
        cost: int | KeyFunction = 1, skip: KeyFunction | None = None, name: str | None = None,
        fail: Fail = "open", on_error: OnError | None = None, client: AsyncClient | None = None,
    ) -> None:  # fmt: skip
        self.limit = Limit[Request](
            burst=burst, rate=rate, named=named, key=key, address=address, cost=cost, skip=skip,
            name=name, fail=fail, on_error=on_error)
        self.client = of_type(client, AsyncClient, type(self))

    async def __call__(self, request: Request) -> None:
        answer = answer_of(request)
        name = f"{request.method} {name_of(request)}"
        answer.headers.update(await async_take(self.limit, self.client, name, request))


class Idempotent:
    """A dependency that runs an endpoint once for each `Idempotency-Key`; repetitions get its
    answer. 409 while the first request runs, 422 if the key comes with another request.

    ttl: How long repetitions are recognized.
    lease: After what time the next request may run the endpoint again if this program dies in it.
        While the endpoint runs, it is extended. None: only after `ttl`.
    user: Who asks, a function of the request: nobody gets the answer of another user. Without it,
        all users share the keys.
    name: Endpoints with the same name share keys. Without it, each has its own.
    required: Whether a request without the header gets 400; else the endpoint runs each time.
    fail: "closed": requests with a key get 503 while the daemon cannot be asked; "open": the
        endpoint runs each time.
    on_error: Called with an error of the daemon, and the request.

    Functions may be async. Put it behind the dependencies that refuse, such as that of the user:
    repetitions get their answer here.
    """

    def __init__(
        self, *, ttl: Duration = "24h", lease: Duration | None = "10s",
        user: KeyFunction | None = None, name: str | None = None, required: bool = False,
        fail: Fail = "closed", on_error: OnError | None = None, client: AsyncClient | None = None,
    ) -> None:  # fmt: skip
        self.once = Once[Request](
            ttl=ttl, lease=lease, user=user, name=name, required=required, fail=fail,
            on_error=on_error)
        self.client = of_type(client, AsyncClient, type(self))

    async def __call__(self, request: Request) -> None:
        once, name = self.once, name_of(request)
        answer = answer_of(request)
        header = once.checked_key(request.headers.get(KEY_HEADER))
        if header is None:
            return
        key = once.key(name, await settled(once.user and once.user(request)), header)
        mark = await fingerprint_of(request)
        try:
            begun = await self.client.once.begin(key, **once.words(mark))
        except CountdowndError as error:
            await settled(once.failed(name, error, request))
            if once.is_closed(error):
                raise
            return
        if not begun.accepted:
            raise Replayed(Stored.read(begun))
        answer.begin(name, AsyncRun(self.client, begun))


class Replayed(Exception):
    """Ends a request with the answer of the first one."""

    def __init__(self, first: Stored) -> None:
        self.first = first


def name_of(request: Request) -> str:
    """Returns the function and the path of the endpoint."""
    return f"{function_name(request.scope['endpoint'])} {request.scope['route'].path}"


async def fingerprint_of(request: Request) -> str:
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    content: bytes | None = None
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        try:
            content = await request.body()
        except RuntimeError:
            pass  # FastAPI has read it as a form.
    if content is None:
        values, files = [], []
        for name, value in (await request.form()).multi_items():
            if isinstance(value, UploadFile):
                files.append((name, value.filename or "", await value.read()))
                await value.seek(0)
            else:
                values.append((name, value))
        content = form_content(values, files)
    return fingerprint(request.method, target, content)


# MARK: Answers


class Answer:
    """What a request is answered with, on its way out."""

    def __init__(self, send: Send) -> None:
        #: Headers of limits.
        self.headers: dict[str, str] = {}
        self._send = send
        self._run: AsyncRun | None = None
        self._name = ""
        self._start: Message = {}
        self._body = b""

    def begin(self, name: str, run: AsyncRun) -> None:
        """From now on the answer is recorded."""
        self._name, self._run = name, run

    async def run(self, app: ASGI, scope: MutableMapping[str, Any], receive: Receive) -> None:
        """Runs the app. An exception of it is no answer, so the next request runs it again."""
        try:
            await app(scope, receive, self.send)
        finally:
            if self._run is not None:
                await self._run.cancel()

    async def send(self, message: Message) -> None:
        """Takes a message of the app, and sends what is complete."""
        kind = message["type"]
        if kind == "http.response.start":
            headers = [*message.get("headers", ()), *encoded(self.headers.items())]
            message = {**message, "headers": headers}
            if self._run is not None and not is_stored(message["status"]):
                run, self._run = self._run, None
                await run.cancel()
        if self._run is None or kind == "http.response.debug":
            await self._send(message)
        elif kind == "http.response.start":
            self._start = message
        elif kind == "http.response.body":
            await self._take(self._run, message)
        else:
            self._leave(self._run)
            raise unstorable(self._name, f"it has a part {kind}")

    async def _take(self, run: AsyncRun, message: Message) -> None:
        """Takes a part of the body, and records the answer with the last one."""
        self._body += message.get("body", b"")
        pairs = decoded(self._start["headers"])
        try:
            if message.get("more_body"):
                # The middleware of others sends each answer in parts, but keeps its length.
                if not any(name.lower() == "content-length" for name, _ in pairs):
                    raise streamed(self._name)
                if len(self._body) > MOST_STORED:
                    raise too_large(self._name, len(self._body))
                return
            stored = Stored.of(self._name, self._start["status"], pairs, self._body)
            with recording(self._name, stored):
                await run.record(stored)
        except BaseException:
            self._leave(run)
            raise
        self._run = None
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": self._body})

    def _leave(self, run: AsyncRun) -> None:
        """Leaves the key to its lease: the endpoint has run."""
        run.leave()
        self._run = None


def encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in headers]


def decoded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), text.decode("latin-1")) for name, text in headers]


class Answers:
    """The middleware of `install`: it records answers of idempotent endpoints, and adds headers."""

    def __init__(self, app: ASGI) -> None:
        self.app = app

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        answer = scope[PLACE] = Answer(send)
        work = answer.run(self.app, scope, receive)
        if any(name == KEY_HEADER.lower().encode() for name, _ in scope["headers"]):
            # A server may cancel a request whose client disconnects.
            await running(work)
        else:
            await work


def answer_of(request: Request) -> Answer:
    found = request.scope.get(PLACE)
    if not isinstance(found, Answer):
        raise RuntimeError("call countdownd.fastapi.install(app) before the app starts")
    return found


def install(app: FastAPI) -> None:
    """Makes replies of this package's errors, and lets `RateLimit` and `Idempotent` work."""
    if app.middleware_stack is not None:
        raise RuntimeError("call countdownd.fastapi.install(app) before the app starts")
    # The innermost: what other middleware does to an answer, it does to repetitions too.
    app.user_middleware.append(Middleware(Answers))

    def refused(_: Request, error: Exception) -> Response:
        reply = reply_to(error)
        if reply is None:
            raise error
        return JSONResponse({"message": reply.message}, reply.status, reply.headers)

    for kind in (TooMany, Running, Mismatch, BadKey, CountdowndError):
        app.add_exception_handler(kind, refused)

    @app.exception_handler(Replayed)
    def replayed(_: Request, error: Replayed) -> Response:
        response = Response(error.first.body, error.first.status)
        response.raw_headers += encoded(error.first.headers)
        response.headers[REPLAYED_HEADER] = "true"
        return response
