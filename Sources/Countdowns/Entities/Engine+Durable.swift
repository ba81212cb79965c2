/// What outlives the daemon: whatever nobody owns, and what was sent under a policy. The engine knows no files; it says what has
/// changed, and takes back what was kept.
extension Engine {
  /// Changes are noted from now on, for `takeCountdownChanges` and its like.
  package func noteChanges() { changes.isOn = true }

  /// Whether anything that is to be kept has changed since the changes were taken.
  package var hasChanges: Bool { !changes.isEmpty || eventTail.hasUnstored }

  /// Goes up whenever something that is to be kept is changed.
  package var changeCount: UInt64 { changes.count.kept }

  /// Goes up whenever anything is changed, kept or not.
  package var anyChangeCount: UInt64 { changes.count.any }

  /// The newest batch that must be stored for what was changed since this was set to nil to last, though
  /// it is not kept itself; nil if there is none.
  package var restsOnBatch: UInt64? {
    get { changes.count.restsOn == 0 ? nil : changes.count.restsOn }
    set { changes.count.restsOn = newValue ?? 0 }
  }

  /// The name of the batch that what is changed now will be in. They rise.
  package var nextBatch: UInt64 { changes.batch + 1 }

  /// What is taken until the next call belongs together: it is stored as a whole, or not.
  ///
  /// - Returns: the name of the batch, for `noteStored` and `noteGone`.
  package func beginBatch() -> UInt64 { changes.beginBatch() }

  /// A batch is stored, and so are all before it.
  package func noteStored(_ batch: UInt64) { changes.setStored(batch) }

  /// Each countdown that has changed since the last call, once: as it is now, or that it is gone.
  package func takeCountdownChanges(
    current: (UInt32, consuming DurableCountdown) -> Void, gone: (UInt32) -> Void
  ) {
    takeChanges(of: .countdown, { $0.durableCountdown($1) }, current, gone)
  }

  /// The same for plain timers.
  package func takeTimerChanges(
    current: (UInt32, consuming DurableTimer) -> Void, gone: (UInt32) -> Void
  ) {
    takeChanges(of: .timer, { $0.durableTimer($1) }, current, gone)
  }

  /// - Parameter durable: an entity as it is to be kept; nil if it is not, or not any more.
  @inline(__always)
  func takeChanges<Kept>(
    of kind: EntityKind, _ durable: (Engine, UInt32) -> Kept?,
    _ current: (UInt32, consuming Kept) -> Void, _ gone: (UInt32) -> Void
  ) {
    for index in changes.take(kind) {
      let entity = EntityRef(kind, index)
      if let kept = durable(self, index) {
        changes.setKept(entity, true)
        current(index, kept)
      } else if changes.isKept(entity) {
        changes.setGone(entity)
        gone(index)
      }
    }
  }

  /// What a batch took as gone is not stored any more, unless a later batch is about to store it again.
  /// Its place is free from now on, if it is not there any more.
  package func noteGone(_ kind: EntityKind, _ index: UInt32, in batch: UInt64) {
    let entity = EntityRef(kind, index)
    guard changes.isGone(entity, since: batch) else { return }
    changes.setKept(entity, isDurable(kind, index))
    releasePlace(of: entity)
  }

  /// Nothing is stored any more of what was there.
  private func releasePlace(of entity: EntityRef) {
    let kind = entity.kind.behavior
    if kind.isFree(entity.index, in: self) { kind.releasePlace(entity.index, in: self) }
  }

  /// A change that was taken could not be stored: it is one of those that are taken next.
  package func noteAgain(_ kind: EntityKind, _ index: UInt32, wasGone: Bool) {
    let entity = EntityRef(kind, index)
    // Nothing was stored of it, and it has been discarded.
    if wasGone, !changes.isKept(entity) { return }
    changes.note(entity, isKept: true)
  }

  /// Nothing of what is there is stored any more.
  package func noteEverything() {
    for kind in EntityKind.allCases where kind.canBeDurable {
      for index in 0..<UInt32(kind.behavior.indexEnd(in: self)) where isDurable(kind, index) {
        changes.note(EntityRef(kind, index), isKept: true)
      }
    }
  }

  // MARK: Restoring

  /// Puts a countdown where it was: at the start, and after a change that could not be stored.
  /// Whatever has fallen due since happens as time goes on, late as it is. Nil if there is no room for
  /// its key: then it stays in the store.
  @discardableResult
  package func restore(
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

  package func restore(
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

  /// Takes out what a change that could not be stored has made. Nobody is told, but of a countdown
  /// with an owner: what happened to it meanwhile was told of.
  package func discard(_ kind: EntityKind, _ index: UInt32, at now: Moment) {
    let entity = EntityRef(kind, index)
    guard changes.isKept(entity) else { return }
    kind.behavior.discard(index, in: self, at: now)
    changes.setKept(entity, false)
    releasePlace(of: entity)
  }

  /// Puts back what is stored, after `discard`. What has its key by now makes way: it could only be
  /// started because of a change that did not come about.
  package func putBack(_ kept: DurableCountdown, at index: UInt32, now: Moment) {
    if let other = countdowns.find(kept.key) {
      if countdowns.owner(other) != .none {
        cancelCountdown(other, reason: .replaced, at: now)
      }
      // With a policy it is remembered, even if cancelled.
      if countdowns.contains(other) { removeCountdown(other) }
    }
    restore(kept, at: index, now: now)
  }

  package func putBack(_ kept: DurableTimer, at index: UInt32, now: Moment) {
    makeWay(TimerKind.self, for: kept.key, at: now)
    restore(kept, at: index, now: now)
  }

  /// What has a key now makes way for what is stored of it: it could only be started because of a
  /// change that did not come about.
  func makeWay<K: ExpiringKind>(_ kind: K.Type, for key: [UInt8], at now: Moment) {
    guard let index = K.find(key.span, in: self) else { return }
    if K.table(of: self)[index].owner == .none {
      remove(kind, index)
    } else {
      K.end(index, .replaced, in: self, at: now)
    }
  }

  // MARK: Steps

  func isDurable(_ kind: EntityKind, _ index: UInt32) -> Bool {
    kind.behavior.isDurable(index, in: self)
  }

  private func durableCountdown(_ index: UInt32) -> DurableCountdown? {
    guard isDurable(.countdown, index) else { return nil }
    let entity = countdowns[index]
    var machine = entity.machine
    if entity.owner != .none, let last = entity.sending?.record.sends.last {
      _ = machine.cancel(at: last.at)
    }
    var kept = DurableCountdown(
      key: countdowns.key(index), machine: machine, generation: entity.generation,
      uid: entity.uid)
    kept.title = entity.titles?.counting
    kept.readyTitle = entity.titles?.ready
    kept.annotations = entity.annotations
    kept.tokens = entity.tokens
    kept.sending = entity.sending.map {
      DurableSending(policy: $0.policy, record: $0.record, isInForce: $0.isInForce)
    }
    return kept
  }

  private func durableTimer(_ index: UInt32) -> DurableTimer? {
    guard let entity = timers.entity(at: index), entity.owner == .none else { return nil }
    return DurableTimer(
      key: entity.key, machine: entity.machine, generation: entity.generation, uid: entity.uid,
      clock: entity.clock, payload: entity.payload)
  }

  // MARK: Refusing

  /// Refuses to change what could not be stored.
  func checkWritable(_ owner: Owner) throws(EngineError) {
    if isReadOnly, owner == .none { throw .readOnly }
  }
}
