import Countdowns
import Dispatch
import Glibc
import Synchronization

/// Stores changes, batch by batch, for an event loop that never waits for the tables.
///
/// - `process`: the loop appends a batch to the log at once, which is faster than a detour through
///   another thread.
/// - `power`: an append waits for the disk, so another thread makes it. Batches that come meanwhile
///   are appended together. If the disk is faster than such a detour, the loop appends.
///
/// `LogUpkeep` folds full segments into the tables meanwhile.
///
/// `@unchecked Sendable`: everything is used only on the loop, except `log` and `upkeep`, which
/// have locks of their own, and `underWay` (on `commits` while `isWriting`).
package final class StoreWriter: @unchecked Sendable {
  package let options: Store.Options
  private let execute: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let failed: @Sendable (StoreError) -> Void
  private let commits = DispatchQueue(label: "countdownd.store", qos: .userInitiated)
  private let log: ChangeLog
  package let upkeep: LogUpkeep
  private var filesInPlace: FilesInPlace

  /// The changes of the batch that is being executed.
  package private(set) var batch: ChangeWriter
  /// The changes that are being appended on `commits`.
  private var underWay: ChangeWriter
  private var waiting: [() -> Void] = []
  private var isWriting = false
  private var isClosed = false
  private var clock: StoreClock
  private var shortcut = Shortcut()
  /// Statistics of how long an append takes.
  package private(set) var appending = DurationStatistics()
  private let numberFloor: Int64

  /// Continues with a state that was loaded.
  ///
  /// - Parameters:
  ///   - sequence: the engine's last sequence number. If no events are stored, those up to it count
  ///     as missing.
  ///   - execute: runs its argument on the loop soon; called on any thread.
  ///   - failed: called on any thread when a batch cannot be stored. Nothing is stored afterwards:
  ///     the process must end.
  package init(
    _ store: sending Store, eventsAfter sequence: Int64, at now: StoreClock.Reading,
    execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
    failed: @escaping @Sendable (StoreError) -> Void
  ) throws(StoreError) {
    options = store.options
    self.execute = execute
    self.failed = failed
    clock = store.clock
    numberFloor = store.meta.clocks.numberFloor
    batch = ChangeWriter(offset: store.clock.offset)
    underWay = ChangeWriter(offset: store.clock.offset)
    log = try ChangeLog(
      store.files, options, store.log, lineage: store.meta.lineage, start: store.meta.start)
    filesInPlace = try FilesInPlace(store.files)
    upkeep = LogUpkeep(
      of: log, try Checkpoint(options, store.database, store.meta), options, execute, failed)
    note(now)
    let missing = store.missingThrough ?? 0
    let last = store.lastEventSequence
    let begin = last == 0 ? sequence : missing > last ? missing : 0
    if options.eventLimit == 0 {
      if last > 0 { batch.append(.none, missingThrough: 0) }
    } else if begin > 0 {
      batch.append(
        EventLog.Portion(lastSequence: begin, count: 0, bytes: []), missingThrough: begin)
    }
    log.reserve()
    // Before the append: no other start ever writes frames of this number.
    var numbers = store.numbers
    numbers.start = store.meta.start
    numbers.state = store.files.number ?? 0
    try numbers.write(in: options.directory)
    try log.append(batch.bytes)
    batch.removeAll()
    // After the append: a crash in between must not make these look like another daemon's numbers.
    numbers.floor = numberFloor
    try numbers.write(in: options.directory)
    // From now on the tables record that there is a log, so its loss is noticed.
    if store.meta.folded == 0 { try upkeep.foldAll() }
    try upkeep.start()
  }

  // MARK: Batches

  /// Whether batches wait for the disk.
  package var isBusy: Bool { isWriting || !waiting.isEmpty }

  /// Returns why no stored entity may be changed, or nil: the next segment cannot be reserved, too
  /// many are not folded, or files were moved. Call it before a batch changes anything.
  package func problem(atBootMicroseconds now: Int64) -> StoreError? {
    let moved = filesInPlace.problem(atBootMicroseconds: now, log.currentSegment)
    if let problem = moved ?? log.problem { return problem }
    guard log.fullSegments >= options.maximumSegments else { return nil }
    return upkeep.problem
      ?? StoreError(.full, options.directory, "the log is as long as it may be")
  }

  /// How long a batch may wait for more commands before it is committed: as long as a commit takes.
  /// 0 if commits do not wait for the disk, or batches are appended together anyway.
  package var gathersForMicroseconds: Int64 {
    options.durability == .power && shortcut.isOpen && !isBusy ? shortcut.recentMicroseconds : 0
  }

  /// When the clocks must be stored even if nothing else changes and nobody sets the wall clock: in
  /// microseconds of the boot clock.
  package var clocksDue: Int64 { clock.outdatedAt }

  /// Stores `batch`, and the clocks if they are outdated. Then calls `stored` on the loop, before
  /// this returns or later, in the order of the batches.
  ///
  /// If the batch cannot be stored, neither its `stored` nor that of any later batch is called.
  package func commit(at now: StoreClock.Reading, _ stored: @escaping () -> Void) {
    switch commitAtOnce(at: now) {
    case .stored: stored()
    case .waits: commitLater(stored)
    case .failed: break
    }
  }

  package enum Commit {
    case stored
    /// The batch has to wait: call `commitLater`.
    case waits
    case failed
  }

  /// Stores `batch` like `commit`, if that can be done before this returns.
  package func commitAtOnce(at now: StoreClock.Reading) -> Commit {
    guard !isClosed else { return .failed }
    if clock.isOutdated(at: now) { note(now) }
    guard isAppendedHere, !isBusy else { return .waits }
    return appendHere() ? .stored : .failed
  }

  private var isAppendedHere: Bool { options.durability != .power || shortcut.isOpen }

  /// Appends `batch` on the loop. Returns false if that fails.
  private func appendHere() -> Bool {
    guard !batch.isEmpty else { return true }
    do throws(StoreError) {
      note(appending: try log.append(batch.bytes))
    } catch {
      fail(error)
      return false
    }
    batch.removeAll()
    return true
  }

  /// Stores a batch that `commitAtOnce` could not, and calls `stored` as `commit` does.
  package func commitLater(_ stored: @escaping () -> Void) {
    waiting.append(stored)
    goOn()
  }

  private func note(appending microseconds: Int64) {
    appending.record(microseconds)
    shortcut.note(appending: microseconds)
  }

  private func note(_ now: StoreClock.Reading) {
    clock.note(now)
    batch.append(
      clocks: Meta.Clocks(saved: clock.saved, numberFloor: numberFloor).bytes(offset: 0))
  }

  private func fail(_ error: StoreError) {
    isClosed = true
    failed(error)
  }

  private func goOn() {
    guard !isWriting, !waiting.isEmpty else { return }
    // An empty batch has nothing to wait for.
    if batch.isEmpty || isAppendedHere {
      if appendHere() { answer() }
      return
    }
    isWriting = true
    swap(&batch, &underWay)
    let answers = waiting
    waiting = []
    nonisolated(unsafe) let given = answers
    commits.async { [self] in
      do throws(StoreError) {
        let took = try log.append(underWay.bytes)
        execute { [self] in
          note(appending: took)
          underWay.removeAll()
          isWriting = false
          for stored in unsafe given { stored() }
          goOn()
        }
      } catch {
        execute { [self] in fail(error) }
      }
    }
  }

  private func answer() {
    let answers = waiting
    waiting = []
    for stored in answers { stored() }
  }

  // MARK: Upkeep

  /// Facts for `INFO persistence`.
  package var facts: [(name: String, value: String)] {
    [("log_segments", "\(log.fullSegments + 1)")] + upkeep.facts
  }

  /// The size of the files in the state directory, in bytes. O(files).
  package var stateBytes: Int { StateFiles.size(ofDirectory: options.directory) }

  // MARK: Backup

  /// Copies the current state to a file, then calls `answer` on the loop; see `Checkpoint.backUp`.
  ///
  /// - Parameter now: the clocks to store first; nil to store none.
  package func backUp(
    to path: String, at now: StoreClock.Reading?,
    _ answer: @escaping @Sendable (StoreError?) -> Void
  ) {
    guard let now else { return upkeep.copy(to: path, answer) }
    note(now)
    commit(at: now) { [self] in upkeep.copy(to: path, answer) }
  }

  // MARK: Ending

  /// Stores `batch` and the clocks, and closes the database. Waits for the disk. Call it on the
  /// loop, or once that has ended. Replies to a batch that is being appended come after this
  /// returns. A copy that is not complete is removed, and its `answer` is not called.
  package func close(at now: StoreClock.Reading) {
    upkeep.endSoon()
    commits.sync {}
    upkeep.finishReserving()
    storeLast(at: now)
    // Only now: closing the database unlocks the state directory for another daemon.
    upkeep.close()
  }

  private func storeLast(at now: StoreClock.Reading) {
    guard !isClosed else { return }
    isClosed = true
    note(now)
    do throws(StoreError) {
      try log.append(batch.bytes)
    } catch {
      return failed(error)
    }
    let answers = waiting
    waiting = []
    for stored in answers { stored() }
  }
}

/// Decides whether the loop itself appends a batch that must reach the disk. If the disk is fast,
/// it does: handing the batch to a thread and back takes as long, and half of the clients would
/// then wait for one batch and half for the next, so there would be twice as many batches.
struct Shortcut {
  /// How long appends may hold the loop, in microseconds: as long as the queue of long work may.
  private static let longest: Int64 = 1_000

  /// The time of recent appends, in microseconds: an average in which the newest weighs an eighth.
  private(set) var recentMicroseconds = 8 * longest

  mutating func note(appending microseconds: Int64) {
    recentMicroseconds += (microseconds - recentMicroseconds) / 8
  }

  var isOpen: Bool { recentMicroseconds <= Self.longest }
}
