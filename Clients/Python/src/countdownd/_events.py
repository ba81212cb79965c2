"""Events."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Mapping

from ._base import moment, text
from ._views import VIEWS, AnyView, EventViews, Reason

#: The timer that the test fixture sets to see that every watch has seen all events before.
SETTLE = "countdownd:settle"


class Event(EventViews):
    """Something that happened to an entity. `raw` has the fields as they came.

    Its name is one of those in the reference of its kind, or `snapshot`: the state when the watch
    began, or `gap`: events may be missing, so read the state. `countdown` and so on are the status
    of the entity; fields that the event does not have are empty.
    """

    def __init__(self, channel: str, raw: Mapping[str, Any]) -> None:
        self.channel = channel
        self.raw = raw

    @classmethod
    def gap(cls) -> "Event":
        return cls("", {"event": "gap", "key": "", "generation": 0, "seq": 0})

    @property
    def kind(self) -> str:
        return self.channel.partition(":")[0]

    @property
    def name(self) -> str:
        return str(self.raw["event"])

    @property
    def key(self) -> str:
        return text(self.raw, "key") or ""

    @property
    def generation(self) -> int:
        return int(self.raw["generation"])

    @property
    def seq(self) -> int:
        """Rises across the whole daemon and across restarts."""
        return int(self.raw["seq"])

    @property
    def reason(self) -> Reason | None:
        value = self.raw.get("reason")
        return None if value is None else Reason(value)

    @property
    def due(self) -> datetime | None:
        """When it was due, if time has caused it."""
        return moment(self.raw.get("due_unix_ms"))

    @property
    def late(self) -> timedelta | None:
        """How late it is, if time has caused it."""
        value = self.raw.get("late_us")
        return None if value is None else timedelta(microseconds=value)

    @property
    def view(self) -> AnyView:
        """The status of the entity, whatever its kind is."""
        return VIEWS[self.kind](self.raw)

    def __getitem__(self, name: str) -> Any:
        """Returns a field as it came."""
        return self.raw[name]

    def __repr__(self) -> str:
        return f"Event({self.channel} {json.dumps(self.raw)})"
