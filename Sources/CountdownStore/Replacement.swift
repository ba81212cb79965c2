import Countdowns

/// A state that takes the place of a corrupt one.
///
/// It is made beside that, and is whole and on the disk before anything there is moved: the process
/// may end, or the disk be full, at any moment, and what could be read is either in the corrupt
/// state, as it was, or in this.
///
/// Not thread-safe.
package final class Replacement {
  /// Where the corrupt state goes.
  private let place: String

  private let options: Store.Options
  private let files: StateFiles
  private let lock: DirectoryLock
  private let clock: StoreClock
  /// Until it is decided.
  private var folder: Folder?

  /// An empty one.
  ///
  /// - Parameters:
  ///   - corrupt: if it could be opened.
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
      try Store.prepare(database, options, .current)
      let numbers = NumberFloor(directory: options.directory)
      // Those that were set aside already are its own.
      let given = numbers.read()
      let first = max(now.wallMicroseconds, options.firstNumber)
      let floor = given ?? first + NumberFloor.reserve
      let meta = Meta(Meta.Clocks(saved: clock.saved, numberFloor: floor))
      folder = try Folder(options, database, meta)
      try meta.write(database, product: options.product)
      if given == nil { try numbers.write(floor) }
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  deinit {
    guard folder != nil else { return }
    folder = nil
    files.removeReplacement()
  }

  /// Writes the state.
  ///
  /// - Parameter body: writes it.
  package func fill(_ body: (ChangeWriter) -> Void) throws(StoreError) {
    guard let folder else { preconditionFailure("it is decided") }
    let batch = ChangeWriter(offset: clock.offset)
    body(batch)
    try folder.write(batch.bytes)
  }

  /// Decides that this is the state from now on: the next to open the directory puts it in place.
  /// If it throws, nothing has come of it.
  package func decide() throws(StoreError) {
    guard folder != nil else { return }
    folder = nil
    do throws(StoreError) {
      try files.decide(insteadOf: place)
    } catch {
      files.removeReplacement()
      throw error
    }
  }

  /// Puts it in place, and the corrupt state aside; nobody may have that open any more. To be
  /// called after `decide`, and again if it throws.
  package func open(at now: StoreClock.Reading) throws(StoreError) -> Store {
    precondition(folder == nil, "it is not decided")
    return try Store(options, at: now, schema: .current, lock: lock)
  }
}
