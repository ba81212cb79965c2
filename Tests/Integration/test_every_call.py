"""Each call that changes a file fails, or the process is killed at it. After the restart, all
acknowledged commands are there, and the unanswered ones up to some command, none of them by half.

    EVERY=1 scripts/integration-test.sh Tests/Integration/test_every_call.py

tests every call; without EVERY, one call in 12.
"""

import functools
import os
import re
import shutil

import pytest

from countdownd import KEPT, PATIENCE, SEGMENT_NAME, Closed, Daemon, Error
from countdownd import eventually, request, states, view
from fault_injection import Faults

EVERY = int(os.environ.get("EVERY", "0")) or 12
COMMANDS = [
    command
    for n in range(40)
    for command in [
        ("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 1_700), ("TIMER", "SET", f"t{n}", "1h"),
        ("COUNTDOWN", "CANCEL", f"k{n - 5}"),
    ]
]  # fmt: skip
AT_ONCE = 3
KILLS = ["kill-before", "kill-after", "tear"]
ERRORS = ["ENOSPC", "EIO", "EROFS"]
ACTIONS = [*KILLS, "short", *ERRORS, *(f"{error} lasting" for error in ERRORS)]


def after(commands):
    """Returns the keys that exist after the commands."""
    keys = set()
    for command in commands:
        if command[1] == "CANCEL":
            keys.discard(command[2])
        else:
            keys.add(command[2])
    return keys


class Session:
    """A daemon with a fault, and the commands of a client that may remain unanswered."""

    def __init__(self, directory, durability, environment):
        self.acknowledged, self.unanswered, self.is_loaded = [], [], False
        # `play` waits until the daemon listens, because the daemon may end before that.
        self.daemon = Daemon(
            directory=directory, arguments=["--durability", durability], environment=environment,
            segment_size="64KiB", is_waited_for=False)  # fmt: skip
        try:
            self.play()
        except (Closed, ConnectionError):
            self.daemon.process.wait(PATIENCE)

    def is_up(self):
        if self.daemon.process.poll() is not None:
            raise Closed
        return self.daemon.listens() and self.daemon.info("persistence")["loading"] == "0"

    def play(self):
        try:
            eventually(self.is_up, "it is up")
        except AssertionError:
            if self.daemon.process.poll() is None:
                raise
            raise Closed from None
        self.is_loaded = True
        client = self.daemon.connect()
        for first in range(0, len(COMMANDS), AT_ONCE):
            self.unanswered = COMMANDS[first : first + AT_ONCE]
            client.send_bytes(b"".join(request(*words) for words in self.unanswered))
            while self.unanswered:
                reply, command = client.reply("READONLY"), self.unanswered.pop(0)
                if not isinstance(reply, Error):
                    self.acknowledged.append(command)

    def check_end(self, action, call):
        """Checks how the daemon ended, if it did. `call` is the one with the fault."""
        status = self.daemon.process.poll()
        if action in KILLS:
            assert status in (None, -9), (status, self.daemon.log)
        elif not self.is_loaded:
            assert status == 73, (status, self.daemon.log)
        else:
            assert status in ((None, 74) if action in ERRORS or "lasting" in action else (None,))
        # The daemon retries a batch, and no client notices.
        is_batch = call[0] in ("pwrite", "fdatasync") and SEGMENT_NAME.fullmatch(call[1])
        if action in ("EIO", "short") and self.is_loaded and is_batch:
            assert status is None and self.acknowledged == COMMANDS, self.daemon.log

    def check_stored(self):
        with self.daemon.connect() as client:
            pages = [client(kind, "LIST", "LIMIT", 1_000)[1] for kind in ("COUNTDOWN", "TIMER")]
            found = {view(entity)["key"].decode() for page in pages for entity in page}
            assert client("COUNTDOWN", "START", "new", "EVERY", "1h", "BRIEF")[0] == 1
        possible = [after(self.acknowledged + self.unanswered[:n]) for n in range(AT_ONCE + 1)]
        assert found in possible, (found ^ possible[0], self.unanswered)


@functools.cache
def count_calls(directory, durability):
    place = directory / f"counted-{durability}"
    (place / "state").mkdir(parents=True, mode=0o700)
    faults = Faults(directory, place / "state")
    session = Session(place, durability, faults.environment())
    assert session.acknowledged == COMMANDS
    eventually(lambda: session.daemon.info("persistence")["log_segments"] == "1", "all is folded")
    session.daemon.kill()
    calls = faults.calls()
    assert {"pwrite", "fallocate", "rename", "fsync", "unlink"} <= {call for call, _ in calls}
    shutil.rmtree(place)
    return len(calls)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    return functools.partial(count_calls, tmp_path_factory.mktemp("counted"))


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("action", ACTIONS)
def test_no_acknowledged_command_is_lost_and_none_is_half_done(tmp_path, counted, action, durability):
    loses_power = action in KILLS and durability == "power"
    first = 1 + ACTIONS.index(action) % EVERY
    for at in range(first, counted(durability) + 1, EVERY):
        place = tmp_path / str(at)
        (place / "state").mkdir(parents=True, mode=0o700)
        (tmp_path / "own").mkdir(exist_ok=True)
        faults = Faults(tmp_path / "own", place / "state")
        faults.damage()
        is_lasting = action.endswith("lasting")
        session = Session(place, durability, faults.environment(
            at=at, action=action.split()[0], lasting=is_lasting, shadow=loses_power))  # fmt: skip
        daemon, calls = session.daemon, faults.calls()
        where = (at, calls[at - 1] if at <= len(calls) else None)
        try:
            session.check_end(action, where[1] or ("", ""))
            daemon.kill()
            faults.mend()
            if loses_power:
                faults.lose_power()
            daemon.environment = None
            daemon.start_again()
            session.check_stored()
            assert not re.search(f"{KEPT}|set aside|are lost", daemon.log), (where, daemon.log)
            assert len(states(daemon.state)) == 1, where
            assert daemon.terminate() == 0
        except AssertionError as error:
            raise AssertionError(f"{action} at {where}, {durability}") from error
        finally:
            daemon.kill()
        shutil.rmtree(place)
        shutil.rmtree(tmp_path / "own")
