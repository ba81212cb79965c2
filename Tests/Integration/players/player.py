"""Plays commands through the Python client; see test_client_flows.py."""

import json
import sys
import threading
from datetime import datetime, timedelta

import countdownd

client = countdownd.Client(sys.argv[1], timeout=60)
named = {}


lock = threading.Lock()


def say(what):
    with lock:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def follow(watch):
    for event in watch:
        say({"event": [event.channel, event.raw]})


def argument(value):
    return timedelta(milliseconds=value["ms"]) if isinstance(value, dict) else value


def plain(result):
    if isinstance(result, countdownd.View):
        return dict(result.raw)
    return int(result) if isinstance(result, bool) else str(result) if isinstance(result, datetime) else result


watch = client.watch("*")
threading.Thread(target=follow, args=[watch], daemon=True).start()
watch.ready.wait()
say({"ready": True})
for line in sys.stdin:
    asked = json.loads(line)
    name = asked["connection"]
    if name and asked["owner"] == "quit":
        named[name].command("QUIT")
        named.pop(name).close()
        say({"reply": "OK"})
        continue
    if name and name not in named:
        named[name] = client.connected()
    one = getattr(named.get(name, client), asked["owner"])
    try:
        method = getattr(one, asked["method"], None) or getattr(one, asked["method"] + "_")
        options = {key: argument(value) for key, value in asked["options"].items()}
        say({"reply": plain(method(*map(argument, asked["positions"]), *asked["rest"], **options))})
    except countdownd.CountdowndError as error:
        say({"error": f"{error.code} {error}"})
