import pathlib

import pytest


@pytest.fixture
def countdownd_config():
    return pathlib.Path(__file__).parent / "countdownd.yaml"


@pytest.fixture
def web(countdownd):
    from fastapi.testclient import TestClient

    import app

    app.codes.clear()
    app.orders.clear()
    with TestClient(app.app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def workers(run_worker):
    from worker import worker

    def start(cursor=None, **handlers):
        raw = {name: lambda event, run=run: run(event.raw) for name, run in handlers.items()}
        return run_worker(worker(cursor, **raw))

    return start
