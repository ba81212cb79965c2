/// A record that is a row of a table of its own. The row's id is the record's index.
protocol StoredRecord {
  static var table: String { get }
  /// In the order of parameters and of columns; the first is the id.
  static var columns: [String] { get }

  var index: UInt32 { get }

  func bind(to row: Statement)
  /// Nil if the row holds what never was written to it. Reads each value once, for the sum of the row.
  init?(row: Statement)
}

/// Where entities can be in the engine's tables.
enum StoredPlaces {
  /// Above whatever limit of entities the configuration takes.
  static let end: UInt32 = 1 << 27
}

/// The rows of one kind of entity.
final class Table<Record: StoredRecord & Sendable> {
  private let database: Database
  private let replace: Statement
  private let replaceSeveral: Statement
  private let delete: Statement

  /// So many rows are written by one statement, which sets out and finds its place in the table once for
  /// all of them: a third less of the time.
  private static var several: Int { 16 }

  init(_ database: Database) throws(StoreError) {
    self.database = database
    replace = try Statement(database, Self.replace(rows: 1))
    replaceSeveral = try Statement(database, Self.replace(rows: Self.several))
    delete = try Statement(database, "DELETE FROM \(Record.table) WHERE id = ?")
  }

  private static func replace(rows: Int) -> String {
    let row = "(" + columns.map { _ in "?" }.joined(separator: ", ") + ")"
    let all = Array(repeating: row, count: rows).joined(separator: ", ")
    return "INSERT OR REPLACE INTO \(Record.table) (\(names)) VALUES \(all)"
  }

  /// A row ends with the sum of its values.
  private static var columns: [String] { Record.columns + ["sum"] }
  private static var names: String { columns.joined(separator: ", ") }
  private static var sumColumn: Int32 { Int32(Record.columns.count) }

  /// Nil if the row is not as it was written, or makes no sense.
  private static func record(_ row: Statement) -> Record? {
    guard let record = Record(row: row), row.hasRightSum(sumColumn) else { return nil }
    return record
  }

  /// O(log n) for each.
  func write(_ changes: StoreBatch.Changes<Record>) throws(StoreError) {
    for index in changes.gone {
      delete.bind(1, Int64(index))
      try delete.run()
    }
    // In place: each copy of a record would count its references up and down.
    try changes.current.withUnsafeBufferPointer { records throws(StoreError) in
      let width = Self.sumColumn + 1
      var next = 0
      while records.count - next >= Self.several {
        for row in 0..<Self.several {
          replaceSeveral.firstParameter = Int32(row) * width
          records[next + row].bind(to: replaceSeveral)
          replaceSeveral.bindSum(width)
        }
        try replaceSeveral.run()
        next += Self.several
      }
      for record in next..<records.count {
        records[record].bind(to: replace)
        replace.bindSum(width)
        try replace.run()
      }
    }
  }

  /// By rising index. What makes no sense is left out; then, after all others, that is thrown.
  func load(_ body: (Record) -> Void) throws(StoreError) {
    let rows = try Statement(database, "SELECT \(Self.names) FROM \(Record.table) ORDER BY id")
    defer { rows.reset() }
    var nonsense: [Int64] = []
    while try rows.step() {
      if let record = Self.record(rows) { body(record) } else { nonsense.append(rows.number(0)) }
    }
    guard let first = nonsense.first else { return }
    let others = nonsense.count == 1 ? "" : ", and \(nonsense.count - 1) others,"
    throw StoreError(
      .corrupt, database.path, "row \(first) of \(Record.table)\(others) makes no sense")
  }

  /// Nil if there is none.
  func row(at index: UInt32) throws(StoreError) -> Record? {
    let row = try Statement(database, "SELECT \(Self.names) FROM \(Record.table) WHERE id = ?")
    defer { row.reset() }
    row.bind(1, Int64(index))
    guard try row.step() else { return nil }
    guard let record = Self.record(row) else {
      throw StoreError(
        .corrupt, database.path, "row \(index) of \(Record.table) makes no sense")
    }
    return record
  }

  func count() throws(StoreError) -> Int {
    Int(try database.number("SELECT count(*) FROM \(Record.table)"))
  }
}
