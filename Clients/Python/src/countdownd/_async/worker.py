"""A worker: each event that fires is handled by one of several programs."""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import json
import logging
import threading
import time
from datetime import timedelta
from typing import Any, Awaitable, Callable, Mapping

from .._base import Duration, check_lease, parsed
from .._events import Event
from .._failures import CountdowndError, is_away
from .._views import NotFound, Stale
from .client import AsyncClient
from .run import AsyncRun

log = logging.getLogger("countdownd.worker")

#: How long a worker waits before it asks a daemon again that is away, in seconds.
PAUSE = 0.1
#: How often the cursor is stored at most, in seconds.
STORED_EACH = 1.0
#: How long a worker tries to tell the daemon that a job is done, in seconds.
PATIENCE = 60.0
#: The longest pause between two attempts.
LONGEST_BACKOFF = timedelta(hours=1)
#: How long the stored cursor stays.
FAR = "3650d"


class AsyncWorker:
    """Runs a handler for each event that fires, of timers and debouncers: at least once.

        AsyncWorker(client, {"timer:reminder:*": remind, "debounce:reindex": reindex}).run()

    Of all workers with the same `name`, one handles an event. It holds the event's `lease`, and
    extends it while the handler runs. If it dies, another one takes over after that time, or it
    does itself when it runs again: so a handler may run twice, and should do no harm then.

    A handler that raises is called again after `backoff`, which doubles each time, by whichever
    worker is there: up to `attempts` times in all. `event.attempt` counts them. Then `on_failure`
    is called with the event and the exception.

    What was due while no worker ran is handled as soon as one does: the daemon keeps the cursor of
    the workers of a name. A `cursor` that is given is used instead. Jobs that are done are
    remembered for `ttl`.
    """

    def __init__(
        self,
        client: AsyncClient,
        handlers: Mapping[str, Callable[[Event], Awaitable[object]]],
        *,
        name: str = "job",
        cursor: str | None = None,
        lease: Duration = "30s",
        ttl: Duration = "24h",
        attempts: int = 5,
        backoff: Duration = "1s",
        on_failure: Callable[[Event, Exception], Awaitable[object]] | None = None,
    ) -> None:
        if not name or any(character in name for character in "*?[]\\:"):
            raise ValueError(f"a name is text without : and characters of patterns, not {name!r}")
        if attempts < 1:
            raise ValueError(f"attempts is at least 1, not {attempts}")
        check_lease(lease, ttl)
        self.client = client
        self.handlers = dict(handlers)
        self.name, self.lease, self.ttl = name, lease, ttl
        self.attempts, self.backoff, self.on_failure = attempts, parsed(backoff), on_failure
        #: How many events it has handled.
        self.done = 0
        #: Events that another worker is handling, by the key of the claim.
        self.elsewhere: dict[str, Event] = {}
        self._again = f"timer:{name}:again:"
        self._watch = client.watch(
            *self.handlers, f"once:{name}:*", f"{self._again}*", since=cursor, snapshots=False)
        # Where an event begins, by the key of its claim: until it is done, the cursor is before it.
        self._begins: dict[str, str] = {}
        self._before = ""
        # Timers of further attempts that have fired early, by the key of the claim.
        self._fired: dict[str, Event] = {}
        self._stored = ""
        self._stored_at = 0.0

    @property
    def ready(self) -> threading.Event:
        """Set once it is subscribed: events from then on are handled."""
        return self._watch.ready

    @property
    def cursor(self) -> str | None:
        """A cursor after which all is that has not been handled yet."""
        return next(iter(self._begins.values()), self._watch.cursor)

    async def run(self) -> None:
        """Handles events until `stop` is called."""
        await self._until_answered(self._resume)
        try:
            async for event in self._watch:
                await self._until_answered(lambda: self._handle(event))
                self._before = event.cursor or self._before
                if time.monotonic() - self._stored_at > STORED_EACH:
                    await self._until_answered(self._store)
        finally:
            # If it cannot be stored, events come again, and are known to be done.
            try:
                await self._store()
            except CountdowndError as error:
                log.warning("the cursor is not stored: %s", error)

    async def stop(self) -> None:
        """Ends `run`, from any thread; an event in progress is handled first."""
        await self._watch.aclose()

    async def _until_answered(self, action: Callable[[], Awaitable[None]]) -> None:
        """Does something again while the daemon is away."""
        while True:
            try:
                return await action()
            except CountdowndError as error:
                if not is_away(error):
                    raise
                log.warning("again: %s", error)
                if self._watch.closed:
                    return
                await asyncio.sleep(PAUSE)

    # MARK: Where it is

    async def _resume(self) -> None:
        """Continues where the workers of this name were; the first one begins now."""
        if self._watch.cursor is None:
            kept = await self.client.timer.get(f"{self.name}:cursor")
            cursor = kept.payload.decode() if kept is not None and kept.payload else None
            self._watch._begin_at(cursor or await self.client.events.cursor())
        self._before = self._watch.cursor or ""
        await self._store()

    async def _store(self) -> None:
        cursor = self.cursor
        if cursor and cursor != self._stored:
            await self.client.timer.set(f"{self.name}:cursor", FAR, payload=cursor)
            self._stored = cursor
        self._stored_at = time.monotonic()

    # MARK: What it does

    async def _handle(self, event: Event) -> None:
        if event.name == "gap":
            log.error("events may be missing; read the state with LIST")
            for claim, other in list(self.elsewhere.items()):
                await self._work(claim, other)
        elif event.channel.startswith(f"once:{self.name}:"):
            await self._see(event)
        elif event.name == "fired" and event.channel.startswith(self._again):
            await self._work_again(event)
        elif event.name == "fired" and self._handler(event) is not None:
            await self._work(self._claim(event.channel, event.position), event)

    async def _see(self, event: Event) -> None:
        """Sees what became of a claim of another worker: some leave an event to others."""
        other, fired = self.elsewhere.get(event.key), self._fired.pop(event.key, None)
        if event.name == "done" and fired is not None:
            await self._work_again(fired)
        if event.name == "done" or event.name == "expired" and event.reason != "lease":
            self._forget(event.key)
        elif event.name in ("cancelled", "expired") and other is not None:
            await self._work(event.key, other)

    def _claim(self, *parts: str) -> str:
        text = ":".join(parts)
        # The longest key has 512 bytes.
        if len(text.encode("utf-8", "surrogateescape")) > 400:
            text = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.name}:{text}"

    def _forget(self, claim: str) -> None:
        self.elsewhere.pop(claim, None)
        self._begins.pop(claim, None)

    async def _work(self, claim: str, event: Event) -> None:
        """Handles an event, unless another worker does."""
        begun = await self.client.once.begin(claim, ttl=self.ttl, lease=self.lease)
        if begun.running:
            self.elsewhere[claim] = event
            self._begins.setdefault(claim, self._before)
            return
        self._begins.setdefault(claim, self._before)
        if begun.accepted:
            await self._run(AsyncRun(self.client, begun), event)
        self._forget(claim)

    async def _run(self, run: AsyncRun, event: Event) -> None:
        handler = self._handler(event)
        try:
            if handler is not None:
                await handler(event)
        except Exception as error:
            log.exception("attempt %s of the handler of %s failed", event.attempt, event.channel)
            await self._failed(run, event, error)
            return
        except BaseException:
            await run.cancel()
            raise
        await self._tell(run, "")
        self.done += 1

    async def _tell(self, run: AsyncRun, result: str) -> None:
        try:
            await run.done(result, patience=PATIENCE)
        except (NotFound, Stale) as error:
            log.warning("%s: another worker has taken it over: %s", run.key, error)

    # MARK: Attempts

    async def _failed(self, run: AsyncRun, event: Event, error: Exception) -> None:
        """Lets the event be handled again later; whoever does that finds it as the result."""
        try:
            if event.attempt < self.attempts:
                pause = min(self.backoff * 2 ** (event.attempt - 1), LONGEST_BACKOFF)
                mark = hashlib.sha256(run.key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
                timer = f"{self.name}:again:{mark}"
                # It may be set twice, and then fires once.
                await self._until_answered(lambda: self._set(timer, pause, run.key))
            elif self.on_failure is not None:
                await self.on_failure(event, error)
            words = {"channel": event.channel, "event": event.raw, "attempt": event.attempt}
            await self._tell(run, json.dumps(words))
        finally:
            run.leave()

    async def _set(self, timer: str, pause: timedelta, claim: str) -> None:
        await self.client.timer.set(timer, pause, payload=json.dumps(claim))

    async def _work_again(self, fired: Event) -> None:
        claim = json.loads(fired["payload"])
        kept = await self.client.once.get(claim)
        if kept is None:
            log.error("what is kept of %s has expired; give a longer ttl", claim)
            return
        if not kept.result:
            # Its worker is about to keep the event. If it dies before, who takes over sets a timer.
            self._fired[claim] = fired
            return
        words = json.loads(kept.result)
        event = Event(words["channel"], words["event"])
        event.attempt = words["attempt"] + 1
        await self._work(self._claim(event.channel, event.position, str(event.attempt)), event)

    def _handler(self, event: Event) -> Callable[[Event], Any] | None:
        for pattern, handler in self.handlers.items():
            if pattern == event.channel or fnmatch.fnmatchcase(event.channel, pattern):
                return handler
        return None
