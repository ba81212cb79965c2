"""Writes the Go client's views and commands."""

import subprocess
import textwrap

from clients import names

INITIALS = {"Id": "ID", "Hud": "HUD", "Ttl": "TTL", "Url": "URL", "Nx": "NX"}

ARGUMENT_TYPES = {
    "key": "string", "text": "string", "bytes": "[]byte", "token": "string", "integer": "int64",
    "number": "float64", "flag": "bool", "toggle": "*bool", "duration": "time.Duration",
    "generation": "int64", "rate": "string", "owner": "string", "choice": "string",
    "moment": "time.Time",
}  # fmt: skip

FIELD_TYPES = {
    "key": "string", "text": "string", "bytes": "[]byte", "integer": "int64", "generation": "int64",
    "number": "float64", "boolean": "bool", "duration": "time.Duration", "moment": "time.Time",
    "owner": "string", "choice": "string",
}  # fmt: skip

READS = {
    "key": "text", "text": "text", "bytes": "data", "integer": "integer", "generation": "integer",
    "number": "number", "boolean": "truth", "duration": "span", "moment": "moment", "owner": "text",
    "choice": "text",
}  # fmt: skip

KEYWORDS = {"range", "type", "func", "map", "select", "default"}


def public(name):
    text = names.pascal(name)
    return INITIALS.get(text, text)


def private(name):
    text = names.camel(name)
    return text + "_" if text in KEYWORDS else text


def comment(text, indent=""):
    return "".join(f"{indent}// {line}\n" for line in textwrap.wrap(text, 92))


def field_type(field, record):
    if field["name"] == "reason":
        return "Reason"
    if field["type"] == "list":
        return f"[]{record}" if field["of"]["type"] in ("record", "view") else "[]string"
    kind = FIELD_TYPES[field["type"]]
    # Empty text and no time say enough; of numbers, null and zero are different.
    return f"*{kind}" if field.get("null") and kind in ("int64", "float64", "time.Duration") else kind


def struct(title, fields, help, record=None):
    out = [comment(help), f"type {title} struct {{\n"]
    for field in fields:
        if field["name"] != "accepted":
            out.append(comment(field["help"], "\t"))
            out.append(f"\t{public(names.field_name(field))} {field_type(field, record)}\n")
    out.append("\t// All fields as they came, unknown ones included.\n\tRaw Raw\n}\n\n")
    out.append(f"func to{title}(raw Raw) *{title} {{\n\tif raw == nil {{\n\t\treturn nil\n\t}}\n\tview := &{title}{{Raw: raw}}\n")
    for field in fields:
        name, its = field["name"], f"view.{public(names.field_name(field))}"
        if name == "accepted":
            continue
        if name == "reason":
            out.append(f'\t{its} = Reason(raw.text("reason"))\n')
        elif field["type"] == "list" and field["of"]["type"] == "record":
            out.append(
                f'\tfor _, one := range raw.list("{name}") {{\n'
                f"\t\t{its} = append({its}, *to{record}(asMap(one)))\n\t}}\n")
        elif field["type"] == "list":
            add = f"{its} = append({its}, asText(one))"
            if field["of"].get("null"):
                add = f"if one != nil {{\n\t\t\t{add}\n\t\t}}"
            out.append(f'\tfor _, one := range raw.list("{name}") {{\n\t\t{add}\n\t}}\n')
        elif field_type(field, record).startswith("*"):
            out.append(
                f'\tif raw["{name}"] != nil {{\n\t\tvalue := raw.{READS[field["type"]]}("{name}")\n\t\t{its} = &value\n\t}}\n')
        else:
            out.append(f'\t{its} = raw.{READS[field["type"]]}("{name}")\n')
    out.append("\treturn view\n}\n\n")
    return "".join(out)


def answer(title, fields):
    """Returns the type of an answer; one that can be about several entities has more fields."""
    members = "".join(
        comment(field["help"], "\t") + f"\t{public(names.field_name(field))} {field_type(field, f'{title}View')}\n"
        for field in fields)
    read, rest = "", ""
    if fields:
        read = "\traw, views := ofSeveral(raw)\n"
    for field in fields:
        its = f"answer.{public(names.field_name(field))}"
        if field["type"] == "list":
            rest += f"\tfor _, one := range views {{\n\t\t{its} = append({its}, *to{title}View(one))\n\t}}\n"
        else:
            rest += f'\t{its} = raw.{READS[field["type"]]}("{field["name"]}")\n'
    return (
        comment(f"{title}Answer is the answer to a request about a {title.lower()}.")
        + f"type {title}Answer struct {{\n\t{title}View\n\tAnswer\n{members}}}\n\n"
        f"func to{title}Answer(raw Raw) *{title}Answer {{\n\tif raw == nil {{\n\t\treturn nil\n\t}}\n{read}"
        + (f"\tanswer := &{title}Answer{{{title}View: *to{title}View(raw), Answer: toAnswer(raw)}}\n{rest}\treturn answer\n}}\n\n"
           if fields else f"\treturn &{title}Answer{{*to{title}View(raw), toAnswer(raw)}}\n}}\n\n"))


def reply(command):
    form, title = command.reply, names.title(command.group)
    match form["form"]:
        case "view": return f"*{title}View", f"to{title}View(asMap(reply))"
        case "answer": return f"*{title}Answer", f"to{title}Answer(asMap(reply))"
        case "done": return "bool", "asInteger(reply) == 1"
        case "page": return f"*{title}Page", f"to{title}Page(reply)"
        case "ok": return None, None
        case _:
            match form["type"]:
                case "record" if form["record"] != "events":
                    name = names.pascal(form["record"])
                    return f"*{name}", f"to{name}(asMap(reply))"
                case "record": return "Raw", "asMap(reply)"
                case "integer": return "int64", "asInteger(reply)"
                case "moment": return "time.Time", "time.UnixMilli(asInteger(reply))"
                case _: return "string", "asText(reply)"  # fmt: skip


def encoded(one, name, is_option=False):
    if is_option and is_pointer(one):
        name = f"*{name}"
    match one.type:
        case "duration": return f"milliseconds({name})"
        case "moment": return f"unixMilliseconds({name})"
        case "integer" | "generation": return f"strconv.FormatInt({name}, 10)"
        case "number": return f"strconv.FormatFloat({name}, 'g', -1, 64)"
        case "bytes": return f"string({name})"
        case "toggle": return f"onOff(*{name})"
        case _: return name  # fmt: skip


def is_pointer(one):
    """Returns whether zero is a value of an option, and so not the same as none."""
    if one.is_required or one.repeats:
        return False
    return one.type in ("number", "generation") or one.type in ("duration", "integer") and one.schema["least"] < 1


def option_type(one):
    type_ = ARGUMENT_TYPES[one.type]
    return f"[]{type_}" if one.repeats else f"*{type_}" if is_pointer(one) else type_


def is_given(one, name):
    if is_pointer(one):
        return f"{name} != nil"
    match one.type:
        case "duration" | "integer": return f"{name} != 0"
        case "bytes" | "toggle": return f"{name} != nil"
        case "moment": return f"!{name}.IsZero()"
        case _: return f'{name} != ""'  # fmt: skip


def method(command):
    owner = command.owner.capitalize() if command.owner else ""
    name = public(command.method)
    receiver = f"{owner}Commands" if owner else "Commands"
    options = f"{owner}{name}Options"
    replaced = [one for one in command.loose if one.replaced_by]
    loose = [one for one in command.loose if not one.replaced_by]
    fixed, repeated = command.fixed + replaced, command.repeated
    out, members = [], command.options + loose
    if members:
        out.append(comment(f"{options} has the options of {owner}.{name}. What is empty is not sent; Some makes a pointer."))
        out.append(f"type {options} struct {{\n")
        for one in members:
            out.append(comment(names.sentence(one), "\t"))
            out.append(f"\t{public(one.name)} {option_type(one)}\n")
        out.append("}\n\n")
    parameters = ["ctx context.Context"] + [f"{private(one.name)} {ARGUMENT_TYPES[one.type]}" for one in fixed]
    if members:
        parameters.append(f"options {options}")
    parameters += [f"{private(one.name)} ...{ARGUMENT_TYPES[one.type]}" for one in repeated]
    type_, value = reply(command)
    result = f"({type_}, error)" if type_ else "error"
    summary = command.summary[0].upper() + command.summary[1:]
    out.append(comment(f"{name}: {summary}"))
    for one in fixed + repeated:
        out.append(comment(f"  - {private(one.name)}: {names.sentence(one)}"))
    if command.reply.get("null"):
        out.append("// The result is nil if there is none.\n")
    out.append(f"func (commands *{receiver}) {name}({', '.join(parameters)}) {result} {{\n")
    words = [f'"{word}"' for word in command.words] + [encoded(one, private(one.name)) for one in command.fixed]
    out.append(f"\twords := []string{{{', '.join(words)}}}\n")
    for one in replaced:
        (option,) = (other for other in command.options if other.token == one.replaced_by)
        given = is_given(option, f"options.{public(option.name)}")
        out.append(
            f"\tif {given.removeprefix('!')} {{\n\t\twords = append(words, {encoded(one, private(one.name))})\n\t}}\n")
    for one in loose:
        its = f"options.{public(one.name)}"
        out.append(f"\tif {is_given(one, its)} {{\n\t\twords = append(words, {encoded(one, its, True)})\n\t}}\n")
    for one in repeated:
        out.append(f"\twords = append(words, {private(one.name)}...)\n")
    for one in command.options:
        its = f"options.{public(one.name)}"
        if one.token == "TOKEN":
            continue
        if one.type == "flag":
            out.append(f'\tif {its} {{\n\t\twords = append(words, "{one.token}")\n\t}}\n')
        elif one.repeats:
            out.append(f'\tfor _, one := range {its} {{\n\t\twords = append(words, "{one.token}", one)\n\t}}\n')
        elif one.is_required:
            out.append(f'\twords = append(words, "{one.token}", {encoded(one, its)})\n')
        else:
            out.append(f'\tif {is_given(one, its)} {{\n\t\twords = append(words, "{one.token}", {encoded(one, its, True)})\n\t}}\n')
    if command.has_token:
        body = (
            "\town := options.Token == \"\"\n\tif own {\n\t\toptions.Token = newToken()\n\t}\n"
            '\twords = append(words, "TOKEN", options.Token)\n')
        if command.has_peek:
            body = (
                "\town := options.Token == \"\"\n\tif own && !options.Peek {\n\t\toptions.Token = newToken()\n\t}\n"
                '\tif options.Token != "" {\n\t\twords = append(words, "TOKEN", options.Token)\n\t}\n')
        out.append(body)
        call = "commands.call(ctx, words, true, own)"
    else:
        call = f"commands.call(ctx, words, {str(command.is_safe).lower()}, false)"
    if type_ is None:
        out.append(f"\t_, err := {call}\n\treturn err\n}}\n\n")
    else:
        zero = {"bool": "false", "int64": "0", "string": '""', "time.Time": "time.Time{}"}.get(type_, "nil")
        out.append(f"\treply, err := {call}\n\tif err != nil {{\n\t\treturn {zero}, err\n\t}}\n\treturn {value}, nil\n}}\n\n")
    return "".join(out)


def generated(schema):
    out = [
        "// Code generated by scripts/clients.py. DO NOT EDIT.\n\npackage countdownd\n\n"
        'import (\n\t"context"\n\t"strconv"\n\t"time"\n)\n\n'
        f'// Version is the version of the daemon that this client was made with.\nconst Version = "{schema["version"]}"\n\n'
        "// Reason tells why a request was refused, or why an event happened.\ntype Reason string\n\nconst (\n"]
    for reason in schema["reasons"]:
        out.append(comment(reason["help"], "\t") + f"\tReason{public(reason['name'])} Reason = \"{reason['name']}\"\n")
    out.append(")\n\n// Errors of the daemon, for errors.Is.\nvar (\n")
    for error in schema["errors"]:
        if name := names.ERRORS.get(error["name"]):
            name = "Err" + name.removesuffix("Reached")
            out.append(comment(f"{error['help']} {error['do']}", "\t") + f"\t{name} = &Error{{Code: \"{error['name']}\"}}\n")
    out.append(")\n\n")
    out.append(
        "// bound has the commands that mean nothing on a connection that is shared, or break it.\nvar bound = map[string]bool{\n"
        + "".join(f'\t"{one["name"]}": true,\n' for one in schema["commands"] if one["of_connection"]) + "}\n\n")
    families = sorted({one["name"].split()[0] for one in schema["commands"] if " " in one["name"]})
    out.append(
        "// families has the first words of the commands that have two.\nvar families = map[string]bool{\n"
        + "".join(f'\t"{name}": true,\n' for name in families) + "}\n\n")
    for kind in schema["kinds"]:
        title, record = names.title(kind["name"]), None
        for record, field in names.records(kind).items():
            out.append(struct(record, field["of"]["fields"], f"{record} is one of {public(field['name'])}."))
        out.append(struct(
            f"{title}View", names.fields(kind),
            f"{title}View is the status of a {kind['name']}. A field that an event does not have is empty.", record))
        if any(field["name"] == "accepted" for field in kind["fields"]):
            out.append(answer(title, names.answer_fields(schema, kind)))
        out.append(
            f"// {title}Page is a page of a listing; Cursor is that of the next one, or 0 after the last.\ntype {title}Page struct {{\n"
            f"\tViews []{title}View\n\tCursor int64\n}}\n\nfunc to{title}Page(reply any) *{title}Page {{\n\tcursor, views := asPage(reply)\n"
            f"\tpage := &{title}Page{{Cursor: cursor}}\n\tfor _, raw := range views {{\n"
            f"\t\tpage.Views = append(page.Views, *to{title}View(raw))\n\t}}\n\treturn page\n}}\n\n")
        out.append(f"// {title} returns the status of the {kind['name']} at the event.\nfunc (event *Event) {title}() *{title}View {{ return to{title}View(event.Raw) }}\n\n")
    for command, name in names.reply_records(schema):
        out.append(struct(name, command.reply["fields"], f"{name} is the reply of {command.schema['name']}."))
    owners = names.owners(schema)
    out.append("// Commands has all commands, by what they are about.\ntype Commands struct {\n\tcall call\n")
    out += [f"\t{public(owner)} *{owner.capitalize()}Commands\n" for owner in owners if owner]
    out.append("}\n\nfunc newCommands(call call) Commands {\n\treturn Commands{\n\t\tcall: call,\n")
    out += [f"\t\t{public(owner)}: &{owner.capitalize()}Commands{{call}},\n" for owner in owners if owner]
    out.append("\t}\n}\n\n")
    for owner, its in owners.items():
        if owner:
            out.append(f"// {owner.capitalize()}Commands has the commands {owner.upper()} ….\ntype {owner.capitalize()}Commands struct{{ call call }}\n\n")
        out += [method(command) for command in its]
    text = "".join(out).rstrip() + "\n"
    done = subprocess.run(["gofmt"], input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def write(schema, project):
    return {project / "Clients/Go/generated.go": generated(schema)}
