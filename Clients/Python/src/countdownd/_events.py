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
    of the entity; fields that the event does not have are empty. `cursor` is where to continue
    after it, and `attempt` how often a worker has begun to handle it.
    """

    def __init__(self, channel: str, raw: Mapping[str, Any]) -> None:
        self.channel = channel
        self.raw = raw
        #: Where to continue after this event, on any host of a fleet: `since` of `watch`.
        self.cursor = ""
        #: How often a worker has begun to handle it, this time included.
        self.attempt = 1

    @classmethod
    def gap(cls, cursor: str) -> "Event":
        gap = cls("", {"event": "gap", "key": "", "generation": 0, "seq": 0})
        gap.cursor = cursor
        return gap

    @property
    def kind(self) -> str:
        """The kind of its entity, such as `timer`."""
        return self.channel.partition(":")[0]

    @property
    def name(self) -> str:
        """What happened, such as `fired`."""
        return str(self.raw["event"])

    @property
    def key(self) -> str:
        """The key of the entity."""
        return text(self.raw, "key") or ""

    @property
    def generation(self) -> int:
        """The generation of the entity."""
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
        """Why it happened."""
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


class CatchingUp:
    """What a new subscription sends while the events are read that the watch has missed."""

    #: The most events that wait. With more, the watch connects again and reads on.
    MOST = 10_000

    def __init__(self) -> None:
        self.states: list[Event] = []
        self.events: list[Event] = []

    def add(self, event: Event) -> bool:
        """Keeps an event; false if too many wait."""
        (self.states if event.is_state else self.events).append(event)
        return len(self.events) <= self.MOST

    def leave_out(self, page: list[Event]) -> None:
        """Forgets what a page of missed events has too, or something newer than."""
        known = {event.position for event in page}
        both = max((i for i, one in enumerate(self.events) if one.position in known), default=-1)
        self.events = [
            one for i, one in enumerate(self.events)
            if one.position not in known and (i > both or one.name not in ("tick", "progress"))
        ]  # fmt: skip
        newest = {event.channel: event.seq for event in page}
        self.states = [one for one in self.states if newest.get(one.channel, 0) <= one.seq]
