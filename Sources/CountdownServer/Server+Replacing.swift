import CountdownStore
import Countdowns
import Logging

/// Continues with everything that can be read of a corrupt state, which stays as it is. See
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
      let replacement = try Replacement(of: nil, state, at: reading)
      announce(error, replacement, logger)
      try replacement.finish()
      return try replacement.open(at: reading)
    }
  }

  private static func announce(_ finding: Store.Finding, _ logger: Logger) {
    switch finding {
    case .lostChanges(let error):
      logger.error(
        """
        the newest changes are lost, as the machine ended without warning. The durability `power` \
        keeps them
        """, metadata: ["file": "\(error.path)", "error": "\(error.detail)"])
    case .otherLog(let place):
      logger.log(
        .stateReplaced, .notice,
        "a part of the log belongs to another state, which this file has replaced, and is set aside",
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

  private static func announce(_ error: StoreError, _ replacement: Replacement, _ logger: Logger) {
    logger.log(
      .stateReplaced, .critical,
      """
      the state is corrupt and is kept, not deleted; going on in a new file, without what cannot be \
      read of it. \
      `countdownctl state list \(replacement.replaced)` prints what is readable, and \
      `sqlite3 \(replacement.replaced) .recover` may find more; or restore a backup
      """,
      [
        "file": "\(replacement.replaced)", "new": "\(replacement.path)",
        "error": "\(error.detail)",
      ])
  }

  /// Continues with what could be read of a corrupt state.
  func replace(_ loading: StateLoading, _ error: StoreError) throws(StoreError) {
    // Entities are lost without an event, and events may be lost, too.
    let engine = dispatcher.engine
    engine.eventLog.noteGap(through: engine.lastSequence)
    guard var state = settings.state else { preconditionFailure("nothing is stored") }
    // Generations and sequence numbers keep rising.
    state.firstNumber = max(loading.loaded.firstNumber, engine.lastSequence + 1)
    let replacement = try Replacement(of: loading.loaded, state, at: reading)
    Self.announce(error, replacement, logger)
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
    try replacement.finish()
    loading.close()
    nonisolated(unsafe) let store = try replacement.open(at: reading)
    unsafe try keep(store)
  }
}
