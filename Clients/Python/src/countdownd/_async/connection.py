"""Connections, and what happens to a command whose reply is lost."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar

import redis.exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .._base import socket_path
from .._calls import NAMELESS, checked, first_answer, interrupt, limit, refuse_bound
from .._calls import AsyncConnection, checkpoint
from .._failures import Closed, CountdowndError, Down, code_of, explain
from .._slots import AsyncSlots
from .._views import ERRORS, Unsure

if TYPE_CHECKING:
    from .watch import AsyncWatch

T = TypeVar("T")

LOST = (
    redis_errors.ConnectionError, redis_errors.TimeoutError, redis_errors.InvalidResponse, OSError,
    # `close` has taken the connection away.
    AttributeError,
)  # fmt: skip
#: The most connections of a client, beside those of watches; more calls at once wait.
MOST = 100
_pools: "weakref.WeakSet[AsyncPool]" = weakref.WeakSet()


def _forget() -> None:
    # A child must not use its parent's connections.
    for pool in _pools:
        pool.idle, pool.busy, pool.slots = [], set(), None


os.register_at_fork(after_in_child=_forget)


def connection_to(path: str, timeout: float | None) -> Any:
    # The library's own types are incomplete.
    new: Any = AsyncConnection
    return new(
        path=path,
        protocol=3,
        decode_responses=True,
        encoding_errors="surrogateescape",
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        **NAMELESS,
        retry=Retry(NoBackoff(), 0),
    )


class NotSent(Exception):
    """A command could not be written, so it was not done."""


class AsyncPool:
    """Connections to one daemon: one for each command in progress."""

    is_shared = True

    def __init__(self, path: str | None, timeout: float | None) -> None:
        self.given = path
        self.given_timeout = timeout
        self.used = ""
        self.loop: Any = None
        self.idle: list[Any] = []
        self.busy: set[Any] = set()
        self.slots: AsyncSlots | None = None
        self.watches: "weakref.WeakSet[AsyncWatch]" = weakref.WeakSet()
        self.is_closed = False
        _pools.add(self)

    @property
    def path(self) -> str:
        """The path of the socket; COUNTDOWND_SOCKET can change while the program runs."""
        return self.given or socket_path()

    @property
    def timeout(self) -> float:
        """How long a call takes at most, in seconds; long in tests, whose machines are busy."""
        return self.given_timeout or (60 if os.environ.get("COUNTDOWND_TESTING") else 5)

    def prepare(self) -> AsyncSlots:
        """Forgets the connections to another path or of another event loop; returns the slots."""
        path, loop = self.path, asyncio.get_running_loop()
        if path != self.used or loop is not self.loop or self.slots is None:
            # Those of an event loop that has ended cannot be used in another one.
            idle, self.idle = self.idle, []
            for one in idle:
                interrupt(one)
            self.used, self.loop, self.slots = path, loop, AsyncSlots(MOST)
        return self.slots

    async def take(self, end: float) -> tuple[Any, bool]:
        """Returns a connection, and whether it is new."""
        try:
            connection = self.idle.pop()
        except IndexError:
            return await self.open(self.used, end), True
        self.busy.add(connection)
        return connection, False

    async def open(self, path: str, end: float) -> Any:
        connection = connection_to(path, max(end - time.monotonic(), 0.001))
        self.busy.add(connection)
        try:
            await connection.connect()
        except BaseException as error:
            await self.discard(connection)
            if isinstance(error, (redis_errors.ResponseError, redis_errors.BusyLoadingError)):
                raise translated(error) from None
            if self.is_closed:
                raise Closed() from None
            if isinstance(error, LOST):
                raise Down(explain(path, error)) from error
            raise
        return connection

    async def discard(self, connection: Any) -> None:
        self.busy.discard(connection)
        await connection.disconnect()

    async def give_back(self, connection: Any) -> None:
        self.busy.discard(connection)
        if self.is_closed:
            await connection.disconnect()
        else:
            self.idle.append(connection)

    async def call(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool = False,
    ) -> T:
        checked(words)
        if self.is_closed:
            raise Closed()
        end = time.monotonic() + self.timeout
        slots = self.prepare()
        if not await slots.take(self.timeout):
            raise Down(f"all {MOST} connections of this client are in use, and none was free in time")
        try:
            return await self.ask(words, parse, repeatable, own_token, end)
        finally:
            slots.give_back()

    async def ask(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool,
        end: float,
    ) -> T:
        """Asks over one of the connections."""
        if self.is_closed:
            raise Closed()
        connection, is_new = await self.take(end)
        try:
            try:
                reply = await self.exchange(connection, words, end)
            except NotSent as error:
                if is_new:
                    raise self.lost_before(error) from error.__cause__
                # The idle connections had ended.
                await self.drop()
                connection = await self.open(self.used, end)
                reply = await self.exchange(connection, words, end)
        except NotSent as error:
            raise self.lost_before(error) from error.__cause__
        except LOST as error:
            return await self.again(words, parse, repeatable, own_token, error, end)
        return parse(reply)

    def lost_before(self, error: Exception) -> CountdowndError:
        return Closed() if self.is_closed else Down(explain(self.used, error.__cause__ or error))

    async def exchange(self, connection: Any, words: Sequence[Any], end: float) -> Any:
        """Sends a command, and returns its reply. An error of the daemon is raised as it is."""
        try:
            await checkpoint()
        except BaseException:
            await self.give_back(connection)
            raise
        try:
            limit(connection, end)
            await connection.send_command(*words)
        except LOST as error:
            await self.discard(connection)
            raise NotSent() from error
        except BaseException as error:
            await self.discard(connection)
            error.add_note("the command may have run, or not")
            raise
        try:
            reply = await connection.read_response()
        except (redis_errors.ResponseError, redis_errors.BusyLoadingError) as error:
            await self.give_back(connection)
            raise translated(error) from None
        except LOST:
            await self.discard(connection)
            raise
        except BaseException as error:
            # Cancelled: the reply is still to come.
            await self.discard(connection)
            error.add_note("the command may have run, or not")
            raise
        await self.give_back(connection)
        return reply

    async def again(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool,
        lost: BaseException,
        end: float,
    ) -> T:
        """Repeats a command whose reply was lost, if that is safe and there is time."""
        if self.is_closed:
            raise Closed(may_have_run=True) from None
        problem = f"the reply of {' '.join(map(str, words[:2]))} is lost ({lost})"
        if not repeatable or time.monotonic() >= end:
            raise Unsure(f"{problem}: it may have run, or not") from lost
        try:
            reply = await self.exchange(await self.open(self.used, end), words, end)
        except (NotSent, Down, Closed, *LOST) as error:
            if self.is_closed:
                raise Closed(may_have_run=True) from None
            reason = f"its repetition failed ({error.__cause__ or error})"
            raise Unsure(f"{problem}, and {reason}: it may have run, or not") from lost
        return parse(first_answer(reply, words, own_token))

    async def drop(self) -> None:
        """Closes the connections that are not in use."""
        idle, self.idle = self.idle, []
        for connection in idle:
            await connection.disconnect()

    async def close(self) -> None:
        """Ends all calls and watches, and the pool for good."""
        self.is_closed = True
        for watch in list(self.watches):
            await watch.aclose()
        for connection in list(self.busy):
            interrupt(connection)
        await self.drop()

    async def command(self, words: Sequence[Any]) -> Any:
        """Sends any command, unless it would break a connection that is shared."""
        if self.is_shared:
            refuse_bound(words)
        return await self.call(words, lambda reply: reply, False)


class AsyncSingle(AsyncPool):
    """One connection, for one task: what it owns ends with it. It never connects again."""

    is_shared = False

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__(path, timeout)
        self.connected = False

    async def take(self, end: float) -> tuple[Any, bool]:
        if self.idle:
            self.busy.add(connection := self.idle.pop())
            return connection, True
        if self.connected:
            raise Down("the connection is closed, and what it owned has ended")
        self.connected = True
        return await self.open(self.used, end), True

    async def again(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool,
        lost: BaseException,
        end: float,
    ) -> T:
        if self.is_closed:
            raise Closed(may_have_run=True) from None
        raise Unsure(f"the connection is lost ({lost}), and what it owned has ended") from lost


def translated(error: Any) -> Exception:
    code, message = code_of(error, ERRORS)
    return ERRORS[code](message) if code in ERRORS else CountdowndError(message)
