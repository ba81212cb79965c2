"""Hosts on a private network: a network namespace each, joined by a bridge in another one.

The network has no connection to the outside. Needs root, ip and nft.
"""

import atexit
import os
import subprocess

RULES = """
table bridge cuts {
  set pairs { type ipv4_addr . ipv4_addr; }
  chain forward { type filter hook forward priority 0; policy accept; ip saddr . ip daddr @pairs drop; }
}
"""


def run(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def is_possible():
    """Returns whether this user may create networks."""
    return os.geteuid() == 0


class Host:
    """A namespace with an address. A command with `prefix` before it runs there."""

    def __init__(self, network, number):
        self.network = network
        self.number = number
        self.name = f"{network.name}-{number}"
        self.address = f"10.77.0.{number}"
        self.prefix = ("ip", "netns", "exec", self.name)
        run("ip", "netns", "add", self.name)
        network.namespaces.append(self.name)
        port = f"port{number}"
        run("ip", "link", "add", "eth0", "netns", self.name,
            "type", "veth", "peer", "name", port, "netns", network.bridge)  # fmt: skip
        run("ip", "-n", network.bridge, "link", "set", port, "master", "br0", "up")
        run("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            run("ip", "-n", self.name, "link", "set", interface, "up")


class Network:
    count = 0

    def __init__(self):
        Network.count += 1
        self.name = f"cdf{os.getpid()}-{Network.count}"
        self.bridge = f"{self.name}-bridge"
        self.namespaces = []
        self.hosts = []
        atexit.register(self.close)
        run("ip", "netns", "add", self.bridge)
        self.namespaces.append(self.bridge)
        run("ip", "-n", self.bridge, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.bridge, "link", "set", "br0", "up")
        self.nft(RULES)

    def host(self):
        self.hosts.append(Host(self, len(self.hosts) + 1))
        return self.hosts[-1]

    def nft(self, text):
        run("ip", "netns", "exec", self.bridge, "nft", "-f", "-", text=text)

    def cut(self, one, others):
        """Drops all packets between a host and the others. No connection is closed."""
        self.drop([pair for other in others if other is not one for pair in ((one, other), (other, one))])

    def drop(self, pairs):
        """Drops all packets from the first host of each pair to the second."""
        elements = ", ".join(f"{source.address} . {target.address}" for source, target in pairs)
        self.nft(f"add element bridge cuts pairs {{ {elements} }}\n")

    def isolate(self, host):
        self.cut(host, self.hosts)

    def heal(self):
        """Makes all links work again."""
        self.nft("flush set bridge cuts pairs\n")

    def close(self):
        while self.namespaces:
            subprocess.run(["ip", "netns", "del", self.namespaces.pop()], capture_output=True)
        atexit.unregister(self.close)
