"""The model of HUDs; see `model`.

Fades take no time here and other times are zero or hours, so a HUD changes only with a command.

`shows` are the holds, oldest first; or, if not `held`, the one thing that is shown without a hold.
"""

from .basics import NULL, UNKNOWN, after, earliest, error, is_stale, latest, minus, plus, text, view

MASKS = ["none", "clear", "black", "gradient", "custom"]


def show(old, options, moment):
    shown = {
        "generation": UNKNOWN, "owner": options.get("OWNER", "none"), "kind": options.get("KIND", "loading"),
        "status": options.get("STATUS"), "mask": options.get("MASK", "none"), "fraction": None,
        "request": options.get("REQUEST"), "grace": int(options.get("GRACE", 0)), "least": int(options.get("MIN", 0)),
        "most": options.get("MAX"), "least_from": options.get("MINFROM", "visible"),
        "early": options.get("EARLY", "skip"), "durable": "DURABLE" in options, "since": moment,
    }  # fmt: skip
    # All kinds that are used here take a hold.
    new = {
        "kind": "hud", "state": "waiting", "generation": UNKNOWN, "held": True, "shows": [shown],
        "dismissed": None, "dismissed_at": None, "end": None, "paused_at": None,
        "requested_at": moment, "appeared_at": moment, "visible_since": moment,
    }  # fmt: skip
    events = []
    if old:
        old = unfrozen(old, moment)
        new["state"] = old["state"]
        is_same_kind = front(old)["kind"] == shown["kind"]
        if is_same_kind:
            shown["fraction"] = front(old)["fraction"]
        if old["held"]:
            new["shows"] = old["shows"] + [shown]
        if old["held"] if old["state"] == "waiting" else is_same_kind:
            new |= {name: old[name] for name in ("requested_at", "appeared_at", "visible_since")}
        events.append(("updated", UNKNOWN))
    settle(new, events, moment)
    return told(old, new, events)


def update(old, options, moment):
    new = copied(old)
    named = named_by(new, options) or front(new)
    for name in ("FRACTION", "STATUS"):
        if name in options:
            named[name.lower()] = options[name]
    return told(old, new, [("updated", old["generation"])])


def dismiss(old, options, moment):
    new, events = copied(old), []
    end(new, "dismissed", options.get("DELAY"), events, moment)
    return told(old, new, events)


def pop(old, options, moment):
    new, events = copied(old), []
    named = named_by(new, options)
    holds = [hold for hold in new["shows"] if new["held"] and named in (None, hold)]
    # Holds of the connection come first.
    for owner in ("connection", "none"):
        mine = [hold for hold in holds if hold["owner"] == owner]
        if mine and len(new["shows"]) == 1:
            end(new, "dismissed", None, events, moment)
        elif mine:
            new["shows"] = [hold for hold in new["shows"] if hold is not mine[-1]]
            events.append(("updated", old["generation"]))
        if mine:
            break
    return told(old, new, events)


def tap(old, options, moment):
    new, events = copied(old), []
    if mask(old) == "none" and "INSIDE" not in options and old["state"] != "waiting":
        end(new, "tapped", None, events, moment)
    return told(old, new, events)


def pause(old, options, moment):
    if old["paused_at"]:
        return told(old, old, [])
    return told(old, {**old, "paused_at": moment}, [("paused", old["generation"])])


def resume(old, options, moment):
    if not old["paused_at"]:
        return told(old, old, [])
    new, events = unfrozen(old, moment), [("resumed", old["generation"])]
    settle(new, events, moment)
    return told(old, new, events)


# Properties.


def front(hud):
    return hud["shows"][-1]


def mask(hud):
    return max((show["mask"] for show in hud["shows"]), key=MASKS.index)


def grace(hud):
    return min(show["grace"] for show in hud["shows"])


def is_durable(hud):
    return any(show["durable"] for show in hud["shows"])


def named_by(hud, options):
    """Returns the hold whose generation a command names, or None."""
    generation = options.get("GENERATION")
    return next((show for show in hud["shows"] if generation is not None and show["generation"] == generation), None)


# Steps.


def copied(old):
    return {**old, "shows": [dict(show) for show in old["shows"]]}


def told(old, new, events):
    """Returns the result, with events only of a durable HUD or of the update that replaces one."""
    if not is_durable(new):
        was_durable = old is not None and is_durable(old)
        events = [event for event in events if was_durable and event[0] == "updated"]
    new = {**new, "owner": front(new)["owner"], "durable": is_durable(new)}
    if old is not None and timing(old) == timing(new):
        # The old bounds are more exact.
        new |= {"deadline": old["deadline"], "left": old["left"]}
    else:
        moment, paused_at = timing(new)
        new["deadline"] = None if paused_at else moment
        new["left"] = minus(moment, paused_at) if paused_at and moment else None
    return None if new["state"] == "hidden" else new, events, view(new)


def end(hud, why, delay, events, moment):
    """Dismisses the HUD, at once or after `delay`, unless it is being dismissed already."""
    if hud["dismissed"] == "held":
        return
    drop_holds(hud)
    hud["dismissed_at"] = hud["paused_at"] or moment
    if delay:
        hud["dismissed"] = "delayed"
        hud["dismissed_at"] = after(hud["dismissed_at"], int(delay))
        return
    hud["dismissed"], hud["why"] = "held", why
    if hud["state"] == "waiting" and front(hud)["early"] == "skip":
        hud |= {"state": "hidden", "dismissed": None, "end": "never-shown"}
        events.append(("did-disappear", hud["generation"]))
    elif hud["state"] == "waiting":
        hud |= {"state": "appearing", "appeared_at": hud["paused_at"] or moment}
        events.append(("will-appear", hud["generation"]))
    settle(hud, events, moment)


def drop_holds(hud):
    """Drops all holds; what is shown does not change."""
    left = {**front(hud), "mask": mask(hud), "grace": grace(hud), "durable": is_durable(hud)}
    hud |= {"shows": [left], "held": False}


def settle(hud, events, moment):
    """Takes all steps that need not wait."""
    while not hud["paused_at"]:
        if hud["state"] == "waiting" and grace(hud) == 0:
            hud["state"] = "appearing"
            hud["appeared_at"] = moment
            events.append(("will-appear", hud["generation"]))
        elif hud["state"] == "appearing":
            hud |= {"state": "visible", "visible_since": moment}
            hud["shows"] = [{**show, "since": moment} for show in hud["shows"]]
            events.append(("did-appear", hud["generation"]))
        elif hud["state"] == "visible" and hud["dismissed"] == "held" and front(hud)["least"] == 0:
            drop_holds(hud)
            hud |= {"state": "hidden", "dismissed": None, "end": hud["why"]}
            events += [("will-disappear", hud["generation"]), ("did-disappear", hud["generation"])]
        else:
            return


def unfrozen(hud, moment):
    """Returns the HUD after its pause: all its moments move by the length of the pause."""
    new = copied(hud)
    if hud["paused_at"]:
        shift = minus(moment, hud["paused_at"])
        for name in ("requested_at", "appeared_at", "visible_since", "dismissed_at"):
            new[name] = hud[name] and plus(hud[name], shift)
        for show in new["shows"]:
            show["since"] = plus(show["since"], shift)
        new["paused_at"] = None
        new |= {"deadline": timing(new)[0], "left": None}
    return new


def timing(hud):
    """Returns when the HUD begins to disappear, and since when it is paused; each may be None."""
    if hud["state"] != "visible":
        return None, hud["paused_at"]
    limits = [after(show["since"], int(show["most"])) if show["most"] else None for show in hud["shows"]]
    limit = None
    if None not in limits:
        limit = limits[0]
        for other in limits[1:]:
            limit = latest(limit, other)
    if not hud["dismissed"]:
        return limit, hud["paused_at"]
    since = {
        "visible": "visible_since", "appear": "appeared_at", "request": "requested_at", "stop": "dismissed_at",
    }[front(hud)["least_from"]]  # fmt: skip
    least = front(hud)["least"]
    release = latest(hud["dismissed_at"], after(hud[since], least)) if least else hud["dismissed_at"]
    return earliest(release, limit), hud["paused_at"]


def outlives(hud):
    """Returns the HUD with its durable holds, without owners; None if there are none."""
    shows = [{**show, "owner": "none"} for show in hud["shows"] if show["durable"]]
    if not shows:
        return None
    _, _, (_, (new, _)) = told(None, {**hud, "shows": shows, "generation": shows[-1]["generation"]}, [])
    if timing(new) == timing(hud):
        new |= {"deadline": hud["deadline"], "left": hud["left"]}
    return new


def learn(hud, seen):
    """Returns the HUD with the generations of its holds from a view."""
    holds = holds_of(seen)
    if not hud["held"]:
        return {**hud, "shows": [{**front(hud), "generation": learned(front(hud), seen)}]}
    shows = [{**show, "generation": learned(show, hold)} for show, hold in zip(hud["shows"], holds)]
    return {**hud, "shows": shows}


def learned(show, seen):
    return seen["generation"] if show["generation"] is UNKNOWN else show["generation"]


def holds_of(seen):
    """Returns the holds in a view of either version of the protocol."""
    pairs = [dict(zip(hold[::2], hold[1::2])) if isinstance(hold, list) else hold for hold in seen["holds"]]
    return [{text(name): value for name, value in hold.items()} for hold in pairs]


def shown(hud, seen):
    found = {
        "state": hud["state"], "level": "normal", "kind": front(hud)["kind"], "status": front(hud)["status"],
        "mask": mask(hud), "fraction": front(hud)["fraction"], "leases": len(hud["shows"]) if hud["held"] else 0,
        "dismissing": int(hud["dismissed"] is not None), "paused": int(hud["paused_at"] is not None),
        "end": hud["end"], "durable": int(is_durable(hud)),
    }  # fmt: skip
    holds = [listed(show, hold) for show, hold in zip(hud["shows"], holds_of(seen))]
    if holds != [as_text(hold) for hold in holds_of(seen)]:
        found["holds"] = holds
    return found


def listed(show, seen):
    """A hold as the daemon lists it. If no client received its generation, the listed one is used."""
    return {
        "generation": learned(show, seen), "kind": show["kind"], "status": text(show["status"]),
        "mask": show["mask"], "fraction": text(show["fraction"]), "request": text(show["request"]),
        "grace_ms": show["grace"], "max_ms": show["most"] and int(show["most"]), "owner": show["owner"],
        "durable": int(show["durable"]),
    }  # fmt: skip


def as_text(hold):
    hold = {name: text(value) for name, value in hold.items()}
    return {**hold, "owner": hold["owner"].split(":")[0]}


def on_what_is_shown(handler, else_, names_hold):
    def handle(old, options, moment):
        if old is None:
            return None, [], else_
        if names_hold and "GENERATION" in options:
            is_old = named_by(old, options) is None
        else:
            is_old = is_stale(old, options)
        return (old, [], error("STALE")) if is_old else handler(old, options, moment)

    return handle


COMMANDS = {("HUD", "SHOW"): show} | {
    ("HUD", name): on_what_is_shown(
        handler, NULL if name in ("DISMISS", "POP") else error("NOTFOUND"), name in ("PROGRESS", "STATUS", "POP")
    )
    for name, handler in {
        "PROGRESS": update, "STATUS": update, "DISMISS": dismiss, "POP": pop, "TAP": tap, "PAUSE": pause,
        "RESUME": resume,
    }.items()
}  # fmt: skip
