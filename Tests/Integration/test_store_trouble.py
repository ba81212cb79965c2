"""The daemon while its state cannot be stored: on a full disk, and when calls fail."""

import json
import os
import resource
import shutil
import socket
import subprocess
import time

import pytest

from countdownd import Daemon, Error, eventually, request, view
from fault_injection import Faults
from preloaded import compiled

POWERS = ["process", "power"]
# What to do is said in the log, in STATUS= and in INFO.
ADVICE = {"ENOSPC": "Free space", "EIO": "Look into the kernel's log", "EROFS": "writable for this user"}


def calls_of_a_start(tmp_path, durability, *commands):
    """The calls until the daemon is ready, and those of some commands after that."""
    state = tmp_path / "counted"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = Daemon(
        state=state, environment=faults.environment(), arguments=["--durability", durability])
    eventually(lambda: daemon.info("persistence")["loading"] == "0", "it has loaded")
    before = faults.calls()
    client = daemon.connect()
    for words in commands:
        client(*words)
    after = faults.calls()[len(before) :]
    daemon.close()
    return before, after


class SmallDisk:
    """A small file system of its own for the state; it can be filled and emptied."""

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


@pytest.fixture
def told(tmp_path):
    """What systemd is told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.setblocking(False)

        class Told:
            environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
            lines = []

            def status(self):
                """The newest STATUS=."""
                try:
                    while True:
                        self.lines += notify.recv(1 << 16).decode().split("\n")
                except BlockingIOError:
                    pass
                return next((line for line in reversed(self.lines) if line.startswith("STATUS=")), "")

        yield Told()


def is_writable(daemon):
    return daemon.info("persistence")["read_only"] == "0"


def backup(client):
    """What comes of one."""
    id = client("BACKUP", "BEGIN")
    size = eventually(lambda: client("BACKUP", "SIZE", id), "it is made, or not")
    client("BACKUP", "END", id)
    return size


@pytest.mark.parametrize("durability", POWERS)
def test_a_full_disk_refuses_what_would_be_lost(start_daemon, small, told, durability):
    daemon = start_daemon(
        state=small.directory / "state", arguments=["--durability", durability],
        environment=os.environ | told.environment)
    client = daemon.connect()
    assert view(client("COUNTDOWN", "START", "kept", "EVERY", "1h"))["accepted"]
    client("COUNTDOWN", "START", "soon", "COUNT", 1, "EVERY", "2s")
    client("TIMER", "SET", "timer", "1h")
    listener = daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    while listener.has_more():
        listener.push()
    before = view(client("COUNTDOWN", "GET", "kept"))["generation"]
    small.fill()
    # Pages that are there already may be written once more.
    number = 0
    while not isinstance(reply := client("COUNTDOWN", "START", f"x{number}", "META", "m" * 1000), Error):
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
    assert "Free space" in daemon.log and "Free space" in told.status()
    # There is no room for a copy, either.
    copy = backup(client)
    assert isinstance(copy, Error) and "Free space" in copy
    assert not list((small.directory / "state").glob("backup*"))
    # Time goes on, and what it does is told once.
    heard = []
    while (b"countdown:soon", "ready") not in heard:
        channel, event = listener.event()
        heard.append((channel, event["event"]))
    assert (b"timer:mine", "fired") in heard
    silent = {b"countdown:y", b"timer:new", f"countdown:x{number}".encode()}
    assert not {channel for channel, _ in heard} & silent

    small.empty()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert view(client("COUNTDOWN", "START", "y"))["accepted"]
    assert "can be stored again" in daemon.log
    eventually(lambda: "read-only" not in told.status(), "systemd is told")
    assert isinstance(backup(client), int)
    daemon.restart("kill")
    client = daemon.connect()
    keys = {view(reply)["key"] for reply in client("COUNTDOWN", "LIST", "LIMIT", 1000)[1]}
    assert keys == {b"kept", b"soon", b"y", *(b"x%d" % n for n in range(number))}
    assert view(client("COUNTDOWN", "GET", "soon"))["state"] == b"ready"
    assert view(client("TIMER", "GET", "timer"))["state"] == b"running"


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_restart_on_a_full_disk(start_daemon, small, how):
    """What is kept is there, and nothing is accepted that would be lost; or it does not start, and says why."""
    daemon = start_daemon(state=small.directory / "state")
    client = daemon.connect()
    client("COUNTDOWN", "START", "kept", "EVERY", "1h")
    small.fill()
    daemon.stop(how)
    daemon.start_without_waiting()
    eventually(lambda: daemon.process.poll() is not None or daemon.listens(), "it has started, or not")
    if daemon.process.poll() is None:
        daemon.kill()
    else:
        assert daemon.process.returncode == 73
        assert "no space left" in daemon.log and "Free space" in daemon.log
    small.empty()
    daemon.start_again()
    assert view(daemon.connect()("COUNTDOWN", "GET", "kept"))["state"] == b"counting"


@pytest.mark.parametrize("action", ADVICE)
@pytest.mark.parametrize("durability", POWERS)
def test_a_batch_that_cannot_be_stored_is_rolled_back(tmp_path, start_daemon, told, durability, action):
    """Pipelines of several clients, so that with `power` turns wait behind the one that fails."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, arguments=["--durability", durability],
        environment=faults.environment(at=1, action=action, lasting=True) | told.environment)
    control = daemon.connect()
    for n in range(5):
        assert view(control("COUNTDOWN", "START", f"old{n}", "EVERY", "1h"))["accepted"]
    listener = daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    listener.push()
    clients = [daemon.connect() for _ in range(4)]
    done, sent, replies = {}, [[] for _ in clients], [[] for _ in clients]
    for turn in range(40):
        for number, client in enumerate(clients):
            key = f"{number}-{turn}"
            words = [
                ("COUNTDOWN", "START", key, "EVERY", "1h"), ("COUNTDOWN", "GET", key),
                # Its answer rests on the first.
                ("COUNTDOWN", "START", key, "EVERY", "2h"),
                # Key and place go to what is not stored, and back.
                ("COUNTDOWN", "CANCEL", f"old{number}"),
                ("COUNTDOWN", "START", f"old{number}", "OWNER", "connection"),
                ("COUNTDOWN", "CANCEL", f"old{number}"),
                ("COUNTDOWN", "START", f"old{number}", "EVERY", "1h"),
                ("TIMER", "SET", f"t{number}", "1h", "PAYLOAD", turn),
            ]
            client.send_bytes(b"".join(request(*command) for command in words))
            sent[number] += [(key, command) for command in words]
            if turn < 10:
                replies[number] += [client.reply() for _ in words]
        if turn == 15:
            faults.damage()
    for number, client in enumerate(clients):
        replies[number] += [client.reply() for _ in sent[number][len(replies[number]) :]]
        for (key, command), reply in zip(sent[number], replies[number]):
            assert not isinstance(reply, Error) or reply.code in {"READONLY", "NOTFOUND"}, reply
            if command[1] == "START" and command[2] == key and key not in done:
                done[key] = not isinstance(reply, Error)
            elif command[1] == "START" and command[2] == key:
                # Refused as it counts, or since nothing can be stored; never as what does not count counts.
                assert isinstance(reply, Error) or done[key], (key, reply)
            elif command[1] == "GET":
                # It never sees what did not come about.
                assert isinstance(reply, Error) or (reply is not None) == done[key], key
    assert set(done.values()) == {True, False}
    assert not is_writable(daemon)
    assert ADVICE[action] in daemon.info("persistence")["last_error"]
    assert ADVICE[action] in told.status() and ADVICE[action] in daemon.log
    for key, is_done in done.items():
        assert (control("COUNTDOWN", "GET", key) is not None) == is_done, key
    assert view(control("COUNTDOWN", "GET", "old4"))["state"] == b"counting"
    started = set()
    while listener.has_more():
        _, event = listener.event()
        if event["event"] == "started":
            started.add(event["key"])
    assert not [key for key, is_done in done.items() if not is_done and key in started]
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    kept = {key for key in done if control("COUNTDOWN", "GET", key)}
    assert kept == {key for key in done if done[key]}
    assert view(control("COUNTDOWN", "START", "after"))["accepted"]
    daemon.restart("kill")
    control = daemon.connect()
    assert {key for key in done if control("COUNTDOWN", "GET", key)} == kept
    assert control("COUNTDOWN", "GET", "after")


@pytest.mark.parametrize("durability", POWERS)
def test_short_writes_are_continued(tmp_path, start_daemon, durability):
    start = ("COUNTDOWN", "START", "k", "EVERY", "1h", "META", "m" * 3000)
    before, calls = calls_of_a_start(tmp_path, durability, start)
    writes = [at for at, (call, _) in enumerate(calls, len(before) + 1) if "write" in call]
    assert len(writes) > 2
    for at in writes:
        state = tmp_path / f"state{at}"
        state.mkdir(mode=0o700)
        faults = Faults(tmp_path, state)
        daemon = start_daemon(
            state=state, arguments=["--durability", durability], environment=faults.environment(at, "short"))
        assert view(daemon.connect()(*start))["accepted"]
        assert len(faults.calls()) > at, "no write was short"
        daemon.environment = None
        daemon.restart("kill")
        assert view(daemon.connect()("COUNTDOWN", "GET", "k"))["meta"] == b"m" * 3000


@pytest.mark.parametrize("durability", POWERS)
def test_a_rolled_back_deadline_counts_again(start_daemon, small, durability):
    """RETIME to later cannot be stored: so it is due when it was to be before."""
    daemon = start_daemon(state=small.directory / "state", arguments=["--durability", durability])
    client = daemon.connect()
    client("TIMER", "SET", "wall", "1500ms", "CLOCK", "wall")
    client("TIMER", "SET", "boot", "1500ms")
    client("COUNTDOWN", "START", "countdown", "COUNT", 1, "EVERY", "1500ms")
    listener = daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    listener.push()
    small.fill()
    later = [
        *(("COUNTDOWN", "START", f"x{n}", "META", "m" * 4000) for n in range(500)),
        ("TIMER", "RETIME", "wall", "1h"), ("TIMER", "RETIME", "boot", "1h"),
        ("COUNTDOWN", "RETIME", "countdown", "1h"),
    ]  # fmt: skip
    client.send_bytes(b"".join(request(*words) for words in later))
    replies = [client.reply() for _ in later]
    assert [reply.code for reply in replies[-3:]] == ["READONLY"] * 3
    due = {(b"timer:wall", "fired"), (b"timer:boot", "fired"), (b"countdown:countdown", "ready")}
    while due:
        channel, event = listener.event()
        due.discard((channel, event["event"]))
        assert event["event"] != "retimed"
    assert not is_writable(daemon)
    small.empty()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert client("TIMER", "GET", "wall") is None


def test_a_commit_that_failed_at_its_sync_does_not_come_back(tmp_path, start_daemon):
    """All of it is in the log by then, and whoever opens the file next would take it for done."""
    start = ("COUNTDOWN", "START", "k", "EVERY", "1h")
    before, calls = calls_of_a_start(tmp_path, "power", start)
    syncs = [at for at, call in enumerate(calls, len(before) + 1) if call == ("fdatasync", "state.db-wal")]
    assert syncs, calls
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, arguments=["--durability", "power"], environment=faults.environment(syncs[-1], "EIO"))
    client = daemon.connect()
    assert client(*start).code == "READONLY"
    # Before it tries again.
    daemon.environment = None
    daemon.restart("kill")
    assert daemon.connect()("COUNTDOWN", "GET", "k") is None


@pytest.mark.parametrize("durability", POWERS)
def test_a_snapshot_shows_nothing_that_is_refused_afterwards(tmp_path, start_daemon, durability):
    """Subscribers of the very turn that cannot be stored are shown how things were, and are."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, arguments=["--durability", durability],
        environment=faults.environment(at=1, action="EIO", lasting=True))
    control = daemon.connect()
    control("COUNTDOWN", "START", "old", "EVERY", "1h")
    control("HUD", "SHOW", "s", "STATUS", "before", "FADEIN", 0, "DURABLE")
    client = daemon.connect(protocol=3)
    faults.damage()
    turn = [
        ("COUNTDOWN", "START", "mine", "EVERY", "1h", "OWNER", "connection"),
        ("COUNTDOWN", "START", "new"), ("COUNTDOWN", "CANCEL", "old"), ("HUD", "STATUS", "s", "after"),
        ("SUBSCRIBE", "countdown:new", "countdown:old", "countdown:mine", "hud:s"), ("PSUBSCRIBE", "c*", "h*"),
    ]
    client.send_bytes(b"".join(request(*words) for words in turn))
    replies = [client.reply() for _ in range(4)]
    assert [isinstance(reply, Error) for reply in replies] == [False, True, True, True]
    assert not is_writable(daemon)
    shown = {}
    while client.has_more():
        message = client.push()
        if "message" in message[0].decode():
            event = json.loads(message[-1])
            shown.setdefault((message[-2], message[0]), []).append(
                (event["event"], event["state"], event.get("status")))
    counting, nothing = ("snapshot", "counting", None), ("snapshot", "idle", None)
    # What needed no storing may be shown a second time.
    assert {name: set(events) for name, events in shown.items()} == {
        (b"countdown:new", b"message"): {nothing}, (b"countdown:old", b"message"): {counting},
        (b"countdown:old", b"pmessage"): {counting}, (b"countdown:mine", b"message"): {counting},
        (b"countdown:mine", b"pmessage"): {counting},
        (b"hud:s", b"message"): {("snapshot", "visible", "before")},
        (b"hud:s", b"pmessage"): {("snapshot", "visible", "before")},
    }  # fmt: skip
    # And then what happens.
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert control("COUNTDOWN", "CANCEL", "old") == 1
    assert client.event()[1]["event"] == "cancelled"


def faulty(tmp_path, start_daemon, told, **where):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    environment = faults.environment(at=1, action="EIO", lasting=True, log=False, **where)
    daemon = start_daemon(state=state, environment=environment | told.environment)
    eventually(lambda: "READY=1" in (told.status(), told.lines)[1], "it has started")
    return faults, daemon


def test_failing_checkpoints_are_reported(tmp_path, start_daemon, told):
    """Commits go on, but the log grows; which nobody would notice before the disk is full."""
    faults, daemon = faulty(tmp_path, start_daemon, told, file="state.db")
    client = daemon.connect()

    def write():
        client.send_bytes(b"".join(request("COUNTDOWN", "START", f"k{n}", "META", "m" * 4_000) for n in range(200)))
        client.send_bytes(b"".join(request("COUNTDOWN", "CANCEL", f"k{n}") for n in range(200)))
        assert not any(isinstance(client.reply(), Error) for _ in range(400))

    def persistence(name):
        write()
        return daemon.info("persistence")[name]

    faults.damage()
    eventually(lambda: persistence("checkpoint_error"), "one has failed")
    assert ADVICE["EIO"] in daemon.info("persistence")["checkpoint_error"]
    eventually(lambda: "checkpoints fail" in told.status(), "systemd is told")
    assert ADVICE["EIO"] in told.status() and "read-only" not in told.status()
    # Others fail, too, and are not told of.
    eventually(lambda: int(persistence("log_pages")) > 20_000, "the log grows")
    assert daemon.log.count("cannot be moved to the state file") == 1
    assert is_writable(daemon)
    faults.mend()
    eventually(lambda: persistence("checkpoint_error") == "", "one has worked")
    assert daemon.log.count("is moved to the state file again") == 1
    assert "checkpoints fail" not in told.status()


def test_a_reload_does_not_hide_that_nothing_can_be_stored(tmp_path, start_daemon, told):
    faults, daemon = faulty(tmp_path, start_daemon, told)
    client = daemon.connect()
    faults.damage()
    assert client("COUNTDOWN", "START", "k").code == "READONLY"
    eventually(lambda: "read-only" in told.status(), "systemd is told")
    assert not isinstance(client("CONFIG", "RELOAD"), Error)
    assert "read-only" in told.status() and "configuration reloaded" in told.status()
    daemon.config_path.write_text("nonsense: 1\n")
    assert isinstance(client("CONFIG", "RELOAD"), Error)
    assert "read-only" in told.status() and "is refused" in told.status()
    # And the other way round.
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    eventually(lambda: "read-only" not in told.status(), "systemd is told")
    assert "is refused" in told.status()
    daemon.config_path.write_text("")
    assert not isinstance(client("CONFIG", "RELOAD"), Error)
    assert told.status() == "STATUS=configuration reloaded"


def test_a_first_commit_that_fails_is_not_hidden_by_being_ready(tmp_path, start_daemon, told):
    state, kept = tmp_path / "state", tmp_path / "kept"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(state=state)
    client = daemon.connect()
    client("COUNTDOWN", "START", "short", "COUNT", 1, "EVERY", "100ms")
    daemon.kill()
    shutil.copytree(state, kept)
    # It is due by then, so what the start begins with is a commit.
    time.sleep(0.2)
    daemon.environment = faults.environment()
    daemon.start_again()
    eventually(lambda: view(daemon.connect()("COUNTDOWN", "GET", "short"))["state"] == b"ready", "it is due")
    writes = [at for at, (call, file) in enumerate(faults.calls(), 1) if "write" in call and file == "state.db-wal"]
    daemon.kill()
    shutil.rmtree(state)
    shutil.copytree(kept, state)
    faults.damage()
    daemon.environment = faults.environment(at=writes[-1], action="EIO", lasting=True) | told.environment
    daemon.start_again()
    eventually(lambda: not is_writable(daemon), "the commit has failed")
    eventually(lambda: told.status() and "READY=1" in told.lines, "it is ready")
    assert "read-only" in told.status()


@pytest.mark.parametrize("durability", POWERS)
def test_a_rollback_that_is_not_possible_yet_happens_later(tmp_path, start_daemon, durability):
    """A change cannot be stored, nor can what it was before be read: it is refused for good, all the same."""
    closed = tmp_path / "closed"
    gate = {"GATE_FILE": "state.db", "GATE_AFTER": "0", "GATE_CLOSED": str(closed), "GATE_ERROR": "5"}
    daemon = start_daemon(
        state=tmp_path / "state", arguments=["--durability", durability],
        environment=os.environ | {"LD_PRELOAD": str(compiled("gate"))} | gate)
    client = daemon.connect()
    # More than is kept in memory of the file.
    for first in range(0, 15_000, 100):
        client.send_bytes(b"".join(
            request("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 900, "BRIEF")
            for n in range(first, first + 100)))  # fmt: skip
        for _ in range(100):
            assert client.reply()[0] == 1
    daemon.restart()
    client = daemon.connect()
    eventually(lambda: daemon.info("persistence")["loading"] == "0", "it has loaded")
    closed.touch()
    assert client("COUNTDOWN", "CANCEL", "k7").code == "READONLY"
    assert client("COUNTDOWN", "START", "k8", "EVERY", "2h").code == "READONLY"
    closed.unlink()
    eventually(lambda: is_writable(daemon), "it can write again")
    assert view(client("COUNTDOWN", "GET", "k7"))["state"] == b"counting"
    daemon.restart("kill")
    client = daemon.connect()
    eventually(lambda: daemon.info("persistence")["loading"] == "0", "it has loaded")
    assert view(client("COUNTDOWN", "GET", "k7"))["every_ms"] == 3_600_000
    assert client("DBSIZE") == 15_000


@pytest.mark.parametrize("durability", POWERS)
def test_a_state_directory_that_is_moved_away(tmp_path, start_daemon, durability):
    """What the next start would not find is not accepted; put back, everything goes on."""
    state, aside = tmp_path / "state", tmp_path / "aside"
    daemon = start_daemon(state=state, arguments=["--durability", durability])
    client = daemon.connect()
    accepted = ["before"]
    assert view(client("COUNTDOWN", "START", "before", "EVERY", "1h"))["accepted"]
    state.rename(aside)

    def is_refused():
        name = f"k{len(accepted)}"
        reply = client("COUNTDOWN", "START", name, "EVERY", "1h")
        if isinstance(reply, Error):
            assert reply.code == "READONLY"
            return True
        accepted.append(name)

    eventually(is_refused, "it has noticed")
    assert "was moved, removed or replaced" in daemon.info("persistence")["last_error"]
    assert "Put the state directory back" in daemon.log
    aside.rename(state)
    eventually(lambda: is_writable(daemon), "it has noticed that it is back")
    daemon.restart("kill")
    client = daemon.connect()
    assert all(client("COUNTDOWN", "GET", name) for name in accepted)


def test_a_file_that_may_not_grow(tmp_path, start_daemon):
    """Its limit is an error as a full disk is, not the end."""
    daemon = start_daemon(state=tmp_path / "state")
    limit = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (256 << 10, resource.RLIM_INFINITY))
    client = daemon.connect()
    replies = [client("COUNTDOWN", "START", f"k{n}", "EVERY", "1h", "META", "m" * 4_000) for n in range(100)]
    refused = {f"k{n}" for n, reply in enumerate(replies) if isinstance(reply, Error)}
    assert 0 < len(refused) < 100
    assert {reply.code for reply in replies if isinstance(reply, Error)} == {"READONLY"}
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, limit)
    eventually(lambda: is_writable(daemon), "it can write again")
    daemon.restart("kill")
    client = daemon.connect()
    assert {f"k{n}" for n in range(100) if client("COUNTDOWN", "GET", f"k{n}") is None} == refused


@pytest.mark.parametrize("durability", POWERS)
def test_firings_during_a_disk_failure_are_stored_at_the_end(tmp_path, start_daemon, durability):
    """It is over before it would have been tried again."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, arguments=["--durability", durability],
        environment=faults.environment(at=1, action="ENOSPC", lasting=True))
    client = daemon.connect()
    before = client("EVENTS", "LAST")
    client("TIMER", "SET", "t", "200ms")
    listener = daemon.connect(protocol=3)
    listener.send("SUBSCRIBE", "timer:t")
    listener.push()
    faults.damage()
    while (event := listener.event()[1])["event"] != "fired":
        pass
    faults.mend()
    daemon.restart()
    client = daemon.connect()
    assert client("TIMER", "GET", "t") is None
    reply = view(client("EVENTS", "SINCE", before))
    assert reply["complete"]
    kept = [json.loads(line) for _, line in reply["events"]]
    assert [told["seq"] for told in kept if told["event"] == "fired"] == [event["seq"]]


@pytest.mark.parametrize("durability", POWERS)
def test_changes_by_time_are_stored_once_the_disk_works(tmp_path, start_daemon, durability):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    faults = Faults(tmp_path, state)
    daemon = start_daemon(
        state=state, arguments=["--durability", durability],
        environment=faults.environment(at=1, action="EIO", lasting=True))

    def wait_for_tries():
        """Until it was tried at least once more, from its beginning, whether anything can be stored."""
        for _ in range(2):
            before = len(faults.calls())
            eventually(lambda: len(faults.calls()) > before, "it is tried again", pause=0.3)

    client, listener = daemon.connect(), daemon.connect(protocol=3)
    begin = client("EVENTS", "LAST")
    client("TIMER", "SET", "first", "300ms")
    client("COUNTDOWN", "START", "then", "COUNT", 1, "EVERY", "600ms")
    listener.send("PSUBSCRIBE", "*")
    listener.push()
    faults.damage()
    # That it fires cannot be stored: no command is there to be refused. The other is due after that.
    listener.events(lambda event: event["event"] == "ready")
    assert not is_writable(daemon)
    wait_for_tries()
    told = view(client("EVENTS", "SINCE", begin))["events"]
    assert [json.loads(line)["event"] for _, line in told] == ["set", "started", "fired", "ready"]
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    # What is found of the disk does not rest on there being something to store.
    faults.damage()
    assert client("COUNTDOWN", "START", "refused").code == "READONLY"
    wait_for_tries()
    assert not is_writable(daemon) and daemon.log.count("can be stored again") == 1
    faults.mend()
    eventually(lambda: is_writable(daemon), "it can write again")
    client("TIMER", "SET", "last", "1h")
    daemon.stop("kill")
    # In the place of the first, of which nothing is stored.
    assert daemon.stored("SELECT id FROM timers") == [(0,)]
    daemon.start_again()
    client = daemon.connect()
    assert view(client("COUNTDOWN", "GET", "then"))["state"] == b"ready"
    assert client("TIMER", "GET", "first") is None
    after = view(client("EVENTS", "SINCE", begin))
    assert after["complete"] and after["events"][:4] == told
    assert [json.loads(line)["event"] for _, line in after["events"][4:]] == ["set"]
