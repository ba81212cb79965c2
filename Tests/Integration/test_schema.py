"""`countdownctl schema`: what clients, docs and editors are made from."""

import json
import os
import subprocess
import sys

from countdownd import PROJECT, ctl_binary

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
