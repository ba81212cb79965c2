"""Rate limits and error replies for FastAPI and Starlette.

    install(app)  # 429, 409, 422 and 503 for the errors of this package

    @app.get("/search", dependencies=[Depends(RateLimit("ip:{request.client.host}", (10, "10/1m")))])
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from ._base import Rate
from ._decorators import Mismatch, Running, TooMany, rate_limit_headers
from ._failures import CountdowndError
from ._sync.client import Client


class RateLimit:
    """A dependency that takes from all limits or none; TooMany if one of them is exhausted.

    Each limit is a burst and a rate. The key is a template of `request`.
    """

    def __init__(self, key: str, *limits: tuple[int, Rate], client: Client | None = None) -> None:
        self.key = key
        self.limits = limits
        self.client = client or Client()

    def __call__(self, request: Request, response: Response) -> None:
        taken: list[str] = []
        for burst, rate in self.limits:
            key = f"{self.key.format(request=request)}:{rate}"
            answer = self.client.throttle.take(key, burst=burst, rate=rate)
            if answer.refused:
                for other in taken:
                    self.client.throttle.refund(other, 1)
                raise TooMany(answer)
            taken.append(key)
            response.headers.update(rate_limit_headers(answer))


def install(app: FastAPI) -> None:
    """Makes replies of this package's errors."""

    def reply(status: int, message: str, headers: dict[str, str] | None = None) -> Any:
        return JSONResponse({"message": message}, status, headers)

    @app.exception_handler(TooMany)
    def too_many(_: Request, error: TooMany) -> Any:
        return reply(429, "Too many requests.", error.headers)

    @app.exception_handler(Running)
    def running(_: Request, error: Running) -> Any:
        return reply(409, "The first request is still running.", {"Retry-After": "1"})

    @app.exception_handler(Mismatch)
    def mismatch(_: Request, error: Mismatch) -> Any:
        return reply(422, "This key was used for another request.")

    @app.exception_handler(CountdowndError)
    def failed(_: Request, error: CountdowndError) -> Any:
        return JSONResponse({"message": "Try again later.", "code": error.code}, 503)
