"""Connections, and what happens to a command whose reply is lost."""

from __future__ import annotations

import os
import weakref
from typing import Any, Callable, Sequence, TypeVar

import redis.exceptions as redis_errors
from redis.asyncio.connection import UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .._base import socket_path
from .._failures import CountdowndError, Down, code_of, explain
from .._views import ERRORS, Unsure

T = TypeVar("T")

LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
_pools: "weakref.WeakSet[AsyncPool]" = weakref.WeakSet()


def _forget() -> None:
    # A child must not use its parent's connections.
    for pool in _pools:
        pool.idle = []


os.register_at_fork(after_in_child=_forget)


def connection_to(path: str, timeout: float | None) -> Any:
    # The library's own types are incomplete.
    new: Any = UnixDomainSocketConnection
    return new(
        path=path,
        protocol=3,
        decode_responses=True,
        encoding_errors="surrogateescape",
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )


class AsyncPool:
    """Connections to one daemon: one for each command in progress."""

    def __init__(self, path: str | None, timeout: float | None) -> None:
        self.given = path
        self.given_timeout = timeout
        self.used = ""
        self.idle: list[Any] = []
        _pools.add(self)

    @property
    def path(self) -> str:
        """The path of the socket; COUNTDOWND_SOCKET can change while the program runs."""
        return self.given or socket_path()

    @property
    def timeout(self) -> float:
        """How long to wait for a reply, in seconds; long in tests, whose machines are busy."""
        return self.given_timeout or (60 if os.environ.get("COUNTDOWND_TESTING") else 5)

    async def take(self) -> tuple[Any, bool]:
        """Returns a connection, and whether it is new."""
        path = self.path
        if path != self.used:
            await self.close()
            self.used = path
        try:
            return self.idle.pop(), False
        except IndexError:
            return await self.open(path), True

    async def open(self, path: str) -> Any:
        connection = connection_to(path, self.timeout)
        try:
            await connection.connect()
        except redis_errors.ResponseError as error:
            raise translated(error) from None
        except LOST as error:
            await connection.disconnect()
            if isinstance(error, redis_errors.BusyLoadingError):
                raise translated(error) from None
            raise Down(explain(path, error)) from error
        return connection

    async def call(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool = False,
    ) -> T:
        connection, is_new = await self.take()
        try:
            await connection.send_command(*words)
        except LOST as error:
            # A command that could not be sent was not done: the idle connection had ended.
            await connection.disconnect()
            if is_new:
                raise Down(explain(self.used, error)) from error
            for other in self.idle:
                await other.disconnect()
            self.idle = []
            connection = await self.open(self.used)
            await connection.send_command(*words)
        try:
            reply = await connection.read_response()
        except redis_errors.BusyLoadingError as error:
            self.idle.append(connection)
            raise translated(error) from None
        except redis_errors.ResponseError as error:
            self.idle.append(connection)
            raise translated(error) from None
        except LOST as error:
            await connection.disconnect()
            return await self.again(words, parse, repeatable, own_token, error)
        except BaseException:
            # Cancelled: the reply is still to come.
            await connection.disconnect()
            raise
        self.idle.append(connection)
        return parse(reply)

    async def again(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool,
        lost: BaseException,
    ) -> T:
        """Repeats a command whose reply was lost, if that is safe."""
        problem = f"the reply of {' '.join(map(str, words[:2]))} is lost ({lost})"
        if not repeatable:
            raise Unsure(f"{problem}: it may have been done, or not") from lost
        try:
            connection = await self.open(self.used)
        except Down as error:
            raise Unsure(f"{problem}, and {error}") from lost
        try:
            await connection.send_command(*words)
            reply = await connection.read_response()
        except redis_errors.BusyLoadingError as error:
            await connection.disconnect()
            raise translated(error) from None
        except redis_errors.ResponseError as error:
            self.idle.append(connection)
            raise translated(error) from None
        except LOST as error:
            await connection.disconnect()
            raise Unsure(f"{problem}, and so is that of its repetition") from error
        self.idle.append(connection)
        # The token was made for this call alone, so nobody else was accepted with it.
        if own_token and isinstance(reply, dict) and reply.get("reason") == "repeated":
            reply["reason"] = None
        return parse(reply)

    async def close(self) -> None:
        idle, self.idle = self.idle, []
        for connection in idle:
            await connection.disconnect()


class AsyncSingle(AsyncPool):
    """One connection, for one task: what it owns ends with it. It never connects again."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__(path, timeout)
        self.used = path
        self.connected = False

    async def take(self) -> tuple[Any, bool]:
        if self.idle:
            return self.idle.pop(), True
        if self.connected:
            raise Down("the connection is closed, and what it owned has ended")
        self.connected = True
        return await self.open(self.used), True

    async def again(
        self,
        words: Sequence[Any],
        parse: Callable[[Any], T],
        repeatable: bool,
        own_token: bool,
        lost: BaseException,
    ) -> T:
        raise Unsure(f"the connection is lost ({lost}), and what it owned has ended") from lost


def translated(error: Any) -> Exception:
    code, message = code_of(error, ERRORS)
    return ERRORS[code](message) if code in ERRORS else CountdowndError(message)
