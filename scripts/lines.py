#!/usr/bin/env python3
"""Prints the lines of hand-written code by folder, without blank lines and comments: Swift in
Sources, Gateway and Tests/Tools, and the Python that generates code and docs. With --functions it
prints the Swift functions that are too long, and exits with 1 if there are any."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = ["Sources/*.swift", "Gateway/*.swift", "Tests/Tools/*.swift", "scripts/*.py"]
FUNCTION = re.compile(r"( *)(?:@?[a-z]+(?:\(\w+\))? )*?(func \w+|init|subscript|var \w+)\b")
MOST_LINES = 60
# Long because they list something, a line for each.
TABLES = {"FleetScripts.swift: var source"}


def docstrings(text):
    """Returns the numbers of the lines that docstrings take."""
    lines = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                lines.update(range(value.lineno, value.end_lineno + 1))
    return lines


def code(path):
    """Returns the lines of a file that are code, with their numbers."""
    text = (ROOT / path).read_text()
    is_python = path.endswith(".py")
    skipped = docstrings(text) if is_python else set()
    comment = re.compile(r"\s*(#|$)" if is_python else r"\s*(//|$)")
    return [
        (number, line) for number, line in enumerate(text.splitlines(), 1)
        if number not in skipped and not comment.match(line)]


def long_functions(path):
    """Yields a message for each function of more than MOST_LINES."""
    lines = code(path)
    for start, (number, line) in enumerate(lines):
        if function := FUNCTION.match(line):
            # The first line that is not deeper ends it; a long signature is closed by a parenthesis.
            deeper = (function[1] + " ", function[1] + ")")
            rest = range(start + 1, len(lines))
            end = next((i for i in rest if not lines[i][1].startswith(deeper)), start)
            name = f"{path.split('/')[-1]}: {function[2]}"
            if end - start >= MOST_LINES and name not in TABLES:
                yield f"{path}:{number}: {name} has {end - start + 1} lines, at most {MOST_LINES}"


def main():
    listed = subprocess.run(
        ["git", "ls-files", *WANTED], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [
        path for path in listed.splitlines() if "/Generated/" not in path and ".docc/" not in path]
    if sys.argv[1:] == ["--functions"]:
        swift = (path for path in paths if path.endswith(".swift"))
        sys.exit("\n".join(problem for path in swift for problem in long_functions(path)) or 0)
    folders = Counter()
    for path in paths:
        folders["/".join(path.split("/")[:-1][:3])] += len(code(path))
    for folder, count in sorted(folders.items()):
        print(f"{count:7,}  {folder}")
    print(f"{folders.total():7,}  in all")


if __name__ == "__main__":
    main()
