import Countdowns

/// The rows of one table: an id, the values of a record, and a sum of both.
final class Table<Record: StoredRecord> {
  private let database: Database
  private let replace: Statement
  private let replaceSeveral: Statement
  private let delete: Statement
  /// The number of columns in a row.
  private let width: Int32

  /// How many rows one statement writes: it prepares and finds its place in the table once for all
  /// of them, which saves a third of the time.
  private static var several: Int { 16 }

  init(_ database: Database) throws(StoreError) {
    self.database = database
    let columns = Self.columns
    width = Int32(columns.count)
    func insert(rows: Int) -> String {
      let row = "(" + columns.map { _ in "?" }.joined(separator: ", ") + ")"
      let all = Array(repeating: row, count: rows).joined(separator: ", ")
      let names = columns.joined(separator: ", ")
      return "INSERT OR REPLACE INTO \(Record.table) (\(names)) VALUES \(all)"
    }
    replace = try Statement(database, insert(rows: 1))
    replaceSeveral = try Statement(database, insert(rows: Self.several))
    delete = try Statement(database, "DELETE FROM \(Record.table) WHERE id = ?")
  }

  private static var columns: [String] { ["id"] + Record.columns + ["sum"] }

  // MARK: Writing

  /// Removes a row. O(log n).
  func remove(_ id: UInt32) throws(StoreError) {
    delete.bind(1, Int64(id))
    try delete.run()
  }

  /// Writes rows, fastest by rising id. O(log n) each.
  func write(_ rows: [StoredRow<Record>]) throws(StoreError) {
    // Read in place: copying a record would change reference counts.
    let rows = rows.span
    var next = 0
    while rows.count - next >= Self.several {
      for row in 0..<Self.several {
        replaceSeveral.firstParameter = Int32(row) * width
        bind(rows[next + row], to: replaceSeveral)
      }
      try replaceSeveral.run()
      next += Self.several
    }
    for row in next..<rows.count {
      bind(rows[row], to: replace)
      try replace.run()
    }
  }

  @inline(__always)
  private func bind(_ row: StoredRow<Record>, to statement: Statement) {
    statement.bind(1, Int64(row.id))
    row.record.write(to: statement, offset: 0)
    statement.bindSum(width)
  }

  // MARK: Reading

  /// Reads the rows by rising id. Skips invalid rows, and throws at the end if there were any.
  static func load(
    _ database: Database, offset: Int64, _ body: (consuming StoredRow<Record>) -> Void
  ) throws(StoreError) {
    let names = columns.joined(separator: ", ")
    let rows = try Statement(database, "SELECT \(names) FROM \(Record.table) ORDER BY id")
    let width = Int32(columns.count)
    defer { rows.reset() }
    var nonsense: [Int64] = []
    while try rows.step() {
      if let row = read(rows, width, offset) { body(row) } else { nonsense.append(rows.number(0)) }
    }
    guard let first = nonsense.first else { return }
    let others = nonsense.count == 1 ? "" : ", and \(nonsense.count - 1) others,"
    throw StoreError(
      .corrupt, database.path, "row \(first) of \(Record.table)\(others) makes no sense")
  }

  /// Returns nil if the row was changed after it was written, or is invalid.
  @inline(__always)
  private static func read(_ row: Statement, _ width: Int32, _ offset: Int64) -> StoredRow<Record>?
  {
    let id = row.number(0)
    guard let record = Record(from: row, offset: offset), let entity = Record.entity(ofRow: id),
      entity.kind == record.kind, row.hasRightSum(width - 1)
    else { return nil }
    return StoredRow(record, id: UInt32(id))
  }
}

/// Fields come after the id, which is the first parameter and the first column.
extension Statement: StoredColumns {
  func write(_ value: Int64, _ field: Int32) { bind(field + 1, value) }
  func write(_ value: Int64?, _ field: Int32) { bind(field + 1, value) }
  func write(_ value: [UInt8], _ field: Int32) { bind(field + 1, value) }
  func write(_ value: [UInt8]?, _ field: Int32) { bind(field + 1, value) }
}
