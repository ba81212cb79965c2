import CSQLite
import Countdowns

/// What a reply promises about the changes that it reports.
package enum Durability: String, CaseIterable, Sendable {
  /// Nothing is written.
  case none
  /// Changes survive the end of the process, however it ends. A power failure may lose the newest
  /// ones, never the whole state.
  case process
  /// Changes survive a power failure.
  case power
}

/// The stored state as a start finds it: tables in an SQLite file, and the log of later changes.
/// It is read once; then a `StoreWriter` takes over.
///
/// Entities are identified by their slot in the engine's tables. Not thread-safe.
package final class Store {
  /// Where and how the state is stored.
  package struct Options: Sendable {
    package var directory: String
    package var durability: Durability
    /// The name and version of the program, stored for human readers of the file.
    package var product: String
    /// How many events are kept for clients that were disconnected; 0 for none.
    package var eventLimit = 100_000
    /// The most bytes of them.
    package var eventBytes = 64 << 20
    /// The size of a segment, in bytes.
    package var segmentSize = 16 << 20
    /// Changes are refused while this many segments are full and not folded.
    package var maximumSegments = 64
    /// Full segments are folded once none has filled up for this time, in microseconds.
    package var pauseMicroseconds: Int64 = 1_000_000
    /// The lowest number to begin with, whatever the file says.
    package var firstNumber: Int64 = 0
    /// Whether the clocks are virtual: they move only on command.
    package var isTimeVirtual = false
    /// Whether the clocks continue where an existing state was left.
    package var continuesClocks = false
    /// The size of SQLite's page cache, in KiB.
    package var cacheKibibytes = 8_192

    /// The path for a temporary copy. The next opening of the store removes leftovers of it.
    package var backupPath: String { StateFiles.backup(in: directory) }

    package init(directory: String, durability: Durability, product: String) {
      self.directory = directory
      self.durability = durability
      self.product = product
    }
  }

  package let options: Options
  /// The path of the database.
  package var path: String { files.database }
  /// Converts between this boot's boot clock and the clock of stored times.
  package let clock: StoreClock
  /// The first number to give out: no generation or sequence number from here on was ever used.
  package let firstNumber: Int64
  /// Why the state must be replaced once its readable part is loaded, or nil. After damage is
  /// found, nothing is written to the state.
  package let damage: StoreError?

  /// When the clocks of the state that was found were stored, in microseconds since 1970; nil for a
  /// new state.
  package let savedAt: Int64?

  let files: StateFiles
  /// As this start has found them.
  let numbers: Numbers
  let database: Database
  /// The row of `meta` to be written next.
  let meta: Meta
  let log: LogContents
  private let events: EventTable
  /// Events after the stored ones, up to this number, may be missing; nil if none are.
  let missingThrough: Int64?

  /// Opens the state, or creates a new one.
  ///
  /// Locks the directory for this process until the store is closed.
  ///
  /// - Parameter announce: receives findings before existing files are changed.
  package convenience init(
    _ options: Options, at now: StoreClock.Reading, announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    try self.init(options, at: now, lock: nil, announce: announce)
  }

  init(
    _ options: Options, at now: StoreClock.Reading, lock: DirectoryLock?,
    announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(options.durability != .none, "what is not stored needs no store")
    let opened = try Self.open(options, lock, announce)
    self.options = options
    files = opened.files
    numbers = opened.numbers
    database = opened.database
    var (found, damage) = (nil as Meta?, opened.damage)
    do throws(StoreError) {
      found = try Meta.read(database)
    } catch {
      guard error.kind == .corrupt else { throw error }
      damage = damage ?? error
    }
    events = try EventTable(database, options)
    damage = damage ?? events.damage

    // Without `meta` it is unknown which batches are in the tables: then the whole log is read.
    let isNew = found == nil && damage == nil
    let lineage = isNew ? Meta.newLineage : found?.lineage
    log = try LogContents(
      files, LogContents.Query(lineage: lineage, folded: UInt64(found?.folded ?? 0)))
    let saved = log.clocks?.saved ?? found?.clocks.saved
    savedAt = saved?.reading.wallMicroseconds
    let now = options.continuesClocks ? saved?.reading ?? now : now
    var isLossy = false
    if let loss = log.damage {
      // `process` does not wait for the disk: after a reboot, a loss in the log is no damage.
      if let saved, options.durability == .process, !saved.reading.isOfSameBoot(as: now) {
        announce(.lostChanges(loss))
        isLossy = true
      } else {
        damage = damage ?? loss
      }
    }

    let given = numbers.floor
    let known = max(found?.clocks.numberFloor ?? 0, log.clocks?.numberFloor ?? 0)
    clock = StoreClock(continuing: saved, at: now, isVirtual: options.isTimeVirtual)
    firstNumber = max(
      max(known, given) + 1, now.wallMicroseconds, options.firstNumber,
      max(events.highestSequence, log.lastEvent) + 1)
    // The state is lossy or an old backup, or a daemon has run without storing anything: numbers
    // that the state does not know were given out.
    missingThrough = isLossy || (found != nil && given > known) ? firstNumber - 1 : nil
    let floor = firstNumber + Numbers.reserve
    var meta = Meta(Meta.Clocks(saved: clock.saved, numberFloor: floor))
    meta.folded = found?.folded ?? 0
    if let lineage { meta.lineage = lineage }
    if damage == nil {
      do throws(StoreError) {
        if isNew { try meta.write(database, product: options.product) }
        try Self.setAside(log.others, of: files, at: now, announce)
      } catch {
        guard error.kind == .corrupt else { throw error }
        damage = error
      }
    }
    meta.start = min(max(log.lastStart, found?.start ?? 0, numbers.start), .max - 1) + 1
    self.meta = meta
    self.damage = damage
  }

  /// Moves segments of the logs of other states, which a copied directory may have.
  private static func setAside(
    _ segments: [FoundSegment], of files: StateFiles, at now: StoreClock.Reading,
    _ announce: (Finding) -> Void
  ) throws(StoreError) {
    for segment in segments {
      let path = files.freeName(segment.path, "other", atUnixMicroseconds: now.wallMicroseconds)
      announce(.otherLog(path: path))
      try StateFiles.move(segment.path, to: path)
    }
  }

  // MARK: Loading

  /// Makes loading end with an error soon. Callable from any thread while the store is open.
  package func interrupt() { unsafe sqlite3_interrupt(database.handle) }

  /// Reads the records of all entities, less than half a microsecond each: first the rows, then the
  /// log. Reads on after damaged rows, and throws at the end.
  package func loadEntities(_ reader: any EntityReader) throws(StoreError) {
    var failure: StoreError?
    do throws(StoreError) {
      try EntityRows.load(database, besides: log.newest, reader)
    } catch {
      guard error.kind == .corrupt else { throw error }
      failure = error
    }
    try EntityRows.load(log, database, reader)
    if let failure { throw failure }
  }

  /// Reads the stored events, oldest first.
  package func loadEvents(_ body: (StoredEvents) -> Void) throws(StoreError) {
    try StoredEvents.load(events, log, missingThrough: missingThrough, body)
  }

  /// The random ID of this state, which copies of it do not have.
  package var lineage: Int64 { meta.lineage }

  /// The highest sequence number of a stored event; 0 if there is none.
  package var lastEventSequence: Int64 {
    log.dropsEvents ? log.lastEvent : max(events.highestSequence, log.lastEvent)
  }
}
