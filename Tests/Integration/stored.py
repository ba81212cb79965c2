"""Reads and changes the stored state as bytes, without the daemon's own code.

A row of `entities` has one record: its version, its key, and the fields of its kind. Each row has a
sum. After a change, `run` writes the right sums, so that only the content is wrong.
"""

import contextlib
import sqlite3
import struct

KINDS = {"countdown": 0, "hud": 1, "timer": 2, "throttle": 4, "once": 5, "gate": 6, "debounce": 7}
# The bits of a row's id that are the place.
PLACE_BITS = 32


class NothingToChange(AssertionError):
    """A change is for no row."""


def crc32c_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = tuple(crc32c_table())


def crc32c(data):
    """Returns the CRC32C (Castagnoli) of bytes."""
    table, crc = TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# Fields. A record is flat: the fields of an element of a list have its index in their names. The
# types are those of `struct`, and "text" is bytes after their length. A "?" means optional: the
# value follows a flag. "rest" is all that follows, as it is.


def pack(type, value):
    if type.endswith("?"):
        return b"\0" if value is None else b"\1" + pack(type[:-1], value)
    if type == "text":
        return struct.pack(">I", len(value)) + value
    return value if type == "rest" else struct.pack(">" + type, value)


def unpack(type, data, at):
    """Returns a value and where it ends."""
    if type.endswith("?"):
        return unpack(type[:-1], data, at + 1) if data[at] else (None, at + 1)
    if type == "rest":
        return data[at:], len(data)
    (value,) = struct.unpack_from(">" + ("I" if type == "text" else type), data, at)
    at += struct.calcsize(">" + ("I" if type == "text" else type))
    return (data[at : at + value], at + value) if type == "text" else (value, at)


class Record:
    """Bytes as named fields, which can be replaced."""

    def __init__(self, layout, data):
        self.types, self.values, self.data, self.end = {}, {}, data, 0
        layout(self.read)
        if self.end != len(data):
            raise ValueError(f"{data[self.end :]} follows {self.values}")

    def read(self, name, type):
        self.types[name] = type
        self.values[name], self.end = unpack(type, self.data, self.end)
        return self.values[name]

    def __getitem__(self, name):
        return self.values[name]

    def get(self, name):
        """Returns the value of a field, or None if this record has no such field."""
        return self.values.get(name)

    def set(self, name, value, type=None):
        """Replaces a field, or with a type also appends it."""
        self.types[name] = type or self.types[name]
        self.values[name] = value

    @property
    def bytes(self):
        return b"".join(pack(type, self.values[name]) for name, type in self.types.items())


def meta_layout(field):
    field("version", "B")
    field("product", "text")
    field("number_floor", "q")
    field("boot_id", "text")
    for name in ("boot_us", "wall_us", "store_minus_boot_us", "lineage", "folded"):
        field(name, "q")
    field("start", "I")


def tokens(field):
    for n in range(field("tokens", "I")):
        field(f"command {n}", "B")
        field(f"generation {n}", "q")
        field(f"token {n}", "text")
        field(f"at {n}", "q")
        if field.__self__["version"] >= 7:
            field(f"digest {n}", "q")
            field(f"id {n}", "q")


def countdown(field):
    field("left" if field("phase", "B") == 1 else "moment", "q")
    field("count", "I")
    field("every", "q")
    field("fires_at_once", "B")
    field("sends", "I")
    field("refunded", "B")
    field("title", "text?")
    field("ready_title", "text?")
    if field("details", "B"):
        field("meta", "text?")
        tokens(field)
        if field("sending", "B"):
            field("rest", "rest")


def timer(field):
    is_wall = field("clock", "B") == 1
    if field("paused", "B"):
        field("left", "q")
    else:
        field("deadline", "q?" if is_wall else "q")
    field("every", "q?")
    field("late", "B")
    field("fired", "q")
    field("missed", "q")
    if field.__self__["version"] >= 15:
        field("soonest", "q?")
    field("payload", "text?")


def throttle(field):
    field("burst", "I")
    field("count", "I")
    field("period", "q")
    field("arrival", "q")
    field("fraction", "I")


def once(field):
    field("deadline", "q")
    field("result", "text?")
    if field.__self__["version"] >= 16:
        if field("lease", "B"):
            field("length", "q")
            field("lease_until", "q")
        field("lapsed", "B")
        if field("fingerprint", "B"):
            field("high", "q")
            field("low", "q")


def gate(field):
    is_open = field("open", "B")
    field("until", "q?")
    if field("has_action", "B"):
        field("action", "text")
        field("payload", "text?")
        if is_open:
            field("dropped", "q")
            field("taker", "q?")


def debounce(field):
    field("quiet", "q")
    field("max_wait", "q?")
    if field.__self__["version"] >= 16:
        field("edges", "B")
        field("spacing", "q?")
        field("last_fired", "q?")
    else:
        field("leading", "B")
    field("last_call", "q")
    if field("waiting", "B"):
        field("since", "q")
        field("calls", "q")
        field("payload", "text?")


def layout(kind):
    """Returns the layout of a record of a kind."""
    parts = {each.__name__: each for each in (countdown, timer, throttle, once, gate, debounce)}

    def fields(field):
        field("version", "B")
        field("key", "text")
        if kind == "hud":
            field("uid", "I")
            return field("rest", "rest")
        field("generation", "q")
        field("uid", "I")
        owner = field("owner", "B")
        if owner == 1:
            field("connection", "q")
        elif owner:
            field("owner's key", "text")
            field("owner's place", "I")
            field("owner's generation", "q")
        parts[kind](field)
        if kind in ("throttle", "once", "gate", "debounce"):
            field("over", "B")
            tokens(field)

    return fields


# Rows.


def row_id(kind, place):
    return KINDS[kind] << PLACE_BITS | place


def records(database, kind):
    """Returns the records of a kind by their row ids, in order."""
    rows = database.execute("SELECT id, bytes FROM entities WHERE kind = ? ORDER BY id", (KINDS[kind],))
    return {id: Record(layout(kind), data) for id, data in rows.fetchall()}


def add(database, kind, place, data):
    database.execute("INSERT INTO entities (id, bytes, sum) VALUES (?, ?, 0)", (row_id(kind, place), data))


def write(database, id, record):
    database.execute("UPDATE entities SET bytes = ? WHERE id = ?", (record.bytes, id))


def meta(database):
    return Record(meta_layout, database.execute("SELECT bytes FROM meta").fetchone()[0])


def meta_of(file):
    with contextlib.closing(sqlite3.connect(file)) as database:
        return meta(database)


def query(file, sql):
    """Returns the rows that a query finds."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute(sql).fetchall()


# Changes, which return how many rows they are for.


def changed(kind, where=lambda record: True, **fields):
    """Returns a change of fields, each to a value or to a function of the old value."""

    def change(database):
        found = {id: record for id, record in records(database, kind).items() if where(record)}
        for id, record in found.items():
            for name, value in fields.items():
                record.set(name, value(record[name]) if callable(value) else value)
            write(database, id, record)
        return len(found)

    return change


def removed(kind, where):
    """Returns a change that removes records."""

    def change(database):
        found = [(id,) for id, record in records(database, kind).items() if where(record)]
        database.executemany("DELETE FROM entities WHERE id = ?", found)
        return len(found)

    return change


def change_meta(database, **fields):
    """Changes fields, as `changed` does."""
    record = meta(database)
    for name, value in fields.items():
        record.set(name, value(record[name]) if callable(value) else value)
    return database.execute("UPDATE meta SET bytes = ?", (record.bytes,)).rowcount


def write_sums(database):
    rows = database.execute("SELECT id, bytes, sum FROM entities").fetchall()
    sums = ((crc32c(struct.pack("<q", id) + data), id, sum) for id, data, sum in rows)
    database.executemany("UPDATE entities SET sum = ? WHERE id = ?", [(new, id) for new, id, old in sums if new != old])
    rows = database.execute("SELECT last_seq, after_seq, ordinal, bytes FROM events").fetchall()
    sums = ((crc32c(struct.pack("<qqq", *row[:3]) + row[3]), row[0]) for row in rows)
    database.executemany("UPDATE events SET sum = ? WHERE last_seq = ?", sums)
    database.execute("UPDATE meta SET sum = ?", (crc32c(meta(database).data),))


def run(file, *changes, keeps_sums=False):
    """Makes changes, each SQL or a function of the database, and then writes the right sums. Each
    must be for some row."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        for change in changes:
            count = change(database) if callable(change) else database.execute(change).rowcount
            if count == 0:
                raise NothingToChange(change)
        if not keeps_sums:
            write_sums(database)
        database.commit()
