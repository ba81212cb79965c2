/// The owner of an entity: when the owner closes, the entity is cancelled.
package enum Owner: Hashable, Sendable {
  /// No owner: the entity outlives connections.
  case none
  /// The connection with that id.
  case connection(UInt64)
  /// That scope, and no later scope with its name.
  case scope(OwnerName)
  /// One load of that page, which holds a HUD until the load ends.
  case page(OwnerName)

  /// The entity that owns others; nil for a connection.
  var entity: (kind: EntityKind, key: [UInt8])? {
    switch self {
    case .none, .connection: nil
    case .scope(let scope): (.scope, scope.key)
    case .page(let page): (.page, page.key)
    }
  }
}

/// The name of an entity that owns others. There is one for each such entity, and it is a class, so
/// that a reference to an owner takes no more than a word.
package final class OwnerName: Hashable, Sendable {
  package let key: [UInt8]
  /// The entity's place in its table, which others may take once the entity is removed.
  package let index: UInt32
  package let generation: Generation

  package init(key: [UInt8], index: UInt32, generation: Generation) {
    self.key = key
    self.index = index
    self.generation = generation
  }

  /// Compares the generations: none is ever reused.
  package static func == (a: OwnerName, b: OwnerName) -> Bool { a.generation == b.generation }
  package func hash(into hasher: inout Hasher) { hasher.combine(generation) }
}
