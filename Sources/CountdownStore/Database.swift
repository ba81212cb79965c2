import CSQLite
import Glibc

/// A connection to an SQLite file, for one thread at a time.
@safe final class Database {
  let path: String
  let handle: OpaquePointer
  /// The lock of the state directory, released only after the file is closed.
  let lock: DirectoryLock?

  enum Access { case readOnly, readWrite }

  /// Configures SQLite once per process, before its first use.
  private static let isConfigured = countdownd_count_no_memory() == SQLITE_OK

  /// Opens an existing file without reading it.
  convenience init(
    _ path: String, _ access: Access, lock: DirectoryLock? = nil
  ) throws(StoreError) {
    // The first connection that reads the file locks it for this process, until the last one closes
    // it: other processes cannot change a state that the engine has in memory, several of our
    // connections can work at once, and no transaction has to take a lock.
    try self.init(path, access, lock: lock, system: "unix-excl")
  }

  private init(
    _ path: String, _ access: Access, lock: DirectoryLock?, system: String
  ) throws(StoreError) {
    self.path = path
    self.lock = lock
    _ = Self.isConfigured
    var handle: OpaquePointer?
    // One thread at a time: SQLite's own mutexes would only cost time at each call.
    let flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let mode = access == .readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE
    let code = unsafe sqlite3_open_v2(path, &handle, flags | mode, system)
    guard let handle = unsafe handle else {
      throw StoreError(code: code, systemError: 0, path: path, message: "out of memory")
    }
    unsafe self.handle = handle
    // A database that did not open still holds its error; deinit closes it.
    if code != SQLITE_OK { throw error(code) }
    // If an open for writing fails, SQLite opens the file for reading, whatever the reason was.
    if access == .readWrite, isReadOnlyForSQLite {
      throw StoreError(.inputOutput, path, "it is writable, and could be opened only for reading")
    }
  }

  /// Copies a database in memory.
  ///
  /// Source: SQLite, memdb.c; it keeps at most 1 GiB.
  static func inMemory(copyOf other: Database) throws(StoreError) -> Database {
    let copy = try Database("a copy in memory", .readWrite, lock: nil, system: "memdb")
    try copy.execute("PRAGMA journal_mode = OFF")
    let backup = unsafe sqlite3_backup_init(copy.handle, "main", other.handle, "main")
    guard let backup = unsafe backup else { throw unsafe copy.error(sqlite3_errcode(copy.handle)) }
    unsafe sqlite3_backup_step(backup, -1)
    let code = unsafe sqlite3_backup_finish(backup)
    guard code == SQLITE_OK else { throw copy.error(code) }
    return copy
  }

  /// The file of a database in memory.
  var bytes: [UInt8] {
    var size: sqlite3_int64 = 0
    let flags = UInt32(SQLITE_SERIALIZE_NOCOPY)
    guard let start = unsafe sqlite3_serialize(handle, "main", &size, flags) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: Int(size)))
  }

  deinit {
    // All statements are released by now, since each retains its database.
    unsafe sqlite3_close_v2(handle)
  }

  func execute(_ sql: String) throws(StoreError) {
    let code = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
    if code != SQLITE_OK { throw error(code) }
  }

  /// Returns the result of a query of one row and one column, or 0 without a row.
  func number(_ sql: String) throws(StoreError) -> Int64 {
    let statement = try Statement(self, sql)
    guard try statement.step() else { return 0 }
    defer { statement.reset() }
    return statement.number(0)
  }

  /// Returns the first column of each row.
  func texts(_ sql: String) throws(StoreError) -> [String] {
    let statement = try Statement(self, sql)
    var texts: [String] = []
    while try statement.step() { texts.append(statement.text(0)) }
    return texts
  }

  /// Returns the first problems that `quick_check` or `integrity_check` finds, if any.
  func problems(_ check: String, maximum: Int) throws(StoreError) -> [String] {
    do throws(StoreError) {
      // A row can have several lines, the first of which names the database.
      let problems = try texts("PRAGMA \(check)(\(maximum))")
        .flatMap { $0.split(separator: "\n").map(String.init) }
        .filter { !$0.hasPrefix("*** in database") }
      guard problems != ["ok"] else { return [] }
      // A page that cannot be read is reported, too: that is an I/O error, not corruption.
      let error = corrupt(problems.joined(separator: "; "))
      guard error.kind == .corrupt else { throw error }
      return problems
    } catch {
      guard error.kind == .corrupt else { throw error }
      return [error.detail]
    }
  }

  /// The error if the file is writable but its header forbids writing; else nil. Valid once the
  /// file was read.
  var damagedHeader: StoreError? {
    isReadOnlyForSQLite ? StoreError(.corrupt, path, "its header forbids to write it") : nil
  }

  /// Whether SQLite does not write the file, although this user may.
  private var isReadOnlyForSQLite: Bool {
    unsafe Glibc.access(path, W_OK) == 0 && sqlite3_db_readonly(handle, "main") == 1
  }

  /// Runs `body` in a transaction, which is rolled back if it throws.
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

  /// Rolls back the transaction, unless a failure has already made SQLite do so.
  func rollBack() {
    if unsafe sqlite3_get_autocommit(handle) == 0 {
      unsafe sqlite3_exec(handle, "ROLLBACK", nil, nil, nil)
    }
  }

  func error(_ code: Int32) -> StoreError {
    let message = unsafe String(cString: sqlite3_errmsg(handle))
    if code & 0xff == SQLITE_CORRUPT { return corrupt("\(message), SQLite code \(code)") }
    let systemError = unsafe sqlite3_system_errno(handle)
    return StoreError(code: code, systemError: systemError, path: path, message: message)
  }

  /// Returns a `corrupt` error, or that of a failed read which SQLite takes for corruption.
  func corrupt(_ detail: String) -> StoreError {
    guard let number = failedRead else { return StoreError(.corrupt, path, detail) }
    return StoreError(
      code: SQLITE_IOERR, systemError: number, path: path, message: "cannot read (\(detail))")
  }

  /// The errno of a failed read that SQLite takes for a corrupt file system, and then for a corrupt
  /// file; else nil. SQLite keeps it until another call on the file fails, so real damage may pass
  /// for a failed read until the file is opened again. That errs on the side of changing nothing.
  ///
  /// Source: SQLite, os_unix.c (`unixRead`: SQLITE_IOERR_CORRUPTFS).
  private var failedRead: Int32? {
    let number = unsafe countdownd_file_errno(handle)
    return [EIO, ENXIO, ERANGE].contains(number) ? number : nil
  }
}
