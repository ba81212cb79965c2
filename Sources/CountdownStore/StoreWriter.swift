import Countdowns
import Dispatch

/// Drives a store from an event loop, so that the loop never waits for the disk.
///
/// - `process`: batches are committed on the loop, at once. Handing one to another thread and hearing
///   of it takes longer than committing it.
/// - `power`: a commit waits for the disk, so it is made on a thread. Batches that come meanwhile
///   are committed together.
///
/// Checkpoints are made on a thread of their own while commits go on. For the last pass of one, which
/// is short, commits wait; the loop does not.
///
/// `@unchecked Sendable`: everything is touched on the loop alone, but for `store` during `power`
/// (on `commits`) and `checkpointer` (on `upkeep`), once the writer is made and until it is closed.
package final class StoreWriter: @unchecked Sendable {
  /// What became of a batch: it is given back, to be tried again or used again.
  package typealias Answer = (StoreBatch, StoreError?) -> Void

  private struct Job {
    var batch: StoreBatch
    var now: StoreClock.Reading
    var isProbe: Bool
    var answer: Answer
  }

  private enum Upkeep { case resting, passing, finishing }

  package let options: Store.Options
  private let execute: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let commits = DispatchQueue(label: "countdownd.store", qos: .userInitiated)
  private let upkeep = DispatchQueue(label: "countdownd.store.upkeep", qos: .utility)

  private var store: Store?
  private var checkpointer: Checkpointer?

  private var waiting: [Job] = []
  private var underWay: [Job] = []
  /// What is submitted by an answer waits until all answers before it are given.
  private var isAnswering = false
  private var upkeepState = Upkeep.resting
  /// No checkpoint is tried before the log has so many pages.
  private var checkpointAt: Int
  private var passes = 0
  /// Pages in the write-ahead log after the last commit.
  package private(set) var logPages = 0

  /// The last checkpoint's error; nil once one has worked. Commits go on while the disk has room.
  package private(set) var checkpointError: StoreError? {
    didSet {
      if oldValue?.kind != checkpointError?.kind { checkpointsChanged?(checkpointError) }
    }
  }
  /// Called on the loop when they begin to fail, or fail for another reason, and when they work again.
  package var checkpointsChanged: ((StoreError?) -> Void)?
  /// Checkpoints that were done.
  package private(set) var checkpoints: Int64 = 0

  /// - Parameter execute: has its argument run on the loop, from any thread, soon.
  package init(
    _ store: sending Store, execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(StoreError) {
    options = store.options
    checkpointAt = store.options.checkpointPages
    checkpointer = try Checkpointer(store.options)
    self.store = store
    self.execute = execute
  }

  // MARK: Commits

  /// Whether batches wait for the disk or for a checkpoint.
  package var isBusy: Bool { !waiting.isEmpty || !underWay.isEmpty || isAnswering }

  /// Commits a batch after all that were submitted before. `answer` is called on the loop: before
  /// this returns, or later; in the order of the batches.
  ///
  /// If one fails, so do all that wait behind it: what they change may rest on what was not stored.
  ///
  /// - Parameter isProbe: the clocks are written even if nothing has changed.
  package func submit(
    _ batch: StoreBatch, at now: StoreClock.Reading, isProbe: Bool = false,
    _ answer: @escaping Answer
  ) {
    waiting.append(Job(batch: batch, now: now, isProbe: isProbe, answer: answer))
    goOn()
  }

  private func goOn() {
    guard upkeepState != .finishing, underWay.isEmpty, !isAnswering, !waiting.isEmpty, let store
    else { return }
    swap(&underWay, &waiting)
    let isProbe = underWay.contains { $0.isProbe }
    switch options.durability {
    case .none, .process:
      end(commit(underWay.map(\.batch), at: underWay.last!.now, isProbe, to: store))
    case .power:
      let batches = underWay.map(\.batch)
      let now = underWay.last!.now
      commits.async { [self] in
        let result = commit(batches, at: now, isProbe, to: self.store!)
        execute { [self] in end(result) }
      }
    }
  }

  private struct Outcome: Sendable {
    var error: StoreError?
    var logPages: Int
  }

  private func commit(
    _ batches: [StoreBatch], at now: StoreClock.Reading, _ isProbe: Bool, to store: Store
  ) -> Outcome {
    do throws(StoreError) {
      try store.commit(batches, at: now, isProbe: isProbe)
      return Outcome(error: nil, logPages: store.logPages)
    } catch {
      return Outcome(error: error, logPages: store.logPages)
    }
  }

  private func end(_ outcome: Outcome) {
    logPages = outcome.logPages
    var done: [Job] = []
    swap(&done, &underWay)
    if outcome.error != nil {
      done += waiting
      waiting = []
    }
    tendLog()
    isAnswering = true
    for job in done { job.answer(job.batch, outcome.error) }
    isAnswering = false
    goOn()
  }

  // MARK: Checkpoints

  private func tendLog() {
    guard upkeepState == .resting, logPages >= checkpointAt else { return }
    upkeepState = .passing
    passes = 0
    pass()
  }

  private func pass() {
    passes += 1
    upkeep.async { [self] in
      guard let checkpointer else { return }
      do throws(StoreError) {
        let moved = try checkpointer.pass()
        execute { [self] in passed(moved: moved) }
      } catch {
        execute { [self] in failed(error) }
      }
    }
  }

  private func passed(moved: Int) {
    checkpointError = nil
    // Commits went on; one may even have found all moved, and begun the log anew.
    let left = max(logPages - moved, 0)
    if left == 0 || upkeepState == .finishing {
      // What is left even after a pass without commits is held back by a reader: next time.
      upkeepState = .resting
      checkpoints += 1
      checkpointAt = left + options.checkpointPages
      goOn()
    } else {
      // Few enough, or no fewer by waiting: the rest while nothing comes.
      if left <= options.checkpointPages / 16 || passes == 4 { upkeepState = .finishing }
      if upkeepState == .finishing, !underWay.isEmpty {
        // It would miss what the commit under way adds, so it comes after it on that thread.
        commits.async { [self] in execute { [self] in pass() } }
      } else {
        pass()
      }
    }
  }

  private func failed(_ error: StoreError) {
    checkpointError = error
    upkeepState = .resting
    checkpointAt = logPages + options.checkpointPages
    goOn()
  }

  // MARK: Reading and backup

  /// The store, while no commit is under way; nil once it is closed.
  package var idleStore: Store? {
    precondition(underWay.isEmpty, "a commit is under way")
    return store
  }

  /// What is stored of an entity, from within an answer only: no commit is under way then.
  package func record(
    of kind: EntityKind, at place: UInt32
  ) throws(StoreError) -> (any StoredRecord)? {
    precondition(underWay.isEmpty, "a commit is under way")
    return try store?.record(of: kind, at: place)
  }

  /// Copies the state of this moment to a file; see `Checkpointer.backUp`. `answer` is called on the
  /// loop.
  ///
  /// - Parameter now: the clocks are written down first; nil to leave them.
  package func backUp(
    to path: String, at now: StoreClock.Reading?,
    _ answer: @escaping @Sendable (StoreError?) -> Void
  ) {
    guard let now else { return copy(to: path, answer) }
    // Where that fails the copy may work all the same: it can be on another disk.
    submit(StoreBatch(), at: now, isProbe: true) { [self] _, _ in copy(to: path, answer) }
  }

  private func copy(to path: String, _ answer: @escaping @Sendable (StoreError?) -> Void) {
    upkeep.async { [self] in
      guard let checkpointer else { return }
      do throws(StoreError) {
        try checkpointer.backUp(to: path)
        execute { answer(nil) }
      } catch {
        execute { answer(error) }
      }
    }
  }

  // MARK: Ending

  /// Commits what waits, writes down the clocks unless `now` is nil, and closes the files. Waits for the disk; on the loop,
  /// or once that has ended.
  ///
  /// Answers of a commit under way on its thread come after this has returned.
  package func close(at now: StoreClock.Reading?) {
    commits.sync {}
    upkeep.sync { checkpointer = nil }
    if let store, !waiting.isEmpty {
      let jobs = waiting
      waiting = []
      let outcome = commit(jobs.map(\.batch), at: jobs.last!.now, false, to: store)
      for job in jobs { job.answer(job.batch, outcome.error) }
    }
    // Where that fails a reboot costs some accuracy; nothing is lost.
    if let now { try? store?.noteClocks(at: now) }
    store = nil
  }
}
