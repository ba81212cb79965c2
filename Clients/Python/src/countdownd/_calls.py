"""What both halves of the client do with a command."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import time
from typing import Any, Sequence

import redis.asyncio.connection
import redis.connection
import redis.exceptions as redis_errors

from ._views import BOUND

#: Lets the library send HELLO alone: one round trip, and one wait if the daemon hangs. Older
#: versions have two names for it.
_parameters = inspect.signature(redis.connection.AbstractConnection.__init__).parameters
NAMELESS: dict[str, Any] = (
    {"driver_info": None} if "driver_info" in _parameters
    else {"lib_name": None, "lib_version": None}
)  # fmt: skip


def checked(words: Sequence[Any]) -> None:
    """Raises TypeError for a word that cannot be sent, before anything is."""
    if not words:
        raise ValueError("name a command, such as 'PING'")
    for word in words:
        if isinstance(word, bool) or not isinstance(word, (str, bytes, int, float)):
            raise TypeError(f"an argument of {words[0]} is text, bytes or a number, not {word!r}")


def refuse_bound(words: Sequence[Any]) -> None:
    """Raises ValueError for a command that would break a connection which others share."""
    checked(words)
    names = [word.decode() if isinstance(word, bytes) else str(word) for word in words[:2]]
    name = " ".join(names).upper()
    if name in BOUND or name.partition(" ")[0] in BOUND:
        raise ValueError(f"{name} would break a connection that is shared; use connected()")


def first_answer(reply: Any, words: Sequence[Any], own_token: bool) -> Any:
    """Returns the answer that a command had the first time, from that of its repetition."""
    if isinstance(reply, dict):
        # The token was made for this call alone, so nobody else was accepted with it.
        is_own = own_token and reply.get("reason") == "repeated"
        # The result that is recorded is the one of this call.
        is_done = (
            words[:2] == ["ONCE", "DONE"] and reply.get("reason") == "duplicate"
            and as_bytes(reply.get("result")) == as_bytes(words[3])
        )  # fmt: skip
        if is_own or is_done:
            reply.update(accepted=True, reason=None)
    return reply


def as_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


async def checkpoint() -> None:
    """Ends a task that was cancelled: to write a command would not."""
    if getattr(asyncio.current_task(), "_must_cancel", False):
        await asyncio.sleep(0)


#: A connection for threads.
Connection = redis.connection.UnixDomainSocketConnection


class AsyncConnection(redis.asyncio.connection.UnixDomainSocketConnection):
    """A connection for tasks."""

    async def connect(self) -> None:
        """Connects. The library makes a lost connection of each answer to HELLO that is an error."""
        try:
            await super().connect()  # type: ignore[no-untyped-call]
        except redis_errors.ConnectionError as error:
            if isinstance(error.__cause__, (redis_errors.ResponseError, redis_errors.BusyLoadingError)):
                raise error.__cause__ from None
            raise

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Sends a command. The library limits a write by asyncio.wait_for, which can swallow the
        cancellation of the task before Python 3.12."""
        seconds, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(seconds):
                await super().send_packed_command(command, check_health)
        finally:
            self.socket_timeout = seconds


def limit(connection: Any, end: float | None) -> None:
    """Sets until when a connection waits; None for ever."""
    seconds = None if end is None else max(end - time.monotonic(), 0.001)
    connection.socket_timeout = seconds
    if (its := getattr(connection, "_sock", None)) is not None:
        its.settimeout(seconds)


def interrupt(connection: Any) -> None:
    """Ends what another thread or task does with a connection; it is the one to close it."""
    its = getattr(connection, "_sock", None)
    if (writer := getattr(connection, "_writer", None)) is not None:
        its = writer.get_extra_info("socket")
    if its is not None:
        with contextlib.suppress(OSError):
            its.shutdown(socket.SHUT_RDWR)
