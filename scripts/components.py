#!/usr/bin/env python3
"""Writes what follows from Gateway/components.json and the modules: `make components`.

Gateway/components.json describes the attributes and events of the web components. From it come
custom-elements.json, a part of the types (.d.ts), and the tables of docs/reference/web.md. The
modules that the gateway serves are those of Gateway/Sources/Gateway/Components, minified by esbuild
(of Debian 12). With --check it writes nothing, and fails if something differs; --check=text leaves
out what esbuild makes.
"""

import json
import pathlib
import re
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
GATEWAY = PROJECT / "Gateway/Sources/Gateway"
COMPONENTS = GATEWAY / "Components"
WEB = PROJECT / "docs/reference/web.md"
DESCRIPTION = json.loads((PROJECT / "Gateway/components.json").read_text())
FOLLOWER = DESCRIPTION["follower"]
ELEMENTS = {name: one for name, one in DESCRIPTION.items() if name != "follower"}


# custom-elements.json


def named(entries, **more):
    """Returns a list of the manifest: each entry with its name and its description."""
    return [{"name": name, "description": text} | {key: make(name) for key, make in more.items()}
            for name, text in entries.items()]  # fmt: skip


def texts(entries):
    return {name: one["text"] for name, one in entries.items()}


def declaration(tag, element):
    """Returns the declaration of an element in the manifest."""
    attributes = FOLLOWER["attributes"] | element["attributes"]
    events = element["events"] | FOLLOWER["events"]
    found = {
        "kind": "class", "customElement": True, "name": element["class"], "tagName": tag,
        "description": element["text"],
        "superclass": {"name": "Follower", "module": "countdown-stream.js"},
        "attributes": named(
            texts(attributes), fieldName=str, type=lambda name: {"text": attributes[name]["type"]}),
        "events": named(texts(events), type=lambda name: {"text": events[name]["type"]}),
    }  # fmt: skip
    for one in found["attributes"]:
        if default := attributes[one["name"]].get("default"):
            one["default"] = json.dumps(default)
    if slots := element.get("slots"):
        found["slots"] = named(slots)
    if parts := element.get("parts"):
        found["cssParts"] = named(parts)
    if variables := element.get("variables"):
        found["cssProperties"] = named(texts(variables), default=lambda name: variables[name]["default"])
    return found


def module(path, declarations):
    exports = []
    for one in declarations:
        reference = {"name": one["name"], "module": path}
        exports.append({"kind": "js", "name": one["name"], "declaration": reference})
        if "tagName" in one:
            exports.append({
                "kind": "custom-element-definition", "name": one["tagName"],
                "declaration": reference})  # fmt: skip
    return {"kind": "javascript-module", "path": path, "declarations": declarations, "exports": exports}


def manifest():
    follow = {
        "kind": "function", "name": "follow",
        "description": "Calls a body with each message for an alias. Returns a function that stops this.",
        "parameters": [
            {"name": "source", "type": {"text": "Source"}}, {"name": "alias", "type": {"text": "string"}},
            {"name": "body", "type": {"text": "(message: Message) => void"}}],
        "return": {"type": {"text": "() => void"}},
    }  # fmt: skip
    source = {
        "kind": "function", "name": "source",
        "description": "Returns the addresses in an element's attributes.",
        "parameters": [{"name": "element", "type": {"text": "Element"}}],
        "return": {"type": {"text": "Source"}},
    }  # fmt: skip
    modules = [module(f"{tag}.js", [declaration(tag, element)]) for tag, element in ELEMENTS.items()]
    modules.append(module("countdown-stream.js", [follow, source]))
    return json.dumps({"schemaVersion": "1.0.0", "readme": "", "modules": modules}, indent=1,
                      ensure_ascii=False) + "\n"  # fmt: skip


# Types


def shown_default(one):
    """Returns a default as prose shows it: values in backticks, a description as it is."""
    default = one.get("default", "")
    return default if not default or " that " in default else f"`{default}`"


def sentence(one):
    text = one["text"][0].upper() + one["text"][1:]
    default = shown_default(one)
    return f"/** {text}.{f' Default: {default}.' if default else ''} */"


def attribute_type(one):
    """Returns the type in templates, where everything may be a text."""
    return one["type"] if one["type"].startswith("string") else f"string | {one['type']}"


def types(tag):
    """Returns the part of a .d.ts that the description says."""
    element = ELEMENTS.get(tag, FOLLOWER)
    kind = element.get("class", "Follower")
    base, above = (" extends FollowerAttributes", "Follower") if tag in ELEMENTS else ("", "HTMLElement")
    lines = [f"export interface {kind}Attributes{base} {{"]
    for name, one in element["attributes"].items():
        lines += [f"  {sentence(one)}", f"  {name}?: {attribute_type(one)}"]
    about = "The base of the components." if tag not in ELEMENTS else f"`<{tag}>`. {element['text']}"
    lines += ["}", "", f"/** {about} */", f"export declare class {kind} extends {above} {{"]
    for name, one in element.get("properties", {}).items():
        lines += [f"  {sentence(one)}", f"  {name}: {one['type']}"]
    for name, one in element["attributes"].items():
        wide = attribute_type(one) + " | null"
        narrow = one.get("get", "string | null")
        if wide == narrow or one["type"] in ("string", "RequestCredentials"):
            lines.append(f"  {name}: {narrow}")
        else:
            lines += [f"  get {name}(): {narrow}", f"  set {name}(value: {wide})"]
    lines += ["}", "", "declare global {"]
    if tag in ELEMENTS:
        lines += ["  interface HTMLElementTagNameMap {", f"    '{tag}': {kind}", "  }"]
    # Elements, `document` and `window` have these events.
    lines += ["  interface GlobalEventHandlersEventMap {"]
    lines += [f"    '{name}': {one['type']}" for name, one in element["events"].items()]
    return "\n".join([*lines, "  }", "}", ""])


def with_types(tag):
    text = (COMPONENTS / f"{tag}.d.ts").read_text()
    mark = "// What follows comes from Gateway/components.json.\n"
    return text[: text.index(mark)] + mark + types(tag)


# Tables


def table(name):
    rows = ["| attribute | | default |", "|---|---|---|"]
    for attribute, one in DESCRIPTION[name]["attributes"].items():
        text = one["text"].replace("|", chr(92) + "|")
        rows.append(f"| `{attribute}` | {text} | {shown_default(one)} |")
    return "\n".join(rows)


def with_tables():
    return re.sub(
        r"(<!-- attributes: (\S+) -->\n\n).*?(\n\n<!-- end -->)",
        lambda found: found[1] + table(found[2]) + found[3], WEB.read_text(), flags=re.S)  # fmt: skip


def minified(path):
    done = subprocess.run(
        ["esbuild", "--minify", "--format=esm", "--target=es2022", "--charset=utf8", path],
        check=True, capture_output=True, text=True)  # fmt: skip
    return done.stdout


def main():
    written = {COMPONENTS / "custom-elements.json": manifest(), WEB: with_tables()}
    for tag in ["countdown-stream", *ELEMENTS]:
        written[COMPONENTS / f"{tag}.d.ts"] = with_types(tag)
    if sys.argv[1:] != ["--check=text"]:
        for path in sorted(COMPONENTS.glob("countdown-*.js")):
            written[GATEWAY / "Served" / path.name] = minified(path)
    different = [path for path, text in written.items() if not path.exists() or path.read_text() != text]
    for path in different:
        if sys.argv[1:]:
            print(f"{path.relative_to(PROJECT)} differs: make components")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(written[path])
    sys.exit(bool(sys.argv[1:] and different))


if __name__ == "__main__":
    main()
