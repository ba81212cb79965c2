import Wire

/// Writes the changes of a batch as they are stored: a series of entries, which have the same
/// result however often they are applied in order. See docs/explanation/durability.md.
package final class ChangeWriter {
  private var writer: StateWriter

  /// - Parameter offset: the store's clock is this many microseconds ahead of the boot clock.
  package init(offset: Int64) { writer = StateWriter(offset: offset) }

  package var bytes: [UInt8] { writer.bytes }
  package var isEmpty: Bool { writer.bytes.isEmpty }

  /// Begins the next batch in the same memory.
  package func removeAll() {
    // Releases the memory of a burst.
    writer.removeAll(keepingCapacity: writer.bytes.count <= 1 << 20)
  }

  /// Appends the current state of an entity.
  ///
  /// - Parameter state: not changed. (A copy would retain and release its references.)
  @inline(__always)
  func append<K: Kind>(
    _ kind: K.Type, _ key: Span<UInt8>, _ state: inout K.State, at slot: UInt32
  ) {
    begin(K.kind.rawValue, slot)
    writer.measured { K.write(key, &state, to: &$0) }
  }

  /// Appends the current state of an entity, whose record `body` writes.
  ///
  /// - Parameter maximum: the most bytes that `body` writes.
  @inline(__always)
  func append(
    _ kind: EntityKind, at slot: UInt32, atMost maximum: Int, _ body: (inout ShortText) -> Void
  ) {
    begin(kind.rawValue, slot)
    writer.measured(atMost: maximum, body)
  }

  /// Appends a record that `body` writes.
  func append(_ kind: EntityKind, at slot: UInt32, _ body: (inout StateWriter) -> Void) {
    begin(kind.rawValue, slot)
    writer.measured(body)
  }

  /// The store's clock is this many microseconds ahead of the boot clock.
  package var offset: Int64 { writer.offset }

  /// Appends the removal of an entity.
  package func appendGone(_ kind: EntityKind, at slot: UInt32) {
    begin(kind.rawValue | Entry.gone, slot)
  }

  private func begin(_ tag: UInt8, _ slot: UInt32) {
    var tag = tag
    writer.field("tag", &tag)
    writer.integer(slot)
  }

  /// Appends events, which are newer than all events stored before.
  ///
  /// - Parameter sequence: after the events stored before, events up to this number may be missing.
  package func append(_ events: EventLog.Portion, missingThrough sequence: Int64) {
    var tag = Entry.events
    writer.field("tag", &tag)
    writer.integer(events.lastSequence)
    writer.integer(sequence)
    writer.integer(UInt32(events.count))
    writer.text(events.bytes)
  }

  /// Appends the state of the clocks.
  package func append(clocks: [UInt8]) {
    var tag = Entry.clocks
    writer.field("tag", &tag)
    writer.text(clocks)
  }

  fileprivate enum Entry {
    static let gone: UInt8 = 0x80
    static let events: UInt8 = 0x40
    static let clocks: UInt8 = 0x41
  }
}

/// An entry of a batch.
package enum ChangeEntry {
  case current(EntityKind, slot: UInt32, ArraySlice<UInt8>)
  case gone(EntityKind, slot: UInt32)
  case events(EventLog.Portion, missingThrough: Int64)
  case clocks([UInt8])

  /// Calls `body` with each entry of a batch. Returns false at the first malformed entry; `body`
  /// has then received the entries before it.
  ///
  /// - Parameter ofAllKinds: whether to accept kinds that are never stored.
  package static func forEach(
    of batch: ArraySlice<UInt8>, ofAllKinds: Bool = false, _ body: (ChangeEntry) -> Void
  ) -> Bool {
    var reader = StateReader(batch, offset: 0)
    while reader.bytesLeft > 0 {
      var tag: UInt8 = 0
      reader.field("tag", &tag)
      switch tag {
      case ChangeWriter.Entry.events:
        var (last, missing, count, bytes) = (Int64(0), Int64(0), UInt32(0), [UInt8]())
        reader.field("last_seq", &last)
        reader.field("missing_through", &missing)
        reader.field("count", &count)
        reader.field("events", &bytes)
        guard !reader.hasFailed else { return false }
        let events = EventLog.Portion(lastSequence: last, count: Int(count), bytes: bytes)
        body(.events(events, missingThrough: missing))
      case ChangeWriter.Entry.clocks:
        var bytes: [UInt8] = []
        reader.field("clocks", &bytes)
        guard !reader.hasFailed else { return false }
        body(.clocks(bytes))
      default:
        var slot: UInt32 = 0
        reader.field("place", &slot)
        guard let kind = EntityKind(rawValue: tag & ~ChangeWriter.Entry.gone),
          ofAllKinds || kind.canBeDurable
        else { return false }
        if tag & ChangeWriter.Entry.gone != 0 {
          guard !reader.hasFailed else { return false }
          body(.gone(kind, slot: slot))
        } else {
          let bytes = reader.measured()
          guard !reader.hasFailed else { return false }
          body(.current(kind, slot: slot, bytes))
        }
      }
    }
    return !reader.hasFailed
  }
}
