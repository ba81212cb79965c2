import CSQLite
import Glibc

extension Store {
  /// What opening has found, and is about to do to files that are there.
  package enum Finding: Equatable, Sendable {
    /// SQLite could not read the log of the newest changes: it is moved to `place`.
    case unreadableLog(place: String)
    /// The process has ended while a corrupt state was replaced: that is moved to `place`.
    case unfinishedReplacement(place: String)
    /// There was a state, and now there is nothing in the file.
    case emptied(path: String)
    /// Every user of the system may write there, so nothing in it can be trusted.
    case writableByAll(path: String)
  }

  struct Opened {
    var database: Database
    /// Nothing may be written.
    var damage: StoreError?
    /// It is to take the place of one for which numbers have been set aside already: they are its own.
    var takesNumbersOver = false
  }

  /// - Parameter lock: of the directory, if it is ours already.
  static func open(
    _ options: Options, at now: StoreClock.Reading, _ schema: Schema, _ lock: DirectoryLock?,
    _ announce: (Finding) -> Void
  ) throws(StoreError) -> Opened {
    let files = StateFiles(directory: options.directory)
    try files.createDirectory()
    let lock = if let lock { lock } else { try DirectoryLock(options.directory) }
    if let decided = files.decidedReplacement() {
      announce(.unfinishedReplacement(place: decided.target))
      try files.putInPlace(decided)
    }
    files.removeBackups()
    files.removeReplacement()
    for path in [files.directory, files.database] where StateFiles.isWritableByAll(path) {
      announce(.writableByAll(path: path))
    }
    if files.isEmpty, NumberFloor(directory: options.directory).read() != nil {
      announce(.emptied(path: files.database))
    }
    try files.createDatabase()
    let placeOfLog = try files.placeOfUnreadableLog(atUnixMicroseconds: now.wallMicroseconds)
    if let placeOfLog {
      announce(.unreadableLog(place: placeOfLog))
      try files.moveLog(to: placeOfLog)
    }
    let database = try Database(files.database, .readWrite, lock: lock)
    // What turns out not to be ours, or newer, is left as it is.
    leaveLog(of: database)
    try prepare(database, options, schema)
    var damage: StoreError?
    // Without its log it may be half of a checkpoint.
    if options.checksOnOpening || placeOfLog != nil {
      let problems = try database.problems("quick_check", most: 5)
      if !problems.isEmpty { damage = database.corrupt(problems.joined(separator: "; ")) }
    }
    if damage == nil { countdownd_checkpoint_on_close(database.handle, 1) }
    return Opened(database: database, damage: damage)
  }

  /// Closing it leaves the log where it is.
  static func leaveLog(of database: Database) {
    countdownd_checkpoint_on_close(database.handle, 0)
  }

  /// Has it close without touching what is in the file and its log.
  package func leaveAsItIs() { Self.leaveLog(of: database) }

  static func prepare(
    _ database: Database, _ options: Options, _ schema: Schema
  ) throws(StoreError) {
    try database.execute("PRAGMA trusted_schema = OFF")
    try schema.verify(database)
    try database.execute("PRAGMA cache_size = -\(options.cacheKibibytes)")
    // A change writes whole pages, and few of those that one turn changes are neighbours.
    try database.execute("PRAGMA page_size = 1024")
    let mode = try database.texts("PRAGMA journal_mode = WAL")
    guard mode == ["wal"] else {
      throw StoreError(.inaccessible, database.path, "no write-ahead log here: \(mode)")
    }
    // NORMAL waits for the disk at checkpoints only, which keeps the file whole.
    try database.execute(
      "PRAGMA synchronous = \(options.durability == .power ? "FULL" : "NORMAL")")
    try database.execute("PRAGMA wal_autocheckpoint = 0")
    // What a burst has made of the log is given back to the disk.
    try database.execute("PRAGMA journal_size_limit = \(64 << 20)")
    try schema.migrate(database)
  }
}
