import CSQLite
import Countdowns
import Glibc

/// A state that no daemon uses, looked at with the daemon's own code: a state directory with its
/// log, a backup, or an older state of a directory. Nothing is changed.
package struct StateInspection {
  /// The database that was read.
  package var path: String { files.database }
  /// The program that wrote last, and its version; empty for a new state.
  package private(set) var product = ""
  /// What was found damaged; empty if all is well.
  package var problems: [String] { damage + lostEvents }
  /// What was found damaged, besides events.
  package private(set) var damage: [String] = []
  /// Events that cannot be read: a start continues without them, and without those before them.
  package private(set) var lostEvents: [String] = []
  /// Has all entities that can be read, as they were at `now`.
  package let engine: Engine
  /// When the state was last written, on its own clocks.
  package private(set) var now = Moment(boot: .zero, wall: .zero)

  private let files: StateFiles
  /// Keeps daemons away from the directory.
  private var lock: DirectoryLock?

  /// Reads a state. Throws if that is impossible; damage is only reported.
  ///
  /// - Parameters:
  ///   - path: a state directory, or the path of a file.
  ///   - isThorough: whether to check the structure of each page and the events as well.
  ///   - areEvents: returns whether the engine can read a row of events.
  package init(
    _ path: String, isThorough: Bool, areEvents: ([UInt8]) -> Bool = EventLog.isValid
  ) throws(StoreError) {
    engine = Engine(at: now)
    var status = stat()
    guard unsafe stat(path, &status) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    let isDirectory = status.st_mode & S_IFMT == S_IFDIR
    files = try isDirectory ? StateFiles(directory: path) : StateFiles(database: path)
    let isNewest = try files.isNewest
    if isDirectory || isNewest { try enterDirectory() }
    guard try !files.isEmpty else { return }
    try read(isThorough, areEvents)
  }

  private mutating func enterDirectory() throws(StoreError) {
    // Without a lock file, no daemon has used the directory. Creating one as this user might keep
    // the daemon from opening it.
    if unsafe access(files.directory + "/lock", F_OK) == 0 {
      lock = try DirectoryLock(files.directory)
    }
    if let missing = try files.missingNewer {
      damage.append(StoreError(missing, insteadOf: files).problem)
    }
    let hadState = try Numbers(in: files.directory) != Numbers()
    switch try files.sizeOfDatabase {
    case nil:
      throw hadState
        ? StoreError(.missing, path, "there was a state")
        : StoreError(systemError: ENOENT, path: path, doing: "open")
    case 0 where hadState: damage.append("there was a state, and \(path) is empty")
    default: break
    }
  }

  private mutating func read(
    _ isThorough: Bool, _ areEvents: ([UInt8]) -> Bool
  ) throws(StoreError) {
    let database = try Database(path, .readWrite)
    try Schema.verify(database)
    if let header = database.damagedHeader { damage.append(header.detail) }
    if isThorough { damage += try database.problems("integrity_check", maximum: 20) }
    var meta: Meta?
    try note { () throws(StoreError) in meta = try Meta.read(database) }
    product = meta?.product ?? ""
    let log = try LogContents(
      files,
      LogContents.Query(
        lineage: meta?.lineage, folded: UInt64(meta?.folded ?? 0)))
    if let loss = log.damage { damage.append("\(loss.detail): \(loss.path)") }
    let saved = log.clocks?.saved ?? meta?.clocks.saved
    if let saved { now = Moment(saved.reading) }
    let loader = Loader(engine, offset: saved?.offset ?? 0, at: now)
    try note { () throws(StoreError) in
      try EntityRows.load(database, besides: log.newest, loader)
    }
    try note { () throws(StoreError) in
      try EntityRows.load(log, database, loader)
    }
    if let refused = loader.refused.description { damage.append(refused) }
    if isThorough { try checkEvents(database, log, areEvents) }
  }

  private mutating func checkEvents(
    _ database: Database, _ log: LogContents, _ areEvents: ([UInt8]) -> Bool
  ) throws(StoreError) {
    var lost: [String] = []
    do throws(StoreError) {
      try StoredEvents.load(EventTable(database, limit: 0), log) { events in
        guard !areEvents(events.payload) else { return }
        lost.append("events up to \(events.lastSequence) make no sense")
      }
    } catch {
      guard error.kind == .corrupt else { throw error }
      lost.append(error.detail)
    }
    lostEvents = lost
  }

  private mutating func note(_ body: () throws(StoreError) -> Void) throws(StoreError) {
    do throws(StoreError) {
      try body()
    } catch {
      guard error.kind == .corrupt else { throw error }
      damage.append(error.detail)
    }
  }

  private final class Loader: EntityReader {
    let portion = 4_096
    private let engine: Engine
    private let offset: Int64
    private let now: Moment
    private(set) var refused = DamagedRecords("record")

    init(_ engine: Engine, offset: Int64, at now: Moment) {
      (self.engine, self.offset, self.now) = (engine, offset, now)
    }

    func take(_ entities: StoredEntities) {
      for entry in engine.restore(entities, offset: offset, at: now) {
        refused.note(entry.kind, entry.slot)
      }
    }
  }
}

extension Moment {
  package init(_ reading: StoreClock.Reading) {
    self.init(
      boot: Instant(microseconds: reading.bootMicroseconds),
      wall: Instant(microseconds: reading.wallMicroseconds))
  }
}
