"""Fleets of real daemons on real Redis servers: `make test-fleet`. Needs root, to create networks.

Three fixtures of the integration tests are available, too.
"""

import importlib.util
import pathlib
import sys

import pytest

INTEGRATION = pathlib.Path(__file__).resolve().parents[1] / "Integration"
sys.path.insert(0, str(INTEGRATION))

spec = importlib.util.spec_from_file_location("integration", INTEGRATION / "conftest.py")
integration = importlib.util.module_from_spec(spec)
spec.loader.exec_module(integration)
pytest_configure = integration.pytest_configure
start_daemon, daemon, client = integration.start_daemon, integration.daemon, integration.client

from fleet import Fleet  # noqa: E402
from network import Network, is_possible  # noqa: E402


class Bench:
    """Creates networks, servers and fleets, and ends all of them after the test."""

    def __init__(self):
        self.things = []

    def keep(self, thing):
        self.things.append(thing)
        return thing

    def network(self):
        if not is_possible():
            pytest.skip("needs root, to make networks")
        return self.keep(Network())

    def topology(self, kind, *arguments, **options):
        return self.keep(kind(*arguments, **options))

    def fleet(self, topology, hosts, **options):
        return self.keep(Fleet(topology, hosts, **options))

    def close(self):
        problems = []
        while self.things:
            try:
                self.things.pop().close()
            except Exception as problem:
                problems.append(problem)
        if problems:
            raise problems[0]


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()
