"""The flows of Examples/flows, played through the clients: each command by its generated method.

A player is a program in the client's language. It reads a call from each line of its input, and
prints the reply, and the events that its `watch` returns. Here the flows are read and judged, for
all clients in the same way. `countdownctl play` judges them exactly; this looks at replies, and that
the events of the flow come in their order. Events for handlers (`NAME*`) are left out.
"""

import json
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading

import pytest

from compiled import once, typescript_client
from countdownd import PATIENCE, PROJECT, Closed, ctl_binary, eventually
from test_client_packages import CLIENTS, ENVIRONMENT, needs, run

sys.path.append(str(PROJECT / "scripts"))
from clients import names  # noqa: E402

PLAYERS = PROJECT / "Tests/Integration/players"
FLOWS = sorted((PROJECT / "Examples/flows").glob("*.flow"))
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text):
    if re.fullmatch(r"\d+", text):
        return int(text)
    return round(sum(float(n) * UNITS[unit] for n, unit in re.findall(r"([\d.]+)(ms|s|m|h|d)", text)))


@pytest.fixture(scope="session")
def commands():
    printed = subprocess.run([ctl_binary(), "schema"], capture_output=True, text=True, check=True)
    return {" ".join(one.words): one for one in names.commands(json.loads(printed.stdout))}


@pytest.fixture(scope="session", params=["python", "node", "go"])
def player(request, tmp_path_factory):
    """Returns a language, and the words that start its player."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    if request.param == "python":
        return request.param, [sys.executable, PLAYERS / "player.py"]
    if request.param == "node":
        needs("node")
        (tmp_path / "node_modules").mkdir()
        (tmp_path / "node_modules/countdownd").symlink_to(typescript_client())
        shutil.copy(PLAYERS / "player.mjs", tmp_path)
        return request.param, ["node", tmp_path / "player.mjs"]
    needs("go")

    def make(folder):
        shutil.copy(PLAYERS / "go/main.go", folder)
        (folder / "go.mod").write_text(
            f"module player\n\ngo 1.19\n\nrequire countdownd v0.0.0\n\nreplace countdownd => {CLIENTS}/Go\n")
        run("go", "build", "-o", "player", ".", cwd=folder, GOFLAGS="-mod=mod", GOPROXY="off")

    return request.param, [once("go-player", make, PLAYERS / "go", CLIENTS / "Go") / "player"]


class Player:
    def __init__(self, words, path):
        self.process = subprocess.Popen(
            [*words, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.replies, self.events = queue.Queue(), queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        assert self.replies.get(timeout=2 * PATIENCE) == {"ready": True}

    def read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            (self.events if "event" in said else self.replies).put(said.get("event", said))

    def ask(self, owner, method="", positions=(), rest=(), options=None, connection=""):
        asked = {"connection": connection, "owner": owner, "method": method,
                 "positions": positions, "rest": rest, "options": options or {}}  # fmt: skip
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self.replies.get(timeout=2 * PATIENCE)

    def close(self):
        self.process.kill()
        self.process.wait()


def call(commands, words, language):
    """Returns a command as owner, method, positions, the rest of them, and options."""
    command = commands[" ".join(words[:2]).upper()]
    words, positions, rest, options = words[2:], [], [], {}
    tokens = {one.token for one in command.options}
    for one in command.positions:
        if words and not one.is_required and words[0].upper() in tokens:
            break
        if one.repeats:
            while words and words[0].upper() not in tokens:
                rest.append(words.pop(0))
            if rest and language == "node":  # Lists are options.
                options[names.several(one)], rest = rest, []
            break
        # Go has no optional arguments.
        if words and language == "go" and not one.is_required and not one.replaced_by:
            options[one.name] = value(one, words.pop(0))
        elif words:
            positions.append(value(one, words.pop(0)))
    while words:
        (one,) = [one for one in command.options if one.token == words[0].upper()]
        words.pop(0)
        its = True if one.type == "flag" else value(one, words.pop(0))
        options[one.name] = options.get(one.name, []) + [its] if one.repeats else its
    return command.owner, command.method, positions, rest, options


def value(argument, word):
    match argument.type:
        case "duration" if not argument.schema.get("word"): return {"ms": milliseconds(word)}
        case "duration": return {"ms": milliseconds(word)} if word != "finish" else word
        case "integer" | "generation": return int(word)
        case "number": return float(word)
        case "toggle": return word == "on"
        case _: return word  # fmt: skip


def text(found):
    """Returns a field as flows write it."""
    if found is None:
        return "null"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, list):
        return ",".join(map(text, found))
    return f"{found:g}" if isinstance(found, float) else str(found)


def agrees(expected, found, variables):
    for name, want in expected.items():
        its = text(found.get(name))
        if want.startswith("$") and want not in variables:
            variables[want] = its
        want = variables.get(want, want)
        if want in ("true", "false") and its in ("1", "0"):  # RESP2 has no booleans.
            its = "true" if its == "1" else "false"
        if not re.fullmatch(".*".join(map(re.escape, want.split("…"))), its, re.DOTALL):
            return False
    return True


def fields(words):
    return dict(word.split("=", 1) for word in words)


@pytest.mark.parametrize("flow", FLOWS, ids=lambda path: path.stem)
def test_flow(flow, player, commands, start_daemon):
    language, words = player
    content = flow.read_text()
    config = ""
    if found := re.search(r"(?m)^config:\n((?:[ \t]+.*\n|\n)+)", content):
        config, content = found[1], content.replace(found[0], "\n")
        config = re.sub("(?m)^  ", "", config)
    daemon = start_daemon(virtual_time=True, config=config)
    one = Player(words, daemon.path)
    try:
        play(one, content, commands, language, daemon)
    finally:
        one.close()


def is_watched(daemon):
    """Returns whether the player's watch is subscribed: it has one pattern."""
    try:
        with daemon.connect() as client:
            return client("PUBSUB", "NUMPAT") == 1
    except (OSError, Closed):
        return False


def play(one, content, commands, language, daemon):
    now, reply, variables, expected = 0, None, {}, []
    for line in content.splitlines():
        line = line.split("#")[0] if line.lstrip().startswith("#") else line
        if found := re.match(r"\s*(\d[\d.]*(?:ms|s|m|h|d)?(?:\d+\w+)*)(?:\s+|$)", line):
            time, line = milliseconds(found[1]), line[found.end():]
            if time > now:
                one.ask("clock", "advance", [{"ms": time - now}])
                now = time
        found = re.match(r"\s*(\w*)([<>*])\s+(.*)", line)
        if not found:
            continue
        name, mark, rest = found.groups()
        if mark == ">":
            its = [variables.get(word, word) for word in shlex.split(rest)]
            if its[0].upper() == "QUIT":
                reply = one.ask("quit", connection=name)
                continue
            reply = one.ask(*call(commands, its, language), connection=name)
            if its[0] == "CLOCK" and its[1] in ("SUSPEND", "RESTART", "REBOOT"):
                now += milliseconds(its[2])
                eventually(lambda: is_watched(daemon), "the watch is subscribed")
        elif mark == "<":
            judge(rest, reply, variables, line)
        elif not name:
            channel, event, *more = shlex.split(rest)
            expected.append((channel, event, fields(more)))
    # What the watch returns up to this timer is all.
    one.ask("timer", "set", ["marker", {"ms": 0}])
    seen = []
    while not (seen and seen[-1][0] == "timer:marker" and seen[-1][1]["event"] == "fired"):
        seen.append(one.events.get(timeout=2 * PATIENCE))
    place = 0
    for channel, event, more in expected:
        while not (seen[place:] and seen[place][0] == channel and seen[place][1]["event"] == event
                   and agrees(more, seen[place][1], variables)):  # fmt: skip
            assert place < len(seen), f"{channel} {event} {more} is not among {seen}"
            place += 1
        place += 1


def judge(rest, reply, variables, line):
    words = shlex.split(rest)
    if words[0] == "error":
        assert reply.get("error", "").startswith(words[1]), (line, reply)
    elif "=" in words[0]:
        assert isinstance(reply.get("reply"), dict), (line, reply)
        assert agrees(fields(words), reply["reply"], variables), (line, reply)
    else:
        assert text(reply.get("reply")) == rest.strip('"'), (line, reply)
