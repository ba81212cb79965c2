"""Each test with the fixture `daemon` gets its own daemon:

    @pytest.mark.daemon(virtual_time=True, config="limits:\\n  max-connections: 5\\n")
    def test_something(daemon): ...

After the test it must still answer, exit with status 0 within 10 s of SIGTERM, and have logged no
crash.
"""

import signal
import socket

import pytest

from countdownd import Daemon, binary
from watching import Watch


def pytest_configure(config):
    # Processes that a shell starts in the background inherit an ignored SIGINT, and pass it on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # An assertion in a thread fails the test, too.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")
    config.addinivalue_line("markers", "daemon(**options): how `daemon` is started")
    config.addinivalue_line("markers", "alone: measures time or load, so nothing runs beside it")


# With pytest-xdist (`-n`), the tests of each of these files run in one worker, because they share a
# fixture that is slow to create.
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
    """Starts daemons, and checks and stops all of them after the test."""
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
    """Starts `countdownctl watch` at a socket, and stops all of them after the test."""
    watches = []

    def start(path, *names):
        watches.append(Watch(path, *names))
        return watches[-1]

    yield start
    for one in watches:
        one.close()


@pytest.fixture
def told(tmp_path):
    """The notifications that systemd receives."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.setblocking(False)

        class Told:
            environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
            lines = []

            def status(self):
                """Returns the newest STATUS= line, or an empty string."""
                try:
                    while True:
                        self.lines += notify.recv(1 << 16).decode().split("\n")
                except BlockingIOError:
                    pass
                return next((line for line in reversed(self.lines) if line.startswith("STATUS=")), "")

        yield Told()
