/// Entities of one kind, by key and by index.
///
/// An index stays an entity's own for as long as it lives, so it can be a timer's payload and a
/// cursor; then it is used again.
struct EntityTable<Entity: KeyedEntity>: ~Copyable {
  private var entities: ContiguousArray<Entity?> = []
  private var free: [UInt32] = []
  private var index = KeyIndex()

  var count: Int { index.count }
  /// One more than the highest index ever used.
  var indexEnd: Int { entities.count }

  subscript(index: UInt32) -> Entity {
    _read { yield entities[Int(index)]! }
    _modify { yield &entities[Int(index)]! }
  }

  func contains(_ index: UInt32) -> Bool {
    entities.indices.contains(Int(index)) && entities[Int(index)] != nil
  }

  func entity(at index: Int) -> Entity? {
    entities.indices.contains(index) ? entities[index] : nil
  }

  /// O(1).
  func find(_ key: UnsafeRawBufferPointer) -> UInt32? {
    index.find(hash: KeyIndex.hash(key)) { candidate in
      entities[Int(candidate)]!.key.withUnsafeBytes { $0.hasSameBytes(as: key) }
    }
  }

  func find(_ key: [UInt8]) -> UInt32? { key.withUnsafeBytes { find($0) } }

  /// `entity.key` must not be in the table yet. O(1).
  mutating func insert(_ entity: Entity) -> UInt32 {
    let new: UInt32
    if let reused = free.popLast() {
      new = reused
      entities[Int(new)] = entity
    } else {
      new = UInt32(entities.count)
      entities.append(entity)
    }
    enter(new)
    return new
  }

  /// Puts an entity at an index that is free, as it had it before. Its key must not be in the table.
  ///
  /// O(1) when indices rise, as when a table is filled anew; else O(free indices).
  mutating func insert(_ entity: Entity, at place: UInt32) {
    if Int(place) < entities.count {
      let position = free.firstIndex(of: place)
      precondition(position != nil, "the place is another's")
      free.remove(at: position!)
      entities[Int(place)] = entity
    } else {
      while entities.count < Int(place) {
        free.append(UInt32(entities.count))
        entities.append(nil)
      }
      entities.append(entity)
    }
    enter(place)
  }

  private mutating func enter(_ new: UInt32) {
    index.insert(new, hash: hash(new)) { [entities] in
      entities[Int($0)]!.key.withUnsafeBytes { KeyIndex.hash($0) }
    }
  }

  private func hash(_ index: UInt32) -> UInt64 {
    entities[Int(index)]!.key.withUnsafeBytes { KeyIndex.hash($0) }
  }

  /// O(1).
  @discardableResult
  mutating func remove(_ old: UInt32) -> Entity {
    let entity = entities[Int(old)]!
    index.remove(old, hash: hash(old))
    entities[Int(old)] = nil
    free.append(old)
    if count == 0 {
      // Memory is given back after a peak, and cursors start over.
      entities = []
      free = []
      index = KeyIndex()
    }
    return entity
  }
}

protocol KeyedEntity {
  var key: [UInt8] { get }
}
