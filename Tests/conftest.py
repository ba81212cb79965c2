"""With CI set, a skipped test fails the run unless skips.txt lists it for this machine."""

import fnmatch
import os
import pathlib
import platform

import pytest

SKIPS = pathlib.Path(__file__).with_name("skips.txt")
unlisted = []


def listed():
    """Returns the machine, the pattern and the reason of each line of the list."""
    lines = [line for line in SKIPS.read_text().splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=2) for line in lines]


def may_be_skipped(test):
    names = (test, test.rpartition("@")[0])  # pytest-xdist adds @ and a group.
    here = ("any", platform.machine(), os.environ.get("BROWSER"))
    return any(
        machine in here and fnmatch.filter(names, pattern.replace("[", "[[]"))
        for machine, pattern, _ in listed())  # fmt: skip


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail") and not may_be_skipped(report.nodeid):
        unlisted.append(f"{report.nodeid}: {report.longrepr[2]}")


def pytest_collectreport(report):
    if report.skipped:
        unlisted.append(f"{report.nodeid}: {report.longrepr[2]}")


def pytest_sessionfinish(session):
    if unlisted and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if unlisted and os.environ.get("CI"):
        terminalreporter.section("skipped, but not listed for this machine in Tests/skips.txt", red=True)
        for test in unlisted:
            terminalreporter.write_line(test)
