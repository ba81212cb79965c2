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
/// Another thread folds full segments into the tables when there are many, or when none has filled
/// up for a second. So folding does not slow down a burst of changes, and an entity that changes
/// repeatedly is written once.
///
/// `@unchecked Sendable`: everything is used only on the loop, except `log`, and `checkpoint` and
/// `copying` (on `upkeep`).
package final class StoreWriter: @unchecked Sendable {
  package let options: Store.Options
  private let execute: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let failed: @Sendable (StoreError) -> Void
  private let commits = DispatchQueue(label: "countdownd.store", qos: .userInitiated)
  /// Reserves the next segment even during folding, or the loop would have to wait for it.
  private let reserving = DispatchQueue(label: "countdownd.reserve")
  /// Folds and copies. Nil until the state is ready for it.
  private var upkeep: UpkeepThread?
  private let log: ChangeLog
  private var checkpoint: Checkpoint?
  /// The copy under way.
  private var copying: (copy: StateCopy, answer: @Sendable (StoreError?) -> Void)?
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

  private struct Upkeep {
    /// Why full segments cannot be folded, or nil.
    var problem: StoreError?
    var folds: Int64 = 0
    /// Copies to be made.
    var requests: [CopyRequest] = []
    /// The last copy, if the disk had no room for it.
    var copyInMemory: [UInt8]?
  }

  private struct CopyRequest {
    let path: String
    /// The segments to be folded first, and the number of their last batch.
    let log: (segments: [FoundSegment], last: UInt64)
    let answer: @Sendable (StoreError?) -> Void
  }

  private let upkeepState = Mutex(Upkeep())
  /// Called on the loop when folding begins to fail, or fails for another reason, and with nil when
  /// it works again.
  package var upkeepChanged: ((StoreError?) -> Void)?

  /// The most segments that one `fold` takes.
  private static let segmentsAtOnce = 4
  /// Folding waits for `mostSegments / shareOfSegments` full segments, or for a pause.
  private static let shareOfSegments = 8
  /// When upkeep is tried again after it failed.
  private static let retryMicroseconds: Int64 = 1_000_000
  /// How long copying may keep a full segment waiting.
  private static let copyMicroseconds: Int64 = 50_000

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
    checkpoint = try Checkpoint(options, store.database, store.meta)
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
    log.filled = { [weak self] in
      guard let self else { return }
      reserving.async { self.log.reserve() }
      upkeep?.wake()
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
    if store.meta.folded == 0 { try checkpoint?.fold(log.all.segments, through: log.all.last) }
    let thread = UpkeepThread { [weak self] in self?.lookAfterLog() ?? .waitUntilWoken }
    upkeep = thread
    let code = thread.start()
    guard code == 0 else {
      throw StoreError(systemError: code, path: options.directory, doing: "start a thread")
    }
    thread.wake()
  }

  deinit { upkeep?.endSoon() }

  // MARK: Batches

  /// Whether batches wait for the disk.
  package var isBusy: Bool { isWriting || !waiting.isEmpty }

  /// Returns why no stored entity may be changed, or nil: the next segment cannot be reserved, too
  /// many are not folded, or files were moved. Call it before a batch changes anything.
  package func problem(atBootMicroseconds now: Int64) -> StoreError? {
    let moved = filesInPlace.problem(atBootMicroseconds: now, log.currentSegment)
    if let problem = moved ?? log.problem { return problem }
    guard log.fullSegments >= options.mostSegments else { return nil }
    return foldingProblem
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

  /// Why full segments cannot be folded at present; nil if they can.
  package var foldingProblem: StoreError? { upkeepState.withLock { $0.problem } }

  /// Facts for `INFO persistence`.
  package var facts: [(name: String, value: String)] {
    let (problem, folds) = upkeepState.withLock { ($0.problem, $0.folds) }
    return [
      ("log_segments", "\(log.fullSegments + 1)"),
      ("folds", "\(folds)"),
      ("fold_error", problem?.description ?? ""),
    ]
  }

  /// The size of the files in the state directory, in bytes. O(files).
  package var stateBytes: Int { StateFiles.size(ofDirectory: options.directory) }

  /// Reserves the next segment, folds full ones, and continues a copy.
  private func lookAfterLog() -> UpkeepThread.Next {
    log.reserve()
    let problem = problemOfFolding()
    let hasChanged = upkeepState.withLock { state in
      defer { state.problem = problem }
      return state.problem?.kind != problem?.kind
    }
    if let problem, problem.kind == .corrupt {
      // The log has every acknowledged change. The next start sets the tables aside.
      failed(problem)
      return .waitUntilWoken
    }
    if hasChanged { execute { [self] in upkeepChanged?(problem) } }
    if goOnCopying(despite: problem) { return .goOn }
    if problem != nil || log.problem != nil {
      return .waitAtMost(microseconds: Self.retryMicroseconds)
    }
    guard !log.oldestFull(1).segments.isEmpty else { return .waitUntilWoken }
    return isTimeToFold ? .goOn : .waitAtMost(microseconds: options.pauseMicroseconds)
  }

  private var isTimeToFold: Bool {
    if log.fullSegments >= options.mostSegments / Self.shareOfSegments { return true }
    return foldingProblem != nil || ChangeLog.now >= log.filledAt + options.pauseMicroseconds
  }

  private func problemOfFolding() -> StoreError? {
    do throws(StoreError) {
      if isTimeToFold { try fold() }
      return nil
    } catch {
      return error
    }
  }

  /// Folds the oldest full segments, and recycles them.
  private func fold() throws(StoreError) {
    guard let checkpoint else { return }
    let (segments, last) = log.oldestFull(Self.segmentsAtOnce)
    guard !segments.isEmpty else { return }
    try checkpoint.fold(segments, through: last)
    upkeepState.withLock { $0.folds += 1 }
    try log.recycle(segments.count)
    log.reserve()
  }

  // MARK: Backup

  /// Copies the current state to a file, then calls `answer` on the loop; see `Checkpoint.backUp`.
  ///
  /// - Parameter now: the clocks to store first; nil to store none.
  package func backUp(
    to path: String, at now: StoreClock.Reading?,
    _ answer: @escaping @Sendable (StoreError?) -> Void
  ) {
    guard let now else { return copy(to: path, answer) }
    note(now)
    commit(at: now) { [self] in copy(to: path, answer) }
  }

  private func copy(to path: String, _ answer: @escaping @Sendable (StoreError?) -> Void) {
    let request = CopyRequest(path: path, log: log.all, answer: answer)
    upkeepState.withLock { $0.requests.append(request) }
    upkeep?.wake()
  }

  /// Begins a requested copy, or continues the one under way. Returns whether there is more to do.
  ///
  /// - Parameter problem: why segments cannot be folded, which ends the copy under way.
  private func goOnCopying(despite problem: StoreError?) -> Bool {
    guard let checkpoint else { return false }
    if let problem, let (_, answer) = copying { end(answer, problem) }
    if copying == nil {
      let request = upkeepState.withLock { $0.requests.isEmpty ? nil : $0.requests.removeFirst() }
      guard let request else { return false }
      begin(request, checkpoint)
    }
    guard let (copy, answer) = copying else { return true }
    do throws(StoreError) {
      guard try copy.goOn(for: Self.copyMicroseconds) else { return true }
      try checkpoint.finish(copy)
      end(answer, nil)
    } catch {
      end(answer, error)
    }
    return true
  }

  private func begin(_ request: CopyRequest, _ checkpoint: Checkpoint) {
    let (segments, last) = request.log
    do throws(StoreError) {
      for _ in 0..<segments.count / Self.segmentsAtOnce { try fold() }
      // Segments that were recycled meanwhile are in the tables.
      try checkpoint.fold(segments.filter { log.has($0) }, through: last)
      copying = (try checkpoint.beginCopy(to: request.path), request.answer)
    } catch {
      guard [.full, .missing].contains(error.kind) else { return end(request.answer, error) }
      beginInMemory(request, checkpoint)
    }
  }

  /// Makes a copy where nothing can be folded: there is no room, or the tables were removed while
  /// they are open.
  private func beginInMemory(_ request: CopyRequest, _ checkpoint: Checkpoint) {
    let (segments, last) = request.log
    do throws(StoreError) {
      let copy = try checkpoint.copyInMemory(
        with: segments.filter { log.has($0) }, through: last)
      upkeepState.withLock { $0.copyInMemory = copy }
      end(request.answer, nil)
    } catch {
      end(request.answer, error)
    }
  }

  /// Takes the copy that was made last, if it is not in a file because there was no room.
  package func takeCopyInMemory() -> [UInt8]? {
    upkeepState.withLock { state in
      defer { state.copyInMemory = nil }
      return state.copyInMemory
    }
  }

  private func end(_ answer: @escaping @Sendable (StoreError?) -> Void, _ error: StoreError?) {
    copying = nil
    execute { answer(error) }
  }

  // MARK: Ending

  /// Stores `batch` and the clocks, and closes the database. Waits for the disk. Call it on the
  /// loop, or once that has ended. Replies to a batch that is being appended come after this
  /// returns. A copy that is not complete is removed, and its `answer` is not called.
  package func close(at now: StoreClock.Reading) {
    endUpkeep()
    commits.sync {}
    reserving.sync {}
    storeLast(at: now)
    upkeep?.stop()
    copying = nil
    // Only now: closing the database unlocks the state directory for another daemon.
    checkpoint = nil
  }

  /// Ends folding and copying soon.
  func endUpkeep() { upkeep?.endSoon() }

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
