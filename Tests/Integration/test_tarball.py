"""The tarball, unpacked and installed as its INSTALL says.

    make check-tarball

COUNTDOWND_TARBALL names the tarball.
"""

import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

from countdownd import PROJECT
from machine import SOCKET, Machine, needs_systemd, ping

TARBALL = pathlib.Path(os.environ.get("COUNTDOWND_TARBALL", "none"))
# Libraries of every Linux system with glibc.
LIBRARIES = r"(libc|libm|libgcc_s|ld-linux-[\w-]+)\.so\.\d+"

pytestmark = pytest.mark.skipif(
    not TARBALL.is_file(), reason="no tarball is named in COUNTDOWND_TARBALL; make check-tarball does"
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tarball")
    with tarfile.open(TARBALL) as archive:
        assert {(entry.uid, entry.gid) for entry in archive} == {(0, 0)}
        archive.extractall(directory)
    (root,) = directory.iterdir()
    assert os.readlink(root / "bin/countdownctl") == "countdownd"
    assert TARBALL.name == f"{root.name}.tar.gz"
    return root


def output(*command, **options):
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True, **options
    ).stdout


def test_its_checksum_is_right():
    check = output("sha256sum", "--check", f"{TARBALL.name}.sha256", cwd=TARBALL.parent)
    assert check == f"{TARBALL.name}: OK\n"


def test_the_program_needs_no_more_than_every_system_has(unpacked):
    path = unpacked / "bin/countdownd"
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", path))
    assert "libc.so.6" in needed
    assert [name for name in needed if not re.fullmatch(LIBRARIES, name)] == []
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output("objdump", "-T", path))
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 36)


def test_the_tag_of_the_wheel_is_true(tmp_path):
    """auditwheel reads which libraries of the system, and which versions, the program needs."""
    output(
        sys.executable, PROJECT / "scripts/build-packages.py", "wheel", TARBALL,
        env={**os.environ, "DIST": str(tmp_path)})  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    found = output(pathlib.Path(sys.executable).parent / "auditwheel", "show", wheel)
    needed = re.search(r'platform\s+tag:\s+"manylinux_2_(\d+)_', found)
    assert needed, found
    assert int(needed[1]) <= int(re.search(r"manylinux_2_(\d+)_", wheel.name)[1])


@needs_systemd[0]
@needs_systemd[1]
def test_installed_as_it_says_it_runs(unpacked):
    commands = re.search(r"as root:\n\n((?: {4}.*\n)+)", (unpacked / "INSTALL").read_text())[1]
    machine = Machine("-c", f"{unpacked}:/root/unpacked")
    try:
        machine.run("rm", "-rf", "/var/lib/countdownd", "/var/lib/private/countdownd")
        machine.run("sh", "-ec", f"cd /root/unpacked\n{commands}")
        assert ping(machine.path(SOCKET)) == b"+PONG\r\n"
        assert machine.run("countdownctl", "ping").startswith("PONG")
        assert "path=/usr/local/bin/countdownd" in machine.show("ExecStart")
    finally:
        machine.close()
