/// A kind whose entities are a machine with an owner: rate limits, idempotency keys, gates,
/// debouncers.
protocol GuardKind: ExpiringKind, SharedKind
where Store.Entity == GuardEntity<Machine>, View == Machine.View, Store.State == Store.Entity {
  associatedtype Machine: Guard
}

extension Engine {
  /// Begins a guard; one that is over becomes another, and keeps its tokens.
  func insertGuard<K: GuardKind>(
    _ kind: K.Type, _ key: Span<UInt8>, _ machine: K.Machine, owner: Owner,
    by client: Client
  ) -> UInt32 {
    var entity = GuardEntity(
      key: Array(key), machine: machine, generation: newGeneration(), owner: owner,
      uid: client.uid)
    let old = K.table(of: self).find(key)
    if let old { entity.tokens = K.table(of: self)[old].tokens }
    let index = insert(kind, entity, replacing: old)
    arm(kind, index)
    return index
  }

  /// Ends a guard without an event. While something of it is remembered, it stays as one that is
  /// over.
  func endGuard<K: GuardKind>(_ kind: K.Type, _ index: UInt32, at now: Moment) {
    let table = K.table(of: self)
    guard let until = table[index].rememberedUntil, until > now.boot else {
      return remove(kind, index)
    }
    setOwner(of: kind, index, .none)
    table[index].isOver = true
    noteChange(kind, index)
    arm(kind, index)
  }

  /// Returns the view of a key for an accepted command that is repeated with its token; nil if it
  /// is not one.
  func repeated<K: GuardKind>(
    _ kind: K.Type, _ key: Span<UInt8>, _ token: [UInt8]?, _ command: Tokens.Command,
    digest: Int64 = 0, at now: Moment
  ) throws(EngineError) -> K.View? {
    guard let token, let index = K.table(of: self).find(key) else { return nil }
    _ = K.runDue(index, in: self, at: now)
    guard let entity = K.table(of: self).entity(at: index),
      let first = try entity.tokens.request(token, of: command, digest)
    else { return nil }
    statistics.decisions.repeated += 1
    var view = entity.isOver ? K.endedView(of: entity, at: now) : K.view(of: entity, at: now)
    view.generation = first.generation
    return view
  }

  func setOwner<K: GuardKind>(of kind: K.Type, _ index: UInt32, _ owner: Owner) {
    let table = K.table(of: self)
    let entity = EntityRef(K.kind, index)
    connections.disown(entity, table[index].owner)
    connections.own(entity, owner)
    table[index].owner = owner
  }
}

extension Call {
  /// Replies to an accepted command that is repeated with its token; false if it is not one.
  func isRepeated<K: GuardKind>(
    _ kind: K.Type, _ key: Span<UInt8>, _ token: [UInt8]?, _ command: Tokens.Command,
    digest: Int64 = 0
  ) throws(CommandError) -> Bool {
    let view = try run { () throws(EngineError) in
      try engine.repeated(kind, key, token, command, digest: digest, at: now)
    }
    guard let view else { return false }
    reply(view, Answer(isAccepted: true, reason: .repeated))
    return true
  }
}
