"""What the daemon does when its state cannot be stored, or not be read."""

import os
import sqlite3
import subprocess
import time

import pytest

from countdownd import Daemon, Error, binary, eventually, request, view
from fault_injection import Faults

POWERS = ["process", "power"]


def calls_of_a_start(tmp_path):
    """How many calls it takes until the daemon is ready: the nth after them is a commit's."""
    state = tmp_path / "counted"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = Daemon(state=state, environment=faults.environment())
    eventually(lambda: daemon.info("persistence")["loading"] == "0", "it has loaded")
    count = len(faults.calls())
    daemon.close()
    return count


class Trouble:
    """A small file system of its own for the state; it can be filled and emptied."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", directory], check=True
        )

    def fill(self):
        with open(self.directory / "ballast", "ab", buffering=0) as ballast:
            for size in [4096, 1]:
                try:
                    while True:
                        ballast.write(b"x" * size)
                except OSError:
                    pass

    def empty(self):
        (self.directory / "ballast").unlink()

    def close(self):
        subprocess.run(["umount", "-l", self.directory], check=True)


@pytest.fixture
def small(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    trouble = Trouble(tmp_path / "small")
    yield trouble
    trouble.close()


@pytest.mark.parametrize("durability", POWERS)
def test_a_full_disk_refuses_what_would_be_lost(start_daemon, small, durability):
    daemon = start_daemon(state=small.directory, arguments=["--durability", durability])
    client = daemon.connect()
    assert view(client("COUNTDOWN", "START", "kept", "EVERY", "1h"))["accepted"]
    client("COUNTDOWN", "START", "soon", "COUNT", 1, "EVERY", "2s")
    client("TIMER", "SET", "timer", "1h")
    listener = daemon.connect(protocol=3)
    listener("PSUBSCRIBE", "*")
    while listener.has_more():
        listener.push()
    before = view(client("COUNTDOWN", "GET", "kept"))["generation"]

    small.fill()
    # Pages that are there already may be written once more.
    number = 0
    while True:
        reply = client("COUNTDOWN", "START", f"x{number}", "META", "m" * 1000)
        if isinstance(reply, Error):
            break
        number += 1
    assert reply.code == "READONLY"
    assert client("COUNTDOWN", "GET", f"x{number}") is None
    refused = [
        ["COUNTDOWN", "START", "y"], ["COUNTDOWN", "CANCEL", "kept"], ["COUNTDOWN", "PAUSE", "kept"],
        ["COUNTDOWN", "RETIME", "kept", "1s"], ["TIMER", "SET", "timer", "5s"], ["TIMER", "DEL", "timer"],
        ["TIMER", "SET", "new", "5s"],
    ]
    for words in refused:
        assert client(*words).code == "READONLY", words
    assert view(client("COUNTDOWN", "GET", "kept"))["generation"] == before
    assert view(client("COUNTDOWN", "GET", "kept"))["state"] == b"counting"
    assert client("COUNTDOWN", "GET", "y") is None and client("TIMER", "GET", "new") is None
    # What is a connection's is not stored, and goes on.
    assert view(client("COUNTDOWN", "START", "mine", "OWNER", "connection"))["accepted"]
    assert view(client("TIMER", "SET", "mine", "1ms", "OWNER", "connection"))["key"] == b"mine"
    assert client("HUD", "SHOW", "screen")
    info = daemon.info("persistence")
    assert info["read_only"] == "1" and "no space left" in info["last_error"]
    assert "Free space" in daemon.log
    # Time goes on, and what it does is told once.
    heard = []
    while not any(event["event"] == "ready" for _, event in heard):
        heard.append(listener.event())
    told = [(channel, event["event"]) for channel, event in heard]
    assert (b"countdown:soon", "ready") in told
    assert {channel for channel, _ in told} & {b"countdown:y", b"timer:new"} == set()
    assert f"countdown:x{number}".encode() not in {channel for channel, _ in told}

    small.empty()
    begin = time.monotonic()
    eventually(lambda: daemon.info("persistence")["read_only"] == "0", "it can write again")
    assert view(client("COUNTDOWN", "START", "y"))["accepted"]
    assert time.monotonic() - begin < 10
    assert "can be stored again" in daemon.log
    daemon.restart("kill")
    client = daemon.connect()
    keys = {view(reply)["key"] for reply in client("COUNTDOWN", "LIST", "LIMIT", 1000)[1]}
    assert keys == {b"kept", b"soon", b"y", *(b"x%d" % n for n in range(number))}
    assert view(client("COUNTDOWN", "GET", "soon"))["state"] == b"ready"
    assert view(client("TIMER", "GET", "timer"))["state"] == b"running"


@pytest.mark.parametrize("action", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("durability", POWERS)
def test_a_turn_that_cannot_be_stored_never_was(tmp_path, start_daemon, durability, action):
    """Pipelines of several clients, so that with `power` turns wait behind the one that fails."""
    at = calls_of_a_start(tmp_path) + 25
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, environment=faults.environment(at=at, action=action, lasting=True),
        arguments=["--durability", durability],
    )
    control = daemon.connect()
    for n in range(5):
        assert view(control("COUNTDOWN", "START", f"old{n}", "EVERY", "1h"))["accepted"]
    listener = daemon.connect(protocol=3)
    listener("PSUBSCRIBE", "*")
    clients = [daemon.connect() for _ in range(4)]
    done, sent = {}, [[] for _ in clients]
    for turn in range(40):
        for number, client in enumerate(clients):
            key = f"{number}-{turn}"
            words = [
                ("COUNTDOWN", "START", key, "EVERY", "1h"), ("COUNTDOWN", "GET", key),
                # Key and place go to what is not stored, and back.
                ("COUNTDOWN", "CANCEL", f"old{number}"),
                ("COUNTDOWN", "START", f"old{number}", "OWNER", "connection"),
                ("COUNTDOWN", "CANCEL", f"old{number}"),
                ("COUNTDOWN", "START", f"old{number}", "EVERY", "1h"),
                ("TIMER", "SET", f"t{number}", "1h", "PAYLOAD", turn),
            ]
            client.send_bytes(b"".join(request(*command) for command in words))
            sent[number] += [(key, command) for command in words]
    for number, client in enumerate(clients):
        for key, command in sent[number]:
            reply = client.reply()
            if command[1] == "START" and command[2] == key:
                done[key] = not isinstance(reply, Error)
            elif command[1] == "GET":
                # It never sees what did not come about.
                assert isinstance(reply, Error) or (reply is not None) == done[key], key
            assert not isinstance(reply, Error) or reply.code in {"READONLY", "NOTFOUND"}, reply
    assert set(done.values()) == {True, False}
    assert daemon.info("persistence")["read_only"] == "1"
    for key, is_done in done.items():
        assert (control("COUNTDOWN", "GET", key) is not None) == is_done, key
    assert view(control("COUNTDOWN", "GET", "old4"))["state"] == b"counting"
    started = set()
    while listener.has_more(1):
        _, event = listener.event()
        if event["event"] == "started":
            started.add(event["key"])
    assert not [key for key, is_done in done.items() if not is_done and key in started]
    faults.mend()
    eventually(lambda: daemon.info("persistence")["read_only"] == "0", "it can write again")
    kept = {key for key in done if control("COUNTDOWN", "GET", key)}
    assert kept == {key for key in done if done[key]}
    assert view(control("COUNTDOWN", "START", "after"))["accepted"]
    daemon.restart("kill")
    control = daemon.connect()
    assert {key for key in done if control("COUNTDOWN", "GET", key)} == kept
    assert control("COUNTDOWN", "GET", "after")


@pytest.mark.parametrize("durability", POWERS)
def test_a_deadline_that_was_taken_back_counts_again(start_daemon, small, durability):
    """RETIME to later cannot be stored: so it is due when it was to be before."""
    daemon = start_daemon(state=small.directory, arguments=["--durability", durability])
    client = daemon.connect()
    client("TIMER", "SET", "wall", "1500ms", "CLOCK", "wall")
    client("TIMER", "SET", "boot", "1500ms")
    client("COUNTDOWN", "START", "countdown", "COUNT", 1, "EVERY", "1500ms")
    listener = daemon.connect(protocol=3)
    listener("PSUBSCRIBE", "*")
    small.fill()
    later = [
        *(("COUNTDOWN", "START", f"x{n}", "META", "m" * 4000) for n in range(500)),
        ("TIMER", "RETIME", "wall", "1h"), ("TIMER", "RETIME", "boot", "1h"),
        ("COUNTDOWN", "RETIME", "countdown", "1h"),
    ]
    client.send_bytes(b"".join(request(*words) for words in later))
    replies = [client.reply() for _ in later]
    assert [reply.code for reply in replies[-3:]] == ["READONLY"] * 3
    due = {(b"timer:wall", "fired"), (b"timer:boot", "fired"), (b"countdown:countdown", "ready")}
    while due:
        channel, event = listener.event()
        due.discard((channel, event["event"]))
        assert event["event"] != "retimed"
    assert daemon.info("persistence")["read_only"] == "1"
    small.empty()
    eventually(lambda: daemon.info("persistence")["read_only"] == "0", "it can write again")
    assert client("TIMER", "GET", "wall") is None


def run(*arguments):
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr


def corrupt(path, where):
    data = bytearray(path.read_bytes())
    data[where : where + 400] = b"\xa5" * 400
    path.write_bytes(data)


@pytest.mark.parametrize("where", ["header", "middle"])
def test_a_corrupt_file_is_set_aside(daemon, where):
    client = daemon.connect()
    client.send_bytes(b"".join(request("COUNTDOWN", "START", n, "META", "m" * 500) for n in range(20_000)))
    newest = max(view(client.reply())["generation"] for _ in range(20_000))
    daemon.stop("terminate")
    file = daemon.state / "state.db"
    assert file.stat().st_size > 5_000_000
    corrupt(file, 0 if where == "header" else file.stat().st_size * 3 // 4 // 1024 * 1024)
    data = file.read_bytes()
    daemon.start_again()
    client = daemon.connect()
    count = client("DBSIZE")
    assert count == 0 if where == "header" else 5_000 < count < 20_000
    (aside,) = daemon.state.glob("state.db.corrupt-*Z")
    assert aside.read_bytes() == data
    assert "was set aside, not deleted" in daemon.log and str(aside) in daemon.log
    assert view(client("COUNTDOWN", "START", "new"))["generation"] > newest
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == count + 1


def test_a_record_that_makes_no_sense_is_not_overwritten(daemon):
    client = daemon.connect()
    for n in range(10):
        client("COUNTDOWN", "START", n)
    daemon.stop("terminate")
    with sqlite3.connect(daemon.state / "state.db") as database:
        database.execute("UPDATE countdowns SET every_us = -5 WHERE id = 3")
    database.close()
    daemon.start_again()
    assert daemon.connect()("DBSIZE") == 9
    assert len(list(daemon.state.glob("state.db.corrupt-*Z"))) == 1
    assert "1 records in it make no sense" in daemon.log
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == 9


@pytest.mark.parametrize(
    "sql, says",
    [
        ("PRAGMA user_version = 99", "newer version"),
        ("PRAGMA application_id = 7", "another program"),
    ],
)
def test_files_of_others_are_left_alone(daemon, sql, says):
    daemon.stop("terminate")
    with sqlite3.connect(daemon.state / "state.db") as database:
        database.execute(sql)
    database.close()
    before = (daemon.state / "state.db").read_bytes()
    code, error = run(*daemon.arguments)
    assert code == 73 and says in error, error
    assert "--durability none" in error
    assert (daemon.state / "state.db").read_bytes() == before
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
    assert (tmp_path / "new/state.db").stat().st_mode & 0o777 == 0o600
    assert daemon.connect()("DBSIZE") == 0
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0)
        code, error = run(*socket, str(tmp_path / "closed"))
        assert code == 73 and "closed" in error, error
