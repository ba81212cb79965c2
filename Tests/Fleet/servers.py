"""Real Redis servers and Sentinels, each on a host of the network, and their topologies."""

import pathlib
import shutil
import signal
import subprocess
import tempfile

from clocks import Clocks
from countdownd import Client, Closed, Error, eventually

PORT = 6379
SENTINEL_PORT = 26379
SENTINEL_NAME = "mymaster"
# What a server answers while it loads the data of its primary, and Sentinel while it cannot do it.
NOT_READY = "LOADING MASTERDOWN"
NO_FAILOVER = "INPROG NOGOODSLAVE"


class Process:
    """A program on a host (None: this machine), with its own directory and a Unix socket."""

    def __init__(self, host, directory):
        self.host = host
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket = self.directory / "socket"
        self.log_path = self.directory / "log"
        self.process = None
        self.is_stopped = False

    def spawn(self, command, environment=None):
        self.socket.unlink(missing_ok=True)
        prefix = self.host.prefix if self.host else ()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        eventually(self.answers, f"{command[0]} answers: {self.log_path}")

    def answers(self):
        assert self.is_running, f"it ended: {self.log_path.read_text()[-2000:]}"
        try:
            return self("PING", errors=NOT_READY) == "PONG"
        except (OSError, Closed):
            return False

    def __call__(self, *words, timeout=10, errors=""):
        """Sends a command, which may be refused with one of these codes."""
        with Client(self.socket, timeout=timeout) as client:
            return client.either(errors, *words)

    def info(self, section):
        lines = (line for line in self("INFO", section).decode().split("\r\n") if ":" in line)
        return dict(line.split(":", 1) for line in lines)

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.is_running:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def close(self):
        self.kill()


class Server(Process):
    """A redis-server. Without `aof` it stores nothing on the disk, so its data is lost with the host."""

    def __init__(
        self, host, directory, *, port=PORT, cluster=False, policy="noeviction", clocks=False, aof=False,
        program="redis-server",
    ):  # fmt: skip
        super().__init__(host, directory)
        self.port = port
        self.address = host.address if host else "127.0.0.1"
        self.cluster = cluster
        self.policy = policy
        self.clocks = Clocks(self.directory) if clocks else None
        self.aof = aof
        self.program = program

    @property
    def node(self):
        return f"{self.address}:{self.port}"

    def start(self, primary=None):
        """Starts a server, empty without `aof`; with `primary`, as its replica."""
        if self.cluster:
            (self.directory / "nodes.conf").unlink(missing_ok=True)
        command = [
            self.program, "--port", str(self.port), "--bind", self.address, "--protected-mode", "no",
            "--unixsocket", str(self.socket), "--dir", str(self.directory), "--save", "",
            "--appendonly", "yes" if self.aof else "no", "--appendfsync", "always", "--maxmemory-policy", self.policy, "--maxmemory", "256mb",
            "--repl-diskless-sync-delay", "0", "--repl-timeout", "5", "--tcp-keepalive", "5",
        ]  # fmt: skip
        if primary:
            # An empty replica must not take over until it has all data: see `join`.
            command += ["--replicaof", primary.address, str(primary.port), "--replica-priority", "0"]
        if self.cluster:
            command += [
                "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
                "--cluster-replica-validity-factor", "0", "--cluster-config-file", "nodes.conf",
            ]  # fmt: skip
        self.spawn(command, self.clocks.environment() if self.clocks else None)
        return self

    def join(self):
        """Waits until a replica has all data of its primary; then allows it to take over."""
        eventually(lambda: self.info("replication").get("master_link_status") == "up", "it has everything")
        assert self("CONFIG", "SET", "replica-priority", "100") == "OK"

    def role(self):
        try:
            return self("ROLE", timeout=1)[0].decode()
        except (OSError, Closed, TypeError):
            return None

    def replicas_online(self):
        return sum("state=online" in value for name, value in self.info("replication").items()
                   if name.startswith("slave"))  # fmt: skip


class Sentinel(Process):
    def start(self, primary=None, quorum=2):
        """Starts the Sentinel, which remembers the primary from before a restart."""
        file = self.directory / "sentinel.conf"
        if primary:
            file.write_text(
                f"port {SENTINEL_PORT}\nprotected-mode no\nunixsocket {self.socket}\ndir {self.directory}\n"
                f"sentinel monitor {SENTINEL_NAME} {primary.address} {primary.port} {quorum}\n"
                f"sentinel down-after-milliseconds {SENTINEL_NAME} 1000\n"
                f"sentinel failover-timeout {SENTINEL_NAME} 3000\n"
                f"sentinel parallel-syncs {SENTINEL_NAME} 2\n"
            )
        self.spawn(["redis-sentinel", str(file)])
        return self

    def primary_address(self):
        return self("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SENTINEL_NAME)[0].decode()

    def knows(self, replicas, sentinels):
        reply = self("SENTINEL", "MASTER", SENTINEL_NAME)
        state = dict(zip(reply[::2], reply[1::2]))
        return (
            int(state[b"num-slaves"]) == replicas and int(state[b"num-other-sentinels"]) == sentinels
            and state[b"flags"] == b"master"
        )  # fmt: skip


class Topology:
    """The servers of a fleet: their configuration for daemons, and faults for tests."""

    discovery = "single"

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="countdownd-fleet-"))
        self.servers = []

    @property
    def nodes(self):
        return [server.node for server in self.servers]

    def primaries(self):
        return [server for server in self.servers if server.is_running and server.role() == "master"]

    def close(self):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Single(Topology):
    def __init__(self, host=None, *, port=PORT, **options):
        super().__init__()
        self.servers = [Server(host, self.directory / "redis", port=port, **options).start()]

    @property
    def server(self):
        return self.servers[0]


class SentinelTrio(Topology):
    """A primary and two replicas, with a Sentinel on each host, or on hosts of their own."""

    discovery = "sentinel"

    def __init__(self, hosts, sentinel_hosts=None, **options):
        super().__init__()
        self.hosts = sentinel_hosts or hosts
        for host in hosts:
            self.servers.append(Server(host, self.directory / f"redis-{host.number}", **options))
        first = self.servers[0].start()
        for replica in self.servers[1:]:
            replica.start(first)
            replica.join()
        self.sentinels = [Sentinel(host, self.directory / f"sentinel-{host.number}") for host in self.hosts]
        for sentinel in self.sentinels:
            sentinel.start(first)
        self.settled()

    @property
    def nodes(self):
        return [f"{host.address}:{SENTINEL_PORT}" for host in self.hosts]

    @property
    def primary(self):
        """The server that the first running Sentinel names."""
        named = next(sentinel.primary_address() for sentinel in self.sentinels if sentinel.is_running)
        return next(server for server in self.servers if server.address == named)

    def settled(self):
        """Waits until the primary has its replicas, and each Sentinel knows all others."""
        eventually(lambda: self.primary.role() == "master", "a primary")
        eventually(lambda: self.primary.replicas_online() == len(self.servers) - 1, "its replicas follow")
        for sentinel in self.sentinels:
            eventually(lambda: sentinel.knows(len(self.servers) - 1, len(self.sentinels) - 1), "Sentinels agree")

    def can_store(self):
        """Whether the primary runs, and all other servers that run follow it."""
        running = sum(server.is_running for server in self.servers)
        return self.primary.role() == "master" and self.primary.replicas_online() == running - 1

    def lose(self, server):
        """Kills the server and the Sentinel of a host."""
        server.kill()
        self.sentinels[self.servers.index(server)].kill()

    def elected(self, other_than):
        """Waits for another primary, and returns it."""
        eventually(lambda: self.primary is not other_than and self.primary.role() == "master", "a failover", pause=0.05)
        return self.primary

    def replace(self, server):
        """Brings the host back, empty, as a replica."""
        server.start(self.primary)
        server.join()
        self.sentinels[self.servers.index(server)].start()
        self.settled()

    def close(self):
        for sentinel in self.sentinels:
            sentinel.close()
        super().close()


class Cluster(Topology):
    """Three primaries, and a replica for each."""

    discovery = "cluster"

    def __init__(self, hosts, **options):
        super().__init__()
        for host in hosts:
            directory = self.directory / f"redis-{host.number}"
            self.servers.append(Server(host, directory, cluster=True, **options).start())
        count = len(hosts) // 2
        for number, server in enumerate(self.servers):
            if number < count:
                first, last = 16384 * number // count, 16384 * (number + 1) // count - 1
                server("CLUSTER", "ADDSLOTSRANGE", first, last)
                server("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        self.meet(self.servers[0], self.servers[1:])
        for number, server in enumerate(self.servers[count:]):
            server("CLUSTER", "REPLICATE", self.identity(self.servers[number]))
        self.settled()

    def identity(self, server):
        return server("CLUSTER", "MYID").decode()

    def meet(self, one, others):
        for other in others:
            one("CLUSTER", "MEET", other.address, other.port)
        eventually(lambda: all(self.known(server) >= len(others) + 1 for server in [one, *others]), "they have met")

    def known(self, server):
        reply = server("CLUSTER", "INFO", errors=NOT_READY)
        return 0 if isinstance(reply, Error) else int(reply.decode().split("cluster_known_nodes:")[1].split()[0])

    def is_well(self, server):
        reply = server("CLUSTER", "INFO", errors=NOT_READY)
        # A replica that loads the data of its primary answers with an error.
        return not isinstance(reply, Error) and "cluster_state:ok" in reply.decode()

    def settled(self):
        running = [server for server in self.servers if server.is_running]
        eventually(lambda: all(self.is_well(server) for server in running), "the cluster is well")
        replicas = len(running) - len(self.primaries())
        eventually(
            lambda: sum(server.replicas_online() for server in self.primaries()) == replicas, "the replicas follow"
        )

    def can_store(self):
        """Whether the cluster is well, and each primary has a replica."""
        primaries = self.primaries()
        running = [server for server in self.servers if server.is_running]
        return (
            len(primaries) == 3 and all(self.is_well(server) for server in running)
            and all(primary.replicas_online() > 0 for primary in primaries)
        )  # fmt: skip

    def lose(self, server):
        server.kill()

    def elected(self, other_than):
        """Waits until the cluster works without that server, and returns a primary."""
        running = [server for server in self.servers if server.is_running]
        eventually(lambda: all(self.is_well(server) for server in running) and len(self.primaries()) >= 3,
                   "a failover", pause=0.05)  # fmt: skip
        return next(server for server in running if server.role() == "master")

    def replace(self, server):
        """Brings the host back, empty, as a replica of the primary that has none."""
        running = [other for other in self.servers if other.is_running]
        alone = next(p for p in self.primaries() if p is not server and p.replicas_online() == 0)
        server.start()
        for other in running:
            for line in other("CLUSTER", "NODES").decode().splitlines():
                if f"{server.address}:" in line:
                    other("CLUSTER", "FORGET", line.split()[0])
        running[0]("CLUSTER", "MEET", server.address, server.port)
        eventually(lambda: self.known(server) >= len(running) + 1, "it knows the others")
        eventually(lambda: server("CLUSTER", "REPLICATE", self.identity(alone), errors="ERR") == "OK", "it becomes a replica")
        self.settled()
