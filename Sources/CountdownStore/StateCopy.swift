import CSQLite
import Glibc

/// A copy of the tables under way, made in steps. Between two steps, the connection of the tables
/// may change them: SQLite brings such changes to the copy as well, so it is complete and
/// consistent whenever the last step is done.
///
/// The file gets its name once it is complete, and replaces an existing one. It is not synced to
/// the disk: it is read soon, then removed.
///
/// Source: SQLite, sqlite3_backup_step.
@safe final class StateCopy {
  /// The suffix of an incomplete copy.
  private static let partialSuffix = ".partial"
  /// Less than a millisecond.
  private static let pagesAtOnce: Int32 = 64

  private let path: String
  private var partial: String { path + Self.partialSuffix }
  private var copy: Database?
  private var isComplete = false
  private var handle: OpaquePointer?

  /// Begins a copy of `tables`.
  init(of tables: Database, to path: String) throws(StoreError) {
    self.path = path
    removePartial()
    // Created first, so that no other user can read it.
    let descriptor = unsafe open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: partial, doing: "create")
    }
    close(descriptor)
    let copy = try Database(partial, .readWrite)
    self.copy = copy
    try copy.execute("PRAGMA synchronous = OFF")
    try copy.execute("PRAGMA journal_mode = OFF")
    unsafe handle = sqlite3_backup_init(copy.handle, "main", tables.handle, "main")
    guard unsafe handle != nil else { throw unsafe copy.error(sqlite3_errcode(copy.handle)) }
  }

  /// Copies for some time, in microseconds. Returns whether all is copied.
  func goOn(for microseconds: Int64) throws(StoreError) -> Bool {
    let end = ChangeLog.now + microseconds
    repeat {
      let code = unsafe sqlite3_backup_step(handle, Self.pagesAtOnce)
      if code == SQLITE_DONE { return true }
      guard code == SQLITE_OK else { throw error(code) }
    } while ChangeLog.now < end
    return false
  }

  /// Makes the copy an independent state with a row of `meta`, and gives it its name.
  func finish(_ meta: Meta, product: String) throws(StoreError) {
    guard let copy else { preconditionFailure("it is finished") }
    let code = unsafe sqlite3_backup_finish(handle)
    unsafe handle = nil
    guard code == SQLITE_OK else { throw error(code) }
    try meta.write(copy, product: product)
    guard unsafe rename(partial, path) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "rename")
    }
    self.copy = nil
    isComplete = true
  }

  private func error(_ code: Int32) -> StoreError {
    StoreError(
      code: code, systemError: copy.map { unsafe sqlite3_system_errno($0.handle) } ?? 0,
      path: partial,
      message: unsafe String(cString: sqlite3_errstr(code)))
  }

  /// Removes a copy that is not complete.
  deinit {
    unsafe sqlite3_backup_finish(handle)
    if !isComplete { removePartial() }
  }

  private func removePartial() {
    for suffix in ["", "-journal"] { unsafe unlink(partial + suffix) }
  }
}
