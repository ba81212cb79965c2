import Countdowns

/// The tables of entities: the one list of them, beside `StoreBatch`.
struct Tables {
  /// What is in them.
  static let records: [any StoredRecord.Type] = [
    DurableCountdown.self, DurableTimer.self, DurableHUD.self, DurableGuard.self,
  ]

  private let countdowns: Table<DurableCountdown>
  private let timers: Table<DurableTimer>
  private let huds: Table<DurableHUD>
  private let guards: Table<DurableGuard>

  init(_ database: Database) throws(StoreError) {
    countdowns = try Table(database)
    timers = try Table(database)
    huds = try Table(database)
    guards = try Table(database)
  }

  /// - Parameter offset: that of the store's clock.
  func write(_ batch: StoreBatch, offset: Int64) throws(StoreError) {
    try countdowns.write(batch.countdowns, offset: offset)
    try timers.write(batch.timers, offset: offset)
    try huds.write(batch.huds, offset: offset)
    try guards.write(batch.guards, offset: offset)
  }

  /// Reads all that can be read of each table.
  static func load(_ database: Database, offset: Int64, _ reader: some RecordReader) {
    // Each by its name, so that reading a million rows is compiled for what is in them.
    load(DurableCountdown.self, database, offset, reader)
    load(DurableTimer.self, database, offset, reader)
    load(DurableHUD.self, database, offset, reader)
    load(DurableGuard.self, database, offset, reader)
  }

  @inline(__always)
  private static func load<Record: StoredRecord>(
    _: Record.Type, _ database: Database, _ offset: Int64, _ reader: some RecordReader
  ) {
    guard reader.wantsMore else { return }
    var rows: [StoredRow<Record>] = []
    rows.reserveCapacity(reader.portion)
    var failure: StoreError?
    do throws(StoreError) {
      try Table<Record>.load(database, offset: offset) { row in
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

/// Takes what is read of all tables, in portions.
package protocol RecordReader: AnyObject {
  /// Rows in a portion, at most.
  var portion: Int { get }
  /// Asked before each table.
  var wantsMore: Bool { get }

  /// By rising id. The last portion of a table may be empty.
  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>])
  /// Some of a table could not be read; what could be was taken.
  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type)
}
