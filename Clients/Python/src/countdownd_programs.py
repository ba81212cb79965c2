"""The programs that a wheel brings: countdownd and countdownctl are one program with two names.

They start at once, and without redis-py: this module is not part of the client.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

PROGRAM = pathlib.Path(__file__).parent / "countdownd" / "bin" / "countdownd"


def _run(name: str) -> NoReturn:
    if not PROGRAM.exists():
        sys.exit(f"{name}: this installation has no programs; install a wheel made by `make wheel`")
    os.execv(PROGRAM, [name, *sys.argv[1:]])


def countdownd() -> NoReturn:
    _run("countdownd")


def countdownctl() -> NoReturn:
    _run("countdownctl")
