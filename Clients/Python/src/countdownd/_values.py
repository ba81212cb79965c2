"""Values that are the same in another process, and their text."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

#: What has a text that says all of it.
TEXTS = (
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, uuid.UUID,
    pathlib.PurePath, complex,
)  # fmt: skip


def plain(value: Any) -> Any:
    """Returns JSON that differs for values that differ; TypeError for a value whose text is an
    address in memory, or nothing that lasts."""
    match value:
        case enum.Enum():
            return {type(value).__qualname__: plain(value.value)}
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return {"bytes": bytes(value).hex()}
        case list() | tuple():
            return [plain(one) for one in value]
        case dict():
            pairs = [[plain(name), plain(one)] for name, one in value.items()]
            return {"dict": sorted(pairs, key=json.dumps)}
        case set() | frozenset():
            return {"set": sorted((plain(one) for one in value), key=json.dumps)}
    if isinstance(value, TEXTS):
        return {type(value).__qualname__: str(value)}
    # A model of pydantic.
    if (dump := getattr(value, "model_dump", None)) is not None:
        return {type(value).__qualname__: dump(mode="json")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        return {type(value).__qualname__: fields}
    raise TypeError(f"{type(value).__qualname__} has no value that is the same in each process")


def json_of(value: Any, what: str) -> str:
    """Returns the JSON of a value; TypeError if what is read from it is another one."""
    try:
        text = json.dumps(value, allow_nan=False)
        is_kept = json.loads(text) == value
    except (TypeError, ValueError):
        is_kept = False
    if not is_kept:
        raise TypeError(f"{what} is kept as JSON (text, numbers, lists and dicts), not {value!r}")
    return text
