"""Simulates the machine's clocks for a daemon; see faults/clocks.c.

    clocks = Clocks(tmp_path)
    daemon = start_daemon(environment=clocks.environment())
    clocks.suspend(3_600)       # the machine sleeps for an hour, and wakes up
"""

import mmap
import os
import pathlib
import struct
import time
import uuid

from preloaded import compiled

SECOND = 1_000_000_000


class Clocks:
    def __init__(self, directory, seen_as=None):
        """`seen_as` is the path of `directory` for processes that get the environment."""
        directory = pathlib.Path(directory)
        seen_as = pathlib.Path(seen_as or directory)
        self.seen = (seen_as / "clocks", seen_as / "boot-id")
        self.boot_id = directory / "boot-id"
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        path = directory / "clocks"
        path.write_bytes(bytes(32))
        for file in (path, self.boot_id):
            file.chmod(0o644)
        with open(path, "r+b") as file:
            self.mapped = mmap.mmap(file.fileno(), 32)
        self.boot = self.wall = self.stands = self.stalled = 0

    def environment(self):
        return dict(os.environ, **self.variables(library()))

    def variables(self, library):
        clocks, boot_id = self.seen
        return {"LD_PRELOAD": str(library), "CLOCKS_FILE": str(clocks), "CLOCKS_BOOT_ID": str(boot_id)}

    def set_wall(self, seconds):
        """Moves the wall clock by `seconds`, which may be negative."""
        self.wall += int(seconds * SECOND)
        self.write()

    def suspend(self, seconds):
        """Simulates a suspend of the machine that lasts `seconds`."""
        self.boot += int(seconds * SECOND)
        self.wall += int(seconds * SECOND)
        self.write()

    def reboot(self, away=0, uptime=5):
        """Simulates a reboot `uptime` seconds ago; the wall clock moves by `away` seconds.

        Must be called while the daemon does not run.
        """
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        self.boot = uptime * SECOND - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.wall += int(away * SECOND)
        self.write()

    def freeze(self):
        """Freezes the time since boot."""
        self.stands = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + self.boot
        self.write()

    def stall(self):
        """Makes reading the time since boot hang."""
        self.stalled = 1
        self.write()

    def go_on(self):
        """Ends `freeze` or `stall`."""
        self.stands = self.stalled = 0
        self.write()

    def write(self):
        # Each number is written at once, so a concurrent reader sees the old or the new one.
        for place, number in enumerate((self.boot, self.wall, self.stands, self.stalled)):
            self.mapped[place * 8 : place * 8 + 8] = struct.pack("=q", number)


def library():
    return compiled("clocks")
