import Wire

/// A part of the journal, as it is on the disk.
package struct JournalPart: Sendable {
  /// Where the bytes begin, and where to read on: positions in all that was ever kept.
  package var position: Int64
  package var next: Int64
  /// Where the segment of the bytes begins.
  package var segment: Int64
  package var bytes: [UInt8]
  /// At the end: how many entries after it are lost.
  package var lost: Int

  package init(position: Int64, next: Int64, segment: Int64, bytes: [UInt8], lost: Int) {
    self.position = position
    self.next = next
    self.segment = segment
    self.bytes = bytes
    self.lost = lost
  }
}

extension JournalPart: FieldRecord {
  package static var blank: JournalPart {
    JournalPart(position: 0, next: 0, segment: 0, bytes: [], lost: 0)
  }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "position", position, .count, "Where the bytes begin: later if those were removed.")
    writer.field("next", next, .count, "Where to read on.")
    writer.field("segment", segment, .count, "Where the segment of the bytes begins.")
    writer.field(
      "bytes", bytes: bytes, .bytes(), "What `countdownctl journal` and `policy replay` read.")
    writer.field(
      "lost", Int64(lost), .count, "At the end: how many entries after it are lost; else 0.")
  }
}

let journalCommands: [CommandSpec] = [
  CommandSpec(
    "JOURNAL", "READ",
    [
      Parameter("position", .count, "Where to read; 0 for the oldest entry."),
      .maximumBytes,
    ], group: .server, [.admin, .unlogged],
    complexity: "O(count)",
    "Read bytes of the journal of decisions, of one segment; none at its end.",
    .value(.record("journal-part", JournalPart.fields))
  ) { call throws(CommandError) in
    let (position, count) = try call.part("position", at: 2)
    let part = try call.ask { host throws(StateError) in
      try host.readJournal(at: position, count: count)
    }
    call.session.output.record(part, for: call.session.rights)
  }
]
