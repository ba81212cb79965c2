import CSQLite
import Countdowns

/// The table of entities: a row has the record of one, as it is in the log, and its sum.
///
/// A row's id is the entity's kind and slot: no other index is needed, new rows are mostly
/// appended, and each change finds its row directly.
final class EntityRows {
  private let replace: Statement
  private let delete: Statement

  init(_ database: Database) throws(StoreError) {
    replace = try Statement(
      database, "INSERT OR REPLACE INTO entities (id, bytes, sum) VALUES (?, ?, ?)")
    delete = try Statement(database, "DELETE FROM entities WHERE id = ?")
  }

  private static let slotBits: Int64 = 32

  static func id(_ kind: EntityKind, _ slot: UInt32) -> Int64 {
    Int64(kind.rawValue) << slotBits | Int64(slot)
  }

  /// Returns the entity of a row; nil if no stored entity can have this id.
  static func entity(ofRow id: Int64) -> (kind: EntityKind, slot: UInt32)? {
    guard let number = UInt8(exactly: id >> slotBits), let kind = EntityKind(rawValue: number),
      kind.canBeDurable, let slot = UInt32(exactly: id & (1 << slotBits - 1)),
      slot < StoredSlots.end
    else { return nil }
    return (kind, slot)
  }

  // MARK: Writing

  /// Writes the newest record of each entity that has changed, and removes those that have ended.
  /// O(log n) each.
  ///
  /// - Parameter segments: the segments that the changes were noted from.
  func write(_ newest: NewestChanges, _ segments: [[UInt8]]) throws(StoreError) {
    try newest.forEachChange { (change) throws(StoreError) in
      let id = Self.id(change.kind, change.slot)
      guard let bytes = change.bytes(in: segments) else {
        delete.bind(1, id)
        return try delete.run()
      }
      replace.bind(1, id)
      replace.bind(2, bytes)
      replace.bind(3, Int64(CRC32C.checksum(bytes.span, after: CRC32C.checksum(of: id))))
      try replace.run()
    }
  }

  // MARK: Reading

  /// Reads the rows by rising id, in portions. Skips damaged rows, and throws at the end if there
  /// were any; throws at once if another version has written one.
  ///
  /// - Parameter log: changes in the log; their entities are skipped.
  static func load(
    _ database: Database, besides log: NewestChanges, _ reader: any EntityReader
  ) throws(StoreError) {
    let rows = try Statement(database, "SELECT id, bytes, sum FROM entities ORDER BY id")
    defer { rows.reset() }
    var changed = NewestChanges.Search(log)
    var portion = Portion(reader)
    // Also what was read before a page that cannot be read.
    defer { portion.end() }
    var damaged = DamagedRecords("row")
    while try rows.step() {
      let id = rows.number(0)
      let bytes = rows.borrowedBytes(1)
      guard let (kind, slot) = entity(ofRow: id),
        rows.number(2) == Int64(CRC32C.checksum(bytes, after: CRC32C.checksum(of: id)))
      else {
        damaged.note(id: id)
        continue
      }
      if changed.contains(kind, slot) { continue }
      try checkVersion(bytes, database)
      portion.append(kind, slot, bytes)
    }
    if let problem = damaged.description {
      throw StoreError(.corrupt, database.path, problem)
    }
  }

  /// Reads the newest record of each entity in the log, like `load`.
  static func load(
    _ log: LogContents, _ database: Database, _ reader: any EntityReader
  ) throws(StoreError) {
    guard !log.newest.isEmpty else { return }
    var portion = Portion(reader)
    defer { portion.end() }
    var failure: StoreError?
    try log.forEachNewest { entry in
      guard case .current(let kind, let slot, let bytes) = entry, failure == nil else { return }
      do throws(StoreError) {
        try checkVersion(bytes.span, database)
        portion.append(kind, slot, bytes.span)
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
  }

  /// Throws if a program that knows another version of records has written this one.
  private static func checkVersion(
    _ record: Span<UInt8>, _ database: Database
  ) throws(StoreError) {
    guard let version = EntityRecord.version(of: record), !EntityRecord.isKnown(version) else {
      return
    }
    throw .newerSchema(
      found: Int(version), known: Int(EntityRecord.version), of: "records", database)
  }

  /// Collects records, and hands them to a reader.
  private struct Portion {
    private let reader: any EntityReader
    private var entities = StoredEntities()

    init(_ reader: any EntityReader) { self.reader = reader }

    mutating func append(_ kind: EntityKind, _ slot: UInt32, _ record: Span<UInt8>) {
      entities.append(kind, slot, record)
      if entities.count == reader.portion { end() }
    }

    mutating func end() {
      if entities.count > 0 { reader.take(entities) }
      entities = StoredEntities()
    }
  }
}

/// Names the first of many damaged records, and counts the others.
package struct DamagedRecords {
  private let what: String
  private var first = ""
  private var count = 0

  package init(_ what: String) { self.what = what }

  package mutating func note(_ kind: EntityKind, _ slot: UInt32) { note("\(kind.name) \(slot)") }

  mutating func note(id: Int64) {
    if let (kind, slot) = EntityRows.entity(ofRow: id) { note(kind, slot) } else { note("\(id)") }
  }

  private mutating func note(_ name: String) {
    if count == 0 { first = name }
    count += 1
  }

  package var description: String? {
    switch count {
    case 0: nil
    case 1: "\(what) \(first) makes no sense"
    default: "\(what) \(first) and \(count - 1) more make no sense"
    }
  }
}

/// Receives the records of stored entities, in portions.
package protocol EntityReader: AnyObject {
  /// The most records in a portion.
  var portion: Int { get }

  /// Receives a portion, by rising kind and slot, or from the log.
  func take(_ entities: StoredEntities)
}
