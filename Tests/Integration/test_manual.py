"""The man pages, which are generated from the help of the programs and from the configuration."""

import json
import re
import shutil
import subprocess

import pytest

from countdownd import PROJECT, binary

# Options of every command, which only the overview describes.
IN_OVERVIEW = ("help", "version", "socket", "wait", "json", "generations")
CTL = binary().parent / "countdownctl"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([PROJECT / "scripts/man-pages.py", binary().parent, directory], check=True)
    return directory


def plain(path):
    """Returns the text of a page without roff escapes."""
    text = re.sub(r"\\f[BIR]|\\&", "", path.read_text())
    return text.replace("\\-", "-").replace("\\(aq", "'").replace("\\ ", " ").replace("\\e", "\\")


def commands():
    dumped = subprocess.run([CTL, "--experimental-dump-help"], check=True, capture_output=True)
    return [c for c in json.loads(dumped.stdout)["command"]["subcommands"] if c["commandName"] != "help"]


def test_each_command_has_a_page_with_its_options_and_examples(pages):
    overview = plain(pages / "countdownctl.1")
    for command in commands():
        name = f"countdownctl-{command['commandName']}"
        assert f"{name}(1)" in overview
        text = plain(pages / f"{name}.1")
        assert f".SH NAME\n{name} - " in text and ".SH SEE ALSO" in text
        for each in [command, *command.get("subcommands", [])]:
            assert each["abstract"].rstrip(".")[1:] in text
            for argument in each.get("arguments", []):
                option = argument.get("preferredName", {}).get("name")
                if argument["kind"] == "positional" or option not in IN_OVERVIEW:
                    assert argument["valueName"] in text, (name, argument)
    assert "countdownctl start +4512345678 90s" in plain(pages / "countdownctl-start.1")
    for title in ("EXIT STATUS", "ENVIRONMENT", "COMMON OPTIONS", "FILES"):
        assert f".SH {title}" in overview


def test_the_daemon_is_in_section_8(pages):
    text = plain(pages / "countdownd.8")
    for words in ("--state-directory", ".SH SIGNALS", "SIGHUP", ".SH EXIT STATUS", "countdownd.yaml(5)"):
        assert words in text


def test_the_configuration_page_has_each_setting_with_its_default(pages):
    text = plain(pages / "countdownd.yaml.5")
    shown = subprocess.run(
        [binary(), "--check-config", "--config", PROJECT / "config/countdownd.yaml"],
        check=True, capture_output=True, text=True).stdout  # fmt: skip
    names = [line.split(":")[0] for line in shown.splitlines()]
    assert len(names) > 40
    assert [name for name in names if f"{name} (default: " not in text] == []
    assert "countdown.every (default: 1s)" in text


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_pages_are_well_formed(pages):
    for page in pages.iterdir():
        done = subprocess.run(
            ["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), page
