"""The clients in other languages: that they are generated from the schema, their types and tests."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from compiled import typescript_client
from countdownd import PROJECT, binary, eventually

CLIENTS = PROJECT / "Clients"
TOOLS = pathlib.Path(sys.executable).parent
# For tests that start daemons of their own.
ENVIRONMENT = {
    **os.environ, "COUNTDOWND": str(binary()), "PYTHONPATH": str(CLIENTS / "Python/src"),
    # Debian's Express finds its parts there.
    "NODE_PATH": "/usr/share/nodejs", "COUNTDOWND_TESTING": "1",
}  # fmt: skip


def run(*words, cwd=PROJECT, **environment):
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done.stdout


def needs(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def test_clients_are_up_to_date():
    # gofmt formats the Go client.
    needs("gofmt")
    run(sys.executable, "scripts/clients.py", "--check")


def pytest_of(*paths, cwd):
    return run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
        "countdownd.pytest_plugin", *paths, cwd=cwd)


def test_python_client():
    pytest_of("tests", cwd=CLIENTS / "Python")


def test_service_in_python():
    assert "17 passed" in pytest_of(".", cwd=PROJECT / "Examples/service")


def test_example_in_django():
    pytest.importorskip("django")
    assert "3 passed" in pytest_of(".", cwd=PROJECT / "Examples/django")


# In one worker, and so one after another: the first leaves what the next ones need.
MYPY = pytest.mark.xdist_group("mypy")


@MYPY
@pytest.mark.parametrize("path", ["src", "../../Examples/service/app.py", "../../Examples/django/app.py"])
def test_types(path):
    run(TOOLS / "mypy", "--strict", path, cwd=CLIENTS / "Python", MYPYPATH="src")


@MYPY
def test_a_wrong_option_is_found_by_the_type_checker(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from countdownd import Client\n"
        "Client().countdown.start('a', counts=3)\n"
        "Client().timer.set('a', 90)\n")
    done = subprocess.run(
        [TOOLS / "mypy", "--strict", program],
        cwd=tmp_path, capture_output=True, text=True, env={**ENVIRONMENT, "MYPYPATH": ENVIRONMENT["PYTHONPATH"]})
    assert 'program.py:2: error: Unexpected keyword argument "counts"' in done.stdout
    assert 'program.py:3: error: Argument 2 to "set"' in done.stdout


@pytest.fixture
def typescript():
    """The compiled TypeScript client."""
    return typescript_client()


def test_typescript_client(typescript):
    run("node", "--test", "tests", cwd=typescript)


def test_example_in_express(typescript, tmp_path):
    express = pathlib.Path("/usr/share/nodejs/express")
    if not express.exists():
        pytest.skip("Express is not installed: Debian's node-express")
    app = tmp_path / "app"
    shutil.copytree(PROJECT / "Examples/express", app)
    (app / "node_modules").mkdir()
    (app / "node_modules/countdownd").symlink_to(typescript)
    (app / "node_modules/express").symlink_to(express)
    assert "# pass 3" in run("node", "--test", "--test-reporter", "tap", ".", cwd=app)


def test_typescript_finds_a_wrong_option(typescript, tmp_path):
    (tmp_path / "wrong.ts").write_text(
        f"import {{ Client }} from '{typescript}/dist/index.js';\n"
        "void new Client().countdown.start('a', { counts: 3 });\n")
    done = subprocess.run(
        ["tsc", "--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--moduleResolution", "node16", "wrong.ts"],
        cwd=tmp_path, capture_output=True, text=True)
    assert "wrong.ts(2" in done.stdout and "'counts' does not exist" in done.stdout


def is_over(path):
    """Waits until no daemon listens at a path."""
    def nobody_listens():
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(path) != 0

    eventually(nobody_listens, "the daemon ends")


def ends_with(*words, cwd, **environment):
    """Checks that the daemon of a test, which prints its path, ends with the test that is killed."""
    test = subprocess.Popen(
        words, cwd=cwd, env={**ENVIRONMENT, **environment}, stdout=subprocess.PIPE, text=True)
    for line in test.stdout:
        if line.startswith("path "):
            break
    path = line.split()[1]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    test.kill()
    test.wait()
    is_over(path)


def test_a_daemon_ends_with_a_killed_test_in_node(typescript, tmp_path):
    (tmp_path / "killed.mjs").write_text(
        f"import {{ startCountdownd }} from '{typescript}/dist/testing.js';\n"
        "console.log('path', (await startCountdownd()).path);\nsetInterval(() => {}, 1000);\n")
    ends_with("node", "killed.mjs", cwd=tmp_path)


@pytest.mark.xdist_group("go")
def test_a_daemon_ends_with_a_killed_test_in_go(tmp_path):
    needs("go")
    (tmp_path / "go.mod").write_text(
        f"module app\n\ngo 1.19\n\nrequire countdownd v0.0.0\n\nreplace countdownd => {CLIENTS}/Go\n")
    (tmp_path / "app_test.go").write_text(
        'package app\n\nimport (\n\t"fmt"\n\t"testing"\n\n\t"countdownd/countdowntest"\n)\n\n'
        'func TestKilled(t *testing.T) {\n\tfmt.Println("path", countdowntest.New(t).Path)\n\tselect {}\n}\n')
    environment = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    run("go", "test", "-c", "-o", "app.test", ".", cwd=tmp_path, **environment)
    ends_with("./app.test", "-test.v", cwd=tmp_path)
    # -timeout ends it with a panic.
    done = subprocess.run(
        ["./app.test", "-test.timeout", "3s"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert "timed out" in done.stderr
    (path,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("path ")]
    is_over(path)


@pytest.mark.xdist_group("go")
@pytest.mark.parametrize("folder", ["Clients/Go", "Examples/go"])
def test_go(folder):
    needs("go")
    environment = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    run("go", "vet", "./...", cwd=PROJECT / folder, **environment)
    # With a count, it does not print what came out the last time.
    assert "ok" in run("go", "test", "-count=1", "./...", cwd=PROJECT / folder, **environment)
