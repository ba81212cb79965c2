"""Writes docs/reference/python.md, from the client's docstrings and the commands' signatures."""

import ast
import keyword
import re
import textwrap

from clients import names

WIDTH = 100

# What each section has: a file, and the names in it. The synchronous half stands for both.
SECTIONS = {
    "Clients": ("_sync/client.py", ["Client", "Connected"]),
    "Answers": ("_base.py", ["Decision", "Answer", "View", "Page"]),
    "Events": ("_sync/watch.py", ["Watch"]),
    "": ("_events.py", ["Event"]),
    "Workers": ("_sync/worker.py", ["Worker"]),
    "Functions": ("_decorators.py", ["throttled", "idempotent", "debounced"]),
    "Django": ("django.py", ["rate_limit", "idempotent", "ErrorReplies"]),
    "FastAPI": ("fastapi.py", ["install", "RateLimit", "Idempotent"]),
    "Tests and development": ("_daemon.py", ["Daemon", "embedded"]),
}

# Programs do not make these themselves.
MADE_BY_OTHERS = {"Connected", "View", "Answer", "Watch", "Event", "ErrorReplies"}

HEAD = """# Python

The client for Python, from its docstrings; scripts/clients.py writes this page. [Use it from
Python](../howto/python.md) begins with examples, [clients](clients.md) says what happens when
something goes wrong, and [middleware](middleware.md) what Django and FastAPI do.

- `AsyncClient`, `AsyncConnected`, `AsyncWatch` and `AsyncWorker` have the methods of `Client`,
  `Connected`, `Watch` and `Worker`, to be awaited; `close` is `aclose`, and handlers are async.
- A `Duration` is a `timedelta` or text such as `"90s"`, a `Moment` a `datetime` with its time zone
  or text as in ISO 8601, a `Rate` text such as `"5/10m"` or `(5, timedelta(minutes=10))`, and
  `Data` text or bytes.
"""

COMMANDS = """
## Commands

Options are those of the command, in lower case: each kind's page describes them. So are the fields
of views, as properties: `retry_after_ms` is `retry_after`, a `timedelta`, and `deadline_unix_ms` is
`deadline`, a `datetime`. `raw` has the fields as they came.
"""

ERRORS = """
## Errors

All are a `CountdowndError`, with `code`, `remedy` and `may_have_run`, and can be pickled.

| class | code | |
|---|---|---|
"""


def method_name(command):
    return command.method + ("_" if keyword.iskeyword(command.method) else "")


def parameters(arguments, skips_first=False):
    """Returns the arguments of a function as texts, one for each."""
    plain = arguments.posonlyargs + arguments.args
    missing = [None] * (len(plain) - len(arguments.defaults))
    out = [parameter(*pair) for pair in zip(plain, missing + arguments.defaults)][skips_first:]
    if arguments.vararg:
        out.append("*" + parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        out.append("*")
    return out + [parameter(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults)]


def parameter(argument, default):
    text = argument.arg + (f": {ast.unparse(argument.annotation)}" if argument.annotation else "")
    return text if default is None else f"{text} = {ast.unparse(default)}"


def prose(text):
    """Returns a docstring as Markdown: a list of `name: meaning` as a list, and code as it is."""
    out = []
    for part in re.split(r"\n\s*\n", text):
        if part.startswith("    "):
            out.append(part)
        elif re.match(r"[a-z_]+(, [a-z_]+)*: [A-Z\"]", part):
            items = re.split(r"\n(?=\S)", part)
            lines = []
            for item in items:
                name, _, meaning = re.sub(r"\s*\n\s*", " ", item).partition(": ")
                name = ", ".join(f"`{one}`" for one in name.split(", "))
                lines += wrapped(f"{name}: {meaning}", "- ", "  ")
            out.append("\n".join(lines))
        else:
            out.append("\n".join(wrapped(re.sub(r"\s*\n\s*", " ", part))))
    return "\n\n".join(out) + "\n"


def wrapped(text, first="", rest=""):
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False,
        break_on_hyphens=False)


def declared(name, its, result=""):
    """Returns a declaration as code, on one line if it fits."""
    end = f" -> {result}" if result else ""
    text = f"    {name}({', '.join(its)}){end}"
    if len(text) <= WIDTH:
        return text
    return f"    {name}(\n" + "".join(f"        {one},\n" for one in its) + f"    ){end}"


def is_public(node):
    return (
        isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node)
        and "staticmethod" not in map(ast.unparse, node.decorator_list))


def described(node):
    """Returns what a class or a function is, with the methods of a class."""
    out = [f"\n### {node.name}\n\n"]
    documented = prose(ast.get_docstring(node) or "")
    if isinstance(node, ast.FunctionDef):
        result = ast.unparse(node.returns) if node.returns else ""
        return out + [declared(node.name, parameters(node.args), result), "\n\n", documented]
    made = next((one for one in node.body if getattr(one, "name", "") == "__init__"), None)
    if made is not None and node.name not in MADE_BY_OTHERS:
        out += [declared(node.name, parameters(made.args, True)), "\n\n"]
    out.append(documented)
    rows = []
    for one in node.body:
        if not is_public(one):
            continue
        is_property = any(ast.unparse(mark) == "property" for mark in one.decorator_list)
        result = ast.unparse(one.returns) if one.returns else ""
        call = one.name if is_property else f"{one.name}({', '.join(parameters(one.args, True))})"
        text = re.sub(r"\s+", " ", ast.get_docstring(one))
        call, result = call.replace("|", "\\|"), result.replace("|", "\\|").strip("'")
        rows.append(f"| `{call}` | `{result}` | {text} |\n")
    if rows:
        out += ["\n| | | |\n|---|---|---|\n", *rows]
    return out


def commands(schema, reply_types):
    out = [COMMANDS]
    kinds = {kind["name"] for kind in schema["kinds"]}
    for owner, its in names.owners(schema).items():
        page = f"[{owner}]({owner}.md)" if owner in kinds else f"`{owner}`"
        out.append(f"\n{page if owner else 'All others'}:\n\n| method | returns | |\n|---|---|---|\n")
        for command in its:
            arguments = [one.name for one in command.fixed]
            arguments += [f"{one.name}=None" for one in command.loose]
            arguments += [f"*{one.name}" for one in command.repeated]
            arguments += [f"{one.name}=" for one in command.options]
            call = ".".join(filter(None, [owner, method_name(command)]))
            result = reply_types(command)[0].replace("|", "\\|")
            out.append(f"| `{call}({', '.join(arguments)})` | `{result}` | {command.summary} |\n")
    return out


def errors(schema, folder):
    out = [ERRORS]
    for error in schema["errors"]:
        if name := names.ERRORS.get(error["name"]):
            out.append(f"| `{name}` | `{error['name']}` | {error['help']} {error['do']} |\n")
    for file, wanted in [
        ("_failures.py", ["Down", "Closed"]), ("_decorators.py", ["TooMany", "Running", "Mismatch"])]:
        for node in ast.parse((folder / file).read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name in wanted:
                code = next((
                    f"`{one.value.value}`" for one in node.body
                    if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "code"), "")
                text = re.sub(r"\s+", " ", ast.get_docstring(node))
                out.append(f"| `{node.name}` | {code} | {text} |\n")
    return out


def page(schema, folder, files, reply_types):
    """Returns the page. `files` has the texts of files that are generated, too."""
    out = [HEAD]
    for title, (file, wanted) in SECTIONS.items():
        text = files.get(folder / file) or (folder / file).read_text()
        found = {getattr(node, "name", ""): node for node in ast.parse(text).body}
        if title:
            out.append(f"\n## {title}\n")
        for name in wanted:
            out += described(found[name])
        if title == "Clients":
            out += commands(schema, reply_types)
    return "".join(out + errors(schema, folder))
