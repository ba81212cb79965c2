"""The commands of the how-to pages run, and their programs, or the page says why not. Others are
tested with their page: those in Python, in Swift, and those that a reader types in several terminals."""

import subprocess
import sys

import pytest

from compiled import typescript_client
from countdownd import PATIENCE, PROJECT
from pages import all_match, blocks
from test_client_packages import CLIENTS, needs, run
from test_pages import WALKED, environment

HOW_TO = PROJECT / "docs/howto"
PAGES = [page.name for page in sorted(HOW_TO.glob("*.md"))
         if "```console" in page.read_text() and f"docs/howto/{page.name}" not in WALKED]  # fmt: skip


def programs(page, language):
    """Returns the blocks of a page with one language, one after another."""
    return [block.text for block in blocks(HOW_TO / page) if block.language == language]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page, daemon, tmp_path):
    for block in blocks(HOW_TO / page):
        if block.language != "console" or "skip" in block.notes:
            continue
        for command, shown in block.commands:
            done = subprocess.run(
                ["bash", "-c", command.replace("/var/backups", str(tmp_path))], cwd=tmp_path,
                env=environment(COUNTDOWND_SOCKET=str(daemon.path)), capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, (page, block.line, done)
            assert not shown or all_match(shown, done.stdout.splitlines()), (page, block.line, done.stdout)


def test_the_programs_of_the_page_of_go_are_right(tmp_path):
    needs("go")
    _, ask, follow, limit, test = programs("go.md", "text")
    (tmp_path / "go.mod").write_text(
        f"module app\n\ngo 1.19\n\nrequire countdownd v0.0.0\n\nreplace countdownd => {CLIENTS}/Go\n")
    (tmp_path / "app_test.go").write_text(test)
    (tmp_path / "app.go").write_text(
        'package app\n\nimport (\n\t"context"\n\t"errors"\n\t"fmt"\n\t"net/http"\n\n\t"countdownd"\n'
        '\t"countdownd/countdownhttp"\n)\n\n'
        f"func ask(ctx context.Context, request struct{{ ID string }}) {{\n{ask}}}\n\n"
        f"func follow(ctx context.Context, client *countdownd.Client) error {{\n{follow}}}\n\n"
        f"func limit(client *countdownd.Client, search, orders http.Handler) {{\n{limit}}}\n")
    assert "ok" in run("go", "test", "-count=1", ".", cwd=tmp_path, GOFLAGS="-mod=mod", GOPROXY="off")


def test_the_programs_of_the_page_of_node_are_right(tmp_path):
    parts = programs("node.md", "js")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/countdownd").symlink_to(typescript_client())
    around = ["request", "sendCode", "reply", "signal", "app", "placeOrder", "logIn", "after", "test", "assert"]
    # JavaScript has no types of parameters.
    text = "\n".join(parts).replace("(request) =>", "(request: any) =>")
    (tmp_path / "page.mts").write_text("".join(f"declare const {name}: any;\n" for name in around) + text)
    check = ["tsc", "--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "node16", "--moduleResolution", "node16"]
    (readme,) = [block.text for block in blocks(PROJECT / "README.md") if block.language == "js"]
    (tmp_path / "readme.mts").write_text("declare const process: any;\n" + readme)
    run(*check, "page.mts", "readme.mts", cwd=tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "page.test.js").write_text(
        "import { after, test } from 'node:test';\nimport assert from 'node:assert';\n" + parts[-1])
    assert "# pass 1" in run("node", "--test", "--test-reporter", "tap", ".", cwd=tmp_path)


def test_the_test_of_the_page_of_python_passes(tmp_path):
    test = programs("python.md", "text")[-1]
    (tmp_path / "test_page.py").write_text(test)
    assert "1 passed" in run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "countdownd.pytest_plugin", ".", cwd=tmp_path)
