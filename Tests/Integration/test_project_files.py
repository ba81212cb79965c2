"""Files that other programs read: workflows, templates, the container, the hook, the version."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from countdownd import PROJECT

TOOLS = os.path.dirname(sys.executable)
VERSION = re.search(
    r'current = "(.*)"', (PROJECT / "Sources/Wire/ProductVersion.swift").read_text()
)[1]


def run(*command, cwd=PROJECT, check=True, **options):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    assert not check or done.returncode == 0, done.stdout
    return done


@pytest.mark.parametrize(
    "schema, files",
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("compose-spec", "packaging/container/compose.yaml"),
    ],
)
def test_a_file_for_another_program_follows_its_schema(schema, files):
    paths = sorted(PROJECT.glob(files))
    assert paths
    run(f"{TOOLS}/check-jsonschema", "--builtin-schema", f"vendor.{schema}", *paths)


def test_the_containerfile_passes_its_linter():
    hadolint = shutil.which("hadolint", path=TOOLS)
    if not hadolint:
        pytest.skip("hadolint is not available for this processor")
    run(hadolint, "packaging/container/Containerfile")


def test_the_sidecar_runs_as_the_image_is_made():
    file = PROJECT / "packaging/container/kubernetes.yaml"
    pod = YAML(typ="safe").load(file)["spec"]["template"]["spec"]
    image = (PROJECT / "packaging/container/Containerfile").read_text()
    user, group = re.search(r"^USER (\d+):(\d+)$", image, re.M).groups()
    [daemon] = pod["initContainers"]
    assert daemon["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["fsGroup"] == int(group)
    mounts = {mount["mountPath"]: mount["name"] for mount in daemon["volumeMounts"]}
    assert list(mounts) == json.loads(re.search(r"^VOLUME (.+)$", image, re.M)[1])
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}


def test_what_workflows_and_the_containerfile_run_exists():
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.M))
    files = [*PROJECT.glob(".github/workflows/*"), PROJECT / "packaging/container/Containerfile"]
    text = "\n".join(file.read_text() for file in files)
    for line in re.findall(r"(?:run: |RUN )make ([a-z -]+)", text):
        assert set(line.split()) <= targets, line
    for script in re.findall(r"(?<![\w/])(?:scripts/[\w.-]+|\.ci/run)", text):
        assert os.access(PROJECT / script, os.X_OK), script


def test_the_version_is_written_in_one_place():
    places = ["Sources", "scripts", "packaging", "systemd", "config", ".github", "Makefile"]
    found = run("git", "grep", "-lwF", VERSION, "--", *places, "Package.swift", check=False)
    assert found.stdout.split() == ["Sources/Wire/ProductVersion.swift"]


def test_a_build_in_a_terminal_shares_the_results_of_one_in_a_pipe():
    # Without --no-color-diagnostics their flags differ, and each compiles everything again.
    makefile = (PROJECT / "Makefile").read_text()
    assert re.search(r"^SWIFT_FLAGS := .*--no-color-diagnostics", makefile, re.M)
    builds = re.findall(r".*\bswift (?:build|test|run)\b.*", makefile)
    assert len(builds) > 3
    alone = ("--scratch-path", "--package-path")  # nothing else builds there
    assert [b for b in builds if "_FLAGS)" not in b and not any(x in b for x in alone)] == []


def test_each_line_of_the_list_of_skips_names_a_test_and_a_reason():
    lines = [line for line in (PROJECT / "Tests/skips.txt").read_text().splitlines() if line and line[0] != "#"]
    assert lines
    for line in lines:
        machine, test, reason = line.split(maxsplit=2)
        file, _, name = test.partition("::")
        assert name.split("[")[0].rstrip("*") in (PROJECT / file).read_text(), line
        assert machine in ("any", "x86_64", "aarch64", "firefox") and reason, line


def test_a_swift_test_has_no_name_beside_that_of_its_function():
    named = re.compile(r'@Test\(\s*"')
    files = [*(PROJECT / "Tests").rglob("*.swift"), *(PROJECT / "Gateway/Tests").rglob("*.swift")]
    assert [str(file) for file in files if named.search(file.read_text())] == []


def test_nothing_imports_foundation():
    # Its tables of Unicode and locales would be larger than the program. FoundationEssentials has
    # no such tables; these two take Foundation where there is no FoundationEssentials.
    fallbacks = ("EventJSON.swift", "TimerInstant.swift")
    imports = run("git", "grep", "-nE", r"import Foundation$", "--", "Sources", check=False).stdout
    assert [line for line in imports.splitlines() if not any(name in line for name in fallbacks)] == []


def test_no_host_of_a_package_registry_is_named():
    hosts = r"(deb\.debian|pypi|docker|ghcr|quay|npmjs|crates)\.(org|io|com)\b"
    assert run("git", "grep", "-nE", hosts, "--", ".", ":!Tests", check=False).stdout == ""


def test_a_release_needs_a_tag_and_a_changelog_that_agree(tmp_path):
    script = tmp_path / "scripts/check-release.sh"
    script.parent.mkdir()
    shutil.copy(PROJECT / "scripts/check-release.sh", script)
    source = tmp_path / "Sources/Wire/ProductVersion.swift"
    source.parent.mkdir(parents=True)
    shutil.copy(PROJECT / "Sources/Wire/ProductVersion.swift", source)
    changelog = tmp_path / "CHANGELOG.md"

    changelog.write_text("# Changelog\n\n## Unreleased\n")
    assert "no section" in run(script, f"v{VERSION}", check=False).stdout
    changelog.write_text(f"# Changelog\n\n## {VERSION} - 2026-11-22\n")
    assert run(script, f"v{VERSION}").stdout == ""
    assert VERSION in run(script, "v99.0.0", check=False).stdout


def test_the_hook_formats_what_is_committed_and_refuses_what_lint_refuses(tmp_path):
    # A stub Makefile prints which targets the hook runs, and fails if the file `bad` exists.
    run("git", "init", "--quiet", tmp_path)
    hook = tmp_path / ".githooks/pre-commit"
    hook.parent.mkdir()
    shutil.copy(PROJECT / ".githooks/pre-commit", hook)
    shutil.copy(PROJECT / ".swift-format", tmp_path)
    (tmp_path / "Makefile").write_text("lint docs-lint:\n\t@echo $@ ran\n\t@! test -e bad\n")
    recipe = re.search(r"^hooks:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.M)[1]
    run("sh", "-c", recipe.replace("@", ""), cwd=tmp_path)

    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "a.swift").write_text("let  a=1\n")
    run("git", "add", "a.swift", cwd=tmp_path)
    done = run("git", *names, "commit", "-m", "a", cwd=tmp_path)
    assert "lint ran" in done.stdout and "docs-lint ran" in done.stdout
    assert run("git", "show", "HEAD:a.swift", cwd=tmp_path).stdout == "let a = 1\n"

    (tmp_path / "bad").write_text("")
    run("git", "add", "bad", cwd=tmp_path)
    assert run("git", *names, "commit", "-m", "b", cwd=tmp_path, check=False).returncode != 0
