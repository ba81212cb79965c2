"""What an operator sees: damage until it is acknowledged, unclean ends, limits, and health."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

from countdownd import FRAME_HEADER, Client, Error, Simple, binary, eventually, frames, request, state_file, view
from test_access import NOBODY, Child, needs_root, open_up, say_as
from test_ctl import ctl
from test_metrics import greeting, metrics


# They fit the descriptors that any machine allows.
FEW_CONNECTIONS = "limits: {max-connections: 1000}\n"

pytestmark = pytest.mark.daemon(config=FEW_CONNECTIONS)


def health(daemon, *words):
    done = ctl("health", "--socket", daemon.path, *words)
    assert not done.stderr, done
    return done.returncode, done.stdout.splitlines()


# Damage


def corrupt(daemon):
    daemon.back_up(daemon.directory / "copy.db")
    daemon.terminate()
    with open(state_file(daemon.state), "r+b") as file:
        file.write(b"\xa5" * 400)
    return "the state was corrupt and is kept as"


def empty(daemon):
    daemon.terminate()
    for path in daemon.state.glob("state-*"):
        path.unlink()
    return "there was a state, and"


def without_events(daemon):
    daemon.change_stored("UPDATE events SET bytes = x'01ffffffff00'")
    return "some events could not be read"


def after_a_power_failure(daemon):
    """Another boot, and batches that the log has not got."""
    daemon.kill()
    frame = frames(daemon.state)[-2]
    with open(frame.path, "r+b") as file:
        file.seek(frame.place + FRAME_HEADER)
        file.write(bytes([frame.payload[0] ^ 1]))
    daemon.environment = {**os.environ, "COUNTDOWND_BOOT_ID": "0" * 31 + "1"}
    return "the newest changes are lost"


DAMAGE = [corrupt, empty, without_events, after_a_power_failure]


def damaged(daemon, how):
    client = daemon.connect()
    client("COUNTDOWN", "START", "first", "EVERY", "1h")
    client("COUNTDOWN", "START", "last", "EVERY", "1h")
    client("COUNTDOWN", "START", "other", "EVERY", "1h")
    client.close()
    finding = how(daemon)
    daemon.start_again()
    return finding


@pytest.mark.parametrize("how", DAMAGE, ids=lambda how: how.__name__)
def test_damage_is_reported_until_it_is_acknowledged(daemon, how):
    assert health(daemon) == (0, ["all is well"])
    assert metrics(daemon.connect())["countdownd_damaged"] == 0
    finding = damaged(daemon, how)
    for _ in range(2):
        facts = daemon.info("persistence")
        assert facts["damaged"] == "1" and finding in facts["damage"]
        assert metrics(daemon.connect())["countdownd_damaged"] == 1
        status, lines = health(daemon)
        assert status == 1 and len(lines) == 1 and finding in lines[0]
        # It goes on, and a start later it is still reported.
        assert view(daemon.connect()("COUNTDOWN", "START", "new"))
        daemon.restart()
    done = ctl("state", "acknowledge", "--socket", daemon.path)
    assert (done.returncode, done.stdout) == (0, "acknowledged: 1\n")
    for _ in range(2):
        facts = daemon.info("persistence")
        assert (facts["damaged"], facts["damage"]) == ("0", "")
        assert health(daemon) == (0, ["all is well"])
        done = ctl("state", "acknowledge", "--socket", daemon.path)
        assert done.returncode == 1 and "no damage" in done.stderr
        daemon.restart()
    assert re.search(f"damage is acknowledged: \\d+T\\d+Z {finding}.*uid=\\d+", daemon.log)


@pytest.mark.daemon(config=FEW_CONNECTIONS + "on-damage: refuse\n")
def test_damage_refuses_all_that_decides_if_configured(daemon):
    damaged(daemon, empty)
    client = daemon.connect(protocol=3)
    for command in [
        "COUNTDOWN START k", "THROTTLE TAKE k BURST 1 RATE 1/1s", "ONCE BEGIN k TTL 1h", "COUNTDOWN GET k", "DBSIZE",
        "PSUBSCRIBE countdown:*", "EVENTS LAST", "BACKUP BEGIN",
    ]:  # fmt: skip
        assert "countdownctl state acknowledge" in client.error("DAMAGED", *command.split())
    client("MULTI")
    client.error("DAMAGED", "COUNTDOWN", "START", "k")
    client.error("EXECABORT", "EXEC")
    assert client("PING") == Simple("PONG")
    for command in ["INFO", "METRICS", "HELP", "COUNTDOWN HELP", "CLIENT ID"]:
        client(*command.split())
    status, lines = health(daemon)
    assert status == 2 and "there was a state" in lines[0]
    assert client("STATE", "ACKNOWLEDGE") == 1
    assert view(client("COUNTDOWN", "START", "k"))["accepted"]
    assert health(daemon) == (0, ["all is well"])


def test_on_damage_is_reloaded(daemon):
    damaged(daemon, empty)
    client = daemon.connect()
    for choice, is_error in [("refuse", True), ("continue", False)]:
        daemon.config_path.write_text(f"on-damage: {choice}\n")
        daemon.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: isinstance(client.either("DAMAGED", "COUNTDOWN", "GET", "k"), Error) == is_error, choice)


@needs_root
def test_only_admins_acknowledge(daemon):
    open_up(daemon)
    damaged(daemon, empty)
    open_up(daemon)
    (reply,) = say_as(NOBODY, daemon, "STATE ACKNOWLEDGE")
    assert "NOPERM" in reply
    assert daemon.info("persistence")["damaged"] == "1"


# Ends


def test_an_unclean_end_is_logged_at_the_next_start(daemon):
    text = "did not end in order"
    daemon.restart()
    assert text not in daemon.log
    first = daemon.pid
    daemon.restart("kill")
    assert daemon.log.count(text) == 1 and f"process={first}" in daemon.log
    # systemd's own lines are there after a watchdog, a signal and an exit status alike.
    assert "`journalctl -u countdownd` says which" in daemon.log
    daemon.restart()
    assert daemon.log.count(text) == 1


# Limits


@needs_root
@pytest.mark.daemon(config="limits: {max-connections: 3, max-connections-per-uid: 3, reserved-connections: 2}\n")
def test_root_is_let_in_beyond_the_limits(daemon):
    open_up(daemon)
    clients = [daemon.connect()]

    def are(count):
        expected = b"connected_clients:%d\r" % count
        eventually(lambda: expected in clients[-1]("INFO", "clients"), f"{count} are connected")

    are(1)
    clients += [daemon.connect() for _ in range(4)]
    assert all(client("PING") == Simple("PONG") for client in clients)
    beyond = daemon.connect()
    assert beyond.refusal("LIMIT").startswith("LIMIT max-connections is 3")
    clients.pop(0).close()
    are(4)
    (reply,) = Child(NOBODY, greeting, daemon.path).lines()
    assert reply.startswith("LIMIT max-connections is 3")
    # The figures, and a way to make room.
    done = ctl("metrics", "--socket", daemon.path)
    assert done.returncode == 0, done
    are(4)
    number = clients[0]("CLIENT", "ID")
    admin = daemon.connect()
    assert admin("CLIENT", "KILL", "ID", number) == 1
    admin.close()
    are(3)
    assert health(daemon) == (1, ["limits.max-connections is 3, and 4 are in use"])


def test_memory_beyond_its_limit_refuses_new_entities_only(daemon):
    client = daemon.connect()
    client("COUNTDOWN", "START", "old", "EVERY", "1h")
    most = int(daemon.info("memory")["used_memory_rss"]) + (8 << 20)
    daemon.config_path.write_text(f"limits: {{max-connections: 1000, max-memory: {most}}}\n")
    client("CONFIG", "RELOAD")
    refused = None
    for number in range(100_000):
        reply = client.either("LIMIT", "TIMER", "SET", f"t{number}", "1h", "PAYLOAD", "p" * 4_096)
        if isinstance(reply, Error):
            refused = reply
            break
    assert refused.startswith(f"LIMIT max-memory is {most} and reached"), refused
    assert view(client("COUNTDOWN", "GET", "old"))["state"] == b"counting"
    assert view(client("COUNTDOWN", "RETIME", "old", "1m"))
    assert client("COUNTDOWN", "CANCEL", "old") == 1
    assert view(client("TIMER", "SET", "t0", "2h"))
    facts = daemon.info("memory")
    assert facts["maxmemory"] == str(most)
    status, lines = health(daemon)
    assert status == 1 and f"limits.max-memory is {most}" in lines[0]
    daemon.config_path.write_text("")
    client("CONFIG", "RELOAD")
    client.retry("LIMIT", "TIMER", "SET", "more", "1h")


def test_much_input_at_once_does_not_exceed_the_limit_of_memory_by_much(daemon):
    client = daemon.connect()
    most = int(daemon.info("memory")["used_memory_rss"]) + (8 << 20)
    daemon.config_path.write_text(f"limits: {{max-connections: 1000, max-memory: {most}}}\n")
    assert client("CONFIG", "RELOAD")
    commands = [request("TIMER", "SET", f"t{number}", "1h", "PAYLOAD", "p" * 4_000) for number in range(6_000)]
    sender = threading.Thread(target=client.send_bytes, args=[b"".join(commands)])
    sender.start()
    replies = [client.reply("LIMIT") for _ in commands]
    sender.join()
    accepted = sum(not isinstance(reply, Error) for reply in replies)
    assert 0 < accepted < len(commands)
    assert all("max-memory" in reply for reply in replies if isinstance(reply, Error))
    # Replies that are not read yet take memory, too, so its peak is no measure.
    assert accepted * 4_000 < 16 << 20


# Health


def test_health_of_a_daemon_that_is_not_there(tmp_path):
    done = ctl("health", "--socket", tmp_path / "none")
    assert done.returncode == 2 and "no countdownd listens" in done.stdout and not done.stderr
    done = ctl("health", "--json", "--socket", tmp_path / "none")
    found = json.loads(done.stdout)
    assert done.returncode == 2 and found["status"] == "not-serving" and len(found["problems"]) == 1


def test_health_of_a_daemon_that_hangs(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        status, lines = health(daemon, "--wait", "100ms")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert status == 2 and "did not answer within 100 ms" in lines[0]


def test_health_reports_a_refused_reload(daemon):
    daemon.config_path.write_text("nonsense: 1\n")
    daemon.connect().error("ERR", "CONFIG", "RELOAD")
    status, lines = health(daemon)
    assert status == 1 and "the new configuration is refused" in lines[0]
    assert "nonsense" in daemon.info("server")["config_last_reload_error"]
    done = ctl("health", "--json", "--socket", daemon.path)
    assert json.loads(done.stdout)["status"] == "attention"


@pytest.mark.daemon(config="limits: {max-connections: 1000, max-entities: 10}\n")
def test_health_reports_limits_that_are_nearly_reached(daemon, client):
    for number in range(9):
        client("COUNTDOWN", "START", number)
    assert health(daemon) == (0, ["all is well"])
    client("COUNTDOWN", "START", "tenth")
    assert health(daemon) == (1, ["limits.max-entities is 10, and 10 are in use"])


@pytest.mark.daemon(descriptors=1_000)
def test_too_few_descriptors_are_reported(daemon, client):
    missing = 20_000 + 8 + 128 - 1_000
    status, lines = health(daemon)
    assert status == 1 and f"raise LimitNOFILE= by {missing}, or lower the limit" in lines[0]
    check = ["prlimit", "--nofile=1000", binary(), "--check-config", "--config", daemon.config_path]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=30)
    for text in (daemon.log, checked.stdout + checked.stderr):
        assert "limits.max-connections is 20000, but there is room for 864" in text, text
    assert metrics(client)["countdownd_process_missing_fds"] == missing
    daemon.config_path.write_text("limits: {max-connections: 864}\n")
    client("CONFIG", "RELOAD")
    assert health(daemon) == (0, ["all is well"])
    assert metrics(client)["countdownd_process_missing_fds"] == 0
