"""Each test that asks for `daemon` gets one of its own:

    @pytest.mark.daemon(virtual_time=True, config="limits:\\n  max-connections: 5\\n")
    def test_something(daemon): ...

Afterwards it must be alive and well, end with status 0 within 10 s of SIGTERM, and have logged no
crash.
"""

import signal

import pytest

from countdownd import Daemon, binary
from watching import Watch


def pytest_configure(config):
    # A shell that runs the tests in the background has them, and what they start, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "daemon(**options): how `daemon` is started")
    config.addinivalue_line("markers", "alone: measures time or load, so nothing runs beside it")


# With pytest-xdist (`-n`), the tests of these files run one after the other: they share something
# that is slow to make.
GROUPS = {"test_damaged_state", "test_fleet", "test_sandbox"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in GROUPS:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_report_header():
    return f"countdownd: {binary()}"


@pytest.fixture
def start_daemon():
    """Starts daemons; all of them are ended and checked after the test."""
    daemons = []

    def start(**options):
        daemons.append(Daemon(**options))
        return daemons[-1]

    if not binary().exists():
        pytest.fail(f"{binary()} is not built; or name another one in COUNTDOWND")
    yield start
    for daemon in reversed(daemons):
        daemon.close()


@pytest.fixture
def daemon(request, start_daemon):
    marker = request.node.get_closest_marker("daemon")
    return start_daemon(**(marker.kwargs if marker else {}))


@pytest.fixture
def client(daemon):
    return daemon.connect()


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def speaker(request, daemon):
    """A client of each version of the protocol."""
    client = daemon.connect(protocol=request.param)
    client.protocol = request.param
    return client


@pytest.fixture
def watch():
    """Starts `countdownctl watch` at a socket; all of them are ended after the test."""
    watches = []

    def start(path, *names):
        watches.append(Watch(path, *names))
        return watches[-1]

    yield start
    for one in watches:
        one.close()
