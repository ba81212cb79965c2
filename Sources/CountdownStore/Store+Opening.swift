import CSQLite
import Glibc

extension Store {
  /// A finding while opening the store, announced before existing files are changed.
  package enum Finding: Equatable, Sendable {
    /// A power failure lost the newest changes.
    case lostChanges(StoreError)
    /// A segment belongs to a state that another file has replaced; it goes to `place`.
    case otherLog(path: String)
    /// The file is empty, although the directory once had a state.
    case emptied(path: String)
    /// The directory once had a state, and now it has none.
    case missing(path: String)
    /// The process that has used the directory last was killed or has crashed.
    case uncleanEnd(pid: Int32)
    /// Every user of the system may write to `path`, so its content cannot be trusted.
    case writableByAll(path: String)
  }

  struct Opened {
    let files: StateFiles
    let numbers: Numbers
    var database: Database
    /// The damage because of which nothing may be written, or nil.
    var damage: StoreError?
  }

  /// - Parameter lock: the lock of the directory, if this process already has it.
  static func open(
    _ options: Options, _ lock: DirectoryLock?, _ announce: (Finding) -> Void
  ) throws(StoreError) -> Opened {
    try StateFiles.createDirectory(options.directory)
    let lock = if let lock { lock } else { try DirectoryLock(options.directory) }
    let files = try StateFiles(directory: options.directory)
    let numbers = try Numbers(in: options.directory)
    if let missing = try files.missingNewer { throw StoreError(missing, insteadOf: files) }
    if let pid = lock.lostBy { announce(.uncleanEnd(pid: pid)) }
    try files.removeLeftovers()
    for path in [files.directory, files.database] where StateFiles.isWritableByAll(path) {
      announce(.writableByAll(path: path))
    }
    if numbers != Numbers() {
      switch try files.sizeOfDatabase {
      case nil: announce(.missing(path: files.database))
      case 0: announce(.emptied(path: files.database))
      default: break
      }
    }
    try files.createDatabase()
    let database = try Database(files.database, .readWrite, lock: lock)
    try Schema.verify(database)
    let damage = database.damagedHeader
    if damage == nil { try prepare(database, options) }
    return Opened(files: files, numbers: numbers, database: database, damage: damage)
  }

  static func prepare(_ database: Database, _ options: Options) throws(StoreError) {
    try database.execute("PRAGMA trusted_schema = OFF")
    try database.execute("PRAGMA cache_size = -\(options.cacheKibibytes)")
    // No WAL is needed: one thread writes many rows at once, and nobody reads meanwhile.
    let mode = try database.texts("PRAGMA journal_mode = TRUNCATE")
    guard mode == ["truncate"] else {
      throw StoreError(.inaccessible, database.path, "no journal here: \(mode)")
    }
    // Folded changes must be on the disk before their segments are overwritten.
    try database.execute("PRAGMA synchronous = FULL")
    try Schema.create(in: database)
  }
}
