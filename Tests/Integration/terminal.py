"""A real terminal: a shell in tmux, to type into and to read."""

import os
import pathlib
import subprocess
import tempfile

from countdownd import eventually

# The prompt of the shell.
PROMPT = "ready>"

CONFIGURATION = """
set -g status off
set -g escape-time 0
"""


class Terminal:
    """A shell in a window of `columns` × `rows`."""

    def __init__(self, columns=80, rows=24, term="tmux-256color", locale="C.UTF-8", prompt=PROMPT,
                 **environment):
        self.prompt = prompt
        self.commands = 0
        self.directory = tempfile.TemporaryDirectory(
            prefix="terminal-", ignore_cleanup_errors=True
        )
        home = pathlib.Path(self.directory.name)
        (home / "tmux.conf").write_text(CONFIGURATION)
        self.command = ["tmux", "-u", "-S", home / "tmux", "-f", home / "tmux.conf"]
        variables = {
            "PATH": os.environ["PATH"], "HOME": str(home), "TERM": term, "LC_ALL": locale,
            "PS1": prompt + " ", "HISTFILE": "/dev/null", **environment,
        }  # fmt: skip
        self.tmux(
            "new-session", "-d", "-x", columns, "-y", rows, "env", "-i",
            *(f"{name}={value}" for name, value in variables.items()),
            "bash", "--norc", "--noprofile", "--noediting",
        )  # fmt: skip
        self.wait_for_prompt()

    def tmux(self, *words):
        done = subprocess.run(
            [*map(str, self.command), *map(str, words)], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, text):
        """Types a line."""
        self.tmux("send-keys", "-l", text)
        self.press("Enter")

    def press(self, *keys):
        """Presses keys by their names in tmux: `q`, `Escape`, `C-c`, `PageDown`."""
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def screen(self):
        """Returns the lines on the screen, without trailing blanks."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").split("\n")[:-1]]

    def colours(self):
        """Returns the lines on the screen, with colours as escape sequences."""
        return self.tmux("capture-pane", "-p", "-e", "-N").split("\n")[:-1]

    def fact(self, name):
        """Returns a variable of the window in tmux, such as `alternate_on`."""
        return self.tmux("display-message", "-p", "#{" + name + "}").strip()

    def wait(self, condition, what):
        """Waits until the lines on the screen meet the condition, and returns them.

        The screen may be half-drawn, so the condition must cover all that the test looks at. A
        condition that asserts is met once it neither fails nor returns False."""

        def fits():
            screen = self.screen()
            try:
                return None if condition(screen) is False else screen
            except (AssertionError, IndexError):
                return None

        try:
            return eventually(fits, what)
        except AssertionError:
            raise AssertionError(what + ":\n" + "\n".join(self.screen())) from None

    def wait_for(self, text):
        return self.wait(lambda screen: any(text in line for line in screen), f"it shows {text!r}")

    def wait_for_prompt(self):
        """Waits until the shell asks for the next line."""
        return self.wait(
            lambda screen: next((line for line in reversed(screen) if line), "").endswith(self.prompt),
            "the shell is back",
        )

    def run(self, command):
        """Runs a command and returns its output, which must fit on the screen."""
        self.commands += 1
        end = f"end {self.commands}"
        self.type(f"clear; {command}; echo e''nd {self.commands}")
        screen = self.wait(lambda screen: end in screen, "the command is done")
        self.wait_for_prompt()
        return [line for line in screen[: screen.index(end)] if line]

    def modes(self):
        """Returns the terminal settings."""
        return self.run("stty -a")

    def close(self):
        subprocess.run([*map(str, self.command), "kill-server"], capture_output=True)
        self.directory.cleanup()
