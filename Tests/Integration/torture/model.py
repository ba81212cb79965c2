"""What the daemon must have kept: the model that the torture test checks it against.

An entity is a dictionary of what its view shows, and of what only later answers show (its token, whether it was given
back, what a HUD was asked for). `apply` says what one command makes of one entity: how it is afterwards, which events
tell of it, and what is answered. It knows no time but for the bounds of a deadline: all deadlines here are hours away.
(Those that are near are counted by `soon`.)

    entity, events, answer = apply(entity, words, moment)

- `entity` is None if there is none. A field whose value nobody was told is UNKNOWN until the daemon shows it.
- `events` are (name, generation), or (name, generation, fields): those that are kept for who was away, in their order.
- `answer` is ("view", (entity, fields)), ("number", n), ("null", None) or ("error", code).
- `moment` is (from, to) in milliseconds since 1970: between these it was done, if it was.
"""

from . import countdowns, guards, huds
from .basics import ANY, TOLERANCE, UNKNOWN, text

COMMANDS = countdowns.COMMANDS | guards.COMMANDS | huds.COMMANDS
KINDS = ["COUNTDOWN", "TIMER", "HUD", "THROTTLE", "ONCE", "GATE", "DEBOUNCE"]

# What commands take before their options, and which options have no value.
POSITIONAL = {
    ("COUNTDOWN", "RETIME"): "AFTER", ("TIMER", "SET"): "AFTER", ("TIMER", "RETIME"): "AFTER",
    ("THROTTLE", "REFUND"): "COST", ("ONCE", "DONE"): "RESULT", ("GATE", "CHECK"): "ACTION",
    ("DEBOUNCE", "CALL"): "QUIET", ("HUD", "PROGRESS"): "FRACTION", ("HUD", "STATUS"): "STATUS",
}  # fmt: skip
FLAGS = {"FIRE", "PEEK", "LEADING", "DURABLE", "INSIDE"}


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
    """What of it is there after the daemon has ended."""
    if entity is None:
        return None
    if entity["kind"] == "countdown":
        return countdowns.outlives(entity)
    if entity["kind"] == "hud":
        return huds.outlives(entity)
    return entity if entity["owner"] == "none" else None


# Comparing.


def wrong_answer(expected, reply):
    """What is wrong about a reply, which is an exception, a number, or a view as a dictionary."""
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
    """The entity with what was not known before, or only within bounds, as a view shows it."""
    new = huds.learn(entity, seen) if entity["kind"] == "hud" else dict(entity)
    if new["generation"] is UNKNOWN:
        new["generation"] = seen["generation"]
    if new["deadline"] is not None and deadline(seen) is not None:
        new["deadline"] = (deadline(seen), deadline(seen))
    if new["left"] is not None:
        new["left"] = (seen["remaining_ms"], seen["remaining_ms"])
    return new


def deadline(seen):
    """Of a throttle, when all of it is there again."""
    return seen["deadline_unix_ms"] if "deadline_unix_ms" in seen else seen["now_unix_ms"] + seen["reset_after_ms"]


def differences(entity, seen):
    """What a view shows otherwise than it must; empty if nothing."""
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
