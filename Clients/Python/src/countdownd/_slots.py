"""What bounds the calls at once: for threads, and for the tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading


class Slots:
    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    def take(self, seconds: float) -> bool:
        """Takes one; false if there is none within that time."""
        return self._free.acquire(timeout=max(seconds, 0))

    def give_back(self) -> None:
        self._free.release()


class AsyncSlots:
    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self, seconds: float) -> bool:
        """Takes one; false if there is none within that time."""
        if self._free.locked():
            try:
                async with asyncio.timeout(seconds):
                    return await self._free.acquire()
            except TimeoutError:
                return False
        return await self._free.acquire()

    def give_back(self) -> None:
        self._free.release()
