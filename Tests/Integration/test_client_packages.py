"""The clients in other languages: that they are generated from the schema, their types and tests."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from compiled import typescript_client
from countdownd import PROJECT, Client, binary, ctl_binary, eventually

sys.path.append(str(PROJECT / "scripts"))
from clients import names  # noqa: E402

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


def test_each_error_of_the_daemon_has_a_class_or_is_deliberately_the_base_one():
    known = {error["name"] for error in json.loads(run(ctl_binary(), "schema"))["errors"]}
    assert names.ERRORS.keys() | names.BASE_ERRORS == known
    assert not names.ERRORS.keys() & names.BASE_ERRORS


def pytest_of(*paths, cwd, **environment):
    return run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
        "countdownd.pytest_plugin", "-W", "error:Call to '__init__':DeprecationWarning", *paths,
        cwd=cwd, **environment)


def test_python_client():
    pytest_of("tests", cwd=CLIENTS / "Python")


# The oldest that it takes, and one that redis-py's own pool does not work with; beside the newest.
@pytest.mark.parametrize("version", ["redis==5.2.0", "redis==7.4.1"])
def test_python_client_on_other_versions_of_redis_py(version):
    path = f"{PROJECT / '.build/clients' / version}:{CLIENTS / 'Python/src'}"
    pytest_of("tests/test_client.py", cwd=CLIENTS / "Python", PYTHONPATH=path)


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


@pytest.mark.xdist_group("go")
@pytest.mark.parametrize("folder", ["Clients/Go", "Examples/go"])
def test_go(folder):
    needs("go")
    environment = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    run("go", "vet", "./...", cwd=PROJECT / folder, **environment)
    # With a count, it does not print what came out the last time.
    assert "ok" in run("go", "test", "-count=1", "./...", cwd=PROJECT / folder, **environment)


# Private daemons. These programs start one, say where it is, and never end it.

PYTHON = """
import sys, time
from countdownd import embedded
from countdownd.pytest_plugin import Daemon
folder = sys.argv[1]
if sys.argv[2] == "embedded":
    one = embedded(folder)
else:
    one = Daemon(folder)
print("started", flush=True)
time.sleep(600)
"""
NODE = """
import { embedded, startCountdownd } from 'countdownd/testing';
const [, , folder, kind] = process.argv;
const one = await (kind === 'embedded' ? embedded(folder) : startCountdownd({ folder }));
console.log('started');
setTimeout(() => one, 600_000);
"""
GO = """
package app
import ("fmt"; "os"; "testing"; "time"; "countdownd/countdowntest")
func TestHangs(test *testing.T) {
	daemon := countdowntest.New(test)
	check(os.Symlink(daemon.Path, os.Getenv("FOLDER") + "/socket"))
	fmt.Println("started")
	time.Sleep(10 * time.Minute)
}
func check(err error) { if err != nil { panic(err) } }
"""


def program_in_python(folder, kind):
    (folder / "it.py").write_text(PYTHON)
    return [sys.executable, "it.py", folder, kind]


def program_in_node(folder, kind):
    needs("node")
    (folder / "node_modules").mkdir()
    (folder / "node_modules/countdownd").symlink_to(typescript_client())
    (folder / "it.mjs").write_text(NODE)
    return ["node", "it.mjs", folder, kind]


def program_in_go(folder, timeout):
    needs("go")
    (folder / "it_test.go").write_text(GO)
    (folder / "go.mod").write_text(
        f"module app\n\ngo 1.19\n\nrequire countdownd v0.0.0\n\nreplace countdownd => {CLIENTS}/Go\n")
    run("go", "test", "-c", "-o", folder / "it", cwd=folder, GOFLAGS="-mod=mod", GOPROXY="off")
    return [folder / "it", "-test.v", f"-test.timeout={timeout}"]


@pytest.mark.parametrize("program, kind", [
    (program_in_python, "tests"), (program_in_python, "embedded"),
    (program_in_node, "tests"), (program_in_node, "embedded"),
    pytest.param(program_in_go, "10m", marks=pytest.mark.xdist_group("go")),
    pytest.param(program_in_go, "3s", marks=pytest.mark.xdist_group("go")),
])  # fmt: skip
def test_a_private_daemon_ends_with_its_program_however_that_ends(program, kind):
    """Killed, or in Go ended by its timeout, which runs no clean-up."""
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="ends-") as name:
        folder = pathlib.Path(name)
        environment = {**ENVIRONMENT, "FOLDER": name}
        with subprocess.Popen(
            program(folder, kind), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env=environment, text=True) as process:
            try:
                assert any(line.startswith("started") for line in process.stdout)
                path = (folder / "socket").resolve()
                with Client(path) as client:
                    assert client("PING") == "PONG"
                    if kind != "3s":
                        process.kill()
                    assert client.is_closed()
                eventually(lambda: not path.exists(), "the daemon ends")
            finally:
                process.kill()
