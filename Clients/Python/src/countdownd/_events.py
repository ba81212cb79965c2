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
        #: Where to continue after this event, on any host of a fleet: `since` of `watch`.
        self.cursor = ""

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
    def position(self) -> str:
        """What identifies the event: in a fleet the same on all hosts, else its `seq`."""
        return str(self.raw.get("position") or self.seq)

    @property
    def is_state(self) -> bool:
        """Whether it is no event, but begins or repairs a watch."""
        return self.name in ("snapshot", "gap")

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


class Cursor:
    """Where a watch has read: a cursor of the daemon, and the newest event of each log since then."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._newest: dict[str, str] = {}

    def __str__(self) -> str:
        return "-".join([self._text, *self._newest.values()])

    def __bool__(self) -> bool:
        return bool(self._text)

    def stamp(self, event: Event) -> Event:
        """Continues after an event."""
        if not event.is_state:
            log, dot, _ = event.position.partition(".")
            self._newest[log if dot else ""] = event.position
        event.cursor = str(self)
        return event


def in_order(pushed: list[Event], missed: list[Event], cursor: Cursor) -> list[Event]:
    """Returns each event of a new subscription once: the states, what was missed, and what came
    meanwhile, in part twice.

    `cursor` is the one after `missed`.
    """
    known = {event.position for event in missed if not event.is_state}
    states = [event for event in missed + pushed if event.is_state]
    events = [event for event in missed if not event.is_state]
    pushed = [event for event in pushed if not event.is_state]
    both = max((i for i, event in enumerate(pushed) if event.position in known), default=-1)
    for index, event in enumerate(pushed):
        # Something newer was missed than these.
        is_old = index < both and event.name in ("tick", "progress")
        if cursor.stamp(event).position not in known and not is_old:
            events.append(event)
    return states + events
