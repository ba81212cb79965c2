"""Writes the subcommands of countdownctl that send one command and show its reply."""

import json
import re
import textwrap

from clients import names
from clients.swift import HEAD, formatted, quoted

# Written by hand: they ask or show something else.
OMITTED = {
    "COUNTDOWN START", "HUD MASK", "GATE TAKE", "SCOPE TREE", "SCOPE HANDLE", "SCOPE UNHANDLE",
    "SCOPE EMIT",
}  # fmt: skip

# Each kind has these in one form.
GENERIC = {"get", "list", "why"}

ENTITIES = {"hud": "HUD", "nav": "Navigation"}

# The state after a reply of 1.
DONE = {
    "cancel": "cancelled", "delete": "deleted", "close": "closed", "dismiss": "dismissed",
    "flush": "fired", "done": "done", "gate cancel": "dismissed",
}  # fmt: skip

# Options that have another form in the shell: a flag that stands for a value.
FLAGS = {"NAV PUSH POP": ("no-pop", "off", "Refuse to swipe it away.")}

DEFAULTS = {"THROTTLE REFUND amount": "1"}

ALIASES = {"delete": "del"}

GROUPS = {
    "GENERATION": ("GenerationOption", "generation"), "TOKEN": ("TokenOption", "token"),
    "OWNER": ("OwnerOption", "owner"),
}  # fmt: skip

# More about a command than its summary.
NOTES = {
    "COUNTDOWN REFUND": "'start --generations' prints the generation of a send.",
    "COUNTDOWN RETIME": "A paused countdown stays paused. 0 makes it ready at once.",
}


def text(words):
    """Returns a literal; a long one takes several lines."""
    if len(words) <= 64:
        return json.dumps(words, ensure_ascii=False)
    lines = textwrap.wrap(words, 84, break_long_words=False, break_on_hyphens=False)
    escaped = [json.dumps(line, ensure_ascii=False)[1:-1].replace('\\"', '"') for line in lines]
    return '"""\n' + " \\\n".join(escaped) + '\n"""'


def flag(token):
    """Returns the name of an option in the shell."""
    return names.WORDS.get(token, token.lower()).replace("_", "-")


def shell_help(command, one):
    """Returns the help of an argument, with options as one types them."""
    tokens = {other.token for other in command.arguments if other.token} - {one.token}
    its = re.sub(
        r"\b[A-Z]{3,}\b",
        lambda match: f"--{flag(match[0])}" if match[0] in tokens else match[0], one.help)  # fmt: skip
    its = its.replace("`", "'")
    values = {"choice": one.schema.get("values", []), "toggle": ["on", "off"]}.get(one.type, [])
    if any(value not in its for value in values):
        its = f"{its.rstrip('.')}: {', '.join(values[:-1])} or {values[-1]}."
    if one.default not in (None, "") and "." not in one.default and "efault" not in its:
        its = f"{its.rstrip('.')} (default: {one.default})."
    return its


class Declaration:
    """An argument of a subcommand: its property, and the value that the command carries."""

    def __init__(self, command, one, entity):
        self.command, self.one, self.entity = command, one, entity
        self.name = names.camel(one.name)
        self.value = quoted(self.name)
        self.text = self.declared()

    def declared(self):
        command, one = self.command, self.one
        name = " ".join([*command.words, one.token or one.name])
        if name in FLAGS:
            long, value, help = FLAGS[name]
            self.value = f'{names.camel(long)} ? "{value}" : nil'
            return f"@Flag(help: {text(help)}) var {names.camel(long)} = false"
        if one.token == "LEVEL" and not one.default:
            self.value = "selector.level"
            return f"@OptionGroup var selector: {self.entity}.Selector"
        if one.token in GROUPS and not one.is_required:
            group, its = GROUPS[one.token]
            self.value = f"{its}.value"
            return f"@OptionGroup var {its}: {group}"
        help = text(shell_help(command, one))
        start = f'name: .customLong("{flag(one.token)}"), ' if one.token else ""
        kind = "Option" if one.token else "Argument"
        if one.type == "flag":
            return f"@Flag({start}help: {help}) var {self.name} = false"
        if one.repeats:
            self.name = names.several(one)
            self.value = f"Repeated({self.name})"
            return f"@{kind}({start}help: {help}) var {self.name}: [String] = []"
        type_, more = self.type()
        default = DEFAULTS.get(name)
        null = "" if one.is_required else "?"
        default = f" = {default}" if default else ""
        if one.type == "duration" and not one.schema.get("word"):
            help = f".init({help}, valueName: \"duration\")" if one.token else f".init({help})"
        return f"@{kind}({start}help: {help}{more}) var {self.value}: {type_}{null}{default}"

    def type(self):
        schema = self.one.schema
        match self.one.type:
            case "duration" if not schema.get("word"):
                return "Duration", ", transform: countdownctl.duration"
            case "integer":
                most = min(schema["most"], 2**63 - 1)
                return "Int", f", transform: integer({schema['least']}...{most})"
            case "generation": return "Int", ""
            case "number": return "Double", ""
            case "moment": return "Int", ", transform: countdownctl.moment"
            case "rate": return "String", ", transform: countdownctl.rate"
            case "choice": return "String", f", completion: .list({json.dumps(schema['values'])})"
            case "toggle": return "String", ', completion: .list(["on", "off"])'
            case _: return "String", ""  # fmt: skip


def discussion(command, entity):
    form = command.reply
    found = [NOTES[name]] if (name := command.schema["name"]) in NOTES else []
    if form["form"] == "done" or form.get("null"):
        found.append(f"Exit status 1 if \\({entity}.absence).")
    elif form["form"] == "answer":
        found.append("Exit status 1 if it is refused.")
    return " ".join(found)


def subcommand(command, entity):
    name = names.pascal(command.method)
    positions = [Declaration(command, one, entity) for one in command.positions[1:]]
    options = [Declaration(command, one, entity) for one in command.options]
    lines = [f"struct {name}: EntityCommand {{", f"typealias Shown = {entity}"]
    lines.append(f'static let verb = "{command.method}"')
    if alias := ALIASES.get(command.method):
        lines.append(f'static let aliases = ["{alias}"]')
    lines.append(f"static let abstract = {text(command.summary)}")
    if words := discussion(command, entity):
        lines.append(f'static let discussion = "{words}"')
    if command.reply["form"] == "done":
        word = DONE.get(f"{command.owner} {command.method}") or DONE[command.method]
        lines.append(f'static let done: String? = "{word}"')
    if command.has_token:
        lines.append("static let hasToken = true")
    lines += ["", f"@Argument(help: {entity}.argument, completion: {entity}.keys) var key: String"]
    lines += [one.text for one in positions + options]
    lines.append("@OptionGroup var global: GlobalOptions")
    words = [f'"{word}"' for word in command.words] + ["key"] + [one.value for one in positions]
    if options:
        pairs = ", ".join(f'"{one.one.token}": {one.value}' for one in options)
        words.append(f"options: [{pairs}]")
    lines += ["", f"var command: Command {{ .init({', '.join(words)}) }}", "}"]
    return "\n".join(lines)


def write(schema, project):
    folder = project / "Sources/countdownctl/Generated"
    owners, files = names.owners(schema), {}
    for kind in schema["kinds"]:
        its = [
            one for one in owners[kind["name"]]
            if one.schema["name"] not in OMITTED and one.method not in GENERIC
        ]  # fmt: skip
        entity = ENTITIES.get(kind["name"], kind["name"].capitalize())
        listed = [f"{names.pascal(one.method)}.self" for one in its]
        listed += [
            f"{names.pascal(one.method)}Command<{entity}>.self" for one in owners[kind["name"]]
            if one.method in GENERIC
        ]  # fmt: skip
        body = "\n\n".join(subcommand(one, entity) for one in its)
        files[folder / f"{entity}+Commands.swift"] = formatted(
            f"{HEAD}import ArgumentParser\nimport CountdownClient\n\nextension {entity} {{\n"
            f"  /// The subcommands that send one command and show its reply.\n"
            f"  static let commands: [any ParsableCommand.Type] = [{', '.join(listed)}]\n\n{body}\n}}\n")
    return files
