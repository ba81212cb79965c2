"""`make demo`: scripts/demo.sh with the programs that were built."""

import os
import pty
import re
import select
import subprocess
import time

from countdownd import PATIENCE, PROJECT, binary

DEMO = [PROJECT / "scripts/demo.sh", binary().parent]
PARTS = re.findall(r"^part '(\S+):", (PROJECT / "scripts/demo.sh").read_text(), re.M)


class Terminal:
    """The demo, running on a terminal."""

    def __init__(self):
        self.screen, inside = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            DEMO, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True
        )
        os.close(inside)
        self.text = ""

    def read_until(self, pattern):
        """Reads until the text that this call has read matches."""
        begin = len(self.text)
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text[begin:]):
            assert time.monotonic() < end, f"no {pattern} in {self.text}"
            if select.select([self.screen], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.screen, 65_536).decode(errors="replace")
                except OSError:
                    break
        assert re.search(pattern, self.text[begin:]), self.text

    def press(self, key):
        os.write(self.screen, key.encode())


def test_there_is_a_part_for_every_kind():
    families = (PROJECT / "Sources/Countdowns/Kinds").glob("*/*Family.swift")
    assert set(PARTS) == {path.parent.name for path in families}


def test_it_runs_to_the_end_without_an_error():
    done = subprocess.run(
        DEMO, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * PATIENCE
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert re.findall(r"\n\n(\w+): ", done.stdout) == PARTS
    for part in re.split(r"\n\n(?=\w+: )", done.stdout)[1:]:
        assert "\n$ countdownctl" in part
        assert not re.search(r"^(Error|countdownctl|Usage)", part, re.M | re.I), part


def test_a_key_skips_a_part_and_q_ends_it():
    terminal = Terminal()
    try:
        for part in PARTS[:4]:
            terminal.read_until(f"{part}: ")
            terminal.press(" ")
        terminal.read_until(f"{PARTS[4]}: ")
        terminal.press("q")
        assert terminal.process.wait(PATIENCE) == 0
        assert PARTS[5] not in terminal.text
    finally:
        terminal.process.kill()
        os.close(terminal.screen)
