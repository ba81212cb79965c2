"""What the daemon must have kept: the model that the torture test checks it against.

An entity is a dictionary of what its view shows, and of what only later answers show (its token, whether it was given
back). `apply` says what one command makes of one entity: how it is afterwards, which events tell of it, and what is
answered. It knows no time but for the bounds of a deadline: all deadlines here are hours away. (Those that are near are
counted by `torture.py`.) ATTEMPT and PASS are for keys with a policy; no RETIME leaves what was left anyway.

    entity, events, answer = apply(entity, words, moment)

- `entity` is None if there is none. A field whose value nobody was told is UNKNOWN until the daemon shows it.
- `events` are (name, generation): those that are kept for who was away, in their order.
- `answer` is ("view", fields), ("number", n) or ("error", code).
- `moment` is (from, to) in milliseconds since 1970: between these it was done, if it was.
"""

HOUR = 3_600_000
# As the configuration of the torture test has it; its window is too long for a test to fill or to leave.
LADDER = [1, 2, 3]
ATTEMPTS = 3
WINDOW = 1_000

UNKNOWN = object()
# Clocks are read one after the other, and deadlines rounded up.
TOLERANCE = 5


def apply(entity, words, moment):
    kind, command, key, *rest = words
    options = read_options(command, rest)
    generation = options.get("GENERATION")
    if kind == "TIMER":
        handler = TIMER[command]
    else:
        handler = COUNTDOWN[command]
    missing = {"START", "SET", "CANCEL", "DEL"}
    if entity is None and command not in missing:
        return None, [], ("error", "NOTFOUND")
    if entity is not None and generation is not None and generation != entity["generation"]:
        return entity, [], ("error", "STALE")
    return handler(entity, options, moment)


def read_options(command, rest):
    """Options by name. What stands alone, as the time of SET and RETIME, is under its place."""
    options, rest = {}, list(rest)
    if command in ("SET", "RETIME"):
        options["AFTER"] = rest.pop(0)
    while rest:
        name = rest.pop(0)
        options[name] = True if name == "FIRE" else rest.pop(0)
    return options


def kept(entity, *events):
    """What belongs to a connection leaves no events."""
    return [] if entity["owner"] != "none" else list(events)


def after(moment, milliseconds):
    return (moment[0] + milliseconds, moment[1] + milliseconds)


# Countdowns.


def start(old, options, moment):
    if old and options.get("TOKEN") is not None and options["TOKEN"] == old["token"]:
        return old, [], answer(old, 1, "duplicate")
    if old and old["state"] in ("counting", "paused"):
        return old, [], answer(old, 0, "cooldown")
    sends = old["sends"] + 1 if old else 1
    policy = options.get("POLICY")
    if policy:
        count, every = LADDER[min(sends, len(LADDER)) - 1] * 3600, 1000
    else:
        count, every = int(options.get("COUNT", 60)), int(options.get("EVERY", 1000))
    fire = options.get("FIRE", False)
    new = {
        "kind": "countdown", "state": "counting", "generation": UNKNOWN,
        "deadline": after(moment, (count - fire) * every), "left": None,
        "count": count, "every": every, "fire": fire, "sends": sends,
        "title": options.get("TITLE"), "ready_title": options.get("READYTITLE"),
        "meta": options.get("META"), "owner": options.get("OWNER", "none"),
        "token": options.get("TOKEN"), "refunded": False,
        "policy": policy, "attempts": 0, "code": "good" if policy else None,
    }
    return new, kept(new, ("started", UNKNOWN)), answer(new, 1, None)


def resend(old, options, moment):
    again = {
        "POLICY": old["policy"], "COUNT": old["count"], "EVERY": old["every"], "FIRE": old["fire"],
        "TITLE": old["title"], "READYTITLE": old["ready_title"], "META": old["meta"],
        "OWNER": old["owner"], "TOKEN": options.get("TOKEN"),
    }
    return start(old, again, moment)


def cancel(old, options, moment):
    if old is None or old["state"] == "idle":
        return old, [], ("number", 0)
    events = kept(old, ("cancelled", old["generation"]))
    if not old["sends"] or not old["policy"]:
        return None, events, ("number", 1)
    # What was sent is remembered, and nobody's.
    idle = {**old, "state": "idle", "deadline": None, "left": None, "token": None, "owner": "none"}
    return idle, events, ("number", 1)


def pause(old, options, moment):
    if old["state"] == "paused":
        return old, [], answer(old)
    if old["state"] != "counting":
        return old, [], ("error", "ERR")
    left = None if old["deadline"] is None else (old["deadline"][0] - moment[1], old["deadline"][1] - moment[0])
    new = {**old, "state": "paused", "deadline": None, "left": left}
    return new, kept(new, ("paused", old["generation"])), answer(new)


def resume(old, options, moment):
    if old["state"] == "counting":
        return old, [], answer(old)
    if old["state"] != "paused":
        return old, [], ("error", "ERR")
    new = {**old, "state": "counting", "left": None}
    new["deadline"] = (old["left"][0] + moment[0], old["left"][1] + moment[1])
    return new, kept(new, ("resumed", old["generation"])), answer(new)


def retime(old, options, moment):
    left = int(options["AFTER"])
    if old["state"] not in ("counting", "paused"):
        return old, [], ("error", "ERR")
    if left == 0:
        new = {**old, "state": "ready", "deadline": moment, "left": None}
        g = old["generation"]
        return new, kept(new, ("retimed", g), ("ready", g)), answer(new)
    if old["state"] == "counting":
        new = {**old, "deadline": after(moment, left)}
    else:
        new = {**old, "left": (left, left)}
    return new, kept(new, ("retimed", old["generation"])), answer(new)


def refund(old, options, moment):
    if old["refunded"]:
        return old, [], answer(old, 1, "duplicate")
    new = {**old, "refunded": True, "token": None, "sends": old["sends"] - 1}
    events = [("refunded", old["generation"])]
    if new["policy"]:
        # With `on-resend: replace` the codes before are gone already.
        new["code"] = "passed" if old["code"] == "passed" else None
    if old["state"] in ("counting", "paused"):
        new |= {"state": "ready", "deadline": moment, "left": None}
        events.append(("ready", old["generation"]))
    events = kept(old, *events)
    if old["state"] == "idle" and new["sends"] == 0:
        # Nothing is left that matters: it is told how it was.
        return None, events, answer(new, 1, None)
    return new, events, answer(new, 1, None)


def attempt(old, options, moment):
    if old["code"] == "passed":
        return old, [], answer(old, 0, "passed")
    if old["code"] is None:
        return old, [], answer(old, 0, "expired")
    if old["attempts"] == ATTEMPTS:
        return old, [], answer(old, 0, "locked")
    new = {**old, "attempts": old["attempts"] + 1}
    events = [("locked", old["generation"])] if new["attempts"] == ATTEMPTS else []
    return new, kept(new, *events), answer(new, 1, None)


def pass_(old, options, moment):
    if old["code"] == "passed":
        return old, [], answer(old, 1, "duplicate")
    new = {**old, "code": "passed"}
    return new, kept(new, ("passed", old["generation"])), answer(new, 1, None)


COUNTDOWN = {
    "START": start, "RESEND": resend, "CANCEL": cancel, "PAUSE": pause, "RESUME": resume,
    "RETIME": retime, "REFUND": refund, "ATTEMPT": attempt, "PASS": pass_,
}

# Timers.


def set_(old, options, moment):
    new = {
        "kind": "timer", "state": "running", "generation": UNKNOWN, "left": None,
        "deadline": after(moment, int(options["AFTER"])),
        "every": options.get("EVERY"), "payload": options.get("PAYLOAD"),
        "owner": options.get("OWNER", "none"), "late": options.get("LATE", "fire"),
        "clock": options.get("CLOCK", "boot"), "fired": 0, "missed": 0,
    }
    events = kept(old, ("cancelled", old["generation"])) if old else []
    return new, events + kept(new, ("set", UNKNOWN)), answer(new)


def delete(old, options, moment):
    if old is None:
        return None, [], ("number", 0)
    return None, kept(old, ("cancelled", old["generation"])), ("number", 1)


def change_timer(change):
    """A timer can always be paused, resumed and retimed; where that changes nothing nothing is told."""

    def changed(old, options, moment):
        state = "running" if old["state"] == "running" else "counting"
        new, events, reply = change({**old, "state": "counting" if state == "running" else old["state"]}, options, moment)
        new = {**new, "state": "running" if new["state"] == "counting" else new["state"]}
        return new, events, answer(new)

    return changed


TIMER = {
    "SET": set_, "DEL": delete, "PAUSE": change_timer(pause), "RESUME": change_timer(resume),
    "RETIME": change_timer(retime),
}

# Comparing.


def answer(entity, accepted=None, reason=None):
    fields = {} if accepted is None else {"accepted": accepted, "reason": reason}
    return ("view", (entity, fields))


def outlives(entity):
    """What of it is there after the daemon has ended."""
    return None if entity is None or entity["owner"] != "none" else entity


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
    new = dict(entity)
    if new["generation"] is UNKNOWN:
        new["generation"] = seen["generation"]
    if new["deadline"] is not None and seen["deadline_unix_ms"] is not None:
        new["deadline"] = (seen["deadline_unix_ms"], seen["deadline_unix_ms"])
    if new["left"] is not None:
        new["left"] = (seen["remaining_ms"], seen["remaining_ms"])
    return new


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

    check("state", entity["state"], text(seen["state"]))
    check("generation", entity["generation"], seen["generation"])
    check_within("deadline", entity["deadline"], seen["deadline_unix_ms"])
    if entity["left"] is not None:
        check_within("left", entity["left"], seen["remaining_ms"])
    owner = text(seen["owner"])
    check("owner", entity["owner"], owner.split(":")[0])
    every = entity["every"]
    check("every", None if every is None else int(every), seen["every_ms"])
    if entity["kind"] == "timer":
        for name in ("late", "clock"):
            check(name, entity[name], text(seen[name]))
        for name in ("payload", "fired", "missed"):
            check(name, entity[name], seen[name])
        return found
    for name in ("count", "sends", "meta"):
        check(name, entity[name], seen[name])
    check("policy", entity["policy"], text(seen.get("policy")))
    if entity["policy"]:
        check("sends_left", WINDOW - entity["sends"], seen["sends_left"])
        is_good = entity["code"] == "good"
        check("attempts_left", ATTEMPTS - entity["attempts"] if is_good else None, seen["attempts_left"])
        check("expires", is_good, seen["expires_in_ms"] is not None)
    check("title", title(entity, seen["remaining"]), seen["title"])
    return found


def title(entity, remaining):
    if entity["state"] == "ready":
        return entity["ready_title"]
    if entity["state"] == "idle" or entity["title"] is None:
        return None
    return entity["title"].replace(b"%d", b"%d" % remaining)


def text(value):
    return value.decode() if isinstance(value, bytes) else value
