"""Checks under a real systemd what the sandbox of a unit forbids."""

import configparser
import json
import os

from countdownd import PROJECT

PROBE = "/usr/local/lib/sandbox_probe.py"


def settings(path):
    """Returns the names of all settings in the [Service] section of a unit."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(path)
    return set(unit["Service"])


def probe(machine, unit):
    """Runs the probe without a sandbox and as `unit`; returns the results as two dictionaries."""
    machine.write(PROBE, (PROJECT / "Tests/Integration/sandbox_probe.py").read_text())
    for directory in ("/usr/lib/modules/1", "/home/marker/in", "/tmp/marker/in", "/dev/shm/marker"):
        machine.run("mkdir", "-p", directory)
    for device, minor in (("marker", "3"), ("kmsg", "11")):
        machine.run("mknod", "-m", "666", f"/dev/{device}", "c", "1", minor)
    names = ("ipc", "mnt", "net", "uts")
    namespaces = {name: os.readlink(f"/proc/{machine.leader}/ns/{name}") for name in names}
    run = (
        "[Service]\nType=oneshot\nExecStart=\n"
        f"ExecStart=/usr/bin/python3 -I {PROBE}\n"
        f"Environment='MACHINE_NAMESPACES={json.dumps(namespaces)}'\n"
        "StateDirectory=%N\nStandardOutput=truncate:/run/probe-%N.json\n"
    )
    machine.write("/run/systemd/system/unconfined.service", run)
    machine.drop_in(unit, run + "Restart=no\nWatchdogSec=0\n")
    results = []
    for service in ("unconfined.service", unit):
        machine.run("systemctl", "start", service)
        name = service.removesuffix(".service")
        results.append(json.loads(machine.path(f"/run/probe-{name}.json").read_text()))
    machine.run("rm", f"/run/systemd/system/{unit}.d/test.conf")
    machine.run("systemctl", "daemon-reload")
    return results


def check(probed, names):
    """Checks that each setting has a probe and is in force."""
    outside, inside = probed
    assert {name: inside.get(name) for name in names} == {name: True for name in names}
    # A probe proves nothing if its action is forbidden without a sandbox as well.
    assert {name: outside[name] for name in names} == {name: False for name in names}
