"""What the middleware of all frameworks shares: options, keys, and answers that are stored."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import ipaddress
import json
import logging
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Coroutine,
    Generic,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    Sequence,
    TypeVar,
)

from ._async.client import AsyncClient
from ._base import Duration, Rate, check_lease, checked_rate, key_of, parsed
from ._decorators import Mismatch, Running, TooMany, rate_limit_headers, result_of
from ._failures import CountdowndError, is_away
from ._sync.client import Client
from ._views import Invalid, LimitReached, OnceAnswer, ThrottleAnswer

R = TypeVar("R")
Fail = Literal["open", "closed"]

log = logging.getLogger("countdownd.middleware")

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
#: The longest Idempotency-Key, in bytes.
LONGEST_KEY = 255
#: The most that is sent to the daemon as an answer, which has a limit of its own:
#: limits.max-result-length.
MOST_STORED = 250_000
#: How long clients wait before they ask a daemon again that is away, in seconds.
AWAY_SECONDS = 1

#: Headers of a connection or a moment, or of what is around the handler.
NOT_STORED = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "date", "retry-after", "ratelimit",
    "ratelimit-policy", "idempotency-replayed",
})  # fmt: skip


class BadKey(ValueError):
    """The request has no Idempotency-Key where it needs one, or one that cannot be used."""


class Unstorable(RuntimeError):
    """The answer of an idempotent handler cannot be stored. The handler has run."""


def network(address: str) -> str:
    """Returns an address as limits count it: the network of 64 bits of IPv6, as one client has all
    of that, and IPv4 alone, also where it is mapped into IPv6. Other text stays as it is."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


# MARK: Errors


@dataclass(frozen=True)
class Reply:
    """What is answered instead of what the handler would."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)


def reply_to(error: Exception) -> Reply | None:
    """Returns the reply to an error of this package; None for a mistake of the program, which is
    an error of its own."""
    match error:
        case TooMany():
            return Reply(429, "Too many requests.", error.headers)
        case Running():
            return Reply(409, "The first request is still running.", error.headers)
        case Mismatch():
            return Reply(422, "This key was used for another request.")
        case BadKey():
            return Reply(400, str(error))
        case CountdowndError() if is_away(error):
            return Reply(503, "Try again later.", {"Retry-After": str(AWAY_SECONDS)})
    return None


class Failing(Generic[R]):
    """What a limiter or an idempotent handler does while the daemon cannot be asked."""

    def __init__(
        self, fail: Fail, on_error: Callable[[CountdowndError, R], Any] | None
    ) -> None:
        if fail not in ("open", "closed"):
            raise ValueError(f"fail is 'open' or 'closed', not {fail!r}")
        self.fail, self.on_error = fail, on_error

    def failed(self, what: str, error: CountdowndError, request: R) -> Any:
        """Notes an error, and raises it unless the handler runs without the daemon. Returns what
        `on_error` returns: of an async function, that is to be awaited."""
        if is_away(error):
            log.warning("%s fails %s: %s", what, self.fail, error)
        else:
            log.error("%s is set up wrong: %s", what, error)
        return self.on_error(error, request) if self.on_error else None

    def is_closed(self, error: CountdowndError) -> bool:
        return self.fail == "closed" or not is_away(error)


# MARK: Limits


class Limit(Failing[R]):
    """The options of a rate limit of requests; docs/reference/middleware.md has them."""

    def __init__(
        self,
        *,
        burst: int | None,
        rate: Rate | None,
        named: Sequence[str] | Mapping[str, Callable[[R], Any] | None],
        key: Callable[[R], Any] | None,
        address: Callable[[R], Any],
        cost: int | Callable[[R], Any],
        skip: Callable[[R], Any] | None,
        name: str | None,
        fail: Fail,
        on_error: Callable[[CountdowndError, R], Any] | None,
    ) -> None:
        super().__init__(fail, on_error)
        if isinstance(named, (str, bytes)):
            raise TypeError(f"named is a list of names, such as [{named!r}]")
        if named and (burst is not None or rate is not None):
            raise ValueError("a named limit has its burst and rate in the configuration")
        if not named and (burst is None or rate is None):
            raise ValueError("a limit has burst and rate, such as 10 and '10/1m', or is named")
        if burst is not None and burst < 1:
            raise ValueError(f"burst is at least 1, not {burst}")
        if isinstance(cost, int) and (cost < 1 or burst is not None and cost > burst):
            raise ValueError(f"cost is 1 to burst, not {cost}")
        self.burst, self.rate = burst, None if rate is None else checked_rate(rate)
        self.named = named if isinstance(named, Mapping) else dict.fromkeys(named, self.by_key)
        self.key, self.address, self.cost, self.skip, self.name = key, address, cost, skip, name

    def by_key(self, request: R) -> Any:
        if self.key is not None:
            return self.key(request)
        return self.address(request)

    def functions(self) -> Iterable[tuple[str, Callable[[R], Any] | None]]:
        """Returns the functions of the keys, with the name of each limit, or none."""
        return self.named.items() if self.named else [("", self.by_key)]

    def text(self, limit: str, function: Callable[[R], Any] | None, value: Any) -> str:
        """Returns what a key function has given, as text that is not empty."""
        if function is None:
            return ""
        if function == self.by_key and self.key is None:
            value = network(str(value or ""))
            what = "the client has no address: give `address` or `key`"
        else:
            name = getattr(self.key if function == self.by_key else function, "__name__", function)
            what = f"the key function {name} gave {value!r}"
        if value is None or str(value) == "":
            raise Invalid(f"a limit needs a key, and {what}")
        return str(value)

    def words(self, name: str, texts: Sequence[str]) -> list[str]:
        """Returns the keys."""
        if self.named:
            return [f"{limit}:{text}" for limit, text in zip(self.named, texts)]
        return [key_of(self.name or name, texts[0])]


def take(limit: Limit[R], client: Client, name: str, request: R) -> dict[str, str]:
    """Asks the daemon. Returns headers for the answer; raises TooMany if the request is refused."""
    if limit.skip and limit.skip(request):
        return {}
    try:
        texts = [
            limit.text(one, function, function and function(request))
            for one, function in limit.functions()]
        cost = limit.cost(request) if callable(limit.cost) else limit.cost
        answer = client.throttle.take(
            *limit.words(name, texts), burst=limit.burst, rate=limit.rate, cost=cost)
    except CountdowndError as error:
        limit.failed(name, error, request)
        if limit.is_closed(error):
            raise
        return {}
    return headers_of(answer)


async def async_take(limit: Limit[R], client: AsyncClient, name: str, request: R) -> dict[str, str]:
    """Does what `take` does; the functions of the options may be async."""
    if limit.skip and await settled(limit.skip(request)):
        return {}
    try:
        texts = [
            limit.text(one, function, await settled(function and function(request)))
            for one, function in limit.functions()]
        cost = await settled(limit.cost(request)) if callable(limit.cost) else limit.cost
        answer = await client.throttle.take(
            *limit.words(name, texts), burst=limit.burst, rate=limit.rate, cost=cost)
    except CountdowndError as error:
        await settled(limit.failed(name, error, request))
        if limit.is_closed(error):
            raise
        return {}
    return headers_of(answer)


def headers_of(answer: ThrottleAnswer) -> dict[str, str]:
    if answer.refused:
        raise TooMany(answer)
    return rate_limit_headers(answer)


# MARK: Idempotency


class Once(Failing[R]):
    """The options of an idempotent handler; docs/reference/middleware.md has them."""

    def __init__(
        self,
        *,
        ttl: Duration,
        lease: Duration | None,
        user: Callable[[R], Any] | None,
        name: str | None,
        required: bool,
        fail: Fail,
        on_error: Callable[[CountdowndError, R], Any] | None,
    ) -> None:
        super().__init__(fail, on_error)
        parsed(ttl)
        if lease is not None:
            check_lease(lease, ttl)
        self.ttl, self.lease, self.user, self.name, self.required = ttl, lease, user, name, required

    def checked_key(self, header: str | None) -> str | None:
        """Returns the Idempotency-Key of a request; None if it has none."""
        if header is None:
            if self.required:
                raise BadKey(f"{KEY_HEADER} is missing.")
            return None
        if not 0 < len(header.encode("utf-8", "surrogateescape")) <= LONGEST_KEY:
            raise BadKey(f"{KEY_HEADER} has 1 to {LONGEST_KEY} bytes.")
        return header

    def words(self, mark: str) -> dict[str, Any]:
        """Returns what ONCE BEGIN is asked with, beside the key."""
        return {"ttl": self.ttl, "lease": self.lease, "fingerprint": mark}

    def key(self, name: str, user: Any, header: str) -> str:
        return key_of("request", self.name or name, "" if user is None else str(user), header)


def fingerprint(method: str, target: str, content: bytes) -> str:
    """Returns what tells a request from others: its method, its path with the query, its body."""
    mark = hashlib.sha256(f"{method} {target}\n".encode("utf-8", "surrogateescape"))
    mark.update(content)
    return mark.hexdigest()


def form_content(
    values: Iterable[tuple[str, Any]], files: Iterable[tuple[str, str, bytes]]
) -> bytes:
    """Returns what a form says. Its bytes have a boundary that is another one each time."""
    marks = [[name, label, hashlib.sha256(content).hexdigest()] for name, label, content in files]
    return json.dumps([[list(pair) for pair in values], marks]).encode()


@dataclass(frozen=True)
class Stored:
    """An answer as ONCE keeps it: a line of JSON, and the body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @classmethod
    def of(cls, name: str, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
        """Returns an answer as it is sent to the daemon."""
        kept = [pair for pair in headers if pair[0].lower() not in NOT_STORED]
        packed = json.dumps({"status": status, "headers": kept}).encode() + b"\n" + body
        if len(packed) > MOST_STORED:
            raise too_large(name, len(packed))
        return packed

    @classmethod
    def read(cls, begun: OnceAnswer) -> "Stored":
        """Returns the answer of the first request; raises Running or Mismatch if there is none."""
        head, _, body = result_of(begun, "another request").partition(b"\n")
        found = json.loads(head)
        return cls(found["status"], [(name, value) for name, value in found["headers"]], body)


def is_stored(status: int) -> bool:
    """Whether repetitions get this answer: others invite to try again."""
    return status != 429 and status < 500


def streamed(name: str) -> Unstorable:
    return unstorable(name, "it is streamed; answer with a whole body")


def too_large(name: str, size: int) -> Unstorable:
    return unstorable(
        name, f"it has {size} bytes; answer with less, such as a Location, or raise"
        f" limits.max-result-length (at most {MOST_STORED})")


@contextlib.contextmanager
def recording(name: str, stored: bytes) -> Iterator[None]:
    """Raises Unstorable if the daemon refuses an answer as too long."""
    try:
        yield
    except LimitReached as error:
        raise too_large(name, len(stored)) from error


def unstorable(name: str, why: str) -> Unstorable:
    error = Unstorable(f"the answer of {name} cannot be stored for its Idempotency-Key: {why}")
    # Not every framework logs exceptions by itself.
    log.error("%s", error)
    return error


async def settled(value: Any) -> Any:
    """Returns a value, or what comes of it if it is to be awaited."""
    return await value if inspect.isawaitable(value) else value


_under_way: "set[asyncio.Task[Any]]" = set()


async def running(work: Coroutine[Any, Any, R]) -> R:
    """Awaits work that goes on if the caller is cancelled: its client has disconnected."""
    task = asyncio.create_task(work)
    _under_way.add(task)
    task.add_done_callback(_ended)
    return await asyncio.shield(task)


def _ended(task: "asyncio.Task[Any]") -> None:
    _under_way.discard(task)
    if not task.cancelled():
        # It is raised where the task is awaited, if it still is.
        task.exception()
