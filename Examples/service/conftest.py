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
    from app import worker

    return lambda **jobs: run_worker(worker(**{"reindex": print, "reminder": print, **jobs}))
