import CSQLite

/// A prepared statement, for repeated use.
///
/// Parameters are numbered from 1 and keep their values over `reset`; columns are numbered from 0.
final class Statement {
  private let database: Database
  private let handle: OpaquePointer
  /// The current values of the parameters: an unchanged number or NULL is not bound again.
  private var values: [Value]
  /// The error of the last failed bind: a value was too long, or memory was short. The next step
  /// throws it.
  private var unbound = SQLITE_OK
  /// Added to parameter numbers, for statements of several rows.
  var firstParameter: Int32 = 0
  /// The sum of the values bound since the last `bindSum`.
  private var sum = RowSum()
  /// The sum of the values read from the current row.
  private var readSum = RowSum()

  private enum Value: Equatable {
    case null, bytes
    case number(Int64)
  }

  init(_ database: Database, _ sql: String) throws(StoreError) {
    self.database = database
    var handle: OpaquePointer?
    let code = sqlite3_prepare_v3(
      database.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
    guard let handle else {
      let error = database.error(code)
      // Our SQL is tested, so an error in it means that the file lacks a table or a column.
      throw code == SQLITE_ERROR ? database.corrupt(error.detail) : error
    }
    self.handle = handle
    values = Array(repeating: .null, count: Int(sqlite3_bind_parameter_count(handle)) + 1)
  }

  deinit { sqlite3_finalize(handle) }

  // MARK: Parameters

  func bind(_ parameter: Int32, _ value: Int64) {
    sum.add(value, at: parameter)
    guard note(parameter, .number(value)) else { return }
    check(sqlite3_bind_int64(handle, firstParameter + parameter, value))
  }

  func bind(_ parameter: Int32, _ value: Int64?) {
    if let value { bind(parameter, value) } else { bindNull(parameter) }
  }

  func bind(_ parameter: Int32, _ bytes: [UInt8]) {
    note(parameter, .bytes)
    sum.add(bytes.span, at: parameter)
    let parameter = firstParameter + parameter
    check(
      bytes.withUnsafeBytes { bytes in
        // SQLite would bind a null pointer as NULL.
        guard let start = bytes.baseAddress, !bytes.isEmpty else {
          return sqlite3_bind_zeroblob(handle, parameter, 0)
        }
        // The largest Int32 is too long for SQLite, too, so clamping hides no error.
        return countdownd_bind_blob(handle, parameter, start, Int32(clamping: bytes.count))
      })
  }

  func bind(_ parameter: Int32, _ bytes: [UInt8]?) {
    if let bytes { bind(parameter, bytes) } else { bindNull(parameter) }
  }

  func bind(_ parameter: Int32, _ text: String) {
    note(parameter, .bytes)
    sum.add(text.utf8.span, at: parameter)
    let parameter = firstParameter + parameter
    var text = text
    check(
      text.withUTF8 { text in
        text.withMemoryRebound(to: CChar.self) {
          countdownd_bind_text(handle, parameter, $0.baseAddress ?? emptyText, Int32($0.count))
        }
      })
  }

  /// Binds the sum of the values bound since the last call, which are those of a row.
  func bindSum(_ parameter: Int32) {
    let value = sum.value
    bind(parameter, value)
    sum = RowSum()
  }

  private func bindNull(_ parameter: Int32) {
    guard note(parameter, .null) else { return }
    check(sqlite3_bind_null(handle, firstParameter + parameter))
  }

  /// Records the value of a parameter. Returns false if it is unchanged, so a number or NULL need
  /// not be bound again. Bytes are always bound: their value is not recorded.
  @discardableResult
  private func note(_ parameter: Int32, _ value: Value) -> Bool {
    let place = Int(firstParameter + parameter)
    if values[place] == value { return false }
    values[place] = value
    return true
  }

  private func check(_ code: Int32) { if code != SQLITE_OK { unbound = code } }

  // MARK: Rows

  /// Advances to the next row. Returns false after the last one, and resets the statement.
  func step() throws(StoreError) -> Bool {
    if unbound != SQLITE_OK {
      let error = database.error(unbound)
      unbound = SQLITE_OK
      sqlite3_reset(handle)
      throw error
    }
    switch sqlite3_step(handle) {
    case SQLITE_ROW:
      readSum = RowSum()
      return true
    case SQLITE_DONE:
      sqlite3_reset(handle)
      return false
    case let code:
      let error = database.error(code)
      sqlite3_reset(handle)
      throw error
    }
  }

  /// Runs a statement that returns no rows.
  func run() throws(StoreError) { _ = try step() }

  func reset() { sqlite3_reset(handle) }

  /// Returns whether the values read from the row, each once, match the sum in a column. Rows of
  /// older versions have no sum, and match.
  func hasRightSum(_ column: Int32) -> Bool {
    isNull(column) || sqlite3_column_int64(handle, column) == readSum.value
  }

  func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

  func number(_ column: Int32) -> Int64 {
    let value = sqlite3_column_int64(handle, column)
    readSum.add(value, at: column + 1)
    return value
  }

  // Type, number and bytes are read from the column's value, which is faster than looking up the
  // column for each. Only one thread uses the connection, so the value need not be protected.
  func optionalNumber(_ column: Int32) -> Int64? {
    let value = sqlite3_column_value(handle, column)
    guard sqlite3_value_type(value) != SQLITE_NULL else { return nil }
    let number = sqlite3_value_int64(value)
    readSum.add(number, at: column + 1)
    return number
  }

  func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

  func bytes(_ column: Int32) -> [UInt8] {
    let value = sqlite3_column_value(handle, column)
    let start = sqlite3_value_blob(value)
    let count = Int(sqlite3_value_bytes(value))
    let bytes = Array(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count))
    readSum.add(bytes.span, at: column + 1)
    return bytes
  }

  func optionalBytes(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : bytes(column) }
}

/// The bytes of an empty text: SQLite would bind a null pointer as NULL.
nonisolated(unsafe) private let emptyText: UnsafePointer<CChar> = {
  let text = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
  text.initialize(to: 0)
  return UnsafePointer(text)
}()
