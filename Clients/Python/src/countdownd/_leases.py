"""What extends a lease while work runs: a thread, or a task."""

from __future__ import annotations

import asyncio
import threading
from typing import Awaitable, Callable


class Keeper:
    """Calls `extend` each so many seconds, until that returns false or `stop` is called."""

    def __init__(self, extend: Callable[[], bool], seconds: float) -> None:
        self._extend, self._seconds = extend, seconds
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="countdownd-lease", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds) and self._extend():
            pass

    def stop(self) -> None:
        """Ends it soon; a call of `extend` may be under way."""
        self._stopped.set()


class AsyncKeeper:
    """Awaits `extend` each so many seconds, until that returns false or `stop` is called."""

    def __init__(self, extend: Callable[[], Awaitable[bool]], seconds: float) -> None:
        self._extend, self._seconds = extend, seconds
        self._stopped = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while await self._waits() and await self._extend():
            pass

    async def _waits(self) -> bool:
        try:
            await asyncio.wait_for(self._stopped.wait(), self._seconds)
        except TimeoutError:
            return True
        return False

    def stop(self) -> None:
        """Ends it soon; a call of `extend` may be under way."""
        self._stopped.set()
