"""`make install` and `make uninstall`, into an empty directory instead of the system."""

import os
import re
import subprocess

import pytest

from countdownd import PROJECT
from machine import SOCKET, Machine, needs_systemd, ping

BUILT = [".build/release/countdownd", ".build/man/countdownd.8", ".build/completions/countdownd.zsh",
         ".build/schema.json"]

pytestmark = pytest.mark.skipif(
    not all((PROJECT / path).exists() for path in BUILT),
    reason="not built; run this first: make build man completions",
)


class Place:
    def __init__(self, root):
        self.root = root

    def make(self, target, **variables):
        arguments = [f"{name}={value}" for name, value in variables.items()]
        return subprocess.run(
            ["make", "--silent", "-C", PROJECT, target, f"DESTDIR={self.root}", *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def contents(self):
        return {
            os.path.relpath(os.path.join(directory, name), self.root)
            for directory, directories, files in os.walk(self.root)
            for name in directories + files
        }

    def files(self):
        return {path for path in self.contents() if (self.root / path).is_file()}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_prefix_is_used_and_written_into_the_service(place):
    place.make("install", PREFIX="/opt/timers", SYSCONFDIR="/opt/timers/etc")
    assert all(path.startswith("opt/timers/") for path in place.files())
    program = place.root / "opt/timers/bin/countdownd"
    assert os.access(program, os.X_OK)
    assert os.readlink(program.parent / "countdownctl") == "countdownd"
    units = place.root / "opt/timers/lib/systemd"
    unit = (units / "system/countdownd.service").read_text()
    start = "ExecStart=/opt/timers/bin/countdownd --config /opt/timers/etc/countdownd/countdownd.yaml"
    assert start in unit.splitlines()
    assert " /etc/countdownd" not in unit and "/usr/bin" not in unit
    unit = (units / "system/countdownd-metrics.service").read_text()
    assert "ExecStart=/opt/timers/bin/countdownctl metrics" in unit and "/usr/bin" not in unit
    assert (units / "system/countdownd-metrics.timer").exists()
    unit = (units / "user/countdownd.service").read_text()
    assert "ExecStart=/opt/timers/bin/countdownd " in unit and "/usr/bin" not in unit


def test_the_pages_name_paths_that_are_installed(place):
    place.make("install")
    pages = [place.root / path for path in place.files() if path.endswith(".md")]
    named = {name for page in pages for name in re.findall(r"/usr/[\w./-]*\w", page.read_text())}
    own = {name for name in named if "countdownd" in name or "countdownctl" in name}
    assert own and all((place.root / name.lstrip("/")).exists() or (place.root / name.lstrip("/")).is_symlink()
                       for name in own), own


def test_it_takes_at_most_40_megabytes(place):
    place.make("install")
    assert sum((place.root / path).lstat().st_size for path in place.files()) <= 40_000_000


def test_files_for_contributors_are_not_installed(place):
    place.make("install")
    installed = {path.removeprefix("usr/local/share/doc/countdownd/") for path in place.files()}
    assert {"README.md", "CHANGELOG.md", "LICENSE"} <= installed
    unwanted = re.compile(r"CONTRIBUTING|docs/dev|Benchmarks/|benchmarks-|\.swift$|Package|Tests|Makefile")
    assert [path for path in installed if unwanted.search(path)] == []


def test_links_in_the_documentation_resolve(place):
    place.make("install")
    pages = [place.root / path for path in place.files() if path.endswith(".md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in link
    ]
    assert len(links) > 50
    assert [f"{page}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_the_man_pages_are_installed_in_their_sections(place):
    place.make("install")
    for page in ("man1/countdownctl.1", "man1/countdownctl-start.1", "man5/countdownd.yaml.5", "man8/countdownd.8"):
        assert f"usr/local/share/man/{page}" in place.files()


def test_uninstall_removes_what_install_put_there_and_nothing_else(place):
    place.make("install")
    for directory in {os.path.dirname(path) for path in place.files()}:
        if "countdownd" not in directory:
            (place.root / directory / "of-somebody-else").write_text("")
    others = {path for path in place.files() if path.endswith("of-somebody-else")}
    assert len(others) > 5
    place.make("uninstall")
    assert place.files() == others
    assert [path for path in place.contents() if "countdownd" in path] == []
    place.make("uninstall")
    assert place.files() == others


def test_uninstall_leaves_a_changed_configuration(place):
    place.make("install")
    configuration = place.root / "etc/countdownd/countdownd.yaml"
    assert configuration.read_bytes() == (PROJECT / "config/countdownd.yaml").read_bytes()
    configuration.write_text("log-level: debug\n")
    assert "left as it is" in place.make("install")
    assert configuration.read_text() == "log-level: debug\n"
    assert "was changed and is left" in place.make("uninstall")
    assert place.files() == {"etc/countdownd/countdownd.yaml"}


@pytest.mark.skipif(
    not (PROJECT / "Gateway/.build/man/countdown-gateway.8").exists(),
    reason="not built; run this first: make gateway",
)
def test_the_gateway_is_installed_and_uninstalled(place):
    place.make("install-gateway", PREFIX="/opt/timers", SYSCONFDIR="/opt/timers/etc")
    assert all(path.startswith("opt/timers/") for path in place.files())
    assert os.access(place.root / "opt/timers/bin/countdown-gateway", os.X_OK)
    unit = place.root / "opt/timers/lib/systemd/system/countdown-gateway.service"
    lines = unit.read_text().splitlines()
    assert "ExecStart=/opt/timers/bin/countdown-gateway $OPTIONS" in lines
    assert not [line for line in lines if "/usr/bin" in line or "=-/etc" in line or ":/etc" in line]
    shares = {path.removeprefix("opt/timers/share/") for path in place.files()}
    assert {
        "man/man8/countdown-gateway.8", "bash-completion/completions/countdown-gateway",
        "zsh/site-functions/_countdown-gateway", "doc/countdown-gateway/CHANGELOG.md",
    } <= shares  # fmt: skip
    options = place.root / "opt/timers/etc/default/countdown-gateway"
    options.write_text("OPTIONS=--dashboard\n")
    assert "left as it is" in place.make(
        "install-gateway", PREFIX="/opt/timers", SYSCONFDIR="/opt/timers/etc")
    place.make("uninstall", PREFIX="/opt/timers", SYSCONFDIR="/opt/timers/etc")
    assert place.files() == {"opt/timers/etc/default/countdown-gateway"}


@needs_systemd[0]
@needs_systemd[1]
def test_the_command_that_make_install_prints_starts_the_daemon(place):
    place.make("install")
    machine = Machine("-c", f"{place.root}:/root/installed")
    try:
        machine.run("cp", "-a", "/root/installed/usr", "/root/installed/etc", "/")
        machine.run("rm", "-rf", "/var/lib/countdownd", "/var/lib/private/countdownd")
        hints = (PROJECT / "Makefile").read_text().split("'Installed. To start it", 1)[1]
        commands = [line.split("'")[1] for line in hints.splitlines()[1:3]]
        for command in commands:
            machine.run("sh", "-c", command)
        assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
        start = machine.show("ExecStart")
        assert "path=/usr/local/bin/countdownd" in start
        units = ["countdownd.service", "countdownd.socket"]
        assert machine.run("systemd-analyze", "verify", "--man=no", *units) == ""
    finally:
        machine.close()
