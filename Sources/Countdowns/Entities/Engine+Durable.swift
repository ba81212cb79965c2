/// The persisted state: entities without an owner, and sends under a policy. The engine knows no
/// files: it hands over what has changed, and receives at a start what was stored.
extension Engine {
  /// Begins to note changes, for `takeChanges`.
  package func noteChanges() { changes.isOn = true }

  /// Whether any persisted state has changed since the last `takeChanges`.
  package var hasChanges: Bool { !changes.isEmpty || eventLog.hasUnstored }

  /// Appends the current state, or the removal, of each entity that has changed since the last
  /// call; then the events since the last call.
  package func takeChanges(into batch: ChangeWriter) {
    for kind in EntityKind.allCases where kind.canBeDurable {
      kind.behavior.takeChanges(of: self, into: batch)
    }
    if let events = eventLog.takeUnstored() {
      batch.append(events, missingThrough: eventLog.droppedThrough)
    }
  }

  /// Marks all persisted entities as changed, for another store.
  package func noteEverything() {
    for kind in EntityKind.allCases where kind.canBeDurable {
      for index in 0..<UInt32(kind.behavior.indexEnd(in: self)) where isDurable(kind, index) {
        changes.note(EntityRef(kind, index), isKept: true)
      }
    }
  }

  // MARK: Restoring

  /// Restores a countdown at its index. If it is overdue, its timer fires late. Returns nil if
  /// there is no room for its key.
  func restore(
    _ kept: DurableCountdown, at index: UInt32, now: Moment
  ) -> Void? {
    var sending: Sending?
    if let durable = kept.sending {
      sending = Sending(durable.policy, durable.record)
      sending?.isInForce = durable.isInForce
    }
    var entity = CountdownEntity(
      machine: kept.machine, generation: kept.generation, uid: kept.uid,
      titles: .of(counting: kept.title, ready: kept.readyTitle))
    entity.sending = sending
    entity.annotations = kept.annotations
    entity.tokens = kept.tokens
    guard countdowns.insert(kept.key, entity, at: index) else { return nil }
    connections.count(1, for: kept.uid)
    changes.setKept(EntityRef(.countdown, index), true)
    armCountdown(index, at: now)
    return ()
  }

  func restore(
    _ kept: DurableTimer, at index: UInt32, now: Moment
  ) {
    restore(
      TimerKind.self,
      TimerEntity(
        key: kept.key, machine: kept.machine, generation: kept.generation, owner: .none,
        uid: kept.uid, clock: kept.clock, payload: kept.payload), at: index)
  }

  func restore<K: ExpiringKind>(_ kind: K.Type, _ entity: K.Entity, at index: UInt32) {
    K.table(of: self).insert(entity, at: index)
    connections.count(1, for: entity.uid)
    changes.setKept(EntityRef(K.kind, index), true)
    arm(kind, index)
  }

  func isDurable(_ kind: EntityKind, _ index: UInt32) -> Bool {
    !copies.contains(kind) && kind.behavior.isDurable(index, in: self)
  }

  // MARK: Refusing

  /// Throws if the engine is read-only and an entity with this owner would be persisted.
  func checkWritable(_ owner: Owner) throws(EngineError) {
    if isReadOnly, owner == .none { throw .readOnly }
  }
}
