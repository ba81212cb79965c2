import Countdowns

/// A state that takes the place of a corrupt one.
///
/// It is created beside the corrupt state, and is complete and on the disk before anything is
/// moved. The process may end, or the disk fill up, at any moment: what could be read is either in
/// the unchanged corrupt state or in this one.
///
/// Not thread-safe.
package final class Replacement {
  /// Where the corrupt state goes.
  private let place: String

  private let options: Store.Options
  private let files: StateFiles
  private let lock: DirectoryLock
  private let clock: StoreClock
  /// Nil once the replacement is decided on.
  private var checkpoint: Checkpoint?

  /// Creates an empty replacement.
  ///
  /// - Parameters:
  ///   - corrupt: the corrupt state, if it could be opened.
  ///   - announce: receives where the corrupt state will be moved, before anything is done.
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
    clock = StoreClock(continuing: nil, at: now)
    do throws(StoreError) {
      try files.createReplacement()
      let database = try Database(files.replacement, .readWrite)
      try Store.prepare(database, options)
      let numbers = NumberFloor(directory: options.directory)
      // Numbers that are already reserved belong to the replacement.
      let given = numbers.read()
      let first = max(now.wallMicroseconds, options.firstNumber)
      let floor = given ?? first + NumberFloor.reserve
      let meta = Meta(Meta.Clocks(saved: clock.saved, numberFloor: floor))
      checkpoint = try Checkpoint(options, database, meta)
      try meta.write(database, product: options.product)
      if given == nil { try numbers.write(floor) }
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
    guard let checkpoint else { preconditionFailure("it is decided") }
    let batch = ChangeWriter(offset: clock.offset)
    body(batch)
    try checkpoint.write(batch.bytes)
  }

  /// Decides that this is the state from now on: the next opening of the directory puts it in
  /// place. If it throws, the corrupt state remains, unless only the last sync failed.
  package func decide() throws(StoreError) {
    guard checkpoint != nil else { return }
    checkpoint = nil
    do throws(StoreError) {
      try files.decide(insteadOf: place)
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  /// Moves the corrupt state aside, which nobody may have open, and opens this one in its place.
  /// Call it after `decide`, and again if it throws.
  package func open(at now: StoreClock.Reading) throws(StoreError) -> Store {
    precondition(checkpoint == nil, "it is not decided")
    return try Store(options, at: now, lock: lock)
  }
}
