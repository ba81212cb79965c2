"""Events, without a gap over lost connections."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import redis.exceptions as redis_errors

from .._events import SETTLE, Cursor, Event, in_order
from .._failures import CountdowndError, Down, explain
from .connection import LOST, connection_to

if TYPE_CHECKING:
    from .connection import AsyncPool

#: How long to wait before the next attempt to connect, in seconds.
PAUSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

CONFIRMATIONS = ("subscribe", "psubscribe")

_open: "weakref.WeakSet[AsyncWatch]" = weakref.WeakSet()


class AsyncWatch:
    """Events of a client's `watch`, in order; iterate over it. `close` ends the iteration."""

    def __init__(
        self, pool: "AsyncPool", patterns: tuple[str, ...], since: str | None, snapshots: bool
    ) -> None:
        if not patterns:
            raise ValueError("name a channel or a pattern, such as 'countdown:*'")
        self.pool = pool
        self.patterns = patterns
        self.snapshots = snapshots
        #: The cursor of the newest event that was returned; keep it for `since`.
        self.cursor = since
        self._read = Cursor(since or "")
        self.ready = threading.Event()
        #: How many markers of the test fixture have been seen.
        self.settled = 0
        self._is_tested = bool(os.environ.get("COUNTDOWND_TESTING"))
        self._connection: Any = None
        self._waiting: list[Event] = []
        self._closed = False
        _open.add(self)

    @staticmethod
    def open_at(path: str) -> "list[AsyncWatch]":
        """Returns the watches of this program at a daemon."""
        return [one for one in list(_open) if one.pool.path == path and not one.closed]

    @property
    def closed(self) -> bool:
        return self._closed

    def __aiter__(self) -> "AsyncWatch":
        return self

    async def __anext__(self) -> Event:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next(self) -> Event | None:
        """Returns the next event; None once the watch is closed."""
        while not self._closed:
            if self._waiting:
                event = self._waiting.pop(0)
            else:
                try:
                    if self._connection is None:
                        await self._connect()
                        continue
                    push = await self._connection.read_response(push_request=True)
                # `close` in another thread takes the reader away.
                except (*LOST, AttributeError):
                    await self._drop()
                    continue
                found = event_of(push)
                if found is None:
                    continue
                event = self._read.stamp(found)
            if event.key == SETTLE and event.kind == "timer":
                if event.name == "fired":
                    self.settled = max(self.settled, event.seq)
                continue
            if not event.is_state:
                self.cursor = event.cursor
            if event.name != "snapshot" or self.snapshots:
                return event
        await self._drop()
        return None

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect()

    async def _connect(self) -> None:
        """Connects, subscribes, and reads what was missed. The first time, a daemon that is down is
        an error; later it is waited for."""
        attempt = 0
        while not self._closed:
            connection = connection_to(self.pool.path, None)
            try:
                await connection.connect()
                await self._subscribe(connection)
                self._connection = connection
                return
            except LOST as error:
                await connection.disconnect()
                is_loading = isinstance(error, redis_errors.BusyLoadingError)
                if not self.ready.is_set() and not is_loading:
                    raise Down(explain(self.pool.path, error)) from error
            except redis_errors.ResponseError as error:
                await connection.disconnect()
                # The servers of a fleet may be away.
                if not self.ready.is_set() or not str(error).startswith("UNAVAILABLE"):
                    raise CountdowndError(str(error)) from None
            await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1

    async def _subscribe(self, connection: Any) -> None:
        patterns = list(self.patterns)
        if self._is_tested:
            patterns.append(f"timer:{SETTLE}")
        is_new = not self._read
        if is_new:
            self._read = Cursor(await self._ask(connection, [], "EVENTS", "CURSOR"))
            self.cursor = str(self._read)
        read = Cursor(str(self._read))
        pushes: list[Event] = []
        for pattern in patterns:
            # A channel has a snapshot even if there is no such entity.
            command = "PSUBSCRIBE" if is_pattern(pattern) else "SUBSCRIBE"
            await connection.send_command(command, pattern)
        confirmed = 0
        while confirmed < len(patterns):
            push = await connection.read_response(push_request=True)
            if isinstance(push, list) and push and push[0] in CONFIRMATIONS:
                confirmed += 1
            elif (event := event_of(push)) is not None:
                pushes.append(event)
        missed: list[Event] = []
        if not is_new:
            matches = [word for pattern in patterns for word in ("MATCH", pattern)]
            more = True
            while more:
                reply = await self._ask(
                    connection, pushes, "EVENTS", "SINCE", str(read), *matches[:32])
                if not reply["complete"] and not missed:
                    missed.append(Event.gap())
                for channel, line in reply["events"]:
                    missed.append(read.stamp(Event(channel, json.loads(line))))
                read, more = Cursor(reply["cursor"]), reply["more"]
        self._waiting += in_order(pushes, missed, read)
        self._read = read
        self.ready.set()

    async def _ask(self, connection: Any, pushes: list[Event], *words: object) -> Any:
        """Sends a command on the connection of the subscription, and returns its reply."""
        await connection.send_command(*words)
        while True:
            reply = await connection.read_response(push_request=True)
            if (event := event_of(reply)) is not None:
                pushes.append(event)
            else:
                return reply

    async def aclose(self) -> None:
        """Ends the iteration."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            await connection.disconnect()

    async def __aenter__(self) -> "AsyncWatch":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def event_of(push: Any) -> Event | None:
    if isinstance(push, list) and push and push[0] in ("message", "pmessage"):
        return Event(push[-2], json.loads(push[-1]))
    return None


def is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[\\")
