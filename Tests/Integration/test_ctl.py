"""countdownctl: its output and its exit status, above all where something is wrong."""

import json
import os
import pty
import re
import signal
import socket
import subprocess

import pytest

from countdownd import binary, eventually, view

CTL = binary().parent / "countdownctl"


def ctl(*words, **options):
    environment = {k: v for k, v in os.environ.items() if k != "COUNTDOWND_SOCKET"}
    return subprocess.run(
        [CTL, *map(str, words)], capture_output=True, text=True, env=environment, timeout=30,
        **options)


def says(daemon, status, text, *words):
    done = ctl(*words, "--socket", daemon.path)
    assert (done.returncode, text in done.stdout + done.stderr) == (status, True), done
    return done


def refused(*words):
    """Runs a wrong command line, which reaches no daemon, and returns its error."""
    done = ctl(*words)
    assert done.returncode == 64, done
    return " ".join(done.stderr.split())


@pytest.fixture
def deaf(tmp_path):
    """A socket that accepts connections and never answers."""
    path = tmp_path / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        yield path


@pytest.mark.parametrize(
    "words", [["ping"], ["start", "k"], ["list"], ["info"], ["raw", "PING"], ["watch"], ["monitor"]])
def test_a_daemon_that_does_not_answer_is_given_up(deaf, words):
    command, *rest = words
    done = ctl(command, "--socket", deaf, "--wait", "200ms", *rest)
    assert done.returncode == 3, done
    assert done.stderr == f"countdownctl: {deaf} did not answer within 200 ms\n"


def test_a_repeated_start_sends_nothing(daemon):
    for command in ("start", "resend"):
        says(daemon, 0, "accepted", command, "k", "--token", command)
        says(daemon, 2, "was accepted before", command, "k", "--token", command)
        says(daemon, 0, "", "retime", "k", "0")


def test_ping_gives_up_after_a_while(deaf):
    done = ctl("ping", "--socket", deaf)
    assert (done.returncode, done.stderr) == (
        3, f"countdownctl: {deaf} did not answer within 5 s\n")


def test_a_daemon_that_is_stopped_does_not_answer(daemon):
    says(daemon, 0, "PONG", "ping", "--wait", "10s")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        says(daemon, 3, "did not answer within 300 ms", "ping", "--wait", "300ms")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    says(daemon, 0, "PONG", "ping")


def test_owner_connection_is_refused(daemon):
    commands = [
        ["start", "k"], ["timer", "set", "k", "1h"], ["hud", "show", "k"], ["scope", "open", "k"],
        ["nav", "push", "k", "p"], ["page", "appear", "k"],
    ]  # fmt: skip
    for command in commands:
        said = refused(*command, "--owner", "connection", "--socket", daemon.path)
        assert "--owner is scope:ID or none" in said
    says(daemon, 0, "k", "scope", "open", "k", "--owner", "none")
    says(daemon, 0, "running", "timer", "set", "k", "1h", "--owner", "scope:k")


def test_missing_entities_are_status_1(daemon):
    commands = [
        ["resend", "k"], ["pause", "k"], ["retime", "k", "5s"], ["attempt", "k"], ["get", "k"],
        ["timer", "pause", "k"], ["hud", "status", "k", "text"], ["once", "done", "k", "result"],
        ["scope", "touch", "k"], ["nav", "pop", "k"], ["page", "loaded", "k"],
        ["timer", "set", "t", "1h", "--owner", "scope:k"],
    ]  # fmt: skip
    for command in commands:
        says(daemon, 1, "k", *command)
    says(daemon, 0, "accepted", "start", "k")
    says(daemon, 4, "STALE", "cancel", "k", "--generation", "1")


def test_subcommands_send_their_command(daemon):
    says(daemon, 0, "t", "timer", "set", "t", "1h")
    says(daemon, 0, "deleted", "timer", "delete", "t")
    says(daemon, 0, "home", "nav", "push", "main", "home")
    says(daemon, 0, "home", "nav", "set", "main", "home", "--pop", "off")
    assert view(daemon.connect()("NAV", "GET", "main"))["pages"] == [b"home"]
    says(daemon, 0, "loading", "page", "appear", "orders")
    says(daemon, 0, "error", "page", "failed", "orders", "--message", "no network")
    says(daemon, 0, "loading", "page", "retry", "orders")
    says(daemon, 1, "orders", "page", "refresh", "orders")


def test_info_lists_its_sections_in_errors_and_help(daemon):
    headings = re.findall(r"^# (\w+)$", ctl("info", "--socket", daemon.path).stdout, re.M)
    names = " ".join(heading.lower() for heading in headings)
    assert f"there is no section 'foo'; sections: {names}" in refused("info", "foo")
    assert f"Sections: {names}." in " ".join(ctl("info", "--help").stdout.split())
    shown = json.loads(ctl("info", "CPU", "timers", "--json", "--socket", daemon.path).stdout)
    assert list(shown) == ["cpu", "timers"]


def test_without_a_daemon_the_error_says_how_to_start_one(tmp_path):
    missing, file = tmp_path / "none.sock", tmp_path / "file"
    file.write_text("")
    for path, text in [
        (missing, f"start one with 'countdownd --socket {missing} --state-directory DIR'"),
        (file, f"{file} is not a socket; give another --socket"),
        (tmp_path, f"{tmp_path} is not a socket; give another --socket"),
    ]:
        done = ctl("ping", "--socket", path)
        assert done.returncode == 3 and text in done.stderr and "systemctl" not in done.stderr, done


def test_an_answer_that_is_not_resp_is_reported(tmp_path):
    path = tmp_path / "http.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        asking = subprocess.Popen(
            [CTL, "ping", "--socket", path], stderr=subprocess.PIPE, text=True)  # fmt: skip
        peer, _ = listener.accept()
        peer.recv(1)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        said = asking.communicate(timeout=30)[1]
        peer.close()
    assert (asking.returncode, said) == (
        3, f"countdownctl: what answers at {path} is not countdownd\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_error_does_not_suggest_joining_the_group_of_root(daemon):
    os.chmod(daemon.path.parent, 0o755)
    os.chmod(daemon.path, 0o660)
    done = ctl("ping", "--socket", daemon.path, user=65534, group=65534, extra_groups=[])
    assert done.returncode == 3, done
    assert "usermod" not in done.stderr and "ask its owner, or give --socket" in done.stderr, done


def test_wrong_values_are_refused_with_the_allowed_ones():
    duration = "not a duration with ms, s, m, h or d, such as 90s, 1h30m or 1.5s, at most 3650d"
    assert duration in refused("start", "k", "1.5ms")
    assert duration in refused("timer", "set", "k", "soon")
    assert duration in refused("ping", "--wait", "5 s")
    for command in (["start", "k"], ["timer", "set", "k"], ["retime", "k"], ["debounce", "call", "k"]):
        assert "a unit is missing: write 90s or 90ms" in refused(*command, "90")
    assert "a unit is missing" in refused("throttle", "take", "k", "--burst", "1", "--rate", "1/5")
    assert "whole steps of --every" in refused("start", "k", "90s", "--every", "7s")
    assert "the name of the countdown is missing: write start NAME 90s" in refused("start", "90s")
    assert "a countdown takes at least 1ms" in refused("start", "k", "0")
    assert "leave the duration and --every out" in refused("start", "k", "5s", "--policy", "p")
    assert "not an integer from 1 to 1000000000" in refused(
        "throttle", "take", "k", "--burst", "0", "--rate", "1/1s")  # fmt: skip
    for family in ["nav", "throttle"]:
        assert "Unknown option '--owner'" in refused(family, "list", "--owner", "none")


def test_hud_pause_refuses_a_stale_generation(daemon):
    says(daemon, 0, "visible", "hud", "show", "s", "--fade-in", "0")
    for command in ["pause", "resume"]:
        says(daemon, 4, "STALE", "hud", command, "s", "--generation", "1")
        says(daemon, 0, "visible", "hud", command, "s")
    assert "(default: normal)" in ctl("hud", "show", "--help").stdout


def test_a_configuration_without_policies_is_good(tmp_path):
    file = tmp_path / "countdownd.yaml"
    file.write_text("log-level: info\n")
    done = ctl("policy", "explain", "--config", file)
    assert (done.returncode, done.stdout) == (0, f"no policies in {file}\n")
    assert ctl("policy", "check", file).stdout == f"{file}: valid; no policies\n"


STANDARD = "/etc/countdownd/countdownd.yaml"


@pytest.mark.skipif(os.path.exists("/etc/countdownd"), reason="there is a configuration here")
def test_without_a_configuration_there_are_no_policies():
    done = ctl("policy", "check")
    assert (done.returncode, done.stdout) == (
        0, f"{STANDARD}: does not exist; the defaults apply; no policies\n")
    done = ctl("policy", "explain")
    assert (done.returncode, done.stdout) == (0, f"no policies in {STANDARD}, which does not exist\n")


TRICKS = "\x1b[2J\x9b2J\u202e"


@pytest.mark.parametrize("words", [
    ["list"], ["get", TRICKS], ["get", TRICKS, "--json"], ["list", "--json"], ["get", "no" + TRICKS],
    ["raw", "--json", "COUNTDOWN", "LIST"],
    ["resend", "no" + TRICKS], ["raw", TRICKS],
    ["policy", "check", TRICKS], ["--socket", TRICKS, "ping"], ["get", "--" + TRICKS],
], ids=lambda words: ascii(" ".join(words)))  # fmt: skip
def test_control_characters_of_others_do_not_reach_the_terminal(daemon, words):
    daemon.connect()("COUNTDOWN", "START", TRICKS, "TITLE", TRICKS, "READYTITLE", TRICKS, "META", TRICKS)
    socket = [] if words[0] in ("policy", "--socket") else ["--socket", daemon.path]
    done = ctl(words[0], *socket, *words[1:])
    said = done.stdout + done.stderr
    assert said and not set("\x1b\x9b\u202e") & set(said), said


def test_output_into_a_pipe_is_unchanged(daemon):
    daemon.connect()("COUNTDOWN", "START", TRICKS, "META", TRICKS)
    assert ctl("raw", "--socket", daemon.path, "ECHO", TRICKS).stdout == TRICKS + "\n"


@pytest.mark.parametrize("duration,options,steps", [
    ("90s", [], (90, 1000)), ("1h30m", [], (5400, 1000)), ("1.5s", [], (1, 1500)),
    ("500ms", [], (1, 500)), ("1.5s", ["--every", "500ms"], (3, 500)), ("2d", ["--every", "1d"], (2, 86400000)),
])  # fmt: skip
def test_a_duration_is_sent_in_steps(daemon, duration, options, steps):
    done = ctl("start", "k", duration, *options, "--json", "--socket", daemon.path)
    view = json.loads(done.stdout)
    assert (done.returncode, view["count"], view["every_ms"]) == (0, *steps)


def test_a_timer_is_set_to_a_time_of_day(daemon):
    at = "2031-12-01T08:00:00.5+01:00"
    done = ctl("timer", "set", "t", "--at", at, "--every", "24h", "--json", "--socket", daemon.path)
    assert json.loads(done.stdout)["deadline_unix_ms"] == 1_953_874_800_500
    assert "not a time as in ISO 8601" in refused("timer", "set", "t", "--at", "tomorrow")
    says(daemon, 1, "exists", "timer", "set", "t", "1h", "--nx")
    says(daemon, 0, "due in", "timer", "set", "t", "1h", "--every", "24h", "--clock", "wall", "--keep")


def test_durations_of_other_commands_have_units_too(daemon):
    says(daemon, 0, "due in 90 m", "timer", "set", "t", "1h30m")
    says(daemon, 0, "accepted", "throttle", "take", "r", "--burst", "5", "--rate", "5/1h30m")
    says(daemon, 0, "5/90 m", "throttle", "list")


def test_a_misspelled_command_is_explained():
    said = refused("strat", "k", "90s")
    assert said == (
        "Error: unknown command 'strat'. Did you mean 'start'? 'countdownctl --help' lists all.")
    assert "Did you mean 'show'? 'countdownctl hud --help'" in refused("hud", "shwo", "main")
    assert "Did you mean '--title'?" in refused("start", "k", "90s", "--titel", "x")
    assert "unknown command 'x'" in refused("--socket", "start", "x")


def test_errors_are_json_with_json(daemon, tmp_path):
    def error(*words, path=daemon.path):
        done = ctl(*words, "--json", "--socket", path)
        assert done.stdout == "" and done.stderr.count("\n") == 1, done
        error = json.loads(done.stderr)
        assert list(error) == ["code", "message"] and error["message"], done
        return done.returncode, error["code"]

    assert error("get", "k") == (1, "NOTFOUND")
    assert error("cancel", "k") == (1, "NOTFOUND")
    assert error("resend", "k") == (1, "NOTFOUND")
    ctl("start", "k", "--socket", daemon.path)
    assert error("cancel", "k", "--generation", "1") == (4, "STALE")
    assert error("ping", path=tmp_path / "none") == (3, "UNREACHABLE")
    assert error("backup", "/") == (1, "FILE")
    assert error("strat") == (64, "USAGE")
    assert error("start") == (64, "USAGE")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        assert error("ping", "--wait", "100ms") == (3, "TIMEOUT")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    refusal = ctl("start", "k", "--json", "--socket", daemon.path)
    assert (refusal.returncode, refusal.stderr) == (1, "")
    assert json.loads(refusal.stdout)["accepted"] is False


def test_generations_are_shown_on_request(daemon):
    commands = [["start", "k"], ["hud", "show", "s"], ["timer", "set", "t", "1h"], ["scope", "open", "c"]]
    for command in commands:
        says(daemon, 0, "", *command)
        family = command[:-2] if command[0] != "start" else []
        key = {"hud": "s", "timer": "t", "scope": "c"}.get(command[0], "k")
        if family == ["timer", "set"]:
            family = ["timer"]
        for words in (["get", key], ["list"]):
            plain = ctl(*family, *words, "--socket", daemon.path).stdout
            full = ctl(*family, *words, "--generations", "--socket", daemon.path).stdout
            assert "generation" not in plain.lower() and "generation" in full.lower(), (plain, full)
    assert "generation" not in ctl("start", "l", "--socket", daemon.path).stdout
    shown = ctl("start", "m", "--generations", "--socket", daemon.path).stdout
    [generation] = re.findall(r"\(generation (\d+)\)", shown)
    says(daemon, 0, "refunded", "refund", "m", "--generation", generation)
    assert "generation" in json.loads(ctl("get", "k", "--json", "--socket", daemon.path).stdout)


def on_a_terminal(*words):
    """Returns what a command prints on a terminal, without colours."""
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    environment.pop("COUNTDOWND_SOCKET", None)
    ours, theirs = pty.openpty()
    with subprocess.Popen([CTL, *map(str, words)], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        output = b""
        try:
            while data := os.read(ours, 4096):
                output += data
        except OSError:  # The other end is closed.
            pass
        os.close(ours)
        process.wait(timeout=30)
    return output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("family,noun", [
    ([], "countdowns"), (["hud"], "HUDs"), (["timer"], "timers"), (["throttle"], "rate limits"),
    (["once"], "idempotency keys"), (["gate"], "sessions"), (["debounce"], "debouncers"),
    (["scope"], "scopes"), (["nav"], "navigation stacks"), (["page"], "pages"),
])  # fmt: skip
def test_an_empty_list_says_so_on_a_terminal_only(daemon, family, noun):
    words = [*family, "list", "--socket", daemon.path]
    assert on_a_terminal(*words) == f"no {noun}\n"
    assert on_a_terminal(*words, "--match", "a*") == f"no {noun} match 'a*'\n"
    assert on_a_terminal(*words, "--json") == ""
    assert ctl(*words).stdout == ""


def test_without_arguments_the_first_steps_fit_on_a_screen():
    shown = ctl().stdout
    assert "countdownctl start KEY 90s" in shown
    assert len(shown.splitlines()) < 24 and max(map(len, shown.splitlines())) <= 80


def all_commands():
    """Returns the path of each command."""
    tool = json.loads(ctl("--experimental-dump-help").stdout)

    def walk(command, path):
        yield path
        for below in command.get("subcommands", []):
            if below["commandName"] != "help":
                yield from walk(below, [*path, below["commandName"]])

    return list(walk(tool["command"], []))


def test_every_command_is_explained_in_the_imperative():
    paths = all_commands()
    assert len(paths) > 80
    tool = json.loads(ctl("--experimental-dump-help").stdout)["command"]
    for path in paths:
        command = tool
        for name in path:
            [command] = [c for c in command["subcommands"] if c["commandName"] == name]
        first = command["abstract"].split()[0]
        assert first[0].isupper() and not re.search("[^s]s$", first), (path, command["abstract"])
        assert len(command["abstract"]) <= 80, path
        for argument in command.get("arguments", []):
            assert argument.get("abstract"), (path, argument)
    for path in [[], ["start"], ["hud"], ["hud", "show"], ["nav", "swipe"]]:
        assert ctl(*path, "--help").returncode == 0


def test_a_short_list_asks_for_no_more(daemon):
    client, monitor = daemon.connect(), daemon.connect()
    for number in range(9):
        client("COUNTDOWN", "START", f"k{number}")
    monitor("MONITOR")
    assert len(ctl("list", "--limit", 5, "--json", "--socket", daemon.path).stdout.splitlines()) == 5
    while "LIST" not in (line := monitor.reply()):
        pass
    assert '"LIMIT" "5"' in line


# Completion


def complete(daemon, command, argument, word="", *, words=None):
    """Returns the shell's completions for an argument."""
    path = command.split()
    # Both ways to write the option.
    socket = ["--socket", str(daemon)] if len(word) % 2 else [f"--socket={daemon}"]
    done = ctl("---completion", *path, "--", argument, "9", str(len(word)),
               "countdownctl", *socket, *path, *(words or []), word)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()


@pytest.mark.daemon(config="policies:\n  login: {count: 5}\n  reset: {count: 9}\n")
def test_keys_and_policies_are_completed_from_the_daemon(daemon):
    client = daemon.connect()
    for key in ("+45*1", "+45x2", "+46", "line\nfeed"):
        client("COUNTDOWN", "START", key)
    client("HUD", "SHOW", "main")
    client("TIMER", "SET", "tea", "1h")
    assert complete(daemon.path, "get", "positional@0") == ["+45*1", "+45x2", "+46"]
    assert complete(daemon.path, "cancel", "positional@0", "+45*") == ["+45*1"]
    assert complete(daemon.path, "start", "positional@0", "+46") == ["+46"]
    assert complete(daemon.path, "hud dismiss", "positional@0") == ["main"]
    assert complete(daemon.path, "timer delete", "positional@0", "t") == ["tea"]
    assert complete(daemon.path, "page get", "positional@0") == []
    assert complete(daemon.path, "start", "--policy") == ["login", "reset"]


def test_completion_is_silent_and_ends_without_a_daemon(deaf, tmp_path):
    for path in (deaf, tmp_path / "none.sock"):
        assert complete(path, "get", "positional@0") == []


def test_bash_completes_keys(daemon, tmp_path):
    daemon.connect()("COUNTDOWN", "START", "order-17")
    script = tmp_path / "completion"
    script.write_text(ctl("--generate-completion-script", "bash").stdout)
    typed = f"""
PATH={CTL.parent}:$PATH; COUNTDOWND_SOCKET={daemon.path}; export COUNTDOWND_SOCKET
. {script}
COMP_WORDS=(countdownctl get ord); COMP_CWORD=2; COMP_LINE='countdownctl get ord'; COMP_POINT=20
_countdownctl countdownctl ord get
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "order-17", done


# The log level


def test_the_log_level_can_be_set_until_the_next_reload(start_daemon):
    daemon = start_daemon(config="log-level: warning\n")
    says(daemon, 0, "warning", "log-level")
    assert "log level" not in daemon.log
    says(daemon, 0, "info", "log-level", "info")
    eventually(lambda: "log level set to info" in daemon.log, "it logs at the new level")
    assert daemon.connect()("CONFIG", "GET", "log-level") == [b"log-level", b"info"]
    says(daemon, 0, "log-level: info -> warning", "reload")
    says(daemon, 0, "warning", "log-level")
    assert "a log level is one of trace, debug" in refused("log-level", "loud")
    client = daemon.connect()
    assert "not a log level" in client.error("ERR", "CONFIG", "SET", "log-level", "loud")
    assert "only log-level can be set" in client.error("ERR", "CONFIG", "SET", "durability", "none")
