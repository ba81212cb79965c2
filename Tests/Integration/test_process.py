"""The daemon's process: its socket, arguments, configuration and end."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from countdownd import PATIENCE, PROJECT, Client, Simple, binary, check, eventually, request, view


def run(*arguments, timeout=PATIENCE):
    """Runs a daemon that ends by itself, and returns its output and status."""
    return subprocess.run(
        [binary(), *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


# The socket


def test_a_stale_socket_is_taken_over(daemon):
    client = daemon.connect()
    client("TIMER", "SET", "t", "1h")
    daemon.kill()
    assert daemon.path.is_socket()
    daemon.start()
    daemon.is_expected_to_run = True
    assert daemon.connect()("PING") == Simple("PONG")


def test_generations_rise_over_a_restart(daemon):
    before = view(daemon.connect()("TIMER", "SET", "t", "1h"))["generation"]
    daemon.kill()
    daemon.start()
    daemon.is_expected_to_run = True
    assert view(daemon.connect()("TIMER", "SET", "t", "1h"))["generation"] > before


def test_a_live_socket_is_refused(daemon, tmp_path):
    done = run(
        "--socket", daemon.path, "--config", daemon.config_path, "--state-directory", tmp_path
    )
    assert done.returncode == 69
    said = [line for line in done.stderr.splitlines() if line.startswith("countdownd: ")]
    assert len(said) == 1 and "another countdownd listens at" in said[0]
    assert str(daemon.path) in said[0]
    assert daemon.connect()("PING") == Simple("PONG")


def test_somebody_elses_live_socket_is_refused(tmp_path):
    path = f"/tmp/countdownd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen(1)
        try:
            done = run("--socket", path, "--state-directory", tmp_path)
            assert done.returncode == 69 and "listens at" in done.stderr
            assert stat.S_ISSOCK(os.stat(path).st_mode)
        finally:
            os.unlink(path)
            os.unlink(path + ".lock")


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_not_a_socket_is_left_alone(tmp_path, kind):
    path = tmp_path / "precious"
    if kind == "file":
        path.write_text("data")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/nowhere")
    done = run("--socket", path, "--state-directory", tmp_path)
    assert done.returncode == 69
    assert "is not a socket" in done.stderr
    assert path.is_symlink() if kind == "link" else path.exists()
    assert kind != "file" or path.read_text() == "data"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    target = tmp_path / "target"
    (tmp_path / "socket.lock").symlink_to(target)
    done = run("--socket", tmp_path / "socket", "--state-directory", tmp_path / "state")
    assert done.returncode == 69
    assert f"cannot lock {tmp_path}/socket.lock: " in done.stderr and "symbolic link" in done.stderr
    assert not target.exists() and not (tmp_path / "socket").exists()


def test_a_fifo_in_the_place_of_the_lock_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "socket.lock")
    other = subprocess.Popen(
        [binary(), "--socket", tmp_path / "socket", "--state-directory", tmp_path / "state"],
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually((tmp_path / "socket").exists, "it listens")
    finally:
        other.terminate()
        assert other.wait(timeout=PATIENCE) == 0


def test_a_path_too_long_is_refused(tmp_path):
    done = run("--socket", tmp_path / ("x" * 108), "--state-directory", tmp_path)
    assert done.returncode == 69
    assert "must have 1 to 107" in done.stderr


def test_a_missing_directory_is_reported(tmp_path):
    done = run("--socket", tmp_path / "no" / "socket", "--state-directory", tmp_path)
    assert done.returncode == 69
    assert "make its directory, or choose another --socket" in done.stderr


def test_the_longest_socket_path_works(start_daemon, tmp_path_factory):
    daemon = start_daemon()
    directory = str(daemon.directory)
    path = directory + "/" + "s" * (107 - len(directory) - 1)
    other = subprocess.Popen(
        [binary(), "--socket", path, "--config", daemon.config_path]
        + ["--state-directory", daemon.directory / "other"],
        stderr=subprocess.DEVNULL,
    )
    try:

        def answers():
            try:
                with Client(path) as client:
                    return client("PING") == Simple("PONG")
            except OSError:
                return False

        eventually(answers, "it answers")
    finally:
        other.terminate()
        assert other.wait(timeout=PATIENCE) == 0


@pytest.mark.daemon(config='socket: {mode: "0600"}')
def test_the_socket_has_the_configured_mode(daemon):
    assert stat.S_IMODE(daemon.path.stat().st_mode) == 0o600


# Arguments and configuration


def test_check_config_prints_the_settings_in_force(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("limits:\n  max-arguments: 99\n  max-connections: 100\n")
    done = run("--check-config", "--config", config, "--socket", "/tmp/x")
    assert (done.returncode, done.stderr) == (0, "")
    assert "limits.max-arguments: 99\n" in done.stdout
    assert "socket.path: /tmp/x\n" in done.stdout
    config.write_text("limits:\n  max-connections: 1000000\n")
    done = run("--check-config", "--config", config)
    assert done.returncode == 0 and "limits.max-connections: 1000000\n" in done.stdout
    assert "warning: limits.max-connections is 1000000, but there is room for" in done.stderr


TRICKS = "\x1b[2J\x9b2J\u202e"


def test_nothing_in_a_configuration_acts_on_the_terminal(tmp_path):
    config = tmp_path / f"{TRICKS}.yaml"
    escaped = r"\e[2J\x9b2J\u202e"
    config.write_text(f'policies: {{p: {{title: "{escaped}"}}}}\n')
    good = run("--check-config", "--config", config)
    assert good.returncode == 0 and r"policies.p.title: \u{1b}[2J\u{9b}2J\u{202e}" in good.stdout
    config.write_text(f'"{escaped}": 1\nlog-level: "{escaped}"\n')
    bad = run("--check-config", "--config", config)
    assert bad.returncode == 78 and r"\u{1b}[2J" in bad.stderr
    looked = check(tmp_path / TRICKS)
    assert looked.returncode == 1 and r"\u{1b}[2J" in looked.stderr
    wrong = run("--" + TRICKS)
    assert wrong.returncode == 64 and r"\u{1b}[2J" in wrong.stderr
    for done in (good, bad, looked, wrong):
        assert not set(TRICKS) & set("\x1b\x9b\u202e") & set(done.stdout + done.stderr)


def test_the_configuration_that_is_shipped_is_the_default(tmp_path):
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    shipped = run("--check-config", "--config", PROJECT / "config/countdownd.yaml")
    assert shipped.stdout == run("--check-config", "--config", empty).stdout
    assert shipped.returncode == 0


@pytest.mark.parametrize(
    "text, problem",
    [
        ("limits:\n  max-conections: 5\n", ":2: limits.max-conections: unknown setting"),
        ("limits: {max-arguments: 1}", "an integer from 8 to"),
        ("countdown: {every: 0}", "at least 1ms"),
        ("log-level: loud", "one of trace, debug"),
        ("a: [", "not YAML"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check-config"]])
def test_a_bad_configuration_is_refused(tmp_path, text, problem, check):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    done = run("--config", config, "--socket", tmp_path / "s", *check)
    assert done.returncode == 78
    assert problem in done.stderr and str(config) in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_fleet_that_cannot_be_set_up_leaves_no_socket(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "fleet: {engine: redis, nodes: [127.0.0.1:1], discovery: single, replicas: 0,"
        " password-file: /nowhere}\ndurability: none\n"
    )
    done = run("--config", config, "--socket", tmp_path / "s")
    assert done.returncode == 78 and "cannot read fleet.password-file" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_missing_configuration_is_refused(tmp_path):
    done = run("--config", tmp_path / "none.yaml", "--socket", tmp_path / "s")
    assert done.returncode == 78 and "cannot be read" in done.stderr


def test_drop_ins_override_the_configuration(start_daemon, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("countdown: {count: 5, every: 2s}")
    (tmp_path / "config.yaml.d").mkdir()
    (tmp_path / "config.yaml.d" / "10.yaml").write_text("countdown: {count: 7}")
    done = run("--check-config", "--config", config)
    assert "countdown.count: 7\n" in done.stdout and "countdown.every: 2s\n" in done.stdout
    assert "is not read" not in done.stderr


def test_a_drop_in_with_another_ending_is_named(start_daemon, tmp_path):
    def warns(text):
        return f"{other} is not read, as its name does not end with .yaml: rename it" in text

    config = tmp_path / "config.yaml"
    other = tmp_path / "config.yaml.d" / "10.yml"
    other.parent.mkdir()
    config.write_text("")
    other.write_text("countdown: {count: 7}")
    done = run("--check-config", "--config", config)
    assert done.returncode == 0 and warns(done.stderr), done
    daemon = start_daemon()
    other = daemon.config_path.with_name("config.yaml.d") / "own.yml"
    assert not warns(daemon.log)
    other.write_text("countdown: {count: 7}")
    daemon.connect()("CONFIG", "RELOAD")
    assert warns(daemon.log)
    before = len(daemon.log)
    daemon.restart()
    assert warns(daemon.log[before:])


def test_wrong_arguments_are_usage_errors(tmp_path):
    assert run("--nonsense").returncode == 64
    assert run("--log-level", "loud").returncode == 64
    assert run("extra").returncode == 64


@pytest.mark.parametrize("durability", ["process", "power"])
def test_virtual_time_with_durability_needs_a_state_directory(durability):
    done = run("--virtual-time", "--durability", durability)
    assert done.returncode == 64
    assert "--virtual-time stores its state only in a --state-directory" in done.stderr
    assert f"add one for --durability {durability}" in " ".join(done.stderr.split())


def test_virtual_time_leaves_the_configured_state_alone(tmp_path):
    state, path, log = tmp_path / "state", tmp_path / "socket", tmp_path / "log"
    config = tmp_path / "config.yaml"
    config.write_text(f"state-directory: {state}\ndurability: power\n")
    with open(log, "w") as output:
        process = subprocess.Popen(
            [binary(), "--socket", path, "--config", config, "--virtual-time"], stderr=output)
    try:
        eventually(lambda: path.exists() and "listens" in log.read_text(), "it listens")
        with Client(path) as client:
            assert client("CONFIG", "GET", "durability") == [b"durability", b"none"]
        assert "the state is in memory only" in log.read_text()
        assert not state.exists()
    finally:
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0


def test_a_build_names_its_commit_unless_it_is_a_release(tmp_path):
    """The sources of the version, with a git repository of their own and without one."""
    sources = ["scripts/commit.sh", "Sources/Wire/ProductVersion.swift"]
    sources += ["Sources/CCommit/commit.c", "Sources/CCommit/include/CCommit.h"]
    for name in sources:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    (tmp_path / "main.c").write_text(
        '#include "CCommit.h"\nint puts(const char *);\nint main(void) { puts(countdownd_commit()); }\n')

    def commit():
        subprocess.run(["bash", "scripts/commit.sh"], cwd=tmp_path, check=True)
        build = ["gcc", "-ISources/CCommit/include", "main.c", "Sources/CCommit/commit.c", "-o", "main"]
        subprocess.run(build, cwd=tmp_path, check=True)
        return subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert commit() == "", "nobody knows of a commit"
    git("init", "--quiet")
    git("add", *sources)
    git("commit", "--quiet", "-m", "all")
    head = git("rev-parse", "--short=9", "HEAD").strip()
    assert commit() == head
    (tmp_path / sources[1]).write_text((tmp_path / sources[1]).read_text() + "\n")
    assert commit() == f"{head}.changed"
    git("checkout", "--quiet", sources[1])
    version = re.search('current = "(.*)"', (tmp_path / sources[1]).read_text())[1]
    git("tag", f"v{version}")
    assert commit() == "", "it is the release"


def test_version_and_help_are_printed():
    assert run("--version").stdout.startswith("countdownd ")
    text = run("--help").stdout
    for word in ("--socket", "--config", "--virtual-time", "Exit status", "SIGTERM"):
        assert word in text


@pytest.mark.parametrize(
    "arguments, config, is_logged",
    [([], None, True), (["--log-level", "error"], None, False), ([], "log-level: error", False)],
)
def test_log_level_selects_what_is_logged(start_daemon, arguments, config, is_logged):
    daemon = start_daemon(arguments=arguments, config=config)
    if is_logged:
        # The socket answers a moment before the line is written.
        eventually(lambda: "listens" in daemon.log, "it says that it listens")
    assert ("listens" in daemon.log) == is_logged
    client = daemon.connect()
    client.send_bytes(b"*x\r\n")
    assert client.is_closed()
    assert daemon.terminate() == 0, "all that it logs is written"
    assert ("protocol error" in daemon.log) == is_logged


# The end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_end_the_daemon(daemon, number):
    daemon.is_expected_to_run = False
    daemon.process.send_signal(number)
    assert daemon.process.wait(timeout=PATIENCE) == 0
    assert not daemon.path.exists()
    assert f"ended by={number.name}" in daemon.log


@pytest.mark.parametrize("arguments", [[], ["--virtual-time"]], ids=["real", "virtual"])
@pytest.mark.parametrize("has_moved", [False, True], ids=["", "restarted"])
def test_a_private_daemon_ends_with_its_input(tmp_path, arguments, has_moved):
    """What it reads before is nothing to it; a restart of virtual time changes nothing."""
    words = [binary(), "--socket", tmp_path / "s", "--state-directory", tmp_path / "state", "--end-with-input"]
    with subprocess.Popen(
        [*words, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            print("anything\n" * 100, file=process.stdin, flush=True)
            eventually((tmp_path / "s").exists, "it listens")
            with Client(tmp_path / "s") as client:
                client("TIMER", "SET", "t", "1h")
                if has_moved and arguments:
                    client("CLOCK", "RESTART")
            with Client(tmp_path / "s") as client:
                eventually(lambda: client("PING") == "PONG", "it answers")
            assert process.poll() is None
            process.stdin.close()
            assert process.wait(timeout=PATIENCE) == 0
            assert "ended by=stdin" in process.stderr.read()
        finally:
            process.kill()
    assert not (tmp_path / "s").exists() and (tmp_path / "state").exists()


def test_sigterm_ends_it_soon_with_busy_clients(daemon):
    """Clients receive only whole replies, none is left waiting, and the daemon ends."""
    answers = {}

    def be_busy(number):
        client = daemon.connect()
        data = request("COUNTDOWN", "START", f"k{number}") + request("ECHO", "x" * 5_000)
        answers[number] = bytearray()
        try:
            while True:
                client.socket.sendall(data * 10)
                expected = 10
                while expected > 0:
                    received = client.socket.recv(1 << 16)
                    if not received:
                        return
                    answers[number] += received
                    expected -= received.count(b"x\r\n")
        except ConnectionError:
            pass

    threads = [threading.Thread(target=be_busy, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    deaf = daemon.connect()
    deaf.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            deaf.socket.send(request("ECHO", "x" * 60_000))
    subscriber = daemon.connect()
    subscriber.send("PSUBSCRIBE", "*")
    eventually(lambda: daemon.info("clients")["pubsub_clients"] == "1", "it has subscribed")
    eventually(lambda: len(answers) == 8 and all(answers.values()), "each client has an answer")
    assert daemon.terminate() == 0
    for thread in threads:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()
    from countdownd import parse

    for data in answers.values():
        assert data
        position = 0
        while position < len(data):
            _, position = parse(data, position)


def test_a_client_waiting_at_the_socket_is_served_first(start_daemon):
    """A client that connects as soon as the socket listens is served, after LOADING if need be."""
    daemon = start_daemon()
    for _ in range(10):
        daemon.terminate()
        daemon.start_without_waiting()
        client = eventually(lambda: connected(daemon.path), "it listens", pause=0)
        assert view(client.retry("LOADING", "TIMER", "SET", "t", "1h"))["key"] == b"t"
        client.close()
        daemon.is_expected_to_run = True


def connected(path):
    try:
        return Client(path)
    except OSError:
        return None


def test_sigterm_the_moment_it_listens(start_daemon):
    daemon = start_daemon()
    for _ in range(10):
        daemon.terminate()
        daemon.start_without_waiting()
        eventually(lambda: connected(daemon.path), "it listens", pause=0).close()
    assert daemon.terminate() == 0


def test_sigterm_while_alarms_go_off(start_daemon):
    """Alarms come from another thread, and their event loop may have ended."""
    daemon = start_daemon()
    for _ in range(10):
        client = daemon.connect()
        for number in range(50):
            client("TIMER", "SET", number, "1ms", "EVERY", "1ms")
        client.close()
        assert daemon.terminate() == 0
        daemon.start()
        daemon.is_expected_to_run = True
    assert "EventLoop" not in daemon.log


def test_sigterm_twice(daemon):
    daemon.terminate(wait=False)
    try:
        daemon.process.send_signal(signal.SIGTERM)
    except ProcessLookupError:
        pass
    assert daemon.process.wait(timeout=PATIENCE) == 0


def test_a_standard_error_that_nobody_reads_stops_no_client(start_daemon, tmp_path):
    reader, writer = os.pipe()
    for end in reader, writer:
        os.set_blocking(end, False)
    for size in 4_096, 1:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * size)
    os.set_blocking(writer, True)
    path = tmp_path / "socket"
    with subprocess.Popen([binary(), "--socket", path, "--durability", "none"], stderr=writer) as process:
        os.close(writer)
        try:
            eventually(path.exists, "it listens")
            with Client(path) as client:
                assert client("PING") is not None
            # The lines about the start are lost, and the next one that fits says so.
            text = b""

            def read():
                nonlocal text
                with contextlib.suppress(BlockingIOError):
                    text += os.read(reader, 1 << 20)
                return text

            eventually(lambda: len(read()) >= 65_536, "all is read")
            with Client(path) as client:
                client.send_bytes(b"*x\r\n")
            eventually(lambda: b"protocol error" in read(), "a line is written")
            assert re.match(rb"x+countdownd: [2-9] lines are missing here", text), text[-400:]
        finally:
            process.kill()
            os.close(reader)


def test_nothing_runs_while_nothing_is_due(daemon):
    client = daemon.connect()
    # A flood fills segments of the log, which are then folded.
    for number in range(100):
        client.send_bytes(b"".join(
            request("TIMER", "SET", number, "1h", "PAYLOAD", "p" * 4_000) for _ in range(10)))  # fmt: skip
        for _ in range(10):
            client.reply()
    eventually(lambda: daemon.info("persistence")["folds"] != "0", "the log is folded")
    eventually(lambda: daemon.info("persistence")["log_segments"] == "1", "all is folded")

    def switches():
        """Returns for each thread how often it has waited for work."""
        tasks = pathlib.Path(f"/proc/{daemon.pid}/task")
        return {
            task.name: (task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]
            for task in tasks.iterdir()
        }

    def rests():
        before = switches()
        time.sleep(2.2)
        return switches() == before

    # Idle threads end after some seconds.
    eventually(rests, "nothing wakes up", seconds=30)


def test_the_log_is_json_if_configured(start_daemon):
    daemon = start_daemon(config="log-format: json\nlimits: {max-entities: 1}\n")
    client = daemon.connect()
    client("COUNTDOWN", "START", "first")
    client.error("LIMIT", "COUNTDOWN", "START", 'a"b\\c\n')
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    assert {"time", "level", "message"} <= set.intersection(*map(set, lines))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    (refused,) = [line for line in lines if "max-entities" in line["message"]]
    assert refused["level"] == "warning" and refused["key"].startswith('a"b\\c')
    assert re.fullmatch("[0-9a-f]{32}", refused["message-id"]) and refused["uid"].isdigit()
    # A start that fails is JSON, too.
    second = subprocess.run(
        [binary(), *daemon.arguments], capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert second.returncode == 73 or second.returncode == 69
    last = [json.loads(line) for line in second.stderr.splitlines()][-1]
    assert last["level"] == "critical" and "cannot start" in last["message"]
