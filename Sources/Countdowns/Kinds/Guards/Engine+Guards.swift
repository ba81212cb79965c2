/// What is the same for all guards: their time, their ends, what is told of them.
extension Engine {
  /// How many there are of a kind.
  package func guardCount(_ kind: EntityKind) -> Int { guards[kind].count }

  // MARK: Time

  /// The guard of that name, after what is due for it has happened.
  func settledGuard(
    _ kind: EntityKind, _ key: UnsafeRawBufferPointer, at now: Moment
  ) -> EntityRef? {
    guard let entity = guards.find(kind, key), settleGuard(entity, at: now) else { return nil }
    return entity
  }

  /// Lets happen what is due for a guard; false if it is not there, or not any more.
  func settleGuard(_ entity: EntityRef, at now: Moment) -> Bool {
    guard let found = guards.entity(entity) else { return false }
    let count = changes.count
    defer { changes.count = count }
    guard isThere(found.owner, at: now) else {
      endGuard(entity, .ownerGone, at: now)
      return false
    }
    guard let due = found.machine.nextExpiry, due <= now.boot else { return true }
    expireGuard(entity, at: now)
    return guards.entity(entity) != nil
  }

  func expireGuard(_ entity: EntityRef, at now: Moment) {
    guard isThere(guards[entity].owner, at: now) else {
      return endGuard(entity, .ownerGone, at: now)
    }
    if let due = guards[entity].machine.nextExpiry, due <= now.boot {
      switch guards[entity].machine {
      case .throttle: expireThrottle(entity, due: due, at: now)
      case .once: expireOnce(entity, due: due, at: now)
      case .gate: expireGate(entity, at: now)
      case .debounce: expireDebounce(entity, at: now)
      }
    }
    if guards.entity(entity) != nil { armGuard(entity) }
  }

  func armGuard(_ entity: EntityRef) {
    guards[entity].alarm = arm(
      guards[entity].alarm, for: guards[entity].machine.nextExpiry, entity)
  }

  // MARK: Coming and going

  func insertGuard(
    _ key: UnsafeRawBufferPointer, _ machine: GuardMachine, owner: Owner, by client: Client
  ) -> EntityRef {
    let kind = machine.kind
    let index = guards[kind].insert(
      GuardEntity(
        key: Array(key), machine: machine, generation: newGeneration(), owner: owner,
        uid: client.uid))
    let entity = EntityRef(kind, index)
    connections.own(entity, owner)
    connections.count(1, for: client.uid)
    armGuard(entity)
    return entity
  }

  func setOwner(ofGuard entity: EntityRef, _ owner: Owner) {
    connections.disown(entity, guards[entity].owner)
    connections.own(entity, owner)
    guards[entity].owner = owner
  }

  /// Forgets it; nobody is told.
  func removeGuard(_ entity: EntityRef) {
    changes.note(entity, isKept: false)
    _ = arm(guards[entity].alarm, for: nil, entity)
    let removed = guards[entity.kind].remove(
      entity.index, holdsPlace: changes.isKept(entity))
    connections.disown(entity, removed.owner)
    connections.count(-1, for: removed.uid)
  }

  /// It was cancelled, its owner is gone, or it makes way for what is kept.
  func endGuard(_ entity: EntityRef, _ reason: Event.Reason, at now: Moment) {
    if reason == .ownerGone { statistics.ownerGone += 1 } else { statistics.cancelled += 1 }
    let name: Event.Name = entity.kind == .gate ? .dismissed : .cancelled
    let idle = GuardView(idle: guards[entity], at: now)
    publish(entity, name, reason: reason, of: idle, at: now)
    removeGuard(entity)
  }

  /// Ends it if it is there; false if not.
  func cancelGuard(
    _ kind: EntityKind, _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let entity = settledGuard(kind, key, at: now) else { return false }
    try check(generation, against: guards[entity].generation)
    try checkWritable(guards[entity].owner)
    endGuard(entity, .cancelled, at: now)
    return true
  }

  // MARK: What is told

  func noteChange(ofGuard entity: EntityRef) {
    changes.note(entity, isKept: guards[entity].owner == .none)
  }

  /// - Parameters:
  ///   - generation: what it happened to, if not what is there now.
  ///   - view: how it is; as it is now, unless given.
  func publish(
    _ entity: EntityRef, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Event.Reason? = nil, of view: GuardView? = nil, at now: Moment
  ) {
    let found = guards[entity]
    if name.tellsOfChange { noteChange(ofGuard: entity) }
    // A rate limit is used as often as what it limits: that would leave no room for other events.
    let isKept = name.tellsOfChange && found.owner == .none && entity.kind != .throttle
    publish(entity.kind, found.key, isKept: isKept) { sequence in
      Event(
        name: name, subject: .guarded(view ?? GuardView(found, at: now)),
        generation: generation ?? found.generation, sequence: sequence,
        dueUnixMS: due.map { now.unixMilliseconds(of: $0) },
        lateMicroseconds: due.map { (now.boot - $0).microseconds }, reason: reason)
    }
  }

  func listGuards<View>(
    _ kind: EntityKind, _ query: ListQuery, at now: Moment, _ view: (GuardEntity) -> View
  ) -> Page<View> {
    for index in guards[kind].lookedAt(query) { _ = settleGuard(EntityRef(kind, index), at: now) }
    return guards[kind].page(query, owner: { $0.owner }, view: view)
  }
}

/// A guard as a store keeps it. Instants are on the boot clock of this boot.
package struct DurableGuard: Sendable {
  package var key: [UInt8]
  package var machine: GuardMachine
  package var generation: Generation
  package var uid: UInt32

  package init(key: [UInt8], machine: GuardMachine, generation: Generation, uid: UInt32) {
    self.key = key
    self.machine = machine
    self.generation = generation
    self.uid = uid
  }
}

extension Engine {
  // MARK: Durability

  /// Each guard that has changed since the last call, once: as it is now, or that it is gone.
  package func takeGuardChanges(
    current: (UInt32, consuming DurableGuard) -> Void, gone: (EntityKind, UInt32) -> Void
  ) {
    for kind in GuardTables.kinds {
      takeChanges(
        of: kind, { $0.durableGuard(EntityRef(kind, $1)) }, current, { gone(kind, $0) })
    }
  }

  private func durableGuard(_ entity: EntityRef) -> DurableGuard? {
    guard let found = guards.entity(entity), found.owner == .none else { return nil }
    return DurableGuard(
      key: found.key, machine: found.machine, generation: found.generation, uid: found.uid)
  }

  func noteAllGuards() {
    for kind in GuardTables.kinds {
      for index in 0..<guards[kind].indexEnd {
        let entity = EntityRef(kind, UInt32(index))
        if guards.entity(entity)?.owner == Owner.none { changes.note(entity, isKept: true) }
      }
    }
  }

  package func restore(_ kept: DurableGuard, at index: UInt32, now: Moment) {
    let entity = EntityRef(kept.machine.kind, index)
    guards[entity.kind].insert(
      GuardEntity(
        key: kept.key, machine: kept.machine, generation: kept.generation, owner: .none,
        uid: kept.uid), at: index)
    connections.count(1, for: kept.uid)
    changes.setKept(entity, true)
    armGuard(entity)
  }

  package func putBack(_ kept: DurableGuard, at index: UInt32, now: Moment) {
    let other = kept.key.withUnsafeBytes { guards.find(kept.machine.kind, $0) }
    if let other {
      if guards[other].owner == .none {
        removeGuard(other)
      } else {
        endGuard(other, .replaced, at: now)
      }
    }
    restore(kept, at: index, now: now)
  }
}
