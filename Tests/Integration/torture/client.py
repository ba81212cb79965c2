"""Clients that load the daemon with random commands, made from a seed."""

import random

from .basics import HOUR
from .peers import Peer, as_view
from .soon import SOON

# Commands that sometimes have a GENERATION.
WITH_GENERATION = {
    "COUNTDOWN": {"CANCEL", "PAUSE", "RESUME", "RETIME", "REFUND", "ATTEMPT", "PASS"},
    "TIMER": {"DEL", "PAUSE", "RESUME", "RETIME"}, "THROTTLE": {"REFUND"}, "ONCE": {"DONE", "CANCEL"},
    "GATE": {"CANCEL", "CLOSE"}, "DEBOUNCE": {"CANCEL", "FLUSH"},
    "HUD": {"PROGRESS", "STATUS", "DISMISS", "POP", "TAP", "PAUSE", "RESUME"},
}  # fmt: skip


def is_owned(words):
    """Returns whether the command's key is always owned by a connection."""
    return words[2].startswith("o:")


class Client(Peer):
    """A client with its own keys."""

    def __init__(self, path, number, life, seed):
        super().__init__(path)
        self.socket.setblocking(False)
        self.name = f"c{number}"
        self.life = life
        self.random = random.Random(f"{seed} {number} {life}")
        self.generations = {}
        self.counted = 0
        self.learned = 0
        self.window = self.random.choice([1, 2, 10, 100, 1000])
        # The places of the commands that were sent while nothing could be stored.
        self.in_trouble = range(0)

    def go_on(self):
        for reply, _ in self.replies[self.learned :]:
            words, _ = self.sent[self.learned]
            self.learned += 1
            if isinstance(reply, list):
                self.generations[words[:1] + words[2:3]] = as_view(reply).get("generation")
        room = self.window - (len(self.sent) - len(self.replies))
        if room > 0 and len(self.output) < 1 << 16:
            for _ in range(self.random.randint(1, min(room, 200))):
                self.send(self.make())

    # Commands.

    def make(self):
        """Returns the next command."""
        choose = self.random
        self.counted += 1
        makers = {
            "k": self.make_countdown, "p": self.make_countdown, "t": self.make_timer, "h": self.make_hud,
            "r": self.make_throttle, "n": self.make_once, "g": self.make_gate, "b": self.make_debounce,
        }  # fmt: skip
        weights = [8, 4, 5, 4, 3, 3, 3, 3, 4, 3]
        kind = choose.choices([*makers, "o", "d"], weights)[0]
        if kind == "d":
            return self.make_due()
        key = f"{kind}:{self.name}:{choose.randrange(12)}"
        words = makers[choose.choice("kthngb") if kind == "o" else kind](key)
        known = self.generations.get(words[:1] + words[2:3])
        must = words[:2] in [("COUNTDOWN", "REFUND"), ("ONCE", "EXTEND")]
        if must or known and words[1] in WITH_GENERATION[words[0]] and choose.random() < 0.2:
            words += ("GENERATION", known or 1)
        return words

    def make_countdown(self, key):
        choose = self.random
        commands = ["START", "RESEND", "CANCEL", "PAUSE", "RESUME", "RETIME", "REFUND"]
        weights = [6, 2, 2, 2, 2, 3, 2]
        if key.startswith("p"):
            commands, weights = commands + ["ATTEMPT", "PASS"], weights + [3, 1]
        command = choose.choices(commands, weights)[0]
        words = ("COUNTDOWN", command, key)
        if command == "RETIME":
            return words + (choose.choice([0, 2 * HOUR + self.counted]),)
        if command == "START":
            if key.startswith("p"):
                words += ("POLICY", "login")
            else:
                words += ("COUNT", choose.randint(2, 5), "EVERY", HOUR) + (("FIRE",) if choose.random() < 0.2 else ())
            words += self.some("TITLE", [b"%ds", b"wait %d\xff", b""]) + self.some("READYTITLE", [b"again", b"\0%"])
            words += self.some("META", [b"m%d" % self.counted, b"x" * choose.randint(0, 1500), b""])
            words += self.owner(key)
        if command in ("START", "RESEND"):
            words += self.some("TOKEN", [b"a", b"b", b"t%d" % self.counted])
        return words

    def make_timer(self, key):
        choose = self.random
        command = choose.choices(["SET", "DEL", "PAUSE", "RESUME", "RETIME"], [6, 2, 2, 2, 2])[0]
        words = ("TIMER", command, key)
        if command == "RETIME":
            return words + (3 * HOUR + self.counted,)
        if command == "SET":
            words += (HOUR + self.counted,) + self.some("EVERY", [HOUR])
            words += self.some("PAYLOAD", [b"p%d" % self.counted, b"\0\r\n"]) + self.some("CLOCK", ["boot", "wall"])
            words += self.some("LATE", ["fire", "skip", "coalesce"]) + self.owner(key)
            words += choose.choices([(), ("KEEP",), ("NX",)], [6, 2, 1])[0]
        return words

    def make_hud(self, key):
        choose = self.random
        commands = ["SHOW", "PROGRESS", "STATUS", "DISMISS", "POP", "TAP", "PAUSE", "RESUME"]
        command = choose.choices(commands, [8, 2, 2, 2, 3, 2, 2, 2])[0]
        words = ("HUD", command, key)
        if command == "PROGRESS":
            words += (choose.choice([b"0.25", b"0.5"]),) + self.some("STATUS", [b"s%d" % self.counted])
        elif command == "STATUS":
            words += (b"s%d" % self.counted,)
        elif command == "DISMISS":
            words += self.some("DELAY", [HOUR + self.counted])
        elif command == "TAP" and choose.random() < 0.2:
            words += ("INSIDE",)
        elif command == "SHOW":
            words += ("FADEIN", 0, "FADEOUT", 0) + self.some("KIND", ["loading", "progress"])
            words += self.some("STATUS", [b"s%d" % self.counted, b"\xe2\x80\xa6"]) + self.some("MASK", ["none", "black", "custom"])
            words += self.some("GRACE", [0, HOUR + self.counted]) + self.some("EARLY", ["skip", "show"])
            words += self.some("MIN", [2 * HOUR + self.counted]) + self.some("MINFROM", ["visible", "appear", "request", "stop"])
            words += self.some("MAX", [3 * HOUR + self.counted]) + self.some("REQUEST", [b"/api/list", b"/api/a"])
            is_durable = not key.startswith("o") and choose.random() < 0.7
            words += ("DURABLE",) if is_durable else self.owner(key)
        return words

    def make_throttle(self, key):
        choose = self.random
        if choose.random() < 0.25:
            return ("THROTTLE", "REFUND", key, choose.randint(1, 5))
        words = ("THROTTLE", "TAKE", key, "BURST", choose.choice([5, 5, 5, 15]))
        words += ("RATE", choose.choice(["20/3000d", "20/3000d", "7/701d"])) + self.some("COST", [1, 2, 3])
        return words + (("PEEK",) if choose.random() < 0.2 else ())

    def make_once(self, key):
        command = self.random.choices(["BEGIN", "DONE", "CANCEL", "EXTEND"], [4, 3, 2, 1])[0]
        words = ("ONCE", command, key)
        if command == "BEGIN":
            words += ("TTL", 2 * HOUR + self.counted) + self.some("LEASE", [HOUR]) + self.owner(key)
            words += self.some("FINGERPRINT", [b"a", b"b"])
        elif command == "EXTEND":
            words += self.some("LEASE", [HOUR + self.counted])
        elif command == "DONE":
            # A result has no owner.
            words = words + (b"\0r%d" % self.counted,) if not is_owned(words) else ("ONCE", "CANCEL", key)
        return words

    def make_gate(self, key):
        command = self.random.choices(["CHECK", "OPEN", "DONE", "CANCEL", "CLOSE"], [6, 3, 2, 1, 2])[0]
        words = ("GATE", command, key)
        if command == "OPEN" and is_owned(words):
            words = ("GATE", "CLOSE", key)
        elif command == "OPEN":
            words += self.some("TTL", [2 * HOUR + self.counted])
        elif command == "CHECK":
            words += (b"a%d" % self.counted, "TTL", HOUR + self.counted) + self.some("PAYLOAD", [b"\0p", b""])
            words += self.owner(key) + (("REQUIRED", "off") if self.random.random() < 0.1 else ())
        return words

    def make_debounce(self, key):
        command = self.random.choices(["CALL", "FLUSH", "CANCEL"], [6, 1, 1])[0]
        words = ("DEBOUNCE", command, key)
        if command == "CALL":
            words += (HOUR + self.counted,) + self.some("PAYLOAD", [b"p%d" % self.counted, b"\0"])
            words += self.some("MAXWAIT", [2 * HOUR + self.counted]) + self.owner(key)
            words += self.random.choice([(), (), ("LEADING",), ("EDGES", "leading")])
        return words

    def make_due(self):
        """Returns a command with a near deadline; its key is never used again."""
        choose = self.random
        key, soon = f"d:{self.name}:{self.life}:{self.counted}", choose.choice(SOON)
        late = choose.choice(["fire", "coalesce"])
        timer = ("TIMER", "SET", key, soon, "LATE", late, "CLOCK", choose.choice(["boot", "wall"]))
        commands = [
            ("COUNTDOWN", "START", key, "COUNT", 1, "EVERY", soon),
            timer + (("EVERY", choose.choice([40, 250])) if choose.random() < 0.2 else ()),
            ("THROTTLE", "TAKE", key, "BURST", 1, "RATE", f"1/{soon}ms"),
            ("ONCE", "BEGIN", key, "TTL", soon),
            ("GATE", "CHECK", key, "buy", "TTL", soon, "PAYLOAD", b"p"),
            ("GATE", "OPEN", key, "TTL", soon),
            ("DEBOUNCE", "CALL", key, soon, "PAYLOAD", b"p%d" % self.counted),
            ("HUD", "SHOW", key, "FADEIN", 0, "FADEOUT", 0, "MAX", soon, "DURABLE"),
        ]  # fmt: skip
        return choose.choices(commands, [6, 6, 1, 1, 1, 1, 1, 1])[0]

    def some(self, name, values):
        return (name, self.random.choice(values)) if self.random.random() < 0.5 else ()

    def owner(self, key):
        if key.startswith("o"):
            return ("OWNER", "connection")
        return self.some("OWNER", ["connection", "none", "none"])
