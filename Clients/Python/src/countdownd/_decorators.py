"""Decorators: limits, idempotency and debouncing of functions.

Each has a `client`, or uses a `Client()` of its own. A key is a template of the arguments:
"{request.ip}". Functions with `async def` take an AsyncClient.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from datetime import timedelta
from typing import Any, Callable, TypeVar

from ._async.client import AsyncClient
from ._base import Answer, Duration, Rate
from ._events import Event
from ._failures import CountdowndError
from ._sync.client import Client
from ._views import OnceAnswer, Reason, ThrottleAnswer

F = TypeVar("F", bound=Callable[..., Any])


class TooMany(CountdowndError):
    """The rate limit is exhausted; try again after `retry_after`."""

    def __init__(self, answer: ThrottleAnswer) -> None:
        super().__init__(f"too many requests; try again in {answer.retry_after}")
        self.answer = answer

    def __reduce__(self) -> Any:
        return type(self), (self.answer,)

    @property
    def retry_after(self) -> timedelta:
        return self.answer.retry_after

    @property
    def headers(self) -> dict[str, str]:
        return rate_limit_headers(self.answer)


class Running(CountdowndError):
    """The first call with this key is still running."""


class Mismatch(CountdowndError):
    """This key was used for a call with other arguments."""


def rate_limit_headers(answer: ThrottleAnswer) -> dict[str, str]:
    """Returns the headers `RateLimit-Policy`, `RateLimit` and, for a refusal, `Retry-After`."""
    is_named = "views" in answer.raw
    limits = [(one.key.partition(":")[0] if is_named else "default", one) for one in answer.views]
    headers = {
        "RateLimit-Policy": ", ".join(
            f'"{name}";q={one.limit};w={seconds(one.rate_period)}' for name, one in limits),
        "RateLimit": ", ".join(
            f'"{name}";r={one.remaining};t={seconds(one.reset_after)}' for name, one in limits),
    }
    if answer.refused:
        headers["Retry-After"] = str(seconds(answer.retry_after))
    return headers


def seconds(time: timedelta) -> int:
    """Returns whole seconds, rounded up."""
    return -(-time // timedelta(seconds=1))


def throttled(
    *keys: str, burst: int | None = None, rate: Rate | None = None, cost: int = 1,
    client: Client | AsyncClient | None = None,
) -> Callable[[F], F]:  # fmt: skip
    """Raises TooMany instead of calling the function too often.

    With `burst` and `rate` for one key; without them, for keys of named limits: all or none.
    """

    def check(answer: ThrottleAnswer) -> None:
        if answer.refused:
            raise TooMany(answer)

    def decorate(function: F) -> F:
        names = [templated(function, key) for key in keys]
        limit: dict[str, Any] = {"burst": burst, "rate": rate, "cost": cost}
        if inspect.iscoroutinefunction(function):
            daemon = client if isinstance(client, AsyncClient) else AsyncClient()

            @functools.wraps(function)
            async def called(*args: Any, **more: Any) -> Any:
                asked = [name(args, more) for name in names]
                check(await daemon.throttle.take(*asked, **limit))
                return await function(*args, **more)

            return called  # type: ignore[return-value]
        other = client if isinstance(client, Client) else Client()

        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            check(other.throttle.take(*[name(args, more) for name in names], **limit))
            return function(*args, **more)

        return call  # type: ignore[return-value]

    return decorate


def idempotent(
    key: str, *, ttl: Duration = "24h", lease: Duration | None = None,
    client: Client | AsyncClient | None = None,
) -> Callable[[F], F]:  # fmt: skip
    """Calls the function once for each key; later calls return the first result.

    Results are kept as JSON. The arguments of the first call are kept as a hash: Mismatch if others
    come with the key. Running while the first call is not done. A call that fails is forgotten.
    With `lease`, a program that crashes keeps the key for that time only, which is as long as the
    function may take.
    """

    def decorate(function: F) -> F:
        name = templated(function, key)
        if inspect.iscoroutinefunction(function):
            daemon = client if isinstance(client, AsyncClient) else AsyncClient()

            @functools.wraps(function)
            async def called(*args: Any, **more: Any) -> Any:
                item, mark = name(args, more), fingerprint(args, more)
                begun = await daemon.once.begin(item, ttl=ttl, lease=lease, fingerprint=mark)
                if not begun.accepted:
                    return saved(begun)
                try:
                    result = await function(*args, **more)
                except BaseException:
                    await daemon.once.cancel(item, generation=begun.generation)
                    raise
                await daemon.once.done(item, pack(result), generation=begun.generation)
                return result

            return called  # type: ignore[return-value]
        other = client if isinstance(client, Client) else Client()

        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            item, mark = name(args, more), fingerprint(args, more)
            begun = other.once.begin(item, ttl=ttl, lease=lease, fingerprint=mark)
            if not begun.accepted:
                return saved(begun)
            try:
                result = function(*args, **more)
            except BaseException:
                other.once.cancel(item, generation=begun.generation)
                raise
            other.once.done(item, pack(result), generation=begun.generation)
            return result

        return call  # type: ignore[return-value]

    return decorate


def fingerprint(args: tuple[Any, ...], more: dict[str, Any]) -> str:
    """Returns a hash of the arguments."""
    text = json.dumps([args, more], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # A model of pydantic.
    return dump(mode="json") if dump else repr(value)


def pack(result: Any) -> str:
    return json.dumps(result, default=_plain)


def saved(begun: OnceAnswer) -> Any:
    """Returns the result of the first call."""
    if begun.reason == Reason.MISMATCH:
        raise Mismatch("this key was used for a call with other arguments")
    if begun.running or begun.result is None:
        raise Running("the first call with this key is still running")
    return json.loads(begun.result)


class Debounced:
    """A function whose calls are collected; see `debounced`."""

    def __init__(
        self, function: Callable[..., Any], key: str, quiet: Duration, max_wait: Duration | None,
        client: Client | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function)
        self.function, self.quiet, self.max_wait = function, quiet, max_wait
        self.client = client or Client()
        self._name = templated(function, key)
        head = key.partition("{")[0]
        #: The handler for a Worker, by its pattern.
        self.jobs = {f"debounce:{head}{'*' if head != key else ''}": self.handle}

    def __call__(self, *args: Any, **more: Any) -> Answer:
        payload = json.dumps([args, more], default=_plain)
        return self.client.debounce.call(
            self._name(args, more), self.quiet, max_wait=self.max_wait, payload=payload)

    def handle(self, event: Event) -> Any:
        """Runs the function with the arguments of the last call."""
        args, more = json.loads(event.raw["payload"])
        return self.function(*args, **more)


def debounced(
    key: str, *, quiet: Duration, max_wait: Duration | None = None, client: Client | None = None
) -> Callable[[Callable[..., Any]], Debounced]:
    """Makes a function that a worker runs once no call came for a while, with the last arguments.

    The worker has its `jobs`: `Worker(client, reindex.jobs)`.
    """
    return lambda function: Debounced(function, key, quiet, max_wait, client)


def templated(
    function: Callable[..., Any], template: str
) -> Callable[[tuple[Any, ...], dict[str, Any]], str]:
    """Returns what makes a key of the arguments of a call."""
    signature = inspect.signature(function)

    def name(args: tuple[Any, ...], more: dict[str, Any]) -> str:
        bound = signature.bind(*args, **more)
        bound.apply_defaults()
        return template.format(**bound.arguments)

    return name
