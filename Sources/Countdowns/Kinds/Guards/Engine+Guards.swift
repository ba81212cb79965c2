/// A kind whose entities are a machine with an owner: rate limits, idempotency keys, gates,
/// debouncers.
protocol GuardKind: ExpiringKind, SharedKind
where Entity == GuardEntity<Machine>, View == Machine.View, State == Entity {
  associatedtype Machine: Guard
}

extension GuardKind {
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
