"""Decorators: limits, idempotency and debouncing of functions.

Each has a `client`, or uses one of its own: an AsyncClient for functions with `async def`, else a
Client. A key is a template of the arguments: "{request.ip}".
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import string
from datetime import timedelta
from typing import (
    Any,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    NamedTuple,
    Protocol,
    Sequence,
    TypeVar,
    overload,
)
from urllib.parse import quote

from ._async.client import AsyncClient
from ._async.run import AsyncRun
from ._base import Answer, Duration, Rate, check_lease, checked_rate, key_of
from ._events import Event
from ._failures import CountdowndError
from ._sync.client import Client
from ._sync.run import Run
from ._values import json_of, plain
from ._views import OnceAnswer, Reason, ThrottleAnswer

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")


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
        """The headers `RateLimit-Policy`, `RateLimit` and `Retry-After`."""
        return rate_limit_headers(self.answer)


class Running(CountdowndError):
    """The first call with this key is still running. `retry_after` is when it may be repeated at
    the earliest, if the program that runs it has died."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(f"the first call with this key still runs; ask again in {retry_after}")
        self.retry_after = retry_after

    def __reduce__(self) -> Any:
        return type(self), (self.retry_after,)

    @property
    def headers(self) -> dict[str, str]:
        """The header `Retry-After`."""
        return {"Retry-After": str(seconds(self.retry_after))}


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


def function_name(function: Callable[..., Any]) -> str:
    """Returns what tells a function from others, unless it is renamed."""
    its_name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}.{its_name}"


def of_type(client: object, type_: type[C], function: Callable[..., Any]) -> C:
    """Returns a client of the type that a function needs."""
    if client is None:
        return type_()
    if not isinstance(client, type_):
        raise TypeError(f"{function_name(function)} needs a client that is {type_.__name__}")
    return client


def throttled(
    *keys: str, burst: int | None = None, rate: Rate | None = None, cost: int = 1,
    name: str | None = None, client: Client | AsyncClient | None = None,
) -> Callable[[F], F]:  # fmt: skip
    """Raises TooMany instead of calling the function too often.

    With `burst` and `rate` for one key, of this function alone; functions with the same `name`
    share it. Without them, for keys of named limits: all or none.
    """
    if (burst is None) != (rate is None):
        raise ValueError("a limit of your own has burst and rate; a named one has neither")
    if rate is not None:
        checked_rate(rate)
    if not keys or rate is not None and len(keys) != 1:
        raise ValueError("name one key, or keys of named limits")

    def check(answer: ThrottleAnswer) -> None:
        if answer.refused:
            raise TooMany(answer)

    def decorate(function: F) -> F:
        # The rules of a named limit are where its name is.
        own = None if rate is None else name or function_name(function)
        names = [templated(function, key, own) for key in keys]
        limit: dict[str, Any] = {"burst": burst, "rate": rate, "cost": cost}
        if inspect.iscoroutinefunction(function):
            daemon = of_type(client, AsyncClient, function)

            @functools.wraps(function)
            async def called(*args: Any, **more: Any) -> Any:
                asked = [one(args, more) for one in names]
                check(await daemon.throttle.take(*asked, **limit))
                return await function(*args, **more)

            return called  # type: ignore[return-value]
        other = of_type(client, Client, function)

        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            check(other.throttle.take(*[one(args, more) for one in names], **limit))
            return function(*args, **more)

        return call  # type: ignore[return-value]

    return decorate


class Asked(NamedTuple):
    """What a call asks ONCE with."""

    key: str
    options: dict[str, Any]


def idempotent(
    key: str, *, ttl: Duration = "24h", lease: Duration | None = "10s", name: str | None = None,
    ignore: Sequence[str] = (), client: Client | AsyncClient | None = None,
) -> Callable[[F], F]:  # fmt: skip
    """Calls the function once for each key; later calls return the first result, for `ttl`.

    A key is of this function alone; functions with the same `name` share it. Results are values of
    JSON. Running, while the first call is not done; Mismatch, if other arguments come with the key.
    Arguments are compared by their values, which `ignore` leaves out, as it does `self`; TypeError
    for one without, such as a connection. A call that raises is forgotten.

    While the function runs, `lease` is extended. If its program dies, the next call runs it again
    after that time. Without a lease the key is held until `ttl` is over: at most one call, also
    then.
    """
    if lease is not None:
        check_lease(lease, ttl)

    def decorate(function: F) -> F:
        named = templated(function, key, name or function_name(function))
        bound = binder(function)

        def asked(args: tuple[Any, ...], more: dict[str, Any]) -> Asked:
            mark = fingerprint(function, bound(args, more), ignore)
            return Asked(named(args, more), {"ttl": ttl, "lease": lease, "fingerprint": mark})

        if inspect.iscoroutinefunction(function):
            daemon = of_type(client, AsyncClient, function)

            @functools.wraps(function)
            async def called(*args: Any, **more: Any) -> Any:
                item = asked(args, more)
                begun = await daemon.once.begin(item.key, **item.options)
                if not begun.accepted:
                    return saved(begun)
                run = AsyncRun(daemon, begun)
                try:
                    result = await function(*args, **more)
                except BaseException:
                    await run.cancel()
                    raise
                try:
                    await run.record(pack(function, result))
                finally:
                    run.leave()
                return result

            return called  # type: ignore[return-value]
        other = of_type(client, Client, function)

        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            item = asked(args, more)
            begun = other.once.begin(item.key, **item.options)
            if not begun.accepted:
                return saved(begun)
            run = Run(other, begun)
            try:
                result = function(*args, **more)
            except BaseException:
                run.cancel()
                raise
            try:
                run.record(pack(function, result))
            finally:
                run.leave()
            return result

        return call  # type: ignore[return-value]

    return decorate


def fingerprint(
    function: Callable[..., Any], arguments: Mapping[str, Any], ignore: Sequence[str] = ()
) -> str:
    """Returns a hash of the values of arguments, by their names."""
    first = next(iter(arguments), None)
    kept = {
        name: value for name, value in arguments.items()
        if name not in ignore and not (name == first and name in ("self", "cls"))
    }  # fmt: skip
    try:
        values = {name: plain(value) for name, value in kept.items()}
    except TypeError as error:
        its_name = function.__qualname__
        raise TypeError(f"{error}: name the argument of {its_name} in `ignore`") from None
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def pack(function: Callable[..., Any], result: Any) -> str:
    return json_of(result, f"the result of {function.__qualname__}")


def result_of(begun: OnceAnswer, other: str) -> bytes:
    """Returns the result of the first run; Running before it is done, Mismatch if the key was used
    for something else."""
    if begun.reason == Reason.MISMATCH:
        raise Mismatch(f"this key was used for {other}")
    if begun.running or begun.result is None:
        raise Running(begun.lease or begun.remaining_time)
    return begun.result


def saved(begun: OnceAnswer) -> Any:
    """Returns the result of the first call."""
    return json.loads(result_of(begun, "a call with other arguments"))


class _Debounced:
    def __init__(
        self, function: Callable[..., Any], key: str, quiet: Duration, max_wait: Duration | None
    ) -> None:
        for name in functools.WRAPPER_ASSIGNMENTS:
            setattr(self, name, getattr(function, name))
        self.function, self.quiet, self.max_wait = function, quiet, max_wait
        self._name = templated(function, key, None)
        self.pattern = f"debounce:{key.partition('{')[0]}{'*' if '{' in key else ''}"

    def _payload(self, args: tuple[Any, ...], more: dict[str, Any]) -> str:
        return json_of([list(args), more], f"what {self.function.__qualname__} is called with")

    def handle(self, event: Event) -> Any:
        """Runs the function with the arguments of the last call."""
        args, more = json.loads(event.raw["payload"])
        return self.function(*args, **more)


class Debounced(_Debounced):
    """A function whose calls are collected; see `debounced`."""

    client: Client

    @property
    def jobs(self) -> dict[str, Callable[[Event], object]]:
        """The handler for a Worker, by its pattern."""
        return {self.pattern: self.handle}

    def __call__(self, *args: Any, **more: Any) -> Answer:
        return self.client.debounce.call(
            self._name(args, more), self.quiet, max_wait=self.max_wait,
            payload=self._payload(args, more))


class AsyncDebounced(_Debounced):
    """A function with `async def` whose calls are collected; see `debounced`."""

    client: AsyncClient

    @property
    def jobs(self) -> dict[str, Callable[[Event], Awaitable[object]]]:
        """The handler for an AsyncWorker, by its pattern."""
        return {self.pattern: self.handle}

    async def __call__(self, *args: Any, **more: Any) -> Answer:
        return await self.client.debounce.call(
            self._name(args, more), self.quiet, max_wait=self.max_wait,
            payload=self._payload(args, more))


class MakesDebounced(Protocol):
    """What `debounced` returns."""

    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, Any]]
    ) -> AsyncDebounced: ...

    @overload
    def __call__(self, function: Callable[..., Any]) -> Debounced: ...


def debounced(
    key: str, *, quiet: Duration, max_wait: Duration | None = None,
    client: Client | AsyncClient | None = None,
) -> MakesDebounced:  # fmt: skip
    """Makes a function that a worker runs once no call came for a while, with the last arguments.

    The worker has its `jobs`: `Worker(client, reindex.jobs)`, and an AsyncWorker for a function
    with `async def`. Arguments are values of JSON.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        made: Debounced | AsyncDebounced
        if inspect.iscoroutinefunction(function):
            made = AsyncDebounced(function, key, quiet, max_wait)
            made.client = of_type(client, AsyncClient, function)
        else:
            made = Debounced(function, key, quiet, max_wait)
            made.client = of_type(client, Client, function)
        return made

    return decorate


def binder(
    function: Callable[..., Any]
) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Returns what gives the arguments of a call by their names, defaults included."""
    signature = inspect.signature(function)

    def bound(args: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
        found = signature.bind(*args, **more)
        found.apply_defaults()
        return found.arguments

    return bound


class Template(string.Formatter):
    """Fills a template in. All values but the last are escaped, so that no two calls look alike."""

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        fields = [name for _, name, _, _ in self.parse(template) if name is not None]
        self._left = len(fields)
        return self.vformat(template, (), values)

    def format_field(self, value: Any, format_spec: str) -> str:
        self._left -= 1
        text: str = super().format_field(value, format_spec)
        return quote(text, safe=" /@+") if self._left else text


def templated(
    function: Callable[..., Any], template: str, prefix: str | None
) -> Callable[[tuple[Any, ...], dict[str, Any]], str]:
    """Returns what makes a key of the arguments of a call."""
    bound = binder(function)

    def name(args: tuple[Any, ...], more: dict[str, Any]) -> str:
        text = Template().fill(template, bound(args, more))
        return text if prefix is None else key_of(prefix, text)

    return name
