"""Workers: each event is handled at least once, whatever dies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import countdownd as package
from countdownd import AsyncClient, Client, Worker
from countdownd._daemon import PATIENCE, eventually


@pytest.fixture
def work(countdownd, run_worker):
    """Runs a worker for timers `job:…`, each with a client of its own."""
    def run(handler, **options):
        return run_worker(Worker(Client(), {"timer:job:*": handler}, **options))

    return run


def due(countdownd, key="job:1", payload="tea"):
    countdownd.client.timer.set(key, "1s", payload=payload)
    countdownd.advance("1s")


def test_a_handler_that_fails_is_called_again_after_a_pause_that_doubles(countdownd, work):
    seen = []

    def handle(event):
        seen.append((event.attempt, event.key, event["payload"]))
        if event.attempt < 4:
            raise OSError("not now")

    workers = [work(handle) for _ in range(2)]
    due(countdownd)
    for attempt, pause in [(1, "999ms"), (2, "1999ms"), (3, "3999ms")]:
        countdownd.settle()
        countdownd.advance(pause)
        countdownd.settle()
        assert len(seen) == attempt
        countdownd.advance("1ms")
    countdownd.settle()
    countdownd.advance("1h")
    countdownd.settle()
    assert seen == [(attempt, "job:1", "tea") for attempt in (1, 2, 3, 4)]
    assert sum(worker.done for worker in workers) == 1


def test_a_handler_is_given_up_after_its_attempts(countdownd, work):
    given_up = []

    def handle(event):
        raise OSError(f"attempt {event.attempt}")

    def note(event, error):
        given_up.append((event.key, str(error)))

    work(handle, attempts=2, on_failure=note)
    due(countdownd)
    countdownd.settle()
    assert not given_up
    countdownd.advance("1s")
    countdownd.settle()
    assert given_up == [("job:1", "attempt 2")]
    countdownd.advance("1h")
    countdownd.settle()
    assert len(given_up) == 1


def test_an_attempt_that_is_due_before_the_last_one_is_recorded_is_not_lost(countdownd, work):
    """Its worker has set the timer, and not yet said what is to be done."""
    once, seen = countdownd.client.once, []
    begun = once.begin("job:timer:job:1:5", ttl="24h", lease="30s")
    work(lambda event: seen.append((event.key, event.attempt)))
    countdownd.client.timer.set("job:again:x", "1s", payload=json.dumps(begun.key))
    countdownd.advance("1s")
    countdownd.settle()
    assert not seen
    event = {"event": "fired", "key": "job:1", "generation": 1, "seq": 5}
    kept = {"channel": "timer:job:1", "event": event, "attempt": 1}
    once.done(begun.key, json.dumps(kept), generation=begun.generation)
    countdownd.settle()
    assert seen == [("job:1", 2)]


def test_a_lease_is_extended_while_the_handler_runs(countdownd, work):
    gate, seen = threading.Event(), []

    def handle(event):
        seen.append(event.key)
        gate.wait(PATIENCE)

    workers = [work(handle, lease="600ms") for _ in range(2)]
    due(countdownd)
    eventually(lambda: any(worker.elsewhere for worker in workers))
    (claim,) = [view.key for view in countdownd.client.once.list(match="job:*")]
    for _ in range(4):
        countdownd.advance("400ms")
        eventually(lambda: countdownd.client.once.get(claim).lease.total_seconds() == 0.6)
    gate.set()
    countdownd.settle()
    assert seen == ["job:1"]


PROGRAM = """
import os, signal, sys, threading, countdownd
def handle(event):
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
worker = countdownd.Worker(countdownd.Client(), {"timer:job:*": handle})
def tell():
    worker.ready.wait()
    print("ready", flush=True)
threading.Thread(target=tell, daemon=True).start()
worker.run()
"""


def worker_program(word):
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, word], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path})
    assert process.stdout.readline() == b"ready\n"
    return process


def test_another_worker_takes_over_from_one_that_is_killed(countdownd, work):
    dying = worker_program("die")
    due(countdownd)
    assert dying.wait() == -signal.SIGKILL
    seen = []
    work(lambda event: seen.append(event.key))
    countdownd.settle()
    assert not seen
    countdownd.advance("29999ms")
    countdownd.settle()
    assert not seen
    countdownd.advance("1ms")
    countdownd.settle()
    assert seen == ["job:1"]


def test_what_was_due_while_no_worker_ran_is_handled(countdownd, work):
    process = worker_program("live")
    process.kill()
    process.wait()
    due(countdownd)
    countdownd.restart()
    due(countdownd, "job:2")
    seen = []
    worker = work(lambda event: seen.append(event.key))
    countdownd.settle()
    assert seen == ["job:1", "job:2"]
    worker.stop()
    due(countdownd, "job:3")
    work(lambda event: seen.append(event.key))
    countdownd.settle()
    assert seen == ["job:1", "job:2", "job:3"]


def test_workers_of_another_name_handle_it_too(countdownd, work):
    seen = []
    for name in ("mail", "mail", "statistics"):
        work(lambda event, name=name: seen.append(name), name=name)
    due(countdownd)
    countdownd.settle()
    assert sorted(seen) == ["mail", "statistics"]


def test_a_key_of_any_length_is_handled(countdownd, work):
    seen = []
    work(lambda event: seen.append(event.key))
    due(countdownd, "job:" + "é" * 254)
    countdownd.settle()
    assert len(seen) == 1


def test_a_mistake_is_raised_and_not_repeated_in_silence(countdownd):
    with pytest.raises(package.Invalid):
        Worker(Client(), {"timer:job:*": print}, name="x" * 600).run()
    wrong = [{"name": "a:b"}, {"attempts": 0}, {"lease": "2h", "ttl": "1h"}, {"backoff": "x"}]
    for options in wrong:
        with pytest.raises(ValueError):
            Worker(Client(), {"timer:job:*": print}, **options)


def test_a_worker_waits_for_its_daemon(countdownd, work):
    """At the start, and while a handler runs."""
    countdownd.stop()
    seen = []

    def handle(event):
        seen.append(event.key)
        if event.key == "job:1":
            countdownd.stop()
            countdownd.start()

    worker = Worker(Client(), {"timer:job:*": handle})
    thread = threading.Thread(target=worker.run)
    thread.start()
    countdownd.start()
    eventually(worker.ready.is_set)
    due(countdownd)
    eventually(lambda: worker.done == 1)
    due(countdownd, "job:2")
    countdownd.settle()
    assert seen == ["job:1", "job:2"]
    worker.stop()
    thread.join()


def test_async_workers(countdownd):
    async def main():
        client, seen = AsyncClient(), []

        @package.debounced("reindex:{name}", quiet="2s", client=client)
        async def reindex(name):
            seen.append(name)
            await asyncio.sleep(0)
            if len(seen) == 1:
                raise OSError

        worker = package.AsyncWorker(client, reindex.jobs)
        task = asyncio.ensure_future(worker.run())
        while not worker.ready.is_set():
            await asyncio.sleep(0.001)
        assert (await reindex("a")).calls == 1
        for pause in ("2s", "1s"):
            countdownd.advance(pause)
            await asyncio.to_thread(eventually, lambda: len(seen) > (pause == "1s"))
            while any(one.state != "done" for one in await client.once.list(match="job:*")):
                await asyncio.sleep(0.001)
        await worker.stop()
        await task
        await client.aclose()
        return seen, worker.done

    assert asyncio.run(main()) == (["a", "a"], 1)
