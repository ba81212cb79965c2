"""Rate limits and error replies for Django.

Put "countdownd.django.ErrorReplies" into MIDDLEWARE, and limit a view:

    @rate_limit("ip:{request.META[REMOTE_ADDR]}", burst=10, rate="10/1m")
    def search(request): ...
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

from ._base import Rate
from ._decorators import Mismatch, Running, TooMany, rate_limit_headers
from ._failures import CountdowndError
from ._sync.client import Client

View = Callable[..., Any]


def rate_limit(
    *keys: str, burst: int | None = None, rate: Rate | None = None, client: Client | None = None
) -> Callable[[View], View]:
    """Limits a view; a key is a template of `request`.

    With `burst` and `rate` for one key; without them, for keys of named limits: all or none.
    """
    daemon = client or Client()

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def limited(request: HttpRequest, *args: Any, **more: Any) -> Any:
            asked = [key.format(request=request) for key in keys]
            answer = daemon.throttle.take(*asked, burst=burst, rate=rate)
            if answer.refused:
                raise TooMany(answer)
            response = view(request, *args, **more)
            for name, value in rate_limit_headers(answer).items():
                response[name] = value
            return response

        return limited

    return decorate


class ErrorReplies:
    """Middleware that makes replies of this package's errors: 429, 409, 422 and 503."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        match error:
            case TooMany():
                return reply(429, "Too many requests.", error.headers)
            case Running():
                return reply(409, "The first request is still running.", {"Retry-After": "1"})
            case Mismatch():
                return reply(422, "This key was used for another request.")
            case CountdowndError():
                return reply(503, "Try again later.")
        return None


def reply(status: int, message: str, headers: dict[str, str] | None = None) -> HttpResponse:
    return JsonResponse({"message": message}, status=status, headers=headers)
