import CSQLite
import Glibc

extension Store {
  /// What a look through a whole state directory has found.
  package struct Report: Sendable {
    package var schemaVersion: Int
    package var product: String
    package var countdowns = 0
    package var timers = 0
    package var huds = 0
    package var guards: [GuardRecord.Kind: Int] = [:]
    /// Empty if all is well.
    package var problems: [String] = []
  }

  /// Looks through the state in a directory that no daemon uses: every page and every row.
  ///
  /// Changes nothing, but that commits in the write-ahead log get to the file. Throws what keeps it
  /// from looking; what is found is in the report.
  package static func check(directory: String) throws(StoreError) -> Report {
    let files = StateFiles(directory: directory)
    guard access(files.database, F_OK) == 0 else {
      throw StoreError(systemError: errno, path: files.database, doing: "open")
    }
    let lock = try DirectoryLock(directory)
    let database = try Database(files.database, .readWrite, lock: lock)
    try Schema.current.verify(database)
    var report = Report(
      schemaVersion: Int(try database.number("PRAGMA user_version")),
      product: try database.texts("SELECT product FROM meta").first ?? "")
    let problems = try database.texts("PRAGMA integrity_check(20)")
    if problems != ["ok"] { report.problems = problems }
    guard report.schemaVersion == Schema.current.version else { return report }
    // What SQLite finds in order may still be nonsense to us.
    do throws(StoreError) {
      _ = try Meta.read(database)
      try Table<CountdownRecord>(database).load { _ in report.countdowns += 1 }
      try Table<TimerRecord>(database).load { _ in report.timers += 1 }
      try Table<HUDRecord>(database).load { _ in report.huds += 1 }
      try Table<GuardRecord>(database).load { report.guards[$0.state.kind, default: 0] += 1 }
    } catch {
      guard error.kind == .corrupt else { throw error }
      report.problems.append(error.detail)
    }
    return report
  }

  /// Moves a corrupt state out of the way, under the name of the time: never deletes it. No store
  /// may have it open. The next store in this directory begins anew.
  ///
  /// - Returns: where it is now.
  package static func setAside(
    directory: String, atUnixMicroseconds now: Int64
  ) throws(StoreError) -> String {
    let lock = try DirectoryLock(directory)
    defer { withExtendedLifetime(lock) {} }
    return try StateFiles(directory: directory).setAside(atUnixMicroseconds: now)
  }
}
