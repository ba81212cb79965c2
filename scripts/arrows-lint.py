#!/usr/bin/env python3
"""Compares the arrows between the folders of Sources/Countdowns with scripts/arrows.txt. A folder
has an arrow to another one if its code names a type that the other declares. Exits with 1 if an
arrow is new, or is listed but no longer there; with `--write` it writes the list instead."""

import re
import sys
from pathlib import Path

from swift_code import code

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "Sources/Countdowns"
LIST = ROOT / "scripts/arrows.txt"
HEADER = """\
# Which folder of Sources/Countdowns names types of which others. Their number should fall:
# `scripts/arrows-lint.py` accepts no new line; `--write` writes the list after one has gone.

"""
DECLARATION = r"^(?:package |public |indirect |final |@\w+ )*(?:struct|class|enum|protocol|typealias) (\w+)"


def folder(path):
    """Returns the folder of a file; files beside the folders are the engine's."""
    parts = path.relative_to(SOURCES).parts
    return parts[0] if len(parts) > 1 else "Engine"


def arrows():
    """Returns the arrows, each with a type that one folder names and the other declares."""
    files = [(folder(path), code(path.read_text())) for path in sorted(SOURCES.rglob("*.swift"))]
    declared = {}
    for name, text in files:
        for type_name in re.findall(DECLARATION, text, re.M):
            declared.setdefault(type_name, name)
    found = {}
    for name, text in files:
        for word in re.findall(r"\b[A-Z]\w*", text):
            if (other := declared.get(word, name)) != name:
                found.setdefault(f"{name} -> {other}", word)
    return found


def main():
    found = arrows()
    if "--write" in sys.argv:
        LIST.write_text(HEADER + "".join(f"{arrow}\n" for arrow in sorted(found)))
    listed = {line for line in LIST.read_text().splitlines() if "->" in line}
    problems = [f"new arrow: {arrow}, which names {found[arrow]}" for arrow in found.keys() - listed]
    problems += [f"no longer there: {arrow}" for arrow in listed - found.keys()]
    for problem in sorted(problems):
        print(f"scripts/arrows.txt: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
