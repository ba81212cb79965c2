import Countdowns

/// The tables of entities. Only this file lists them.
struct Tables {
  /// The types of the records in the tables.
  static let records: [any StoredRecord.Type] = [
    DurableCountdown.self, DurableTimer.self, DurableHUD.self, DurableGuard.self,
  ]

  private let path: String
  private let countdowns: Table<DurableCountdown>
  private let timers: Table<DurableTimer>
  private let huds: Table<DurableHUD>
  private let guards: Table<DurableGuard>

  init(_ database: Database) throws(StoreError) {
    path = database.path
    countdowns = try Table(database)
    timers = try Table(database)
    huds = try Table(database)
    guards = try Table(database)
  }

  /// Writes the newest record of each entity that has changed.
  ///
  /// - Parameter segments: the segments that the changes were noted from.
  func write(_ newest: NewestChanges, _ segments: [[UInt8]]) throws(StoreError) {
    try write(newest, segments, to: countdowns)
    try write(newest, segments, to: timers)
    try write(newest, segments, to: huds)
    try write(newest, segments, to: guards)
  }

  private func write<Record: StoredRecord>(
    _ newest: NewestChanges, _ segments: [[UInt8]], to table: Table<Record>
  ) throws(StoreError) {
    var rows: [StoredRow<Record>] = []
    for kind in Record.kinds {
      try newest.forEach(of: kind) { change throws(StoreError) in
        guard let bytes = change.bytes(in: segments) else {
          return try table.remove(Record.rowID(kind, change.place))
        }
        guard let record = Record(bytes: bytes, offset: 0, mayEndEarly: true) else {
          throw StoreError(
            .corrupt, path, "the log's record of \(Record.table) \(change.place) makes no sense")
        }
        rows.append(StoredRow(record, at: change.place))
        guard rows.count == 1_024 else { return }
        try table.write(rows)
        rows.removeAll(keepingCapacity: true)
      }
    }
    try table.write(rows)
  }

  /// Reads all readable rows of each table.
  ///
  /// - Parameter log: changes in the log; their entities are skipped.
  static func load(
    _ database: Database, offset: Int64, besides log: NewestChanges, _ reader: any RecordReader
  ) {
    // One call per type, so that the compiler specializes the loop over a million rows.
    load(DurableCountdown.self, database, offset, log, reader)
    load(DurableTimer.self, database, offset, log, reader)
    load(DurableHUD.self, database, offset, log, reader)
    load(DurableGuard.self, database, offset, log, reader)
  }

  /// Reads the newest record of each entity in the log.
  static func load(_ log: LogContents, offset: Int64, _ reader: any RecordReader) {
    guard reader.wantsMore, !log.newest.isEmpty else { return }
    let countdowns = Portions<DurableCountdown>(log, offset)
    let timers = Portions<DurableTimer>(log, offset)
    let huds = Portions<DurableHUD>(log, offset)
    let guards = Portions<DurableGuard>(log, offset)
    var failure: StoreError?
    do throws(StoreError) {
      try log.forEachNewest { entry in
        guard case .current(let kind, let place, let bytes) = entry else { return }
        switch kind {
        case .countdown: countdowns.take(kind, place, bytes, reader)
        case .timer: timers.take(kind, place, bytes, reader)
        case .hud: huds.take(kind, place, bytes, reader)
        default: guards.take(kind, place, bytes, reader)
        }
      }
    } catch {
      failure = error
    }
    countdowns.end(failure, reader)
    timers.end(failure, reader)
    huds.end(failure, reader)
    guards.end(failure, reader)
  }

  @inline(__always)
  private static func load<Record: StoredRecord>(
    _: Record.Type, _ database: Database, _ offset: Int64, _ log: NewestChanges,
    _ reader: any RecordReader
  ) {
    guard reader.wantsMore else { return }
    var rows: [StoredRow<Record>] = []
    rows.reserveCapacity(reader.portion)
    var changed = NewestChanges.Search(log)
    var failure: StoreError?
    do throws(StoreError) {
      try Table<Record>.load(database, offset: offset) { (row: consuming StoredRow<Record>) in
        if changed.contains(row.record.kind, row.place) { return }
        rows.append(row)
        if rows.count == reader.portion {
          reader.take(rows)
          rows = []
          rows.reserveCapacity(reader.portion)
        }
      }
    } catch {
      failure = error
    }
    reader.take(rows)
    if let failure { reader.fail(failure, in: Record.self) }
  }
}

/// Records of the log, handed to a reader in portions.
private final class Portions<Record: StoredRecord> {
  private let path: String
  private let offset: Int64
  private var rows: [StoredRow<Record>] = []
  private var nonsense = 0

  init(_ log: LogContents, _ offset: Int64) {
    path = log.path
    self.offset = offset
  }

  func take(
    _ kind: EntityKind, _ place: UInt32, _ bytes: ArraySlice<UInt8>, _ reader: any RecordReader
  ) {
    guard place < StoredPlaces.end,
      let record = Record(bytes: bytes, offset: offset, mayEndEarly: true),
      record.kind == kind
    else {
      nonsense += 1
      return
    }
    rows.append(StoredRow(record, at: place))
    guard rows.count == reader.portion else { return }
    reader.take(rows)
    rows.removeAll()
  }

  func end(_ failure: StoreError?, _ reader: any RecordReader) {
    reader.take(rows)
    if nonsense > 0 {
      let detail = "\(nonsense) records of \(Record.table) make no sense"
      reader.fail(StoreError(.corrupt, path, detail), in: Record.self)
    } else if let failure {
      reader.fail(failure, in: Record.self)
    }
  }
}

/// Receives the records of all tables in portions.
package protocol RecordReader: AnyObject {
  /// The maximum number of rows in a portion.
  var portion: Int { get }
  /// Whether to read on; asked before each table.
  var wantsMore: Bool { get }

  /// Receives a portion of a table, by rising id, or of the log. The last one may be empty.
  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>])
  /// Reports that some rows of a table could not be read. The others were handed to `take`.
  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type)
}
