"""Packages of users: what they have to fetch for one library, and that their code compiles with
Swift's upcoming features, where a warning is an error."""

import json
import shutil
import subprocess

import pytest

from countdownd import PROJECT
from test_swift_snippets import MODULES, compile

USERS = PROJECT / "Tests" / "UserPackages"
FLAGS = ["-warnings-as-errors"]
for feature in ["MemberImportVisibility", "InternalImportsByDefault", "ExistentialAny"]:
    FLAGS += ["-enable-upcoming-feature", feature]

pytestmark = [
    pytest.mark.skipif(not shutil.which("swift"), reason="swift is not installed"),
    pytest.mark.skipif(not MODULES.exists(), reason="there is no debug build"),
]


def dependencies(user, scratch):
    """Returns the names of all packages that a user fetches, but ours."""
    done = subprocess.run(
        ["swift", "package", "--package-path", USERS / user, "--scratch-path", scratch,
         "--skip-update", "show-dependencies", "--format", "json"],
        capture_output=True, text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = set()

    def walk(package):
        for dependency in package["dependencies"]:
            found.add(dependency["identity"])
            walk(dependency)

    (ours,) = json.loads(done.stdout[done.stdout.index("{") :])["dependencies"]
    walk(ours)
    return found


def test_a_user_of_the_timers_fetches_nothing_else(tmp_path):
    assert dependencies("timers", tmp_path) == set()


def test_a_user_of_the_client_fetches_only_swift_nio_and_what_it_needs(tmp_path):
    assert dependencies("client", tmp_path) == {
        "swift-nio", "swift-atomics", "swift-collections", "swift-system",
    }  # fmt: skip


@pytest.mark.parametrize("user", ["timers", "client"])
def test_the_code_of_a_user_compiles(user, tmp_path):
    text = (USERS / user / "Sources" / "user" / "main.swift").read_text()
    done = compile(text, tmp_path, name="main.swift", flags=FLAGS)
    assert done.returncode == 0, done.stderr
    wrong = compile(text + "\nlet mistake: Int = \"\"\n", tmp_path, name="main.swift", flags=FLAGS)
    assert wrong.returncode != 0
