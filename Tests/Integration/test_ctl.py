"""countdownctl: what it says, and how it ends, where something is wrong."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest

from countdownd import binary

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
    """A wrong command line: nobody is asked."""
    done = ctl(*words)
    assert done.returncode == 64, done
    return " ".join(done.stderr.split())


@pytest.fixture
def deaf(tmp_path):
    """A socket where everybody gets in and nobody answers."""
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
        says(daemon, 0, "", "retime", "k", "0s")


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
        assert "--owner is scope:ID; what belongs to this command's connection would end" in said
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


def test_info_lists_its_sections_in_errors_and_help(daemon):
    headings = re.findall(r"^# (\w+)$", ctl("info", "--socket", daemon.path).stdout, re.M)
    names = " ".join(heading.lower() for heading in headings)
    assert f"no section 'foo'; sections: {names}" in refused("info", "foo")
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
    duration = "not a duration: an integer with ms, s, m, h or d, 0 to 3650d"
    assert duration in refused("start", "k", "--every", "1.5s")
    assert duration in refused("timer", "set", "k", "soon")
    assert duration in refused("ping", "--wait", "5 s")
    for count in ["0", "99999999999999999999", "many"]:
        said = refused("start", "k", "--count", count)
        assert "not an integer from 1 to 2147483647" in said
    assert "not an integer from 1 to 1000000000" in refused(
        "throttle", "take", "k", "--burst", "0", "--rate", "1/1s")  # fmt: skip
    for family in ["nav", "throttle"]:
        assert "Unknown option '--owner'" in refused(family, "list", "--owner", "none")


def test_hud_pause_refuses_a_stale_generation(daemon):
    says(daemon, 0, "visible", "hud", "show", "s", "--fade-in", "0")
    for command in ["pause", "resume"]:
        says(daemon, 4, "STALE", "hud", command, "s", "--generation", "1")
        says(daemon, 0, "visible", "hud", command, "s")
    assert "normal (unless given), statusbar or alert" in ctl("hud", "show", "--help").stdout


def test_a_configuration_without_policies_is_good(tmp_path):
    file = tmp_path / "countdownd.yaml"
    file.write_text("log-level: info\n")
    done = ctl("policy", "explain", "--config", file)
    assert (done.returncode, done.stdout) == (0, f"no policies in {file}\n")
    assert ctl("policy", "check", file).stdout == f"{file}: good; no policies\n"


STANDARD = "/etc/countdownd/countdownd.yaml"


@pytest.mark.skipif(os.path.exists("/etc/countdownd"), reason="there is a configuration here")
def test_without_a_configuration_there_are_no_policies():
    done = ctl("policy", "check")
    assert (done.returncode, done.stdout) == (
        0, f"{STANDARD}: not there; the defaults count; no policies\n")
    done = ctl("policy", "explain")
    assert (done.returncode, done.stdout) == (0, f"no policies in {STANDARD}, which is not there\n")


TRICKS = "\x1b[2J\x9b2J\u202e"


@pytest.mark.parametrize("words", [
    ["list"], ["get", TRICKS], ["get", TRICKS, "--json"], ["list", "--json"], ["get", "no" + TRICKS],
    ["raw", "--pretty", "COUNTDOWN", "GET", TRICKS], ["raw", "--json", "COUNTDOWN", "LIST"],
    ["resend", "no" + TRICKS], ["raw", TRICKS], ["raw", "--pretty", "CLIENT", "LIST"],
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
