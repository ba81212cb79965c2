"""Private daemons: for tests on virtual time, and for development."""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

from ._base import Duration
from ._events import SETTLE
from ._failures import CountdowndError, Down
from ._sync.client import Client
from ._sync.watch import Watch

#: Longer than anything takes on a busy machine, in seconds.
PATIENCE = 60.0


def program() -> str:
    """Returns the path of countdownd: COUNTDOWND, the one in this package, or that in PATH."""
    named = os.environ.get("COUNTDOWND")
    bundled = pathlib.Path(__file__).parent / "bin" / "countdownd"
    found = named or (str(bundled) if bundled.exists() else shutil.which("countdownd"))
    if not found:
        raise Down("there is no countdownd in PATH; install it, or name it in COUNTDOWND")
    return found


def eventually(condition: Callable[[], Any], what: str = "it") -> Any:
    """Waits until `condition()` is true, and returns its result."""
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen in {PATIENCE:.0f} s")
        time.sleep(0.002)
    return result


class Daemon:
    """A private daemon. With virtual time, time moves only with `advance` and the like.

    It ends with this program, also if that is killed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        virtual_time: bool = True,
    ) -> None:
        # Paths of sockets are short.
        self._own = None if folder else tempfile.mkdtemp(prefix="countdownd-")
        self.folder = pathlib.Path(folder or self._own or "")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = str(self.folder / "socket")
        if config is None:
            config = ""
        if isinstance(config, str) and ("\n" in config or ":" in config or not config):
            settings = self.folder / "countdownd.yaml"
            settings.write_text(config)
        else:
            settings = pathlib.Path(config)
        self._arguments = [
            program(), "--socket", self.path, "--config", str(settings),
            "--state-directory", str(self.folder / "state"), "--end-with-input",
        ] + (["--virtual-time"] if virtual_time else [])  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Client(self.path, timeout=PATIENCE)
        self.start()

    def start(self) -> None:
        """Starts the daemon again after `stop`."""
        # It ends with this program, even if that is killed.
        self.process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE)
        self._wait()

    def _wait(self) -> None:
        def answers() -> bool:
            process = self.process
            if process is not None and process.poll() is not None:
                raise AssertionError("countdownd did not start; its message is above")
            try:
                return self.client.ping() == "PONG"
            except CountdowndError:  # Not yet there, or LOADING.
                return False

        eventually(answers, "an answer of countdownd")

    def advance(self, duration: Duration) -> None:
        """Lets time pass, event by event."""
        self.client.clock.advance(duration)

    def restart(self, away: Duration = "0s") -> None:
        """Restarts the daemon, which is away for that time; returns when the new one answers."""
        before = os.stat(self.path)
        self.client.clock.restart(away)

        def is_new() -> bool:
            try:
                after = os.stat(self.path)
            except OSError:
                return False
            return (after.st_ino, after.st_ctime_ns) != (before.st_ino, before.st_ctime_ns)

        eventually(is_new, "a new socket")
        self.client._pool.drop()
        self._wait()

    def settle(self) -> None:
        """Returns when every watch and worker of this program has handled what has happened."""
        watches = [one for one in Watch.open_at(self.path) if one.ready.is_set()]
        before = self.client.events.cursor()
        self.client.timer.set(SETTLE, "0s")
        found = self.client.events.since(before, match=[f"timer:{SETTLE}"])
        last = json.loads(found["events"][-1][1])["seq"]

        def is_settled() -> bool:
            return all(one.settled >= last or one.closed for one in watches)

        eventually(is_settled, "the handling of all events")

    def stop(self) -> None:
        """Ends the daemon; its state stays until `close`."""
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            process.wait()
            if process.stdin:
                process.stdin.close()

    def close(self) -> None:
        self.client.close()
        self.stop()
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def embedded(folder: str | os.PathLike[str], *, config: str | None = None) -> Client:
    """Starts a private daemon for development, with its state in a folder, and returns its client.

    It ends with the program.
    """
    daemon = Daemon(folder, config=config, virtual_time=False)
    print(f"countdownd: a private daemon in {folder}, until this program ends", file=sys.stderr)
    atexit.register(daemon.close)
    return daemon.client
