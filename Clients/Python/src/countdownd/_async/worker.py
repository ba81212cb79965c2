"""A worker: each event that fires is handled by exactly one of several programs."""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import threading
from typing import Any, Awaitable, Callable, Mapping

from .._base import Duration
from .._events import Event
from .._failures import CountdowndError
from .client import AsyncClient, AsyncConnected

log = logging.getLogger("countdownd.worker")


class AsyncWorker:
    """Runs a handler for each event that fires: of timers and debouncers, once for all workers.

        AsyncWorker(client, {"timer:reminder:*": remind, "debounce:reindex": reindex}).run()

    An event is claimed before it is handled. If a worker dies, another one takes its event over; if
    a handler fails, the event is left to the others. It misses nothing while it is disconnected, nor
    after a restart if `cursor` is the one that it had. A worker that is killed between the end of
    its handler and the report may lead to a second run.
    """

    def __init__(
        self,
        client: AsyncClient,
        handlers: Mapping[str, Callable[[Event], Awaitable[object]]],
        *,
        cursor: str | None = None,
        lease: Duration = "1h",
    ) -> None:
        self.client = client
        self.handlers = dict(handlers)
        self.lease = lease
        self.done = 0
        #: Events that another worker is handling, by the key of the claim.
        self.elsewhere: dict[str, Event] = {}
        self._watch = client.watch(*self.handlers, "once:job:*", since=cursor, snapshots=False)
        self._own: AsyncConnected | None = None

    @property
    def ready(self) -> threading.Event:
        """Set once it is subscribed: events from then on are handled."""
        return self._watch.ready

    @property
    def cursor(self) -> str | None:
        """The cursor of the newest event that was handled or left to others."""
        return self._watch.cursor

    async def run(self) -> None:
        """Handles events until `stop` is called."""
        try:
            async for event in self._watch:
                while True:
                    try:
                        await self._handle(event)
                        break
                    except CountdowndError as error:
                        # The connection that owns claims is lost, and so are they: claim again.
                        log.warning("again: %s", error)
                        await self._release()
                        await asyncio.sleep(0.1)
        finally:
            await self._release()

    async def stop(self) -> None:
        """Ends `run`, from any thread; an event in progress is handled first."""
        await self._watch.aclose()

    async def disconnect(self) -> None:
        """Loses the claims, as if the worker were killed; for tests."""
        if self._own is not None:
            await self._own.aclose()

    async def _handle(self, event: Event) -> None:
        if event.name == "gap":
            log.error("events may be missing; read the state with LIST")
        elif event.kind == "once":
            other = self.elsewhere.get(event.key)
            if event.name in ("done", "expired"):
                self.elsewhere.pop(event.key, None)
            elif event.name == "cancelled" and other is not None:
                await self._work(event.key, other)
        elif event.name == "fired":
            await self._work(f"job:{event.channel}:{event.position}", event)

    async def _work(self, claim: str, event: Event) -> None:
        if self._own is None:
            self._own = self.client.connected()
        begun = await self._own.once.begin(claim, ttl=self.lease, owner="connection")
        if begun.refused:
            if begun.running:
                self.elsewhere[claim] = event
            return
        self.elsewhere.pop(claim, None)
        try:
            await self._handler(event)(event)
        except Exception:
            log.exception("the handler of %s failed", event.channel)
            await self._own.once.cancel(claim, generation=begun.generation)
            return
        except BaseException:
            await self._release()
            raise
        await self._own.once.done(claim, "", generation=begun.generation)
        self.done += 1

    def _handler(self, event: Event) -> Callable[[Event], Any]:
        for pattern, handler in self.handlers.items():
            if pattern == event.channel or fnmatch.fnmatchcase(event.channel, pattern):
                return handler
        raise LookupError(event.channel)

    async def _release(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()
