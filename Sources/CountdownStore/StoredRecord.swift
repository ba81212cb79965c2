/// A record that is a row of a table of its own. The row's id is the record's index.
protocol StoredRecord {
  static var table: String { get }
  /// In the order of parameters and of columns; the first is the id.
  static var columns: [String] { get }

  var index: UInt32 { get }

  func bind(to row: Statement)
  /// Nil if the row holds what never was written to it.
  init?(row: Statement)
}

/// The rows of one kind of entity.
final class Table<Record: StoredRecord & Sendable> {
  private let database: Database
  private let replace: Statement
  private let delete: Statement

  init(_ database: Database) throws(StoreError) {
    self.database = database
    let names = Record.columns.joined(separator: ", ")
    let values = Record.columns.map { _ in "?" }.joined(separator: ", ")
    replace = try Statement(
      database, "INSERT OR REPLACE INTO \(Record.table) (\(names)) VALUES (\(values))")
    delete = try Statement(database, "DELETE FROM \(Record.table) WHERE id = ?")
  }

  /// O(log n) for each.
  func write(_ changes: StoreBatch.Changes<Record>) throws(StoreError) {
    for index in changes.gone {
      delete.bind(1, Int64(index))
      try delete.run()
    }
    for record in changes.current {
      record.bind(to: replace)
      try replace.run()
    }
  }

  /// By rising index.
  func load(_ body: (Record) -> Void) throws(StoreError) {
    let names = Record.columns.joined(separator: ", ")
    let rows = try Statement(database, "SELECT \(names) FROM \(Record.table) ORDER BY id")
    defer { rows.reset() }
    while try rows.step() {
      guard let record = Record(row: rows) else {
        throw StoreError(
          .corrupt, database.path, "row \(rows.number(0)) of \(Record.table) makes no sense")
      }
      body(record)
    }
  }

  /// Nil if there is none.
  func row(at index: UInt32) throws(StoreError) -> Record? {
    let names = Record.columns.joined(separator: ", ")
    let row = try Statement(database, "SELECT \(names) FROM \(Record.table) WHERE id = ?")
    defer { row.reset() }
    row.bind(1, Int64(index))
    guard try row.step() else { return nil }
    guard let record = Record(row: row) else {
      throw StoreError(
        .corrupt, database.path, "row \(index) of \(Record.table) makes no sense")
    }
    return record
  }

  func count() throws(StoreError) -> Int {
    Int(try database.number("SELECT count(*) FROM \(Record.table)"))
  }
}
