"""Starts on a state that is damaged, unusable, or belongs to another program or user."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile

import pytest

from countdownd import PATIENCE, binary, eventually, request, run_sql, view

COUNT = 5_000
# The page size of the database, in bytes.
PAGE = 4_096


def run(*arguments, **options):
    """Runs a daemon that cannot start; returns its status and its errors."""
    done = subprocess.run(
        [binary(), *arguments], capture_output=True, text=True, timeout=PATIENCE, **options)
    return done.returncode, done.stderr


def check(directory):
    return subprocess.run(
        [binary(), "--check", "--state-directory", str(directory)],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.fixture
def filled(daemon):
    """A stopped daemon whose state has many countdowns; `newest` is its highest generation."""
    client = daemon.connect()
    client.send_bytes(
        b"".join(
            request("COUNTDOWN", "START", n, "EVERY", "1h", "READYTITLE", f"row {n}, " + "m" * 500)
            for n in range(COUNT)))
    daemon.newest = max(view(client.reply())["generation"] for _ in range(COUNT))
    client("TIMER", "SET", "t", "1h")
    # Each start reserves numbers, so that the newest one is far ahead of the clock.
    for _ in range(3):
        daemon.restart()
    daemon.newest = view(daemon.connect()("COUNTDOWN", "START", "newest", "OWNER", "connection"))["generation"]
    # Folds the whole log into the tables.
    daemon.back_up(daemon.directory / "copy.db")
    daemon.stop("terminate")
    return daemon


def garble(path, start, length=400):
    data = bytearray(path.read_bytes())
    data[start : start + length] = b"\xa5" * length
    path.write_bytes(data)


def damage(file, how):
    size = file.stat().st_size
    if how == "header":
        garble(file, 0)
    elif how == "middle":
        # The page of a countdown: events do not contain the ready title.
        garble(file, file.read_bytes().index(b"row %d," % (COUNT * 3 // 4)) // PAGE * PAGE)
    elif how == "truncated":
        os.truncate(file, size // 2 // PAGE * PAGE)
    else:
        os.truncate(file, 700)


@pytest.mark.parametrize("how", ["header", "middle", "truncated", "nearly gone"])
def test_a_corrupt_file_is_set_aside(filled, how):
    file = filled.state / "state.db"
    assert file.stat().st_size > 2_000_000
    damage(file, how)
    data = file.read_bytes()
    filled.start_again()
    client = filled.connect()
    count = client("DBSIZE")
    assert (1_000 < count < COUNT) if how == "middle" else count == 0, count
    (aside,) = filled.state.glob("state.db.corrupt-*Z")
    # With damage in the middle, the daemon writes to the file before it reads the damaged page.
    kept = aside.read_bytes()
    assert kept == data or how == "middle" and len(kept) == len(data) and b"\xa5" * 400 in kept
    assert "is set aside, not deleted" in filled.log and str(aside) in filled.log
    assert view(client("COUNTDOWN", "START", "new"))["generation"] > filled.newest
    # The entities that could be read are persisted from now on.
    filled.restart("kill")
    assert filled.connect()("DBSIZE") == count + 1
    assert len(list(filled.state.glob("state.db.corrupt-*Z"))) == 1


def swap(path, one, other, length=PAGE):
    with open(path, "r+b") as file:
        def at(place):
            file.seek(place)
            return file.read(length)

        pages = {other: at(one), one: at(other)}
        for place, page in pages.items():
            file.seek(place)
            file.write(page)


def page_of(file, row):
    return file.read_bytes().index(b"row %d," % row) // PAGE * PAGE


def root_of(file, table):
    with contextlib.closing(sqlite3.connect(file)) as database:
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        return (database.execute(sql, (table,)).fetchone()[0] - 1) * PAGE


SWAPPED, LEAF_AS_ROOT, OF_BACKUP = (
    "two pages swapped", "a leaf in place of its root", "the same in a backup")


@pytest.mark.parametrize("how", [SWAPPED, LEAF_AS_ROOT, OF_BACKUP, "a row that its page counts no longer"])
def test_a_damaged_structure_is_not_loaded_silently(daemon, how):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for n in range(300):
        client("COUNTDOWN", "START", n, "EVERY", "1h", "READYTITLE", f"row {n},")
    daemon.back_up(daemon.directory / "copy.db")
    daemon.stop("terminate")
    file, left = daemon.state / "state.db", None
    if how == OF_BACKUP:
        shutil.copy(daemon.directory / "copy.db", file)
    page = page_of(file, 100)
    if how == SWAPPED:
        swap(file, page, page_of(file, 200))
    elif how in (LEAF_AS_ROOT, OF_BACKUP):
        left = file.read_bytes()[page : page + PAGE].count(b"row ")
        swap(file, page, root_of(file, "countdowns"))
    else:
        with open(file, "r+b") as changed:
            changed.seek(page + 4)
            count = changed.read(1)[0]
            assert count > 1
            changed.seek(page + 4)
            changed.write(bytes([count - 1]))
    looked = check(daemon.state)
    assert looked.returncode == 65, looked
    daemon.start_again()
    client = daemon.connect()
    assert "is set aside, not deleted" in daemon.log
    assert client("DBSIZE") == {SWAPPED: 300, LEAF_AS_ROOT: left, OF_BACKUP: left}.get(how, 299)
    for how in ("kill", "terminate"):
        reply = view(client("EVENTS", "SINCE", begin))
        assert not reply["complete"] and len(reply["events"]) == 300
        daemon.restart(how)
        client = daemon.connect()
    daemon.stop("terminate")
    assert check(daemon.state).returncode == 0


def test_numbers_rise_without_a_state(filled):
    for file in filled.state.glob("state.db*"):
        file.unlink()
    filled.start_again()
    assert view(filled.connect()("COUNTDOWN", "START", "new"))["generation"] > filled.newest


def test_events_that_cannot_be_read_are_a_gap(daemon):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for n in range(10):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
        if n == 5:
            daemon.back_up(daemon.directory / "copy.db")
    daemon.change_stored("UPDATE events SET payload = x'01ffffffff00' WHERE last_seq = "
        "(SELECT last_seq FROM events ORDER BY last_seq DESC LIMIT 1 OFFSET 1)")  # fmt: skip
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == 10
    reply = view(client("EVENTS", "SINCE", begin))
    assert not reply["complete"] and len(reply["events"]) == 4
    assert "events that were kept cannot be read" in daemon.log
    last = client("EVENTS", "LAST")
    client("COUNTDOWN", "CANCEL", 0)
    assert view(client("EVENTS", "SINCE", last))["complete"]


LARGEST = 9223372036854775807
# Values that no daemon writes: a table, and the assignments for one of its rows.
NONSENSE = [
    ("countdowns", "every_us = -5"),
    ("countdowns", f"deadline_store_us = {LARGEST}"),
    ("countdowns", f"phase = 2, deadline_store_us = {LARGEST}"),
    ("countdowns", f"phase = 1, deadline_store_us = NULL, left_us = -{LARGEST} - 1"),
    ("countdowns", "phase = 7"),
    ("countdowns", "policy = x'70', policy_state = x'0102'"),
    ("countdowns", "id = 1000000000"),
    ("countdowns", "key = x''"),
    ("timers", "id = 4294967295"),
    ("huds", "id = 1000000000"),
    ("huds", "state = x'00'"),
    ("throttles", "id = (1 << 30) - 1"),
    ("throttles", f"interval_us = {LARGEST}"),
    ("throttles", f"moment_store_us = {LARGEST}"),
    ("throttles", f"moment_store_us = -{LARGEST} - 1"),
    ("throttles", f"number = {LARGEST}"),
    ("onces", f"moment_store_us = {LARGEST}"),
    ("gates", f"moment_store_us = -{LARGEST} - 1"),
    ("debounces", f"interval_us = {LARGEST}"),
    ("debounces", f"max_wait_us = {LARGEST}"),
    ("debounces", f"since_store_us = {LARGEST}"),
    ("debounces", f"moment_store_us = -{LARGEST} - 1"),
    ("debounces", f"number = {LARGEST}"),
]
GUARDS = ["throttles", "onces", "gates", "debounces"]


@pytest.mark.parametrize("table, change", NONSENSE)
def test_a_record_that_makes_no_sense_is_not_overwritten(daemon, table, change):
    client = daemon.connect()
    for n in range(5):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
        client("TIMER", "SET", n, "1h")
        client("HUD", "SHOW", n, "DURABLE")
        client("THROTTLE", "TAKE", n, "BURST", 5, "RATE", "5/1h")
        client("ONCE", n, "TTL", "1h")
        client("GATE", "CHECK", n, "action")
        client("DEBOUNCE", n, "1h", "MAXWAIT", "2h")
    count = client("DBSIZE")
    assert count == 35
    kind = GUARDS.index(table) if table in GUARDS else 0
    name = "guards" if table in GUARDS else table
    daemon.change_stored(f"UPDATE {name} SET {change} WHERE id = {kind << 30 | 3}")
    looked = check(daemon.state)
    assert looked.returncode == 65 and "makes no sense" in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == count - 1
    (aside,) = daemon.state.glob("state.db.corrupt-*Z")
    with contextlib.closing(sqlite3.connect(aside)) as database:
        rows = [database.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in ("countdowns", "guards")]
    assert rows == [5, 20]
    assert "no sense" in daemon.log and str(aside) in daemon.log
    # The remaining entities work.
    client("DEBOUNCE", 4, "1h", "MAXWAIT", "2h")
    client("THROTTLE", "TAKE", 4, "BURST", 7, "RATE", "7/2h")
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == count - 1
    daemon.stop("terminate")
    looked = check(daemon.state)
    assert looked.returncode == 0 and "no problems" in looked.stdout, looked


@pytest.mark.parametrize("row", ["first", "newest"])
@pytest.mark.parametrize("change", ["last_seq = 20000000000000000", f"ordinal = {LARGEST}", "after_seq = -1"])
def test_events_with_numbers_that_cannot_be_are_a_gap(daemon, row, change):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for n in range(10):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
    order = "DESC" if row == "newest" else "ASC"
    daemon.change_stored(f"UPDATE events SET {change} WHERE last_seq = (SELECT last_seq FROM events ORDER BY last_seq {order})")
    looked = check(daemon.state)
    assert looked.returncode == 65 and "of events makes no sense" in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == 10
    assert not view(client("EVENTS", "SINCE", begin))["complete"] or row == "first"
    for _ in range(2):
        last = client("EVENTS", "LAST")
        client("COUNTDOWN", "START", "new")
        assert view(client("EVENTS", "SINCE", last))["complete"]
        assert last < 1 << 53
        daemon.restart("kill")
        client = daemon.connect()
    assert client("DBSIZE") == 11


def test_two_records_of_one_key(daemon):
    client = daemon.connect()
    for n in range(5):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
    daemon.change_stored("UPDATE countdowns SET key = CAST('1' AS BLOB) WHERE id = 3")
    looked = check(daemon.state)
    assert looked.returncode == 65 and "1 keys are in several rows of countdowns" in looked.stdout
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 4
    assert len(list(daemon.state.glob("state.db.corrupt-*Z"))) == 1


def test_numbers_that_are_no_file(daemon):
    daemon.stop("terminate")
    (daemon.state / "numbers").unlink()
    os.mkfifo(daemon.state / "numbers")
    code, error = run(*daemon.arguments)
    assert code == 73 and "numbers" in error and "no regular file" in error, error


@pytest.mark.parametrize(
    "sql, says",
    [
        ("PRAGMA user_version = 99", "newer version (schema 99"),
        ("PRAGMA application_id = 7", "another program"),
    ],
)
def test_files_of_others_are_left_alone(daemon, sql, says):
    daemon.change_stored(sql)
    daemon.path.unlink()
    before = (daemon.state / "state.db").read_bytes()
    code, error = run(*daemon.arguments)
    assert code == 73 and says in error, error
    assert "--durability none" in error
    assert (daemon.state / "state.db").read_bytes() == before
    assert not list(daemon.state.glob("*corrupt*"))
    assert not daemon.path.exists()


def test_a_second_daemon_is_turned_away(daemon, tmp_path):
    code, error = run("--socket", str(tmp_path / "other"), "--state-directory", str(daemon.state))
    assert code == 73 and f"pid {daemon.pid}" in error, error
    assert not (tmp_path / "other").exists()


def test_directories(tmp_path, start_daemon):
    socket = ["--socket", str(tmp_path / "socket"), "--state-directory"]
    code, error = run(*socket, str(tmp_path / "a/b/c"))
    assert code == 73 and "a/b/c" in error and "--state-directory" in error, error
    (tmp_path / "file").write_text("")
    code, error = run(*socket, str(tmp_path / "file"))
    assert code == 73 and "file" in error, error
    daemon = start_daemon(state=tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    for name in ("state.db", "numbers", "lock"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o777 == 0o600
    assert daemon.connect()("DBSIZE") == 0


def test_a_directory_of_somebody_else(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        shutil.copy(binary(), f"{place}/countdownd")
        os.mkdir(f"{place}/closed", mode=0o700)
        done = subprocess.run(
            [f"{place}/countdownd", "--socket", f"{place}/socket", "--state-directory", f"{place}/closed"],
            capture_output=True, text=True, timeout=PATIENCE, user=65534, group=65534, extra_groups=[])
    assert done.returncode == 73 and "writable for this user" in done.stderr, done


def test_a_read_only_file_system(tmp_path, start_daemon):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a file system")
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    try:
        daemon = start_daemon(state=place / "state")
        daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h")
        daemon.stop("terminate")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        code, error = run(*daemon.arguments)
        assert code == 73 and "not mounted read-only" in error, error
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        daemon.start_again()
        assert daemon.connect()("COUNTDOWN", "GET", "k")
        daemon.stop("terminate")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_asked_to_end_it_does_not_load_to_the_end(daemon):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k", "EVERY", "1h")
    columns = "generation, uid, phase, deadline_store_us, left_us, step_count, every_us, fires_at_once, sends, refunded"
    daemon.change_stored(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) "
        f"INSERT INTO countdowns (id, key, {columns}) SELECT i + 10, CAST('k' || i AS BLOB), {columns} FROM n, countdowns",
    )
    daemon.start_without_waiting()
    eventually(daemon.listens, "it listens", pause=0.001)
    assert daemon.info("persistence")["loading"] == "1"
    log = len(daemon.log)
    assert daemon.terminate() == 0
    assert "state loaded" not in daemon.log[log:] and "ended" in daemon.log[log:]
    run_sql(daemon.state / "state.db", "DELETE FROM countdowns WHERE id > 10")
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 1
