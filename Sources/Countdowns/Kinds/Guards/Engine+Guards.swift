/// A kind whose entities are a machine with an owner: rate limits, idempotency keys, gates, debouncers.
protocol GuardKind: ExpiringKind where Entity == GuardEntity<Machine>, View == Machine.View {
  associatedtype Machine: Guard
}

/// In the order of their numbers in the store, which never change.
let guardKinds: [any GuardKind.Type] = [
  ThrottleKind.self, OnceKind.self, GateKind.self, DebounceKind.self,
]

extension GuardKind {
  static var canBeDurable: Bool { true }
  static func canBe(_ columns: GuardColumns) -> Bool { Machine(columns) != nil }
  static func nextExpiry(of entity: Entity) -> Instant? { entity.machine.nextExpiry }
}

extension Engine {
  func insertGuard<K: GuardKind>(
    _ kind: K.Type, _ key: Span<UInt8>, _ machine: K.Machine, owner: Owner,
    by client: Client
  ) -> UInt32 {
    insert(
      kind,
      GuardEntity(
        key: Array(key), machine: machine, generation: newGeneration(), owner: owner,
        uid: client.uid))
  }

  func setOwner<K: GuardKind>(of kind: K.Type, _ index: UInt32, _ owner: Owner) {
    let table = K.table(of: self)
    let entity = EntityRef(K.kind, index)
    connections.disown(entity, table[index].owner)
    connections.own(entity, owner)
    table[index].owner = owner
  }
}

extension Engine {
  // MARK: Durability

  /// Each of them that has changed since the last call, once: as it is now, or that it is gone.
  package func takeGuardChanges(
    current: (UInt32, consuming DurableGuard) -> Void, gone: (EntityKind, UInt32) -> Void
  ) {
    for kind in guardKinds { takeChanges(kind, current, gone) }
  }

  private func takeChanges<K: GuardKind>(
    _ kind: K.Type, _ current: (UInt32, consuming DurableGuard) -> Void,
    _ gone: (EntityKind, UInt32) -> Void
  ) {
    takeChanges(
      of: K.kind,
      { engine, index in
        guard K.isDurable(index, in: engine) else { return nil }
        let entity = K.table(of: engine)[index]
        return DurableGuard(
          key: entity.key, entity.machine, generation: entity.generation, uid: entity.uid)
      }, current, { gone(K.kind, $0) })
  }

  package func restore(_ kept: DurableGuard, at index: UInt32, now: Moment) {
    restore(kept, at: index, makingWay: false, now: now)
  }

  package func putBack(_ kept: DurableGuard, at index: UInt32, now: Moment) {
    restore(kept, at: index, makingWay: true, now: now)
  }

  private func restore(
    _ kept: DurableGuard, at index: UInt32, makingWay: Bool, now: Moment
  ) {
    func restore<K: GuardKind>(_ kind: K.Type) {
      guard let machine = K.Machine(kept.columns) else {
        preconditionFailure("what is stored was a machine, or was checked when it was read")
      }
      if makingWay { makeWay(kind, for: kept.key, at: now) }
      self.restore(
        kind,
        GuardEntity(
          key: kept.key, machine: machine, generation: kept.generation, owner: .none,
          uid: kept.uid), at: index)
    }
    for kind in guardKinds where kind.kind == kept.kind { restore(kind) }
  }
}
