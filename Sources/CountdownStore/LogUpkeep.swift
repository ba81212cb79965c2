import Countdowns
import Dispatch
import Synchronization

/// Folds full segments of the log into the tables, on a thread of its own: when there are many, or
/// when none has filled up for a second. So folding does not slow down a burst of changes, and an
/// entity that changes repeatedly is written once. The same thread copies the state.
///
/// `@unchecked Sendable`: `checkpoint` and `copying` belong to the thread while it runs, `changed`
/// belongs to the loop; `state` has a lock.
package final class LogUpkeep: @unchecked Sendable {
  private let log: ChangeLog
  private let options: Store.Options
  private let execute: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let failed: @Sendable (StoreError) -> Void
  private var thread: UpkeepThread?
  /// Reserves the next segment even during folding, or the loop would have to wait for it.
  private let reserving = DispatchQueue(label: "countdownd.reserve")
  private var checkpoint: Checkpoint?
  /// The copy under way.
  private var copying: (copy: StateCopy, answer: @Sendable (StoreError?) -> Void)?

  private struct State {
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

  private let state = Mutex(State())
  /// Called on the loop when folding begins to fail, or fails for another reason, and with nil when
  /// it works again.
  package var changed: ((StoreError?) -> Void)?

  /// The most segments that one `fold` takes.
  private static let segmentsAtOnce = 4
  /// Folding waits for `maximumSegments / shareOfSegments` full segments, or for a pause.
  private static let shareOfSegments = 8
  /// When upkeep is tried again after it failed.
  private static let retryMicroseconds: Int64 = 1_000_000
  /// How long copying may keep a full segment waiting.
  private static let copyMicroseconds: Int64 = 50_000

  init(
    of log: ChangeLog, _ checkpoint: Checkpoint, _ options: Store.Options,
    _ execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
    _ failed: @escaping @Sendable (StoreError) -> Void
  ) {
    (self.log, self.checkpoint, self.options) = (log, checkpoint, options)
    (self.execute, self.failed) = (execute, failed)
    log.filled = { [weak self] in
      guard let self else { return }
      reserving.async { log.reserve() }
      thread?.wake()
    }
  }

  deinit { thread?.endSoon() }

  /// Folds the whole log, before the thread starts.
  func foldAll() throws(StoreError) {
    try checkpoint?.fold(log.all.segments, through: log.all.last)
  }

  func start() throws(StoreError) {
    let thread = UpkeepThread { [weak self] in self?.lookAfterLog() ?? .waitUntilWoken }
    self.thread = thread
    let code = thread.start()
    guard code == 0 else {
      throw StoreError(systemError: code, path: options.directory, doing: "start a thread")
    }
    thread.wake()
  }

  /// Ends folding and copying soon.
  func endSoon() { thread?.endSoon() }

  func finishReserving() { reserving.sync {} }

  /// Waits until the thread has ended, and closes the database.
  func close() {
    thread?.stop()
    copying = nil
    checkpoint = nil
  }

  // MARK: Folding

  /// Why full segments cannot be folded at present; nil if they can.
  package var problem: StoreError? { state.withLock { $0.problem } }

  var facts: [(name: String, value: String)] {
    let (problem, folds) = state.withLock { ($0.problem, $0.folds) }
    return [("folds", "\(folds)"), ("fold_error", problem?.description ?? "")]
  }

  /// Reserves the next segment, folds full ones, and continues a copy.
  private func lookAfterLog() -> UpkeepThread.Next {
    log.reserve()
    let problem = problemOfFolding()
    let hasChanged = state.withLock { state in
      defer { state.problem = problem }
      return state.problem?.kind != problem?.kind
    }
    if let problem, problem.kind == .corrupt {
      // The log has every acknowledged change. The next start sets the tables aside.
      failed(problem)
      return .waitUntilWoken
    }
    if hasChanged { execute { [self] in changed?(problem) } }
    if goOnCopying(despite: problem) { return .goOn }
    if problem != nil || log.problem != nil {
      return .waitAtMost(microseconds: Self.retryMicroseconds)
    }
    guard !log.oldestFull(1).segments.isEmpty else { return .waitUntilWoken }
    return isTimeToFold ? .goOn : .waitAtMost(microseconds: options.pauseMicroseconds)
  }

  private var isTimeToFold: Bool {
    if log.fullSegments >= options.maximumSegments / Self.shareOfSegments { return true }
    return problem != nil || ChangeLog.now >= log.filledAt + options.pauseMicroseconds
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
    state.withLock { $0.folds += 1 }
    try log.recycle(segments.count)
    log.reserve()
  }

  // MARK: Copying

  /// Requests a copy of the current state.
  func copy(to path: String, _ answer: @escaping @Sendable (StoreError?) -> Void) {
    let request = CopyRequest(path: path, log: log.all, answer: answer)
    state.withLock { $0.requests.append(request) }
    thread?.wake()
  }

  /// Begins a requested copy, or continues the one under way. Returns whether there is more to do.
  ///
  /// - Parameter problem: why segments cannot be folded, which ends the copy under way.
  private func goOnCopying(despite problem: StoreError?) -> Bool {
    guard let checkpoint else { return false }
    if let problem, let (_, answer) = copying { end(answer, problem) }
    if copying == nil {
      let request = state.withLock { $0.requests.isEmpty ? nil : $0.requests.removeFirst() }
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
      state.withLock { $0.copyInMemory = copy }
      end(request.answer, nil)
    } catch {
      end(request.answer, error)
    }
  }

  /// Takes the copy that was made last, if it is not in a file because there was no room.
  package func takeCopyInMemory() -> [UInt8]? {
    state.withLock { state in
      defer { state.copyInMemory = nil }
      return state.copyInMemory
    }
  }

  private func end(_ answer: @escaping @Sendable (StoreError?) -> Void, _ error: StoreError?) {
    copying = nil
    execute { answer(error) }
  }
}
