"""Reads the code blocks of documentation pages, and types the commands that they show.

A comment above a block tells the reader what to do with it:

    <!-- file: app.py -->            save the block under this name
    <!-- terminal: daemon -->        type it in another terminal; its last command may keep running
    <!-- skip: it needs a package --> leave it out, for this reason

The reader types `console` blocks line by line and compares the output with the page. `…` in a page
stands for anything. A number with a fraction, or one in ms or µs, may differ from run to run; all
others must be the same. A page on virtual time shows whole seconds.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import typing

from countdownd import PATIENCE, eventually


class Block(typing.NamedTuple):
    language: str
    text: str
    line: int
    notes: dict

    @property
    def commands(self):
        """The commands, each with the output that the page shows: (command, lines)."""
        found = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\") and not found[-1][1]:
                found[-1] = (found[-1][0] + "\n" + line, [])
            else:
                assert found, f"line {self.line}: no command before this output"
                found[-1][1].append(line)
        return found


def blocks(page):
    """Returns the fenced blocks of a page, in order."""
    text = page.read_text()
    pattern = re.compile(
        r"^(?P<notes>(?:<!-- [^\n]* -->\n\n?)*)^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
    )
    found = []
    for match in pattern.finditer(text):
        notes = dict(re.findall(r"<!-- (\w+): (.*?) -->", match["notes"]))
        assert set(notes) <= {"file", "terminal", "skip"}, f"{page}: {notes}"
        line = text.count("\n", 0, match.start("language")) + 1
        found.append(Block(match["language"], match["text"], line, notes))
    return found


NUMBER = re.compile(r"\d+\.\d+|\d+(?= [mµ]s\b)")


def matches(shown, came):
    """Returns whether an output line matches the line that the page shows."""
    pattern, place = "", 0
    for match in re.finditer(NUMBER.pattern + "|…", shown):
        pattern += re.escape(shown[place : match.start()])
        # The fraction may be absent: 58.3 s in one run can be 58 s in another.
        pattern += ".*" if match[0] == "…" else r"\d+(?:\.\d+)?"
        place = match.end()
    return re.fullmatch(pattern + re.escape(shown[place:]), came) is not None


def all_match(shown, came):
    """Returns whether the output matches the page; a line of `…` stands for any number of lines."""
    if not shown:
        return not came
    if shown[0] == "…":
        return any(all_match(shown[1:], came[skipped:]) for skipped in range(len(came) + 1))
    return bool(came) and matches(shown[0], came[0]) and all_match(shown[1:], came[1:])


class Terminal:
    """A shell that takes typed commands."""

    MARK = "--- done with status "

    def __init__(self, directory, environment):
        self.output = tempfile.TemporaryFile()
        self.shell = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
        self.read = 0

    def type(self, command):
        lines = f"{{ {command}\n}} </dev/null; printf '\\n{self.MARK}%s\\n' $?\n"
        self.shell.stdin.write(lines.encode())
        self.shell.stdin.flush()

    def fresh(self):
        """Returns the output of the last command, and whether that command has ended."""
        text = os.pread(self.output.fileno(), 1 << 20, self.read).decode()
        before, mark, _ = text.partition(f"\n{self.MARK}")
        return before.rstrip("\n").splitlines() if before.strip("\n") else [], bool(mark)

    def next(self):
        self.read = os.fstat(self.output.fileno()).st_size

    def close(self):
        os.killpg(self.shell.pid, signal.SIGTERM)
        try:
            self.shell.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.wait()
        self.shell.stdin.close()
        self.output.close()


class Reader:
    """Follows a page from top to bottom."""

    def __init__(self, directory, environment, instead=None, patience=PATIENCE):
        self.directory = pathlib.Path(directory)
        self.environment = environment
        # Maps a command of the page to the one to type instead.
        self.instead = instead or {}
        self.patience = patience
        self.terminals = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for terminal in self.terminals.values():
            terminal.close()

    def follow(self, page):
        for block in blocks(page):
            if "skip" in block.notes:
                continue
            if "file" in block.notes:
                (self.directory / block.notes["file"]).write_text(block.text)
            elif block.language == "console":
                self.type(page, block)

    def type(self, page, block):
        name = block.notes.get("terminal", "first")
        if name not in self.terminals:
            self.terminals[name] = Terminal(self.directory, self.environment)
        terminal = self.terminals[name]
        for command, shown in block.commands:
            terminal.next()
            terminal.type(self.instead.get(command, command))
            goes_on = "terminal" in block.notes and command == block.commands[-1][0]
            came = []

            def is_there():
                came[:], has_ended = terminal.fresh()
                return has_ended or goes_on and all_match([*shown, "…"], came)

            try:
                eventually(is_there, "it comes to an end", self.patience)
            except AssertionError:
                pass
            # A command that keeps running may print more.
            assert all_match([*shown, "…"] if goes_on else shown, came), (
                f"{page.name}, line {block.line}: $ {command}\n"
                + "the page shows:\n  " + "\n  ".join(shown)
                + "\nbut this came:\n  " + "\n  ".join(came)
            )  # fmt: skip
