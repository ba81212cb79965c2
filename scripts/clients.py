#!/usr/bin/env python3
"""Writes what is generated from `countdownctl schema`: `make clients`.

That is parts of the clients and of countdownctl, and the views of the gateway's OpenAPI document.
With --check it only compares. The program is COUNTDOWND's neighbour if that is set, else the debug
build.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import clients.countdownctl  # noqa: E402
import clients.go  # noqa: E402
import clients.openapi  # noqa: E402
import clients.python  # noqa: E402
import clients.swift  # noqa: E402
import clients.typescript  # noqa: E402
from reference import PROJECT, schema  # noqa: E402

LANGUAGES = [
    clients.python, clients.typescript, clients.go, clients.swift, clients.countdownctl,
    clients.openapi]


def main():
    known, stale = schema(), []
    for language in LANGUAGES:
        for path, text in language.write(known, PROJECT).items():
            if path.exists() and path.read_text() == text:
                continue
            stale.append(f"{path.relative_to(PROJECT)} is out of date; run: make clients")
            if sys.argv[1:] != ["--check"]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                print(f"wrote {path.relative_to(PROJECT)}")
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(stale) or 0)


if __name__ == "__main__":
    main()
