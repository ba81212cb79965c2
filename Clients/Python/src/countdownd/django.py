"""Rate limits and idempotent views of Django, sync and async. docs/reference/middleware.md says
what they do.

    @rate_limit(burst=10, rate="10/1m")
    def search(request): ...

    @idempotent(ttl="24h", user=lambda request: request.user.pk)
    def order(request): ...

With "countdownd.django.ErrorReplies" in MIDDLEWARE, the errors of the decorators of functions
(`countdownd.throttled` and others) and of clients make replies too.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Mapping, Sequence

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import RawPostDataException

from ._async.client import AsyncClient
from ._async.run import AsyncRun
from ._base import Duration, Rate
from ._decorators import function_name, of_type
from ._failures import CountdowndError
from ._middleware import (
    KEY_HEADER,
    REPLAYED_HEADER,
    BadKey,
    Fail,
    Limit,
    Once,
    Reply,
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
    take,
)
from ._sync.client import Client
from ._sync.run import Run
from ._views import OnceAnswer

View = Callable[..., Any]
OnError = Callable[[CountdowndError, HttpRequest], Any]
KeyFunction = Callable[[HttpRequest], Any]


def address(request: HttpRequest) -> str:
    """Returns the address of the client: REMOTE_ADDR."""
    return str(request.META.get("REMOTE_ADDR") or "")


# MARK: Limits


def rate_limit(
    *, burst: int | None = None, rate: Rate | None = None,
    named: Sequence[str] | Mapping[str, KeyFunction | None] = (), key: KeyFunction | None = None,
    address: KeyFunction = address, cost: int | KeyFunction = 1, skip: KeyFunction | None = None,
    name: str | None = None, fail: Fail = "open", on_error: OnError | None = None,
    client: Client | AsyncClient | None = None,
) -> Callable[[View], View]:  # fmt: skip
    """Limits a view: 429 with `RateLimit` and `Retry-After`.

    burst, rate: What may come at once, and in the long run, such as 10 and "10/1m".
    named: Names of limits of the configuration instead, all or none; or a key function for each
        name, and None for a limit that has one key.
    key: Whose limit it is, a function of the request; without it, the address of the client.
    address: The address, a function of the request: another one behind a proxy.
    cost: How much a request uses; a number, or a function of the request.
    skip: Requests for which it is true are not limited.
    name: Views with the same name share a limit. Without it, a view has one for each method.
    fail: "open": requests pass while the daemon cannot be asked; "closed": they get 503.
    on_error: Called with an error of the daemon, and the request.
    client: An AsyncClient for an async view, else a Client.
    """
    limit = Limit[HttpRequest](
        burst=burst, rate=rate, named=named, key=key, address=address, cost=cost, skip=skip,
        name=name, fail=fail, on_error=on_error)

    def decorate(view: View) -> View:
        own = function_name(view)

        if iscoroutinefunction(view):
            daemon = of_type(client, AsyncClient, view)

            @functools.wraps(view)
            async def async_asked(request: HttpRequest, *args: Any, **more: Any) -> Any:
                try:
                    headers = await async_take(limit, daemon, name_of(own, request), request)
                except Exception as error:
                    return refusal(error)
                return with_headers(await view(request, *args, **more), headers)

            return async_asked
        other = of_type(client, Client, view)

        @functools.wraps(view)
        def asked(request: HttpRequest, *args: Any, **more: Any) -> Any:
            try:
                headers = take(limit, other, name_of(own, request), request)
            except Exception as error:
                return refusal(error)
            return with_headers(view(request, *args, **more), headers)

        return asked

    return decorate


def name_of(view: str, request: HttpRequest) -> str:
    """Returns the method, the view and its route: views from one factory have one name."""
    return f"{request.method} {routed(view, request)}"


def routed(view: str, request: HttpRequest) -> str:
    match = getattr(request, "resolver_match", None)
    return f"{view} {match.route}" if match else view


def with_headers(response: Any, headers: Mapping[str, str]) -> Any:
    for name, value in headers.items():
        response[name] = value
    return response


# MARK: Idempotency


def idempotent(
    *, ttl: Duration = "24h", lease: Duration | None = "10s", user: KeyFunction | None = None,
    name: str | None = None, required: bool = False, fail: Fail = "closed",
    on_error: OnError | None = None, client: Client | AsyncClient | None = None,
) -> Callable[[View], View]:  # fmt: skip
    """Runs a view once for each `Idempotency-Key`; repetitions get its answer. 409 while the first
    request runs, 422 if the key comes with another request.

    ttl: How long repetitions are recognized.
    lease: After what time the next request may run the view again if this program dies in it. While
        the view runs, it is extended. None: only after `ttl`.
    user: Who asks, a function of the request: nobody gets the answer of another user. Without it,
        all users share the keys.
    name: Views with the same name share keys. Without it, each has its own.
    required: Whether a request without the header gets 400; else the view runs each time.
    fail: "closed": requests with a key get 503 while the daemon cannot be asked; "open": the view
        runs each time.
    on_error: Called with an error of the daemon, and the request.
    client: An AsyncClient for an async view, else a Client.
    """
    once = Once[HttpRequest](
        ttl=ttl, lease=lease, user=user, name=name, required=required, fail=fail, on_error=on_error)

    def decorate(view: View) -> View:
        own = function_name(view)
        if iscoroutinefunction(view):
            return async_once(once, of_type(client, AsyncClient, view), own, view)
        daemon = of_type(client, Client, view)

        @functools.wraps(view)
        def called(request: HttpRequest, *args: Any, **more: Any) -> Any:
            try:
                header = once.checked_key(request.headers.get(KEY_HEADER))
                if header is None:
                    return view(request, *args, **more)
                user = once.user and once.user(request)
                key = once.key(routed(own, request), user, header)
                begun = daemon.once.begin(key, **once.words(fingerprint_of(request)))
            except BadKey as error:
                return refusal(error)
            except CountdowndError as error:
                once.failed(own, error, request)
                if once.is_closed(error):
                    return refusal(error)
                return view(request, *args, **more)
            if not begun.accepted:
                return replayed(begun)
            run = Run(daemon, begun)
            try:
                response = rendered(view(request, *args, **more))
            except BaseException:
                run.cancel()
                raise
            try:
                if not is_stored(response.status_code):
                    run.cancel()
                else:
                    stored = packed(own, response)
                    with recording(own, stored):
                        run.record(stored)
            finally:
                run.leave()
            return response

        return called

    return decorate


def async_once(once: Once[HttpRequest], daemon: AsyncClient, own: str, view: View) -> View:
    async def run_view(
        begun: OnceAnswer, request: HttpRequest, args: tuple[Any, ...], more: dict[str, Any]
    ) -> Any:
        run = AsyncRun(daemon, begun)
        try:
            response = rendered(await view(request, *args, **more))
        except BaseException:
            await run.cancel()
            raise
        try:
            if not is_stored(response.status_code):
                await run.cancel()
            else:
                stored = packed(own, response)
                with recording(own, stored):
                    await run.record(stored)
        finally:
            run.leave()
        return response

    @functools.wraps(view)
    async def called(request: HttpRequest, *args: Any, **more: Any) -> Any:
        try:
            header = once.checked_key(request.headers.get(KEY_HEADER))
            if header is None:
                return await view(request, *args, **more)
            user = await settled(once.user and once.user(request))
            key = once.key(routed(own, request), user, header)
            begun = await daemon.once.begin(key, **once.words(fingerprint_of(request)))
        except BadKey as error:
            return refusal(error)
        except CountdowndError as error:
            await settled(once.failed(own, error, request))
            if once.is_closed(error):
                return refusal(error)
            return await view(request, *args, **more)
        if not begun.accepted:
            return replayed(begun)
        # Django cancels a view whose client disconnects.
        return await running(run_view(begun, request, args, more))

    return called


def rendered(response: Any) -> Any:
    """Returns a response with its content; that of a template is made now."""
    render = getattr(response, "render", None)
    return render() if render is not None and not response.is_rendered else response


def packed(name: str, response: Any) -> bytes:
    """Returns a response as it is stored."""
    if response.streaming:
        raise streamed(name)
    cookies = [("Set-Cookie", one.OutputString()) for one in response.cookies.values()]
    headers = [*response.items(), *cookies]
    return Stored.of(name, response.status_code, headers, response.content)


def replayed(begun: OnceAnswer) -> HttpResponse:
    """Returns the answer of the first request, or why there is none."""
    try:
        first = Stored.read(begun)
    except CountdowndError as error:
        return refusal(error)
    response = HttpResponse(first.body, status=first.status)
    del response["Content-Type"]
    for name, value in first.headers:
        if name.lower() == "set-cookie":
            response.cookies.load(value)
        else:
            response[name] = value
    response[REPLAYED_HEADER] = "true"
    return response


def fingerprint_of(request: HttpRequest) -> str:
    content: bytes
    try:
        is_form = request.content_type == "multipart/form-data"
        content = b"" if is_form else request.body
    except RawPostDataException:
        is_form = True
    if is_form:
        content = form_content(request.POST.lists(), files_of(request))
    return fingerprint(str(request.method), request.get_full_path(), content)


def files_of(request: HttpRequest) -> Iterable[tuple[str, str, bytes]]:
    for name, files in request.FILES.lists():
        for file in files:
            content = file.read()
            file.seek(0)
            yield name, file.name, content


# MARK: Errors


class ErrorReplies:
    """Middleware that makes replies of this package's errors, whatever raises them: 429, 409, 422,
    and 503 while the daemon cannot be asked."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        reply = reply_to(error)
        return None if reply is None else response_of(reply)


def refusal(error: Exception) -> HttpResponse:
    """Returns the reply to an error of this package; raises what is a mistake of the program."""
    reply = reply_to(error)
    if reply is None:
        raise error
    return response_of(reply)


def response_of(reply: Reply) -> HttpResponse:
    return JsonResponse({"message": reply.message}, status=reply.status, headers=reply.headers)
