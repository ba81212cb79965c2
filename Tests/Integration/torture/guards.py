"""The models of guards: throttles, onces, gates and debounced calls; see `model`.

Throttles refill so slowly that none does during a round: the model counts whole uses. The moment at
which a throttle is full again is nevertheless checked to the millisecond.
"""

from .basics import ANY, NULL, UNKNOWN, after, earliest, error, is_stale, kept, minus, number, plus, view

DAY = 86_400_000


def take_out(old, options, event):
    """Ends an entity, as CANCEL does."""
    if is_stale(old, options):
        return old, [], error("STALE")
    return None, kept(old, (event, old["generation"])), number(1)


# Throttles.


def unused(rate, moment):
    return {
        "kind": "throttle", "generation": UNKNOWN, "owner": "none", "deadline": moment, "left": None,
        "rate": rate, "used": 0,
    }  # fmt: skip


def read_rate(options):
    """Returns BURST, and how many uses come back in how many milliseconds."""
    count, days = options["RATE"].removesuffix("d").split("/")
    return int(options["BURST"]), int(count), int(days) * DAY


def milliseconds_of_one(rate):
    return rate[2] / rate[1]


def changed(old, rate, moment):
    """Changes the rate: uses stay used, and come back at the new rate."""
    burst, one = rate[0], milliseconds_of_one(rate)
    used = minus(old["deadline"], moment)
    used = tuple(min(part / milliseconds_of_one(old["rate"]), burst) * one for part in used)
    return {**old, "rate": rate, "used": min(old["used"], burst), "deadline": plus(moment, used)}


def take(old, options, moment):
    rate, cost = read_rate(options), int(options.get("COST", 1))
    if old is None:
        asked = unused(rate, moment)
    elif old["rate"] == rate:
        asked = dict(old)
    else:
        asked = changed(old, rate, moment)
    accepted = asked["used"] + cost <= rate[0]
    if "PEEK" in options or not accepted:
        # Nothing changes, whatever the view shows. A rate that is not accepted has no say in when
        # everything comes back.
        generation = old["generation"] if old else 0
        if not accepted and old:
            asked["deadline"] = old["deadline"]
        return old, [], view({**asked, "generation": generation}, accepted, None if accepted else "rate")
    asked["used"] += cost
    asked["deadline"] = after(asked["deadline"], cost * milliseconds_of_one(rate))
    return asked, [], view(asked, 1, None)


def refund(old, options, moment):
    if old is None:
        return None, [], NULL
    if is_stale(old, options):
        return old, [], error("STALE")
    count = int(options["COST"])
    if old["used"] <= count:
        return None, [], view({**old, "used": 0, "deadline": moment}, 1, None)
    new = {**old, "used": old["used"] - count}
    new["deadline"] = after(old["deadline"], -count * milliseconds_of_one(old["rate"]))
    return new, [], view(new, 1, None)


def show_throttle(throttle, seen):
    burst, count, period = throttle["rate"]
    state = "available" if throttle["used"] < burst else "exhausted"
    return {
        "state": state if throttle["used"] else "idle", "limit": burst, "remaining": burst - throttle["used"],
        "rate_count": count, "rate_ms": period,
    }  # fmt: skip


# Onces.


def begin(old, options, moment):
    about = options.get("FINGERPRINT")
    if old:
        is_other = None not in (about, old["about"]) and about != old["about"]
        shown = {**old, "result": None} if is_other else old
        return old, [], view(shown, 0, "mismatch" if is_other else "duplicate")
    new = {
        "kind": "once", "state": "running", "generation": UNKNOWN, "owner": options.get("OWNER", "none"),
        "deadline": after(moment, int(options["TTL"])), "left": None, "result": None,
        "about": about, "leased": "LEASE" in options,
    }  # fmt: skip
    return new, kept(new, ("started", UNKNOWN)), view(new, 1, None)


def needs_generation(old, options):
    return old["leased"] and "GENERATION" not in options


def extend(old, options, moment):
    if old is None:
        return None, [], error("NOTFOUND")
    if is_stale(old, options):
        return old, [], error("STALE")
    if not old["leased"]:
        return old, [], error("ERR")
    return old, [], view(old, *((0, "duplicate") if old["state"] == "done" else (1, None)))


def done(old, options, moment):
    if old is None:
        return None, [], error("NOTFOUND")
    if needs_generation(old, options):
        return old, [], error("ERR")
    if is_stale(old, options):
        return old, [], error("STALE")
    if old["state"] == "done":
        return old, [], view(old, 0, "duplicate")
    # A result has no owner.
    new = {**old, "state": "done", "result": options["RESULT"], "owner": "none"}
    return new, [("done", old["generation"])], view(new, 1, None)


def cancel(old, options, moment):
    return take_out(old, options, "cancelled") if old else (None, [], number(0))


def cancel_once(old, options, moment):
    if old and needs_generation(old, options):
        return old, [], error("ERR")
    return cancel(old, options, moment)


# Gates.


def closed(session):
    return {**session, "state": "closed", "deadline": None, "left": None, "action": None, "payload": None}


def check(old, options, moment):
    if old and (old["state"] == "open" or options.get("REQUIRED") == "off"):
        return old, [], view(old, 1, None)
    if options.get("REQUIRED") == "off":
        return None, [], view(closed({"kind": "gate", "generation": 0, "owner": "none"}), 1, None)
    new = {
        "kind": "gate", "state": "pending", "generation": UNKNOWN, "owner": options.get("OWNER", "none"),
        "deadline": after(moment, int(options["TTL"])), "left": None,
        "action": options["ACTION"], "payload": options.get("PAYLOAD"),
    }  # fmt: skip
    events = kept(old, ("dismissed", old["generation"], action_of(old))) if old else []
    return new, events + kept(new, ("pending", UNKNOWN, action_of(new))), view(new, 0, "login")


def action_of(gate):
    payload = gate["payload"]
    return {"action": gate["action"].decode(), "payload": None if payload is None else payload.decode()}


def open_(old, options, moment):
    # A gate with a waiting action keeps its generation.
    waits = old if old and old["action"] is not None else None
    new = {
        "kind": "gate", "state": "open", "generation": waits["generation"] if waits else UNKNOWN, "owner": "none",
        "deadline": after(moment, int(options["TTL"])) if "TTL" in options else None, "left": None,
        "action": waits and waits["action"], "payload": waits and waits["payload"],
    }  # fmt: skip
    generation = ANY if waits and new["generation"] is UNKNOWN else new["generation"]
    events = [("opened", generation)]
    if old and old["state"] == "pending":
        events.append(("run", generation, action_of(old)))
    return new, events, view(new)


def action_done(old, options, moment):
    if old is None or old["state"] != "open" or old["action"] is None:
        return old, [], number(0)
    if is_stale(old, options):
        return old, [], error("STALE")
    return {**old, "action": None, "payload": None}, [("done", old["generation"], action_of(old))], number(1)


def cancel_action(old, options, moment):
    if old is None or old["state"] == "open":
        return old, [], number(0)
    return take_out(old, options, "dismissed")


def close(old, options, moment):
    if old is None or old["state"] != "open":
        return old, [], number(0)
    new, events, reply = take_out(old, options, "closed")
    if new is None and old["action"] is not None:
        events = [("dismissed", old["generation"], action_of(old))] + events
    return new, events, reply


# Debounced calls.


def call(old, options, moment):
    payload, is_first = options.get("PAYLOAD"), old is None
    edges = "both" if "LEADING" in options else options.get("EDGES", "trailing")
    new = {
        "kind": "debounce", "state": "waiting", "generation": old["generation"] if old else UNKNOWN,
        "owner": options.get("OWNER", "none"), "left": None, "payload": payload,
        "quiet": int(options["QUIET"]), "most": int(options["MAXWAIT"]) if "MAXWAIT" in options else None,
        "edges": edges,
        "calls": old["calls"] + 1 if old else 1,
        "since": old["since"] if old and old["since"] else moment,
    }  # fmt: skip
    new["deadline"] = after(moment, new["quiet"])
    if edges != "trailing" and (is_first or edges == "leading"):
        # On the leading edge alone, later calls are dropped.
        events = kept(new, ("fired", UNKNOWN, firing(new, "leading"))) if is_first else []
        new |= {"state": "resting", "calls": 0, "since": None, "payload": None}
        return new, events, view(new, 1, None)
    if new["most"] is not None:
        new["deadline"] = earliest(new["deadline"], after(new["since"], new["most"]))
    return new, [], view(new, 1, None)


def firing(debounce, reason):
    payload = debounce["payload"]
    return {
        "reason": reason, "calls": debounce["calls"], "payload": None if payload is None else payload.decode(),
    }  # fmt: skip


def flush(old, options, moment):
    if old is None:
        return None, [], number(0)
    if is_stale(old, options):
        return old, [], error("STALE")
    if old["state"] == "resting":
        return old, [], number(0)
    return None, kept(old, ("fired", old["generation"], firing(old, "flush"))), number(1)


# All guards.

COMMANDS = {
    ("THROTTLE", "TAKE"): take, ("THROTTLE", "REFUND"): refund,
    ("ONCE", "BEGIN"): begin, ("ONCE", "DONE"): done, ("ONCE", "CANCEL"): cancel_once,
    ("ONCE", "EXTEND"): extend,
    ("GATE", "CHECK"): check, ("GATE", "OPEN"): open_, ("GATE", "DONE"): action_done,
    ("GATE", "CANCEL"): cancel_action, ("GATE", "CLOSE"): close,
    ("DEBOUNCE", "CALL"): call, ("DEBOUNCE", "CANCEL"): cancel, ("DEBOUNCE", "FLUSH"): flush,
}  # fmt: skip

SHOWN = {
    "throttle": show_throttle,
    "once": lambda once, seen: {name: once[name] for name in ("state", "result")},
    "gate": lambda gate, seen: {name: gate[name] for name in ("state", "action", "payload")},
    "debounce": lambda debounce, seen: {
        "state": debounce["state"], "calls": debounce["calls"], "quiet_ms": debounce["quiet"],
        "max_wait_ms": debounce["most"], "edges": debounce["edges"], "payload": debounce["payload"],
    },
}  # fmt: skip
