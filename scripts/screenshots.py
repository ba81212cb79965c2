#!/usr/bin/env python3
"""screenshots.py BINARIES DIRECTORY - plays a short session in a real terminal, and draws it as SVG.

The picture follows the reader's colour scheme, light or dark.
"""

import itertools
import os
import pathlib
import re
import sys
import unicodedata
from xml.sax.saxutils import escape

PROJECT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "Tests" / "Integration"))
sys.dont_write_bytecode = True

# MARK: From a terminal's lines to SVG

CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14

# The colours 30 to 37.
COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
LIGHT = {"back": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "black": "#1f2328", "red": "#cf222e",
         "green": "#1a7f37", "yellow": "#9a6700", "blue": "#0969da", "magenta": "#8250df",
         "cyan": "#1b7c83", "white": "#6e7781"}  # fmt: skip
DARK = {"back": "#0d1117", "edge": "#30363d", "text": "#e6edf3", "black": "#484f58", "red": "#ff7b72",
        "green": "#3fb950", "yellow": "#d29922", "blue": "#58a6ff", "magenta": "#bc8cff",
        "cyan": "#39c5cf", "white": "#b1bac4"}  # fmt: skip


def width(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cells(lines):
    """Yields, for each line, pairs of a character and its style: (colour, bold, dim, reverse). A
    style lasts until the next one, also across lines."""
    colour, bold, dim, reverse = "text", False, False, False
    for line in lines:
        found = []
        for escaped, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b\x0e\x0f])", line):
            if text:
                found.append((text, (colour, bold, dim, reverse)))
                continue
            for code in map(int, escaped.split(";") if escaped else ["0"]):
                if code == 0:
                    colour, bold, dim, reverse = "text", False, False, False
                elif code in (1, 2):
                    bold, dim = bold or code == 1, dim or code == 2
                elif code == 22:
                    bold = dim = False
                elif code in (7, 27):
                    reverse = code == 7
                elif 30 <= code <= 37:
                    colour = COLOURS[code - 30]
                elif code == 39:
                    colour = "text"
        yield found


# The strokes of bars, as parts of a cell: start and end in its width, height, opacity. They are
# drawn as rectangles, because fonts leave gaps.
STROKES = {
    "━": [(0, 1, 4, 1)],
    "╾": [(0, 0.5, 4, 1), (0.5, 1, 2, 0.35)],
    "─": [(0, 1, 2, 0.35)],
}


def svg(lines, columns, rows, title):
    full_width = columns * CELL_WIDTH + 2 * MARGIN
    full_height = rows * CELL_HEIGHT + 2 * MARGIN

    def rules(colours):
        return "".join(
            f".{name}{{fill:{colour}}}" for name, colour in colours.items() if name != "edge"
        ) + f".edge{{stroke:{colours['edge']}}}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width:g} {full_height:g}" '
        f'width="{full_width:g}" height="{full_height:g}" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}.b{font-weight:bold}.d{opacity:.65}" + rules(LIGHT)
        + "@media(prefers-color-scheme:dark){" + rules(DARK) + "}</style>",
        f'<rect class="back edge" x=".5" y=".5" width="{full_width - 1:g}" '
        f'height="{full_height - 1:g}" rx="8"/>',
    ]  # fmt: skip

    def rectangle(column, row, count, name, height=CELL_HEIGHT, opacity=1.0):
        x = MARGIN + column * CELL_WIDTH
        y = MARGIN + row * CELL_HEIGHT + (CELL_HEIGHT - height) / 2
        faint = "" if opacity == 1 else f' opacity="{opacity:g}"'
        parts.append(
            f'<rect class="{name}" x="{x:.6g}" y="{y:g}" width="{count * CELL_WIDTH:.6g}" '
            f'height="{height}"{faint}/>'
        )

    def words(column, row, text, style):
        """Places each word separately, so that columns line up in any font."""
        colour, bold, dim, reverse = style
        if reverse:
            rectangle(column, row, sum(map(width, text)), colour)
        classes = " ".join(
            filter(None, ["back" if reverse else colour, "b" if bold else "", "d" if dim else ""])
        )
        for word in re.finditer(r"[\u1100-\uffff]|[^\s\u1100-\uffff]+", text):
            x = MARGIN + (column + sum(map(width, text[: word.start()]))) * CELL_WIDTH
            y = MARGIN + row * CELL_HEIGHT + 13.5
            length = sum(map(width, word[0])) * CELL_WIDTH
            parts.append(
                f'<text class="{classes}" x="{x:.6g}" y="{y:g}" textLength="{length:.6g}" '
                f'lengthAdjust="spacingAndGlyphs">{escape(word[0])}</text>'
            )

    for row, line in enumerate(cells(lines[:rows])):
        column = 0
        # Adjacent equal strokes become one rectangle, other characters of one style one text.
        for (style, stroke), group in itertools.groupby(
            line, lambda cell: (cell[1], cell[0] if cell[0] in STROKES else None)
        ):
            text = "".join(character for character, _ in group)
            if stroke:
                for begin, end, height, opacity in STROKES[stroke]:
                    count = len(text) - 1 + end - begin
                    rectangle(column + begin, row, count, style[0], height, opacity)
            else:
                words(column, row, text, style)
            column += sum(map(width, text))
    return "\n".join(parts) + "\n</svg>\n"


# MARK: The session

COLUMNS, ROWS = 80, 24


def fill(daemon):
    """Creates what a service might have under way."""
    client = daemon.connect()
    for words in [
        ("COUNTDOWN", "START", "+4512345678", "COUNT", 60, "TITLE", "Send again in %ds"),
        ("COUNTDOWN", "START", "+4587654321", "COUNT", 90, "TITLE", "Send again in %ds"),
        ("COUNTDOWN", "START", "+4511223344", "COUNT", 30, "TITLE", "%ds后重发"),
        ("COUNTDOWN", "PAUSE", "+4587654321"),
        ("HUD", "SHOW", "checkout", "KIND", "progress", "STATUS", "Paying"),
        ("HUD", "PROGRESS", "checkout", "0.4"),
        ("TIMER", "SET", "tea", "4m", "PAYLOAD", "Tea is ready"),
        ("TIMER", "SET", "report", "7h", "EVERY", "1d", "PAYLOAD", "Daily report"),
        ("THROTTLE", "TAKE", "login:10.0.0.7", "BURST", 5, "RATE", "5/10m"),
        ("ONCE", "BEGIN", "order-4711", "TTL", "1d"),
        ("GATE", "CHECK", "session-9", "buy", "TTL", "5m"),
        ("DEBOUNCE", "CALL", "search", "20s", "PAYLOAD", "swift timers"),
        ("SCOPE", "OPEN", "app", "TTL", "30s"),
        ("NAV", "PUSH", "main", "home", "PARENT", "app"),
        ("NAV", "PUSH", "main", "details"),
        ("PAGE", "APPEAR", "orders", "TIMEOUT", "15s", "GRACE", "1m"),
    ]:
        client(*words)


def main(binaries, directory):
    os.environ["COUNTDOWND"] = str(binaries / "countdownd")
    from countdownd import Daemon
    from terminal import Terminal

    directory.mkdir(parents=True, exist_ok=True)

    daemon = Daemon()
    terminal = Terminal(
        COLUMNS, ROWS, prompt="$", COUNTDOWND_SOCKET=str(daemon.path),
        PATH=f"{binaries}:{os.environ['PATH']}",
    )  # fmt: skip
    try:
        fill(daemon)
        terminal.type("countdownctl watch")
        shown = r"countdown +\+4511223344 .*2[56]\."
        terminal.wait(lambda screen: any(re.match(shown, line) for line in screen), shown)
        lines = terminal.colours()
    finally:
        terminal.close()
        daemon.kill()
        daemon.close()
    file = directory / "watch.svg"
    file.write_text(svg(lines, COLUMNS, ROWS, "countdownctl watch"))
    print(file, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]))
