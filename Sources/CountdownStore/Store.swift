import CSQLite
import Countdowns

/// What a reply promises about the changes that it reports.
package enum Durability: String, CaseIterable, Sendable {
  /// Nothing is written.
  case none
  /// They survive the end of the process, however it ends. A power failure may cost the last ones,
  /// never the whole.
  case process
  /// They survive a power failure.
  case power
}

/// The state of a state directory as a start finds it: tables in an SQLite file, and the log of
/// what has changed since. It is read once; then a `StoreWriter` takes over.
///
/// Entities are known by their place in the engine's tables. Not thread-safe.
package final class Store {
  /// Where it is kept, and how.
  package struct Options: Sendable {
    package var directory: String
    package var durability: Durability
    /// Written down, for whoever looks into the file.
    package var product: String
    /// How many events are kept for clients that were disconnected; 0 for none.
    package var eventLimit = 100_000
    /// Of a segment of the log, in bytes.
    package var segmentSize = 16 << 20
    /// Nothing is accepted any more while so many segments are not in the tables yet.
    package var mostSegments = 64
    /// No number from here on was given out, whatever the file says.
    package var firstNumber: Int64 = 0
    /// The clocks are virtual: they move on command.
    package var isTimeVirtual = false
    /// The clocks continue where the state was left, if there is one.
    package var continuesClocks = false
    /// Of pages of the file, in KiB.
    package var cacheKibibytes = 8_192

    /// A place for a copy; what is left of it is removed by the next that opens the store.
    package var backupPath: String { StateFiles(directory: directory).backup }

    package init(directory: String, durability: Durability, product: String) {
      self.directory = directory
      self.durability = durability
      self.product = product
    }
  }

  package let options: Options
  /// Of the database.
  package var path: String { database.path }
  /// Translates between this boot's boot clock and the clock that stored moments are on.
  package let clock: StoreClock
  /// No generation or sequence number from here on was ever given out.
  package let firstNumber: Int64
  /// Why the state is to be replaced once what can be read of it has been: nothing was written to
  /// it.
  package let damage: StoreError?

  let database: Database
  /// As it is to be written next.
  let meta: Meta
  let log: LogContents
  private let events: EventTable
  /// Events up to this number may be missing, after those that are there.
  let missingThrough: Int64?

  /// Opens the state, or begins a new one; migrates it if an older version wrote it.
  ///
  /// The directory is this process's own until the store is closed.
  ///
  /// - Parameter announce: receives what is about to be done to existing files.
  package convenience init(
    _ options: Options, at now: StoreClock.Reading, announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    try self.init(options, at: now, schema: .current, announce: announce)
  }

  init(
    _ options: Options, at now: StoreClock.Reading, schema: Schema, lock: DirectoryLock? = nil,
    announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(options.durability != .none, "what is not stored needs no store")
    let opened = try Self.open(options, schema, lock, announce)
    self.options = options
    database = opened.database
    var damage = opened.damage
    var found: Meta?
    do throws(StoreError) {
      found = try Meta.read(database)
    } catch {
      guard error.kind == .corrupt else { throw error }
      damage = damage ?? error
    }
    events = try EventTable(database, limit: options.eventLimit)
    damage = damage ?? events.damage

    let files = StateFiles(directory: options.directory)
    // Without `meta` nobody knows which of the log is in the tables: then all of it is read.
    let isNew = found == nil && damage == nil
    let lineage = isNew ? Meta.newLineage : found?.lineage
    log = try LogContents(
      files,
      LogContents.Query(
        lineage: lineage, folded: found?.folded ?? 0, start: found?.start ?? 0))
    let saved = log.clocks?.saved ?? found?.clocks.saved
    let now = options.continuesClocks ? saved?.reading ?? now : now
    var isLossy = false
    if let loss = log.damage {
      // The files are whole after a power failure, but `process` does not wait for the disk.
      if let saved, options.durability == .process, !saved.reading.isOfSameBoot(as: now) {
        announce(.lostChanges(loss))
        isLossy = true
      } else {
        damage = damage ?? loss
      }
    }

    let numbers = NumberFloor(directory: options.directory)
    let given = numbers.read() ?? 0
    let known = max(found?.clocks.numberFloor ?? 0, log.clocks?.numberFloor ?? 0)
    clock = StoreClock(
      continuing: saved, at: now, isVirtual: options.isTimeVirtual)
    firstNumber = max(
      max(known, given) + 1, now.wallMicroseconds, options.firstNumber,
      max(events.highestSequence, log.lastEvent) + 1)
    // Numbers that this state knows nothing of: it is an old backup, or nothing was kept for a
    // while.
    missingThrough = isLossy || (found != nil && given > known) ? firstNumber - 1 : nil
    let floor = firstNumber + NumberFloor.reserve
    var meta = Meta(Meta.Clocks(saved: clock.saved, numberFloor: floor))
    meta.lineage = lineage ?? 0
    meta.folded = found?.folded ?? 0
    if damage == nil {
      do throws(StoreError) {
        if isNew || meta.lineage == 0 {
          if meta.lineage == 0 { meta.lineage = Meta.newLineage }
          try meta.write(database, product: options.product)
        }
        for other in log.others {
          let place = files.freeName(other.path, "other", atUnixMicroseconds: now.wallMicroseconds)
          announce(.otherLog(place: place))
          try files.move(other.path, to: place)
        }
      } catch {
        guard error.kind == .corrupt else { throw error }
        damage = error
      }
    }
    meta.start = log.lastStart + 1
    self.meta = meta
    self.damage = damage
  }

  // MARK: Loading

  /// Has what is being loaded end with an error, soon. From any thread, while the store is open.
  package func interrupt() { sqlite3_interrupt(database.handle) }

  /// Reads all entities, half a microsecond for each; a table that cannot be read to its end does
  /// not keep others from being read. Instants are on the boot clock of this boot.
  package func loadRecords(_ reader: any RecordReader) {
    Tables.load(database, offset: clock.offset, besides: log.newest, reader)
    Tables.load(log, offset: clock.offset, reader)
  }

  /// The events that are kept, oldest first.
  package func loadEvents(_ body: (StoredEvents) -> Void) throws(StoreError) {
    var failure: StoreError?
    var all: [StoredEvents] = []
    var last = events.highestSequence
    if !log.dropsEvents {
      do throws(StoreError) {
        try events.load(body)
      } catch {
        failure = error
      }
    }
    try log.forEachNewest(records: false) { entry in
      guard case .events(let portion, let missing) = entry else { return }
      if portion.dropsAll { (all, last) = ([], 0) }
      guard portion.lastSequence > last else { return }
      all.append(
        StoredEvents(
          afterSequence: min(max(last, missing), portion.lastSequence),
          lastSequence: portion.lastSequence, payload: portion.bytes))
      last = portion.lastSequence
    }
    for events in all { body(events) }
    if let missingThrough, last > 0, missingThrough > last {
      body(
        StoredEvents(afterSequence: missingThrough, lastSequence: missingThrough, payload: []))
    }
    if let failure { throw failure }
  }

  /// The highest sequence number of a stored event; 0 if there is none.
  package var lastEventSequence: Int64 {
    log.dropsEvents ? log.lastEvent : max(events.highestSequence, log.lastEvent)
  }
}
