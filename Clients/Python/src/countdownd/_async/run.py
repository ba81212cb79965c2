"""One run of work that is done once for its key: its lease, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time

from .._base import Data
from .._failures import CountdowndError, is_away
from .._leases import AsyncKeeper
from .._views import LimitReached, OnceAnswer
from .client import AsyncClient

log = logging.getLogger("countdownd")
#: Pauses between attempts to record a result, in seconds.
PAUSES = (0.05, 0.1, 0.2, 0.5)


class AsyncRun:
    """Work that ONCE BEGIN has accepted. Its lease, if it has one, is extended until it ends."""

    def __init__(self, client: AsyncClient, begun: OnceAnswer) -> None:
        self.client, self.key, self.generation = client, begun.key, begun.generation
        self._keeper: AsyncKeeper | None = None
        if begun.lease is not None:
            self._keeper = AsyncKeeper(self._extend, begun.lease.total_seconds() / 3)

    async def _extend(self) -> bool:
        """Extends the lease. Returns false once it has expired."""
        try:
            return (await self.client.once.extend(self.key, generation=self.generation)).accepted
        except CountdowndError as error:
            log.warning("the lease of %s is not extended: %s", self.key, error)
            return is_away(error)

    async def done(self, result: Data, *, patience: float = 3) -> None:
        """Records the result. If the daemon is unreachable, retries for `patience` seconds."""
        end, attempt = time.monotonic() + patience, 0
        try:
            while True:
                try:
                    await self.client.once.done(self.key, result, generation=self.generation)
                    return
                except LimitReached:
                    raise
                except CountdowndError as error:
                    pause = PAUSES[min(attempt, len(PAUSES) - 1)]
                    if not is_away(error) or time.monotonic() + pause > end:
                        raise
                attempt += 1
                await asyncio.sleep(pause)
        finally:
            self.leave()

    async def record(self, result: Data) -> None:
        """Records the result. On failure it logs the error and leaves the key to its lease, since
        the caller has the result already. Raises LimitReached if the result is too long."""
        try:
            await self.done(result)
        except LimitReached:
            raise
        except CountdowndError as error:
            log.error("%s is done, but not recorded, so it may run again: %s", self.key, error)

    async def cancel(self) -> None:
        """Releases the key, so that the next request runs the work. If that fails, the key stays
        taken until its lease expires."""
        self.leave()
        try:
            await self.client.once.cancel(self.key, generation=self.generation)
        except CountdowndError as error:
            log.warning("%s is left to its lease: %s", self.key, error)

    def leave(self) -> None:
        """Stops extending the lease: the key stays taken until it expires."""
        if self._keeper is not None:
            self._keeper.stop()
