import CountdownStore
import Countdowns
import Logging
import NIOCore

/// What could not be stored is taken back, and tried again until it can be.
extension Server {
  private static let refusal =
    "READONLY state could not be stored, so this was not done; INFO persistence says why"
  private static let retryInterval = TimeAmount.seconds(1)

  /// A turn could not be stored: whatever commands have changed in it is as it was, and they are told so.
  func notStored(
    _ turn: [Told], _ batch: StateKeeper.Batch, _ error: StoreError, _ keeper: StateKeeper
  ) {
    // What comes behind a turn that was taken back may rest on it; and what is taken back behind a turn
    // in which only time has passed would take some of that back.
    if !dispatcher.engine.isReadOnly { firstUnstored = batch.number }
    let isOneOfMany = dispatcher.engine.isReadOnly || dispatcher.mayTakeBack
    if takeBack(turn, batch, keeper, isOneOfMany: isOneOfMany) { hasTakenBack = true }
    // What was taken back may be due by now, or sooner than what was to take its place; and trying
    // again waits for the end of the turn that is under way.
    endTurn()
    guard !dispatcher.engine.isReadOnly else { return }
    dispatcher.engine.isReadOnly = true
    mustTakeBack = true
    logger.log(
      .readOnly, .error,
      "nothing can be stored, so commands that change what is kept are refused until it can: \(error)"
    )
    hooks.isAlive(status)
    retryLater()
  }

  /// - Returns: whether anything is as it was before; not if time alone has changed something.
  @discardableResult
  func takeBack(
    _ turn: [Told], _ batch: StateKeeper.Batch, _ keeper: StateKeeper, isOneOfMany: Bool
  ) -> Bool {
    guard isOneOfMany || turn.contains(where: { $0.said.hasChangedAnything }) else {
      // Time has changed things; it would do so again.
      keeper.keepForLater(batch, dispatcher.engine)
      write(turn)
      return false
    }
    do throws(StoreError) {
      try keeper.takeBack(batch, dispatcher.engine, at: now)
    } catch {
      // Until it can be, what was refused is seen; nothing is stored before.
      logger.critical("what could not be stored cannot be taken back yet, either: \(error)")
      leftToTakeBack.append(batch)
    }
    write(turn, withdrawing: (Self.refusal, since: firstUnstored))
    // Who was shown what did not come about is shown how it is.
    for (session, said) in turn where !said.snapshots.isEmpty {
      dispatcher.repeatSnapshots(said.snapshots, for: session, at: now)
      endTurn()
    }
    return true
  }

  /// - Returns: false if what is stored of it still cannot be read.
  private func takeBackWhatIsLeft(_ keeper: StateKeeper) -> Bool {
    while let batch = leftToTakeBack.first {
      do throws(StoreError) {
        try keeper.takeBack(batch, dispatcher.engine, at: now)
      } catch {
        return false
      }
      leftToTakeBack.removeFirst()
      endTurn()
    }
    return true
  }

  /// What time has done since nothing could be stored is tried once more, before the end.
  func storeAtLast() {
    guard dispatcher.engine.isReadOnly, let keeper, !keeper.isBusy, takeBackWhatIsLeft(keeper)
    else { return }
    keeper.store(StoreBatch(takenFrom: dispatcher.engine), at: now) { [logger] _, error in
      guard let error else { return }
      logger.error("what time has done since nothing could be stored is lost: \(error)")
    }
  }

  private func retryLater() {
    loop.scheduleTask(in: Self.retryInterval) { [weak self] in self?.retry() }
  }

  private func retry() {
    guard dispatcher.engine.isReadOnly, let keeper, !isStopping else { return }
    guard !mustTakeBack else { return retryLater() }
    if let error = keeper.trouble, error.kind == .corrupt { return retry(replacing: error, keeper) }
    guard takeBackWhatIsLeft(keeper) else { return retryLater() }
    let batch = StoreBatch(takenFrom: dispatcher.engine)
    keeper.store(batch, at: now, isProbe: true) { [self] batch, error in
      if error == nil {
        keeper.confirm(batch, dispatcher.engine)
        noteWritable()
      } else {
        keeper.keepForLater(batch, dispatcher.engine)
        retryLater()
      }
      // What time has changed meanwhile is stored with it, and told.
      endTurn()
      goOnAfterStoring()
    }
  }

  private func noteWritable() {
    dispatcher.engine.isReadOnly = false
    logger.log(.writable, .notice, "state can be stored again")
    hooks.isAlive(status)
  }

  /// A state that is corrupt does not get better.
  private func retry(replacing error: StoreError, _ keeper: StateKeeper) {
    guard !keeper.isBusy else { return retryLater() }
    if replacing == nil, !takeBackWhatIsLeft(keeper) {
      // Rather kept as it is than gone.
      logger.critical("what was refused and cannot be read back any more is kept as it is now")
      for batch in leftToTakeBack { keeper.keepForLater(batch, dispatcher.engine) }
      leftToTakeBack = []
    }
    do throws(StoreError) {
      try replaceState(error, keeper)
      noteWritable()
    } catch {
      if error != replacingError {
        logger.error("the corrupt state cannot be replaced yet: \(error)")
      }
      replacingError = error
      retryLater()
    }
    endTurn()
    goOnAfterStoring()
  }
}
