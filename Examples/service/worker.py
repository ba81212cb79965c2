"""Runs what is due. Several may run: each job is run by exactly one of them."""
from collections.abc import Callable

from countdownd import Client, Event, Worker


def worker(
    cursor: int | None = None, *, reindex: Callable[[Event], object] = print,
    reminder: Callable[[Event], object] = print,
) -> Worker:
    jobs = {"debounce:reindex": reindex, "timer:reminder:*": reminder}
    return Worker(Client(), jobs, cursor=cursor)
