"""Proxies for a daemon's socket: what happens between a client and its daemon."""

import contextlib
import socket
import threading

from countdownd import PATIENCE


class Proxy:
    """Accepts connections at `path`. Each has a thread, in which a subclass's `serve` relays it."""

    def __init__(self, daemon, path):
        self.daemon, self.path = daemon, str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=[client], daemon=True).start()

    def connect(self):
        """Returns a connection to the daemon."""
        server = socket.socket(socket.AF_UNIX)
        server.settimeout(PATIENCE)
        server.connect(str(self.daemon.path))
        return server
