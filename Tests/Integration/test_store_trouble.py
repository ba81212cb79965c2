"""A state that cannot be stored: READONLY if that is known beforehand, else the daemon ends."""

import json
import os
import re
import resource
import shutil
import subprocess
import time

import pytest

from countdownd import FIRST_STATE, KEPT, PATIENCE, SECOND_STATE, Client, Closed, Error
from countdownd import binary, eventually, put, request, segments, state_file, states, view
from fault_injection import Faults

POWERS = ["process", "power"]
# What the log, STATUS= and INFO advise after an error.
ADVICE = {"EIO": "Look into the kernel's log", "EROFS": "writable for this user"}


class SmallDisk:
    """A small separate file system for the state, which tests can fill and empty."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", directory], check=True)

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
    disk = SmallDisk(tmp_path / "small")
    yield disk
    disk.close()


def is_writable(daemon):
    return daemon.info("persistence")["read_only"] == "0"


def backup(client):
    """Makes a backup; returns its size, or an error."""
    id = client("BACKUP", "BEGIN")
    size = eventually(lambda: client("BACKUP", "SIZE", id), "it is made, or not")
    client("BACKUP", "END", id)
    return size


def start(client, key, *words):
    return client("COUNTDOWN", "START", key, "EVERY", "1h", *words)


def is_refused(client, key, *words):
    """Starts a countdown; returns whether it is refused because it cannot be stored."""
    return isinstance(client.either("READONLY", "COUNTDOWN", "START", key, "EVERY", "1h", *words), Error)


def is_stored(client, key):
    return client("COUNTDOWN", "GET", key) is not None


def start_until_refused(client):
    """Starts countdowns of 1 KiB until one is refused; returns how many were accepted."""
    number = 0
    while not is_refused(client, f"x{number}", "META", "m" * 1000):
        number += 1
    assert not is_stored(client, f"x{number}")
    return number


@pytest.mark.parametrize("durability", POWERS)
def test_a_full_disk_refuses_changes_before_they_are_made(start_daemon, small, told, durability):
    daemon = start_daemon(
        state=small.directory / "state", arguments=["--durability", durability],
        environment=os.environ | told.environment, segment_size="64KiB")  # fmt: skip
    client = daemon.connect()
    start(client, "kept")
    client("COUNTDOWN", "START", "soon", "COUNT", 1, "EVERY", "2s")
    client("TIMER", "SET", "timer", "1h")
    listener = daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    listener.caught_up(client)
    before = view(client("COUNTDOWN", "GET", "kept"))["generation"]
    small.fill()
    # The reserved space of the log is used first.
    count = start_until_refused(client)
    assert count > 0
    for words in [
        ["COUNTDOWN", "START", "y"], ["COUNTDOWN", "CANCEL", "kept"], ["COUNTDOWN", "PAUSE", "kept"],
        ["COUNTDOWN", "RETIME", "kept", "1s"], ["TIMER", "SET", "timer", "5s"], ["TIMER", "DEL", "timer"],
        ["TIMER", "SET", "new", "5s"],
    ]:  # fmt: skip
        client.error("READONLY", *words)
    assert view(client("COUNTDOWN", "GET", "kept"))["generation"] == before
    assert view(client("COUNTDOWN", "GET", "kept"))["state"] == b"counting"
    assert not is_stored(client, "y") and client("TIMER", "GET", "new") is None
    # Entities owned by a connection are not stored, so they still work.
    assert view(client("COUNTDOWN", "START", "mine", "OWNER", "connection"))["accepted"]
    assert view(client("TIMER", "SET", "mine", "1ms", "OWNER", "connection"))["key"] == b"mine"
    assert client("HUD", "SHOW", "screen")
    info = daemon.info("persistence")
    assert info["read_only"] == "1" and "no space left" in info["last_error"]
    assert "Free space" in daemon.log
    eventually(lambda: "Free space" in told.status(), "systemd has the status")
    # Deadlines still fire, and each event is sent once.
    heard = []
    while (b"countdown:soon", "ready") not in heard:
        channel, event = listener.event()
        heard.append((channel, event["event"]))
    assert (b"timer:mine", "fired") in heard
    silent = {b"countdown:y", b"timer:new", f"countdown:x{count}".encode()}
    assert not {channel for channel, _ in heard} & silent

    small.empty()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert view(client("COUNTDOWN", "START", "y"))["accepted"]
    assert "can be stored again" in daemon.log
    eventually(lambda: "read-only" not in told.status(), "systemd has the status")
    eventually(lambda: isinstance(backup(client), int), "a copy can be made")
    daemon.restart("kill")
    client = daemon.connect()
    keys = {view(reply)["key"] for reply in client("COUNTDOWN", "LIST", "LIMIT", 1000)[1]}
    assert keys == {b"kept", b"soon", b"y", *(b"x%d" % n for n in range(count))}
    assert view(client("COUNTDOWN", "GET", "soon"))["state"] == b"ready"
    assert view(client("TIMER", "GET", "timer"))["state"] == b"running"


@pytest.mark.parametrize("to", ["file", "standard output"])
def test_a_full_disk_can_be_backed_up_to_another_one(start_daemon, small, tmp_path, to):
    daemon = start_daemon(state=small.directory / "state", segment_size="64KiB")
    client = daemon.connect()
    for number in range(2_000):
        start(client, f"before{number}")
    client("COUNTDOWN", "CANCEL", "before7")
    small.fill()
    # The newest of these are in the log only, as there is no room to fold it.
    count = start_until_refused(client)
    assert count > 0 and not is_writable(daemon)
    copy = tmp_path / "copy.db"
    command = [binary().parent / "countdownctl", "--socket", daemon.path, "backup"]
    if to == "file":
        done = subprocess.run([*command, copy], capture_output=True, timeout=PATIENCE)
    else:
        with open(copy, "wb") as output:
            done = subprocess.run([*command, "-"], stdout=output, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert not list((small.directory / "state").glob("backup*"))
    looked = subprocess.run(
        [command[0], "state", "check", copy], capture_output=True, text=True, timeout=PATIENCE)
    assert looked.returncode == 0 and f"countdowns: {1_999 + count}\n" in looked.stdout, looked
    # A daemon continues with it, elsewhere.
    other = start_daemon(is_waited_for=False)
    other.wait_until_started()
    other.terminate()
    restored = subprocess.run(
        [command[0], "restore", copy, "--state-directory", other.state], capture_output=True, timeout=PATIENCE)
    assert restored.returncode == 0, restored
    other.start_again()
    assert other.connect()("DBSIZE") == 1_999 + count
    assert is_stored(other.connect(), f"x{count - 1}")
    # It was no loss of the daemon that is short of room.
    assert client("DBSIZE") == 1_999 + count
    small.empty()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert isinstance(backup(client), int)


@pytest.mark.parametrize("is_read_only", [False, True])
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_start_on_a_full_disk_has_everything(start_daemon, small, how, is_read_only):
    daemon = start_daemon(state=small.directory / "state", segment_size="64KiB")
    client = daemon.connect()
    start(client, "kept")
    small.fill()
    count = start_until_refused(client) if is_read_only else 0
    daemon.restart(how)
    client = daemon.connect()
    assert client("DBSIZE") == count + 1
    assert view(client("COUNTDOWN", "START", "mine", "OWNER", "connection"))["accepted"]
    small.empty()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert view(start(client, "new"))["accepted"]


class Moved:
    """A state file, or the whole state directory, that a test moves away."""

    def __init__(self, state, what):
        self.path = {"directory": state, "database": state_file(state), "log": segments(state)[0]}[what]
        self.aside = state.parent / "aside"

    def away(self):
        self.path.rename(self.aside)
        # The daemon checks at most once per millisecond.
        time.sleep(0.002)

    def back(self):
        self.aside.rename(self.path)


@pytest.mark.parametrize("how", ["moved", "replaced"])
@pytest.mark.parametrize("what", ["directory", "database", "log"])
def test_files_that_a_start_would_not_find_are_not_written_to(tmp_path, start_daemon, what, how):
    daemon = start_daemon(state=tmp_path / "state")
    client = daemon.connect()
    start(client, "before")
    moved = Moved(daemon.state, what)
    moved.away()
    if how == "replaced":
        (shutil.copytree if what == "directory" else shutil.copy)(moved.aside, moved.path)
    client.error("READONLY", "COUNTDOWN", "START", "refused")
    client.error("READONLY", "COUNTDOWN", "CANCEL", "before")
    error, advice = {
        "moved": ("is missing", "Put it back as it was"), "replaced": ("was replaced", "Put the state directory back")}[how]
    assert error in daemon.info("persistence")["last_error"] and advice in daemon.log
    if how == "replaced":
        (shutil.rmtree if what == "directory" else os.unlink)(moved.path)
    moved.back()
    eventually(lambda: is_writable(daemon), "it has noticed that it is back")
    assert view(start(client, "after"))["accepted"]
    daemon.restart("kill")
    client = daemon.connect()
    assert client("DBSIZE") == 2
    assert is_stored(client, "before") and is_stored(client, "after")


@pytest.mark.parametrize("how", ["moved away", "terminate", "kill"])
def test_a_newer_state_refuses_changes_until_it_is_gone_or_continued_with(start_daemon, told, how):
    daemon = start_daemon(environment=os.environ | told.environment)
    client = daemon.connect()
    start(client, "before")
    copy = daemon.directory / "copy.db"
    daemon.back_up(copy)
    start(client, "after")
    client("COUNTDOWN", "START", "soon", "COUNT", 1, "EVERY", "300ms")
    newer = daemon.state / SECOND_STATE
    put(copy, newer)
    # The daemon checks at most once per millisecond.
    time.sleep(0.002)
    client.error("READONLY", "COUNTDOWN", "START", "refused")
    client.error("READONLY", "COUNTDOWN", "CANCEL", "before")
    assert f"{newer} is a newer state" in daemon.info("persistence")["last_error"]
    eventually(lambda: "Restart countdownd to continue with it" in told.status(), "systemd has the status")
    assert "or move it away" in daemon.log
    eventually(lambda: view(client("COUNTDOWN", "GET", "soon"))["state"] == b"ready", "time goes on")
    assert newer.read_bytes() == copy.read_bytes()
    if how == "moved away":
        newer.unlink()
        eventually(lambda: is_writable(daemon), "it has noticed that it is gone")
        assert view(start(client, "later"))["accepted"]
        daemon.restart("kill")
        expected = {b"before", b"after", b"soon", b"later"}
    else:
        daemon.restart(how)
        expected = {b"before"}
    client = daemon.connect()
    assert {view(reply)["key"] for reply in client("COUNTDOWN", "LIST")[1]} == expected
    assert view(start(client, "new"))["accepted"]
    assert KEPT not in daemon.log and "lost" not in daemon.log


@pytest.mark.parametrize("durability", POWERS)
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_changes_by_time_are_stored_once_that_is_possible(tmp_path, start_daemon, durability, how):
    daemon = start_daemon(state=tmp_path / "state", arguments=["--durability", durability])
    client, listener = daemon.connect(), daemon.connect(protocol=3)
    begin = client("EVENTS", "LAST")
    client("TIMER", "SET", "first", "300ms")
    client("COUNTDOWN", "START", "then", "COUNT", 1, "EVERY", "600ms")
    listener.send("PSUBSCRIBE", "*")
    listener.push()
    moved = Moved(daemon.state, "database")
    moved.away()
    listener.events(lambda event: event["event"] == "ready")
    assert not is_writable(daemon)
    told = view(client("EVENTS", "SINCE", begin))["events"]
    assert [json.loads(line)["event"] for _, line in told] == ["set", "started", "fired", "ready"]
    moved.back()
    # An orderly end stores the changes at once.
    if how == "kill":
        eventually(lambda: is_writable(daemon), "it can write again")
    daemon.restart(how)
    client = daemon.connect()
    assert view(client("COUNTDOWN", "GET", "then"))["state"] == b"ready"
    assert client("TIMER", "GET", "first") is None
    after = view(client("EVENTS", "SINCE", begin))
    assert after["complete"] and after["events"] == told


def test_a_reload_does_not_hide_that_nothing_can_be_stored(tmp_path, start_daemon, told):
    daemon = start_daemon(state=tmp_path / "state", environment=os.environ | told.environment)
    client = daemon.connect()
    moved = Moved(daemon.state, "database")
    moved.away()
    client.error("READONLY", "COUNTDOWN", "START", "k")
    eventually(lambda: "read-only" in told.status(), "systemd has the status")
    client("CONFIG", "RELOAD")
    eventually(lambda: "configuration reloaded" in told.status(), "systemd has the outcome")
    assert "read-only" in told.status()
    daemon.config_path.write_text("nonsense: 1\n")
    client.error("ERR", "CONFIG", "RELOAD")
    eventually(lambda: "is refused" in told.status(), "systemd has the outcome")
    assert "read-only" in told.status()
    # Nor does the recovery hide that the configuration is refused.
    moved.back()
    eventually(lambda: is_writable(daemon), "it can write again")
    eventually(lambda: "read-only" not in told.status(), "systemd has the status")
    assert "is refused" in told.status()
    daemon.config_path.write_text("")
    client("CONFIG", "RELOAD")
    eventually(lambda: told.status() == "STATUS=configuration reloaded", told.status)


@pytest.fixture
def faulty(tmp_path, start_daemon, told):
    """Starts a daemon whose calls fail between `damage` and `mend`."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)

    def start_faulty(action, durability="process", log=False, **where):
        environment = faults.environment(at=1, action=action, lasting=True, log=log, **where)
        daemon = start_daemon(
            state=state, arguments=["--durability", durability], segment_size="64KiB",
            environment=environment | told.environment)  # fmt: skip
        eventually(lambda: "READY=1" in (told.status(), told.lines)[1], "it has started")
        return faults, daemon

    return start_faulty


@pytest.mark.parametrize("durability", POWERS)
@pytest.mark.parametrize("action", ADVICE)
def test_a_batch_that_cannot_be_stored_for_a_second_ends_the_daemon(faulty, action, durability):
    faults, daemon = faulty(action, durability=durability)
    clients = [daemon.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        assert view(start(client, f"old{number}"))["accepted"]
    listener = daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    listener.caught_up(client)
    faults.damage()
    for number, client in enumerate(clients):
        client.send_bytes(
            request("COUNTDOWN", "START", f"new{number}") + request("COUNTDOWN", "CANCEL", f"old{number}")
            + request("COUNTDOWN", "START", f"mine{number}", "OWNER", "connection"))  # fmt: skip
    # No client receives a reply.
    assert daemon.process.wait(PATIENCE) == 74
    for client in [*clients, listener]:
        with pytest.raises(Closed):
            client.receive()
    assert "critical: ending with status 74, as changes cannot be stored" in daemon.log
    assert ADVICE[action] in daemon.log
    faults.mend()
    daemon.start_again()
    client = daemon.connect()
    for number in range(len(clients)):
        # A batch is stored as a whole or not at all.
        assert is_stored(client, f"old{number}") != is_stored(client, f"new{number}")
        assert not is_stored(client, f"mine{number}")
    assert not re.search(f"{KEPT}|set aside|lost", daemon.log) and len(states(daemon.state)) == 1


@pytest.mark.parametrize("durability", POWERS)
def test_replies_and_events_wait_for_a_disk_that_fails_for_a_moment(faulty, durability):
    faults, daemon = faulty("EIO", durability=durability, log=True)
    client, listener = daemon.connect(), daemon.connect(protocol=3)
    listener.send("SUBSCRIBE", "countdown:k")
    listener.push()
    listener.push()
    faults.damage()
    before = len(faults.calls())
    client.send("COUNTDOWN", "START", "k", "EVERY", "1h")
    eventually(lambda: len(faults.calls()) > before + 2, "it tries again and again to store it")
    assert not client.has_more() and not listener.has_more()
    faults.mend()
    assert view(client.reply())["accepted"]
    assert listener.event()[1]["event"] == "started"
    assert is_writable(daemon)


@pytest.mark.parametrize("action", ["ENOSPC", *ADVICE])
def test_a_next_segment_that_cannot_be_reserved_refuses_changes(faulty, action):
    """No segment can be folded and used again, either."""
    faults, daemon = faulty(action, file=f"{FIRST_STATE}*,.changes.new")
    client = daemon.connect()
    start(client, "kept")
    faults.damage()
    count = start_until_refused(client)
    assert count > 0
    client.error("READONLY", "COUNTDOWN", "CANCEL", "kept")
    assert view(client("COUNTDOWN", "START", "mine", "OWNER", "connection"))["accepted"]
    assert (ADVICE | {"ENOSPC": "Free space"})[action] in daemon.info("persistence")["last_error"]
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert client("COUNTDOWN", "CANCEL", "kept") == 1
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == count


def test_folding_that_fails_is_reported(faulty, told):
    """Changes are accepted until the log reaches its maximum length."""
    faults, daemon = faulty("EIO", file=f"{FIRST_STATE}*")
    client = daemon.connect()
    accepted = 0

    def persistence(name):
        nonlocal accepted
        if not is_refused(client, f"k{accepted}", "META", "m" * 4_000):
            accepted += 1
        return daemon.info("persistence")[name]

    faults.damage()
    eventually(lambda: persistence("fold_error"), "it has failed", pause=0)
    assert ADVICE["EIO"] in daemon.info("persistence")["fold_error"]
    eventually(lambda: "folding fails" in told.status(), "systemd has the status")
    assert ADVICE["EIO"] in told.status() and "read-only" not in told.status()
    # INFO, METRICS and the status have one source, so these agree.
    assert b"\ncountdownd_folding_fails 1\n" in client("METRICS")
    assert is_writable(daemon)
    eventually(lambda: persistence("read_only") == "1", "the log is as long as it may be", pause=0)
    assert int(daemon.info("persistence")["log_segments"]) == 65
    eventually(lambda: "read-only" in told.status(), "systemd has the status")
    # Further failures are not logged.
    assert daemon.log.count("cannot be brought to the state file") == 1
    faults.mend()
    eventually(lambda: daemon.info("persistence")["fold_error"] == "", "it has worked")
    assert b"\ncountdownd_folding_fails 0\n" in client("METRICS")
    eventually(lambda: is_writable(daemon), "it can write again")
    eventually(lambda: daemon.log.count("is brought to the state file again") == 1, "it is logged")
    eventually(lambda: daemon.info("persistence")["log_segments"] == "1", "all is folded")
    daemon.restart("kill")
    assert daemon.connect()("DBSIZE") == accepted


def test_a_file_size_limit_that_is_too_small_is_said_at_the_start(tmp_path):
    done = subprocess.run(
        [binary(), "--socket", tmp_path / "socket", "--state-directory", tmp_path / "state"],
        capture_output=True, text=True, timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )  # fmt: skip
    assert done.returncode == 73 and "RLIMIT_FSIZE" in done.stderr, done


def test_a_short_write_while_a_segment_is_filled_is_continued(start_daemon, tmp_path):
    def writes(name, at=0):
        """Returns the numbers of the writes that fill the first segment and write its header."""
        state = tmp_path / name / "state"
        state.mkdir(parents=True, mode=0o700)
        faults = Faults(tmp_path / name, state)
        daemon = start_daemon(
            state=state, arguments=["--durability", "power"],
            environment=faults.environment(at=at, action="short"))  # fmt: skip
        daemon.terminate()
        calls = faults.calls()
        first = calls.index(("fallocate", ".changes.new"))
        last = calls.index(("fsync", ".changes.new"))
        return [n + 1 for n in range(first, last) if calls[n] == ("pwrite", ".changes.new")]

    fill, header = writes("whole")
    assert writes("short", at=fill) == [fill, fill + 1, header + 1]


def closed_twice(faults):
    return [number for call, number in faults.calls() if call == "close-again"]


def test_a_daemon_that_is_refused_the_state_closes_no_descriptor_twice(daemon, tmp_path):
    """Another thread may have opened the same number in between."""
    faults = Faults(tmp_path, tmp_path / "watched")
    refused = subprocess.run(
        [binary(), "--socket", tmp_path / "socket", "--state-directory", daemon.state],
        env=faults.environment(), capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert refused.returncode == 73 and f"(pid {daemon.pid})" in refused.stderr
    assert closed_twice(faults) == []


def answers(path):
    try:
        with Client(path) as client:
            return client("PING") is not None
    except (OSError, Closed):
        return False


def test_a_daemon_that_may_open_too_few_files_says_so(tmp_path):
    for limit in (4, 9, 31, 32):
        process = subprocess.Popen(
            [binary(), "--socket", tmp_path / "socket", "--state-directory", tmp_path / "state"],
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        )  # fmt: skip
        eventually(lambda: process.poll() is not None or answers(tmp_path / "socket"), "it is decided")
        process.terminate()
        text = process.communicate()[1]
        if limit < 32:
            assert process.returncode == 69 and "raise LimitNOFILE=" in text, text
        else:
            assert process.returncode == 0, text
