"""Runs what is due. Several may run: each job is run by exactly one of them."""
from countdownd import Client, Worker


def worker(cursor=None, *, reindex=print, reminder=print):
    jobs = {"debounce:reindex": reindex, "timer:reminder:*": reminder}
    return Worker(Client(), {at: lambda event, run=run: run(event.raw) for at, run in jobs.items()}, cursor=cursor)
