"""The models of countdowns and plain timers; see `model`.

ATTEMPT and PASS are for keys with a policy; each RETIME changes the remaining time.
"""

from .basics import UNKNOWN, after, error, is_stale, kept, number, view

# The policy in the configuration of the round; no test fills or outlasts its windows.
LADDER = [1, 2, 3]
ATTEMPTS = 3
WINDOW = 1_000
# The number of tokens that a key remembers.
TOKENS = 16

# Countdowns.


def sent_with(old, token):
    """Returns the countdown for the reply to a repetition with this token; None if it is none."""
    if token is None or old is None:
        return None
    if token == old["token"]:
        return old
    for earlier, generation in old["earlier"]:
        if token == earlier:
            # With `on-resend: replace`, earlier codes are no longer valid.
            past = {"code": None, "guessed": guesses(old), "attempts": 0}
            return {**old, **past, "generation": generation}
    return None


def earlier_tokens(old, token):
    if old is None:
        return []
    all = old["earlier"] + ([(old["token"], old["generation"])] if old["token"] is not None else [])
    return all[-(TOKENS - (token is not None)) :]


def start(old, options, moment):
    before = sent_with(old, options.get("TOKEN"))
    if before:
        return old, [], view(before, 1, "repeated")
    if old and old["state"] in ("counting", "paused"):
        return old, [], view(old, 0, "cooldown")
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
        "token": options.get("TOKEN"), "earlier": earlier_tokens(old, options.get("TOKEN")),
        "refunded": False, "guessed": guesses(old) if old else 0,
        "refunds": old["refunds"] if old else 0,
        "policy": policy, "attempts": 0, "code": "good" if policy else None,
    }
    return new, kept(new, ("started", UNKNOWN)), view(new, 1, None)


def guesses(entity):
    """Returns how many guesses at all codes were not given back by PASS."""
    return entity["guessed"] + (0 if entity["code"] == "passed" else entity["attempts"])


def is_known(entity):
    """Returns whether there is something on record that outlives the cooldown and its owner."""
    return entity["policy"] and (entity["sends"] or guesses(entity) or entity["refunds"])


def resend(old, options, moment):
    again = {
        "POLICY": old["policy"], "COUNT": old["count"], "EVERY": old["every"], "FIRE": old["fire"],
        "TITLE": old["title"], "READYTITLE": old["ready_title"], "META": old["meta"],
        "OWNER": old["owner"],
    }
    # The same token of another command is another token.
    if options.get("TOKEN") is not None:
        again["TOKEN"] = ("RESEND", options["TOKEN"])
    return start(old, again, moment)


def cancel(old, options, moment):
    if old is None or old["state"] == "idle":
        return old, [], number(0)
    events = kept(old, ("cancelled", old["generation"]))
    if not is_known(old):
        return None, events, number(1)
    # What was sent, tried and given back is remembered, without an owner.
    return idle(old), events, number(1)


def idle(old):
    return {**old, "state": "idle", "deadline": None, "left": None, "owner": "none"}


def outlives(entity):
    """Returns what survives the owner: of an owned countdown, what its policy has on record."""
    if entity["owner"] == "none":
        return entity
    return idle(entity) if is_known(entity) else None


def pause(old, options, moment):
    if old["state"] == "paused":
        return old, [], view(old)
    if old["state"] != "counting":
        return old, [], error("ERR")
    left = None if old["deadline"] is None else (old["deadline"][0] - moment[1], old["deadline"][1] - moment[0])
    new = {**old, "state": "paused", "deadline": None, "left": left}
    return new, kept(new, ("paused", old["generation"])), view(new)


def resume(old, options, moment):
    if old["state"] == "counting":
        return old, [], view(old)
    if old["state"] != "paused":
        return old, [], error("ERR")
    new = {**old, "state": "counting", "left": None}
    new["deadline"] = (old["left"][0] + moment[0], old["left"][1] + moment[1])
    return new, kept(new, ("resumed", old["generation"])), view(new)


def retime(old, options, moment):
    left = int(options["AFTER"])
    if old["state"] not in ("counting", "paused"):
        return old, [], error("ERR")
    if left == 0:
        new = {**old, "state": "ready", "deadline": moment, "left": None}
        g = old["generation"]
        return new, kept(new, ("retimed", g), ("ready", g)), view(new)
    if old["state"] == "counting":
        new = {**old, "deadline": after(moment, left)}
    else:
        new = {**old, "left": (left, left)}
    return new, kept(new, ("retimed", old["generation"])), view(new)


def refund(old, options, moment):
    if old["refunded"]:
        return old, [], view(old, 1, "repeated")
    new = {**old, "refunded": True, "token": None, "sends": old["sends"] - 1}
    events = [("refunded", old["generation"])]
    if new["policy"]:
        # With `on-resend: replace`, earlier codes are no longer valid anyway.
        new["code"] = "passed" if old["code"] == "passed" else None
        new["refunds"] += 1
    if old["state"] in ("counting", "paused"):
        new |= {"state": "ready", "deadline": moment, "left": None}
        events.append(("ready", old["generation"]))
    events = kept(old, *events)
    if old["state"] == "idle" and not is_known(new):
        # Nothing is left to remember; the reply shows the last state.
        return None, events, view(new, 1, None)
    return new, events, view(new, 1, None)


def attempt(old, options, moment):
    if old["code"] == "passed":
        return old, [], view(old, 0, "passed")
    if old["code"] is None:
        return old, [], view(old, 0, "expired")
    if old["attempts"] == ATTEMPTS:
        return old, [], view(old, 0, "locked")
    new = {**old, "attempts": old["attempts"] + 1}
    events = [("locked", old["generation"])] if new["attempts"] == ATTEMPTS else []
    return new, kept(new, *events), view(new, 1, None)


def pass_(old, options, moment):
    if old["code"] == "passed":
        return old, [], view(old, 1, "repeated")
    if old["code"] is None:
        return old, [], view(old, 0, "expired")
    new = {**old, "code": "passed"}
    return new, kept(new, ("passed", old["generation"])), view(new, 1, None)


# Timers.


def set_(old, options, moment):
    if old and options.get("NX"):
        return old, [], view(old, False, "exists")
    its = {
        "payload": options.get("PAYLOAD"), "owner": options.get("OWNER", "none"),
        "late": options.get("LATE", "fire"),
    }
    period = options.get("EVERY"), options.get("CLOCK", "boot")
    if old and options.get("KEEP") and (old["every"], old["clock"]) == period:
        new = {**old, **its}
        events = [] if new == old else kept(new, ("set", old["generation"]))
        return new, events, view(new, True)
    new = {
        "kind": "timer", "state": "running", "generation": UNKNOWN, "left": None,
        "deadline": after(moment, int(options["AFTER"])),
        "every": period[0], "clock": period[1], "fired": 0, "missed": 0, **its,
    }
    events = kept(old, ("cancelled", old["generation"])) if old else []
    return new, events + kept(new, ("set", UNKNOWN)), view(new, True)


def delete(old, options, moment):
    if old is None:
        return None, [], number(0)
    return None, kept(old, ("cancelled", old["generation"])), number(1)


def change_timer(change):
    """Adapts a handler of countdowns to timers, where `counting` is `running`."""

    def changed(old, options, moment):
        state = "running" if old["state"] == "running" else "counting"
        new, events, reply = change({**old, "state": "counting" if state == "running" else old["state"]}, options, moment)
        new = {**new, "state": "running" if new["state"] == "counting" else new["state"]}
        return new, events, view(new)

    return changed


def on_one_of_this_generation(handler, also_on_none):
    def handle(old, options, moment):
        if old is None and not also_on_none:
            return None, [], error("NOTFOUND")
        return (old, [], error("STALE")) if is_stale(old, options) else handler(old, options, moment)

    return handle


COMMANDS = {
    name: on_one_of_this_generation(handler, also_on_none=name[1] in {"START", "SET", "CANCEL", "DEL"})
    for name, handler in {
        ("COUNTDOWN", "START"): start, ("COUNTDOWN", "RESEND"): resend, ("COUNTDOWN", "CANCEL"): cancel,
        ("COUNTDOWN", "PAUSE"): pause, ("COUNTDOWN", "RESUME"): resume, ("COUNTDOWN", "RETIME"): retime,
        ("COUNTDOWN", "REFUND"): refund, ("COUNTDOWN", "ATTEMPT"): attempt, ("COUNTDOWN", "PASS"): pass_,
        ("TIMER", "SET"): set_, ("TIMER", "DEL"): delete, ("TIMER", "PAUSE"): change_timer(pause),
        ("TIMER", "RESUME"): change_timer(resume), ("TIMER", "RETIME"): change_timer(retime),
    }.items()
}  # fmt: skip


def show_countdown(entity, seen):
    shown = {name: entity[name] for name in ("state", "count", "sends", "meta")}
    shown |= {"every_ms": int(entity["every"]), "title": title(entity, seen["remaining"])}
    if entity["policy"]:
        is_good = entity["code"] == "good"
        shown |= {
            "policy": entity["policy"], "sends_left": WINDOW - entity["sends"],
            "attempts_left": ATTEMPTS - entity["attempts"] if is_good else None,
            "guesses_left": WINDOW - guesses(entity), "refunds_left": WINDOW - entity["refunds"],
        }  # fmt: skip
    return shown


def title(entity, remaining):
    if entity["state"] == "ready":
        return entity["ready_title"]
    if entity["state"] == "idle" or entity["title"] is None:
        return None
    return entity["title"].replace(b"%d", b"%d" % remaining)


def show_timer(entity, seen):
    every = entity["every"]
    shown = {name: entity[name] for name in ("state", "late", "clock", "payload", "fired", "missed")}
    return shown | {"every_ms": None if every is None else int(every)}


SHOWN = {"countdown": show_countdown, "timer": show_timer}
