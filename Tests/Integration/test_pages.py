"""The README and other pages are correct: their programs run, and their commands print the output
that the pages show.

With `CLONE=directory`, the README is followed in that clone, and starts with `make run`.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest

from compiled import once, typescript_client
from countdownd import DEBUG_BUILD, PATIENCE, PROJECT, binary, eventually, view
from pages import Reader, blocks, matches
from proxy import Proxy

README = PROJECT / "README.md"
# Pages that start their own daemon.
WALKED = ["README.md", "docs/tutorial/login.md", "docs/tutorial/virtual-time.md", "docs/howto/migrate.md"]
PAGE_OF_POLICIES = PROJECT / "docs/explanation/policies.md"
# The YAML blocks of the page as one file; their policies come last.
YAML = [block.text.partition("policies:\n") for block in blocks(PAGE_OF_POLICIES) if block.language == "yaml"]
POLICIES = "".join(before for before, _, _ in YAML) + "policies:\n" + "".join(after for _, _, after in YAML)
CLONE = os.environ.get("CLONE")
RUN = "mkdir -p .build/run && countdownd --socket .build/run/countdownd.sock --state-directory .build/run/state"


def environment(**more):
    """Returns variables as after an installation: programs, and a Python with packages, on PATH."""
    path = [str(binary().parent), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COUNTDOWND")}
    return plain | {"PATH": ":".join(path), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1",
                    "COUNTDOWND_TESTING": "1",
                    "PYTHONPATH": str(PROJECT / "Clients/Python/src"), **more}


@pytest.mark.parametrize("name", WALKED)
def test_a_reader_sees_what_the_page_shows(name, tmp_path):
    place = pathlib.Path(CLONE) if CLONE and name == "README.md" else tmp_path
    instead = {}
    if not CLONE:
        (place / ".build").mkdir()
        (place / ".build/release").symlink_to(binary().parent)
        (place / "config").symlink_to(PROJECT / "config")
        instead["make run"] = RUN
    with Reader(place, environment(), instead, PATIENCE * (40 if CLONE else 1)) as reader:
        reader.follow((PROJECT if not CLONE else pathlib.Path(CLONE)) / name)


@pytest.mark.parametrize("name", ["docs/explanation/policies.md", "docs/explanation/ui.md"])
def test_the_commands_of_a_page_print_what_it_shows(name, daemon, tmp_path):
    with Reader(tmp_path, environment(COUNTDOWND_SOCKET=str(daemon.path))) as reader:
        reader.follow(PROJECT / name)


# Programs


def programs(page, language):
    """Returns the programs of a page, each with the output that the page shows above it."""
    found, shown = [], None
    for block in blocks(page):
        if block.language == "text":
            shown = block.text
        if block.language == language and not block.notes:
            found.append((block.text, shown))
    return found


def needs(program, package):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed: Debian's {package}")


def python(text, directory):
    (directory / "program.py").write_text(text)
    return [sys.executable, "program.py"]


def node(text, directory):
    needs("node", "nodejs")
    if not pathlib.Path("/usr/share/nodejs/redis").exists():
        pytest.skip("node-redis is not installed: Debian's node-redis")
    (directory / "program.mjs").write_text(text)
    modules = directory / "node_modules"
    modules.mkdir()
    for package in pathlib.Path("/usr/share/nodejs").iterdir():
        (modules / package.name).symlink_to(package)
    if "'countdownd'" in text:
        (modules / "countdownd").symlink_to(typescript_client())
    return ["node", "program.mjs"]


def go(text, _):
    needs("go", "golang-go")
    client = PROJECT / "Clients/Go"

    def make(folder):
        (folder / "program.go").write_text(text)
        (folder / "go.mod").write_text(
            f"module program\n\ngo 1.19\n\nrequire countdownd v0.0.0\n\nreplace countdownd => {client}\n")
        subprocess.run(["go", "vet", "program.go"], cwd=folder, check=True, timeout=10 * PATIENCE)
        subprocess.run(["go", "build", "program.go"], cwd=folder, check=True, timeout=10 * PATIENCE)

    return [once("go-program", make, text, client) / "program"]


def swift(text, _):
    """Compiles against the products of `swift build`; a separate package would rebuild them."""
    needs("swiftc", "toolchain, of swift.org")
    built = DEBUG_BUILD
    used = [built / name for name in ("Modules/CountdownClient.swiftmodule", "CountdownClient.build", "Wire.build")]
    return [once("swift-program", lambda folder: compile_swift(text, built, folder), text, *used) / "program"]


def compile_swift(text, built, directory):
    listed = (built / "countdownctl.product/Objects.LinkFileList").read_text().splitlines()
    # Of this project, link only the client and the protocol modules that it needs.
    own = {path.name for path in (PROJECT / "Sources").iterdir()} - {"CountdownClient", "Wire", "CCommit"}
    objects = [path for path in listed if not own & {part.removesuffix(".build") for part in path.split("/")}]
    (directory / "objects").write_text("\n".join(objects))
    maps = [*built.glob("*.build/module.modulemap")]
    maps += (PROJECT / ".build/checkouts").glob("*/Sources/*/include/module.modulemap")
    (directory / "main.swift").write_text(text)
    subprocess.run(
        [
            "swiftc", "-swift-version", "6", "-warnings-as-errors", "-I", built / "Modules",
            "-module-cache-path", built / "ModuleCache",
            *(word for path in maps for word in ("-Xcc", f"-fmodule-map-file={path}")),
            "main.swift", "@objects", "-o", "program",
        ],
        cwd=directory, check=True, timeout=10 * PATIENCE,
    )  # fmt: skip


LANGUAGES = {"python": python, "js": node, "go": go, "swift": swift}


def run(command, directory, path):
    return subprocess.run(
        [str(word) for word in command], cwd=directory,
        env=environment(COUNTDOWND_SOCKET=str(path), NODE_PATH="/usr/share/nodejs"),
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_of_the_readme_print_what_it_shows(language, daemon, tmp_path):
    ((text, shown),) = programs(README, language)
    command = LANGUAGES[language](text, tmp_path)
    done = run(command, tmp_path, daemon.path)
    assert (done.stdout, done.returncode) == (shown, 0), done
    (key,) = {item["key"] for item in map(view, daemon.connect()("COUNTDOWN", "LIST")[1])}
    daemon.connect()("COUNTDOWN", "START", key, "COUNT", 8)
    again = run(command, tmp_path, daemon.path)
    assert again.stdout.startswith("refused: try again in "), again


@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_of_the_readme_report_a_daemon_that_does_not_run(language, tmp_path):
    ((text, _),) = programs(README, language)
    done = run(LANGUAGES[language](text, tmp_path), tmp_path, tmp_path / "none")
    assert done.returncode == 1 and "countdownd" in done.stderr + done.stdout, done


def test_the_python_program_asks_a_daemon_that_closes_only_once(tmp_path):
    ((text, _),) = programs(README, "python")
    asked = []

    class Closes(socketserver.BaseRequestHandler):
        def handle(self):
            asked.append(self.request)

    path = tmp_path / "closes.sock"
    with socketserver.UnixStreamServer(str(path), Closes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = run(python(text, tmp_path), tmp_path, path)
        server.shutdown()
    assert done.returncode == 1 and "nobody answers at" in done.stderr, done
    assert len(asked) == 1


# Python

PAGE_OF_PYTHON = PROJECT / "docs/howto/python.md"


@pytest.mark.parametrize("number", range(7))
def test_programs_of_the_python_page_print_what_it_shows(daemon, tmp_path, number):
    found = programs(PAGE_OF_PYTHON, "python")
    assert len(found) == 7
    text, shown = found[number]
    done = run(python(text, tmp_path), tmp_path, daemon.path)
    assert done.returncode == 0, done
    pattern = re.escape(shown).replace("…", r"\d+")
    assert re.fullmatch(pattern, done.stdout), done


# Events


@contextlib.contextmanager
def follower(language, write, directory, path):
    """Runs the program of the page that follows events, and yields the lines that it has printed."""
    ((text, _),) = programs(PROJECT / "docs/reference/events.md", language)
    lines = []
    process = subprocess.Popen(
        write(text, directory), cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(COUNTDOWND_SOCKET=str(path), NODE_PATH="/usr/share/nodejs"),
    )  # fmt: skip
    reader = threading.Thread(target=lambda: [lines.append(line.strip()) for line in process.stdout])
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        process.wait()
        reader.join()


@pytest.mark.parametrize("language, write", [("python", python), ("js", node)])
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_programs_that_follow_events_miss_nothing_while_the_daemon_restarts(
    daemon, tmp_path, language, write, how
):
    client = daemon.connect()
    # Each restart is followed at once by events, before the program is connected again.
    with follower(language, write, tmp_path, daemon.path) as lines:
        eventually(lambda: client("PUBSUB", "NUMPAT") == 1, "it is subscribed")
        client("TIMER", "SET", "0", "1h")
        for number in range(1, 4):
            eventually(lambda: f"{number - 1} set" in lines, "it has read all")
            client("TIMER", "SET", f"{number}", "1h")
            eventually(lambda: f"{number} set" in lines, "it follows")
            daemon.restart(how)
            client = daemon.connect()
            client("TIMER", "SET", f"during {number}", "1h")
        eventually(lambda: "during 3 set" in lines, "it has caught up")
        client("TIMER", "DEL", "0")
        eventually(lambda: "0 cancelled" in lines, "it follows again")
    assert lines == [
        "0 set", "1 set", "during 1 set", "2 set", "during 2 set", "3 set", "during 3 set",
        "0 cancelled",
    ]  # fmt: skip


class Holding(Proxy):
    """Can hold replies to EVENTS SINCE, cut subscriptions, and keep new connections waiting."""

    def __init__(self, daemon, path):
        self.held, self.subscriptions = [], []
        self.is_holding = self.is_away = False
        super().__init__(daemon, path)

    def serve(self, client):
        while self.is_away:
            time.sleep(0.01)
        server = self.connect()
        asked = set()
        threading.Thread(target=self.requests, args=[client, server, asked], daemon=True).start()
        self.replies(client, server, asked)

    def requests(self, client, server, asked):
        with contextlib.suppress(OSError):
            while request := client.recv(1 << 16):
                if b"PSUBSCRIBE" in request:
                    self.subscriptions.append(client)
                if b"SINCE" in request:
                    asked.add("SINCE")
                server.sendall(request)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def replies(self, client, server, asked):
        with contextlib.suppress(OSError):
            while reply := server.recv(1 << 16):
                if self.is_holding and "SINCE" in asked:
                    self.held.append((client, reply))
                else:
                    client.sendall(reply)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.subscriptions.pop().shutdown(socket.SHUT_RDWR)

    def release(self):
        client, reply = self.held.pop(0)
        client.sendall(reply)


def test_the_js_program_takes_each_event_once_when_replies_are_slow(daemon, tmp_path):
    """Two readings are under way, as the connection was lost twice; an event comes between them."""
    client, proxy = daemon.connect(), Holding(daemon, tmp_path / "holding")
    with proxy.listener, follower("js", node, tmp_path, proxy.path) as lines:
        eventually(lambda: client("PUBSUB", "NUMPAT") == 1, "it is subscribed")
        client("TIMER", "SET", "0", "1h")
        eventually(lambda: "0 set" in lines, "it follows")
        proxy.is_holding = True
        proxy.cut()
        eventually(lambda: len(proxy.held) == 1, "it reads")
        proxy.is_away = True
        proxy.cut()
        eventually(lambda: client("PUBSUB", "NUMPAT") == 0, "it is away")
        client("TIMER", "SET", "1", "1h")
        proxy.is_away = False
        eventually(lambda: len(proxy.held) == 2, "it reads again")
        proxy.release()
        time.sleep(0.2)
        client("TIMER", "SET", "2", "1h")
        time.sleep(0.2)
        proxy.is_holding = False
        proxy.release()
        eventually(lambda: "2 set" in lines, "it has caught up")
        proxy.cut()
        eventually(lambda: client("PUBSUB", "NUMPAT") == 1 and proxy.subscriptions, "it is back")
        client("TIMER", "SET", "3", "1h")
        eventually(lambda: "3 set" in lines, "it follows again")
    assert lines == ["0 set", "1 set", "2 set", "3 set"]


# Short forms


@pytest.mark.daemon(config="slowlog: {threshold: 0}")
def test_short_forms_send_the_commands_that_the_readme_shows(daemon, tmp_path):
    def normal(word):
        """Returns a duration in milliseconds, as countdownctl sends it, and other words as they are."""
        units = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
        found = re.fullmatch(r"((?:\d+/)?)(\d+)(ms|s|m|h)", word)
        return f"{found[1]}{int(found[2]) * units[found[3]]}" if found else word

    rows = re.findall(r"^\| `([a-z].*)` \| `([A-Z]+ [A-Z]+ .*)` \|$", README.read_text(), re.M)
    assert len(rows) == 6
    client = daemon.connect()
    for short, command in rows:
        # 1: refused. The gate asks for a login first.
        assert run(["countdownctl", *short.split()], tmp_path, daemon.path).returncode in (0, 1)
        sent = [[word.decode() if isinstance(word, bytes) else word for word in entry[3]]
                for entry in client("SLOWLOG", "GET", "10")]  # fmt: skip
        expected = [normal(word) for word in command.split()]
        assert expected in [[normal(word) for word in words] for words in sent], sent


# Timelines


@pytest.mark.daemon(virtual_time=True, config=POLICIES)
def test_timelines_of_the_policies_are_what_happens(daemon):
    """Each line: minutes and seconds, a command, two blanks, its output."""
    lines = [line for block in blocks(PAGE_OF_POLICIES) if block.language == "timeline"
             for line in block.text.splitlines()]  # fmt: skip
    assert len(lines) > 25
    client, now = daemon.connect(), 0
    for line in lines:
        time, command, shown = re.fullmatch(r"(\d+:\d\d) +(\S.*?)  +(\S.*)", line).groups()
        minutes, seconds = map(int, time.split(":"))
        client("CLOCK", "ADVANCE", f"{minutes * 60 + seconds - now}s")
        now = minutes * 60 + seconds
        done = run(["countdownctl", *command.split()], daemon.directory, daemon.path)
        assert re.split("  +", (done.stdout + done.stderr).strip()) == re.split("  +", shown), line


def test_numbers_that_differ_are_those_with_a_fraction_or_in_milliseconds():
    assert matches("again in 58.3 s", "again in 57 s")
    assert matches("in 100 µs", "in 90 µs")
    assert matches("counts … in 60 s", "counts 60 × 1 s; ready in 60 s")
    assert not matches("again in 58 s", "again in 57 s")
    assert not matches("again in 58.3 s", "again in a while")
