#!/usr/bin/env python3
"""man-pages.py BINARIES DIRECTORY - writes the man pages.

countdownd(8), countdownctl(1), a countdownctl-COMMAND(1) for each command, and countdown-gateway(8)
come from the programs' output for --experimental-dump-help; countdownd.yaml(5) comes from the
comments in config/countdownd.yaml. The directory BINARIES has countdownd or countdown-gateway.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent
COMMON = ["socket", "wait", "json", "generations"]  # The options of every command.
HIDDEN = ["help", "version"]
SECTIONS = ["EXIT STATUS", "ENVIRONMENT", "SIGNALS", "FILES", "EXAMPLES", "SEE ALSO"]


# roff (man(7))


def escape(text):
    """Escapes text for roff, also at the beginning of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith(".") else text


def flowing(line):
    """Formats a line of prose, with its code in bold."""
    parts = line.split("`")
    text = "".join(bold(part) if n % 2 else escape(part) for n, part in enumerate(parts))
    return "\\&" + text if text.startswith(".") else text


def bold(text):
    return f"\\fB{escape(text)}\\fR"


def italic(text):
    return f"\\fI{escape(text)}\\fR"


def tagged(term, text):
    return [".TP", term, text]


def example(lines):
    return [".RS 4", ".nf", *(escape(line) for line in lines), ".fi", ".RE"]


class Page:
    def __init__(self, name, section, about):
        self.name, self.section = name, section
        self.lines = []
        self.sections = {title: [] for title in SECTIONS}
        self.about = about

    def write(self, directory, version):
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
        about = self.about.rstrip(".")
        about = about[0].lower() + about[1:]
        text = [
            "'\\\" -*- coding: UTF-8 -*-",
            f'.TH {self.name.upper()} {self.section} {date} "countdownd {version}"',
            ".nh", ".ad l", ".SH NAME", f"{escape(self.name)} \\- {escape(about)}", *self.lines,
        ]  # fmt: skip
        for title, lines in self.sections.items():
            if lines:
                text += [f".SH {title}", *lines]
        path = pathlib.Path(directory, f"{self.name}.{self.section}")
        path.write_text("\n".join(text) + "\n")

    def see(self, *pages):
        self.sections["SEE ALSO"] = [",\n".join(f"{bold(n)}({s})" for n, s in pages)]


# The help of the programs


def described(discussion, page):
    """Formats the paragraphs of a discussion. Moves blocks with a title of SECTIONS to the page."""
    lines = []
    for paragraph in (discussion or "").strip().split("\n\n"):
        head, *rest = paragraph.split("\n")
        if not head:
            continue
        is_block = head.endswith(":") and rest and all(line.startswith("  ") for line in rest)
        rows = [line[2:] for line in rest] if is_block else []
        title = head[:-1].upper().replace("EXAMPLE", "EXAMPLES").replace("SS", "S")
        # At least two spaces separate a term from its text, except in examples.
        is_table = rows and title != "EXAMPLES" and all(re.search(r"\S  +\S", row) for row in rows)
        block = []
        for row in rows if is_table else []:
            term, text = re.split(r"  +", row, maxsplit=1)
            block += tagged(bold(term), escape(text))
        if rows and not is_table:
            block = example(rows)
        if is_block and title in SECTIONS:
            page.sections[title] += block
        elif is_block:
            lines += [".PP", escape(head), *block]
        else:
            lines += [".PP", *(escape(line) for line in paragraph.split("\n"))]
    return lines


def shown(command):
    return [
        a for a in command.get("arguments", [])
        if a.get("shouldDisplay", True) and a["valueName"] not in HIDDEN
    ]  # fmt: skip


def term(argument, names):
    """Returns how an argument is given: its value, or some of its names and its value."""
    value = italic(argument["valueName"])
    if argument["kind"] == "positional":
        return value
    term = ", ".join(bold(("--" if name["kind"] == "long" else "-") + name["name"]) for name in names)
    return term if argument["kind"] == "flag" else f"{term} {value}"


def is_common(argument):
    return argument["kind"] != "positional" and argument["preferredName"]["name"] in COMMON


def synopsis(words, command, *, common=False):
    parts = [bold(words)]
    arguments = shown(command)
    if not common and any(is_common(a) for a in arguments):
        parts.append(f"[{italic('common options')}]")
    for argument in arguments:
        if is_common(argument) and not common:
            continue
        part = term(argument, [argument.get("preferredName")])
        if argument["isRepeating"]:
            part += " ..."
        parts.append(f"[{part}]" if argument["isOptional"] else part)
    return [".HP", " ".join(part.replace(" ", "\\ ") for part in parts)]


def options(command, *, common=False):
    lines = []
    for argument in shown(command):
        if is_common(argument) and not common:
            continue
        names = sorted(argument.get("names", []), key=lambda name: name["kind"] == "long")
        text = argument.get("abstract", "")
        if argument.get("defaultValue") and argument["kind"] != "flag" and "default" not in text:
            text = text.rstrip(".") + f" (default: {argument['defaultValue']})."
        lines += tagged(term(argument, names), escape(text))
    return lines


def below(command):
    return [c for c in command.get("subcommands", []) if c["commandName"] != "help"]


def daemon_page(tool):
    page = Page("countdownd", 8, tool["abstract"])
    description = described(tool.get("discussion"), page)
    page.lines = [
        ".SH SYNOPSIS", *synopsis("countdownd", tool, common=True), ".SH DESCRIPTION", *description,
        ".SH OPTIONS", *options(tool, common=True),
    ]  # fmt: skip
    page.sections["FILES"] = [
        *tagged(italic("/etc/countdownd/countdownd.yaml"), "The configuration."),
        *tagged(
            italic("/etc/countdownd/countdownd.yaml.d/*.yaml"),
            "Configuration files that are read after it."),
        *tagged(italic("/run/countdownd/countdownd.sock"), "The socket."),
        *tagged(
            italic("/var/lib/countdownd/state-N.db"),
            "The state that survives restarts: the one with the highest number."),
        *tagged(
            italic("/var/lib/countdownd/state-N-changes-*.log"),
            "The changes of that state since then."),
    ]  # fmt: skip
    page.see(("countdownctl", 1), ("countdownd.yaml", 5), ("redis-cli", 1), ("systemctl", 1))
    return page


def gateway_page(tool):
    page = Page("countdown-gateway", 8, tool["abstract"])
    description = described(tool.get("discussion"), page)
    page.lines = [
        ".SH SYNOPSIS", *synopsis("countdown-gateway", tool, common=True),
        ".SH DESCRIPTION", *description, ".SH OPTIONS", *options(tool, common=True),
    ]  # fmt: skip
    for command in below(tool):
        name = "countdown-gateway " + command["commandName"]
        page.lines += [
            f".SH {name.upper()}", *synopsis(name, command),
            *described(command.get("discussion"), page), *options(command),
        ]  # fmt: skip
    page.sections["FILES"] = [
        *tagged(italic("/etc/default/countdown-gateway"), "The options of the service."),
        *tagged(italic("/etc/countdown-gateway/ticket-keys"), "The keys of tickets."),
        *tagged(italic("/run/countdownd/countdownd.sock"), "The socket of the daemon."),
    ]  # fmt: skip
    page.see(("countdownd", 8), ("countdownctl", 1), ("systemctl", 1))
    return page


def tool_page(tool):
    page = Page("countdownctl", 1, tool["abstract"])
    description = described(tool.get("discussion"), page)
    page.lines = [
        ".SH SYNOPSIS", ".HP",
        f"{bold('countdownctl')} {italic('command')} [{italic('common options')}] ...",
        ".SH DESCRIPTION", *description, ".SH COMMANDS",
    ]  # fmt: skip
    for command in below(tool):
        name = "countdownctl-" + command["commandName"]
        page.lines += tagged(f"{bold(name)}(1)", escape(command["abstract"]))
    page.lines += [".SH COMMON OPTIONS", *options(tool, common=True)]
    page.sections["FILES"] = tagged(
        italic("/run/countdownd/countdownd.sock"), "The socket of the daemon.")
    page.see(("countdownd", 8), ("countdownd.yaml", 5), ("redis-cli", 1))
    return page


def command_page(command):
    name = command["commandName"]
    page = Page(f"countdownctl-{name}", 1, command["abstract"])
    words = f"countdownctl {name}"
    description = described(command.get("discussion"), page) or [escape(command["abstract"])]
    subcommands = below(command)
    page.lines = [".SH SYNOPSIS"]
    for path, each in (
        [(f"{words} {c['commandName']}", c) for c in subcommands] or [(words, command)]
    ):  # fmt: skip
        page.lines += synopsis(path, each)
    page.lines += [".SH DESCRIPTION", *description]
    for each in subcommands:
        page.lines += [f".SS {escape(each['commandName'])}", escape(each["abstract"])]
        page.lines += described(each.get("discussion"), page) + options(each)
    if not subcommands and (own := options(command)):
        page.lines += [".SH OPTIONS", *own]
    page.lines += [
        ".PP", f"{bold('countdownctl')}(1) describes the common options and the exit status.",
    ]  # fmt: skip
    page.see(("countdownctl", 1), ("countdownd", 8))
    return page


# The configuration


def configuration_page(text):
    """Returns the page of all settings, with comments and defaults of config/countdownd.yaml."""
    page = Page("countdownd.yaml", 5, "Configuration of countdownd")
    settings, comment, path = [], [], []
    introduction, rest = [], text
    while rest.startswith("#"):
        block, rest = rest.split("\n\n", 1) if "\n\n" in rest else (rest, "")
        if not all(line.startswith("#") for line in block.split("\n")):
            rest = block + "\n\n" + rest
            break
        introduction += prose([line[2:] for line in block.split("\n")])

    lines = rest.split("\n")
    for number, line in enumerate(lines):
        if match := re.match(r"( *)# ?(.*)", line):
            comment.append(match[2])
        elif match := re.match(r"( *)([\w-]+):(?: (.*))?$", line):
            depth = len(match[1]) // 2
            path[depth:] = [match[2]]
            value = match[3]
            items = [m[1] for m in map(re.compile(" *- (.*)").fullmatch, lines[number + 1 :]) if m]
            is_section = value is None and not re.match(r" *- ", lines[number + 1])
            if is_section and depth == 0:
                settings += [f".SS {escape(match[2])}", *prose(comment)]
            elif not is_section:
                default = value if value is not None else ", ".join(items)
                # A setting without a comment shares the comment of the setting above.
                term = f"{bold('.'.join(path))} (default: {italic(default)})"
                if comment or not isinstance(settings[-1], list):
                    settings.append([[term], prose(comment)[1:] or ["\\&"]])
                else:
                    settings[-1][0].append(term)
            elif comment:
                settings += [".PP", bold(".".join(path)), *prose(comment)]
            comment = []
    page.lines = [".SH DESCRIPTION", *introduction, ".SH SETTINGS"]
    for setting in settings:
        if isinstance(setting, list):
            terms, lines = setting
            page.lines += [".TP", "\n.TQ\n".join(terms), *lines]
        else:
            page.lines.append(setting)
    page.sections["FILES"] = [
        *tagged(italic("/etc/countdownd/countdownd.yaml"), "The configuration."),
        *tagged(
            italic("/etc/countdownd/countdownd.yaml.d/*.yaml"), "Files that are read after it."),
    ]  # fmt: skip
    page.sections["EXAMPLES"] = example(["countdownd --check-config", "countdownctl policy check"])
    page.see(("countdownd", 8), ("countdownctl", 1), ("countdownctl-policy", 1))
    return page


def prose(comment):
    """Formats the lines of a comment; indented lines are an example."""
    lines, code = [], []
    for line in [*comment, ""]:
        if line.startswith("  "):
            code.append(line)
            continue
        if code:
            lines += example(code)
            code = []
        lines.append(flowing(line) if line else ".PP")
    while lines and lines[-1] == ".PP":
        lines.pop()
    return [".PP", *lines] if lines else []


def main(binaries, directory):
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    for old in pathlib.Path(directory).glob("countdown*.[158]"):
        old.unlink()

    def tool(program):
        dumped = subprocess.run(
            [f"{binaries}/{program}", "--experimental-dump-help"], check=True, capture_output=True)
        return json.loads(dumped.stdout)["command"]

    program = "countdownd"
    if pathlib.Path(binaries, "countdown-gateway").exists():
        program = "countdown-gateway"
        pages = [gateway_page(tool(program))]
    else:
        client = tool("countdownctl")
        pages = [daemon_page(tool(program)), tool_page(client)]
        pages += [command_page(command) for command in below(client)]
        pages.append(configuration_page((PROJECT / "config/countdownd.yaml").read_text()))
    version = subprocess.run(
        [f"{binaries}/{program}", "--version"], check=True, capture_output=True, text=True
    ).stdout.split()[-1].partition("+")[0]
    for page in pages:
        page.write(directory, version)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n")[0])
    main(*sys.argv[1:])
