"""Proxies for a daemon's socket: what happens between a client and its daemon."""

import contextlib
import socket
import threading
import time

from countdownd import PATIENCE, request

# The fate of a reply, or of a command that the daemon never receives.
HOLD, CLOSE, CUT, REFUSE = object(), object(), object(), object()


def requests(far):
    """Yields a client's requests. Bytes that are not UTF-8 become surrogates."""
    with far.makefile("rb") as lines:
        while line := lines.readline():
            words = []
            for _ in range(int(line[1:])):
                count = int(lines.readline()[1:])
                words.append(lines.read(count + 2)[:count].decode("utf-8", "surrogateescape"))
            yield words


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


class Unreliable(Proxy):
    """A proxy between clients and a real daemon.

    `fates` lists the fates of the next commands, by their first two words. REFUSE closes the
    connection before the daemon receives the command. The others apply to the reply, after the daemon
    has run the command: HOLD drops it, CLOSE closes the connection instead, CUT sends half of it, and
    a number delays it by as many seconds. `before` has functions to call before a command is
    forwarded. `seen` lists all commands.
    """

    def __init__(self, daemon, path):
        self.fates, self.before, self.links, self.seen = {}, {}, [], []
        self.lock = threading.Lock()
        super().__init__(daemon, path)

    def serve(self, client):
        with client, contextlib.suppress(OSError), self.connect() as server:
            server.settimeout(None)
            link = Link(client, server)
            self.links.append(link)
            answers = threading.Thread(target=link.answer, daemon=True)
            answers.start()
            for words in requests(client):
                if (fate := self.next(words)) is REFUSE:
                    break
                if fate is not None:
                    link.fate = fate
                self.before.get(" ".join(words[:2]), lambda: None)()
                server.sendall(request(*(word.encode("utf-8", "surrogateescape") for word in words)))
            link.close()
            answers.join(PATIENCE)

    def next(self, words):
        with self.lock:
            self.seen.append(words)
            fates = self.fates.get(" ".join(words[:2]))
            return fates.pop(0) if fates else None

    def count(self, *words):
        """Returns how many commands with these first words it has seen."""
        with self.lock:
            return sum(tuple(one[:len(words)]) == words for one in self.seen)

    def cut_after(self, count):
        """Cuts each open connection after so many more bytes for the client."""
        for link in list(self.links):
            link.left = count


class Link:
    """A connection through the proxy."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.fate, self.left = None, None

    def answer(self):
        with contextlib.suppress(OSError):
            while (data := self.server.recv(1 << 16)) and self.passes(data):
                pass
        self.close()

    def passes(self, data):
        """Forwards data to the client. Returns false to end the connection."""
        match self.fate:
            case int() | float(): time.sleep(self.fate)
            case fate if fate is CLOSE: return False
            case fate if fate is CUT: self.left = len(data) // 2
            case fate if fate is HOLD: return True
        self.fate = None
        if self.left is not None:
            data, self.left = data[:self.left], self.left - len(data)
        self.client.sendall(data)
        return self.left is None or self.left >= 0

    def close(self):
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
