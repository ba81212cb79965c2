import CountdownStore
import Countdowns
import Logging

/// Sets a corrupt state aside, and replaces it with everything that can be read of it. See
/// `Replacement` for why nothing is lost on the way.
extension Server {
  static func openStore(
    _ state: Store.Options, _ logger: Logger, at reading: StoreClock.Reading
  ) throws(StoreError) -> Store {
    do throws(StoreError) {
      return try Store(state, at: reading) { announce($0, logger) }
    } catch {
      guard error.kind == .corrupt else { throw error }
      // No part of the state can be read.
      let replacement = try Replacement(of: nil, state, at: reading) {
        announce(error, place: $0, logger)
      }
      try replacement.decide()
      return try replacement.open(at: reading)
    }
  }

  private static func announce(_ finding: Store.Finding, _ logger: Logger) {
    switch finding {
    case .unfinishedReplacement(let place):
      logger.log(
        .stateSetAside, .critical,
        """
        the state was corrupt and is set aside, not deleted, as was begun before; going on with what could be read \
        of it. `countdownctl state list \(place)` prints what is readable, and \
        `sqlite3 \(place) .recover` may find more; or restore a backup
        """, ["file": "\(place)"])
    case .lostChanges(let error):
      logger.error(
        """
        the newest changes are lost, as the machine ended without warning. The durability `power` \
        keeps them
        """, metadata: ["file": "\(error.path)", "error": "\(error.detail)"])
    case .otherLog(let place):
      logger.log(
        .stateSetAside, .notice,
        "a part of the log belongs to another state, such as one before a backup, and is set aside",
        ["file": "\(place)"])
    case .emptied(let path):
      logger.warning(
        "there was a state, and now it is empty: starting without it. Restore a backup if it matters",
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
      `countdownctl state list \(place)` prints what is readable, and \
      `sqlite3 \(place) .recover` may find more; or restore a backup
      """, ["file": "\(place)", "error": "\(error.detail)"])
  }

  /// Continues with what could be read of a corrupt state.
  func replace(_ loading: StateLoading, _ error: StoreError) throws(StoreError) {
    // Entities are lost without an event, and events may be lost, too.
    let engine = dispatcher.engine
    engine.eventLog.noteGap(through: engine.lastSequence)
    guard var state = settings.state else { preconditionFailure("nothing is stored") }
    // Generations and sequence numbers keep rising.
    state.firstNumber = max(loading.loaded.firstNumber, engine.lastSequence + 1)
    let replacement = try Replacement(of: loading.loaded, state, at: reading) { place in
      Self.announce(error, place: place, logger)
    }
    engine.noteEverything()
    try replacement.fill { batch in
      let missing = engine.eventLog.droppedThrough
      let portions = engine.eventLog.portions
      // Some events may be older than the missing ones.
      let older = portions.prefix { $0.lastSequence <= missing }
      for events in older { batch.append(events, missingThrough: 0) }
      if missing > older.last?.lastSequence ?? 0 {
        batch.append(
          EventLog.Portion(lastSequence: missing, count: 0, bytes: []), missingThrough: missing)
      }
      for events in portions[older.endIndex...] { batch.append(events, missingThrough: 0) }
      engine.takeChanges(into: batch)
    }
    try replacement.decide()
    loading.close()
    nonisolated(unsafe) let store = try replacement.open(at: reading)
    try keep(store)
  }
}
