/// A kind whose entities are a machine with an owner: rate limits, idempotency keys, gates,
/// debouncers.
protocol GuardKind: ExpiringKind, SharedKind
where Entity == GuardEntity<Machine>, View == Machine.View, Record == DurableGuard {
  associatedtype Machine: Guard
}

/// All kinds of guard, in the order of their stored numbers, which never change.
let guardKinds: [any GuardKind.Type] = [
  ThrottleKind.self, OnceKind.self, GateKind.self, DebounceKind.self,
]

extension GuardKind {
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

extension GuardKind {
  static func record(_ index: UInt32, in engine: Engine) -> DurableGuard? {
    guard isDurable(index, in: engine) else { return nil }
    let entity = table(of: engine)[index]
    return DurableGuard(
      key: entity.key, entity.machine, generation: entity.generation, uid: entity.uid)
  }
}

extension Engine {
  func restore(_ kept: DurableGuard, at index: UInt32) {
    func restore<K: GuardKind>(_ kind: K.Type) {
      guard let machine = K.Machine(kept.columns) else {
        preconditionFailure("what is stored was a machine, or was checked when it was read")
      }
      self.restore(
        kind,
        GuardEntity(
          key: kept.key, machine: machine, generation: kept.generation, owner: .none,
          uid: kept.uid), at: index)
    }
    for kind in guardKinds where kind.kind == kept.kind { restore(kind) }
  }
}
