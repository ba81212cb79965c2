"""The fixture `countdownd`: a private daemon on virtual time for each test.

    def test_code(countdownd):
        assert countdownd.client.countdown.start("+45", count=60).accepted
        countdownd.advance("60s")
        assert countdownd.client.countdown.start("+45", count=60).accepted

A marker gives it a configuration, as text or as a file: `@pytest.mark.countdownd(config=…)`. The
fixture `countdownd_config` does so for all tests of a module or project. COUNTDOWND_SOCKET names
its socket, so a `Client()` without a path is one of it. `run_worker` runs a `Worker` beside the test.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, Iterator

import pytest

from ._daemon import Daemon, eventually
from ._sync.worker import Worker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "countdownd(config): the configuration of the daemon")


@pytest.fixture
def countdownd_config() -> str | os.PathLike[str] | None:
    return None


@pytest.fixture
def countdownd(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    countdownd_config: str | os.PathLike[str] | None,
) -> Iterator[Daemon]:
    marker = request.node.get_closest_marker("countdownd")
    monkeypatch.setenv("COUNTDOWND_TESTING", "1")
    with Daemon(config=marker.kwargs["config"] if marker else countdownd_config) as daemon:
        monkeypatch.setenv("COUNTDOWND_SOCKET", daemon.path)
        yield daemon


@pytest.fixture
def run_worker(countdownd: Daemon) -> Iterator[Callable[[Worker], Worker]]:
    started: list[tuple[Worker, threading.Thread]] = []

    def run(worker: Worker) -> Worker:
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        eventually(worker.ready.is_set, "the subscription of the worker")
        started.append((worker, thread))
        return worker

    yield run
    for worker, thread in started:
        worker.stop()
        thread.join()
