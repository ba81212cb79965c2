#!/usr/bin/env python3
"""Writes the generated tables of docs/reference: `make docs`. With --check it only compares.

A table stands between `<!-- table: NAME ARGUMENT … -->` and `<!-- end -->`. The daemon supplies its
rows and first columns: from `countdownctl schema`, the configuration and `INFO`. The other columns
are written by hand and kept; a row without them is reported. The comments of the configuration file
come from the schema, too. The tour below checks the schema: every field of every reply and event is
described, and every field that is described is seen. The daemon is COUNTDOWND if set, else the
debug build.
"""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

PROJECT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "Tests/Integration"))

from countdownd import Daemon, Refused, binary, ctl_binary, view  # noqa: E402

PAGES = PROJECT / "docs/reference"
CONFIGURATION_FILE = PROJECT / "config/countdownd.yaml"
SETTING = r"(?P<indent> *)(?P<name>[a-z-]+):\s*(?P<value>.*)$"

CONFIGURATION = """
throttles:
  ip: {windows: [1/1h], passed: {least: 50%, of: 1, in: 1h, block: 1h}}
policies:
  limited: {ladder: [10s], validity: 1m, limits: [ip]}
  login: {ladder: [10s], windows: [5/1h], channels: [sms, sms, call], validity: 5m, attempts: 1, guesses: 9/1d, refunds: 9/1d}
hud: {max-level: alert}
"""

# The commands that make each kind show all of its fields and events. `+` advances the time, and `@`
# is the generation of the previous reply.
TOUR = {
    "countdown": """
        COUNTDOWN START a COUNT 3 EVERY 1s TITLE %d META m TOKEN t
        COUNTDOWN START a
        COUNTDOWN PAUSE a
        COUNTDOWN RESUME a
        + 1s
        COUNTDOWN RETIME a 9s
        + 9s
        COUNTDOWN RESEND a
        COUNTDOWN CANCEL a
        COUNTDOWN START p POLICY login
        COUNTDOWN REFUND p GENERATION @
        COUNTDOWN START p POLICY login
        COUNTDOWN ATTEMPT p
        COUNTDOWN PASS p
        + 10s
        COUNTDOWN RESEND p
        COUNTDOWN GET p
        COUNTDOWN ATTEMPT p ANY
        COUNTDOWN START l POLICY limited LIMIT ip:1
        COUNTDOWN START m POLICY limited LIMIT ip:1
        COUNTDOWN FORGIVE l
        + 1h
        """,
    "hud": """
        HUD SHOW a GRACE 100ms STATUS s
        + 1s
        HUD PROGRESS a 0.5
        HUD PAUSE a
        HUD RESUME a
        HUD TAP a INSIDE
        HUD GET a
        HUD DISMISS a
        + 1s
        HUD SHOW a GRACE 1s
        HUD SHOW a KIND progress
        HUD POP a
        HUD SHOW a KIND info
        + 1h
        """,
    "timer": """
        TIMER SET a 1s EVERY 1s PAYLOAD p
        TIMER SET a 1s NX
        TIMER PAUSE a
        TIMER RESUME a
        TIMER RETIME a 2s
        + 2s
        TIMER GET a
        TIMER DEL a
        """,
    "throttle": """
        THROTTLE TAKE a BURST 2 RATE 1/1s COST 2
        THROTTLE TAKE a BURST 2 RATE 1/1s
        THROTTLE REFUND a 1
        THROTTLE GET a
        COUNTDOWN START l POLICY limited LIMIT ip:2
        + 1m
        THROTTLE UNBLOCK ip:2
        THROTTLE TAKE ip:3
        + 1h
        THROTTLE TAKE a BURST 2 RATE 1/1s
        CLEAR throttle a
        """,
    "once": """
        ONCE BEGIN a TTL 1m
        ONCE BEGIN a TTL 1m
        ONCE GET a
        ONCE DONE a result
        + 1h
        ONCE BEGIN a TTL 1m
        ONCE CANCEL a
        """,
    "gate": """
        GATE CHECK a one PAYLOAD p
        GATE CHECK a two
        GATE GET a
        GATE OPEN a
        GATE TAKE a
        GATE DONE a
        GATE CLOSE a
        GATE OPEN a TTL 1m
        + 1h
        """,
    "debounce": """
        DEBOUNCE CALL a 1s PAYLOAD p
        DEBOUNCE GET a
        + 2s
        DEBOUNCE CALL a 1s
        DEBOUNCE CANCEL a
        """,
    "scope": """
        SCOPE OPEN a TTL 1m
        SCOPE OPEN b PARENT a
        SCOPE HANDLE a tap
        SCOPE EMIT b tap payload
        SCOPE GET a
        SCOPE CLOSE a
        """,
    "nav": """
        NAV PUSH s root PAGE
        NAV PUSH s top
        NAV SWIPE s X 4 DX 9
        NAV PROGRESS s 0.5
        NAV CANCEL s
        NAV SET s top BAR hidden
        NAV SWIPE s X 4 DX 9
        NAV FINISH s
        NAV PUSH s top
        NAV SWIPE s X 4 DX 9
        + 1h
        NAV GET s
        NAV DISMISS s
        """,
    "page": """
        PAGE APPEAR a
        PAGE LOADED a ITEMS 3 MESSAGE m
        PAGE REFRESH a
        PAGE LOADED a
        PAGE DISAPPEAR a
        PAGE APPEAR a
        PAGE FAILED a MESSAGE m
        PAGE APPEAR b
        + 1h
        PAGE GET a
        PAGE CLOSE a
        """,
}

# Described once for all kinds, in protocol.md and events.md.
COMMON_OPTIONS = {"OWNER", "GENERATION"}
COMMON_FIELDS = ["event", "key", "generation", "seq", "due_unix_ms", "late_us"]


# MARK: What it knows


class Knowledge:
    """The data of all tables."""

    def __init__(self):
        self.fields, self.events = {}, {}
        self.schema = schema()
        self.kinds = {kind["name"]: kind for kind in self.schema["kinds"]}
        self.settings, self.allowed = settings_of_the_file(), allowed_values()
        with contextlib.closing(Daemon(virtual_time=True, config=CONFIGURATION)) as daemon:
            for kind, commands in TOUR.items():
                self.tour(daemon, kind, commands)
        with contextlib.closing(Daemon(arguments=["--durability", "process"])) as daemon:
            self.info = information(daemon.connect()("INFO", "everything").decode())

    def tour(self, daemon, kind, commands):
        client, listener = daemon.connect(3), daemon.connect(3)
        listener.send("PSUBSCRIBE", f"{kind}:*")
        fields, events, generation = {}, {}, None
        for line in filter(None, map(str.strip, commands.splitlines())):
            words = line.replace("@", str(generation)).split()
            if words[0] == "+":
                client("CLOCK", "ADVANCE", words[1])
                continue
            try:
                reply = client(*words)
            except Refused as error:
                sys.exit(f"{line}: {error}")
            if isinstance(reply, dict):
                # Of several limits there is a view of each.
                for one in map(view, view(reply).get("views", [reply])):
                    generation = one["generation"]
                    for name in one if words[0].lower() == kind else ():
                        fields.setdefault(name)
        for event in client.pushes + listener.arrived():
            line = json.loads(event[-1]) if event[0] in (b"message", b"pmessage") else {}
            if line.get("event", "snapshot") != "snapshot":
                known = events.setdefault(line["event"], {})
                known.update(dict.fromkeys(name for name in line if name not in COMMON_FIELDS))
        self.fields[kind] = list(fields)
        self.events[kind] = {name: list(known) for name, known in events.items()}

    def rows(self, family):
        """Yields the rows of the command table, without HELP."""
        for row in self.schema["commands"]:
            if row["name"].split()[0] == family:
                yield row["name"], row

    def differences(self):
        """Yields where the schema and the tour differ."""
        for name, kind in self.kinds.items():
            described = {field["name"]: field for field in kind["fields"]}
            seen, events = self.fields[name], self.events[name]
            for found in events.values():
                extra = {field["name"] for event in kind["events"] for field in event["fields"]}
                known = described.keys() | extra | {"reason"}
                yield from (f"{name}: field {one} of events" for one in found if one not in known)
            yield from (f"{name}: field {one}" for one in seen if one not in described)
            yield from (f"{name}: field {one} is never seen" for one in described if one not in seen)
            known = {event["name"] for event in kind["events"]}
            yield from (f"{name}: event {one}" for one in events if one not in known)
            yield from (f"{name}: event {one} is never seen" for one in known if one not in events)


def information(text):
    """Returns the names of the fields in each section of INFO, by section."""
    sections, fields = {}, []
    for line in text.splitlines():
        if line.startswith("# "):
            fields = sections.setdefault(line[2:].lower(), [])
        elif ":" in line:
            fields.append(line.partition(":")[0])
    return sections


def schema():
    printed = subprocess.run([ctl_binary(), "schema"], capture_output=True, text=True)
    return json.loads(printed.stdout) if printed.returncode == 0 else sys.exit(printed.stderr)


def parameter(one):
    value = "" if one["type"] == "flag" else one["display"]
    text = " ".join(filter(None, [one["token"], value]))
    if one["repeats"]:
        return f"{text} [{text} ...]" if one["required"] else f"[{text} ...]"
    return text if one["required"] else f"[{text}]"


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def commands(known, *families):
    for family in families:
        for name, row in known.rows(family):
            syntax = " ".join([name, *map(parameter, row["arguments"])])
            if name.endswith(" LIST") and "CURSOR" in syntax:
                syntax = f"{name} …"
            mark = "*Admin.* " if row["access"] == "admin" else ""
            yield name, [code(syntax), mark + row["summary"]]


def options(known, family):
    found = {}
    for name, row in known.rows(family):
        if name.endswith(" LIST") and name.split()[0] == family and family.lower() in TOUR:
            continue
        for one in row["arguments"]:
            if one["token"] and one["token"] not in COMMON_OPTIONS:
                text = parameter(one).strip("[]")
                command = name.partition(" ")[2] or name
                found.setdefault(one["token"], (text, []))[1].append((command, described(one)))
    for token, (text, uses) in found.items():
        texts = dict.fromkeys(help for _, help in uses)
        if len(texts) > 1:
            for help in texts:
                texts[help] = " ".join(command for command, its in uses if its == help) + ": "
        help = " ".join((prefix or "") + help for help, prefix in texts.items())
        yield token, [code(text), " ".join(command for command, _ in uses), help]


def described(one):
    """Returns the help of an argument, with its range and its default."""
    parts = [one["help"]]
    if one["type"] == "integer" and one["most"] < 2**63 - 1:
        parts.append(f"{one['least']} to {one['most']}.")
    if one["type"] in ("text", "bytes") and one.get("max"):
        parts.append(f"At most {one['max']} bytes.")
    if one["type"] == "token":
        parts.append(f"1 to {one['max']} bytes.")
    if one["type"] == "duration" and one["least"]:
        parts.append(f"At least {one['least']}ms.")
    if one["default"] is not None:
        parts.append(f"Default {code(one['default'])}.")
    return cell(" ".join(parts))


def cell(text):
    return text.replace("|", "\\|")


def fields(known, kind):
    for field in known.kinds[kind]["fields"]:
        help = field["help"]
        # The reasons of a kind are part of its page.
        if field["type"] == "choice" and field["name"] not in ("reason", "accepted"):
            values = " ".join(map(code, field["values"]))
            help = values if help == "The state." else f"{values}. {help}"
        if records := field.get("of", {}).get("fields"):
            help += f" Each has {' '.join(code(one['name']) for one in records)}."
        yield field["name"], [code(field["name"]), cell(help)]


def events(known, kind):
    view = [name for name in known.fields[kind] if name not in ("accepted", "reason")]
    view = [name for name in view if name not in COMMON_FIELDS]
    helps = {event["name"]: event for event in known.kinds[kind]["events"]}
    for name, event in helps.items():
        found = known.events[kind].get(name, [])
        # The view of an event can lack fields of the kind.
        missing = [field for field in view if field not in found]
        extra = [field for field in found if field not in view]
        if len(missing) < len(view) / 2:
            text = "view"
            if missing:
                text += " without " + " ".join(map(code, missing))
            if extra:
                text += ", plus " + " ".join(map(code, extra))
        else:
            text = " ".join(map(code, found))
        help = " ".join([event["help"], *(f"{code(f['name'])}: {f['help']}" for f in event["fields"])])
        yield name, [code(name), text, cell(help)]


def errors(known):
    for error in known.schema["errors"]:
        yield error["name"], [code(error["name"]), cell(f"{error['help']} {error['do']}")]


def limits(known):
    for name, (default, _) in known.settings.items():
        if name.startswith("limits."):
            yield name, [code(name.removeprefix("limits.")), default]


def settings(known, *sections):
    for name, (default, text) in known.settings.items():
        if name.split(".")[0] in sections:
            yield name, [code(name), code(default), known.allowed[name], text]


def settings_of_the_file():
    """Returns the default and the comment of each setting in config/countdownd.yaml."""
    found, path, comment, explained = {}, [], [], ""
    lines = CONFIGURATION_FILE.read_text().partition("\n\n")[2].splitlines()
    for line in lines:
        if line.strip().startswith("#"):
            comment.append(line.strip()[1:].removeprefix(" "))
        elif setting := re.match(SETTING, line):
            # A setting without a comment shares the comment of its section or the setting above.
            explained = prose(comment) or explained
            comment = []
            path = path[: len(setting["indent"]) // 2] + [setting["name"]]
            if setting["value"]:
                found[".".join(path)] = (setting["value"].strip('"'), explained)
        elif item := re.match(r"\s*- (.*)", line):
            default, _ = found.get(".".join(path), ("", ""))
            found[".".join(path)] = (f"{default}, {item[1]}".lstrip(", "), explained)
    return found


def configuration_file(known):
    """Returns config/countdownd.yaml with the help of the schema above each setting that has one."""
    helps = {setting["name"]: setting["help"] for setting in known.schema["settings"]}
    head, _, body = CONFIGURATION_FILE.read_text().partition("\n\n")
    lines, comment, path = [head, ""], [], []
    for line in body.splitlines():
        if line.strip().startswith("#"):
            comment.append(line)
            continue
        if setting := re.match(SETTING, line):
            path = path[: len(setting["indent"]) // 2] + [setting["name"]]
            help = helps.get(".".join(path)) or shared_help(helps, ".".join(path) + ".")
            # Examples are written by hand, and so is the text above them.
            if comment and help and not any(re.match(r"\s*#   ", one) for one in comment):
                start = setting["indent"] + "# "
                if prose([one.strip()[2:] for one in comment]) != help:
                    comment = textwrap.wrap(
                        help, 100, initial_indent=start, subsequent_indent=start)
        lines += comment + [line]
        comment = []
    return "\n".join(lines) + "\n"


def needing_restart(known):
    """Returns the sentence about settings that take effect at a start only."""
    sections = {}
    for setting in known.schema["settings"]:
        sections.setdefault(setting["name"].split(".")[0], set()).add(setting["restart"])
    *names, last = (name for name, found in sections.items() if found == {True})
    return f"{', '.join(names)} and {last} need a restart."


def shared_help(helps, section):
    """Returns the help that all settings of a section share; None if they differ."""
    texts = [help for name, help in helps.items() if name.startswith(section)]
    return texts[0] if len(texts) > 1 and len(set(texts)) == 1 else None


def prose(comment):
    """Returns a comment as one line, without its indented examples."""
    return " ".join(line for line in comment if line and not line.startswith("  "))


def allowed_values():
    """Returns the allowed values of each setting, from the daemon's errors about wrong values."""
    with tempfile.TemporaryDirectory(prefix="countdownd-") as directory:
        file = pathlib.Path(directory) / "wrong.yaml"
        text = re.sub(r"(?m)^\s*- .*\n", "", CONFIGURATION_FILE.read_text())
        lines = (re.sub(r"^(\s*[a-z-]+:)(?: .*)?$", r"\1 '?'", line) for line in text.splitlines())
        sections = r"(?m)^(\s*)([a-z-]+:) '\?'(?=\n(?:\s*#.*\n)*\1  [a-z])"
        file.write_text(re.sub(sections, r"\1\2", "\n".join(lines)))
        check = subprocess.run(
            [binary(), "--check-config", "--config", file], capture_output=True, text=True
        )
    found = dict(re.findall(r"yaml:\d+: ([a-z.-]+): .*?; allowed: (.*)", check.stderr))
    if not found:
        sys.exit(check.stderr)
    for name, text in found.items():
        text = re.sub("a duration with .*, at most 3650d", "a duration", text)
        found[name] = text.replace("bytes, or an integer with KiB, MiB or GiB,", "bytes,")
    return found


def info(known, section):
    return [(name, [code(name)]) for name in known.info[section]]


def messages(known):
    text = (PROJECT / "Sources/Runtime/Messages.swift").read_text()
    return [(id, [code(id)]) for id in re.findall(r'case \w+ = "([0-9a-f]{32})"', text)]


TABLES = {
    table.__name__: table
    for table in (commands, options, fields, events, errors, limits, settings, info, messages)
}


# MARK: The pages


def cells(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


# Sections whose fields depend on the connected clients and the configuration.
UNLISTED = {"commandstats", "users", "fleet"}


def uncovered(known, used):
    """Returns the tables that are missing from all pages."""
    kinds = {("fields", kind) for kind in TOUR} | {("events", kind) for kind in TOUR}
    families = {("commands", row["name"].split()[0]) for row in known.schema["commands"]}
    sections = {("settings", name.split(".")[0]) for name in known.settings}
    facts = {("info", section) for section in known.info if section not in UNLISTED}
    covered = {(name, argument) for name, *arguments in used for argument in arguments}
    missing = kinds | families | sections | facts
    return sorted(" ".join(table) for table in missing - covered)


def rewritten(match, known, page, report):
    name, *arguments = match["name"].split()
    header, divider, *rows = match["table"].strip().splitlines()
    kept = {}
    for row in map(cells, rows):
        key = re.match(r"`([^`]*)`", row[0])
        kept[key[1].replace("\\|", "|") if key else row[0]] = row
    lines = [header, divider]
    for key, generated in TABLES[name](known, *arguments):
        own = len(cells(header)) - len(generated)
        found = [row for at, row in kept.items() if same(at, key)]
        rest = found[0][-own:] if own and found else [""] * own
        # For a command, the summary can be enough.
        if own and not any(rest) and (name != "commands" or cells(header)[-1]):
            report(f"{page.name}: {match['name']}: {key} has no description")
        lines.append("| " + " | ".join(generated + rest) + " |")
    return f"{match['begin']}\n" + "\n".join(lines) + f"\n{match['end']}"


def same(text, key):
    """Returns whether the first column of a row is about a key: it begins with the key's words, or
    is the last part of a dotted key."""
    words = key.split()
    return text.split()[: len(words)] == words or text == key.rpartition(".")[2] and "." in key


def main():
    is_check = sys.argv[1:] == ["--check"]
    known, complaints, used = Knowledge(), [], []
    complaints += [f"the schema does not describe {one}" for one in known.differences()]
    if (text := configuration_file(known)) != CONFIGURATION_FILE.read_text():
        if is_check:
            complaints.append("config/countdownd.yaml is out of date; run: make docs")
        else:
            CONFIGURATION_FILE.write_text(text)
    for page in (CONFIGURATION_FILE, PAGES / "configuration.md"):
        if (sentence := needing_restart(known)) not in " ".join(re.sub("[`#]", "", page.read_text()).split()):
            complaints.append(f"{page.name} does not say: {sentence}")
    pattern = re.compile(
        r"(?P<begin><!-- table: (?P<name>[^\n]*?) -->)\n(?P<table>(?:\|[^\n]*\n)+)(?P<end><!-- end -->)"
    )
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        new = pattern.sub(lambda match: rewritten(match, known, page, complaints.append), text)
        used += [match["name"].split() for match in pattern.finditer(text)]
        if text.count("<!-- table: ") != len(pattern.findall(text)):
            complaints.append(f"{page.name}: a table has no end")
        if new != text and is_check:
            complaints.append(f"{page.name} is out of date; run: make docs")
        elif new != text:
            page.write_text(new)
            print(f"wrote {page.relative_to(PROJECT)}")
    complaints += [f"no page has a table of {table}" for table in uncovered(known, used)]
    sys.exit("\n".join(complaints) or 0)


if __name__ == "__main__":
    main()
