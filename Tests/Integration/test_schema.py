"""`countdownctl schema`: what clients, docs and editors are made from."""

import json
import os
import re
import subprocess
import sys

from countdownd import PROJECT, ctl_binary

sys.path.insert(0, str(PROJECT / "scripts"))

from clients.openapi import public_fields  # noqa: E402

TOOLS = os.path.dirname(sys.executable)


def schema(*arguments):
    printed = subprocess.run(
        [ctl_binary(), "schema", *arguments], capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


def check(tmp_path, schema, *files):
    """Checks files with the tool that the project's workflows are checked with."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    return subprocess.run(
        [f"{TOOLS}/check-jsonschema", "--schemafile", path, *files], capture_output=True, text=True)


def test_the_configuration_that_is_shipped_is_valid(tmp_path):
    found = check(tmp_path, schema("--config"), PROJECT / "config/countdownd.yaml")
    assert found.returncode == 0, found.stdout


def test_editors_see_a_wrong_setting(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("countdown:\n  every: soon\n  cuont: 3\n")
    found = check(tmp_path, schema("--config"), wrong)
    assert found.returncode == 1 and "cuont" in found.stdout and "soon" in found.stdout


def test_events_are_valid(tmp_path, daemon):
    listener, client = daemon.connect(protocol=3), daemon.connect(protocol=3)
    listener.send("PSUBSCRIBE", "*")
    assert listener.push()[0] == b"psubscribe"
    for command in ("HUD SHOW s STATUS x", "TIMER SET t 1d", "ONCE BEGIN o TTL 1m", "NAV PUSH n root",
                    "THROTTLE TAKE l BURST 1 RATE 1/1s", "COUNTDOWN START a COUNT 1 EVERY 1ms"):
        client(*command.split())
    files = []
    for number, event in enumerate(listener.events(lambda event: event["event"] == "ready")):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(event))
    assert len(files) >= 7
    any_of = schema("--events")
    any_of["anyOf"] = any_of.pop("oneOf")  # An event can look like that of another kind.
    found = check(tmp_path, any_of, *files)
    assert found.returncode == 0, found.stdout


# What countdown-gateway keeps from pages. A new field is there or in PublicFields.swift: pages see
# it only if somebody has decided so.
INSIDE = {
    "countdown": {
        "key", "policy", "limit", "channel", "next_channel", "owner", "meta", "uid", "codes",
        "codes.generation", "codes.expires_in_ms", "codes.attempts_left", "refunds_left",
    },
    "hud": {"key", "owner", "holds.request", "holds.owner"},
    "timer": {"key", "owner", "payload"},
    "throttle": {"key", "id"},
    "once": {"key", "owner", "result"},
    "gate": {"key", "owner", "payload"},
    "debounce": {"key", "owner", "payload"},
    "scope": {"key", "owner", "parent", "name", "target", "phase", "payload"},
    "nav": {"key"},
    "page": {"key", "owner", "screen"},
}


def names(fields, place=""):
    """Returns the names of fields, and those of records in their lists as `LIST.FIELD`."""
    found = set()
    for field in fields:
        found.add(place + field["name"])
        if field["type"] == "list" and field["of"]["type"] == "record":
            found |= names(field["of"]["fields"], f"{place}{field['name']}.")
    return found


def test_the_gateway_lets_out_only_fields_that_are_listed():
    found = schema()
    public = public_fields(PROJECT)
    common = names(found["event_fields"])
    for kind in found["kinds"]:
        events = [field for event in kind["events"] for field in event["fields"]]
        known = common | names(kind["fields"] + events)
        assert known - public[kind["name"]] == INSIDE[kind["name"]], kind["name"]
        assert public[kind["name"]] <= known, kind["name"]
    assert set(public) == {kind["name"] for kind in found["kinds"]}


def test_the_gateway_knows_the_commands_that_bind_to_a_connection():
    source = (PROJECT / "Gateway/Sources/Gateway/SharedConnection.swift").read_text()
    families = re.search(r"families: Set = \[(.*?)\]", (
        PROJECT / "Gateway/Sources/Gateway/Gateway.swift").read_text(), re.S)[1]
    bound, owned = set(), {}
    for command in schema()["commands"]:
        if f'"{command["name"].split()[0]}"' not in families:
            continue
        if command["of_connection"]:
            bound.add(command["name"])
        tokens = [argument["token"] for argument in command["arguments"]]
        if command["writes"] and "OWNER" in tokens:
            needed = [one for one in command["arguments"] if one["token"] is None and one["required"]]
            owned[command["name"]] = len(needed)
    listed = re.search(r"bound: Set = \[(.*?)\]", source)[1]
    assert set(re.findall(r'"([A-Z ]+)"', listed)) == bound
    with_owner = dict(re.findall(r'"([A-Z ]+)": (\d+)', source))
    assert {name: int(count) for name, count in with_owner.items()} == owned
