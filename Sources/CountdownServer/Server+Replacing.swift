import CountdownStore
import Countdowns
import Logging

/// Continues with everything that can be read of a corrupt state, which stays as it is. See
/// `Replacement` for why nothing is lost on the way.
extension Server {
  ///
  /// - Parameter damage: receives what is found damaged or lost.
  static func openStore(
    _ state: Store.Options, _ logger: Logger, at reading: StoreClock.Reading,
    _ damage: inout DamageRecord, isUnclean: inout Bool
  ) throws(StoreError) -> Store {
    do throws(StoreError) {
      return try Store(state, at: reading) { finding in
        if case .uncleanEnd = finding { isUnclean = true }
        if let text = announce(finding, logger) { damage.note(text, at: reading, logger) }
      }
    } catch {
      guard error.kind == .corrupt else { throw error }
      // No part of the state can be read.
      let replacement = try Replacement(of: nil, state, at: reading)
      damage.note(announce(error, replacement, logger), at: reading, logger)
      try replacement.finish()
      return try replacement.open(at: reading)
    }
  }

  /// Logs a finding. Returns it in words if it is damage.
  private static func announce(_ finding: Store.Finding, _ logger: Logger) -> String? {
    switch finding {
    case .uncleanEnd(let pid):
      logger.log(
        .uncleanEnd, .warning,
        """
        the daemon before this one did not end in order: it hung, failed or was killed, or the \
        machine was. Under systemd `journalctl -u countdownd` says which, with the signal, the \
        watchdog or the exit status; `journalctl -k` says whether memory ran out
        """, ["process": "\(pid)"])
    case .lostChanges(let error):
      logger.log(
        .changesLost, .error,
        """
        the newest changes are lost, as the machine ended without warning. The durability `power` \
        keeps them
        """, ["file": "\(error.path)", "error": "\(error.detail)"])
      return "the newest changes are lost, as the machine ended without warning"
    case .otherLog(let place):
      logger.log(
        .logSetAside, .notice,
        """
        a part of the log belongs to another state, which this file has replaced, and is set aside; \
        delete it if you do not need it
        """, ["file": "\(place)"])
    case .emptied(let path): return lost(path, "empty", logger)
    case .missing(let path): return lost(path, "missing", logger)
    case .writableByAll(let path):
      logger.warning(
        "every user may write there, and so read, forge or remove the state: try `chmod o-w`",
        metadata: ["file": "\(path)"])
    }
    return nil
  }

  private static func lost(_ path: String, _ how: String, _ logger: Logger) -> String {
    logger.log(
      .stateEmptied, .error,
      "there was a state, and now it is \(how): starting without it. Restore a backup if it matters",
      ["file": "\(path)"])
    return "there was a state, and \(path) is \(how)"
  }

  private static func announce(
    _ error: StoreError, _ replacement: Replacement, _ logger: Logger
  ) -> String {
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
    return "the state was corrupt and is kept as \(replacement.replaced)"
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
    noteDamage(Self.announce(error, replacement, logger))
    engine.noteEverything()
    let hidden = hiddenEntities(of: loading.loaded)
    try replacement.fill { batch in
      appendEvents(to: batch)
      engine.takeChanges(into: batch)
      hidden?.takeChanges(into: batch)
    }
    try replacement.finish()
    loading.close()
    nonisolated(unsafe) let store = try replacement.open(at: reading)
    unsafe try keep(store)
  }
}

extension Server {
  /// Returns an engine with the entities that a fleet hides, at their places; nil if it hides none.
  private func hiddenEntities(of store: Store) -> Engine? {
    guard let fleet = dispatcher.fleet, dispatcher.engine.hiddenCount > 0 else { return nil }
    let now = now
    let engine = Engine(settings: dispatcher.engine.settings, at: now)
    engine.noteChanges()
    let reader = HiddenEntities(of: fleet.settings.kinds) { entities in
      _ = engine.restore(entities, offset: store.clock.offset, at: now)
    }
    // What cannot be read was found before.
    try? store.loadEntities(reader)
    engine.noteEverything()
    return engine
  }

  /// Receives the entities of the kinds that a fleet shares.
  private final class HiddenEntities: EntityReader {
    let portion = 4_096
    private let kinds: Set<EntityKind>
    private let found: (StoredEntities) -> Void

    init(of kinds: Set<EntityKind>, _ found: @escaping (StoredEntities) -> Void) {
      self.kinds = kinds
      self.found = found
    }

    func take(_ entities: StoredEntities) {
      var hidden = StoredEntities()
      for (index, entry) in entities.entries.enumerated() where kinds.contains(entry.kind) {
        hidden.append(entry.kind, entry.place, entities.record(index).span)
      }
      found(hidden)
    }
  }

  /// Appends all events that were read.
  func appendEvents(to batch: ChangeWriter) {
    let log = dispatcher.engine.eventLog
    let (missing, portions) = (log.droppedThrough, log.portions)
    // Some events may be older than the missing ones.
    let older = portions.prefix { $0.lastSequence <= missing }
    for events in older { batch.append(events, missingThrough: 0) }
    if missing > older.last?.lastSequence ?? 0 {
      batch.append(
        EventLog.Portion(lastSequence: missing, count: 0, bytes: []), missingThrough: missing)
    }
    for events in portions[older.endIndex...] { batch.append(events, missingThrough: 0) }
  }
}

/// What administrators have to look at.
extension Server {
  /// Keeps a finding until it is acknowledged.
  func noteDamage(_ finding: String) {
    damage?.note(finding, at: reading, logger)
    dispatcher.damage = damage?.findings ?? []
  }

  package func acknowledgeDamage(for client: Client) throws(StateError) -> Int {
    guard let findings = damage?.findings, !findings.isEmpty else { return 0 }
    do throws(StoreError) {
      try damage?.acknowledge()
    } catch {
      throw StateError("ERR the damage cannot be acknowledged: \(error)")
    }
    dispatcher.damage = []
    logger.log(
      .damageAcknowledged, .notice,
      "the damage is acknowledged: \(findings.joined(separator: "; "))", ["uid": "\(client.uid)"])
    hooks.isAlive(status)
    return findings.count
  }
}

extension DamageRecord {
  mutating func note(_ finding: String, at now: StoreClock.Reading, _ logger: Logger) {
    do throws(StoreError) {
      try note(finding, atUnixMicroseconds: now.wallMicroseconds)
    } catch {
      logger.error("the next start will not know of the damage, as it cannot be written: \(error)")
    }
  }
}
