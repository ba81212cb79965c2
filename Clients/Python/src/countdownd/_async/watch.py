"""Events, without a gap over lost connections."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import redis.exceptions as redis_errors

from .._calls import interrupt, limit
from .._events import SETTLE, CatchingUp, Cursor, Event
from .connection import LOST, connection_to, translated

if TYPE_CHECKING:
    from .connection import AsyncPool

#: How long to wait before the next attempt to connect, in seconds.
PAUSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: How long a connection lasts before the pauses start over, in seconds.
LASTING = 1.0

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
        self._waiting: deque[Event] = deque()
        # While it reads what it has missed.
        self._catching_up: CatchingUp | None = None
        self._attempt = 0
        self._connected_at = 0.0
        self._is_reading = False
        self._closed = False
        _open.add(self)

    @staticmethod
    def open_at(path: str) -> "list[AsyncWatch]":
        """Returns the watches of this program at a daemon."""
        return [one for one in list(_open) if one.pool.path == path and not one.closed]

    def _begin_at(self, cursor: str) -> None:
        """Returns the events after a cursor, as with `since`; before it has begun."""
        self.cursor, self._read = cursor, Cursor(cursor)

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
        """Returns the next event; None once the watch is closed.

        It waits while the daemon is down. A daemon that refuses the watch is an error, such as
        NotPermitted, and closes it.
        """
        self._is_reading = True
        try:
            while not self._closed:
                event = await self._read_event()
                if event is None:
                    continue
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
        finally:
            self._is_reading = False

    async def _read_event(self) -> Event | None:
        """Does one step: returns an event that waits, or connects, or reads."""
        if self._waiting:
            return self._waiting.popleft()
        try:
            if self._connection is None:
                await self._connect()
            elif self._catching_up is not None:
                await self._read_page(self._connection, self._catching_up)
            else:
                push = await self._connection.read_response(push_request=True)
                found = event_of(push)
                return None if found is None else self._read.stamp(found)
        except redis_errors.BusyLoadingError:
            await self._drop()
        except redis_errors.ResponseError as error:
            await self._drop()
            if not self._may_pass(str(error)):
                self._closed = True
                raise translated(error) from None
        except LOST:
            await self._drop()
        return None

    def _may_pass(self, error: str) -> bool:
        """Returns whether another attempt may succeed."""
        # The servers of a fleet may be away. After a restart all clients connect at once, and some
        # find room only later.
        return error.startswith("UNAVAILABLE") or self.ready.is_set() and error.startswith("LIMIT")

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._catching_up = None
        if time.monotonic() - self._connected_at >= LASTING:
            self._attempt = 0
        if connection is not None:
            await connection.disconnect()

    async def _connect(self) -> None:
        """Connects and subscribes, after a pause that grows while connections do not last."""
        if self._attempt > 0:
            await asyncio.sleep(PAUSES[min(self._attempt, len(PAUSES)) - 1])
            if self._closed:
                return
        self._attempt += 1
        self._connected_at = time.monotonic()
        connection = self._connection = connection_to(self.pool.path, self.pool.timeout)
        await connection.connect()
        await self._subscribe(connection)

    async def _subscribe(self, connection: Any) -> None:
        limit(connection, time.monotonic() + self.pool.timeout)
        patterns = list(self.patterns)
        if self._is_tested:
            patterns.append(f"timer:{SETTLE}")
        arrived = CatchingUp()
        is_new = not self._read
        if is_new:
            self._read = Cursor(await self._ask(connection, arrived, "EVENTS", "CURSOR"))
            self.cursor = str(self._read)
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
                arrived.add(event)
        self._catching_up = arrived
        if is_new:
            self._go_live(connection, arrived)

    async def _read_page(self, connection: Any, arrived: CatchingUp) -> None:
        """Reads some of what was missed."""
        limit(connection, time.monotonic() + self.pool.timeout)
        before = str(self._read)
        reply = await self._ask(connection, arrived, "EVENTS", "SINCE", before, "SUBSCRIBED")
        if not reply["complete"]:
            self._waiting.append(Event.gap(before))
        page = [Event(channel, json.loads(line)) for channel, line in reply["events"]]
        arrived.leave_out(page)
        self._waiting += map(self._read.stamp, page)
        self._read = Cursor(reply["cursor"])
        if not reply["more"]:
            self._go_live(connection, arrived)

    def _go_live(self, connection: Any, arrived: CatchingUp) -> None:
        self._waiting += map(self._read.stamp, arrived.states + arrived.events)
        self._catching_up = None
        limit(connection, None)
        self.ready.set()

    async def _ask(self, connection: Any, arrived: CatchingUp, *words: object) -> Any:
        """Sends a command on the connection of the subscription, and returns its reply."""
        await connection.send_command(*words)
        while True:
            reply = await connection.read_response(push_request=True)
            if (event := event_of(reply)) is None:
                return reply
            if not arrived.add(event):
                raise redis_errors.ConnectionError("too many events came while it caught up")

    async def aclose(self) -> None:
        """Ends the iteration, from any thread or task."""
        self._closed = True
        if self._connection is not None:
            interrupt(self._connection)
        if not self._is_reading:
            await self._drop()

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
