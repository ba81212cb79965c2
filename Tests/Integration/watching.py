"""Runs `countdownctl watch` and collects its output."""

import json
import subprocess
import threading

from countdownd import PATIENCE, Client, binary, eventually

CTL = binary().parent / "countdownctl"


class Watch:
    """A running `watch --json` and the events that it has printed."""

    def __init__(self, path, *names):
        self.process = subprocess.Popen(
            [CTL, "watch", "--json", "--socket", str(path), *names],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.events = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def seen(self, name, key=None):
        return [e for e in list(self.events) if e["event"] == name and key in (None, e.get("key"))]

    def wait(self, name, key=None, count=1):
        eventually(lambda: len(self.seen(name, key)) >= count, f"{count} × {name} {key}")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


def watchers(path):
    """Returns the number of patterns that clients are subscribed to."""
    with Client(path) as client:
        return client("PUBSUB", "NUMPAT")
