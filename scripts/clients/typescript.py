"""Writes the TypeScript client's views and commands."""

import json
import textwrap

from clients import names

ARGUMENT_TYPES = {
    "key": "string", "text": "string", "bytes": "Data", "token": "string", "integer": "number",
    "number": "number", "flag": "boolean", "toggle": "boolean", "duration": "Duration",
    "generation": "number", "rate": "string", "owner": "string", "moment": "Moment",
}  # fmt: skip

FIELD_TYPES = {
    "key": ("string", '""'), "text": ("string", '""'), "bytes": ("Buffer", "Buffer.alloc(0)"),
    "integer": ("number", "0"), "generation": ("number", "0"), "number": ("number", "0"),
    "boolean": ("boolean", "false"), "duration": ("number", "0"), "moment": ("Date", "new Date(0)"),
    "owner": ("string", '"none"'),
}  # fmt: skip


def doc(lines, indent=0):
    pad = " " * indent
    text = [wrapped for line in lines for wrapped in textwrap.wrap(line, 94 - indent) or [""]]
    if len(text) == 1:
        return f"{pad}/** {text[0]} */\n"
    return f"{pad}/**\n" + "".join(f"{pad} * {line}".rstrip() + "\n" for line in text) + f"{pad} */\n"


def choice(values):
    return " | ".join(f"'{value}'" for value in values)


def field_type(field, record=None):
    null = " | null" if field.get("null") else ""
    if field["name"] == "reason":
        return "Reason | null"
    if field["type"] == "choice":
        return choice(field["values"]) + null
    if field["type"] == "list":
        return f"{record}[]" if field["of"]["type"] in ("record", "view") else "string[]"
    return FIELD_TYPES[field["type"]][0] + null


def field_value(field, record=None):
    name, kind = field["name"], field["type"]
    if name == "reason":
        return "text(raw, 'reason')"
    if kind == "list":
        if field["of"]["type"] == "record":
            return f"list(raw, '{name}').map((one) => to{record}(fields(one)))"
        known = ".filter((one) => one !== null)" if field["of"].get("null") else ""
        return f"list(raw, '{name}'){known}.map(String)"
    read = {"choice": "text", "key": "text", "text": "text", "owner": "text", "bytes": "data",
            "boolean": "truth", "moment": "moment"}.get(kind, "number")  # fmt: skip
    value = f"{read}(raw, '{name}')"
    if field.get("null"):
        return value
    fallback = f"'{field['values'][0]}'" if kind == "choice" else FIELD_TYPES[kind][1]
    return f"{value} ?? {fallback}"


def interface(title, fields, help, extends="", record=None):
    out = [doc([help]), f"export interface {title}{extends} {{\n"]
    for field in fields:
        if field["name"] == "accepted":
            continue
        out.append(doc([comment(field)], 2))
        out.append(f"  {names.camel(names.field_name(field))}: {field_type(field, record)};\n")
    out.append("  /** All fields as they came, unknown ones included. */\n  raw: Raw;\n}\n\n")
    out.append(f"/** @internal */\nexport function to{title}(raw: Raw): {title} {{\n  return asView({{\n    raw,\n")
    for field in fields:
        if field["name"] != "accepted":
            out.append(
                f"    {names.camel(names.field_name(field))}: {field_value(field, record)},\n")
    out.append(f"  }} as {title});\n}}\n\n")
    return "".join(out)


def answer(title, fields):
    """Returns the type of an answer that can be about several entities."""
    members = "".join(
        doc([comment(field)], 2)
        + f"  {names.camel(names.field_name(field))}: {field_type(field, f'{title}View')};\n"
        for field in fields)
    values = "".join(
        f"    {names.camel(names.field_name(field))}: "
        + (f"views.map(to{title}View)" if field["type"] == "list" else field_value(field)) + ",\n"
        for field in fields)
    return (
        doc([f"The answer to a request about a {title.lower()}."])
        + f"export type {title}Answer = Answer<{title}View> & {{\n{members}}};\n\n"
        f"/** @internal */\nexport function to{title}Answer(reply: Raw): {title}Answer {{\n"
        "  const { raw, views } = ofSeveral(reply);\n"
        f"  return asView({{\n    ...toAnswer(to{title}View(raw)),\n{values}  }});\n}}\n\n")


def comment(field):
    unit = " In milliseconds." if field["type"] == "duration" else ""
    return field["help"] + unit


def reply(command):
    form, title = command.reply, names.title(command.group)
    null = form.get("null")
    match form["form"]:
        case "view": type_, parse = f"{title}View", f"to{title}View(fields(reply))"
        case "answer" if "fields" in form:
            type_, parse = f"{title}Answer", f"to{title}Answer(fields(reply))"
        case "answer": type_, parse = f"Answer<{title}View>", f"toAnswer(to{title}View(fields(reply)))"
        case "done": return "boolean", "Number(reply) === 1"
        case "page": return f"Page<{title}View>", f"toPage(reply, to{title}View)"
        case "ok": return "void", "undefined"
        case _:
            match form["type"]:
                case "record" if form["record"] != "events":
                    name = names.pascal(form["record"])
                    type_, parse = name, f"to{name}(fields(reply))"
                case "record": return "Raw", "fields(reply)"
                case "integer": type_, parse = "number", "Number(reply)"
                case "moment": return "Date", "new Date(Number(reply))"
                case _: type_, parse = "string", "String(reply)"  # fmt: skip
    return (f"{type_} | null", f"reply === null ? null : {parse}") if null else (type_, parse)


def encoded(one, name):
    match one.type:
        case "duration": return f"span({name})"
        case "moment": return f"milliseconds({name})"
        case "toggle": return f"{name} ? 'on' : 'off'"
        case "integer" | "number" | "generation": return f"numeral({name})"
        case _: return name  # fmt: skip


def argument_type(one):
    return choice(one.schema["values"]) if one.type == "choice" else ARGUMENT_TYPES[one.type]


def method(command):
    positions = command.fixed + command.loose
    # With options, arguments that repeat are one of them.
    rest, lists = ([], command.repeated) if command.options else (command.repeated, [])
    parameters = [
        f"{names.camel(one.name)}{'' if one.is_required else '?'}: {argument_type(one)}" for one in positions]
    lines = [command.summary, ""] if positions or command.options else [command.summary]
    for one in positions + rest:
        lines.append(f"@param {names.camel(one.name)} {names.sentence(one)}")
    if command.options:
        members = [
            doc([names.sentence(one)], 6) + f"      {names.several(one)}?: {argument_type(one)}[];\n"
            for one in lists]
        for one in command.options:
            type_ = argument_type(one) + ("[]" if one.repeats else "")
            if " | " in type_ and one.repeats:
                type_ = f"({argument_type(one)})[]"
            members.append(
                doc([names.sentence(one)], 6)
                + f"      {names.camel(one.name)}{'' if one.is_required else '?'}: {type_};\n")
        optional = "" if any(one.is_required for one in command.options) else " = {}"
        parameters.append("options: {\n" + "".join(members) + f"    }}{optional}")
    for one in rest:
        parameters.append(f"...{names.camel(one.name)}: {argument_type(one)}[]")
    type_, parse = reply(command)
    text = [doc(lines, 2), f"  async {command.method}({', '.join(parameters)}): Promise<{type_}> {{\n"]
    words = [f"'{word}'" for word in command.words]
    words += [encoded(one, names.camel(one.name)) for one in command.fixed]
    text.append(f"    const words: Word[] = [{', '.join(words)}];\n")
    for one in command.loose:
        its = names.camel(one.name)
        text.append(f"    if ({its} !== undefined) words.push({encoded(one, its)});\n")
    for one in rest:
        text.append(f"    words.push(...{names.camel(one.name)});\n")
    for one in lists:
        text.append(f"    words.push(...options.{names.several(one)} ?? []);\n")
    for one in command.options:
        its = f"options.{names.camel(one.name)}"
        if one.token == "TOKEN":
            continue
        if one.type == "flag":
            text.append(f"    if ({its}) words.push('{one.token}');\n")
        elif one.repeats:
            text.append(f"    for (const one of {its} ?? []) words.push('{one.token}', one);\n")
        elif one.is_required:
            text.append(f"    words.push('{one.token}', {encoded(one, its)});\n")
        else:
            text.append(f"    if ({its} !== undefined) words.push('{one.token}', {encoded(one, its)});\n")
    if command.has_token:
        guard = "if (!options.peek) " if command.has_peek else ""
        text.append(f"    {guard}words.push('TOKEN', options.token ?? newToken());\n")
        text.append("    const reply = await this.send(words, true, options.token === undefined);\n")
    else:
        used = "" if parse == "undefined" else "const reply = "
        text.append(f"    {used}await this.send(words, {json.dumps(command.is_safe)});\n")
    text.append("  }\n" if parse == "undefined" else f"    return {parse};\n  }}\n")
    return "".join(text)


def generated(schema):
    out = [
        "// Generated by scripts/clients.py: do not edit.\n\n"
        "import {\n  Answer, CountdowndError, Data, Duration, Moment, Page, Raw, Send, Word, asView, data, fields,\n"
        "  list, milliseconds, moment, newToken, number, numeral, ofSeveral, span, text, toAnswer, toPage, truth,\n} from './base.js';\n\n"
        f"export const version = '{schema['version']}';\n\n"]
    out.append(doc(["Why a request was refused, or why an event happened."]) + "export type Reason =\n")
    for reason in schema["reasons"]:
        out.append(doc([reason["help"]], 2) + f"  | '{reason['name']}'\n")
    out[-1] = out[-1].rstrip() + ";\n\n"
    for error in schema["errors"]:
        if name := names.ERRORS.get(error["name"]):
            out.append(
                doc([f"{error['help']} {error['do']}"]) + f"export class {name} extends CountdowndError {{}}\n\n")
    out.append("/** @internal */\nexport const errors: Record<string, typeof CountdowndError> = {\n")
    out += [
        f"  {e['name']}: {names.ERRORS[e['name']]},\n" for e in schema["errors"] if e["name"] in names.ERRORS]
    out.append("};\n\n")
    names_of_bound = "".join(f"  '{one['name']}',\n" for one in schema["commands"] if one["of_connection"])
    out.append(
        "/** @internal The commands that mean nothing on a connection that is shared, or break it. */\n"
        f"export const bound = new Set([\n{names_of_bound}]);\n\n")
    for kind in schema["kinds"]:
        title, record = names.title(kind["name"]), None
        for record, field in names.records(kind).items():
            out.append(interface(record, field["of"]["fields"], f"One of `{field['name']}`."))
        out.append(interface(
            f"{title}View", names.fields(kind), f"The status of a {kind['name']}. A field that an event does not have is null, zero, false or ''.",
            record=record))
        if fields := names.answer_fields(schema, kind):
            out.append(answer(title, fields))
    for command, name in names.reply_records(schema):
        out.append(interface(name, command.reply["fields"], f"The reply of {command.schema['name']}."))
    out.append("/** A view of any kind, by its kind. */\nexport interface Views {\n")
    out += [f"  {kind['name']}: {names.title(kind['name'])}View;\n" for kind in schema["kinds"]]
    out.append("}\n\n/** @internal */\nexport const views: { [K in keyof Views]: (raw: Raw) => Views[K] } = {\n")
    out += [f"  {kind['name']}: to{names.title(kind['name'])}View,\n" for kind in schema["kinds"]]
    out.append("};\n")
    owners = names.owners(schema)
    for owner, its in owners.items():
        if owner:
            out.append(f"\n{doc([f'The commands {owner.upper()} ….'])}export class {owner.capitalize()}Commands {{\n")
            out.append("  /** @internal */\n  constructor(private readonly send: Send) {}\n")
            out += ["\n" + method(command) for command in its]
            out.append("}\n")
    out.append("\n/** All commands, by what they are about. */\nexport class Commands {\n")
    out += [f"  readonly {owner}: {owner.capitalize()}Commands;\n" for owner in owners if owner]
    out.append("\n  /** @internal */\n  constructor(protected readonly send: Send) {\n")
    out += [f"    this.{owner} = new {owner.capitalize()}Commands(send);\n" for owner in owners if owner]
    out.append("  }\n")
    out += ["\n" + method(command) for command in owners[None]]
    out.append("}\n")
    return "".join(out)


def write(schema, project):
    package = project / "Clients/TypeScript"
    manifest = json.loads((package / "package.json").read_text())
    manifest["version"] = schema["version"]
    return {
        package / "src/generated.ts": generated(schema),
        package / "package.json": json.dumps(manifest, indent=2) + "\n",
    }
