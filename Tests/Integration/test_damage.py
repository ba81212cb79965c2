"""Starts on a state that is damaged, unusable, or belongs to another program or user."""

import os
import shutil
import subprocess
import tempfile

import pytest

import stored
from countdownd import FIRST_STATE, KEPT, PATIENCE, SECOND_STATE
from countdownd import binary, check, eventually, files_of, request, state_file, states, view

COUNT = 5_000
# The page size of the database, in bytes.
PAGE = 4_096


def run(*arguments, **options):
    """Runs a daemon that cannot start; returns its status and its errors."""
    done = subprocess.run(
        [binary(), *arguments], capture_output=True, text=True, timeout=PATIENCE, **options)
    return done.returncode, done.stderr


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
def test_a_corrupt_file_is_kept(filled, how):
    file = state_file(filled.state)
    assert file.stat().st_size > 2_000_000
    damage(file, how)
    before = files_of(file)
    filled.start_again()
    client = filled.connect()
    count = client("DBSIZE")
    assert (1_000 < count < COUNT) if how == "middle" else count == 0, count
    assert names_of_states(filled) == [FIRST_STATE, SECOND_STATE]
    assert KEPT in filled.log and str(file) in filled.log
    assert view(client("COUNTDOWN", "START", "new"))["generation"] > filled.newest
    # The entities that could be read are stored from now on.
    filled.restart("kill")
    assert filled.connect()("DBSIZE") == count + 1
    assert names_of_states(filled) == [FIRST_STATE, SECOND_STATE]
    assert files_of(file) == before


def names_of_states(daemon):
    return [path.name for path in states(daemon.state)]


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
    ((page,),) = stored.query(file, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    return (page - 1) * PAGE


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
    file, left = state_file(daemon.state), None
    if how == OF_BACKUP:
        shutil.copy(daemon.directory / "copy.db", file)
    page = page_of(file, 100)
    if how == SWAPPED:
        swap(file, page, page_of(file, 200))
    elif how in (LEAF_AS_ROOT, OF_BACKUP):
        left = file.read_bytes()[page : page + PAGE].count(b"row ")
        swap(file, page, root_of(file, "entities"))
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
    assert KEPT in daemon.log and str(file) in daemon.log
    assert client("DBSIZE") == {SWAPPED: 300, LEAF_AS_ROOT: left, OF_BACKUP: left}.get(how, 299)
    for how in ("kill", "terminate"):
        reply = view(client("EVENTS", "SINCE", begin))
        assert not reply["complete"] and len(reply["events"]) == 300
        daemon.restart(how)
        client = daemon.connect()
    daemon.stop("terminate")
    assert check(daemon.state).returncode == 0


def test_numbers_rise_without_a_state(filled):
    for file in filled.state.glob("state-*"):
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
    daemon.change_stored("UPDATE events SET bytes = x'01ffffffff00' WHERE last_seq = "
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
SMALLEST = -LARGEST - 1
# Values that no daemon writes: a kind, and fields of one of its records.
NONSENSE = [
    ("countdown", {"every": -5}),
    ("countdown", {"moment": LARGEST}),
    ("countdown", {"phase": 2, "moment": LARGEST}),
    ("countdown", {"phase": 1, "moment": SMALLEST}),
    ("countdown", {"phase": 7}),
    ("countdown", {"owner": 9}),
    ("countdown", {"fires_at_once": 2}),
    # Details, in which there is nothing but a policy with two bytes of state.
    ("countdown", {"details": 1, "rest": b"\0" + b"\0\0\0\0" + b"\1\1\2"}),
    ("countdown", {"rest": b"more"}),
    ("countdown", {"key": b""}),
    ("countdown", {"place": 1_000_000_000}),
    ("countdown", {"kind": 77}),
    # Pages are never stored.
    ("countdown", {"kind": 9}),
    ("timer", {"place": 4294967295}),
    ("timer", {"late": 3}),
    ("hud", {"place": 1_000_000_000}),
    ("hud", {"rest": b"\0"}),
    ("throttle", {"place": (1 << 30) - 1}),
    ("throttle", {"period": LARGEST}),
    ("throttle", {"arrival": LARGEST}),
    ("throttle", {"arrival": SMALLEST}),
    ("throttle", {"fraction": 0xFFFFFFFF}),
    ("throttle", {"burst": 0}),
    ("once", {"deadline": LARGEST}),
    ("gate", {"until": SMALLEST}),
    ("gate", {"until": None}),
    ("debounce", {"quiet": LARGEST}),
    ("debounce", {"max_wait": LARGEST}),
    ("debounce", {"since": LARGEST}),
    ("debounce", {"last_call": SMALLEST}),
    ("debounce", {"calls": LARGEST}),
]


def nonsense(kind, fields):
    """Returns a change of the record of a kind at place 3."""

    def change(database):
        old = stored.row_id(kind, 3)
        record = stored.records(database, kind)[old]
        id = fields.get("kind", old >> stored.PLACE_BITS) << stored.PLACE_BITS | fields.get("place", 3)
        for name, value in fields.items():
            if name not in ("kind", "place"):
                record.set(name, value, "rest" if name == "rest" else None)
        data = (id, record.bytes, old)
        return database.execute("UPDATE entities SET id = ?, bytes = ? WHERE id = ?", data).rowcount

    return change


@pytest.mark.parametrize("kind, fields", NONSENSE)
def test_a_record_that_makes_no_sense_is_not_overwritten(daemon, kind, fields):
    client = daemon.connect()
    for n in range(5):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
        client("TIMER", "SET", n, "1h")
        client("HUD", "SHOW", n, "DURABLE")
        client("THROTTLE", "TAKE", n, "BURST", 5, "RATE", "5/1h")
        client("ONCE", "BEGIN", n, "TTL", "1h")
        client("GATE", "CHECK", n, "action")
        client("DEBOUNCE", "CALL", n, "1h", "MAXWAIT", "2h")
    count = client("DBSIZE")
    assert count == 35
    daemon.change_stored(nonsense(kind, fields))
    corrupt = state_file(daemon.state)
    before = files_of(corrupt)
    looked = check(daemon.state)
    assert looked.returncode == 65 and "makes no sense" in looked.stdout, looked
    if not {"kind", "place"} & set(fields):
        assert f"record {kind} 3 makes no sense" in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == count - 1
    assert names_of_states(daemon) == [FIRST_STATE, SECOND_STATE]
    assert files_of(corrupt) == before
    assert "no sense" in daemon.log and str(corrupt) in daemon.log
    # The remaining entities work.
    client("DEBOUNCE", "CALL", 4, "1h", "MAXWAIT", "2h")
    client("THROTTLE", "TAKE", 4, "BURST", 7, "RATE", "7/2h")
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == count - 1
    daemon.stop("terminate")
    looked = check(daemon.state)
    assert looked.returncode == 0 and "no problems" in looked.stdout, looked


@pytest.mark.parametrize("row", ["first", "newest"])
@pytest.mark.parametrize("change", ["last_seq = 4000000000000000000", f"ordinal = {LARGEST}", "after_seq = -1"])
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


@pytest.mark.parametrize(
    "change, says, left",
    [
        ("UPDATE entities SET sum = sum + 1 WHERE place = 3", "row countdown 3 makes no sense", 4),
        ("UPDATE entities SET bytes = x'01'", "row countdown 0 and 4 more make no sense", 0),
        ("UPDATE entities SET id = 9 WHERE place = 3", "row countdown 9 makes no sense", 4),
        ("UPDATE events SET sum = sum + 1 WHERE last_seq = (SELECT max(last_seq) FROM events)", "of events makes no sense", 5),
        ("UPDATE events SET ordinal = ordinal + 1", "of events makes no sense", 5),
        ("UPDATE meta SET sum = sum + 1", "the row of meta makes no sense", 5),
    ],
)
def test_a_row_with_a_wrong_sum_is_damage(daemon, change, says, left):
    client = daemon.connect()
    begin = client("EVENTS", "LAST")
    for n in range(5):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
    daemon.change_stored()
    stored.run(state_file(daemon.state), change, keeps_sums=True)
    looked = check(daemon.state)
    assert looked.returncode == 65 and says in looked.stdout, looked
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == left
    assert not view(client("EVENTS", "SINCE", begin))["complete"]
    daemon.stop("terminate")
    assert check(daemon.state).returncode == 0


def test_only_the_first_record_of_a_key_is_loaded(daemon):
    client = daemon.connect()
    for n in range(5):
        client("COUNTDOWN", "START", n, "EVERY", "1h")
    daemon.change_stored(stored.changed("countdown", lambda record: record["key"] in (b"3", b"4"), key=b"1"))
    looked = check(daemon.state)
    assert looked.returncode == 65, looked
    assert "record countdown 3 and 1 more make no sense" in looked.stdout, looked
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 3
    assert names_of_states(daemon) == [FIRST_STATE, SECOND_STATE]


def test_numbers_that_are_no_file(daemon):
    daemon.stop("terminate")
    (daemon.state / "numbers").unlink()
    os.mkfifo(daemon.state / "numbers")
    code, error = run(*daemon.arguments)
    assert code == 73 and "numbers" in error and "no regular file" in error, error


@pytest.mark.parametrize(
    "change, says",
    [
        ("PRAGMA user_version = 99", "newer version (format 99, this version knows 5) (tables; countdownd "),
        (stored.changed("countdown", version=17), "newer version (format 17, this version knows 16) (records; countdownd "),
        (
            lambda database: stored.change_meta(database, version=9),
            "newer version (format 9, this version knows 1) (meta; countdownd ",
        ),
        ("PRAGMA application_id = 7", "another program"),
    ],
    ids=["newer tables", "a newer record", "newer meta", "another program"],
)
def test_files_of_others_are_left_alone(daemon, change, says):
    daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h")
    daemon.change_stored(change)
    daemon.path.unlink()
    file = state_file(daemon.state)
    before = files_of(file)
    code, error = run(*daemon.arguments)
    # 65, not 73: systemd does not try that again.
    assert code == 65 and says in error, error
    assert "--durability none" in error
    assert files_of(file) == before and names_of_states(daemon) == [FIRST_STATE]
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
    for name in (FIRST_STATE, "numbers", "lock"):
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

    def fill(database):
        (record,) = stored.records(database, "countdown").values()
        for n in range(400_000):
            record.set("key", b"k%d" % n)
            stored.add(database, "countdown", n + 10, record.bytes)

    daemon.change_stored(fill)
    daemon.start_without_waiting()
    eventually(daemon.listens, "it listens", pause=0.001)
    assert daemon.info("persistence")["loading"] == "1"
    log = len(daemon.log)
    assert daemon.terminate() == 0
    assert "state loaded" not in daemon.log[log:] and "ended" in daemon.log[log:]
    stored.run(state_file(daemon.state), "DELETE FROM entities WHERE id >= 10")
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 1
