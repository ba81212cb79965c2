import CSQLite
import Glibc

/// Moves commits from the write-ahead log to the file, on a connection and a thread of its own:
/// meanwhile commits go on.
///
/// The log begins anew with the first commit after a pass that has moved all of it. While commits
/// never pause that does not come about by itself: whoever commits has to wait for a last, short pass.
///
/// One thread at a time. The store must be open all the while.
package final class Checkpointer {
  private let database: Database
  /// Bytes that commits may need while a copy is made.
  private let reserve: Int64
  /// Of a copy that is not whole.
  static let partialSuffix = ".partial"

  package init(_ options: Store.Options) throws(StoreError) {
    reserve = Int64(options.checkpointPages) << 10
    database = try Database(StateFiles(directory: options.directory).database, .readWrite)
    // This has it read the file, too: else it would know of no log.
    try database.execute(
      "PRAGMA synchronous = \(options.durability == .power ? "FULL" : "NORMAL")")
  }

  /// Moves what is in the log now. A failure loses nothing: it can be tried again later.
  ///
  /// - Returns: how many pages of the log have been moved, from its beginning.
  package func pass() throws(StoreError) -> Int {
    var moved: Int32 = 0
    let code = sqlite3_wal_checkpoint_v2(
      database.handle, nil, SQLITE_CHECKPOINT_PASSIVE, nil, &moved)
    // A reader keeps back what it still reads the old state of: that is no failure.
    if code != SQLITE_OK { throw database.error(code) }
    return Int(moved)
  }

  /// Copies the state of this moment to a file, while commits go on: about a second for each million
  /// rows. The log grows meanwhile.
  ///
  /// The file gets its name only once it is whole; one of that name is replaced. Nothing waits for the
  /// disk: it is there to be read, and removed.
  package func backUp(to path: String) throws(StoreError) {
    let partial = path + Self.partialSuffix
    unlink(partial)
    try checkRoom(for: partial)
    // Made beforehand, as nobody else is to read it.
    let descriptor = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: partial, doing: "create")
    }
    close(descriptor)
    do throws(StoreError) {
      let copy = try Statement(database, "VACUUM INTO ?")
      copy.bind(1, partial)
      do throws(StoreError) {
        try copy.run()
      } catch {
        // SQLite speaks of the copy.
        throw StoreError(error.kind, partial, error.detail)
      }
      guard rename(partial, path) == 0 else {
        throw StoreError(systemError: errno, path: path, doing: "rename")
      }
    } catch {
      unlink(partial)
      throw error
    }
  }

  /// A copy that finds no room would take that of commits before it is given up.
  private func checkRoom(for path: String) throws(StoreError) {
    var system = statvfs()
    guard statvfs(StateFiles.directory(of: path), &system) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "statvfs")
    }
    let free = Int64(system.f_bavail) * Int64(system.f_frsize)
    let pages = try database.number("PRAGMA page_count")
    let needed = try pages * database.number("PRAGMA page_size") + reserve
    guard free >= needed else {
      throw StoreError(
        .full, path, "it takes \(needed >> 20) MiB with what is stored meanwhile, \(free >> 20) MiB are free")
    }
  }
}
