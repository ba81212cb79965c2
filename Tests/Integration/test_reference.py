"""Tests of the scripts that check the reference and the words of the project."""

import os
import shutil
import subprocess
import sys

import pytest

from countdownd import PROJECT, binary


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, PROJECT / "scripts" / script, *arguments],
        capture_output=True, text=True, env={**os.environ, "COUNTDOWND": str(binary())},
    )  # fmt: skip


def test_tables_of_the_reference_are_up_to_date():
    check = run("reference.py", "--check")
    assert (check.returncode, check.stdout, check.stderr) == (0, "", ""), "run: make docs"


@pytest.fixture
def project(tmp_path):
    """A project in which docs-lint finds nothing."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(PROJECT / "scripts/retired-words.txt", tmp_path / "scripts")
    shutil.copy(PROJECT / "scripts/retired-names.txt", tmp_path / "scripts")
    (tmp_path / "README.md").write_text("# Title\n\n[Title](#title), `go on`\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


WIDE = "word " * 21
# Split, because docs-lint checks this file, too.
MISSING = "docs/" + "none.md"


@pytest.mark.parametrize(
    "file, text",
    [
        ("a.md", f"| {WIDE} |"),
        ("a.md", f"```\n{'x' * 101}\n```"),
        ("a.md", f"- https://example.org/{'x' * 100}"),
        ("a.md", "[title](README.md#title) and `[none](none.md)`"),
        ("a.md", "A countdown continues."),
        ("Sources/a.swift", f'let a = "{WIDE}"'),
        ("Sources/a.swift", "let anew = 1  // `anew`"),
        ("Tests/a.swift", "// anew"),
        ("Sources/a.swift", 'a("mostBytes")  // mostBytes'),
        ("Sources/a.swift", 'let a = """\nmostBytes\n"""'),
    ],
)
def test_docs_lint_accepts(project, file, text):
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text(text + "\n")
    check = run("docs-lint.py", project)
    assert (check.returncode, check.stdout) == (0, "")


@pytest.mark.parametrize(
    "file, text, problem",
    [
        ("a.md", WIDE, "a.md:1: 105 columns; wrap at 100"),
        ("a.md", f"```\n{WIDE}\n```", "a.md:2: 105 columns; wrap at 100"),
        ("a.md", f"    {WIDE}", "a.md:1: 109 columns; wrap at 100"),
        ("a.md", "\n[a](none.md)", "a.md:2: dead link none.md"),
        ("a.md", "[a\nb](README.md#none)", "a.md:2: dead anchor README.md#none"),
        ("a.md", "[a](../outside.md)", "a.md:1: dead link ../outside.md"),
        ("a.md", '<img src="none.svg">', "a.md:1: dead link none.svg"),
        ("a.md", "A countdown goes\non.", "a.md:1: 'goes on' is retired; say: continues"),
        ("Sources/a.swift", f"// {WIDE}", "Sources/a.swift:1: 108 columns; wrap at 100"),
        ("Sources/a.swift", "/// Begins anew.", "Sources/a.swift:1: 'anew' is retired; say: again"),
        ("Sources/a.swift", 'a("Begins anew")', "Sources/a.swift:1: 'anew' is retired; say: again"),
        ("Sources/a.swift", '"""\nanew\n"""', "Sources/a.swift:2: 'anew' is retired; say: again"),
        ("Sources/a.swift", '"""\na\n"""\nlet mostBytes = 1',
            "Sources/a.swift:4: the name 'mostBytes' is retired; use: maximum…, peak…"),
        ("config/a.yaml", "# anew", "config/a.yaml:1: 'anew' is retired; say: again"),
        ("Makefile", f"# see {MISSING}", f"Makefile:1: {MISSING} does not exist"),
    ],
)
def test_docs_lint_rejects(project, file, text, problem):
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text(text + "\n")
    check = run("docs-lint.py", project)
    assert (check.returncode, check.stdout) == (1, problem + "\n")


def test_arrows_are_listed(tmp_path):
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    (tmp_path / "scripts/arrows.txt").write_text("A -> B\n")
    sources = {
        "A/a.swift": "struct One {}", "B/b.swift": 'let a = "One"  // One',
        "C/c.swift": "func c(_ one: One) {}",
    }  # fmt: skip
    for name, text in sources.items():
        file = tmp_path / "Sources/Countdowns" / name
        file.parent.mkdir(parents=True)
        file.write_text(text + "\n")

    def lint(*arguments):
        return subprocess.run(
            [sys.executable, tmp_path / "scripts/arrows-lint.py", *arguments],
            capture_output=True, text=True)  # fmt: skip

    found = lint()
    assert found.returncode == 1 and found.stdout.splitlines() == [
        "scripts/arrows.txt: new arrow: C -> A, which names One",
        "scripts/arrows.txt: no longer there: A -> B",
    ]
    assert lint("--write").returncode == 0 and lint().returncode == 0
