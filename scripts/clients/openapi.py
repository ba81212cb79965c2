"""Writes the views of countdown-gateway's OpenAPI document."""

import json
import re

INTEGERS = {"integer", "duration", "moment", "generation"}


def public_fields(project):
    """The fields that pages see, by kind; those of records in a list as `LIST.FIELD`."""
    text = (project / "Gateway/Sources/Gateway/PublicFields.swift").read_text()
    common = set(re.search(r'ofEvents = """(.*?)"""', text, re.S)[1].split())
    return {
        kind: common | set(names.split())
        for kind, names in re.findall(r'"(\w+)": """(.*?)"""', text, re.S)}


def described(field, public):
    kind = field["type"]
    if kind in INTEGERS:
        schema = {"type": "integer"} | ({"minimum": field["least"]} if "least" in field else {})
    elif kind == "list":
        schema = {"type": "array", "items": described(field["of"] | {"name": field["name"]}, public)}
    elif kind == "record":
        schema = {
            "type": "object",
            "properties": {
                one["name"]: described(one, public) for one in field["fields"]
                if f"{field['name']}.{one['name']}" in public},
        }
    else:
        schema = {"type": {"boolean": "boolean", "number": "number"}.get(kind, "string")}
        if "values" in field:
            schema["enum"] = field["values"]
    if field.get("null"):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema | ({"description": field["help"]} if "help" in field else {})


def written(name, schema):
    """One line for each property."""
    properties = ",\n".join(
        f"          {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}"
        for name, one in schema.items())
    return (
        f'      "{name}": {{\n        "type": "object",\n        "required": ["alias"],\n'
        f'        "properties": {{\n{properties}\n        }}\n      }}')


def write(schema, project):
    path = project / "Gateway/Sources/Gateway/Pages/openapi.json"
    public = public_fields(project)
    names, parts = [], []
    for kind in schema["kinds"]:
        fields = {"alias": {"type": "string", "description": "The page's name of the entity."}}
        fields |= {
            field["name"]: described(field, public[kind["name"]])
            for field in kind["fields"] if field["name"] in public[kind["name"]]}
        names.append(kind["name"].capitalize() + "View")
        parts.append(written(names[-1], fields))
    references = ",\n".join(
        f'          {{"$ref": "#/components/schemas/{name}"}}' for name in names)
    view = f'      "View": {{\n        "anyOf": [\n{references}\n        ]\n      }}'
    text = path.read_text()
    begin = text.index('    "schemas": {\n') + len('    "schemas": {\n')
    end = text.index('      "Problem": {\n        "type"')
    return {path: text[:begin] + ",\n".join([view, *parts]) + ",\n" + text[end:]}
