"""Tests the injected faults themselves, on a small program with a database."""

import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

from fault_injection import Faults

# Commits the numbers from 0 on, one by one, and prints each that is stored. Retries failed commits.
WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
database.execute("PRAGMA journal_mode = WAL")
database.execute("PRAGMA synchronous = " + sys.argv[2])
database.execute("CREATE TABLE IF NOT EXISTS number (n INTEGER PRIMARY KEY)")
print("ready", flush=True)
n = 0
while n < int(sys.argv[3]):
    try:
        database.execute("INSERT INTO number VALUES (?)", (n,))
    except sqlite3.OperationalError as error:
        print("failed", error, flush=True)
        if input() == "end": break
        continue
    print(n, flush=True)
    n += 1
"""


@pytest.fixture
def watched(tmp_path):
    directory = tmp_path / "watched"
    directory.mkdir()
    return directory


@pytest.fixture
def faults(tmp_path, watched):
    return Faults(tmp_path, watched)


def write(faults, environment, count=5, synchronous="FULL", answers=""):
    done = subprocess.run(
        [sys.executable, "-c", WRITER, faults.watched / "n.db", synchronous, str(count)],
        env=environment, input=answers, capture_output=True, text=True, timeout=60,
    )
    assert "faults:" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    return done, [int(line) for line in lines if line.isdigit()], lines


def stored(faults):
    if not (faults.watched / "n.db").exists():
        return []
    with sqlite3.connect(faults.watched / "n.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        rows = database.execute("SELECT n FROM number ORDER BY n").fetchall() if tables else []
    database.close()
    return [n for (n,) in rows]


def test_calls_are_counted_and_nothing_else_happens(faults):
    done, said, _ = write(faults, faults.environment())
    assert done.returncode == 0 and said == stored(faults) == [0, 1, 2, 3, 4]
    calls = faults.calls()
    assert ("pwrite", "n.db-wal") in calls
    assert {"fsync", "fdatasync"} & {call for call, _ in calls}
    assert ("unlink", "n.db-wal") in calls
    assert {name for _, name in calls} <= {"n.db", "n.db-wal", "n.db-journal", "watched", "n.db-shm"}


def test_calls_elsewhere_are_not_counted(tmp_path, faults):
    elsewhere = Faults(tmp_path, tmp_path / "watched-too")
    _, said, _ = write(faults, elsewhere.environment(at=1, action="kill-before"))
    assert said == [0, 1, 2, 3, 4] and elsewhere.calls() == []


@pytest.mark.parametrize("action", ["kill-before", "kill-after", "tear"])
def test_killed_at_each_call_no_commit_is_lost(faults, watched, action):
    write(faults, faults.environment(), count=3)
    for at in range(1, len(faults.calls()) + 1):
        for file in watched.iterdir():
            file.unlink()
        done, said, _ = write(faults, faults.environment(at=at, action=action), count=3)
        assert done.returncode == -signal.SIGKILL, at
        assert len(faults.calls()) == at
        # The printed numbers are stored; one more may be, which the process could not print.
        assert stored(faults) in (said, [*said, len(said)]), at


def test_a_torn_write_is_half_a_write(faults, watched):
    program = "import os, sys; os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), b'12345678')"
    target = watched / "torn"
    done = subprocess.run(
        [sys.executable, "-c", program, target], env=faults.environment(at=1, action="tear")
    )
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"1234"


@pytest.mark.parametrize("action, says", [("ENOSPC", "full"), ("EIO", "disk I/O error")])
def test_one_call_fails_and_the_next_works(faults, action, says):
    write(faults, faults.environment())
    first = max(i for i, call in enumerate(faults.calls()) if call == ("pwrite", "n.db-wal"))
    (faults.watched / "n.db").unlink()
    _, said, lines = write(
        faults, faults.environment(at=first + 1, action=action), answers="again\n" * 3
    )
    failures = [line for line in lines if line.startswith("failed")]
    assert len(failures) == 1 and says in failures[0]
    assert said == stored(faults) == [0, 1, 2, 3, 4]


def test_calls_fail_until_they_are_mended(faults):
    write(faults, faults.environment())
    first = faults.calls().index(("pwrite", "n.db-wal")) + 1
    (faults.watched / "n.db").unlink()
    environment = faults.environment(at=first + 20, action="ENOSPC", lasting=True)
    faults.damage()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, faults.watched / "n.db", "FULL", "1000"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:
        lines = iter(process.stdout.readline, "")
        failures = 0
        for line in lines:
            if not line.startswith("failed"):
                continue
            failures += 1
            if failures == 3:
                faults.mend()
            process.stdin.write("again\n")
            process.stdin.flush()
        assert process.wait() == 0
    assert failures == 3
    assert stored(faults) == list(range(1000))


# Reserves room in two files and syncs only the first; then writes to both, within and beyond it.
RESERVER = """
import os, sys
def attempt(what):
    try: what()
    except OSError as error: print(error.errno, end=" ")
    else: print(0, end=" ")
os.chdir(sys.argv[1])
synced, later = (os.open(name, os.O_CREAT | os.O_RDWR) for name in ("log-1", "log-2"))
os.posix_fallocate(synced, 0, 4096)
os.fsync(synced)
os.fsync(os.open(".", os.O_RDONLY))
os.posix_fallocate(later, 0, 4096)
open(sys.argv[2], "w").close()
for file in (synced, later):
    attempt(lambda: os.pwrite(file, b"x" * 96, 4000))
    attempt(lambda: os.pwrite(file, b"x" * 97, 4000))
"""


@pytest.mark.parametrize("action, file, says", [
    # Only writes that make a file grow need room.
    ("ENOSPC", None, "0 28 0 28"), ("EIO", None, "5 5 5 5"), ("EIO", "log-1", "5 5 0 0"),
    ("EIO", "other,log-*", "5 5 5 5"), ("EIO", "log", "0 0 0 0"),
])  # fmt: skip
def test_calls_fail_by_the_names_of_files_and_by_what_they_need(faults, watched, action, file, says):
    environment = faults.environment(at=1, action=action, lasting=True, file=file)
    done = subprocess.run(
        [sys.executable, "-c", RESERVER, watched, faults.while_file],
        env=environment, capture_output=True, text=True,
    )
    assert done.stdout.strip() == says, done


def test_power_lost_takes_room_that_was_reserved_and_not_synced(faults, watched):
    command = [sys.executable, "-c", RESERVER, watched, faults.while_file]
    subprocess.run(command, env=faults.environment(shadow=True), check=True, capture_output=True)
    faults.lose_power()
    assert {file.name: file.read_bytes() for file in watched.iterdir()} == {
        "log-1": bytes(4096), "log-2": b""}


def test_power_lost_at_each_call_no_synced_commit_is_lost(faults, watched):
    write(faults, faults.environment(), count=3)
    for at in range(1, len(faults.calls()) + 1):
        for file in [*watched.iterdir(), *faults.shadow.glob("*")]:
            file.unlink()
        environment = faults.environment(at=at, action="kill-before", shadow=True)
        _, said, _ = write(faults, environment, count=3)
        faults.lose_power()
        assert stored(faults) in (said, [*said, len(said)]), at


def test_power_lost_takes_what_was_never_synced(faults):
    environment = faults.environment(shadow=True)
    done = subprocess.Popen(
        [sys.executable, "-c", WRITER + "input()", faults.watched / "n.db", "OFF", "5"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    with done:
        while done.stdout.readline() != "4\n":
            pass
        done.kill()
        done.wait()
    faults.lose_power()
    assert stored(faults) == []


def test_names_change_when_their_directory_is_synced(faults, watched):
    program = """
import os, sys
os.chdir(sys.argv[1])
def put(name, text):
    file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(file, text)
    os.fsync(file)
def sync(): os.fsync(os.open(".", os.O_RDONLY))
put("a", b"old"); put("gone", b"x"); sync()
put("a.new", b"new"); os.rename("a.new", "a"); os.unlink("gone")
if sys.argv[2] == "sync": sync()
"""
    for how, expected in [("no", {"a": b"old", "gone": b"x"}), ("sync", {"a": b"new"})]:
        for file in [*watched.iterdir(), *faults.shadow.glob("*")]:
            file.unlink()
        subprocess.run(
            [sys.executable, "-c", program, watched, how],
            env=faults.environment(shadow=True), check=True,
        )
        faults.lose_power()
        found = {file.name: file.read_bytes() for file in pathlib.Path(watched).iterdir()}
        assert found == expected
