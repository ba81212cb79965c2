"""countdownctl backup, countdownctl state, and restoring a backup."""

import json
import os
import random
import re
import select
import signal
import socket
import stat
import subprocess
import threading

import pytest

from countdownd import FIRST_STATE, KEPT, PATIENCE, SECOND_STATE
from countdownd import binary, check, eventually, files_of, put, request, segments, state_file, states, view

# The page size of the database, in bytes.
PAGE = 4_096
CTL = binary().parent / "countdownctl"


def ctl(daemon, *words):
    return subprocess.run(
        [CTL, *words, "--socket", str(daemon.path)],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def ctl_state(*words):
    """Runs `countdownctl state`, which needs no daemon."""
    return subprocess.run(
        [CTL, "state", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)


def restore(file, state, status=0):
    done = subprocess.run(
        [CTL, "restore", file, "--state-directory", state],
        capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert done.returncode == status, done
    return done.stdout + done.stderr


def leftovers(daemon):
    return [name for name in os.listdir(daemon.directory / "state") if "backup" in name]


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_backup_can_be_read_and_restored(start_daemon, tmp_path, durability):
    daemon = start_daemon(arguments=["--durability", durability])
    client = daemon.connect()
    for number in range(500):
        client("COUNTDOWN", "START", f"k{number}", "EVERY", "1h", "META", "m" * 200)
    client("TIMER", "SET", "t", "1h", "PAYLOAD", "p")
    file = tmp_path / "copy.db"
    file.write_text("an older one")
    done = ctl(daemon, "backup", str(file))
    assert done.returncode == 0, done
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["copy.db"], "nothing else is left there"
    assert leftovers(daemon) == []
    copied = check(file)
    assert copied.returncode == 0 and "no problems" in copied.stdout, copied
    listed = ctl_state("list", "--json", file)
    keys = [(each["kind"], each["key"]) for each in map(json.loads, listed.stdout.splitlines())]
    assert sorted(keys) == sorted([("countdown", f"k{number}") for number in range(500)] + [("timer", "t")])

    # Later changes are not in the backup.
    client("COUNTDOWN", "START", "later")
    before = client("EVENTS", "LAST")
    daemon.terminate()
    state = daemon.state
    replaced = files_of(state / FIRST_STATE)
    assert len(replaced) > 1, "there is a log"
    restore(file, state)
    assert [path.name for path in states(state)] == [FIRST_STATE, SECOND_STATE]
    looked = check(state)
    assert looked.returncode == 0, looked
    assert "countdowns: 500" in looked.stdout and "timers: 1" in looked.stdout
    daemon.start()
    daemon.is_expected_to_run = True
    client = daemon.connect()
    assert client("DBSIZE") == 501
    assert view(client("COUNTDOWN", "GET", "k7"))["meta"] == b"m" * 200
    assert client("COUNTDOWN", "GET", "later") is None
    assert client("EVENTS", "LAST") > before, "no number is given out twice"
    assert not view(client("EVENTS", "SINCE", before))["complete"]
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == 501
    assert not re.search(f"{KEPT}|lost|belongs to another state", daemon.log), daemon.log
    # The state from before stays, and can still be read.
    assert files_of(state / FIRST_STATE) == replaced
    looked = check(state / FIRST_STATE)
    assert looked.returncode == 0 and "countdowns: 501" in looked.stdout, looked
    assert files_of(state / FIRST_STATE) == replaced


def test_check_prints_each_problem_on_a_line_of_its_own(daemon):
    client = daemon.connect()
    for number in range(2_000):
        client("COUNTDOWN", "START", f"k{number}", "EVERY", "1h")
    copy = daemon.directory / "copy.db"
    daemon.back_up(copy)
    with open(copy, "r+b") as file:
        for page in range(10, 14):
            file.seek(page * PAGE + 8)
            file.write(bytes(200))
    looked = check(copy)
    assert looked.returncode == 65, looked
    problems = [line for line in looked.stdout.splitlines() if "Tree" in line or "page" in line]
    assert len(problems) > 1, looked.stdout
    assert all(line.startswith("problem: ") for line in problems), problems
    assert "u{" not in looked.stdout and "***" not in looked.stdout


def test_a_restored_backup_has_the_next_number(daemon):
    """Also if lower numbers are free, and after more than nine states."""
    daemon.connect()("COUNTDOWN", "START", "k")
    copy = daemon.directory / "copy.db"
    daemon.back_up(copy)
    daemon.terminate()
    for before, after in [(9, 10), (10, 11)]:
        state_file(daemon.state).rename(daemon.state / f"state-{before}.db")
        restore(copy, daemon.state)
        assert [path.name for path in states(daemon.state)][-2:] == [f"state-{before}.db", f"state-{after}.db"]
        assert state_file(daemon.state).stat().st_mode & 0o777 == 0o600
    # The log of a state that is gone may fit the same backup.
    daemon.start_again()
    daemon.connect()("COUNTDOWN", "START", "later")
    daemon.terminate()
    state_file(daemon.state).unlink()
    restore(copy, daemon.state)
    assert state_file(daemon.state).name == "state-12.db"
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 1


def test_the_log_names_the_state_that_was_loaded_and_the_backup_that_was_restored(daemon):
    def entries(what):
        return [line for line in daemon.log[begin:].splitlines() if what in line]

    begin = 0
    (loaded,) = entries("state loaded")
    assert f"file={daemon.state}/{FIRST_STATE}" in loaded and "entities=0" in loaded and "age=" not in loaded
    client = daemon.connect()
    for number in range(3):
        client("COUNTDOWN", "START", f"k{number}", "EVERY", "1h")
    copy = daemon.directory / "copy.db"
    daemon.back_up(copy)
    client("TIMER", "SET", "t", "1h")
    daemon.terminate()
    restore(copy, daemon.state)
    begin = len(daemon.log)
    daemon.start_again()
    (loaded,), (restored,) = entries("state loaded"), entries("the state was restored from a backup")
    for line in (loaded, restored):
        assert f"file={daemon.state}/{SECOND_STATE}" in line and "entities=3" in line and "age=" in line, line
    assert f"backup={copy}" in restored and "backup=" not in loaded
    # Once.
    eventually(lambda: "restored" not in (daemon.state / "history").read_text(), "it is noted")
    begin = len(daemon.log)
    daemon.restart("kill")
    assert len(entries("state loaded")) == 1 and entries("restored") == []


def test_keep_names_copies_by_time_and_removes_old_ones(daemon, tmp_path):
    daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h")
    old = [f"countdownd-2020010{day}T000000Z.db" for day in range(1, 6)]
    others = ["countdownd-20200101T000000Z.db.gz", "countdownd.db", "countdownd-x0200101T000000Z.db", "notes"]
    for name in old + others:
        (tmp_path / name).write_text("")
    done = ctl(daemon, "backup", "--keep", "3", "--json", f"{tmp_path}/")
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    new = os.path.basename(said["file"])
    assert re.fullmatch(r"countdownd-20\d{6}T\d{6}Z\.db", new) and said["bytes"] == os.stat(said["file"]).st_size
    assert said["removed"] == [f"{tmp_path}/{name}" for name in old[:3]]
    assert set(os.listdir(tmp_path)) == {*old[3:], *others, new}
    assert check(tmp_path / new).returncode == 0
    done = ctl(daemon, "backup", "--keep", "1", tmp_path)
    assert done.returncode == 0 and f"removed: {tmp_path}/{old[4]}" in done.stdout, done
    assert len(set(os.listdir(tmp_path)) - set(others)) == 1
    for words in (["--keep", "0", tmp_path], ["--keep", "1", "-"]):
        assert ctl(daemon, "backup", *words).returncode == 64


def damaging(path, way, good, bad):
    """Passes one connection on to a daemon, and changes bytes of what it answers."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(way))
    listener.listen()

    def work():
        with listener, listener.accept()[0] as client, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(str(path))
            while True:
                for ready in select.select([client, daemon], [], [])[0]:
                    data = ready.recv(1 << 20)
                    if not data:
                        return
                    (daemon if ready is client else client).sendall(data.replace(good, bad))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_copy_that_is_damaged_removes_no_other(daemon, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    old = folder / "countdownd-20200101T000000Z.db"
    old.write_text("")
    daemon.connect()("COUNTDOWN", "START", "k", "EVERY", "1h", "META", "good" * 9)
    thread = damaging(daemon.path, tmp_path / "way", b"good", b"evil")
    done = subprocess.run(
        [CTL, "backup", "--keep", "1", folder, "--socket", tmp_path / "way"],
        capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    thread.join()
    assert done.returncode == 65 and "countdown 0" in done.stderr, done
    assert os.listdir(folder) == [old.name]
    assert ctl(daemon, "backup", "--keep", "1", folder / "none").returncode == 1


def test_the_log_of_a_state_that_a_backup_has_overwritten_is_set_aside(daemon):
    client = daemon.connect()
    client("COUNTDOWN", "START", "k")
    copy = daemon.directory / "copy.db"
    daemon.back_up(copy)
    client("COUNTDOWN", "START", "later")
    daemon.terminate()
    # Listed after the end: a running daemon may still fold segments and remove them.
    log = {path.name: path.read_bytes() for path in segments(daemon.state)}
    put(copy, state_file(daemon.state))
    daemon.start_again()
    client = daemon.connect()
    assert client("DBSIZE") == 1 and client("COUNTDOWN", "GET", "later") is None
    aside = {path.name.split(".other-")[0]: path.read_bytes() for path in daemon.state.glob("*.other-*")}
    assert aside == log
    assert "belongs to another state" in daemon.log and "lost" not in daemon.log
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == 1


def test_a_backup_goes_to_standard_output(daemon, tmp_path):
    daemon.connect()("COUNTDOWN", "START", "k")
    file = tmp_path / "copy.db"
    with open(file, "wb") as output:
        done = subprocess.run(
            [CTL, "backup", "-", "--socket", str(daemon.path)], stdout=output, stderr=subprocess.PIPE,
            timeout=PATIENCE)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert "countdowns: 1" in check(file).stdout


def test_the_file_is_whole_or_not_there(start_daemon, tmp_path):
    daemon = start_daemon()
    missing = ctl(daemon, "backup", str(tmp_path / "no" / "copy.db"))
    assert missing.returncode == 1 and "cannot make" in missing.stderr
    nothing = start_daemon(arguments=["--durability", "none"])
    refused = ctl(nothing, "backup", str(tmp_path / "copy.db"))
    assert refused.returncode == 4 and "nothing to back up" in refused.stderr
    assert os.listdir(tmp_path) == []


def test_what_is_no_file_is_left_alone(start_daemon, tmp_path):
    daemon = start_daemon()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    before = {name: os.lstat(tmp_path / name).st_ino for name in os.listdir(tmp_path)}
    for name, why in [
        ("link", "symbolic link"), ("dangling", "symbolic link"), ("directory", "a directory"), ("fifo", "no regular file"),
    ]:  # fmt: skip
        refused = ctl(daemon, "backup", str(tmp_path / name))
        assert refused.returncode == 1 and why in refused.stderr, refused
    assert {name: os.lstat(tmp_path / name).st_ino for name in os.listdir(tmp_path)} == before
    assert (tmp_path / "file").read_text() == "kept"


@pytest.fixture
def copying(start_daemon, tmp_path):
    """A daemon, and a suspended `countdownctl backup` that has written a part of the copy."""
    # All of it has room in the log.
    daemon = start_daemon(segment_size="64MiB")
    client = daemon.connect()
    for _ in range(10):
        client.send_bytes(b"".join(request("TIMER", "SET", f"t{n}", "1h", "PAYLOAD", "p" * 4_096) for n in range(1_000)))
        for _ in range(1_000):
            client.reply()
    process = subprocess.Popen(
        [CTL, "backup", str(tmp_path / "copy.db"), "--socket", str(daemon.path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    partial = tmp_path / f"copy.db.{process.pid}.partial"
    eventually(lambda: partial.exists() and partial.stat().st_size > 0, "it copies", pause=0.0005)
    process.send_signal(signal.SIGSTOP)
    assert process.poll() is None and partial.exists(), "it was too fast to be stopped"
    yield daemon, process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_behind(copying, tmp_path, number):
    _, process = copying
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert os.listdir(tmp_path) == []


def test_a_daemon_that_is_killed_meanwhile(copying, tmp_path):
    daemon, process = copying
    daemon.kill()
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4 and "closed the connection" in errors
    assert os.listdir(tmp_path) == []


def test_a_part_that_a_killed_process_left_is_no_obstacle(daemon, tmp_path):
    copy = tmp_path / "copy.db"
    # The shell has the process number that the program gets.
    script = 'echo old > "$1.$$.partial" && exec "$2" backup "$1" --socket "$3"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", copy, CTL, daemon.path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert os.listdir(tmp_path) == ["copy.db"]


def test_one_at_a_time_and_it_goes_with_its_connection(daemon, client):
    client("COUNTDOWN", "START", "k")
    number = client("BACKUP", "BEGIN")
    other = daemon.connect()
    other.error("LIMIT", "BACKUP", "BEGIN").startswith("LIMIT")
    other.error("NOTFOUND", "BACKUP", "SIZE", number).startswith("NOTFOUND")
    size = eventually(lambda: client("BACKUP", "SIZE", number), "it is made")
    first = client("BACKUP", "READ", number, 0, 1000)
    rest = client("BACKUP", "READ", number, 1000, 1 << 20)
    assert len(first) == 1000 and first.startswith(b"SQLite format 3\0")
    assert len(first) + len(rest) == size
    assert client("BACKUP", "READ", number, size, 10) == b""
    assert leftovers(daemon) == []
    client.close()
    other.retry("LIMIT", "BACKUP", "BEGIN")


def test_an_end_before_it_is_made(daemon, client):
    for _ in range(20):
        # The one before may still be there.
        number = client.retry("LIMIT", "BACKUP", "BEGIN")
        assert client("BACKUP", "END", number) == "OK"
        client.error("NOTFOUND", "BACKUP", "SIZE", number).startswith("NOTFOUND")
    eventually(lambda: leftovers(daemon) == [], "nothing is left")


def test_what_kill_9_leaves_is_removed(start_daemon):
    daemon = start_daemon()
    # A copy that a user has made stays.
    own = daemon.state / "backup.db"
    assert ctl(daemon, "backup", str(own)).returncode == 0
    daemon.kill()
    for name in ("", ".partial", ".partial-journal"):
        (daemon.state / f".countdownd-backup-{daemon.pid}{name}").write_text("half")
    daemon.start_again()
    assert leftovers(daemon) == ["backup.db"]
    assert ctl(daemon, "backup", str(daemon.state / "other.db")).returncode == 0
    assert leftovers(daemon) == ["backup.db"]


def test_check_says_what_is_wrong(start_daemon, tmp_path):
    missing = check(tmp_path / "nothing")
    assert missing.returncode == 1 and "nothing" in missing.stderr
    empty = tmp_path / "empty.db"
    empty.write_text("")
    assert "empty: a daemon starts fresh with it" in check(empty).stdout
    daemon = start_daemon()
    client = daemon.connect()
    for number in range(2_000):
        client.send("COUNTDOWN", "START", f"k{number}")
    for _ in range(2_000):
        client.reply()
    in_use = check(daemon.directory / "state")
    assert in_use.returncode == 1 and str(daemon.pid) in in_use.stderr
    daemon.back_up(tmp_path / "copy.db")
    # A daemon that runs keeps its state.
    assert str(daemon.pid) in restore(tmp_path / "copy.db", daemon.state, status=1)
    assert len(states(daemon.state)) == 1
    daemon.terminate()
    fine = check(daemon.directory / "state")
    assert fine.returncode == 0 and "countdowns: 2000" in fine.stdout and "no problems" in fine.stdout
    file = state_file(daemon.state)
    content = bytearray(file.read_bytes())
    for page in range(10, 20):
        content[page * PAGE + 100 : page * PAGE + 900] = random.Random(page).randbytes(800)
    file.write_bytes(content)
    damaged = check(daemon.directory / "state")
    assert damaged.returncode == 65, damaged
    # A damaged file is no backup.
    assert restore(file, daemon.state, status=65)
    assert len(states(daemon.state)) == 1
    assert "problem: " in damaged.stdout or "corrupt" in damaged.stderr
    listed = ctl_state("list", "--json", "--kind", "countdown", file)
    assert listed.returncode == 65 and listed.stderr, listed
    # The copy has what the damaged file had.
    assert ctl_state("list", "--json", tmp_path / "copy.db").stdout.count("\n") == 2_000
