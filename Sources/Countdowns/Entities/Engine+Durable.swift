/// What outlives the daemon: entities without an owner, and sends under a policy. The engine knows
/// no files. It hands over what has changed, and is given back what was stored.
extension Engine {
  /// Changes are noted from now on, for `takeChanges`.
  package func noteChanges() { changes.isOn = true }

  /// Whether anything that is stored has changed since the changes were taken.
  package var hasChanges: Bool { !changes.isEmpty || eventLog.hasUnstored }

  /// Appends each entity that has changed since the last call, as it is now or that it was removed;
  /// then the events that have come since.
  package func takeChanges(into batch: ChangeWriter) {
    for kind in EntityKind.allCases where kind.canBeDurable {
      kind.behavior.takeChanges(of: self, into: batch)
    }
    if let events = eventLog.takeUnstored() {
      batch.append(events, missingThrough: eventLog.droppedThrough)
    }
  }

  /// Everything that is stored counts as changed: for another store.
  package func noteEverything() {
    for kind in EntityKind.allCases where kind.canBeDurable {
      for index in 0..<UInt32(kind.behavior.indexEnd(in: self)) where isDurable(kind, index) {
        changes.note(EntityRef(kind, index), isKept: true)
      }
    }
  }

  // MARK: Restoring

  /// Puts a countdown where it was. Whatever has fallen due since happens with due work, late as it
  /// is. Nil if there is no room for its key.
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

  /// Refuses to change what cannot be stored.
  func checkWritable(_ owner: Owner) throws(EngineError) {
    if isReadOnly, owner == .none { throw .readOnly }
  }
}
