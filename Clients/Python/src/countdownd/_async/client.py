"""The client: one object for each kind of entity."""

from __future__ import annotations

from typing import Any

from .commands import AsyncCommands
from .connection import AsyncPool, AsyncSingle
from .watch import AsyncWatch


class AsyncClient(AsyncCommands):
    """A client of the countdownd on this machine.

    It finds the socket as countdownctl does: `path`, else COUNTDOWND_SOCKET, else
    /run/countdownd/countdownd.sock. It connects when it needs to, and fails at once when the daemon
    is down. Any number of threads or tasks can share it. `timeout` is how long a call takes at
    most, in seconds: 5 if it is not given. docs/reference/clients.md says what happens when calls
    are cancelled, replies are lost or the daemon is down.
    """

    def __init__(self, path: str | None = None, *, timeout: float | None = None) -> None:
        self._pool = AsyncPool(path, timeout)
        self._bind(self._pool)

    @property
    def path(self) -> str:
        return self._pool.path

    @property
    def timeout(self) -> float:
        return self._pool.timeout

    async def command(self, *words: object) -> Any:
        """Sends any command, and returns its reply as it came. One that would break a connection
        which others share, such as MULTI, is a ValueError: use `connected`."""
        return await self._pool.command(words)

    def watch(
        self, *patterns: str, since: str | None = None, snapshots: bool = True
    ) -> AsyncWatch:
        """Returns the events of channels such as "countdown:*", as they happen.

        It begins with a snapshot of each entity. It connects again by itself, and misses nothing
        that the event log has; else it reports a `gap`. `since` is the `cursor` of the last event
        that you have, on this host or another one of its fleet: the events after it come first.
        """
        watch = AsyncWatch(self._pool, patterns, since, snapshots)
        self._pool.watches.add(watch)
        return watch

    def connected(self) -> "AsyncConnected":
        """Returns a client with one connection: what has `owner="connection"` ends with it.

        Use it with `async with`. It is for one task.
        """
        return AsyncConnected(self._pool.path, self._pool.given_timeout)

    async def aclose(self) -> None:
        """Ends calls and watches. A call that is under way, or that comes later, raises Closed."""
        await self._pool.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncConnected(AsyncCommands):
    """A client with one connection; see `AsyncClient.connected`."""

    def __init__(self, path: str, timeout: float | None) -> None:
        self._pool = AsyncSingle(path, timeout)
        self._bind(self._pool)

    async def command(self, *words: object) -> Any:
        """Sends any command, and returns its reply as it came."""
        return await self._pool.command(words)

    async def aclose(self) -> None:
        """Ends the connection, and what it owns."""
        await self._pool.close()

    async def __aenter__(self) -> "AsyncConnected":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
