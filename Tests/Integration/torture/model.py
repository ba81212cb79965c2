"""What the daemon must have kept: the model that the torture test checks it against.

An entity is a dictionary of the fields in its view, and of those that only later answers show (its
token, its refund, the options of a HUD). `apply` returns the effect of one command on one entity:
the entity afterwards, the events and the answer. Time is only the bounds of a deadline: all
deadlines here are hours away. (`soon` follows those that are near.)

    entity, events, answer = apply(entity, words, moment)

- `entity` is None if there is none. A field that no client received is UNKNOWN until a view has it.
- `events` are (name, generation), or (name, generation, fields): those in the event log, in order.
- `answer` is ("view", (entity, fields)), ("number", n), ("null", None) or ("error", code).
- `moment` is (from, to) in milliseconds since 1970: the bounds of when it was executed, if it was.
"""

from . import countdowns, guards, huds
from .basics import ANY, TOLERANCE, UNKNOWN, text

COMMANDS = countdowns.COMMANDS | guards.COMMANDS | huds.COMMANDS
KINDS = ["COUNTDOWN", "TIMER", "HUD", "THROTTLE", "ONCE", "GATE", "DEBOUNCE"]

# The positional argument of commands, and the options without a value.
POSITIONAL = {
    ("COUNTDOWN", "RETIME"): "AFTER", ("TIMER", "SET"): "AFTER", ("TIMER", "RETIME"): "AFTER",
    ("THROTTLE", "REFUND"): "COST", ("ONCE", "DONE"): "RESULT", ("GATE", "CHECK"): "ACTION",
    ("DEBOUNCE", "CALL"): "QUIET", ("HUD", "PROGRESS"): "FRACTION", ("HUD", "STATUS"): "STATUS",
}  # fmt: skip
FLAGS = {"FIRE", "PEEK", "LEADING", "DURABLE", "INSIDE", "KEEP", "NX"}


def apply(entity, words, moment):
    return COMMANDS[words[:2]](entity, read_options(words), moment)


def read_options(words):
    options, rest = {}, list(words[3:])
    if words[:2] in POSITIONAL:
        options[POSITIONAL[words[:2]]] = rest.pop(0)
    while rest:
        name = rest.pop(0)
        options[name] = True if name in FLAGS else rest.pop(0)
    return options


def outlives(entity):
    """Returns what is left of an entity after the daemon has ended."""
    if entity is None:
        return None
    if entity["kind"] == "countdown":
        return countdowns.outlives(entity)
    if entity["kind"] == "hud":
        return huds.outlives(entity)
    return entity if entity["owner"] == "none" else None


# Comparing.


def wrong_answer(expected, reply):
    """Returns the errors in a reply, which is an exception, a number, or a view as a dictionary."""
    kind, what = expected
    if isinstance(reply, Exception):
        return [] if kind == "error" and str(reply).split()[0] == what else [f"expected {expected}, got {reply}"]
    if kind != "view":
        return [] if reply == what else [f"expected {expected}, got {reply}"]
    if not isinstance(reply, dict):
        return [f"expected {expected}, got {reply}"]
    entity, fields = what
    found = differences(entity, reply)
    for name, value in fields.items():
        if text(reply[name]) != value:
            found.append(f"{name}: expected {value!r}, found {reply[name]!r}")
    return found


def learn(entity, seen):
    """Returns the entity with the unknown and inexact fields filled from a view."""
    new = huds.learn(entity, seen) if entity["kind"] == "hud" else dict(entity)
    if new["generation"] is UNKNOWN:
        new["generation"] = seen["generation"]
    if new["deadline"] is not None and deadline(seen) is not None:
        new["deadline"] = (deadline(seen), deadline(seen))
    if new["left"] is not None:
        new["left"] = (seen["remaining_ms"], seen["remaining_ms"])
    return new


def deadline(seen):
    """Returns the deadline in a view; of a throttle, when it is full again."""
    return seen["deadline_unix_ms"] if "deadline_unix_ms" in seen else seen["now_unix_ms"] + seen["reset_after_ms"]


def differences(entity, seen):
    """Returns the differences between a view and the entity; empty if there are none."""
    if entity is None or seen is None:
        return [] if entity is seen else [f"expected {entity}, found {seen}"]
    found = []

    def check(name, expected, actual):
        if expected is not UNKNOWN and expected != actual:
            found.append(f"{name}: expected {expected!r}, found {actual!r}")

    def check_within(name, bounds, actual):
        if bounds is None or actual is None:
            check(name, bounds, actual)
        elif not bounds[0] - TOLERANCE <= actual <= bounds[1] + TOLERANCE:
            found.append(f"{name}: expected {bounds}, found {actual}")

    check("generation", entity["generation"], seen["generation"])
    check("owner", entity["owner"], text(seen.get("owner", b"none")).split(":")[0])
    check_within("deadline", entity["deadline"], deadline(seen))
    if entity["left"] is not None:
        check_within("left", entity["left"], seen["remaining_ms"])
    for name, expected in SHOWN[entity["kind"]](entity, seen).items():
        actual = seen.get(name)
        check(name, expected, text(actual) if isinstance(expected, str) else actual)
    if entity["kind"] == "countdown":
        check("policy", entity["policy"], text(seen.get("policy")))
        if entity["policy"]:
            check("expires", entity["code"] == "good", seen["expires_in_ms"] is not None)
    return found


SHOWN = countdowns.SHOWN | guards.SHOWN | {"hud": huds.shown}
