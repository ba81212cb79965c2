"""Entities that are due soon, followed by their events: the daemon may not run when one is due."""

from .basics import TOLERANCE, text

# Milliseconds. Such a deadline may pass while the daemon runs, or before it runs again.
SOON = [1, 20, 80, 200]


def is_soon(words):
    return words[2].startswith("d:")


def soon_of(words, view=None):
    """Returns the entity that a command has begun, or may have begun if it was not answered."""
    if words[0] in ("COUNTDOWN", "TIMER"):
        return Repeating(words, view and view["generation"])
    return Passing(words, view)


class Repeating:
    """A countdown or timer, due once or repeatedly, with the progress that its events show."""

    def __init__(self, words, generation, deadline=None, fired=0, passed=0):
        self.words, self.generation, self.deadline = words, generation, deadline
        # How often it has fired, and how many periods have passed.
        self.fired, self.passed = fired, passed
        self.options = dict(zip(words[4::2], words[5::2])) if words[0] == "TIMER" else {}

    @property
    def is_over(self):
        """Whether nothing of it may be left."""
        is_last = self.words[0] == "TIMER" and "EVERY" not in self.options and self.fired == 1
        return is_last or self.generation is None

    def after(self, events):
        """Returns the entity after these events; an assertion fails if they are impossible."""
        new = Repeating(self.words, self.generation, self.deadline, self.fired, self.passed)
        begun = self.deadline is not None
        for event in events:
            if event["event"] in ("started", "set"):
                assert not begun, f"{self.words} was done twice"
                begun = True
                new.deadline = event["deadline_unix_ms"]
                new.generation = new.generation or event["generation"]
            else:
                assert begun, f"{event} before its start"
                new.happen(event)
            assert event["generation"] == new.generation, f"{self.words}: generation {new.generation}, found {event}"
        assert begun or self.generation is None, f"{self.words} was answered, that it has begun is lost"
        return new

    def happen(self, event):
        assert event["event"] in ("ready", "fired") and event["late_us"] >= 0, event
        missed = event.get("missed", 0)
        every = self.options.get("EVERY", 0)
        due = self.deadline + every * (self.passed + (missed if self.options.get("LATE") == "coalesce" else 0))
        assert abs(event["due_unix_ms"] - due) <= TOLERANCE, f"{self.words}: due {due}, found {event}"
        assert self.fired == 0 or every, f"{self.words} has happened twice"
        self.fired += 1
        self.passed += missed + 1
        assert event.get("fired", 1) == self.fired, f"{self.words}: {self.fired} times, found {event}"

    def check(self, view):
        """Checks a view, which was listed before the events were read."""
        if self.is_over:
            assert view is None, f"{self.words} is over or never was, found {view}"
            return
        assert view and view["generation"] == self.generation, f"{self.words}: generation {self.generation}, found {view}"
        if self.words[0] == "COUNTDOWN":
            assert view["state"] == b"ready" and self.fired == 1, f"{self.words} was ready {self.fired} times: {view}"
        else:
            # The timer may have fired again since it was listed.
            assert 1 <= view["fired"] <= self.fired, f"{self.words} has fired {self.fired} times, found {view}"


class Passing:
    """A guard or a HUD: it ends by itself, and is then removed."""

    # The events at the beginning and at the end of each.
    STORIES = {
        ("THROTTLE", "TAKE"): ([], []), ("ONCE", "BEGIN"): (["started"], ["expired"]),
        ("GATE", "CHECK"): (["pending"], ["dismissed"]), ("GATE", "OPEN"): (["opened"], ["closed"]),
        ("DEBOUNCE", "CALL"): ([], ["fired"]),
        ("HUD", "SHOW"): (["will-appear", "did-appear"], ["will-disappear", "did-disappear"]),
    }  # fmt: skip
    is_over = True

    def __init__(self, words, view):
        self.words, self.view = words, view

    def after(self, events):
        begun, over = self.STORIES[self.words[:2]]
        names = [event["event"] for event in events]
        never = self.view is None and not names
        assert never or names == begun + over, f"{self.words}: {names} must be {begun + over}"
        if not names:
            return self
        shown = self.view or events[0]
        for event in events:
            assert event["generation"] == shown["generation"], f"{self.words}: {shown['generation']}, found {event}"
        last = events[len(begun)]
        assert last["late_us"] >= 0, f"{self.words} was early: {last}"
        if deadline := shown.get("deadline_unix_ms"):
            assert abs(last["due_unix_ms"] - deadline) <= TOLERANCE, f"{self.words}: due {deadline}, found {last}"
        for name in {"payload", "action"} & last.keys() & shown.keys():
            assert last[name] == text(shown[name]), f"{self.words}: {shown}, found {last}"
        return self

    def check(self, view):
        assert view is None, f"{self.words} is over or never was, found {view}"
