"""Each command over the real socket, in both versions of the protocol: the transcripts in commands/.

A line of a transcript is a command; `x*9` is a word of nine letters, and `%` begins a line of the
configuration. Behind ` → ` or below it is what the daemon replies. A view shows what differs from the one before
that has the same key, and `!` begins an event of the event log. Generations are numbered in the
order in which they appear (`#1`), a connection is `#`, and moments are shown as milliseconds
from now. Time is virtual.

UPDATE=1 writes the transcripts: read the difference before you commit it.
"""

import codecs
import json
import os
import pathlib
import re
import shlex
import textwrap

import pytest

from countdownd import ANY, Error, view

# Its number depends on how often the test has asked the daemon before.
CONNECTION = re.compile(rb"connection:\d+")
TRANSCRIPTS = sorted((pathlib.Path(__file__).parent / "commands").glob("*.txt"))


def words_of(line):
    for word in shlex.split(line.replace("\\", "\\\\")):
        repeated = re.fullmatch(r"(.)\*(\d+)", word)
        word = repeated[1] * int(repeated[2]) if repeated else word
        yield codecs.escape_decode(word.encode())[0] if "\\" in word else word


def in_resp2(value):
    """Returns a reply of RESP3 as RESP2 has it."""
    match value:
        case bool():
            return int(value)
        case float():
            return repr(value).encode()
        case dict():
            return [in_resp2(each) for pair in value.items() for each in pair]
        case list():
            return [in_resp2(each) for each in value]
    return value


class Numbers(dict):
    """Numbers the generations and ids of one daemon in the order in which they appear."""

    def __missing__(self, generation):
        self[generation] = f"#{len(self) + 1}"
        return self[generation]

    def in_command(self, word):
        return next((str(known) for known, number in self.items() if number == word), word)

    def in_reply(self, reply):
        """Returns a reply of RESP2 without what differs between two daemons."""
        match reply:
            case Error():
                return re.sub(r"\b\d{16}\b", lambda found: self[int(found[0])], reply)
            case list():
                return [self.named(*pair) for pair in zip([None, *reply], reply)]
            case bytes() if CONNECTION.fullmatch(reply):
                return b"connection:#"
            # The cursor of a tree.
            case bytes() if re.fullmatch(rb"\d{16,}", reply):
                return "#"
        return reply

    def named(self, name, value):
        if name in (b"generation", b"id"):
            return self[value]
        return name if name in (b"now_unix_ms", b"deadline_unix_ms") and value else self.in_reply(value)


class Transcript:
    def __init__(self, daemons):
        self.resp2, self.resp3 = daemons[0].connect(), daemons[1].connect(protocol=3)
        self.numbers2, self.numbers3, self.views = Numbers(), Numbers(), {}
        self.sequence = self.resp3("EVENTS", "LAST")

    def play(self, line):
        """Yields the line with what the daemon replies to it, and the events that follow."""
        words = list(words_of(line))
        reply = self.resp3.either(ANY, *map(self.numbers3.in_command, words))
        other = self.resp2.either(ANY, *map(self.numbers2.in_command, words))
        # A client of RESP2 handles no events until it subscribes.
        if words[0] != "CLOCK" and words[:2] != ["SCOPE", "EMIT"]:
            assert self.numbers3.in_reply(in_resp2(reply)) == self.numbers2.in_reply(other), line
        shown = list(self.shown(reply)) if words[0] != "CLOCK" else []
        if shown and len(together := f"{line} → {shown[0]}") <= 100:
            line, shown = together, shown[1:]
        yield line
        yield from (f"    {text}" for text in shown)
        for _, line in view(self.resp3("EVENTS", "SINCE", self.sequence))["events"]:
            event = json.loads(line)
            self.sequence, reason = event["seq"], event.get("reason")
            name = f"! {event['event']} {event['key'][:80]}"
            yield f"    {name}: {reason}" if reason else f"    {name}"

    def shown(self, value):
        match value:
            case dict():
                fields = self.fields(view(value))
                before = self.views.get(fields.get("key"), {})
                self.views[fields.get("key")] = {**before, **fields}
                changed = [f"{name}={text}" for name, text in fields.items() if before.get(name) != text]
                lines = textwrap.wrap(" ".join(changed), 96, break_long_words=False)
                yield from lines or ["(the same)"]
            case [cursor, [*views]] if views and isinstance(views[0], dict):
                yield f"{cursor.decode() if cursor == b'0' else 'more'}: {len(views)} views"
                for each in views[:3]:
                    yield from self.shown(each)
            case _:
                yield from textwrap.wrap(self.text(value), 96) or [""]

    def fields(self, shown):
        now, left = shown.pop("now_unix_ms", None), shown.get("remaining_ms")
        if shown.get("deadline_unix_ms") is not None:
            # Rounded up before it is reached, and down afterwards.
            ahead = shown["deadline_unix_ms"] - now
            shown["deadline_unix_ms"] = f"+{ahead - (ahead - 1 == left)}".replace("+-", "-")
        return {name: self.text(value, name) for name, value in shown.items()}

    def text(self, value, name=None):
        match value:
            case None:
                return "null"
            case bool():
                return str(value).lower()
            case Error():
                text, _, _ = self.numbers3.in_reply(value).partition("; usage: ")
                return f"({text})"
            case bytes():
                text = CONNECTION.sub(b"connection:#", value).decode(errors="replace")
                text = text if text.isprintable() and "\ufffd" not in text else repr(value)[2:-1]
                text = text if len(text) < 100 else f"{text[:8]}… ({len(value)} bytes)"
                return f'"{text}"' if " " in text or not text else text
            case list():
                return f"[{', '.join(self.text(each) for each in value)}]"
            case dict():
                pairs = self.fields(view(value)).items()
                told = [f"{name}: {text}" for name, text in pairs if text not in ("null", "none", "false")]
                return f"{{{', '.join(told)}}}"
            case int() if name in ("generation", "id"):
                return self.numbers3[value]
        return str(value)


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_replies_are_as_in_the_transcript(start_daemon, file):
    expected = file.read_text().splitlines()
    config = "\n".join(line[2:] for line in expected if line.startswith("% "))
    transcript = Transcript([start_daemon(virtual_time=True, config=config) for _ in range(2)])
    found = []
    for line in expected:
        if not line or line.startswith(("#", "%")):
            found.append(line)
        elif not line.startswith(" "):
            found += transcript.play(line.partition(" → ")[0])
    if os.environ.get("UPDATE"):
        file.write_text("\n".join(found) + "\n")
    else:
        assert found == expected


def test_every_command_of_a_kind_is_in_a_transcript(start_daemon):
    families = {file.stem: file.read_text() for file in TRANSCRIPTS}
    docs = view(start_daemon().connect(protocol=3)("COMMAND", "DOCS"))
    assert families
    for family, text in families.items():
        for name in view(docs[family])["subcommands"]:
            command = name.decode().upper().replace("|", " ")
            assert command.endswith(" HELP") or re.search(rf"(?m)^{command}\b", text), command
