"""Errors. A refusal is none: it is an answer."""

from __future__ import annotations

import os
import socket
import stat
from typing import Collection

import redis.exceptions as redis_errors


class CountdowndError(Exception):
    """Any error of this client; `code` is the daemon's, or DOWN or CLOSED."""

    code = "ERR"
    #: What to do about it.
    remedy = ""
    #: Whether the command may have run, though there is no answer.
    may_have_run = False


class Down(CountdowndError):
    """The daemon cannot be reached. Nothing was done."""

    code = "DOWN"


class Closed(CountdowndError):
    """The program has closed the client. A call that was under way then `may_have_run`."""

    code = "CLOSED"

    def __init__(self, text: str = "the client is closed", may_have_run: bool = False) -> None:
        super().__init__(text + (": the command may have run, or not" if may_have_run else ""))
        self.may_have_run = may_have_run


def is_away(error: CountdowndError) -> bool:
    """Whether the daemon cannot be asked, or cannot decide now: it is down, loads, is full or has
    no room on its disk. Other errors are mistakes of the program or its configuration."""
    # A code that this client does not know has no class of its own.
    is_unknown = type(error) is CountdowndError
    return is_unknown or error.code not in ("ERR", "NOTFOUND", "STALE", "NOPERM")


def explain(path: str, error: BaseException) -> str:
    """Says why nobody answers at a socket, and what to check."""
    directory = os.path.dirname(path) or "."
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
    except PermissionError:
        return f"{path}: permission denied; add this user to the group of {directory}"
    except OSError:
        return (
            f"there is no socket at {path}; start countdownd (systemctl status countdownd),"
            " or set COUNTDOWND_SOCKET"
        )
    if not is_socket:
        return f"{path} is not a socket; set COUNTDOWND_SOCKET"
    if not os.access(path, os.W_OK):
        return f"{path}: permission denied; add this user to the group of the socket"
    if isinstance(error, (redis_errors.TimeoutError, socket.timeout)):
        return f"countdownd does not answer at {path} in time; see its log"
    return f"nobody answers at {path} ({error}); is countdownd running? systemctl status countdownd"


def code_of(error: BaseException, known: Collection[str]) -> tuple[str, str]:
    """Returns the code and the text of an error; redis-py cuts some codes off."""
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code, str(error)
    head, _, rest = str(error).partition(" ")
    return (head, rest) if head in known else ("ERR", str(error))


_CLASSES: list[tuple[type[Exception], str]] = [
    (redis_errors.BusyLoadingError, "LOADING"),
    (redis_errors.ReadOnlyError, "READONLY"),
    (redis_errors.NoPermissionError, "NOPERM"),
    (redis_errors.ExecAbortError, "EXECABORT"),
]
