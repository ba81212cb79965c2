"""The daemons of a fleet, each on its own host."""

import os

from countdownd import Client, Closed, Daemon, eventually

SETTINGS = """
log-level: debug
fleet:
  engine: redis
  name: test
  nodes: [{nodes}]
  discovery: {discovery}
  partitions: {partitions}
  replicas: {replicas}
{more}"""


class Fleet:
    def __init__(self, topology, hosts, *, partitions=4, replicas="all", more="", mores=(), config="", environments=(), is_open=True):
        self.topology = topology
        self.network = next((host.network for host in hosts if host), None)
        self.text = SETTINGS.format(
            nodes=", ".join(f'"{node}"' for node in topology.nodes), discovery=topology.discovery,
            partitions=partitions, replicas=replicas, more="".join(f"  {line}\n" for line in more.splitlines()),
        )  # fmt: skip
        self.daemons = []
        for number, host in enumerate(hosts):
            own = "".join(f"  {line}\n" for line in mores[number].splitlines()) if mores else ""
            environment = environments[number] if number < len(environments) else None
            self.daemons.append(
                Daemon(
                    config=self.text + own + config, prefix=host.prefix if host else (), environment=environment,
                    is_waited_for=False,
                )
            )  # fmt: skip
            self.daemons[-1].host = host
        for daemon in self.daemons:
            daemon.wait_until_started()
        if is_open:
            self.begin()
            for daemon in self.daemons:
                self.wait_until_open(daemon)

    def begin(self):
        """Begins a new fleet; does nothing if the servers know it."""
        with self.daemons[0].connect() as client:
            client.retry("UNAVAILABLE", "FLEET", "INIT")

    def wait_until_open(self, daemon):
        """Waits until a daemon has all records."""
        eventually(
            lambda: is_open(daemon),
            lambda: f"the fleet is open: {daemon.info('fleet')}\n{daemon.log[-3000:]}",
        )

    def connect(self, number):
        return self.daemons[number].connect()

    def kill(self, daemon):
        daemon.kill()

    def start_again(self, daemon):
        daemon.start_again()
        self.wait_until_open(daemon)

    def close(self):
        problems = []
        for daemon in self.daemons:
            try:
                daemon.close()
            except AssertionError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]


def is_open(daemon):
    info = daemon.info("fleet")
    counts = {info[f"fleet_{name}partitions"] for name in ("", "open_", "loaded_")}
    return len(counts) == 1


def parameter(name, default):
    """Returns a number that the environment may set, as `make nightly` does."""
    return type(default)(os.environ.get(name, default))


__all__ = ["Client", "Closed", "Fleet", "is_open", "parameter"]
