import CSQLite
import Glibc

/// One connection to an SQLite file. One thread at a time.
final class Database {
  let path: String
  let handle: OpaquePointer
  /// Released only after the file is closed.
  let lock: DirectoryLock?
  /// Closing it changes neither the file nor its log.
  var leavesLog = false {
    didSet { countdownd_checkpoint_on_close(handle, leavesLog ? 0 : 1) }
  }

  enum Access { case readOnly, readWrite }

  /// Once for the process, before SQLite is used.
  private static let isConfigured = countdownd_count_no_memory() == SQLITE_OK

  /// Opens an existing file. Nothing is read yet.
  init(_ path: String, _ access: Access, lock: DirectoryLock? = nil) throws(StoreError) {
    self.path = path
    self.lock = lock
    _ = Self.isConfigured
    var handle: OpaquePointer?
    // The first of this process to read the file locks it for the process, until the last closes
    // it: others cannot change under our hands what the engine has in memory, several connections
    // of ours can work on it at once, and no lock has to be taken for each transaction.
    let system = "unix-excl"
    // One thread at a time: SQLite's own mutexes would be taken for nothing at each call.
    let flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let mode = access == .readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE
    let code = sqlite3_open_v2(path, &handle, flags | mode, system)
    guard let handle else {
      throw StoreError(code: code, systemError: 0, path: path, message: "out of memory")
    }
    self.handle = handle
    // A database that did not open still holds its error, and is closed by deinit.
    if code != SQLITE_OK { throw error(code) }
  }

  deinit {
    // The statements are released before: each retains its database.
    sqlite3_close_v2(handle)
  }

  func execute(_ sql: String) throws(StoreError) {
    let code = sqlite3_exec(handle, sql, nil, nil, nil)
    if code != SQLITE_OK { throw error(code) }
  }

  /// The result of a query of one row and one column.
  func number(_ sql: String) throws(StoreError) -> Int64 {
    let statement = try Statement(self, sql)
    guard try statement.step() else { return 0 }
    defer { statement.reset() }
    return statement.number(0)
  }

  /// The first column of each row.
  func texts(_ sql: String) throws(StoreError) -> [String] {
    let statement = try Statement(self, sql)
    var texts: [String] = []
    while try statement.step() { texts.append(statement.text(0)) }
    return texts
  }

  /// The first problems that `quick_check` or `integrity_check` finds; empty if there are none.
  func problems(_ check: String, most: Int) throws(StoreError) -> [String] {
    do throws(StoreError) {
      let problems = try texts("PRAGMA \(check)(\(most))")
      guard problems != ["ok"] else { return [] }
      // A page that cannot be read is one of them.
      let error = corrupt(problems.joined(separator: "; "))
      guard error.kind == .corrupt else { throw error }
      return problems
    } catch {
      guard error.kind == .corrupt else { throw error }
      return [error.detail]
    }
  }

  /// The error if the file was opened for writing and its header forbids that; else nil. Call it
  /// once the file was read.
  var damagedHeader: StoreError? {
    guard access(path, W_OK) == 0, sqlite3_db_readonly(handle, "main") == 1 else { return nil }
    return StoreError(.corrupt, path, "its header forbids to write it")
  }

  /// All of `body` or nothing.
  func transaction(_ body: () throws(StoreError) -> Void) throws(StoreError) {
    try execute("BEGIN IMMEDIATE")
    do throws(StoreError) {
      try body()
      try execute("COMMIT")
    } catch {
      rollBack()
      throw error
    }
  }

  /// After a failure: nothing of the transaction is left, whether or not SQLite has ended it
  /// itself.
  func rollBack() {
    if sqlite3_get_autocommit(handle) == 0 { sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) }
  }

  func error(_ code: Int32) -> StoreError {
    let message = String(cString: sqlite3_errmsg(handle))
    if code & 0xff == SQLITE_CORRUPT { return corrupt("\(message), SQLite code \(code)") }
    let systemError = sqlite3_system_errno(handle)
    return StoreError(code: code, systemError: systemError, path: path, message: message)
  }

  /// The file was changed after it was written, or SQLite reports so because a read failed.
  func corrupt(_ detail: String) -> StoreError {
    guard let number = failedRead else { return StoreError(.corrupt, path, detail) }
    return StoreError(
      code: SQLITE_IOERR, systemError: number, path: path, message: "cannot read (\(detail))")
  }

  /// errno of a read that has failed in one of the ways that SQLite takes for a corrupt file
  /// system, and then for a corrupt file. It is kept until another call on the file fails: after
  /// such a failure, real damage may pass for another until the file is opened again, which errs on
  /// the side of changing nothing.
  ///
  /// Source: SQLite, os_unix.c (`unixRead`: SQLITE_IOERR_CORRUPTFS).
  private var failedRead: Int32? {
    let number = countdownd_file_errno(handle)
    return [EIO, ENXIO, ERANGE].contains(number) ? number : nil
  }
}
