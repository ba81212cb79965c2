#!/usr/bin/env python3
"""Prints the lines of hand-written code by folder, without blank lines and comments: Swift in
Sources, Gateway and Tests/Tools, and the Python that generates code and docs."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = ["Sources/*.swift", "Gateway/*.swift", "Tests/Tools/*.swift", "scripts/*.py"]


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


def code_lines(path):
    text = (ROOT / path).read_text()
    is_python = path.endswith(".py")
    skipped = docstrings(text) if is_python else set()
    comment = re.compile(r"\s*(#|$)" if is_python else r"\s*(//|$)")
    return sum(
        number not in skipped and not comment.match(line)
        for number, line in enumerate(text.splitlines(), 1))


def main():
    listed = subprocess.run(
        ["git", "ls-files", *WANTED], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folders = Counter()
    for path in listed.splitlines():
        if "/Generated/" not in path and ".docc/" not in path:
            folders["/".join(path.split("/")[:-1][:3])] += code_lines(path)
    for folder, count in sorted(folders.items()):
        print(f"{count:7,}  {folder}")
    print(f"{folders.total():7,}  in all")


if __name__ == "__main__":
    main()
