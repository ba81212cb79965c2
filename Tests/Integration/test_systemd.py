"""countdownd under a real systemd: the units of systemd/ and the binary, booted privately.

    swift build && scripts/integration-test.sh Tests/Integration/test_systemd.py

Needs root: each test boots a private systemd with scripts/with-systemd.sh, and enters it by its
process ID.
"""

import json
import pathlib
import pwd
import re
import shutil
import socket

import pytest

from countdownd import FIRST_STATE, PATIENCE, Client, sure, view
from machine import CONFIGURATION, SOCKET, Load, needs_binary, needs_systemd, ping, ping_as
from machine import runtime_directories, with_countdownd

PROJECT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [*needs_systemd, needs_binary]


@pytest.fixture
def machine():
    machine = with_countdownd()
    yield machine
    machine.close()


def test_systemd_verifies_the_units(machine):
    # (The man page they name is built apart from the daemon.)
    units = ["countdownd.service", "countdownd.socket"]
    assert machine.run("systemd-analyze", "verify", "--man=no", *units) == ""


def test_start_returns_once_the_socket_answers(machine):
    machine.run("systemctl", "start", "countdownd.service")
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
    assert machine.show("ActiveState") == "active"
    assert machine.show("StatusText") != ""


def test_is_not_active_before_it_is_ready(machine):
    # Stopped before its first instruction, the daemon cannot have said that it is ready.
    machine.drop_in(
        "countdownd.service",
        "[Service]\nExecStart=\n"
        "ExecStart=/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/countdownd --config "
        f"{CONFIGURATION}'\n",
    )
    machine.run("systemctl", "start", "--no-block", "countdownd.service")
    machine.eventually("it is stopped", machine.is_stopped)
    assert machine.show("ActiveState") == "activating"
    machine.run("systemctl", "kill", "--kill-whom=main", "-s", "CONT", "countdownd.service")
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"


def test_the_first_connection_starts_it(machine):
    machine.run("systemctl", "start", "countdownd.socket")
    assert machine.show("ActiveState") == "inactive"
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
    assert machine.show("ActiveState") == "active"


def test_stop_ends_it_and_leaves_the_socket(machine):
    machine.run("systemctl", "start", "countdownd.service")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(machine.path(SOCKET)))
        machine.run("systemctl", "stop", "countdownd.service")
    assert machine.show("Result") == "success"
    assert machine.show("ExecMainStatus") == "0"
    assert machine.path(SOCKET).is_socket()
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"


def test_the_watchdog_restarts_a_daemon_that_hangs(machine):
    machine.drop_in("countdownd.service", "[Service]\nWatchdogSec=4s\nTimeoutAbortSec=2s\n")
    machine.run("systemctl", "start", "countdownd.service")
    first = machine.show("MainPID")
    machine.heartbeats_arrive()
    assert machine.show("MainPID") == first, "it was restarted although it was well"
    machine.run("systemctl", "kill", "--kill-whom=main", "-s", "STOP", "countdownd.service")
    machine.eventually(
        "another process is active",
        lambda: machine.show("NRestarts") == "1" and machine.show("ActiveState") == "active",
    )
    assert machine.show("MainPID") != first
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"


def test_a_configuration_that_is_refused_is_not_tried_again(machine):
    machine.write(CONFIGURATION + ".d/test.yaml", "limits:\n  max-conections: 5\n")
    machine.run("systemctl", "start", "countdownd.service", check=False)
    machine.eventually("it failed", lambda: machine.show("ActiveState") == "failed")
    assert machine.show("ExecMainStatus") == "78"
    assert machine.show("NRestarts") == "0"
    place = f"{CONFIGURATION}.d/test.yaml:2: limits.max-conections"
    machine.eventually("the journal says where", lambda: place in machine.journal())
    assert "cannot start: the configuration is refused" in machine.show("StatusText")
    assert place in machine.show("StatusText")
    refused(machine, place)


def refused(machine, reason):
    """Checks that the journal says at critical why the daemon cannot start."""
    found = entries(machine, "MESSAGE_ID=" + message_ids()["cannot start"])
    assert found and {entry["PRIORITY"] for entry in found} == {"2"}
    assert all(reason in entry["MESSAGE"] for entry in found), found


def test_a_state_that_cannot_be_read_is_said_in_the_status_after_all_tries(machine):
    machine.drop_in("countdownd.service", "[Service]\nRestartSec=100ms\n")
    machine.path("/var/lib/countdownd/state-1.db").mkdir(parents=True)
    machine.run("systemctl", "start", "countdownd.service", check=False)
    machine.eventually("it failed", lambda: machine.show("ActiveState") == "failed")
    assert machine.show("ExecMainStatus") == "73"
    assert "cannot start: cannot keep state" in machine.show("StatusText")
    refused(machine, "state-1.db")


def test_reload_takes_a_good_configuration_and_keeps_the_old_one_for_a_bad(machine):
    start = b"COUNTDOWN START k POLICY login\r\n"
    machine.run("systemctl", "start", "countdownd.service")
    first = machine.show("MainPID")
    assert b"no policy 'login'" in ping(machine.path(SOCKET), command=start)
    machine.write(CONFIGURATION + ".d/test.yaml", "policies:\n  login: {count: 5}\n")
    machine.run("systemctl", "reload", "countdownd.service")
    machine.eventually("it is reloaded", lambda: "configuration reloaded" in machine.journal())
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert b"accepted" in ping(machine.path(SOCKET), command=start)
    machine.write(CONFIGURATION + ".d/test.yaml", "policies:\n  login: {count: 0}\n")
    machine.run("systemctl", "reload", "countdownd.service")
    place = f"{CONFIGURATION}.d/test.yaml:2: policies.login.count"
    machine.eventually("the journal says where", lambda: place in machine.journal())
    machine.eventually("it is active", lambda: machine.show("ActiveState") == "active")
    assert "policies.login.count" in machine.show("StatusText")
    assert b"config_last_reload_successful:0" in ping(machine.path(SOCKET), command=b"INFO server\r\n")
    assert b"cooldown" in ping(machine.path(SOCKET), command=start)
    assert machine.show("MainPID") == first


def entries(machine, *matches):
    """Returns journal entries, each as a dictionary of its fields."""
    lines = machine.run("journalctl", "-o", "json", "--no-pager", "-q", *matches, check=False)
    return [json.loads(line) for line in lines.splitlines()]


def entry_number(number, machine, match):
    """Waits until there are so many entries with a message ID, and returns the last one."""
    machine.eventually(
        f"entry {number} of {match} is there", lambda: len(entries(machine, match)) == number)
    return entries(machine, match)[-1]


def message_ids():
    """Returns the message IDs that docs/reference/log-messages.md lists, by name."""
    text = (PROJECT / "docs/reference/log-messages.md").read_text()
    return {name: id for id, name in re.findall(r"^\| `([0-9a-f]{32})` \| ([a-z ]+) \|", text, re.M)}


def test_the_journal_has_ids_and_fields(machine):
    ids = message_ids()
    machine.write(CONFIGURATION + ".d/test.yaml", "limits: {max-entities-per-uid: 1}\n")
    machine.run("systemctl", "start", "countdownd.service")
    for name in ("started", "ready"):
        entry = entry_number(1, machine, "MESSAGE_ID=" + ids[name])
        assert entry["SYSLOG_IDENTIFIER"] == "countdownd" and entry["PRIORITY"] == "6"
        assert entry["_SYSTEMD_UNIT"] == "countdownd.service"
        assert entry["CODE_FILE"].endswith(".swift") and int(entry["CODE_LINE"]) > 0
    secret = b"k9-secret-marker"
    commands = b"".join(
        b"COUNTDOWN START %b META %b\r\n" % (key, secret) for key in (b"first", b"second")
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(machine.path(SOCKET)))
        client.sendall(commands)
        client.settimeout(PATIENCE)
        answer = b""
        while b"-LIMIT" not in answer:
            answer += client.recv(4_096)
    entry = entry_number(1, machine, "MESSAGE_ID=" + ids["refused at a limit"])
    assert entry["COUNTDOWND_KEY"] == "second" and entry["COUNTDOWND_UID"] == "0"
    assert int(entry["COUNTDOWND_CONNECTION"]) > 0 and entry["PRIORITY"] == "4"
    assert entries(machine, "COUNTDOWND_KEY=second") == [entry]

    reload = b"CONFIG RELOAD\r\n"
    assert b"needs_restart" in ping(machine.path(SOCKET), command=reload)
    entry = entry_number(1, machine, "MESSAGE_ID=" + ids["reloaded"])
    assert entry["COUNTDOWND_CHANGED"] == ""
    machine.write(
        CONFIGURATION + ".d/test.yaml", "limits: {max-entities-per-uid: 2}\nlog-level: notice\n")
    assert b"needs_restart" in ping(machine.path(SOCKET), command=reload)
    entry = entry_number(2, machine, "MESSAGE_ID=" + ids["reloaded"])
    assert entry["COUNTDOWND_CHANGED"] == "limits.max-entities-per-uid,log-level"
    machine.write(CONFIGURATION + ".d/test.yaml", "limits: {x: 1}\n")
    assert b"-ERR the configuration is refused" in ping(machine.path(SOCKET), command=reload)
    entry = entry_number(1, machine, "MESSAGE_ID=" + ids["reload refused"])
    assert entry["PRIORITY"] == "3" and "limits.x" in entry["MESSAGE"]
    assert secret.decode() not in machine.run("journalctl", "-o", "export", "--no-pager")


def test_the_socket_lets_in_its_group_and_nobody_else(machine):
    nobody = pwd.getpwnam("nobody")
    machine.run("systemctl", "start", "countdownd.service")
    assert ping_as(machine, nobody.pw_uid, socket_group(machine))
    assert not ping_as(machine, nobody.pw_uid, nobody.pw_gid)


def test_another_service_may_connect_by_a_supplementary_group(machine):
    machine.write(
        "/usr/local/lib/client.py",
        "import socket\ns = socket.socket(socket.AF_UNIX)\n"
        f"s.connect('{SOCKET}')\ns.sendall(b'PING\\r\\n')\nassert s.recv(64) == b'+PONG\\r\\n'\n",
    )
    for name, group in (("let-in", "countdownd"), ("left-out", "")):
        machine.write(
            f"/run/systemd/system/{name}.service",
            "[Service]\nType=oneshot\nDynamicUser=yes\n"
            f"SupplementaryGroups={group}\n"
            "ExecStart=/usr/bin/python3 -I /usr/local/lib/client.py\n",
        )
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "countdownd.socket")
    machine.run("systemctl", "start", "let-in.service")
    machine.run("systemctl", "start", "left-out.service", check=False)
    assert machine.show("Result", "let-in.service") == "success"
    assert machine.show("Result", "left-out.service") == "exit-code"
    log = machine.run("journalctl", "--no-pager", "-q", "-u", "left-out.service")
    assert "PermissionError" in log


def test_it_is_started_again_each_time_it_is_killed(machine):
    machine.run("systemctl", "start", "countdownd.service")
    # More often in a row than systemd's default limit allows.
    for kills in range(1, 9):
        machine.run("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "countdownd.service")
        # Meanwhile this client waits in the socket's queue.
        assert ping(machine.path(SOCKET), timeout=30) == b"+PONG\r\n"
        machine.eventually(
            "it was started again",
            lambda: machine.show("NRestarts") == str(kills)
            and machine.show("ActiveState") == "active",
        )


def test_a_restart_under_load_refuses_no_connection(machine):
    machine.run("systemctl", "start", "countdownd.service")
    socket_identity = machine.path(SOCKET).stat().st_ino
    load = Load(machine.path(SOCKET))
    answered = 0
    try:
        for _ in range(5):
            machine.run("systemctl", "restart", "countdownd.service")
            before = load.answered
            machine.eventually("clients are answered", lambda: load.answered > before + 100)
            assert load.refused == []
        answered = load.answered
    finally:
        load.end()
    assert load.refused == []
    assert answered > 500
    # At most the connections that were accepted before each restart.
    assert load.cut_off <= 5 * len(load.threads)
    assert machine.path(SOCKET).stat().st_ino == socket_identity


def socket_group(machine):
    group = machine.path(SOCKET).stat().st_gid
    line = machine.run("getent", "group", "countdownd")
    assert line.split(":")[2] == str(group)
    return group


def test_a_user_runs_a_daemon_of_their_own(machine):
    user, home, runtime = "1234", "/home/alice", "/run/user/1234"
    machine.run("useradd", "--create-home", "--uid", user, "alice")
    for unit in ("countdownd.service", "countdownd.socket"):
        unit_text = (PROJECT / "systemd/user" / unit).read_text()
        machine.write(f"/usr/lib/systemd/user/{unit}", unit_text)
    machine.run("install", "-d", "-o", user, "-g", user, "-m", "700", runtime)
    machine.run("systemctl", "start", f"user@{user}.service")
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    as_user += ["env", f"XDG_RUNTIME_DIR={runtime}", f"HOME={home}"]

    units = ["countdownd.service", "countdownd.socket"]
    assert machine.run(*as_user, "systemd-analyze", "--user", "verify", "--man=no", *units) == ""
    machine.run(*as_user, "systemctl", "--user", "enable", "--now", *units)
    path = machine.path(f"{runtime}/countdownd/countdownd.sock")
    assert ping(path) == b"+PONG\r\n"
    assert path.stat().st_uid == int(user) and path.stat().st_mode & 0o777 == 0o600
    state = machine.run("find", home, "-name", FIRST_STATE, "-user", user)
    assert state.endswith(f"/countdownd/{FIRST_STATE}")
    machine.run(*as_user, "systemctl", "--user", "reload", "countdownd.service")
    machine.run(*as_user, "systemctl", "--user", "stop", *reversed(units))
    assert not path.exists()


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_the_drop_in_of_fleets_opens_the_network_to_it(machine):
    machine.run("systemd-run", "--unit=redis", "redis-server", "--bind", "127.0.0.1", "--save", "",
                "--requirepass", "secret")  # fmt: skip
    machine.write("/etc/countdownd/fleet-password", "secret\n")
    machine.write(
        f"{CONFIGURATION}.d/fleet.yaml",
        "fleet: {engine: redis, nodes: ['127.0.0.1:6379'], replicas: 0,"
        " password-file: /run/credentials/countdownd.service/fleet-password}\n",
    )
    text = (PROJECT / "systemd" / "fleet.conf").read_text()
    credential = "LoadCredential=fleet-password:/etc/countdownd/fleet-password\n"
    assert f"\n{credential}" in text

    def checked():
        return machine.run("/usr/bin/countdownd", "--check-config", check=False)

    # Root can read all files, but the service cannot.
    password = "/etc/countdownd/fleet-password"
    machine.path(password).chmod(0o600)
    assert "has no LoadCredential=fleet-password" in checked()

    def is_connected():
        with Client(machine.path(SOCKET)) as client:
            return b"fleet_servers_connected:1" in client("INFO", "fleet")

    # The credential alone is not enough: the unit has no network.
    machine.drop_in("countdownd.service", f"[Service]\n{credential}")
    assert "fleet.engine: redis" in checked()
    machine.path(password).rename(machine.path("/etc/countdownd/elsewhere"))
    assert f"there is no {password}, which LoadCredential=fleet-password" in checked()
    machine.path("/etc/countdownd/elsewhere").rename(machine.path(password))
    machine.run("systemctl", "start", "countdownd.service")
    entry_number(1, machine, "MESSAGE_ID=" + message_ids()["fleet disconnected"])
    assert not is_connected()
    machine.write("/etc/systemd/system/countdownd.service.d/fleet.conf", text)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "countdownd.service")
    machine.eventually("the fleet's server is reached", is_connected)
    with Client(machine.path(SOCKET)) as client:
        client.retry("UNAVAILABLE", "FLEET", "INIT")
        reply = sure(client, "COUNTDOWN", "START", "k")
    assert view(reply)["accepted"] == 1
    assert machine.run("redis-cli", "-a", "secret", "--no-auth-warning", "KEYS", "cd:{default.*}:records")


def test_check_config_finds_a_file_that_the_service_cannot_read(machine):
    secret = machine.path("/etc/countdownd/secret")
    machine.write("/etc/countdownd/secret", "secret\n")
    machine.write(
        f"{CONFIGURATION}.d/fleet.yaml",
        "fleet: {engine: redis, nodes: ['127.0.0.1:6379'], password-file: /etc/countdownd/secret}\n")
    for mode, is_readable in [(0o600, False), (0o644, True)]:
        secret.chmod(mode)
        agrees(machine, "the service's user _countdownd cannot read /etc/countdownd/secret", is_readable)


def agrees(machine, problem, is_readable, *words):
    """Checks that --check-config and a start come to the same result."""
    text = machine.run("/usr/bin/countdownd", "--check-config", *words, check=False)
    assert (problem in text) != is_readable, text
    machine.run("systemctl", "reset-failed", check=False)
    machine.run("systemctl", "start", "countdownd.service", check=False)
    assert (machine.show("ActiveState") == "active") == is_readable
    machine.run("systemctl", "stop", "countdownd.socket", "countdownd.service", check=False)


def test_check_config_finds_a_configuration_that_the_service_cannot_read(machine):
    """Root reads all of it; the service's user is another one."""
    drop_in, folder = f"{CONFIGURATION}.d/own.yaml", f"{CONFIGURATION}.d"
    machine.write(drop_in, "countdown: {count: 5}\n")
    says = "the service's user _countdownd cannot read"
    agrees(machine, says, True)
    for path, bad, good in [(drop_in, 0o600, 0o644), (folder, 0o700, 0o755), ("/etc/countdownd", 0o700, 0o755),
                            (CONFIGURATION, 0o640, 0o644)]:
        machine.path(path).chmod(bad)
        agrees(machine, f"(mode {bad:04o}", False)
        agrees(machine, f"{says} ", False, "--config", CONFIGURATION)
        machine.path(path).chmod(good)
    agrees(machine, says, True)
    # Another user, who is in a group.
    machine.run("useradd", "--system", "--user-group", "timers")
    machine.run("chgrp", "timers", drop_in)
    machine.path(drop_in).chmod(0o640)
    for user, is_readable in [("nobody", False), ("timers", True)]:
        machine.drop_in("countdownd.service", f"[Service]\nDynamicUser=no\nUser={user}\n")
        agrees(machine, f"the service's user {user} cannot read {drop_in}", is_readable)
    machine.drop_in("countdownd.service", "[Service]\nDynamicUser=no\nUser=\n")
    machine.path(drop_in).chmod(0o600)
    agrees(machine, "cannot read", True)


def test_a_state_of_a_newer_release_is_not_tried_again_and_73_is(machine):
    machine.run("systemctl", "start", "countdownd.service")
    machine.run("systemctl", "stop", "countdownd.socket", "countdownd.service")
    state = machine.path(f"/var/lib/private/countdownd/{FIRST_STATE}")

    def set_version(number):
        # SQLite's header. (SQLite itself would look for the machine's path on the host.)
        with open(state, "r+b") as file:
            file.seek(60)
            file.write(number.to_bytes(4, "big"))

    set_version(99)
    machine.run("systemctl", "start", "countdownd.service", check=False)
    machine.eventually("it failed", lambda: machine.show("ActiveState") == "failed")
    assert machine.show("ExecMainStatus") == "65" and machine.show("NRestarts") == "0"
    assert "newer version" in machine.show("StatusText")
    set_version(5)
    # 73 stays tried: there may be room again.
    state.rename(machine.path("/root/state"))
    state.mkdir()
    machine.run("systemctl", "reset-failed")
    machine.run("systemctl", "start", "--no-block", "countdownd.service", check=False)
    machine.eventually("it is tried again", lambda: (
        int(machine.show("NRestarts")) > 0 and machine.show("ExecMainStatus") == "73"))


FIGURES = "/var/lib/prometheus/node-exporter/countdownd.prom"


@pytest.fixture
def with_timers(machine):
    """A machine with the units of the timers, and the libraries of a debug build where these see them."""
    machine.run("ln", "-s", "countdownd", "/usr/bin/countdownctl")
    units = [path for path in (PROJECT / "systemd").iterdir() if re.match("countdownd-(metrics|backup)", path.name)]
    for unit in units:
        machine.write(f"/etc/systemd/system/{unit.name}", unit.read_text())
    libraries = "".join(f"BindReadOnlyPaths={path}\n" for path in runtime_directories())
    machine.drop_in("countdownd-metrics.service", f"[Service]\n{libraries}")
    machine.names = [unit.name for unit in units]
    return machine


def test_systemd_verifies_the_units_of_timers(with_timers):
    assert len(with_timers.names) == 5
    assert with_timers.run("systemd-analyze", "verify", "--man=no", *with_timers.names) == ""


def test_figures_are_written_by_the_daemons_user_until_the_timer_is_stopped(with_timers):
    machine = with_timers
    folder = machine.path(FIGURES).parent
    folder.mkdir(parents=True, exist_ok=True)
    # access.connect refuses everybody but the daemon's own user, and root.
    machine.write(f"{CONFIGURATION}.d/own.yaml", "access: {connect: {users: [nobody]}}\n")
    machine.run("systemctl", "start", "countdownd.service")
    machine.run("systemctl", "start", "countdownd-metrics.timer", "countdownd-metrics.service")
    file = machine.path(FIGURES)
    assert "\ncountdownd_up 1\n" in file.read_text() and file.stat().st_mode & 0o777 == 0o644
    assert file.stat().st_uid == int(machine.run("stat", "-c", "%u", f"/proc/{machine.show('MainPID')}"))
    assert file.stat().st_uid != 0
    assert [path.name for path in folder.iterdir() if path.name.startswith("countdownd")] == [file.name]
    # It sees nothing else.
    machine.drop_in("countdownd-metrics.service", (
        f"[Service]\n{''.join(f'BindReadOnlyPaths={path}' + chr(10) for path in runtime_directories())}"
        "ExecStart=\nExecStart=/usr/bin/sh -c '! ls /etc/passwd && ! ls /var/lib/private && ! ls /home && ! touch /usr/x && ! touch /x'\n"))
    machine.run("systemctl", "start", "countdownd-metrics.service")
    machine.run("systemctl", "stop", "countdownd-metrics.timer")
    assert not file.exists()


def test_the_backup_timer_makes_checks_and_keeps_copies(with_timers):
    machine = with_timers
    folder = machine.path("/var/lib/private/countdownd-backup")
    machine.run("systemctl", "start", "countdownd.service")
    with Client(machine.path(SOCKET)) as client:
        view(client("COUNTDOWN", "START", "k", "EVERY", "1h"))
    assert machine.run("systemctl", "is-enabled", "countdownd-backup.timer", check=False) == "disabled"
    machine.run("systemctl", "start", "countdownd-backup.service")
    (copy,) = folder.iterdir()
    assert re.fullmatch(r"countdownd-\d{8}T\d{6}Z\.db", copy.name) and copy.stat().st_mode & 0o777 == 0o600
    assert copy.stat().st_uid != 0 and folder.stat().st_mode & 0o777 == 0o700
    assert "k" in machine.run("countdownctl", "state", "list", f"/var/lib/countdownd-backup/{copy.name}")
    for day in range(10, 30):
        (folder / f"countdownd-202001{day}T000000Z.db").write_bytes(b"")
    machine.run("systemctl", "start", "countdownd-backup.service")
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 14 and copy.name in names and names[0] > "countdownd-20200116"
    assert int(machine.run("countdownctl", "raw", "INFO", "persistence").split("last_backup_unix_ms:")[1].split()[0]) > 0


@pytest.mark.parametrize("was_running", [True, False])
def test_restore_is_one_command_and_the_service_runs_afterwards(machine, was_running):
    machine.run("ln", "-s", "countdownd", "/usr/bin/countdownctl")
    machine.write(CONFIGURATION + ".d/test.yaml", "limits: {max-connections: 1000}\n")
    machine.run("systemctl", "start", "countdownd.service")
    with Client(machine.path(SOCKET)) as client:
        view(client("COUNTDOWN", "START", "old", "EVERY", "1h"))
    machine.run("countdownctl", "backup", "/root/copy.db")
    with Client(machine.path(SOCKET)) as client:
        view(client("COUNTDOWN", "START", "new", "EVERY", "1h"))
    if not was_running:
        machine.run("systemctl", "stop", "countdownd.socket", "countdownd.service")
    assert machine.run("countdownctl", "restore", "/root/copy.db") == "state: /var/lib/countdownd/state-2.db"
    assert machine.show("ActiveState") == "active"
    with Client(machine.path(SOCKET)) as client:
        assert view(client("COUNTDOWN", "GET", "old")) and client("COUNTDOWN", "GET", "new") is None
    # Nothing of it looks like damage.
    ids = message_ids()
    for name in ("state replaced", "changes lost", "state emptied", "unclean end"):
        assert entries(machine, "MESSAGE_ID=" + ids[name]) == [], name
    assert machine.run("countdownctl", "health") == "all is well"
    # A file that cannot be restored leaves the service as it is.
    machine.write("/root/wrong.db", "no database")
    first = machine.show("MainPID")
    machine.run("countdownctl", "restore", "/root/wrong.db", check=False)
    assert machine.show("MainPID") == first and machine.show("ActiveState") == "active"


def test_damage_is_in_the_journal_and_the_status(machine):
    ids = message_ids()
    machine.run("systemctl", "start", "countdownd.service")
    machine.run("systemctl", "stop", "countdownd.socket", "countdownd.service")
    machine.run("sh", "-c", "rm /var/lib/countdownd/state-1*")
    machine.run("systemctl", "start", "countdownd.service")
    entry = entry_number(1, machine, "MESSAGE_ID=" + ids["state emptied"])
    assert entry["PRIORITY"] == "3"
    machine.eventually("the status", lambda: "damaged: " in machine.show("StatusText"))
    assert b":1" in ping(machine.path(SOCKET), command=b"STATE ACKNOWLEDGE\r\n")
    machine.eventually("the status", lambda: "damaged: " not in machine.show("StatusText"))
    entry = entry_number(1, machine, "MESSAGE_ID=" + ids["damage acknowledged"])
    assert entry["COUNTDOWND_UID"] == "0"
    machine.run("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "countdownd.service")
    found = "MESSAGE_ID=" + ids["unclean end"]
    machine.eventually("it says so", lambda: entries(machine, found))
    assert entries(machine, found)[0]["PRIORITY"] == "4"


def test_no_socket_from_systemd_is_said(machine):
    machine.run(
        "systemd-run", "--unit=alone", "-p", "Type=notify", "-p", "DynamicUser=yes", "-p", "StateDirectory=alone",
        "/usr/bin/countdownd", "--state-directory", "/var/lib/alone", check=False)  # fmt: skip
    machine.eventually(
        "it says so", lambda: "systemd has passed no socket" in machine.show("StatusText", "alone.service")
        or "systemd has passed no socket" in machine.journal("alone.service"))
