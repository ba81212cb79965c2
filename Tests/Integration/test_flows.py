"""`countdownctl play`: the flows of Examples/flows, and how differences and mistakes are shown."""

import json
import os
import subprocess
import tempfile

import pytest

from countdownd import PROJECT, binary

CTL = binary().parent / "countdownctl"
FLOWS = sorted((PROJECT / "Examples/flows").glob("*.flow"))

BUTTON = """\
# A button.
0s   > COUNTDOWN START k COUNT 2 EVERY 1s
     < accepted=true generation=$g
     * countdown:k started
1s   * countdown:k tick remaining=1
2s   * countdown:k ready generation=$g
"""


def play(*words):
    environment = {k: v for k, v in os.environ.items() if k != "COUNTDOWND_SOCKET"}
    return subprocess.run(
        [CTL, "play", *map(str, words)], capture_output=True, text=True, env=environment,
        timeout=60)


@pytest.fixture
def flow(tmp_path):
    def write(text):
        path = tmp_path / "test.flow"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_a_flow_of_the_examples_goes_as_it_says(path):
    done = play(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"{path}: as expected\n\n")
    # Commands and comments are printed unchanged.
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("  ")]
    text = path.read_text()
    assert all(line in lines for line in text.splitlines() if line.lstrip()[:1] in (">", "#"))


def test_there_are_flows_of_every_source():
    names = {path.stem.split("-")[0] for path in FLOWS}
    assert names >= {
        "countdown", "verification", "login", "page", "responder", "swipe", "mbprogresshud",
        "svprogresshud", "restart", "limits",
    }


def test_a_flow_that_goes_otherwise_is_shown_with_its_differences(flow):
    path = flow(BUTTON.replace("1s   * countdown:k tick remaining=1", "1s   * countdown:k paused"))
    done = play(path)
    assert done.returncode == 1
    assert "- 1s   * countdown:k paused\n" in done.stdout
    plus = [line for line in done.stdout.splitlines() if line.startswith("+")]
    assert len(plus) == 1 and "1s" in plus[0] and "* countdown:k tick" in plus[0]
    assert "remaining=1 " in plus[0] and "state=counting" in plus[0]
    assert "  2s   * countdown:k ready generation=$g\n" in done.stdout
    assert f"{path}: 2 lines differ" in done.stdout


@pytest.mark.parametrize(
    "old, new",
    [
        ("1s   * countdown:k tick", "1.5s * countdown:k tick"),
        ("remaining=1", "remaining=2"),
        ("accepted=true", "accepted=false"),
        ("accepted=true", "accepted=true nothing=null"),
        ("     * countdown:k started\n", ""),
        ("ready generation=$g", "ready generation=2…1"),
        ("2s   * countdown:k ready generation=$g\n", "3s\n"),
    ],
)  # fmt: skip
def test_what_differs_fails(flow, old, new):
    assert old in BUTTON
    assert play(flow(BUTTON)).returncode == 0
    done = play(flow(BUTTON.replace(old, new)))
    assert done.returncode == 1, done.stdout
    assert "differ" in done.stdout


def test_a_command_that_fails_needs_a_line_for_it(flow):
    assert play(flow("0s > HUD NOTHING\n")).returncode == 1
    assert play(flow("0s > HUD NOTHING\n < error ERR …\n")).returncode == 0
    # A line `…` allows it, too.
    assert play(flow("0s > HUD NOTHING\n …\n")).returncode == 0


def test_only_differences_are_printed_where_asked(flow):
    done = play("--quiet", flow(BUTTON))
    assert (done.returncode, done.stdout) == (0, "")
    done = play("--json", flow(BUTTON.replace("remaining=1", "remaining=7")))
    result = json.loads(done.stdout)
    assert done.returncode == 1 and not result["passed"]
    assert result["differences"][0] == "- 1s   * countdown:k tick remaining=7"
    assert [line[0] for line in result["differences"]] == ["-", "+"]


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ("0s ? x", 1, "'?' is not a time, > (command), < (reply), * (event), … or #"),
        ("2s > PING\n1s > PING", 2, "1s is before the line above"),
        ("1x > PING", 1, "'1x' is not a time since the beginning, such as 1.5s"),
        ("# One\n< OK", 2, "a reply follows a command of the same client"),
        ("a> PING\nb< PONG", 2, "a reply follows a command of the same client"),
        ("0s > SET 'x", 1, "unbalanced quotes"),
        ("0s >", 1, "the command is missing"),
        ("0s * hud:a", 1, "an event has a channel and a name"),
        ("0s > PING\nconfig:\n  hud: {}", 2, "'config:' comes once, before the first command"),
    ],
)
def test_a_mistake_is_reported_with_its_line(flow, text, line, problem):
    path = flow(text)
    done = play(path)
    assert done.returncode == 1
    assert done.stderr == f"countdownctl: {path}:{line}: {problem}\n"


def test_a_configuration_that_is_refused_is_shown(flow):
    done = play(flow("config:\n  hud: {grace: never}\n0s > PING"))
    assert done.returncode == 1
    assert "countdownd did not start" in done.stderr and "hud.grace" in done.stderr


def test_files_that_cannot_be_read_are_reported_and_others_are_played(flow):
    path = flow(BUTTON)
    done = play("/nowhere.flow", path.parent, path)
    assert done.returncode == 1
    assert "cannot read /nowhere.flow: No such file" in done.stderr
    assert f"cannot read {path.parent}: Is a directory" in done.stderr
    assert f"{path}: as expected" in done.stdout


@pytest.mark.daemon(virtual_time=True)
def test_a_flow_plays_on_a_daemon_that_runs(daemon, client, flow):
    assert play("--socket", daemon.path, flow(BUTTON)).returncode == 0
    assert client("COUNTDOWN", "GET", "k") is not None
    done = play("--socket", daemon.path, flow("config:\n  hud: {}\n0s > PING"))
    assert done.returncode == 1 and "leave out --socket" in done.stderr


def test_a_daemon_with_real_time_is_refused(daemon, flow):
    done = play("--socket", daemon.path, flow(BUTTON))
    assert done.returncode == 4
    assert "--virtual-time" in done.stderr


def test_a_flow_leaves_nothing_behind(flow):
    # Not below pytest's directory: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory() as place:
        environment = os.environ | {"TMPDIR": place}
        subprocess.run(
            [CTL, "play", flow(BUTTON)], env=environment, check=True, capture_output=True)
        assert not os.listdir(place)
