/// A row of a database table. Fields are numbered from 1; column 0 is the id.
///
/// The database is in another module. This protocol connects it with the descriptions of records,
/// which are compiled together with their visitors.
package protocol StoredColumns: AnyObject {
  func write(_ value: Int64, _ field: Int32)
  func write(_ value: Int64?, _ field: Int32)
  func write(_ value: [UInt8], _ field: Int32)
  func write(_ value: [UInt8]?, _ field: Int32)

  func number(_ field: Int32) -> Int64
  func optionalNumber(_ field: Int32) -> Int64?
  func bytes(_ field: Int32) -> [UInt8]
  func optionalBytes(_ field: Int32) -> [UInt8]?
}

extension StoredRecord {
  /// The names of the table's columns, without the id.
  package static var columns: [String] {
    var names = ColumnNames()
    var blank = Self.blank
    blank.fields(&names)
    return names.names
  }

  package func write(to row: any StoredColumns, offset: Int64) {
    var writer = ColumnWriter(row: row, offset: offset)
    var record = self
    record.fields(&writer)
  }

  package init?(from row: any StoredColumns, offset: Int64) {
    var reader = ColumnReader(row: row, offset: offset)
    self = .blank
    fields(&reader)
    if reader.hasFailed { return nil }
  }
}

private struct ColumnNames: StorageVisitor {
  static var isReading: Bool { false }
  var names: [String] = []
  var offset: Int64 { 0 }
  var hasFailed: Bool { false }

  mutating func fail() {}

  mutating func field(_ name: StaticString, _ value: inout Int64) { note(name) }
  mutating func field(_ name: StaticString, _ value: inout Int64?) { note(name) }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]) { note(name) }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]?) { note(name) }

  private mutating func note(_ name: StaticString) { names.append(name.description) }
}

private struct ColumnWriter: StorageVisitor {
  static var isReading: Bool { false }
  let row: any StoredColumns
  let offset: Int64
  var hasFailed: Bool { false }
  private var fields: Int32 = 0

  init(row: any StoredColumns, offset: Int64) {
    self.row = row
    self.offset = offset
  }

  mutating func fail() {}

  mutating func field(_ name: StaticString, _ value: inout Int64) { row.write(value, next()) }
  mutating func field(_ name: StaticString, _ value: inout Int64?) { row.write(value, next()) }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]) { row.write(value, next()) }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]?) { row.write(value, next()) }

  private mutating func next() -> Int32 {
    fields += 1
    return fields
  }
}

/// Reads the columns of a row, beginning with the second.
package struct ColumnReader: StorageVisitor {
  package static var isReading: Bool { true }
  private let row: any StoredColumns
  package let offset: Int64
  package private(set) var hasFailed = false
  private var fields: Int32 = 0

  package init(row: any StoredColumns, offset: Int64) {
    self.row = row
    self.offset = offset
  }

  package mutating func fail() { hasFailed = true }

  package mutating func field(_ name: StaticString, _ value: inout Int64) {
    value = row.number(next())
  }

  package mutating func field(_ name: StaticString, _ value: inout Int64?) {
    value = row.optionalNumber(next())
  }

  package mutating func field(_ name: StaticString, _ value: inout [UInt8]) {
    value = row.bytes(next())
  }

  package mutating func field(_ name: StaticString, _ value: inout [UInt8]?) {
    value = row.optionalBytes(next())
  }

  private mutating func next() -> Int32 {
    fields += 1
    return fields
  }
}
