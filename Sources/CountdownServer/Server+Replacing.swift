import CountdownStore
import Countdowns
import Logging

/// A corrupt state is set aside, and another takes its place with everything that is known of it. See
/// `Replacement` for why nothing is lost on the way.
extension Server {
  static func openStore(
    _ state: Store.Options, _ logger: Logger, at now: Moment
  ) throws(StoreError) -> Store {
    let reading = StoreClock.Reading(bootID: BootID.current, now)
    do throws(StoreError) {
      return try Store(state, at: reading) { announce($0, logger) }
    } catch {
      guard error.kind == .corrupt else { throw error }
      // Nothing of it can be read.
      let replacement = try Replacement(of: nil, state, at: reading) {
        announce(error, place: $0, logger)
      }
      try replacement.decide()
      return try replacement.open(at: reading)
    }
  }

  private static func announce(_ finding: Store.Finding, _ logger: Logger) {
    switch finding {
    case .unreadableLog(let place):
      logger.log(
        .stateSetAside, .critical,
        """
        the log of the newest changes cannot be read and is set aside, not deleted; going on with the state \
        before them. Restore a backup if they matter
        """, ["file": "\(place)"])
    case .unfinishedReplacement(let place):
      logger.log(
        .stateSetAside, .critical,
        """
        the state was corrupt and is set aside, not deleted, as was begun before; going on with what could be read \
        of it. Restore a backup, or try `sqlite3 \(place) .recover`
        """, ["file": "\(place)"])
    case .lostChanges(let error):
      logger.error(
        """
        the newest changes are lost, as the machine ended without warning. The durability `power` \
        keeps them
        """, metadata: ["file": "\(error.path)", "error": "\(error.detail)"])
    case .emptied(let path):
      logger.warning(
        "there was a state, and now there is nothing in it: beginning anew. Restore a backup if it matters",
        metadata: ["file": "\(path)"])
    case .writableByAll(let path):
      logger.warning(
        "every user may write there, and so read, forge or remove the state: try `chmod o-w`",
        metadata: ["file": "\(path)"])
    }
  }

  private static func announce(_ error: StoreError, place: String, _ logger: Logger) {
    logger.log(
      .stateSetAside, .critical,
      """
      the state is corrupt and is set aside, not deleted; going on without what cannot be read of it. \
      Restore a backup, or try `sqlite3 \(place) .recover`
      """, ["file": "\(place)", "error": "\(error.detail)"])
  }

  /// Keeps what changes from now on.
  func keep(_ store: sending Store) throws(StoreError) {
    keeper = try StateKeeper(store, bootID: BootID.current) { [weak self] body in
      self?.hop { _ in body() }
    }
  }

  /// Goes on with what could be read of a corrupt state.
  func replace(_ loading: StateLoading, _ error: StoreError) throws(StoreError) {
    // What is lost changed without an event, and events may be lost, too.
    dispatcher.engine.eventTail.noteGap(through: dispatcher.engine.lastSequence)
    let decided = try decideReplacement(of: loading.loaded, error)
    loading.loaded.leaveAsItIs()
    loading.close()
    try put(decided)
  }

  /// The state can be read no more, or not be written: it is replaced by what is in memory. To be called while
  /// nothing waits to be stored; and again if it throws.
  func replaceState(_ error: StoreError, _ keeper: StateKeeper) throws(StoreError) {
    if replacing == nil {
      replacing = try decideReplacement(of: keeper.store, error)
      keeper.giveUp()
    }
    if let replacing { try put(replacing) }
    (replacing, replacingError) = (nil, nil)
  }

  private var reading: StoreClock.Reading { StoreClock.Reading(bootID: BootID.current, now) }

  private func put(_ decided: (Replacement, StoreBatch)) throws(StoreError) {
    nonisolated(unsafe) let store = try decided.0.open(at: reading)
    try keep(store)
    keeper?.confirm(decided.1, dispatcher.engine)
  }

  /// Makes another state of all that is in memory, and decides for it. Which of that is kept by it is in the
  /// batch.
  private func decideReplacement(
    of corrupt: Store?, _ error: StoreError
  ) throws(StoreError) -> (Replacement, StoreBatch) {
    guard var state = settings.state else { preconditionFailure("nothing is kept") }
    // Numbers go on.
    state.firstNumber = max(corrupt?.firstNumber ?? 0, dispatcher.engine.lastSequence + 1)
    let replacement = try Replacement(of: corrupt, state, at: reading) { place in
      // It is tried again and again.
      if replacingError == nil { Self.announce(error, place: place, logger) }
    }
    dispatcher.engine.noteEverything()
    let batch = StoreBatch(takenFrom: dispatcher.engine)
    var entities = batch
    // Those are among all that are kept.
    entities.events = nil
    let tail = dispatcher.engine.eventTail
    let events = tail.portions.map {
      StoreBatch.Events(lastSequence: $0.lastSequence, count: $0.count, payload: $0.bytes)
    }
    do throws(StoreError) {
      try replacement.fill(entities, events: events, after: tail.droppedThrough, at: reading)
      try replacement.decide()
    } catch {
      StateKeeper.keepForLater(batch, dispatcher.engine)
      throw error
    }
    return (replacement, batch)
  }
}
