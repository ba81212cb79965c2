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
  package private(set) var problems: [String] = []
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
  ///   - place: a state directory, or the path of a file.
  ///   - isThorough: whether to check the structure of each page and the events as well.
  ///   - areEvents: returns whether the engine can read a row of events.
  package init(
    _ place: String, isThorough: Bool, areEvents: ([UInt8]) -> Bool = EventLog.isValid
  ) throws(StoreError) {
    engine = Engine(at: now)
    var status = stat()
    guard unsafe stat(place, &status) == 0 else {
      throw StoreError(systemError: errno, path: place, doing: "open")
    }
    let isDirectory = status.st_mode & S_IFMT == S_IFDIR
    files = try isDirectory ? StateFiles(directory: place) : StateFiles(database: place)
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
    if try files.isEmpty, try NumberFloor(directory: files.directory).read() != nil {
      problems.append("there was a state, and now there is nothing in \(path)")
    }
    guard unsafe access(path, F_OK) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
  }

  private mutating func read(
    _ isThorough: Bool, _ areEvents: ([UInt8]) -> Bool
  ) throws(StoreError) {
    let database = try Database(path, .readWrite)
    try Schema.verify(database)
    if let header = database.damagedHeader { problems.append(header.detail) }
    if isThorough { problems += try database.problems("integrity_check", most: 20) }
    var meta: Meta?
    try note { () throws(StoreError) in meta = try Meta.read(database) }
    product = meta?.product ?? ""
    let log = try LogContents(
      files,
      LogContents.Query(
        lineage: meta?.lineage, folded: UInt64(meta?.folded ?? 0), start: meta?.start ?? 0))
    if let damage = log.damage { problems.append("\(damage.detail): \(damage.path)") }
    let saved = log.clocks?.saved ?? meta?.clocks.saved
    if let saved { now = Moment(saved.reading) }
    let loader = Loader(engine, offset: saved?.offset ?? 0, at: now)
    try note { () throws(StoreError) in
      try EntityRows.load(database, besides: log.newest, loader)
    }
    try note { () throws(StoreError) in
      try EntityRows.load(log, database, loader)
    }
    if let refused = loader.refused.description { problems.append(refused) }
    if isThorough { try checkEvents(database, log, areEvents) }
  }

  private mutating func checkEvents(
    _ database: Database, _ log: LogContents, _ areEvents: ([UInt8]) -> Bool
  ) throws(StoreError) {
    var bad: [String] = []
    try note { () throws(StoreError) in
      try log.forEachNewest(records: false) { entry in
        guard case .events(let events, _) = entry, !areEvents(events.bytes) else {
          return
        }
        bad.append("events up to \(events.lastSequence) in the log make no sense")
      }
    }
    try note { () throws(StoreError) in
      try EventTable(database, limit: 0).load { events in
        guard !areEvents(events.payload) else { return }
        bad.append("row \(events.lastSequence) of events makes no sense")
      }
    }
    problems += bad
  }

  private mutating func note(_ body: () throws(StoreError) -> Void) throws(StoreError) {
    do throws(StoreError) {
      try body()
    } catch {
      guard error.kind == .corrupt else { throw error }
      problems.append(error.detail)
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
        refused.note(entry.kind, entry.place)
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
