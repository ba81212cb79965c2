import CSQLite
import Countdowns

/// What a reply promises about the changes that it tells of.
package enum Durability: String, CaseIterable, Sendable {
  /// Nothing is written.
  case none
  /// They survive the end of the process, however it ends. A loss of power may cost the last ones,
  /// never the whole.
  case process
  /// They survive a loss of power.
  case power
}

/// The state of the engine in an SQLite file: read once, at the start; then written turn by turn.
///
/// What a turn has changed is committed as one batch, all of it or nothing. Entities are known by
/// their place in the engine's tables. Not thread-safe: one thread at a time, see `StoreWriter`.
///
/// Commits go to SQLite's write-ahead log; a `Checkpointer` moves them from there to the file.
package final class Store {
  /// Where it is kept, and how.
  package struct Options: Sendable {
    package var directory: String
    package var durability: Durability
    /// Written down, for whoever looks into the file.
    package var product: String
    /// How many events are kept for those who were away; 0 for none.
    package var eventLimit = 100_000
    /// How many pages of 1 KiB the write-ahead log may have before a checkpoint is due.
    package var checkpointPages = 4_000
    /// No number from here on was given out, whatever the file says.
    package var firstNumber: Int64 = 0
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
  package private(set) var clock: StoreClock
  /// No generation or sequence number from here on was ever given out.
  package let firstNumber: Int64
  /// Why the state is to be replaced once what can be read of it has been: nothing was written to it.
  package let damage: StoreError?

  let database: Database
  private let tables: Tables
  let events: EventTable
  private let begin: Statement
  private let end: Statement
  /// As it stands in `meta`.
  private let numberFloor: Int64
  /// Nil in a store that is to take the place of another.
  private let mark: CommitMark?
  private var filesInPlace: FilesInPlace
  /// SQLite's hook writes it.
  private let logPagesCell: UnsafeMutablePointer<Int32>

  /// Opens the state, or begins a new one; migrates it if an older version wrote it.
  ///
  /// The directory is this process's own until the store is closed.
  ///
  /// - Parameter announce: is told what is about to be done to files that are there.
  package convenience init(
    _ options: Options, at now: StoreClock.Reading, announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    try self.init(options, at: now, schema: .current, announce: announce)
  }

  convenience init(
    _ options: Options, at now: StoreClock.Reading, schema: Schema, lock: DirectoryLock? = nil,
    announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    let opened = try Self.open(options, at: now, schema, lock, announce)
    try self.init(options, at: now, opened, announce: announce)
  }

  init(
    _ options: Options, at now: StoreClock.Reading, _ opened: Opened,
    announce: (Finding) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(options.durability != .none, "what is not kept needs no store")
    self.options = options
    database = opened.database
    mark = opened.mark

    var damage = opened.damage
    var meta: Meta?
    do throws(StoreError) {
      meta = try Meta.read(database)
    } catch {
      guard error.kind == .corrupt else { throw error }
      damage = damage ?? error
    }
    if let loss = opened.loss, !opened.isLogSetAside {
      // The file is whole after a power failure, but `process` does not wait for the disk.
      if let meta, options.durability == .process, !meta.clock.reading.isOfSameBoot(as: now) {
        announce(.lostChanges(loss))
      } else {
        damage = damage ?? loss
      }
    }
    let numbers = NumberFloor(directory: options.directory)
    let given = numbers.read() ?? 0
    clock = StoreClock(continuing: meta?.clock, at: now)
    events = try EventTable(database, limit: options.eventLimit)
    damage = damage ?? events.damage
    firstNumber = max(
      max(meta?.numberFloor ?? 0, given) + 1, now.wallMicroseconds, options.firstNumber,
      events.highestSequence + 1)
    let isSetAside = opened.takesNumbersOver && given > 0
    let floor = isSetAside ? given : firstNumber + NumberFloor.reserve
    numberFloor = floor
    // In this order: a start that ends in between must not look like numbers of somebody else.
    if damage == nil {
      do throws(StoreError) {
        // Numbers that this file knows nothing of: it is an old backup, or nothing was kept for a while.
        let isOlder = meta.map { given > $0.numberFloor } ?? false
        if isOlder || opened.loss != nil || opened.isLogSetAside {
          try events.noteGap(through: firstNumber - 1)
        }
        try Meta.write(database, product: options.product, clock, at: now, numberFloor: floor)
      } catch {
        guard error.kind == .corrupt else { throw error }
        damage = error
      }
    }
    if !isSetAside { try numbers.write(floor) }
    self.damage = damage

    filesInPlace = try FilesInPlace([database.path, database.path + "-wal"])
    tables = try Tables(database)
    begin = try Statement(database, "BEGIN IMMEDIATE")
    end = try Statement(database, "COMMIT")
    logPagesCell = .allocate(capacity: 1)
    logPagesCell.initialize(to: 0)
    sqlite3_wal_hook(
      database.handle,
      { cell, _, _, pages in
        cell!.assumingMemoryBound(to: Int32.self).pointee = pages
        return SQLITE_OK
      }, logPagesCell)
    database.leavesLog = damage != nil
    if damage == nil { noteCommit() }
  }

  deinit {
    // What is about to be moved to the file is missing in the log from then on.
    if !database.leavesLog { mark?.clear() }
    sqlite3_wal_hook(database.handle, nil, nil)
    logPagesCell.deallocate()
  }

  // MARK: Commits

  /// Writes what a turn has changed: all of it, or nothing if it throws. Then the same batch can be
  /// tried again, as often as one likes.
  ///
  /// Takes about a microsecond for each new entity and 10 for the commit; `power` waits for the disk.
  package func commit(_ batch: StoreBatch, at now: StoreClock.Reading) throws(StoreError) {
    try commit(CollectionOfOne(batch), at: now)
  }

  /// The same for several batches, which stand or fall together: later ones win.
  ///
  /// Where nothing has changed nothing is written, unless `isProbe`: then the clocks are, for their own
  /// sake or to see whether anything can be.
  package func commit(
    _ batches: some Collection<StoreBatch>, at now: StoreClock.Reading, isProbe: Bool = false
  ) throws(StoreError) {
    guard isProbe || !batches.allSatisfy(\.isEmpty) else { return }
    var clock = clock
    try filesInPlace.check(atBootMicroseconds: now.bootMicroseconds)
    do throws(StoreError) {
      try begin.run()
      for batch in batches {
        try tables.write(batch, offset: clock.offset)
        if let new = batch.events { try events.append(new) }
      }
      if isProbe || clock.isOutdated(at: now) {
        try write(now)
        clock.note(now)
      }
      try end.run()
    } catch {
      database.rollBack()
      events.takeBack()
      overwriteFailure(at: now)
      throw error
    }
    events.didCommit()
    self.clock = clock
    noteCommit()
  }

  private func noteCommit() {
    if let mark, let position = database.logPosition { mark.note(position) }
  }

  /// Where only the last step of a commit has failed, its sync, all of it is in the log, and whoever
  /// opens the file next would take it for done. So something harmless takes its place there.
  private func overwriteFailure(at now: StoreClock.Reading) {
    do throws(StoreError) {
      try begin.run()
      try write(now)
      try end.run()
      noteCommit()
    } catch {
      // Nothing can be written: what has failed was not, either, or a crash now shows it whole.
      database.rollBack()
    }
  }

  /// Writes down how the clocks stand, if what is written down is outdated.
  package func noteClocks(at now: StoreClock.Reading) throws(StoreError) {
    guard clock.isOutdated(at: now) else { return }
    try commit(EmptyCollection(), at: now, isProbe: true)
  }

  private func write(_ now: StoreClock.Reading) throws(StoreError) {
    try Meta.write(
      database, product: options.product, clock, at: now, numberFloor: numberFloor)
  }

  /// Whether the write-ahead log is long enough to be moved to the file.
  package var needsCheckpoint: Bool { logPages >= options.checkpointPages }

  /// Pages in the write-ahead log.
  package var logPages: Int { Int(logPagesCell.pointee) }

  // MARK: Loading

  /// Has what is being loaded end with an error, soon. From any thread, while the store is open.
  package func interrupt() { sqlite3_interrupt(database.handle) }

  /// Reads all entities, half a microsecond for each; a table that cannot be read to its end does not
  /// keep others from being read. Instants are on the boot clock of this boot.
  package func loadRecords(_ reader: some RecordReader) {
    Tables.load(database, offset: clock.offset, reader)
  }

  /// What is stored of an entity; nil if nothing is.
  package func record(
    of kind: EntityKind, at place: UInt32
  ) throws(StoreError) -> (any StoredRecord)? {
    func read<Record: StoredRecord>(_: Record.Type) throws(StoreError) -> (any StoredRecord)? {
      try Table<Record>.row(Record.rowID(kind, place), database, offset: clock.offset)
    }
    guard let type = Tables.records.first(where: { $0.kinds.contains(kind) }) else { return nil }
    return try read(type)
  }

  /// The events that are kept, oldest first; then `beginEvents` can be called.
  package func loadEvents(_ body: (StoredEvents) -> Void) throws(StoreError) {
    try events.load(body)
  }

  /// To be called before the first events are committed: up to `sequence` there are no others than
  /// those that are kept.
  package func beginEvents(after sequence: Int64) throws(StoreError) {
    try events.begin(after: sequence)
  }

  /// Of events up to `sequence` some may be missing, after those that are there.
  func noteEvents(missingThrough sequence: Int64) throws(StoreError) {
    try lastEventSequence == 0 ? events.begin(after: sequence) : events.noteGap(through: sequence)
  }

  /// The highest sequence number of a stored event; 0 if there is none.
  package var lastEventSequence: Int64 { events.lastSequence }
}
