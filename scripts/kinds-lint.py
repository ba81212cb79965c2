#!/usr/bin/env python3
"""Prints each line of Sources/Countdowns that names a kind outside its folder: a type that the
folder declares, its case of EntityKind or its property of the engine. Exits with 1 if there are
any. Comments and texts may name kinds."""

import re
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "Sources/Countdowns"
# Folders that belong together, besides those in Screen: a policy counts the sends of countdowns,
# and asks named limits.
SHARED = {"Sending": "Countdown", "Throttle": "Countdown"}
PROPERTIES = {
    "Countdown": "countdowns|throttles|shadow", "Debounce": "debounces", "Gate": "gates",
    "Once": "onces", "Screen": "huds|scopes|stacks|pages", "Timer": "timers"}
DECLARATION = r"^(?:package |indirect |final )*(?:struct|class|enum|protocol|let) (\w+)"
# Files and folders that may name kinds, and what they may name; empty: everything.
EXCEPTIONS = {
    # The registry of kinds, and that of their stores.
    "Kinds/Kind.swift": "",
    "Kinds/Stores.swift": "",
    # The settings and errors of kinds, which the configuration names.
    "EngineSettings.swift": "",
    # The limits of a countdown that a fleet decides about.
    "DecisionContext.swift": "SharedLimits",
    # `OWNER scope:ID`. An owner is a connection, a scope or a page.
    "Commands/Call.swift": ".scope",
    "Ownership": ".scope .page",
    # The events of plain countdowns are copied, not encoded.
    "EventLog": "Countdown TimedEvent .countdown",
    # A replay plays the policies and limits of countdowns.
    "Journal/Replay.swift": "",
    # The stored kind of entries that are about none.
    "Journal/JournalEntry.swift": "EntityKind.countdown",
    # To be removed: what kinds still have in these belongs to their stores, requests or notices.
    "Commands/CommandHost.swift": "EngineNotice",
    # How an owner is stored.
    "Entities/Stored.swift": ".scope .page",
    # What a decision about a countdown says about limits, and a take of several; only kept here.
    "Fleet": "EngineNotice LimitCharge LimitShare Refusal SharedLimits",
}


def may_name(path, found):
    """Returns whether a file may name something."""
    return any(
        path == one or path.startswith(one + "/") for one, names in EXCEPTIONS.items()
        if not names or found in names.split())


def room(path):
    """Returns the folder of a kind, or of kinds that belong together; None outside of these."""
    folders = path.relative_to(SOURCES).parts[:-1]
    if len(folders) < 2 or folders[0] != "Kinds" or folders[1] == "Guards":
        return None
    return SHARED.get(folders[1], folders[1])


def patterns():
    """Returns a pattern of what belongs to each room."""
    found = {name: [rf"engine\.(?:{names})\b"] for name, names in PROPERTIES.items()}
    for path in SOURCES.glob("Kinds/*/**/*.swift"):
        if (name := room(path)) is None:
            continue
        found[name] += (rf"\b{type}\b" for type in re.findall(DECLARATION, path.read_text(), re.M))
        if (kind := re.search(r"static let kind = EntityKind\.(\w+)", path.read_text())) is not None:
            found[name].append(rf"(?<![\w)\]>?!])\.{kind[1]}\b(?!\()|EntityKind\.{kind[1]}\b")
    return {name: re.compile("|".join(words)) for name, words in found.items()}


def main():
    others, problems = patterns(), []
    for path in sorted(SOURCES.rglob("*.swift")):
        name = str(path.relative_to(SOURCES))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r'"(?:[^"\\]|\\.)*"|//.*', "", line)
            problems += (
                f"{path}:{number}: '{found[0]}' belongs to {other}: ask the registry"
                for other, words in others.items() if other != room(path)
                for found in words.finditer(code) if not may_name(name, found[0]))
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
