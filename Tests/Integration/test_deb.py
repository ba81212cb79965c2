"""The Debian packages, in a minimal Debian under a real systemd.

    make test-deb

COUNTDOWND_DEBS lists the files. COUNTDOWND_OLD_DEB may name the package of an earlier release, to
upgrade from. The system to install them in is created once, in .build.
"""

import http.client
import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from countdownd import FIRST_STATE, PROJECT
from machine import CONFIGURATION, SOCKET, Load, Machine, needs_systemd, ping

# The files by the name of their package.
PACKAGES = {
    path.name.split("_")[0]: path
    for path in map(pathlib.Path, os.environ.get("COUNTDOWND_DEBS", "").split())
}
OLD = os.environ.get("COUNTDOWND_OLD_DEB")
ROOT = PROJECT / ".build/clean-root"
UNITS = ("countdownd.socket", "countdownd.service")
GATEWAY_UNITS = (
    "countdown-gateway.socket", "countdown-gateway.service", "countdown-gateway-admin.socket")
KEYS = "/etc/countdown-gateway/ticket-keys"
PATIENCE = 120

pytestmark = [
    *needs_systemd,
    pytest.mark.skipif(
        set(PACKAGES) != {"countdownd", "countdown-gateway"},
        reason="COUNTDOWND_DEBS does not name the packages; make test-deb does",
    ),
    pytest.mark.skipif(not shutil.which("debootstrap"), reason="debootstrap is not installed"),
]


@pytest.fixture
def machine():
    """A minimal Debian; all changes in it are discarded afterwards."""
    subprocess.run([PROJECT / "scripts/clean-root.sh", ROOT, *needed()], check=True)
    copies = [f"{path}:/root/{name}.deb" for name, path in PACKAGES.items()]
    if OLD:
        copies.append(f"{OLD}:/root/old.deb")
    machine = Machine("-r", str(ROOT), *(word for copy in copies for word in ("-c", copy)))
    yield machine
    machine.close()


@pytest.fixture
def installed(machine):
    install(machine)
    return machine


def needed():
    """Returns the dependencies of the packages, which dpkg, unlike apt, does not install."""
    found = []
    for package in [*PACKAGES.values(), *([OLD] if OLD else [])]:
        show = ["dpkg-deb", "--field", package, "Depends"]
        line = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        found += [choice.split("|")[0].split()[0] for choice in line.split(",")]
    return sorted(set(found) - set(PACKAGES))


def install(machine, package="countdownd"):
    machine.run("dpkg", "--install", f"/root/{package}.deb", timeout=PATIENCE)


def ask_gateway(machine, path, ticket=None, port=8787):
    """Returns the status and the first bytes of a response of countdown-gateway."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.sock = machine.dial(port)
    connection.request("GET", path, headers={"Authorization": f"Bearer {ticket}"} if ticket else {})
    answer = connection.getresponse()
    return answer.status, answer.read1(1_000).decode()


def snapshot(machine):
    """Returns each path with its mode and size, without the files of dpkg, systemd and logs."""
    own = ("/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/var/log", "/var/cache", "/var/lib/dpkg")
    own += ("/run", "/var/lib/systemd", "/var/lib/private")
    # The databases of users and groups are compared by their content.
    own += tuple(f"/etc/{name}" for name in ("group", "group-", "gshadow", "gshadow-", ".pwd.lock"))
    root = str(machine.path("/"))
    paths = {"groups": machine.run("getent", "group"), "users": machine.run("getent", "passwd")}
    for directory, directories, files in os.walk(root):
        inside = directory[len(root.rstrip("/")) :] or "/"
        directories[:] = [d for d in directories if os.path.join(inside, d) not in own]
        for name in directories + files:
            path = os.path.join(inside, name)
            if path not in own:
                status = os.lstat(os.path.join(directory, name))
                is_file = stat.S_ISREG(status.st_mode)
                paths[path] = (status.st_mode, status.st_size if is_file else None)
    return paths


def test_it_is_installed_enabled_and_running(installed):
    for unit in UNITS:
        assert installed.run("systemctl", "is-active", unit) == "active"
        assert installed.run("systemctl", "is-enabled", unit) == "enabled"
    assert ping(installed.path(SOCKET)) == b"+PONG\r\n"
    assert installed.run("countdownctl", "ping").startswith("PONG")
    assert installed.run("systemd-analyze", "verify", "--man=no", *UNITS) == ""
    assert installed.run("dpkg", "--verify", "countdownd") == ""
    for page in ("countdownd.8", "countdownctl.1", "countdownctl-start.1", "countdownd.yaml.5"):
        assert installed.path(f"/usr/share/man/man{page[-1]}/{page}.gz").exists()
    libraries = installed.run("ldd", "/usr/bin/countdownd", "/usr/bin/countdownctl")
    assert "not found" not in libraries and "swift" not in libraries


def test_the_group_of_clients_is_made(installed):
    group = installed.run("getent", "group", "countdownd").split(":")[2]
    assert installed.path(SOCKET).stat().st_gid == int(group)
    installed.run("useradd", "--system", "visitor")
    visit = ["setpriv", "--reuid=visitor", "--regid=visitor", "--init-groups"]
    assert "not allowed" in installed.run(*visit, "countdownctl", "ping", check=False)
    installed.run("usermod", "-aG", "countdownd", "visitor")
    assert installed.run(*visit, "countdownctl", "ping").startswith("PONG")


def test_an_upgrade_refuses_no_connection_and_keeps_settings_and_state(machine):
    installed = machine
    install(installed, "old" if OLD else "countdownd")
    installed.run("countdownctl", "start", "+4512345678", "1d", "--meta", "seven")
    before = json.loads(installed.run("countdownctl", "get", "+4512345678", "--json"))
    settings = installed.path(CONFIGURATION).read_text().replace("  count: 60", "  count: 61")
    installed.write(CONFIGURATION, settings)
    process = installed.show("MainPID")
    socket_identity = installed.path(SOCKET).stat().st_ino
    load = Load(installed.path(SOCKET))
    try:
        install(installed)
        count = load.answered
        installed.eventually("clients are answered", lambda: load.answered > count + 100)
    finally:
        load.end()
    assert load.refused == []
    assert installed.path(SOCKET).stat().st_ino == socket_identity
    assert installed.show("MainPID") != process
    assert installed.path(CONFIGURATION).read_text() == settings
    after = json.loads(installed.run("countdownctl", "get", "+4512345678", "--json"))
    same = ("generation", "state", "meta", "deadline_unix_ms")
    assert [after[name] for name in same] == [before[name] for name in same]


def test_what_was_disabled_stays_so_over_an_upgrade(installed):
    installed.run("systemctl", "disable", "--now", *UNITS)
    install(installed)
    for unit in UNITS:
        assert installed.run("systemctl", "is-enabled", unit, check=False) == "disabled"
        assert installed.run("systemctl", "is-active", unit, check=False) == "inactive"


def test_removed_it_can_come_back_and_purged_it_leaves_no_trace(machine):
    before = snapshot(machine)
    install(machine)
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
    machine.write(f"{CONFIGURATION}.d/own.yaml", "countdown:\n  count: 61\n")

    machine.run("dpkg", "--remove", "countdownd", timeout=PATIENCE)
    assert not machine.path(SOCKET).exists()
    assert not machine.path("/usr/bin/countdownd").exists()
    assert machine.path(CONFIGURATION).exists()
    assert machine.path(f"/var/lib/private/countdownd/{FIRST_STATE}").exists()
    install(machine)
    assert ping(machine.path(SOCKET)) == b"+PONG\r\n"

    machine.run("dpkg", "--purge", "countdownd", timeout=PATIENCE)
    assert snapshot(machine) == before
    for place in ("/run/countdownd", "/var/lib/private/countdownd"):
        assert not machine.path(place).exists()
    left = machine.run("find", "/var/lib/systemd", "/var/lib/dpkg/info", "-name", "*countdownd*")
    assert left == ""
    assert "countdownd" not in machine.run("systemctl", "list-units", "--all", "countdownd*")


def test_it_installs_where_systemd_does_not_run(machine):
    """As while an image is built: all units are enabled, none is started."""
    script = "mount -t tmpfs none /run && dpkg --install /root/countdownd.deb && ! ls /run/countdownd"
    machine.run("unshare", "--mount", "sh", "-c", script, timeout=PATIENCE)
    links = machine.path("/etc/systemd/system")
    assert (links / "sockets.target.wants/countdownd.socket").is_symlink()
    assert (links / "multi-user.target.wants/countdownd.service").is_symlink()
    script = "mount -t tmpfs none /run && dpkg --purge countdownd"
    machine.run("unshare", "--mount", "sh", "-c", script, timeout=PATIENCE)
    assert not (links / "sockets.target.wants/countdownd.socket").is_symlink()


def test_the_gateway_is_installed_enabled_and_running(installed):
    install(installed, "countdown-gateway")
    for unit in GATEWAY_UNITS:
        assert installed.run("systemctl", "is-active", unit) == "active"
        assert installed.run("systemctl", "is-enabled", unit) == "enabled"
    assert ask_gateway(installed, "/readyz") == (200, "ok\n")
    # The ticket is made with the package's key, which only root can read.
    assert installed.path(KEYS).stat().st_mode & 0o777 == 0o600
    ticket = installed.run("countdown-gateway", "ticket", "--keys", KEYS, "resend=countdown:k")
    status, text = ask_gateway(installed, "/v1/events", ticket)
    assert status == 200 and '"hello"' in text
    assert installed.run("systemd-analyze", "verify", "--man=no", *GATEWAY_UNITS) == ""
    assert installed.run("dpkg", "--verify", "countdown-gateway") == ""
    assert installed.path("/usr/share/man/man8/countdown-gateway.8.gz").exists()
    libraries = installed.run("ldd", "/usr/bin/countdown-gateway")
    assert "not found" not in libraries and "swift" not in libraries


def test_an_upgrade_of_the_gateway_keeps_its_key_and_options(installed):
    install(installed, "countdown-gateway")
    key, process = installed.path(KEYS).read_text(), installed.show("MainPID", GATEWAY_UNITS[1])
    installed.write("/etc/default/countdown-gateway", "OPTIONS=--dashboard\n")
    install(installed, "countdown-gateway")
    assert installed.path(KEYS).read_text() == key
    assert installed.show("MainPID", GATEWAY_UNITS[1]) != process
    assert ask_gateway(installed, "/dashboard", port=8789)[0] == 200


def test_the_gateway_removed_can_come_back_and_purged_leaves_no_trace(installed):
    before = snapshot(installed)
    install(installed, "countdown-gateway")
    key = installed.path(KEYS).read_text()
    installed.run("dpkg", "--remove", "countdown-gateway", timeout=PATIENCE)
    with pytest.raises(ConnectionRefusedError):
        ask_gateway(installed, "/healthz")
    install(installed, "countdown-gateway")
    assert ask_gateway(installed, "/readyz")[0] == 200
    assert installed.path(KEYS).read_text() == key
    installed.run("dpkg", "--purge", "countdown-gateway", timeout=PATIENCE)
    assert snapshot(installed) == before
    places = ["/var/lib/systemd", "/var/lib/dpkg/info", "/var/lib/private", "/run"]
    assert installed.run("find", *places, "-name", "*countdown-gateway*") == ""
    assert "gateway" not in installed.run("systemctl", "list-units", "--all", "countdown-gateway*")


def test_the_gateway_is_not_installed_without_the_daemon(machine):
    report = machine.run("dpkg", "--install", "/root/countdown-gateway.deb", check=False)
    assert "depends on countdownd" in report
