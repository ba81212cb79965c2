"""What all models share: see `model`."""

HOUR = 3_600_000
UNKNOWN = object()
# Any new generation: no client received it, and it is not learned.
ANY = object()
# Milliseconds: clocks are read one after the other, and deadlines are rounded up.
TOLERANCE = 5


def after(moment, milliseconds):
    return (moment[0] + milliseconds, moment[1] + milliseconds)


def earliest(a, b):
    """Returns the earlier of two moments, each with bounds (from, to); None means never."""
    if a is None or b is None:
        return a or b
    return (min(a[0], b[0]), min(a[1], b[1]))


def latest(a, b):
    return (max(a[0], b[0]), max(a[1], b[1]))


def minus(a, b):
    return (a[0] - b[1], a[1] - b[0])


def plus(a, b):
    return (a[0] + b[0], a[1] + b[1])


def kept(entity, *events):
    """Returns the events for the event log: none if a connection owns the entity."""
    return [] if entity["owner"] != "none" else list(events)


# Answers.


def view(entity, accepted=None, reason=None):
    fields = {} if accepted is None else {"accepted": int(accepted), "reason": reason}
    return ("view", (entity, fields))


def number(value):
    return ("number", value)


NULL = ("null", None)


def error(code):
    return ("error", code)


def is_stale(entity, options):
    return entity is not None and options.get("GENERATION") not in (None, entity["generation"])


def text(value):
    return value.decode() if isinstance(value, bytes) else value
