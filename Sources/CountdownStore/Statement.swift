import CSQLite

/// A prepared statement, for repeated use.
///
/// Parameters are numbered from 1 and keep their values over `reset`; columns are numbered from 0.
@safe final class Statement {
  private let database: Database
  private let handle: OpaquePointer
  /// The error of the last failed bind: a value was too long, or memory was short. The next step
  /// throws it.
  private var unbound = SQLITE_OK

  init(_ database: Database, _ sql: String) throws(StoreError) {
    self.database = database
    var handle: OpaquePointer?
    let code = unsafe sqlite3_prepare_v3(
      database.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
    guard let handle = unsafe handle else {
      let error = database.error(code)
      // Our SQL is tested, so an error in it means that the file lacks a table or a column.
      throw code == SQLITE_ERROR ? database.corrupt(error.detail) : error
    }
    unsafe self.handle = handle
  }

  deinit { unsafe sqlite3_finalize(handle) }

  // MARK: Parameters

  func bind(_ parameter: Int32, _ value: Int64) {
    unsafe check(sqlite3_bind_int64(handle, parameter, value))
  }

  func bind(_ parameter: Int32, _ bytes: ArraySlice<UInt8>) {
    unsafe check(
      bytes.withUnsafeBytes { bytes in
        // SQLite would bind a null pointer as NULL.
        guard let start = bytes.baseAddress, unsafe !bytes.isEmpty else {
          return unsafe sqlite3_bind_zeroblob(handle, parameter, 0)
        }
        // The largest Int32 is too long for SQLite, too, so clamping hides no error.
        return unsafe countdownd_bind_blob(handle, parameter, start, Int32(clamping: bytes.count))
      })
  }

  private func check(_ code: Int32) { if code != SQLITE_OK { unbound = code } }

  // MARK: Rows

  /// Advances to the next row. Returns false after the last one, and resets the statement.
  func step() throws(StoreError) -> Bool {
    if unbound != SQLITE_OK {
      let error = database.error(unbound)
      unbound = SQLITE_OK
      unsafe sqlite3_reset(handle)
      throw error
    }
    switch unsafe sqlite3_step(handle) {
    case SQLITE_ROW:
      return true
    case SQLITE_DONE:
      unsafe sqlite3_reset(handle)
      return false
    case let code:
      let error = database.error(code)
      unsafe sqlite3_reset(handle)
      throw error
    }
  }

  /// Runs a statement that returns no rows.
  func run() throws(StoreError) { _ = try step() }

  func reset() { unsafe sqlite3_reset(handle) }

  func number(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(handle, column) }

  func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

  func bytes(_ column: Int32) -> [UInt8] { Array(borrowedBytes(column)) }

  /// Returns bytes that are valid until the next step.
  @_lifetime(borrow self)
  func borrowedBytes(_ column: Int32) -> Span<UInt8> {
    // Read from the column's value, which is faster than looking up the column twice. Only one
    // thread uses the connection, so the value need not be protected.
    let value = unsafe sqlite3_column_value(handle, column)
    let start = unsafe sqlite3_value_blob(value)
    let count = unsafe start == nil ? 0 : Int(sqlite3_value_bytes(value))
    let span = unsafe Span<UInt8>(
      _unsafeElements: UnsafeRawBufferPointer(start: start, count: count).assumingMemoryBound(
        to: UInt8.self))
    return unsafe _overrideLifetime(span, borrowing: self)
  }
}
