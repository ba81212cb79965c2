import Countdowns

/// A state that takes the place of a corrupt one.
///
/// It is complete and on the disk before it gets its name, the next number. The corrupt state stays
/// as it is. The process may end, or the disk fill up, at any moment: what could be read is either
/// in the newest state or is read again.
///
/// Not thread-safe.
package final class Replacement {
  private let options: Store.Options
  private let files: StateFiles
  private let lock: DirectoryLock
  private let clock: StoreClock
  /// Nil once the replacement has its name.
  private var checkpoint: Checkpoint?

  /// The corrupt state.
  package var replaced: String { files.database }
  /// The state that takes its place.
  package var path: String { files.next.database }

  /// Creates an empty replacement.
  ///
  /// - Parameter corrupt: the corrupt state, if it could be opened.
  package init(
    of corrupt: Store?, _ options: Store.Options, at now: StoreClock.Reading
  ) throws(StoreError) {
    self.options = options
    files = try StateFiles(directory: options.directory)
    lock =
      if let lock = corrupt?.database.lock { lock } else { try DirectoryLock(options.directory) }
    files.removeReplacement()
    clock = StoreClock(continuing: nil, at: now)
    do throws(StoreError) {
      try files.createReplacement()
      let database = try Database(files.replacement, .readWrite)
      try Store.prepare(database, options)
      // Numbers that are already reserved belong to the replacement.
      var numbers = try Numbers(in: options.directory)
      let isNew = numbers.floor == 0
      if isNew { numbers.floor = max(now.wallMicroseconds, options.firstNumber) + Numbers.reserve }
      let meta = Meta(Meta.Clocks(saved: clock.saved, numberFloor: numbers.floor))
      checkpoint = try Checkpoint(options, database, meta)
      try meta.write(database, product: options.product)
      if isNew { try numbers.write(in: options.directory) }
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  deinit {
    guard checkpoint != nil else { return }
    checkpoint = nil
    files.removeReplacement()
  }

  /// Writes the content of the state.
  ///
  /// - Parameter body: adds the content to a batch.
  package func fill(_ body: (ChangeWriter) -> Void) throws(StoreError) {
    guard let checkpoint else { preconditionFailure("it is finished") }
    let batch = ChangeWriter(offset: clock.offset)
    body(batch)
    try checkpoint.write(batch.bytes)
  }

  /// Makes this the newest state of the directory. If it throws, the corrupt state still is, unless
  /// only the last sync failed.
  package func finish() throws(StoreError) {
    guard checkpoint != nil else { return }
    checkpoint = nil
    do throws(StoreError) {
      try files.finishReplacement()
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  /// Opens this state. Call it after `finish`, and again if it throws.
  package func open(at now: StoreClock.Reading) throws(StoreError) -> Store {
    precondition(checkpoint == nil, "it is not finished")
    return try Store(options, at: now, lock: lock)
  }
}
