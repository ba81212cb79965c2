/// The owner of an entity: when it is closed, the entity is cancelled.
package enum Owner: Hashable, Sendable {
  /// Nothing: it outlives connections.
  case none
  /// The connection with that id.
  case connection(UInt64)
  /// That scope, and none that has its name later.
  case scope(OwnerName)
  /// A load of that page, which holds a HUD until it is over.
  case page(OwnerName)
}

/// Names an entity that owns others, for as long as anything refers to it. There is one for each
/// such entity, and it is a class, so that naming an owner takes no more than a word.
package final class OwnerName: Hashable, Sendable {
  package let key: [UInt8]
  /// Its place in its table, which is another's once it is removed.
  package let index: UInt32
  package let generation: Generation

  package init(key: [UInt8], index: UInt32, generation: Generation) {
    self.key = key
    self.index = index
    self.generation = generation
  }

  /// A generation is never given twice.
  package static func == (a: OwnerName, b: OwnerName) -> Bool { a.generation == b.generation }
  package func hash(into hasher: inout Hasher) { hasher.combine(generation) }
}
