extension TableKind {
  static func alarmFired(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    table(of: engine)[index].alarm = nil
    _ = runDue(index, in: engine, at: now)
  }
}

extension TableKind where Store.State == Store.Entity {
  static func restore(
    _ key: Span<UInt8>, _ state: Entity, at index: UInt32, in engine: Engine, at now: Moment
  ) -> Bool {
    engine.restore(Self.self, state, at: index)
    engine.arm(Self.self, index)
    return true
  }
}

/// A kind whose entities also end with their owner: timers, pages, rate limits and others. The
/// engine treats them all alike, apart from their state machines.
protocol ExpiringKind: TableKind where View: ViewOfEntity, View.Entity == Store.Entity {
  /// Runs what is due by now. The caller then arms the entity again, if it still exists.
  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment)

  /// Follows a change of the entity's clock, before what is due by it runs.
  static func followClock(_ index: UInt32, in engine: Engine, at now: Moment)

  /// Cleans up after closed connections other than the owner, such as one that took a gate's run.
  static func releaseAbsent(_ index: UInt32, in engine: Engine, at now: Moment)

  /// Whether events of entities without an owner go to the event log.
  static var isLogged: Bool { get }
  /// Whether an event goes to the event log although those of the kind do not.
  static func logs(_ event: Event.Name) -> Bool
  /// The name of the event of an entity's end, which reports `endedView`.
  static var endEvent: Event.Name { get }
  static func endedView(of entity: Entity, at now: Moment) -> View
  /// Ends an entity: it was cancelled or closed, or its owner has closed.
  static func end(_ index: UInt32, _ reason: Reason, in engine: Engine, at now: Moment)
}

extension ExpiringKind {
  static func view(of entity: Entity, at now: Moment) -> View { View(entity, at: now) }
  static func followClock(_ index: UInt32, in engine: Engine, at now: Moment) {}
  static func releaseAbsent(_ index: UInt32, in engine: Engine, at now: Moment) {}
  static func logs(_ event: Event.Name) -> Bool { isLogged && event.changesState }
  static var isLogged: Bool { canBeDurable }
  static var endEvent: Event.Name { .cancelled }
  static func endedView(of entity: Entity, at now: Moment) -> View { view(of: entity, at: now) }

  static func end(_ index: UInt32, _ reason: Reason, in engine: Engine, at now: Moment) {
    engine.statistics.countEnd(reason)
    engine.publish(Self.self, index, endEvent, reason: reason, at: now) {
      endedView(of: $0, at: now)
    }
    engine.remove(Self.self, index)
  }

  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> View {
    view(of: table(of: engine)[index], at: now)
  }

  static func alarmFired(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    table(of: engine)[index].alarm = nil
    _ = runDueLocally(index, in: engine, at: now)
    if table(of: engine).contains(index) { engine.arm(Self.self, index) }
  }

  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    if engine.context.copiedKinds.contains(kind) {
      return table(of: engine).contains(index) && !table(of: engine)[index].isOver
    }
    return runDueLocally(index, in: engine, at: now)
  }

  /// Runs what is due for an entity. Returns false if the entity does not exist afterwards.
  static func runDueLocally(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    let table = table(of: engine)
    guard table.contains(index) else { return false }
    guard engine.isAlive(table[index].owner, at: now) else {
      end(index, .ownerGone, in: engine, at: now)
      return false
    }
    releaseAbsent(index, in: engine, at: now)
    followClock(index, in: engine, at: now)
    guard let due = table[index].nextExpiry, due <= now.on(table[index].clock) else {
      return !table[index].isOver
    }
    guard !table[index].isOver else {
      engine.remove(Self.self, index)
      return false
    }
    fire(index, due: due, in: engine, at: now)
    guard table.contains(index) else { return false }
    engine.arm(Self.self, index)
    return !table[index].isOver
  }

  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment
  ) {
    if table(of: engine).entity(at: index)?.owner == owner {
      end(index, .ownerGone, in: engine, at: now)
    }
  }
}

extension Engine {
  /// Returns the number of entities of a kind.
  package func count(_ kind: EntityKind) -> Int { store(of: kind).count }

  /// Runs what is due for an entity, and returns its index; nil if it does not exist afterwards.
  func current<K: Kind>(
    _ kind: K.Type, _ key: Span<UInt8>, at now: Moment
  ) -> UInt32? {
    guard let index = K.store(of: self).find(key), K.runDue(index, in: self, at: now) else {
      return nil
    }
    return index
  }

  package func get<K: Kind>(
    _ kind: K.Type, _ key: Span<UInt8>, at now: Moment
  ) -> K.View? {
    current(kind, key, at: now).map { K.view($0, in: self, at: now) }
  }

  /// Visits a page of a listing, and returns the cursor to continue from; 0 at the end. An entity
  /// that exists from the first page to the last is on exactly one of them.
  ///
  /// - Parameter take: takes a view; returns whether there is room for another one.
  package func list<K: Kind>(
    _ kind: K.Type, _ query: ListQuery, at now: Moment, _ take: (K.View) -> Bool
  ) -> Int {
    visit(kind, query, at: now) { take(K.view($0, in: self, at: now)) }
  }

  /// Visits a page of a listing like `list`, without making views.
  func visit<K: Kind>(
    _ kind: K.Type, _ query: ListQuery, at now: Moment, _ take: (UInt32) -> Bool
  ) -> Int {
    let store = K.store(of: self)
    K.runDue(query.range(below: store.indexEnd), in: self, at: now)
    return query.visit(
      K.kind, below: store.indexEnd, look: { K.entry(at: $0, in: self, now: now) },
      take: take)
  }

  /// Cancels an entity. Returns false if it does not exist.
  func cancel<K: ExpiringKind>(
    _ kind: K.Type, _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(kind, key, at: now) else { return false }
    try check(generation, against: K.table(of: self)[index].generation)
    try checkWritable(K.table(of: self)[index].owner)
    K.end(index, .cancelled, in: self, at: now)
    return true
  }

  // MARK: Steps

  /// Inserts an entity, at the index of an old one if it replaces that. The caller arms it.
  func insert<K: TableKind>(
    _ kind: K.Type, _ entity: K.Entity, replacing old: UInt32? = nil
  ) -> UInt32 {
    let table = K.table(of: self)
    if let old {
      detach(kind, old)
      table[old] = entity
    }
    let index = old ?? table.insert(entity)
    entity.forEachOwner { connections.own(EntityRef(K.kind, index), $0) }
    connections.adjustEntityCount(by: 1, for: entity.uid)
    return index
  }

  /// Inserts a stored entity, or a copy, at its index. The caller arms it.
  func restore<K: TableKind>(_ kind: K.Type, _ entity: K.Entity, at index: UInt32) {
    K.table(of: self).insert(entity, at: index)
    entity.forEachOwner { restored(EntityRef(K.kind, index), $0) }
    restored(EntityRef(K.kind, index), uid: entity.uid)
  }

  /// Removes an entity without an event.
  func remove<K: TableKind>(_ kind: K.Type, _ index: UInt32) {
    K.release(index, in: self)
    if K.canBeDurable { changes.note(EntityRef(K.kind, index), isKept: false) }
    detach(kind, index)
    K.table(of: self).remove(index)
  }

  private func detach<K: TableKind>(_ kind: K.Type, _ index: UInt32) {
    let table = K.table(of: self)
    let entity = EntityRef(K.kind, index)
    table[index].alarm = arm(table[index].alarm, for: nil, entity, on: table[index].clock)
    table[index].forEachOwner { connections.disown(entity, $0) }
    connections.adjustEntityCount(by: -1, for: table[index].uid)
  }

  /// Registers a restored entity with an owner, unless it is a copy: the fleet itself looks after
  /// the owners of what is shared.
  func restored(_ entity: EntityRef, _ owner: Owner) {
    if !context.copiedKinds.contains(entity.kind) { connections.restore(entity, owner) }
  }

  /// Registers a restored entity with its user, and as stored.
  func restored(_ entity: EntityRef, uid: UInt32) {
    connections.adjustEntityCount(by: 1, for: uid)
    changes.setKept(entity, true)
  }

  func arm<K: TableKind>(_ kind: K.Type, _ index: UInt32) {
    let table = K.table(of: self)
    table[index].alarm = arm(
      table[index].alarm, for: table[index].nextExpiry, EntityRef(K.kind, index),
      on: table[index].clock)
  }

  func noteChange<K: ExpiringKind>(_ kind: K.Type, _ index: UInt32) {
    if K.canBeDurable {
      changes.note(EntityRef(K.kind, index), isKept: K.table(of: self)[index].owner == .none)
    }
  }

  /// Publishes an event of an entity, and notes the change if the event reports one.
  ///
  /// - Parameters:
  ///   - generation: the generation that the event is about, if not the current one.
  ///   - due: the deadline that caused the event, on the entity's clock; nil if none did.
  ///   - view: returns the view that the event reports.
  func publish<K: ExpiringKind>(
    _ kind: K.Type, _ index: UInt32, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Reason? = nil, at now: Moment,
    view: (K.Entity) -> K.View
  ) {
    let table = K.table(of: self)
    if name.changesState { noteChange(kind, index) }
    let head = Event.Head(
      name, generation ?? table[index].generation, due: due, on: table[index].clock,
      reason: reason, at: now)
    publish(
      K.kind, table[index].key, head, of: table[index].uid,
      isLogged: context.isWorkbench || K.logs(name) && table[index].owner == .none,
      isEndOfOwned: K.isLogged && reason == .ownerGone
    ) { view(table[index]) }
  }

  func publish<K: ExpiringKind>(
    _ kind: K.Type, _ index: UInt32, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Reason? = nil, at now: Moment
  ) {
    publish(kind, index, name, generation, due: due, reason: reason, at: now) {
      K.view(of: $0, at: now)
    }
  }
}
