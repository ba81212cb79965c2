/// Knows which connections are open.
package protocol ConnectionLiveness: ~Copyable {
  func isAlive(connection: UInt64) -> Bool
}

/// The open connections, the entities that each connection and each scope owns, and the closed
/// connections that are not cleaned up yet.
///
/// A closed connection owns nothing: an entity that still names it does nothing more from that
/// moment on, however long the cleanup takes.
struct Connections: ~Copyable, ConnectionLiveness {
  private var owned = Shards<UInt64, EntitySet>()
  private var departed: [(connection: UInt64, left: EntitySet.Iterator)] = []
  private var ownedByScope = Shards<Generation, EntitySet>()
  private var entitiesOfUser: [UInt32: Int] = [:]
  /// The user that was looked up last, most often the next one, too; not in `entitiesOfUser`.
  private var lastUser = (uid: UInt32.max, entities: 0)
  /// Whether an owner is there, by the fleet's number of it; nil unless this decides for a fleet.
  var isOwnerThere: ((UInt64) -> Bool)?

  var hasDeparted: Bool { !departed.isEmpty }

  mutating func join(_ connection: UInt64) { owned[connection] = EntitySet() }

  mutating func leave(_ connection: UInt64) {
    guard let entities = owned.removeValue(forKey: connection) else { return }
    departed.append((connection, entities.makeIterator()))
  }

  func isAlive(connection: UInt64) -> Bool {
    isOwnerThere?(connection) ?? (owned[connection] != nil)
  }

  mutating func own(_ entity: EntityRef, _ owner: Owner) {
    switch owner {
    case .none, .page: break
    case .connection(let id): owned[id]?.insert(entity)
    case .scope(let name):
      if ownedByScope[name.generation] == nil { ownedByScope[name.generation] = EntitySet() }
      ownedByScope[name.generation]!.insert(entity)
    }
  }

  /// Registers an entity that another process has created. If the connection that owns it is
  /// closed, the entity waits for its cleanup.
  mutating func restore(_ entity: EntityRef, _ owner: Owner) {
    guard case .connection(let id) = owner, owned[id] == nil, isOwnerThere == nil else {
      return own(entity, owner)
    }
    var entities = EntitySet()
    entities.insert(entity)
    departed.append((id, entities.makeIterator()))
  }

  mutating func disown(_ entity: EntityRef, _ owner: Owner) {
    switch owner {
    case .none, .page: break
    case .connection(let id): owned[id]?.remove(entity)
    case .scope(let name):
      ownedByScope[name.generation]?.remove(entity)
      if ownedByScope[name.generation]?.isEmpty == true { ownedByScope[name.generation] = nil }
    }
  }

  /// Returns the scopes that a connection owns or at which it handles events.
  func scopes(of connection: UInt64) -> [EntityRef] { owned[connection]?.all(of: .scope) ?? [] }

  // MARK: Scopes

  /// Returns the number of entities that a scope owns, without other scopes.
  func ownedCount(of scope: OwnerName) -> Int { ownedByScope[scope.generation]?.count ?? 0 }

  /// Removes and returns all entities that a scope owns; nil if there are none. O(1).
  mutating func takeOwned(of scope: OwnerName) -> EntitySet? {
    ownedByScope.removeValue(forKey: scope.generation)
  }

  // MARK: Departing

  /// Returns the connection that closed last, and its next entity, or nil if none is left. O(1):
  /// emptying a set bit by bit would search for its first element from the start each time.
  mutating func nextDeparted() -> (connection: UInt64, entity: EntityRef?) {
    let last = departed.count - 1
    return (departed[last].connection, departed[last].left.next())
  }

  /// Removes the connection that `nextDeparted` returned, once no entity of it is left. O(1).
  mutating func forgetDeparted(_ connection: UInt64) {
    let last = departed.removeLast()
    precondition(last.connection == connection, "only who left last can be forgotten")
  }

  // MARK: Users

  mutating func entities(of uid: UInt32) -> Int {
    if uid != lastUser.uid {
      entitiesOfUser[lastUser.uid] = lastUser.entities == 0 ? nil : lastUser.entities
      lastUser = (uid, entitiesOfUser.removeValue(forKey: uid) ?? 0)
    }
    return lastUser.entities
  }

  /// The most entities that a user has.
  var maximumEntitiesOfUser: Int { max(entitiesOfUser.values.max() ?? 0, lastUser.entities) }

  mutating func adjustEntityCount(by change: Int, for uid: UInt32) {
    lastUser.entities = entities(of: uid) + change
  }
}

extension Generation: ShardKey {
  var shard: UInt8 { UInt8(truncatingIfNeeded: value) }
}
