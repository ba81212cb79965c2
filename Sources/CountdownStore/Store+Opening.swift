import CSQLite
import Glibc

extension Store {
  /// What opening has found, and is about to do to files that are there.
  package enum Finding: Equatable, Sendable {
    /// The process has ended while a corrupt state was replaced: that is moved to `place`.
    case unfinishedReplacement(place: String)
    /// A power failure has cost the newest changes.
    case lostChanges(StoreError)
    /// A part of the log belongs to another state, such as one that a backup has replaced: it is
    /// moved to `place`.
    case otherLog(place: String)
    /// There was a state, and now there is nothing in the file.
    case emptied(path: String)
    /// Every user of the system may write there, so nothing in it can be trusted.
    case writableByAll(path: String)
  }

  struct Opened {
    var database: Database
    /// Nothing may be written.
    var damage: StoreError?
  }

  /// - Parameter lock: of the directory, if it is ours already.
  static func open(
    _ options: Options, _ schema: Schema, _ lock: DirectoryLock?, _ announce: (Finding) -> Void
  ) throws(StoreError) -> Opened {
    let files = StateFiles(directory: options.directory)
    try files.createDirectory()
    let lock = if let lock { lock } else { try DirectoryLock(options.directory) }
    if let decided = files.decidedReplacement() {
      announce(.unfinishedReplacement(place: decided.target))
      try files.putInPlace(decided)
    }
    files.removeLeftovers()
    for path in [files.directory, files.database] where StateFiles.isWritableByAll(path) {
      announce(.writableByAll(path: path))
    }
    if files.isEmpty, NumberFloor(directory: options.directory).read() != nil {
      announce(.emptied(path: files.database))
    }
    try files.createDatabase()
    let database = try Database(files.database, .readWrite, lock: lock)
    try schema.verify(database)
    let damage = database.damagedHeader
    if damage == nil { try prepare(database, options, schema) }
    return Opened(database: database, damage: damage)
  }

  static func prepare(
    _ database: Database, _ options: Options, _ schema: Schema
  ) throws(StoreError) {
    try database.execute("PRAGMA trusted_schema = OFF")
    try schema.verify(database)
    try database.execute("PRAGMA cache_size = -\(options.cacheKibibytes)")
    // One thread writes, many rows at once, and nobody reads meanwhile.
    let mode = try database.texts("PRAGMA journal_mode = TRUNCATE")
    guard mode == ["truncate"] else {
      throw StoreError(.inaccessible, database.path, "no journal here: \(mode)")
    }
    // What is folded is on the disk before its part of the log is written over.
    try database.execute("PRAGMA synchronous = FULL")
    try schema.migrate(database)
    try Views.drop(from: database)
  }
}
