"""Rate limits and error replies for FastAPI and Starlette.

    install(app)  # 429, 409, 422 and 503 for the errors of this package

    limit = RateLimit("ip:{request.client.host}", burst=10, rate="10/1m")

    @app.get("/search", dependencies=[Depends(limit)])
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
    """A dependency that limits requests; a key is a template of `request`.

    With `burst` and `rate` for one key; without them, for keys of named limits: all or none.
    """

    def __init__(
        self, *keys: str, burst: int | None = None, rate: Rate | None = None,
        client: Client | None = None,
    ) -> None:  # fmt: skip
        self.keys, self.burst, self.rate = keys, burst, rate
        self.client = client or Client()

    def __call__(self, request: Request, response: Response) -> None:
        asked = [key.format(request=request) for key in self.keys]
        answer = self.client.throttle.take(*asked, burst=self.burst, rate=self.rate)
        if answer.refused:
            raise TooMany(answer)
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
