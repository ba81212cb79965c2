"""What views, commands and connections share."""

from __future__ import annotations

import base64
import enum
import hashlib
import os
import re
import secrets
from datetime import datetime, timedelta, timezone
from typing import Any, Mapping, Sequence, TypeVar, Union
from urllib.parse import quote

#: A time that passes: a timedelta, or text such as "90s" or "1h30m". Never a number, as nobody
#: could tell seconds from milliseconds.
Duration = Union[timedelta, str]
#: A time: a datetime with its time zone, or text as in ISO 8601: "2026-12-01T08:00:00+01:00".
Moment = Union[datetime, str]
#: A count and a time, such as "5/10m" or (5, timedelta(minutes=10)).
Rate = Union[str, "tuple[int, Duration]"]
#: Data of your own; text is sent as UTF-8.
Data = Union[str, bytes]

DEFAULT_PATH = "/run/countdownd/countdownd.sock"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ZERO = timedelta(0)
T = TypeVar("T")


class OpenEnum(str, enum.Enum):
    """Words of the daemon. One that a newer daemon knows, and this client does not, is kept."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def _missing_(cls, value: object) -> "OpenEnum":
        new = str.__new__(cls, str(value))
        new._name_ = str(value).upper().replace("-", "_")
        new._value_ = str(value)
        return new


class Decision(enum.Enum):
    """The answer to a request."""

    #: Do it.
    ACCEPTED = "accepted"
    #: It was accepted before, with this token: somebody did it or is doing it.
    REPEATED = "repeated"
    #: Do not do it; `reason` says why.
    REFUSED = "refused"


class View:
    """The status of an entity. `raw` has the fields as they came, unknown ones included.

    A field that an event does not have is None, zero, False or "".
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.raw.items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]


class Answer(View):
    """A view, and whether the request was accepted."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Raises: a refused answer, too, would be true."""
        raise TypeError("ask for .accepted, .repeated or .refused of an answer")

    @property
    def decision(self) -> Decision:
        """One of the three, for `match`."""
        raw = self.raw
        if not raw["accepted"]:
            return Decision.REFUSED
        return Decision.REPEATED if raw.get("reason") == "repeated" else Decision.ACCEPTED

    @property
    def accepted(self) -> bool:
        """Whether to do it. Not true for a repetition."""
        raw = self.raw
        return bool(raw["accepted"]) and raw.get("reason") != "repeated"

    @property
    def repeated(self) -> bool:
        """Whether it was accepted before, with this token."""
        return self.raw.get("reason") == "repeated"

    @property
    def refused(self) -> bool:
        """Whether not to do it; `reason` says why."""
        return not self.raw["accepted"]

    @property
    def degraded(self) -> bool:
        """Whether this host alone accepted it, as the fleet's servers cannot be reached."""
        return self.raw.get("reason") == "degraded"


class Page(list[T]):
    """A page of a listing; `cursor` is that of the next page, or 0 after the last one."""

    cursor: int = 0


# MARK: Fields


def data(raw: Mapping[str, Any], name: str) -> bytes | None:
    value = raw.get(name)
    if value is not None:
        return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    coded = raw.get(name + "_base64")
    return None if coded is None else base64.b64decode(coded)


def text(raw: Mapping[str, Any], name: str) -> str | None:
    value: str | None = raw.get(name)
    if value is None and name + "_base64" in raw:
        return base64.b64decode(raw[name + "_base64"]).decode("utf-8", "surrogateescape")
    return value


def span(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


# MARK: Arguments


def duration(value: Duration) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        # Rounded up, so that nothing is early.
        return f"{-(-value // timedelta(milliseconds=1))}ms"
    raise TypeError(f"a duration is a timedelta or text such as '90s', not {value!r}")


UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"


def parsed(value: Duration) -> timedelta:
    """Returns a duration as a timedelta; ValueError if it is none."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a duration is a timedelta or text such as '90s', not {value!r}")
    if not re.fullmatch(f"(?:{PART})+", value):
        raise ValueError(f"a duration is a timedelta or text such as '1h30m', not {value!r}")
    parts = re.findall(PART, value)
    return sum((timedelta(**{UNITS[unit]: float(count)}) for count, unit in parts), ZERO)


def milliseconds(value: Moment) -> str:
    """Returns a time in milliseconds since 1970, rounded up, so that nothing is early."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value[:-1] + "+00:00" if value[-1:] in "Zz" else value)
    if not isinstance(value, datetime):
        raise TypeError(f"a time is a datetime or text as in ISO 8601, not {value!r}")
    if value.tzinfo is None:
        raise ValueError(f"a time needs its time zone, and {value!r} has none")
    return str(-((EPOCH - value) // timedelta(milliseconds=1)))


def rate(value: Rate) -> str:
    return value if isinstance(value, str) else f"{value[0]}/{duration(value[1])}"


def check_lease(lease: Duration, ttl: Duration) -> None:
    """Raises ValueError for a lease of no time, or of more than the TTL."""
    if not parsed(ttl) >= parsed(lease) > ZERO:
        raise ValueError(f"lease is at most ttl ({ttl}), and more than nothing, not {lease}")


def checked_rate(value: Rate) -> Rate:
    """Returns a rate; ValueError if it is none."""
    if isinstance(value, str):
        count, _, time = value.partition("/")
    else:
        count, time = str(value[0]), duration(value[1])
    if not count.isdecimal() or int(count) < 1:
        raise ValueError(f"a rate is a count and a time, such as '5/10m', not {value!r}")
    parsed(time)
    return value


def several(values: Sequence[str]) -> Sequence[str]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"a list of texts, such as [{values!r}], not one text")
    return values


def key_of(*parts: str) -> str:
    """Returns a key of parts, in which only the last one has colons of its own."""
    key = ":".join([*(quote(part, safe=" /.<>") for part in parts[:-1]), parts[-1]])
    # The longest key of the daemon.
    if len(key.encode("utf-8", "surrogateescape")) <= 512:
        return key
    return f"{quote(parts[0])}:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


# MARK: Tokens

_counter = 0
_prefix = ""


def _new_prefix() -> None:
    global _prefix
    _prefix = secrets.token_hex(8) + "-"


_new_prefix()
os.register_at_fork(after_in_child=_new_prefix)


def new_token() -> str:
    """Returns a token that no other call has."""
    global _counter
    _counter += 1
    return f"{_prefix}{_counter}"


def socket_path() -> str:
    return os.environ.get("COUNTDOWND_SOCKET") or DEFAULT_PATH
