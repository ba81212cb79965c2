import CountdownStore
import Countdowns
import Logging
import Runtime

extension Server {
  /// Continues with what could be read of a corrupt state.
  func replace(_ loading: StateLoading, _ error: StoreError) throws(StoreError) {
    // Entities are lost without an event, and events may be lost, too.
    let engine = dispatcher.engine
    engine.eventLog.noteGap(through: engine.lastSequence)
    guard var options = settings.state else { preconditionFailure("nothing is stored") }
    // Generations and sequence numbers keep rising.
    options.firstNumber = max(loading.loaded.firstNumber, engine.lastSequence + 1)
    let replacement = try Replacement(of: loading.loaded, options, at: reading)
    noteDamage(StateKeeper.announce(error, replacement, logger))
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
        hidden.append(entry.kind, entry.slot, entities.record(index).span)
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
    state.damage?.note(finding, at: reading, logger)
    dispatcher.damage = state.damage?.findings ?? []
  }

  package func acknowledgeDamage(for client: Client) throws(StateError) -> Int {
    guard let findings = state.damage?.findings, !findings.isEmpty else { return 0 }
    do throws(StoreError) {
      try state.damage?.acknowledge()
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
