"""The names of commands, arguments and fields in clients, and which commands clients have."""

import re

# Options that the daemon writes as one word.
WORDS = {
    "READYTITLE": "ready_title", "FADEIN": "fade_in", "FADEOUT": "fade_out",
    "MINFROM": "min_from", "MAXWAIT": "max_wait",
    # The page is an argument of these commands, too.
    "NAV PUSH PAGE": "loads", "NAV PRESENT PAGE": "loads",
}  # fmt: skip

# Arguments without an option, by command, or for all commands.
POSITIONS = {
    "COUNTDOWN RETIME d": "remaining", "TIMER SET d": "after", "TIMER RETIME d": "remaining",
    "DEBOUNCE CALL d": "quiet", "CLOCK ADVANCE d": "duration", "CLOCK SUSPEND d": "duration",
    "CLOCK RESTART d": "away", "CLOCK SET time": "to", "CLOCK REBOOT d": "off", "THROTTLE REFUND n": "amount",
    "HUD STATUS s": "text", "INFO section": "sections",
}  # fmt: skip

# Options that change the form of the reply are not for clients: a view says more.
OMITTED_OPTIONS = {"BRIEF"}

# Commands beside those about entities.
OTHERS = {"EVENTS SINCE", "EVENTS CURSOR", "EVENTS LAST", "PING", "INFO", "METRICS"}

# Methods of the client itself.
ON_CLIENT = {"PING", "INFO", "METRICS"}

METHODS = {"TIMER DEL": "delete"}

KIND_TITLES = {"hud": "HUD", "nav": "Stack"}

# The errors that programs catch by their class.
ERRORS = {
    "ERR": "Invalid", "NOTFOUND": "NotFound", "STALE": "Stale", "LIMIT": "LimitReached",
    "NOPERM": "NotPermitted", "READONLY": "ReadOnly", "DAMAGED": "Damaged", "LOADING": "Loading",
    "UNAVAILABLE": "Unavailable", "UNSURE": "Unsure",
}  # fmt: skip

# Those that are deliberately of the base class: only raw commands cause them.
BASE_ERRORS = {"EXECABORT", "NOPROTO"}


class Argument:
    """An argument of a command, with its name in snake case."""

    def __init__(self, command, schema):
        self.schema = schema
        self.token = schema["token"]
        self.type = schema["type"]
        self.is_required = schema["required"]
        self.repeats = schema["repeats"]
        self.help = schema["help"]
        self.default = schema["default"]
        if self.token:
            plain = WORDS.get(self.token, self.token.lower().replace("-", "_"))
            self.name = WORDS.get(f"{command} {self.token}", plain)
        else:
            name = schema["name"]
            self.name = POSITIONS.get(f"{command} {name}", name).replace("-", "_")
        # The option that can be given in its place.
        self.replaced_by = schema["or"]


class Command:
    """A command that clients have."""

    def __init__(self, schema):
        self.schema = schema
        self.words = schema["name"].split()
        self.group = schema["group"]
        self.summary = schema["summary"]
        self.reply = schema["reply"]
        self.writes = schema["writes"]
        if schema["name"] in ON_CLIENT:
            self.owner, self.method = None, self.words[0].lower()
        else:
            self.owner = self.words[0].lower()
            self.method = METHODS.get(schema["name"], self.words[1].lower())
        self.arguments = [
            Argument(schema["name"], one)
            for one in schema["arguments"]
            if one["token"] not in OMITTED_OPTIONS
        ]
        self.positions = [one for one in self.arguments if not one.token]
        # Positions that repeat come last.
        self.repeated = [one for one in self.positions if one.repeats]
        self.fixed = [one for one in self.positions if one.is_required and not one.repeats]
        self.loose = [one for one in self.positions if not one.is_required and not one.repeats]
        self.options = sorted(
            (one for one in self.arguments if one.token), key=lambda one: not one.is_required)
        self.has_token = any(one.token == "TOKEN" for one in self.arguments)
        self.has_peek = any(one.token == "PEEK" for one in self.arguments)

    @property
    def is_safe(self):
        """Whether the command is repeated without a token if its reply is lost."""
        return self.schema["retry"] == "safe"


def commands(schema):
    kinds = {kind["name"] for kind in schema["kinds"]}
    return [
        Command(one)
        for one in schema["commands"]
        if one["group"] in kinds or one["name"] in OTHERS or one["name"].startswith("CLOCK ")
    ]


def owners(schema):
    """Returns the commands by the object that they are methods of."""
    found = {}
    for command in commands(schema):
        found.setdefault(command.owner, []).append(command)
    return found


def title(kind):
    """Returns the name of a kind in types: Countdown."""
    return KIND_TITLES.get(kind, kind.capitalize())


def fields(kind):
    """Returns the fields of a view: those of replies, then those that only events have."""
    found = {field["name"]: field for field in kind["fields"]}
    for event in kind["events"]:
        for field in event["fields"]:
            found.setdefault(field["name"], {**field, "help": f"In events: {field['help']}"})
    return list(found.values())


def records(kind):
    """Returns the names of the records of a view's lists, with the fields that have them."""
    return {
        pascal(field["of"]["record"]): field
        for field in kind["fields"] if field["type"] == "list" and field["of"]["type"] == "record"
    }


def reply_records(schema):
    """Yields the commands whose reply is a record of its own, with its name."""
    for command in commands(schema):
        if command.reply.get("type") == "record" and command.reply["record"] != "events":
            yield command, pascal(command.reply["record"])


def answer_fields(schema, kind):
    """Returns the fields of answers about several entities at once, beside those of a view."""
    return [
        field
        for command in schema["commands"]
        if command["group"] == kind["name"] and command["reply"]["form"] == "answer"
        for field in command["reply"].get("fields", [])
    ]


def field_name(field):
    """Returns the name of a field without its unit, which its type has: remaining_ms is `left`."""
    name = field["name"]
    if field["type"] == "moment":
        return {"now_unix_ms": "now", "deadline_unix_ms": "deadline"}.get(
            name, name.removesuffix("_unix_ms"))
    if name == "remaining_ms":
        return "remaining_time"
    if field["type"] == "duration":
        return {"rate_ms": "rate_period"}.get(name, re.sub("_(ms|us)$", "", name))
    return name


def several(argument):
    """Returns the name of an argument that repeats, in camel case."""
    return camel(argument.name).removesuffix("s") + "s"


def camel(name):
    head, *rest = re.split("[_-]", name)
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def pascal(name):
    text = camel(name)
    return text[:1].upper() + text[1:]


def sentence(argument):
    """Returns the help of an argument with its default, for a doc comment."""
    text = argument.help
    if argument.default not in (None, ""):
        text += f" Default: {argument.default}."
    if argument.type == "integer" and argument.schema["most"] < 2**53:
        text += f" {argument.schema['least']} to {argument.schema['most']}."
    return text
