"""The client against a real daemon on virtual time."""

import asyncio
import os
import pickle
import signal
import socket
import threading
from datetime import datetime, timedelta, timezone

import pytest

import countdownd as package
from countdownd import AsyncClient, Client, Decision, Down, Event, Reason
from countdownd._daemon import eventually


def test_three_answers(countdownd):
    client = countdownd.client
    first = client.countdown.start("+45", count=60, token="request-1")
    assert first.decision is Decision.ACCEPTED and first.accepted and not first.refused
    again = client.countdown.start("+45", count=60, token="request-1")
    assert again.decision is Decision.REPEATED and not again.accepted and not again.refused
    other = client.countdown.start("+45", count=60)
    assert other.refused and other.reason is Reason.COOLDOWN
    assert other.retry_after == timedelta(seconds=60)
    countdownd.advance("60s")
    assert client.countdown.start("+45", count=60).accepted


def test_once_is_accepted_running_or_done(countdownd):
    once = countdownd.client.once
    first = once.begin("order:1", ttl=timedelta(hours=1))
    assert first.accepted
    assert once.begin("order:1", ttl="1h").running
    once.done("order:1", b"\xff result", generation=first.generation)
    done = once.begin("order:1", ttl="1h")
    assert done.done and done.result == b"\xff result"


LIMITS = "throttles:\n  ip: {burst: 2, rate: 2/1m}\n  all: {burst: 9, rate: 9/1h}\n"


@pytest.mark.countdownd(config=LIMITS)
def test_several_limits_are_taken_all_or_none(countdownd):
    take = countdownd.client.throttle.take
    first = take("ip:1", "all:", cost=2)
    assert first.accepted and first.refused_by is None
    assert [(one.key, one.remaining) for one in first.views] == [("ip:1", 0), ("all:", 7)]
    refused = take("all:", "ip:1")
    assert refused.refused and refused.reason is Reason.LIMIT and refused.refused_by == "ip:1"
    # The view is that of the limit which refuses.
    assert (refused.key, refused.remaining, refused.limit) == ("ip:1", 0, 2)
    assert refused.retry_after == timedelta(seconds=30)
    assert countdownd.client.throttle.get("all:").remaining == 7
    alone = take("name", burst=1, rate="1/1s")
    assert alone.views == [package.ThrottleView(alone.raw)] and alone.refused_by is None

    async def main():
        async with AsyncClient(countdownd.path) as client:
            return await client.throttle.take("all:", "ip:1", peek=True)

    assert asyncio.run(main()).refused_by == "ip:1"

    @package.throttled("ip:{ip}", "all:")
    def visit(ip):
        raise AssertionError

    with pytest.raises(package.TooMany) as caught:
        visit("1")
    assert caught.value.headers == {
        "RateLimit-Policy": '"ip";q=2;w=60, "all";q=9;w=3600',
        "RateLimit": '"ip";r=0;t=60, "all";r=7;t=800',
        "Retry-After": "30",
    }


def test_errors_have_classes(countdownd):
    client = countdownd.client
    with pytest.raises(package.NotFound) as found:
        client.countdown.resend("nobody")
    assert found.value.code == "NOTFOUND" and found.value.remedy
    started = client.countdown.start("a")
    client.countdown.cancel("a")
    client.countdown.start("a")
    with pytest.raises(package.Stale):
        client.countdown.pause("a", generation=started.generation)
    with pytest.raises(package.Invalid):
        client.countdown.start("b", count=0)
    with pytest.raises(TypeError):
        client.timer.set("t", 90)


@pytest.mark.parametrize("at", [
    "2026-12-01T08:00:00.250+01:00", "2026-12-01T07:00:00.250Z",
    datetime(2026, 12, 1, 7, 0, 0, 249_001, timezone.utc),
])  # fmt: skip
def test_a_timer_takes_a_moment(countdownd, at):
    view = countdownd.client.timer.set("t", at=at)
    assert view.accepted and view.clock == "wall"
    assert view.deadline == datetime(2026, 12, 1, 7, 0, 0, 250_000, timezone.utc)


def test_a_moment_without_a_time_zone_is_refused(countdownd):
    with pytest.raises(ValueError, match="time zone"):
        countdownd.client.timer.set("t", at=datetime(2026, 12, 1))
    with pytest.raises(TypeError):
        countdownd.client.timer.set("t", at=1795795200000)


def test_a_timer_stays_with_nx_and_in_phase_with_keep(countdownd):
    client = countdownd.client
    first = client.timer.set("t", "1h", every="1h", nx=True)
    assert first.accepted
    again = client.timer.set("t", "9h", nx=True)
    assert again.refused and again.reason == "exists" and again.every == first.every
    kept = client.timer.set("t", "9h", every="1h", keep=True, payload="p")
    assert kept.accepted and kept.generation == first.generation and kept.payload == b"p"


def test_a_missing_daemon_is_one_clear_error_at_once(tmp_path):
    with pytest.raises(Down, match=f"no socket at {tmp_path}/none; start countdownd"):
        Client(f"{tmp_path}/none").ping()


def test_an_idle_connection_that_has_ended_is_replaced(countdownd):
    countdownd.client.countdown.start("a")
    countdownd.restart()
    assert countdownd.client.countdown.cancel("a")


class LosesReplies:
    """Passes commands on to a daemon, and loses the first `count` replies after `lose`."""

    def __init__(self, path, to):
        self.listener, self.to, self.count = socket.socket(socket.AF_UNIX), to, 0
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.to)
            threading.Thread(target=self.copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(far, near, True), daemon=True).start()

    def copy(self, source, target, replies):
        while data := source.recv(65536):
            if replies and self.count:
                self.count -= 1
                break
            target.sendall(data)
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_lost_reply_is_asked_for_again_or_unsure(countdownd, tmp_path):
    proxy = LosesReplies(f"{countdownd.folder}/proxy", countdownd.path)
    client = Client(f"{countdownd.folder}/proxy")
    client.ping()
    proxy.count = 1
    assert client.countdown.start("a").accepted, "its own repetition is accepted"
    assert client.countdown.start("a").refused
    proxy.count = 1
    assert client.countdown.get("a").state == "counting"
    proxy.count = 1
    with pytest.raises(package.Unsure):
        client.countdown.cancel("a")
    assert client.countdown.get("a") is None


def test_owners_end_with_the_connection(countdownd):
    with countdownd.client.connected() as own:
        view = own.countdown.start("upload", owner="connection")
        assert view.owner.startswith("connection:")
        assert countdownd.client.countdown.get("upload").state == "counting"
    eventually(lambda: countdownd.client.countdown.get("upload") is None)


def test_a_watch_begins_with_snapshots_and_survives_a_restart(countdownd):
    client = countdownd.client
    client.countdown.start("a", count=60)
    seen: list[Event] = []
    watch = client.watch("countdown:*")

    def collect():
        seen.extend(iter(watch))

    thread = threading.Thread(target=collect)
    thread.start()
    eventually(watch.ready.is_set)
    countdownd.restart("70s")
    countdownd.settle()
    client.countdown.start("b")
    countdownd.settle()
    watch.close()
    thread.join()
    assert seen[0].name == "snapshot" and seen[0].countdown.state == "counting"
    events = [(event.key, event.name) for event in seen if event.name != "snapshot"]
    assert [one for one in events if one[1] != "tick"] == [("a", "ready"), ("b", "started")]


def test_a_snapshot_of_nothing_has_a_view(countdownd):
    with countdownd.client.watch("countdown:nobody") as watch:
        event = watch.next()
    assert event.name == "snapshot"
    assert (event.countdown.state, event.countdown.remaining) == ("idle", 0)


def test_asyncio_is_the_same(countdownd):
    async def main():
        async with AsyncClient(countdownd.path) as client:
            answers = await asyncio.gather(*(client.countdown.start("a") for _ in range(10)))
            assert sum(answer.accepted for answer in answers) == 1
            async with client.watch("countdown:a") as watch:
                first = await watch.next()
                assert first.name == "snapshot"
                await client.countdown.cancel("a")
                async for event in watch:
                    if event.name == "cancelled":
                        return event
    assert asyncio.run(main()).reason is Reason.CANCELLED


def test_a_client_is_used_in_several_event_loops(countdownd):
    client = AsyncClient(countdownd.path)
    for _ in range(3):
        assert asyncio.run(client.ping()) == "PONG"


def test_calls_at_once_share_a_bounded_number_of_connections(countdownd):
    def connections():
        return countdownd.client.command("CLIENT", "LIST").count("id=")

    async def main():
        async with AsyncClient() as client:
            await asyncio.gather(*(client.countdown.get("a") for _ in range(3000)))
            return connections()

    assert asyncio.run(main()) <= 102
    client = Client()
    threads = [threading.Thread(target=client.ping) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: connections() <= 102)


def test_a_call_that_finds_no_free_connection_is_not_sent(countdownd, monkeypatch):
    monkeypatch.setattr("countdownd._async.connection.MOST", 1)

    async def main():
        client = AsyncClient(timeout=0.2)
        os.kill(countdownd.process.pid, signal.SIGSTOP)
        try:
            results = await asyncio.gather(
                *(client.timer.delete("a") for _ in range(2)), return_exceptions=True)
        finally:
            os.kill(countdownd.process.pid, signal.SIGCONT)
        assert any(type(one) is Down and "in use" in str(one) for one in results), results

    asyncio.run(main())


def test_an_answer_is_neither_true_nor_false(countdownd):
    with pytest.raises(TypeError, match="accepted"):
        bool(countdownd.client.countdown.start("+45"))


def test_one_limit_is_no_list_of_limits(countdownd):
    with pytest.raises(TypeError, match="ip:x"):
        countdownd.client.countdown.start("+45", limit="ip:x")


def test_exceptions_pickle(countdownd):
    take = countdownd.client.throttle.take
    take("a", burst=1, rate="1/1m")
    too_many = package.TooMany(take("a", burst=1, rate="1/1m"))
    assert pickle.loads(pickle.dumps(too_many)).retry_after == timedelta(minutes=1)
    closed = pickle.loads(pickle.dumps(package.Closed(may_have_run=True)))
    assert closed.may_have_run and "may have run" in str(closed)
    for error in (package.TooMany, package.Running, package.Mismatch, package.Down, package.Unsure):
        assert issubclass(error, package.CountdowndError)


@pytest.mark.parametrize("count", [3, 30])
def test_a_watch_is_closed_while_another_thread_reads_it(countdownd, count):
    """With more patterns than EVENTS SINCE takes, too."""
    for _ in range(10):
        watch = Client(countdownd.path).watch(*(f"timer:{index}:*" for index in range(count)))
        ended = []
        thread = threading.Thread(target=lambda: ended.extend(watch))
        thread.start()
        eventually(watch.ready.is_set)
        watch.close()
        thread.join()


def test_a_watch_of_many_patterns_survives_a_restart(countdownd):
    watch = countdownd.client.watch(*(f"timer:{index}" for index in range(30)), snapshots=False)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(event.name for event in watch))
    thread.start()
    eventually(watch.ready.is_set)
    countdownd.client.timer.set("29", "5s")
    countdownd.restart("10s")
    eventually(lambda: "fired" in seen)
    watch.close()
    thread.join()


def test_a_listing_has_pages(countdownd):
    for number in range(5):
        countdownd.client.countdown.start(f"k{number}", meta=b"\xff")
    page = countdownd.client.countdown.list(limit=3)
    assert len(page) == 3 and page.cursor > 0 and page[0].meta == b"\xff"
    assert len(countdownd.client.countdown.list(limit=3, cursor=page.cursor)) == 2


def test_a_forked_child_has_connections_of_its_own(countdownd):
    countdownd.client.ping()
    child = os.fork()
    if child == 0:
        ok = countdownd.client.countdown.start("child").accepted
        os.kill(os.getpid(), signal.SIGKILL if ok else signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert countdownd.client.countdown.get("child").state == "counting"


@pytest.mark.countdownd(config="policies:\n  login: {ladder: [30s, 60s]}\n")
def test_a_test_has_a_configuration(countdownd):
    assert countdownd.client.countdown.start("a", policy="login").retry_after == timedelta(seconds=30)


def test_decorators(countdownd):
    calls = []

    @package.throttled("ip:{ip}", burst=2, rate="2/1h", client=countdownd.client)
    def visit(ip):
        calls.append(ip)

    visit("1"), visit("1"), visit("2")
    with pytest.raises(package.TooMany) as refused:
        visit("1")
    assert refused.value.headers["Retry-After"] == "1800" and calls == ["1", "1", "2"]

    @package.idempotent("order:{key}", client=countdownd.client)
    def order(key, item):
        if item == "crash":
            raise RuntimeError
        calls.append(item)
        return {"id": len(calls)}

    assert order("a", "tea") == order("a", "tea") == {"id": 4}
    with pytest.raises(package.Mismatch):
        order("a", "coffee")
    with pytest.raises(RuntimeError):
        order("b", "crash")
    assert order("b", "cake") == {"id": 5}


def test_workers_share_jobs(countdownd):
    calls = []

    @package.debounced("reindex:{name}", quiet="2s", client=countdownd.client)
    def reindex(name):
        calls.append(name)

    workers = [package.Worker(Client(countdownd.path), reindex.jobs) for _ in range(2)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for worker in workers:
        eventually(worker.ready.is_set)
    for name in "aba":
        reindex(name)
    countdownd.advance("2s")
    countdownd.settle()
    assert sorted(calls) == ["a", "b"]
    for worker, thread in zip(workers, threads):
        worker.stop()
        thread.join()
    assert sum(worker.done for worker in workers) == 2


def test_a_cancellation_just_as_a_command_is_written_is_not_lost(countdownd, monkeypatch):
    """Of the greeting of a new connection, of a command, and of what a watch subscribes to."""
    drain = asyncio.StreamWriter.drain
    written, at = 0, 0

    async def drain_and_cancel(writer):
        nonlocal written
        written += 1
        await drain(writer)
        if written == at:
            asyncio.get_running_loop().call_soon(task.cancel)

    async def start():
        async with AsyncClient(countdownd.path) as client:
            await client.countdown.start("a", count=60)
            async with client.watch("countdown:*") as watch:
                await watch.next()

    async def main():
        nonlocal task
        task = asyncio.create_task(start())
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 20)

    task = None
    monkeypatch.setattr(asyncio.StreamWriter, "drain", drain_and_cancel)
    for at in range(1, 6):
        written = 0
        asyncio.run(main())
        assert written == at
