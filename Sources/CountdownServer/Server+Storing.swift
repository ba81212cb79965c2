import CountdownStore
import Countdowns
import DispatchTimers
import Glibc
import Logging
import Runtime

/// Stores changes, or refuses them while they cannot be stored.
extension Server {
  private static let retryMilliseconds: UInt64 = 1_000

  var isReadOnly: Bool { dispatcher.engine.isReadOnly }

  /// The current reading of the clocks, for the store.
  var reading: StoreClock.Reading { state.reading(at: now) }

  /// Continues with a store whose contents were loaded: changes are stored from now on.
  func keep(_ store: sending Store) throws(StoreError) {
    let (logger, hooks) = (logger, hooks)
    let writer = try StoreWriter(
      store, eventsAfter: dispatcher.engine.lastSequence, at: reading
    ) { [self] body in
      runOnLoop { _ in body() }
    } failed: { error in
      Self.failStop(error, logger, hooks)
    }
    writer.upkeep.changed = { [self] in noteUpkeep($0) }
    state.writer = writer
  }

  /// Checks, before a batch changes anything, whether changes can be stored.
  func checkStore() {
    guard let writer = state.writer else { return }
    let problem = writer.problem(atBootMicroseconds: Int64(BootClock.now))
    state.problem = problem
    guard (problem != nil) != isReadOnly else { return }
    dispatcher.engine.isReadOnly = problem != nil
    if let problem {
      logger.log(
        .readOnly, .error,
        "nothing can be stored, so commands that change what is stored are refused until it can: \(problem)"
      )
      checkStoreLater()
    } else {
      logger.log(.writable, .notice, "state can be stored again")
    }
    hooks.isAlive(status)
  }

  private func checkStoreLater() {
    loop.schedule(inMilliseconds: Self.retryMilliseconds) { [self] in
      guard ending.phase == .serving else { return }
      openBatch()
      if isReadOnly { checkStoreLater() }
    }
  }

  private func noteUpkeep(_ error: StoreError?) {
    if let error {
      logger.log(
        .foldingFails, .error,
        """
        the log of changes cannot be brought to the state file, so it grows with each change; nothing is \
        lost, and \(isReadOnly ? "changes are refused" : "changes are accepted until the log is full"): \
        \(error)
        """)
    } else {
      logger.log(.foldingWorks, .notice, "the log of changes is brought to the state file again")
    }
    hooks.isAlive(status)
  }

  /// Ends the process at once: no client has a reply to a change that could not be stored.
  private static func failStop(_ error: StoreError, _ logger: Logger, _ hooks: ServerHooks) {
    logger.log(
      .cannotStore, .critical,
      """
      ending with status 74, as changes cannot be stored; no client has a reply to them, and the next \
      start continues with what was stored before: \(error)
      """)
    hooks.flushLog()
    _exit(EX_IOERR)
  }
}

extension StoreClock.Reading {
  init(bootID: String, _ now: Moment) {
    self.init(
      bootID: bootID, bootMicroseconds: now.boot.microseconds,
      wallMicroseconds: now.wall.microseconds)
  }
}
