"""The sandbox of systemd/countdownd.service, under a real systemd: each setting is in force, and
none hinders the daemon."""

import json
import os
import subprocess

import pytest
import redis

from countdownd import FIRST_STATE, PROJECT
from machine import SOCKET, needs_binary, needs_systemd, with_countdownd
from sandbox import check, probe, settings

pytestmark = [*needs_systemd, needs_binary]

UNIT = PROJECT / "systemd/countdownd.service"

# Settings of [Service] that confine nothing, or only adjust one that has a probe.
NO_SANDBOX = set(
    """Type NotifyAccess ExecStart ExecReload Environment Restart RestartSec WatchdogSec
    RestartPreventExitStatus TimeoutAbortSec TimeoutStopSec User StateDirectory StateDirectoryMode
    LimitNOFILE PrivateUsers SystemCallErrorNumber""".split()
)
# Two other settings already block what this one confines, so a probe could not test it.
ONLY_SHOWN = {"IPAddressDeny": "0.0.0.0/0 ::/0"}


@pytest.fixture(scope="module")
def machine():
    machine = with_countdownd()
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def probed(machine):
    return probe(machine, "countdownd.service")


def test_every_setting_of_the_sandbox_is_in_force(machine, probed):
    check(probed, settings(UNIT) - NO_SANDBOX - set(ONLY_SHOWN))
    for name, value in ONLY_SHOWN.items():
        # systemd keeps lists as sets, so their order varies.
        assert sorted(machine.show(name).split()) == sorted(value.split())


def test_systemd_rates_the_sandbox_well():
    """At most 0.5 of 10 (`--threshold` is in tenths of that)."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=5"]
        + [UNIT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


def connect(machine):
    path = str(machine.path(SOCKET))
    return redis.Redis(unix_socket_path=path, protocol=3, decode_responses=True)


@pytest.fixture
def running(machine, probed):
    machine.run("systemctl", "start", "countdownd.service")
    yield machine
    machine.run("systemctl", "stop", "countdownd.service")


def test_what_the_daemon_can_write_cannot_be_executed(running):
    sandbox = ["nsenter", "-t", running.show("MainPID"), "-m", "--"]
    for directory in ("/var/lib/countdownd", "/tmp", "/var/tmp"):
        program = f"{directory}/true"
        running.run(*sandbox, "cp", "/bin/true", program)
        assert "Permission denied" in running.run(*sandbox, program, check=False)
        running.run(*sandbox, "rm", program)


def test_no_command_needs_what_the_sandbox_forbids(running):
    with connect(running) as client:
        events = client.pubsub()
        events.subscribe("timer:t")
        assert client.execute_command("COUNTDOWN START c COUNT 60")
        assert client.execute_command("HUD SHOW h STATUS Paying")
        assert client.execute_command("TIMER SET t 50ms")
        fired = (json.loads(m["data"]) for m in events.listen() if m["type"] == "message")
        assert any(event["event"] == "fired" for event in fired)
        # The client has the same user ID as outside the sandbox.
        assert client.execute_command("CLIENT INFO")["user"] == str(os.getuid())
        assert client.info("systemd")["under_systemd"] == 1
    state = running.path("/var/lib/private/countdownd")
    assert (state / FIRST_STATE).exists()
    assert state.stat().st_mode & 0o777 == 0o700
    journal = running.journal()
    for sign in ("denied", "not permitted", "failed", "Read-only", "SIGSYS"):
        assert [line for line in journal.splitlines() if sign.lower() in line.lower()] == []


def test_a_configuration_that_only_root_can_read_comes_as_a_credential(running):
    running.write("/root/countdownd.yaml", "countdown:\n  count: 7\n")
    running.run("chmod", "600", "/root/countdownd.yaml")
    running.drop_in(
        "countdownd.service",
        "[Service]\nLoadCredential=countdownd.yaml:/root/countdownd.yaml\n"
        "ExecStart=\nExecStart=/usr/bin/countdownd --config %d/countdownd.yaml\n",
    )
    running.run("systemctl", "restart", "countdownd.service")
    with connect(running) as client:
        assert client.execute_command("COUNTDOWN START k")["count"] == 7
    running.run("rm", "/run/systemd/system/countdownd.service.d/test.conf")
    running.run("systemctl", "daemon-reload")
