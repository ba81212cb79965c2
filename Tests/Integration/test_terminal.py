"""watch and top in a real terminal: what they show, and what they leave behind."""

import json
import re
import signal
import subprocess

import pytest

from countdownd import binary, eventually
from terminal import PROMPT, Terminal

CTL = binary().parent / "countdownctl"

KINDS = ["countdown", "hud", "timer", "throttle", "once", "gate", "debounce", "scope", "nav", "page"]


@pytest.fixture
def open_terminal(daemon):
    """Opens terminals in which countdownctl finds the daemon."""
    terminals = []

    def start(*size, **options):
        terminals.append(
            Terminal(
                *size, COUNTDOWND_SOCKET=str(daemon.path),
                PATH=f"{CTL.parent}:/usr/local/bin:/usr/bin:/bin", **options,
            )
        )  # fmt: skip
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


@pytest.fixture
def terminal(open_terminal):
    return open_terminal()


def fill(client):
    """Creates one entity of each kind; the page adds a HUD, and the page on the stack a scope."""
    client("COUNTDOWN", "START", "+4512345678", "COUNT", 90, "TITLE", "%ds to go")
    client("HUD", "SHOW", "checkout", "STATUS", "Paying", "KIND", "progress")
    client("TIMER", "SET", "tea", "4m", "PAYLOAD", "tea is ready")
    client("THROTTLE", "TAKE", "login:10.0.0.7", "BURST", 5, "RATE", "5/10m")
    client("ONCE", "BEGIN", "order-7", "TTL", "1h")
    client("GATE", "OPEN", "session-9", "TTL", "30m")
    client("DEBOUNCE", "CALL", "search", "10m")
    client("SCOPE", "OPEN", "app", "TTL", "1h")
    client("NAV", "PUSH", "main", "home")
    client("PAGE", "APPEAR", "orders", "TIMEOUT", "10m")


def countdowns(client, count, length=600):
    for number in range(count):
        client("COUNTDOWN", "START", f"k{number:03}", "COUNT", length + number)


def process(terminal):
    """Returns the process ID of the countdownctl in the shell."""
    shell = terminal.fact("pane_pid")
    children = ["pgrep", "-P", shell, "countdownctl"]
    return eventually(lambda: subprocess.run(children, capture_output=True, text=True).stdout, "it")


# MARK: What is left behind


def by_key(key):
    return lambda terminal: terminal.press(key)


def by_signal(number):
    return lambda terminal: subprocess.run(["kill", f"-{number}", process(terminal).strip()])


@pytest.mark.parametrize("command", ["watch", "top"])
@pytest.mark.parametrize(
    "leave",
    [by_key("q"), by_key("C-c"), by_key("C-\\"), by_signal(signal.SIGTERM), by_signal(signal.SIGHUP)],
    ids=["q", "Ctrl-C", "Ctrl-backslash", "SIGTERM", "SIGHUP"],
)
def test_the_terminal_is_as_it_was(client, terminal, command, leave):
    fill(client)
    modes = terminal.modes()
    assert "icanon" in " ".join(modes)
    typed = f"countdownctl {command}; echo status $?"
    terminal.run("echo what was here before")
    terminal.type(typed)
    terminal.wait_for("q quit")
    assert (terminal.fact("alternate_on"), terminal.fact("cursor_flag")) == ("1", "0")
    leave(terminal)
    screen = terminal.wait_for_prompt()
    assert (terminal.fact("alternate_on"), terminal.fact("cursor_flag")) == ("0", "1")
    assert [line for line in screen if line] == [
        "what was here before", "end 2", f"{PROMPT} {typed}", "status 0", PROMPT]
    assert terminal.fact("wrap_flag") == "1"
    assert terminal.modes() == modes


def test_the_terminal_is_as_it_was_after_an_error(daemon, terminal):
    modes = terminal.modes()
    terminal.type("countdownctl watch --socket /nowhere/at/all")
    screen = terminal.wait_for_prompt()
    assert any("no countdownd listens" in line for line in screen)
    assert terminal.modes() == modes


def test_exit_when_ready_ends_the_screen(client, terminal):
    client("COUNTDOWN", "START", "k", "COUNT", 1)
    terminal.type("countdownctl watch k --exit-when-ready && echo send again")
    screen = terminal.wait_for_prompt()
    assert "send again" in screen


def test_ctrl_z_gives_the_terminal_back_for_a_while(client, terminal):
    fill(client)
    modes = terminal.modes()
    terminal.type("countdownctl watch")
    terminal.wait_for("q quit")
    terminal.press("C-z")
    terminal.wait_for_prompt()
    assert terminal.fact("alternate_on") == "0"
    assert terminal.modes() == modes
    # In the background it draws nothing.
    terminal.run("bg; sleep 1.5")
    assert terminal.fact("alternate_on") == "0"
    terminal.type("fg")
    terminal.wait_for("q quit")
    assert terminal.fact("alternate_on") == "1"
    terminal.press("q")
    terminal.wait_for_prompt()
    assert terminal.modes() == modes


# MARK: What watch shows


@pytest.mark.parametrize("columns, rows", [(80, 24), (200, 50), (40, 24)])
def test_watch_has_a_line_for_each_kind(client, open_terminal, columns, rows):
    fill(client)
    terminal = open_terminal(columns, rows)
    terminal.type("countdownctl watch")

    def shows_all(screen):
        assert "12 entities" in screen[0] and screen[1].startswith("KIND       KEY")
        lines = [line for line in screen[2:-1] if line]
        assert sorted(line.split()[0] for line in lines) == sorted([*KINDS, "hud", "scope"])
        assert screen[-1].startswith("q quit")
        time = re.compile(r"\d+ d \d\d h|\d+ h \d\d m|\d+ m \d\d s|[\d.]+ s")
        assert sum(time.search(line) is not None for line in lines) == 8
        assert (columns >= 60) == any("counting" in line for line in lines)
        if columns == 200:
            (countdown,) = [line for line in lines if line.startswith("countdown")]
            assert len(countdown) > 120 and countdown.endswith("s to go")

    terminal.wait(shows_all, "all of them")


def test_a_title_follows_the_ticks(client, terminal):
    fill(client)
    terminal.type("countdownctl watch")
    terminal.wait_for("88s to go")
    terminal.wait_for("86s to go")


def test_the_soonest_comes_first_and_events_move_lines(client, terminal):
    countdowns(client, 3)
    terminal.type("countdownctl watch")

    def keys(screen):
        return [line.split()[1] for line in screen[2:-1] if line]

    terminal.wait(lambda screen: keys(screen) == ["k000", "k001", "k002"], "soonest first")
    client("COUNTDOWN", "RETIME", "k002", "1m")
    terminal.wait(lambda screen: keys(screen) == ["k002", "k000", "k001"], "it moves up")
    client("COUNTDOWN", "PAUSE", "k000")
    terminal.wait(lambda screen: keys(screen) == ["k002", "k001", "k000"], "it moves down")
    client("COUNTDOWN", "CANCEL", "k002")
    terminal.wait(lambda screen: "cancelled" in screen[2], "it says how it ended")
    terminal.wait(lambda screen: keys(screen) == ["k001", "k000"], "it is gone")


def test_keys_scroll_and_filter(client, terminal):
    countdowns(client, 50)
    terminal.type("countdownctl watch")
    terminal.wait(lambda screen: "1–21 of 50" in screen[-1], "the first page")
    terminal.press("PageDown")
    terminal.wait(lambda screen: "22–42 of 50" in screen[-1] and "k021" in screen[2], "the next")
    terminal.press("Down", "Down")
    terminal.wait(lambda screen: "k023" in screen[2], "two lines on")
    terminal.press("End")
    terminal.wait(lambda screen: "30–50 of 50" in screen[-1], "the last page")
    terminal.press("Home", "/", "0", "4")
    terminal.wait(lambda screen: "/04█" in screen[-1] and "k004" in screen[2], "as it is typed")
    terminal.press("Enter")
    terminal.wait(
        lambda screen: "Esc shows all" in screen[-1]
        and len([line for line in screen[2:-1] if line]) == 11, "the filter")
    terminal.press("Escape")
    terminal.wait(lambda screen: "1–21 of 50" in screen[-1], "all of them")


def test_a_new_size_takes_effect(client, terminal):
    countdowns(client, 50)
    terminal.type("countdownctl watch")
    terminal.wait(lambda screen: "1–21 of 50" in screen[-1], "80 × 24")
    terminal.resize(40, 12)
    terminal.wait(
        lambda screen: "1–9 of 50" in screen[-1] and len(screen) == 12
        and screen[1].startswith("KIND") and "STATE" not in screen[1], "40 × 12")
    terminal.resize(120, 40)

    def fills_the_new_size(screen):
        assert "1–37 of 50" in screen[-1]
        assert [line.split()[1] for line in screen[2:-1]] == [f"k{n:03}" for n in range(37)]
        assert all(len(line) > 100 for line in screen[2:-1])

    terminal.wait(fills_the_new_size, "120 × 40")


def test_ascii_without_a_locale_of_utf8(client, open_terminal):
    client("COUNTDOWN", "START", "k", "COUNT", 60, "TITLE", "%ds后重发")
    terminal = open_terminal(locale="C")
    terminal.type("countdownctl watch")
    screen = terminal.wait(
        lambda screen: "==--" in screen[2] and "s??????" in screen[2], "the bar and the title")
    assert all(line.isascii() for line in screen)
    terminal.press("q")
    terminal.wait_for_prompt()
    terminal.type("countdownctl top")
    assert all(line.isascii() for line in terminal.wait_for("/s"))


def test_events_are_lines_on_a_dumb_terminal(client, open_terminal):
    client("COUNTDOWN", "START", "long")
    terminal = open_terminal(term="dumb")
    terminal.type("countdownctl watch")
    terminal.wait_for("countdown:long")
    client("COUNTDOWN", "START", "k", "COUNT", 2)
    screen = terminal.wait_for("countdown:k  ready")
    assert any(re.fullmatch(r"[\d:.]+  countdown:k  tick  1 left", line) for line in screen)
    assert terminal.fact("alternate_on") == "0"
    terminal.press("C-c")
    terminal.wait_for_prompt()


def test_raw_is_formatted_for_people(client, terminal):
    client("TIMER", "SET", "tea", "4m")
    assert terminal.run("countdownctl raw TIMER DEL tea") == ["(integer) 1"]
    assert terminal.run("countdownctl raw TIMER DEL tea | cat") == ["0"]


def test_the_daemon_says_what_to_try(open_terminal):
    terminal = open_terminal()
    terminal.type("cd; countdownd --socket './a b' --durability none")
    screen = terminal.wait_for("Ctrl-C stops the daemon.")
    first = screen.index("Try it in another terminal, in the same folder:")
    assert screen[first + 1 : first + 4] == [
        "  export COUNTDOWND_SOCKET='./a b'",
        "  countdownctl start +4512345678 60s",
        "  countdownctl watch",
    ]
    terminal.press("C-c")
    terminal.wait_for_prompt()


def test_a_lost_connection_is_said_and_made_again(daemon, client, terminal):
    countdowns(client, 2)
    terminal.type("countdownctl watch")
    terminal.wait_for("k001")
    client.close()
    daemon.restart()
    terminal.wait(lambda screen: "q quit" in screen[-1] and "k001" in screen[3], "it is back")
    daemon.terminate()
    screen = terminal.wait_for("Connection lost, trying again …")
    assert "k001" in screen[3], "what was known stays"
    terminal.press("q")
    terminal.wait_for_prompt()


# MARK: What top shows


def test_a_daemon_that_does_not_answer_keeps_nobody(daemon, terminal):
    terminal.type("countdownctl top")
    terminal.wait_for("USER")
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        terminal.press("q")
        terminal.wait_for_prompt()
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("columns, rows", [(80, 24), (200, 50), (40, 24)])
def test_top_shows_the_load(daemon, client, open_terminal, columns, rows):
    fill(client)
    client("CONFIG", "RELOAD")
    terminal = open_terminal(columns, rows)
    terminal.type("countdownctl top")

    def shows_the_load(screen):
        assert any(re.match(r"info +[\d.]+/s", line) for line in screen), "its own commands"
        assert screen[0].startswith("countdownd ")
        text = "\n".join(screen)
        for name in ["commands", "late p99", "memory", "connections", "USER", "COMMAND", "SLOWEST"]:
            assert name in text, name
        assert re.search(r"entities +12\b", text)
        assert re.search(r"connections +2\b", text)
        assert re.search(r"^root +[\d.]+/s|^\w+ +[\d.]+/s", text, re.M)
        assert all(len(line) <= columns for line in screen)
        assert screen[-1] == "q quit"

    terminal.wait(shows_the_load, "the load")


@pytest.mark.daemon(config="slowlog:\n  threshold: 0ms\n")
def test_top_is_text_and_json_for_scripts(daemon, client):
    fill(client)

    def top(*words):
        done = subprocess.run(
            [CTL, "top", "--once", "--socket", daemon.path, *words],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    figures = json.loads(top("--json"))
    assert figures["entities"] == 12 and figures["connections"] == 2
    assert 0 < figures["commands_per_second"] < 100
    assert {"name", "busy", "entities", "connections"} <= set(figures["users"][0])
    assert figures["users"][0]["entities"] == 12
    assert {"info", "slowlog get"} <= {command["name"] for command in figures["commands"]}
    text = top()
    assert "\x1b" not in text and "SLOWEST" in text and "countdown start" in text
