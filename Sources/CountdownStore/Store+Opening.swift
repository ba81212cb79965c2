import CSQLite
import Glibc

extension Store {
  /// What opening has found, and is about to do to files that are there.
  package enum Finding: Equatable, Sendable {
    /// SQLite could not read the log of the newest changes: it is moved to `place`.
    case unreadableLog(place: String)
    /// The process has ended while a corrupt state was replaced: that is moved to `place`.
    case unfinishedReplacement(place: String)
    /// A power failure has cost the newest changes.
    case lostChanges(StoreError)
    /// There was a state, and now there is nothing in the file.
    case emptied(path: String)
    /// Every user of the system may write there, so nothing in it can be trusted.
    case writableByAll(path: String)
  }

  struct Opened {
    var database: Database
    /// How far commits have got is noted there.
    var mark: CommitMark?
    /// Nothing may be written.
    var damage: StoreError?
    /// Why changes are missing that were committed.
    var loss: StoreError?
    /// The log that they were in has been set aside.
    var isLogSetAside = false
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
    let marked = try CommitMark.read(files.mark)
    let mark = try CommitMark(files.mark)
    let database = try Database(files.database, .readWrite, lock: lock)
    // What turns out not to be ours, or newer, is left as it is.
    database.leavesLog = true
    let version = try schema.verify(database)
    let loss = try WriteAheadLog.loss(database, mark: marked)
    // The tables were in the log.
    if let loss, version == 0, placeOfLog == nil { throw loss }
    let damage = database.damagedHeader
    try prepare(database, options, schema)
    return Opened(
      database: database, mark: mark, damage: damage, loss: loss, isLogSetAside: placeOfLog != nil)
  }

  /// Has it close without touching what is in the file and its log.
  package func leaveAsItIs() { database.leavesLog = true }

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
