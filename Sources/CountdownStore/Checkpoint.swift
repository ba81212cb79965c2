import Countdowns
import Glibc

/// Folds the change log into the tables, and backs them up, on one thread in parallel with commits.
final class Checkpoint: @unchecked Sendable {
  private let options: Store.Options
  private let database: Database
  private let entities: EntityRows
  private var meta: Meta
  /// The rows of events, as the last transaction has left them; nil if that is unknown.
  private var rows: [EventTable.Row]?

  init(_ options: Store.Options, _ database: Database, _ meta: Meta) throws(StoreError) {
    self.options = options
    self.database = database
    self.meta = meta
    entities = try EntityRows(database)
  }

  /// Applies the batches of segments, up to a number, to the tables: all of them or none. When this
  /// returns, they are on the disk.
  func fold(_ segments: [FoundSegment], through number: UInt64) throws(StoreError) {
    guard number > UInt64(meta.folded) else { return }
    let numbers = UInt64(meta.folded) + 1...number
    let bytes = try segments.map { (segment) throws(StoreError) in try segment.read() }
    var changes = try Changes(EventTable(database, options, rows: rows))
    var new = meta
    for (index, bytes) in bytes.enumerated() {
      LogContents.forEachBatch(in: bytes, numbers: numbers, before: bytes.count) { batch in
        new.folded += 1
        changes.note(batch, inSegment: index)
      }
    }
    guard UInt64(new.folded) == number else {
      throw StoreError(
        .corrupt, segments.first?.path ?? options.directory,
        "batch \(new.folded + 1) cannot be read")
    }
    new.clocks = changes.clocks ?? meta.clocks
    try write(&changes, bytes, new)
    meta = new
  }

  /// Applies a batch that is not in the log: the initial content of a new state.
  func write(_ batch: [UInt8]) throws(StoreError) {
    var changes = try Changes(EventTable(database, options, rows: rows))
    changes.note(batch[...], inSegment: 0)
    try write(&changes, [batch], meta)
  }

  private func write(
    _ changes: inout Changes, _ segments: [[UInt8]], _ meta: Meta
  ) throws(StoreError) {
    changes.newest.sort()
    changes.events.sort { $0.events.lastSequence < $1.events.lastSequence }
    rows = nil
    try database.transaction { () throws(StoreError) in
      try entities.write(changes.newest, segments)
      if !changes.events.isEmpty || options.eventLimit == 0 {
        try changes.table.append(changes.events)
      }
      try meta.write(database, product: options.product)
    }
    rows = changes.table.rows
  }

  /// The changes of a series of batches.
  private struct Changes {
    var table: EventTable
    var newest = NewestChanges()
    var events: [LoggedEvents] = []
    var clocks: Meta.Clocks?
    private var lastEvent: Int64
    /// The number of the newest event that was noted.
    private var noted: Int64 = 0
    /// For each user, the index in `events` where more can be added without a gap.
    private var indices: [UInt32: Int] = [:]

    init(_ table: EventTable) throws(StoreError) {
      if let damage = table.damage { throw damage }
      self.table = table
      // If only the last step of a transaction failed, the tables already have its events. The
      // transaction is repeated because it may not be on the disk.
      lastEvent = table.lastSequence
    }

    mutating func note(_ batch: ArraySlice<UInt8>, inSegment index: Int) {
      _ = ChangeEntry.forEach(of: batch) { entry in
        _ = newest.note(entry, inSegment: index)
        switch entry {
        case .events(let portion, let missing):
          note(LoggedEvents(portion, missingThrough: missing))
        case .clocks(let bytes): clocks = Meta.Clocks(bytes: bytes, offset: 0) ?? clocks
        case .current, .gone: break
        }
      }
    }

    private mutating func note(_ logged: LoggedEvents) {
      if logged.events.dropsAll { (events, indices, lastEvent, noted) = ([], [:], 0, 0) }
      guard logged.events.dropsAll || logged.events.lastSequence > lastEvent else { return }
      if logged.missingThrough > noted || logged.events.count == 0 { indices = [:] }
      noted = max(noted, logged.events.lastSequence)
      let user = logged.events.user
      if let index = indices[user], events[index].append(logged) { return }
      if logged.events.count > 0 { indices[user] = events.count }
      events.append(logged)
    }
  }

  // MARK: Backup

  /// Begins a copy of the tables: about a second for each GiB. Folding can continue meanwhile.
  func beginCopy(to path: String) throws(StoreError) -> StateCopy {
    try checkRoom(for: path)
    return try StateCopy(of: database, to: path)
  }

  /// Gives a complete copy its name.
  func finish(_ copy: StateCopy) throws(StoreError) {
    try copy.finish(metaOfCopy, product: options.product)
  }

  /// Its new lineage separates a copy from the log of this state.
  private var metaOfCopy: Meta {
    var meta = meta
    meta.lineage = Meta.newLineage
    meta.folded = 0
    // With a lower floor, a restored copy knows that numbers were given out after it was made.
    meta.clocks.numberFloor -= 1
    return meta
  }

  /// The largest copy that is made in memory, in bytes.
  private static let maximumInMemory: Int64 = 1 << 30

  /// Copies the tables in memory, and applies the batches of segments to the copy: for a disk that
  /// has room for neither. Returns the bytes of its file.
  func copyInMemory(
    with segments: [FoundSegment], through number: UInt64
  ) throws(StoreError) -> [UInt8] {
    let size = try database.number("PRAGMA page_count") * database.number("PRAGMA page_size")
    guard size <= Self.maximumInMemory else {
      throw StoreError(
        .full, database.path,
        "a copy has \(size >> 20) MiB, and one in memory at most \(Self.maximumInMemory >> 20) MiB")
    }
    let copy = try Database.inMemory(copyOf: database)
    let checkpoint = try Checkpoint(options, copy, meta)
    try checkpoint.fold(segments, through: number)
    try checkpoint.metaOfCopy.write(copy, product: options.product)
    return copy.bytes
  }

  /// Throws if a copy does not fit: it would take the space of commits before it failed.
  private func checkRoom(for path: String) throws(StoreError) {
    var system = statvfs()
    guard unsafe statvfs(StateFiles.directory(of: path), &system) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "statvfs")
    }
    let free = Int64(system.f_bavail) * Int64(system.f_frsize)
    let pages = try database.number("PRAGMA page_count")
    let needed = try pages * database.number("PRAGMA page_size") + Int64(options.segmentSize)
    guard free >= needed else {
      throw StoreError(
        .full, path,
        "it takes \(needed >> 20) MiB with what is stored meanwhile, \(free >> 20) MiB are free")
    }
  }
}
