import CSQLite

/// A store that takes the place of a corrupt one.
///
/// It is made beside that, and is whole and on the disk before anything there is moved: the process may end, or
/// the disk be full, at any moment, and what could be read is either in the corrupt state, as it was, or in this.
///
/// Not thread-safe.
package final class Replacement {
  /// Where the corrupt state goes.
  private let place: String

  private let options: Store.Options
  private let files: StateFiles
  private let lock: DirectoryLock
  /// Until it is decided.
  private var store: Store?

  /// An empty one.
  ///
  /// - Parameters:
  ///   - corrupt: if it could be opened. It stays open, and can be gone on with if this fails.
  ///   - announce: is told where the corrupt state is to go, before anything is done.
  package init(
    of corrupt: Store?, _ options: Store.Options, at now: StoreClock.Reading,
    announce: (String) -> Void
  ) throws(StoreError) {
    self.options = options
    files = StateFiles(directory: options.directory)
    lock =
      if let lock = corrupt?.database.lock { lock } else { try DirectoryLock(options.directory) }
    files.removeReplacement()
    place = files.placeOfCorrupt(atUnixMicroseconds: now.wallMicroseconds)
    announce(place)
    do throws(StoreError) {
      try files.createReplacement()
      let database = try Database(files.replacement, .readWrite)
      try Store.prepare(database, options, .current)
      store = try Store(
        options, at: now, Store.Opened(database: database, takesNumbersOver: true))
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  deinit {
    guard store != nil else { return }
    store = nil
    files.removeReplacement()
  }

  /// All that is kept.
  ///
  /// - Parameters:
  ///   - events: oldest first.
  ///   - sequence: none is missing after this one.
  package func fill(
    _ batch: StoreBatch, events: [StoreBatch.Events], after sequence: Int64,
    at now: StoreClock.Reading
  ) throws(StoreError) {
    guard let store else { preconditionFailure("it is decided") }
    func batches(_ events: ArraySlice<StoreBatch.Events>) -> [StoreBatch] {
      events.map { events in
        var batch = StoreBatch()
        batch.events = events
        return batch
      }
    }
    // Some may be known of from before what is missing.
    let older = events.prefix { $0.lastSequence <= sequence }
    if !older.isEmpty { try store.commit(batches(older), at: now) }
    try store.noteEvents(missingThrough: sequence)
    try store.commit([batch] + batches(events[older.endIndex...]), at: now)
  }

  /// Decides that this is the state from now on: it gets to the disk, and the next to open the directory puts it
  /// in place. If it throws, nothing has come of it.
  package func decide() throws(StoreError) {
    guard let store else { return }
    let database = store.database
    let code = sqlite3_wal_checkpoint_v2(
      database.handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
    if code != SQLITE_OK { throw database.error(code) }
    self.store = nil
    do throws(StoreError) {
      try files.decide(insteadOf: place)
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  /// Puts it in place, and the corrupt state aside; nobody may have that open any more. To be called after
  /// `decide`, and again if it throws.
  package func open(at now: StoreClock.Reading) throws(StoreError) -> Store {
    precondition(store == nil, "it is not decided")
    return try Store(options, at: now, schema: .current, lock: lock)
  }
}
