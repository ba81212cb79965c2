import Countdowns
import Glibc

/// Brings what the log has to the tables, and makes copies of them: on one thread, beside the commits.
final class Folder: @unchecked Sendable {
  private let options: Store.Options
  private let database: Database
  private let tables: Tables
  private var meta: Meta

  init(_ options: Store.Options, _ database: Database, _ meta: Meta) throws(StoreError) {
    self.options = options
    self.database = database
    self.meta = meta
    tables = try Tables(database)
  }

  /// Up to this number batches are in the tables.
  var folded: UInt64 { meta.folded }

  /// Applies the batches of some segments, up to a number: all of them or none. When it returns they
  /// are on the disk.
  func fold(_ segments: [FoundSegment], through number: UInt64) throws(StoreError) {
    guard number > meta.folded else { return }
    let numbers = meta.folded + 1...number
    let bytes = try segments.map { (segment) throws(StoreError) in try segment.read() }
    var newest = NewestChanges()
    var events: [LoggedEvents] = []
    var table = try EventTable(database, limit: options.eventLimit)
    if let damage = table.damage { throw damage }
    // Where only the last step of a transaction has failed it is in the tables, and done again: it may
    // not be on the disk.
    var lastEvent = table.lastSequence
    var new = meta
    var last = meta.folded
    for (index, bytes) in bytes.enumerated() {
      LogContents.forEachBatch(in: bytes, numbers: numbers, before: bytes.count) { batch in
        last += 1
        _ = ChangeEntry.forEach(of: batch) { entry in
          _ = newest.note(entry, inSegment: index)
          switch entry {
          case .events(let portion, let missing):
            if portion.dropsAll { lastEvent = 0 }
            guard portion.dropsAll || portion.lastSequence > lastEvent else { return }
            let logged = LoggedEvents(portion, missingThrough: missing)
            if events.isEmpty || !events[events.count - 1].append(logged) { events.append(logged) }
          case .clocks(let bytes):
            if let clocks = Meta.Clocks(bytes: bytes, offset: 0) { new.clocks = clocks }
          case .current, .gone: break
          }
        }
      }
    }
    guard last == number else {
      throw StoreError(
        .corrupt, segments.first?.path ?? options.directory, "batch \(last + 1) cannot be read")
    }
    new.folded = last
    newest.sort()
    try database.transaction { () throws(StoreError) in
      try tables.write(newest, bytes)
      if !events.isEmpty || options.eventLimit == 0 { try table.append(events) }
      try new.write(database, product: options.product)
    }
    meta = new
  }

  /// Applies one batch that is in no log: what a new state begins with.
  func write(_ batch: [UInt8]) throws(StoreError) {
    var newest = NewestChanges()
    var events: [LoggedEvents] = []
    _ = ChangeEntry.forEach(of: batch[...]) { entry in
      _ = newest.note(entry, inSegment: 0)
      if case .events(let portion, let missing) = entry {
        events.append(LoggedEvents(portion, missingThrough: missing))
      }
    }
    newest.sort()
    try database.transaction { () throws(StoreError) in
      try tables.write(newest, [batch])
      var table = try EventTable(database, limit: options.eventLimit)
      try table.append(events)
      try meta.write(database, product: options.product)
    }
  }

  // MARK: Backup

  /// Of a copy that is not whole.
  static let partialSuffix = ".partial"

  /// Copies the tables to a file: about a second for each million rows.
  ///
  /// The file gets its name only once it is whole; one of that name is replaced. Nothing waits for the
  /// disk: it is there to be read, and removed.
  func backUp(to path: String) throws(StoreError) {
    let partial = path + Self.partialSuffix
    func removePartial() { for suffix in ["", "-journal"] { unlink(partial + suffix) } }
    removePartial()
    try checkRoom(for: partial)
    // Made beforehand, as nobody else is to read it.
    let descriptor = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: partial, doing: "create")
    }
    close(descriptor)
    do throws(StoreError) {
      let copy = try Statement(database, "VACUUM INTO ?")
      copy.bind(1, partial)
      do throws(StoreError) {
        try copy.run()
        try detach(partial)
      } catch {
        // SQLite speaks of the copy.
        throw StoreError(error.kind, partial, error.detail)
      }
      guard rename(partial, path) == 0 else {
        throw StoreError(systemError: errno, path: path, doing: "rename")
      }
    } catch {
      removePartial()
      throw error
    }
  }

  /// Makes a copy a state of its own: the log of this one goes on without it.
  private func detach(_ path: String) throws(StoreError) {
    let copy = try Database(path, .readWrite)
    try copy.execute("PRAGMA synchronous = OFF")
    var meta = meta
    meta.lineage = Meta.newLineage
    meta.folded = 0
    // Where it is restored, numbers have been given out that it knows nothing of.
    meta.clocks.numberFloor -= 1
    try meta.write(copy, product: options.product)
  }

  /// A copy that finds no room would take that of commits before it is given up.
  private func checkRoom(for path: String) throws(StoreError) {
    var system = statvfs()
    guard statvfs(StateFiles.directory(of: path), &system) == 0 else {
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
