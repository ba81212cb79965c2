"""Each call that changes a file fails, or is the last one. After the restart everything that was
acknowledged is there, and each batch is complete or absent.

    EVERY=1 scripts/integration-test.sh Tests/Integration/test_every_call.py

takes every call; without it, some of them.
"""

import functools
import os
import shutil

import pytest

from countdownd import PATIENCE, Closed, Daemon, Error, eventually, request
from fault_injection import Faults

EVERY = int(os.environ.get("EVERY", "0")) or 12
BATCHES = 40
KILLS = ["kill-before", "kill-after", "tear"]
ERRORS = ["ENOSPC", "EIO", "EROFS"]
ACTIONS = [*KILLS, "short", *ERRORS, *(f"{error} lasting" for error in ERRORS)]


def batch(number):
    """Small enough to be read at once, so that it is one batch. All of them fill two segments."""
    return [
        ("COUNTDOWN", "START", f"k{number}", "EVERY", "1h", "META", "m" * 1_700),
        ("TIMER", "SET", f"t{number}", "1h"), ("COUNTDOWN", "CANCEL", f"k{number - 5}"),
    ]  # fmt: skip


class Session:
    """A daemon with a fault, and a client that it may leave without a reply."""

    def __init__(self, directory, durability, environment):
        self.acknowledged, self.refused, self.is_loaded = set(), set(), False
        # Listening is waited for here: the daemon may end before.
        self.daemon = Daemon.__new__(Daemon)
        self.daemon.start = self.daemon.start_without_waiting
        self.daemon.__init__(
            directory=directory, arguments=["--durability", durability], environment=environment,
            segment_size="64KiB")  # fmt: skip
        del self.daemon.start
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
        for number in range(BATCHES):
            client.send_bytes(b"".join(request(*words) for words in batch(number)))
            # The last command may have nothing to do.
            replies = [client.reply() for _ in range(3)][:2]
            codes = {reply.code for reply in replies if isinstance(reply, Error)}
            assert codes <= {"READONLY"}, replies
            assert not codes or all(isinstance(reply, Error) for reply in replies), replies
            (self.refused if codes else self.acknowledged).add(number)

    def check_end(self, action, call):
        """How the daemon ended, if it did. `call`: the one that was to fail."""
        status = self.daemon.process.poll()
        if action in KILLS:
            assert status in (None, -9), (status, self.daemon.log)
        elif not self.is_loaded:
            assert status == 73, (status, self.daemon.log)
        else:
            assert status in ((None, 74) if action in ERRORS or "lasting" in action else (None,))
        # What the log is written with is tried again, and nobody notices.
        if action in ("EIO", "short") and self.is_loaded and call[1].startswith("changes-"):
            assert status is None and self.acknowledged == set(range(BATCHES)), self.daemon.log


def stored(daemon):
    """The numbers of the batches that are there."""
    with daemon.connect() as client:
        done = {n for n in range(BATCHES) if client("TIMER", "GET", f"t{n}")}
        keys = {n for n in range(BATCHES) if client("COUNTDOWN", "GET", f"k{n}")}
        assert keys == {n for n in done if n + 5 not in done}, (keys, done)
        assert client("COUNTDOWN", "START", "new", "EVERY", "1h", "BRIEF")[0] == 1
        return done


@functools.cache
def count_calls(directory, durability):
    place = directory / f"counted-{durability}"
    (place / "state").mkdir(parents=True, mode=0o700)
    faults = Faults(directory, place / "state")
    session = Session(place, durability, faults.environment())
    assert session.acknowledged == set(range(BATCHES))
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
def test_no_acknowledged_batch_is_lost_and_none_is_half_done(tmp_path, counted, action, durability):
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
            done = stored(daemon)
            assert session.acknowledged <= done, (where, session.acknowledged - done, daemon.log)
            assert not session.refused & done, (where, session.refused & done)
            assert "set aside" not in daemon.log and "are lost" not in daemon.log, (where, daemon.log)
            assert daemon.terminate() == 0
        except AssertionError as error:
            raise AssertionError(f"{action} at {where}, {durability}") from error
        finally:
            daemon.kill()
        shutil.rmtree(place)
        shutil.rmtree(tmp_path / "own")
