import Memory

/// The state of an entity: everything that makes its future, owner included.
///
/// Each kind describes it once, and the same bytes are a change in the log, a row of the
/// checkpoint, a record of the fleet, and what another process continues with. Which entities are
/// stored is another question: see `Durability.swift`.
package protocol EntityState {
  /// Returns a state with this key, whose other fields reading replaces.
  static func blank(_ key: Span<UInt8>) -> Self

  var generation: Generation { get }
  /// The lowest version of records that has everything of this state.
  var format: UInt8 { get }

  /// Visits each field once, always in the same order, without the key. Another order or another
  /// field is another format, which `format` tells apart.
  mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor)
}

extension EntityState {
  /// A state with an empty key.
  static var blank: Self { blank([UInt8]().span) }

  package var format: UInt8 { EntityRecord.plain }
}

/// The bytes of an entity: a version, the key, the state.
package enum EntityRecord {
  /// The highest version that this program knows. It reads all versions from 1 to this one, and
  /// writes the lowest that has everything, so that an older program reads what it can know.
  package static let version: UInt8 = 16
  /// A state without anything of the other versions.
  package static let plain: UInt8 = 1
  /// A state with limits or lockouts.
  package static let extended: UInt8 = 2
  /// Not an entity: some of the sends of a named limit.
  package static let sends: UInt8 = 3
  /// A state with what a fleet notes of limits.
  package static let shared: UInt8 = 4
  /// Like `sends` and `shared`, with sends that took several units at once.
  package static let countedSends: UInt8 = 5
  package static let countedShared: UInt8 = 6
  /// A state with everything of the versions before, and with what tokens stand for.
  package static let complete: UInt8 = 7
  /// The same of a limit whose sends are in its record.
  package static let completeShared: UInt8 = 8
  /// A countdown that was paused while it waited for its limits.
  package static let pausedWait: UInt8 = 9
  /// A countdown whose codes were tried at once.
  package static let triedAtOnce: UInt8 = 10
  /// A countdown whose policy bounds more than its sends: guesses, refunds, attempts by limits.
  package static let bounded: UInt8 = 11
  /// Like `completeShared` and `countedSends`, with what REFUND has given back of each send.
  package static let refundedShared: UInt8 = 12
  package static let refundedSends: UInt8 = 13
  /// A countdown with sends that only its limits still count.
  package static let past: UInt8 = 14
  /// A repeating timer of the wall clock, which notices that the clock was set back.
  package static let repeatsOnWall: UInt8 = 15
  /// An idempotency key with a lease or a fingerprint, or a debouncer with SPACING or one edge.
  package static let leased: UInt8 = 16

  package static func isKnown(_ version: UInt8) -> Bool { (plain...self.version).contains(version) }
  package static func isSends(_ version: UInt8?) -> Bool {
    version == sends || version == countedSends || version == refundedSends
  }
  static func isShared(_ version: UInt8) -> Bool {
    version == shared || version == countedShared || version == completeShared
      || version == refundedShared
  }
  static func hasPeriods(_ version: UInt8) -> Bool { version >= repeatsOnWall }
  static func hasCounts(_ version: UInt8) -> Bool { version >= countedSends }
  /// Whether the sends of a limit say what was given back of them.
  static func hasRefunds(_ version: UInt8) -> Bool { version >= refundedShared }
  /// Whether the sends of a countdown have shares of limits.
  static func hasShares(_ version: UInt8) -> Bool { version == shared || version >= complete }

  /// Why a record cannot be restored. The engine is unchanged.
  package enum Problem: Error, Equatable {
    /// The bytes are no record, or its fields contradict each other or what is there already.
    case damaged
    /// A program that knows another version has written it.
    case otherVersion(UInt8)
  }

  /// Returns the version of a record; nil for an empty one.
  package static func version(of record: Span<UInt8>) -> UInt8? {
    record.isEmpty ? nil : record[0]
  }

  /// The length of the longest key, in bytes.
  package static let longestKey = 512

  /// The number of bytes before the key: the version, and the length of the key.
  static let headerLength = 1 + 4

  /// Returns the key of a record, as a range of its bytes; nil if it has none.
  package static func key(of record: Span<UInt8>) -> Range<Int>? {
    guard record.count >= headerLength else { return nil }
    let count = Int(
      UInt32(
        bigEndian: unsafe record.bytes.unsafeLoadUnaligned(fromByteOffset: 1, as: UInt32.self)))
    guard count > 0, count <= longestKey, count <= record.count - headerLength else {
      return nil
    }
    return headerLength..<headerLength + count
  }
}

extension Kind {
  /// Writes the record of an entity.
  @inline(__always)
  static func write(_ key: Span<UInt8>, _ state: inout State, to writer: inout StateWriter) {
    writer.format = state.format
    writer.integer(writer.format)
    writer.text(key)
    state.state(&writer)
  }

  /// Restores an entity from its record. Its slot and key must be free.
  ///
  /// - Parameter offset: the clock of the record is this many microseconds ahead of the boot clock.
  static func restore(
    _ record: ArraySlice<UInt8>, at index: UInt32, offset: Int64, in engine: Engine, at now: Moment
  ) throws(EntityRecord.Problem) {
    try restoreEntity(record, at: index, offset: offset, in: engine, at: now)
  }

  static func restoreEntity(
    _ record: ArraySlice<UInt8>, at index: UInt32, offset: Int64, in engine: Engine, at now: Moment
  ) throws(EntityRecord.Problem) {
    if let version = record.first, !EntityRecord.isKnown(version) || EntityRecord.isSends(version) {
      throw .otherVersion(version)
    }
    guard let range = EntityRecord.key(of: record.span) else { throw .damaged }
    let key = record.span.extracting(range)
    var reader = StateReader(record.dropFirst(range.upperBound), offset: offset)
    reader.format = record.first!
    var state = State.blank(key)
    state.state(&reader)
    guard !reader.hasFailed, reader.bytesLeft == 0, index < KeyIndex.maximumEntries,
      store(of: engine).isFree(index), store(of: engine).find(key) == nil,
      restore(key, state, at: index, in: engine, at: now)
    else { throw .damaged }
  }
}

/// Records of entities, as they are handed from the store to the engine.
package struct StoredEntities: Sendable {
  package struct Entry: Sendable {
    package let kind: EntityKind
    package let slot: UInt32
    /// Where the record ends; it begins where the one before ends.
    fileprivate let end: Int
  }

  package private(set) var entries: [Entry] = []
  private var bytes: [UInt8] = []

  package init() {}

  package var count: Int { entries.count }

  package mutating func append(_ kind: EntityKind, _ slot: UInt32, _ record: Span<UInt8>) {
    bytes.append(atMost: record.count) { $0.raw(record) }
    entries.append(Entry(kind: kind, slot: slot, end: bytes.count))
  }

  package func record(_ index: Int) -> ArraySlice<UInt8> {
    bytes[(index == 0 ? 0 : entries[index - 1].end)..<entries[index].end]
  }
}

extension Engine {
  /// Restores stored entities at their slots, at a start. Entities of kinds that a fleet shares
  /// stay in the store, for a later start without a fleet.
  ///
  /// - Returns: the entities that cannot be restored, for example because their key is taken.
  package func restore(_ entities: StoredEntities, offset: Int64, at now: Moment)
    -> [StoredEntities.Entry]
  {
    var refused: [StoredEntities.Entry] = []
    var next = 0
    // The clock may have been set back meanwhile.
    defer { wallClock.wasSetBack() }
    while next < entities.count {
      let kind = entities.entries[next].kind
      var end = next + 1
      while end < entities.count, entities.entries[end].kind == kind { end += 1 }
      if !context.copiedKinds.contains(kind) {
        kind.behavior.restore(
          entities, next..<end, offset: offset, in: self, at: now, &refused)
      } else {
        // What is no entity moves with one.
        context.copies?.hiddenCount += (next..<end).count {
          !EntityRecord.isSends(entities.record($0).first)
        }
      }
      next = end
    }
    return refused
  }
}

extension Kind {
  static func restore(
    _ entities: StoredEntities, _ range: Range<Int>, offset: Int64, in engine: Engine,
    at now: Moment, _ refused: inout [StoredEntities.Entry]
  ) {
    for index in range {
      if index + 1 < range.upperBound {
        store(of: engine).prepare(record: entities.record(index + 1).span)
      }
      guard !isDropped(entities.record(index), at: entities.entries[index].slot, in: engine)
      else { continue }
      do throws(EntityRecord.Problem) {
        try restore(
          entities.record(index), at: entities.entries[index].slot, offset: offset, in: engine,
          at: now)
      } catch {
        refused.append(entities.entries[index])
      }
    }
  }
}
