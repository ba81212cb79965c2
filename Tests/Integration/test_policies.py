"""Policies with redis-py: a whole flow, and reloading the configuration."""

import json
import os
import pty
import signal
import socket
import subprocess

import pytest
import redis

from countdownd import PROJECT, Simple, binary, eventually, view

LOGIN = """
policies:
  login:
    ladder: [60s, 2m, 5m]
    windows: [4/10m, 6/1h]
    channels: [sms, sms, sms, call, call, mail, post]
    validity: 5m
    attempts: 3
    title: "%m:%02s"
    ready-title: again
"""


def connect(daemon):
    return redis.Redis(unix_socket_path=str(daemon.path), protocol=3, decode_responses=True)


@pytest.mark.daemon(virtual_time=True, config=LOGIN)
def test_countdownctl_explains_a_refusal(daemon):
    client = connect(daemon)
    client.execute_command("COUNTDOWN", "START", "+45", "POLICY", "login")
    client.execute_command("CLOCK", "ADVANCE", "20s")
    ctl = binary().parent / "countdownctl"
    done = subprocess.run(
        [ctl, "why", "+45", "--socket", daemon.path], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "+45  refused: in cooldown after send 1; 40 s of 60 s left\n"
        "  limit  1 of 4 in 10 m; the oldest leaves in 9 m 40 s\n"
        "  limit  1 of 6 in 60 m; the oldest leaves in 59 m 40 s\n"
        "  limit  1 of 7 channels used; sms is next\n"
        "  code   valid for 4 m 40 s; 3 of 3 attempts left\n")
    done = subprocess.run(
        [ctl, "why", "none", "--socket", daemon.path, "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["state"] == "idle"


REFUNDS = "policies: {p: {ladder: [60s], validity: 1h, refunds: 2/10m}}\n"


@pytest.mark.daemon(virtual_time=True, config=REFUNDS)
def test_only_so_many_failed_sends_are_given_back(daemon):
    client = daemon.connect()

    def say(verb, *words):
        return view(client("COUNTDOWN", verb, "k", *words))

    for left in (1, 0):
        sent = say("START", "POLICY", "p")
        assert say("REFUND", "GENERATION", sent["generation"])["refunds_left"] == left
        daemon.restart("kill")
        client = daemon.connect()
    sent = say("START", "POLICY", "p")
    refused = say("REFUND", "GENERATION", sent["generation"])
    assert (refused["accepted"], refused["reason"]) == (0, b"refunds")
    assert (refused["state"], refused["sends"]) == (b"counting", 1)
    ctl = binary().parent / "countdownctl"
    done = subprocess.run(
        [ctl, "refund", "k", "--generation", str(sent["generation"]), "--socket", daemon.path],
        capture_output=True, text=True)
    assert done.returncode == 1 and "no more sends of k are given back" in done.stdout + done.stderr
    client("CLOCK", "ADVANCE", "10m")
    assert say("REFUND", "GENERATION", sent["generation"])["accepted"] == 1


GUESSED = "policies: {p: {ladder: [1s], validity: 1h, attempts: 2, guesses: 3/1d}}\n"


@pytest.mark.daemon(virtual_time=True, config=GUESSED)
def test_no_resend_restart_or_reload_gives_new_guesses(daemon):
    client = daemon.connect()

    def say(verb, *words):
        return view(client("COUNTDOWN", verb, "k", *words))

    say("START", "POLICY", "p")
    assert [say("ATTEMPT")["guesses_left"] for _ in range(2)] == [2, 1]
    client("CLOCK", "ADVANCE", "10s")
    assert say("RESEND")["guesses_left"] == 1
    daemon.restart("kill")
    client = daemon.connect()
    assert (say("ATTEMPT")["attempts_left"], say("GET")["guesses_left"]) == (1, 0)
    client("CONFIG", "RELOAD")
    for verb, words in (("ATTEMPT", []), ("RESEND", []), ("START", ["POLICY", "p"])):
        refused = say(verb, *words)
        assert (refused["accepted"], refused["reason"]) == (0, b"guesses")
        assert refused["retry_after_ms"] == 86_390_000
    ctl = binary().parent / "countdownctl"
    done = subprocess.run(
        [ctl, "why", "k", "--socket", daemon.path], capture_output=True, text=True, check=True)
    assert "refused: 3 of 3 guesses in 24 h; the oldest leaves in 24 h" in done.stdout
    assert say("PASS")["guesses_left"] == 1


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("owner", ["connection", "scope:s"])
def test_kill_9_resets_no_quota_of_an_owned_countdown(start_daemon, owner, durability):
    daemon = start_daemon(
        arguments=["--durability", durability], config="policies:\n  p:\n    windows: [3/1d]\n"
    )
    client = daemon.connect()
    client("SCOPE", "OPEN", "s")

    def start(*words):
        return view(client("COUNTDOWN", "START", "k", "POLICY", "p", *words))

    for token in ("x", "y"):
        assert start("TOKEN", token)["accepted"]
        client("COUNTDOWN", "CANCEL", "k")
    owned = start("OWNER", owner, "TOKEN", "z")
    assert (owned["accepted"], owned["sends_left"], owned["state"]) == (1, 0, b"counting")
    for how in ("kill", "kill", "terminate"):
        daemon.restart(how)
        client = daemon.connect()
        idle = view(client("COUNTDOWN", "GET", "k"))
        assert (idle["state"], idle["owner"], idle["sends"], idle["sends_left"]) == (b"idle", b"none", 3, 0)
        refused = start()
        assert (refused["accepted"], refused["reason"]) == (0, b"window")
        # Each token still belongs to its own send.
        for token in ("z", "x", "y", "x"):
            again = start("TOKEN", token)
            assert (again["accepted"], again["reason"]) == (1, b"repeated")
            assert (again["generation"] == owned["generation"]) == (token == "z")


@pytest.mark.daemon(virtual_time=True, config=LOGIN)
def test_config_get_shows_policies(client):
    shown = dict(zip(*[iter(client("CONFIG", "GET", "policies.*"))] * 2))
    assert shown[b"policies.login.ladder"] == b"1m,2m,5m"
    assert shown[b"policies.login.windows"] == b"4/10m,6/1h"


# Reloading the configuration


def reload(daemon, config, expected):
    """Reloads the configuration and waits until the log reports `expected`."""
    seen = daemon.log.count(expected)
    daemon.config_path.write_text(config)
    os.kill(daemon.pid, signal.SIGHUP)
    eventually(lambda: daemon.log.count(expected) > seen, f"the log says {expected}")


def start(client, key, *words):
    return view(client("COUNTDOWN", "START", key, *words))


@pytest.mark.daemon(virtual_time=True, config=LOGIN)
def test_a_reload_applies_to_later_starts(daemon, client):
    before = start(client, "old", "POLICY", "login")
    assert start(client, "plain")["remaining_ms"] == 60_000
    changed = """
policies:
  login: {ladder: [30s, 40s], windows: [2/10m]}
  other: {}
countdown: {count: 5}
hud: {max-level: alert}
log-level: debug
limits: {max-entities: 4}
slowlog: {length: 7}
"""
    reload(daemon, changed, "configuration reloaded")
    new = start(client, "new", "POLICY", "login")
    assert (new["remaining_ms"], new["sends_left"]) == (30_000, 1)
    assert start(client, "other", "POLICY", "other")["accepted"]
    client.error("LIMIT", "COUNTDOWN", "START", "fifth")
    # A countdown keeps the policy that it was started with, also on RESEND.
    client("CLOCK", "ADVANCE", "60s")
    again = view(client("COUNTDOWN", "RESEND", "old"))
    assert again["accepted"] and again["remaining_ms"] == 120_000
    assert again["sends_left"] == before["sends_left"] - 1
    # START uses the reloaded policy, whose limit of two sends is reached.
    client("COUNTDOWN", "CANCEL", "old")
    assert start(client, "old", "POLICY", "login")["reason"] == b"window"
    assert start(client, "plain")["remaining_ms"] == 5_000
    client("COUNTDOWN", "CANCEL", "plain")
    assert view(client("HUD", "SHOW", "s", "LEVEL", "alert"))["level"] == b"alert"
    assert dict(zip(*[iter(client("CONFIG", "GET", "*"))] * 2))[b"slowlog.length"] == b"7"
    reload(daemon, "", "configuration reloaded")
    assert "no policy 'login'" in client.error("ERR", "COUNTDOWN", "START", "x", "POLICY", "login")


@pytest.mark.daemon(virtual_time=True, config=LOGIN)
def test_a_bad_file_keeps_the_old_settings_and_says_why(daemon, client):
    bad = "countdown: {count: 5}\npolicies: {login: {count: 0}}\nnonsense: 1\n"
    reload(daemon, bad, "the configuration is refused, the old one stays: ")
    eventually(lambda: "nonsense: unknown setting" in daemon.log, "every problem is named")
    assert f"{daemon.config_path}:2: policies.login.count" in daemon.log
    assert start(client, "a", "POLICY", "login")["remaining_ms"] == 60_000
    assert start(client, "b")["remaining_ms"] == 60_000
    daemon.config_path.unlink()
    seen = daemon.log.count("cannot be read")
    os.kill(daemon.pid, signal.SIGHUP)
    eventually(lambda: daemon.log.count("cannot be read") > seen, "a missing file is a bad one")
    reload(daemon, LOGIN, "configuration reloaded")
    assert start(client, "c", "POLICY", "login")["accepted"]


def test_settings_that_need_a_restart_stay_and_are_reported(daemon, client):
    changed = "socket: {mode: 0600}\nstate-directory: /nowhere\nlog-level: error\n"
    reload(daemon, changed, "socket.mode has changed, which takes a restart; the old value stays")
    shown = dict(zip(*[iter(client("CONFIG", "GET", "socket.*", "log-level"))] * 2))
    eventually(
        lambda: dict(zip(*[iter(client("CONFIG", "GET", "log-level"))] * 2))[b"log-level"]
        == b"error",
        "the level is another",
    )
    # The state directory is set on the command line, which takes precedence again.
    assert "state-directory has changed" not in daemon.log
    assert shown[b"socket.mode"] == b"0660"


def test_a_service_manager_is_notified_of_each_reload(start_daemon, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon = start_daemon()

        def hear(word):
            while True:
                message = manager.recv(4_096).decode()
                if word in message:
                    return message

        hear("READY=1")
        for config, status in [("", "configuration reloaded"), ("x: 1", "is refused, the old one stays: ")]:
            daemon.config_path.write_text(config)
            os.kill(daemon.pid, signal.SIGHUP)
            assert "MONOTONIC_USEC=" in hear("RELOADING=1")
            assert status in hear("READY=1")


def test_a_service_manager_that_does_not_read_holds_nobody_up(start_daemon, told):
    daemon = start_daemon(environment={**os.environ, **told.environment})
    client = daemon.connect()

    def reload():
        for _ in range(30):
            assert view(client("CONFIG", "RELOAD"))["changed"] == []
            assert client("PING") == Simple("PONG")

    reload()
    # Once it reads, it receives the newest status last.
    eventually(lambda: told.status() == "STATUS=configuration reloaded", lambda: told.lines)
    assert told.lines.index("READY=1") < told.lines.index("RELOADING=1")
    reload()
    daemon.stop("terminate")


def test_the_daemon_ends_with_its_terminal(tmp_path):
    """Closing the window of `make run` does not leave a daemon behind."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(binary(), [str(binary()), "--socket", str(tmp_path / "s"), "--virtual-time"])
    eventually((tmp_path / "s").exists, "it listens")
    os.close(terminal)
    assert eventually(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0), "it ends")
    assert not (tmp_path / "s").exists()


POLICIES = PROJECT / "config/policies.yaml"


def test_the_example_policies_can_be_used(start_daemon):
    daemon = start_daemon(config=POLICIES.read_text())
    answer = connect(daemon).execute_command("COUNTDOWN", "START", "+45", "POLICY", "phone")
    assert answer["accepted"] and answer["next_channel"] == "sms"
