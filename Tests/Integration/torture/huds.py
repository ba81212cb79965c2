"""The model of HUDs; see `model`.

Fades take no time here, and what does takes hours: so nothing happens by itself but what a command lets happen at once.
"""

from .basics import NULL, UNKNOWN, after, earliest, error, is_stale, latest, minus, plus, view


def show(old, options, moment):
    kind = options.get("KIND", "loading")
    is_loading = kind == "loading"
    owner = options.get("OWNER", "none")
    new = {
        "kind": "hud", "state": "waiting", "generation": UNKNOWN, "owner": owner, "shows": kind,
        "status": options.get("STATUS"), "mask": options.get("MASK", "none"), "fraction": None, "leases": {},
        "grace": int(options.get("GRACE", 0)), "least": int(options.get("MIN", 0)), "most": options.get("MAX"),
        "least_from": options.get("MINFROM", "visible"), "early": options.get("EARLY", "skip"),
        "durable": "DURABLE" in options, "dismissed": None, "dismissed_at": None, "end": None, "paused_at": None,
        "requested_at": moment, "visible_since": moment, "limited_since": moment,
        "deadline": None, "left": None,
    }  # fmt: skip
    events = []
    if old:
        old = unfrozen(old, moment)
        new["state"] = old["state"]
        if is_loading and old["shows"] == kind:
            new["leases"] = dict(old["leases"])
        if old["shows"] == kind:
            new["fraction"] = old["fraction"]
        if old["state"] != "waiting" and old["shows"] == kind:
            new |= {name: old[name] for name in ("requested_at", "visible_since")}
        events.append(("updated", UNKNOWN))
    if is_loading:
        new["leases"][owner] = new["leases"].get(owner, 0) + 1
    settle(new, events, moment)
    return told(old, new, events)


def update(old, options, moment):
    new = dict(old)
    if "FRACTION" in options:
        new["fraction"] = options["FRACTION"]
    if "STATUS" in options:
        new["status"] = options["STATUS"]
    return told(old, new, [("updated", old["generation"])])


def dismiss(old, options, moment):
    new, events = copied(old), []
    end(new, "dismissed", options.get("DELAY"), events, moment)
    return told(old, new, events)


def pop(old, options, moment):
    new, events = copied(old), []
    leases = new["leases"]
    # One's own come first.
    owner = next((owner for owner in ("connection", "none") if leases.get(owner)), None)
    if owner:
        leases[owner] -= 1
        if not any(leases.values()):
            end(new, "dismissed", None, events, moment)
    return told(old, new, events)


def tap(old, options, moment):
    new, events = copied(old), []
    if old["mask"] == "none" and "INSIDE" not in options and old["state"] != "waiting":
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


# Steps.


def copied(old):
    return {**old, "leases": dict(old["leases"])}


def told(old, new, events):
    """The event log has the events of a HUD that was shown with DURABLE, and the one that supersedes it."""
    if not new["durable"]:
        was_durable = old is not None and old["durable"]
        events = [event for event in events if was_durable and event[0] == "updated"]
    if old is not None and timing(old) == timing(new):
        # What is known of these moments by now is more exact.
        new = new if new is old else {**new, "deadline": old["deadline"], "left": old["left"]}
    else:
        moment, paused_at = timing(new)
        new["deadline"] = None if paused_at else moment
        new["left"] = minus(moment, paused_at) if paused_at and moment else None
    return None if new["state"] == "hidden" else new, events, view(new)


def end(hud, why, delay, events, moment):
    """Asks for its end. What is held already stays as it is."""
    if hud["dismissed"] == "held":
        return
    hud["leases"] = {}
    hud["dismissed_at"] = hud["paused_at"] or moment
    if delay:
        hud["dismissed"] = "delayed"
        hud["dismissed_at"] = after(hud["dismissed_at"], int(delay))
        return
    hud["dismissed"], hud["why"] = "held", why
    if hud["state"] == "waiting" and hud["early"] == "skip":
        hud |= {"state": "hidden", "dismissed": None, "end": "never-shown"}
        events.append(("updated", hud["generation"]))
    elif hud["state"] == "waiting":
        hud["state"] = "appearing"
        events.append(("will-appear", hud["generation"]))
    settle(hud, events, moment)


def settle(hud, events, moment):
    """What happens at once, as nothing has to be waited for."""
    while not hud["paused_at"]:
        if hud["state"] == "waiting" and hud["grace"] == 0:
            hud["state"] = "appearing"
            events.append(("will-appear", hud["generation"]))
        elif hud["state"] == "appearing":
            hud |= {"state": "visible", "visible_since": moment, "limited_since": moment}
            events.append(("did-appear", hud["generation"]))
        elif hud["state"] == "visible" and hud["dismissed"] == "held" and hud["least"] == 0:
            hud |= {"state": "hidden", "leases": {}, "dismissed": None, "end": hud["why"]}
            events += [("will-disappear", hud["generation"]), ("did-disappear", hud["generation"])]
        else:
            return


def unfrozen(hud, moment):
    """Time goes on: all moments move by as long as it stood still."""
    new = copied(hud)
    if hud["paused_at"]:
        shift = minus(moment, hud["paused_at"])
        for name in ("requested_at", "visible_since", "limited_since", "dismissed_at"):
            new[name] = hud[name] and plus(hud[name], shift)
        new["paused_at"] = None
    return new


def timing(hud):
    """When it begins to disappear, and since when it is paused."""
    if hud["state"] != "visible":
        return None, hud["paused_at"]
    limit = after(hud["limited_since"], int(hud["most"])) if hud["most"] else None
    if not hud["dismissed"]:
        return limit, hud["paused_at"]
    since = {"visible": "visible_since", "request": "requested_at", "stop": "dismissed_at"}[hud["least_from"]]
    return earliest(latest(hud["dismissed_at"], after(hud[since], hud["least"])), limit), hud["paused_at"]


def outlives(hud):
    if not hud["durable"]:
        return None
    return {**hud, "leases": {"none": hud["leases"].get("none", 0)}}


def shown(hud, seen):
    return {
        "state": hud["state"], "level": "normal", "kind": hud["shows"], "status": hud["status"], "mask": hud["mask"],
        "fraction": hud["fraction"], "leases": sum(hud["leases"].values()),
        "dismissing": int(hud["dismissed"] is not None), "paused": int(hud["paused_at"] is not None),
        "end": hud["end"], "durable": int(hud["durable"]),
    }  # fmt: skip


def on_what_is_shown(handler, else_):
    def handle(old, options, moment):
        if old is None:
            return None, [], else_
        return (old, [], error("STALE")) if is_stale(old, options) else handler(old, options, moment)

    return handle


COMMANDS = {("HUD", "SHOW"): show} | {
    ("HUD", name): on_what_is_shown(handler, NULL if name in ("DISMISS", "POP") else error("NOTFOUND"))
    for name, handler in {
        "PROGRESS": update, "STATUS": update, "DISMISS": dismiss, "POP": pop, "TAP": tap, "PAUSE": pause,
        "RESUME": resume,
    }.items()
}  # fmt: skip
