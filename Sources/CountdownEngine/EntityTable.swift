import CountdownCore
import TimerWheel

/// Entities of one kind, by key and by index.
///
/// An index stays an entity's own for as long as it lives, so it can be a timer's payload and a
/// cursor; then it is used again. However many there are, no call moves, gives back or looks at
/// more than a small part of them.
struct EntityTable<Entity: KeyedEntity>: ~Copyable {
  private var entities = PagedTable<Entity>()
  private var free = FreeIndices()
  private var index = KeyIndex()
  /// One more than the highest index ever used.
  private(set) var indexEnd = 0
  /// As few do not take enough memory to be worth it: they may come and go all the time.
  private static var few: Int { 64 }

  var count: Int { index.count }

  subscript(index: UInt32) -> Entity {
    _read { yield entities[index] }
    _modify { yield &entities[index] }
  }

  func contains(_ index: UInt32) -> Bool { entities.contains(index) }

  func entity(at index: Int) -> Entity? {
    let index = UInt32(clamping: index)
    return entities.contains(index) ? entities[index] : nil
  }

  /// O(1).
  func find(_ key: UnsafeRawBufferPointer) -> UInt32? {
    index.find(hash: KeyIndex.hash(key)) { candidate in
      entities[candidate].key.withUnsafeBytes { $0.hasSameBytes(as: key) }
    }
  }

  func find(_ key: [UInt8]) -> UInt32? { key.withUnsafeBytes { find($0) } }

  /// `entity.key` must not be in the table yet. O(1).
  mutating func insert(_ entity: Entity) -> UInt32 {
    let new = free.take() ?? takeNew()
    enter(entity, at: new)
    return new
  }

  /// Puts an entity at an index that is free, as it had it before. Its key must not be in the table.
  /// O(1).
  mutating func insert(_ entity: Entity, at place: UInt32) {
    if Int(place) >= free.end { free.extend(to: (Int(place) / 64 + 1) * 64) }
    free.remove(place)
    enter(entity, at: place)
  }

  private mutating func takeNew() -> UInt32 {
    free.extend(to: free.end + 64)
    return free.take()!
  }

  private mutating func enter(_ entity: Entity, at new: UInt32) {
    entities.insert(entity, at: new)
    indexEnd = max(indexEnd, Int(new) + 1)
    index.insert(new, hash: hash(new)) { [entities = entities.contents] in
      $0.map { entities[$0].key.withUnsafeBytes { KeyIndex.hash($0) } }
    }
  }

  private func hash(_ index: UInt32) -> UInt64 {
    entities[index].key.withUnsafeBytes { KeyIndex.hash($0) }
  }

  /// O(1).
  @discardableResult
  mutating func remove(_ old: UInt32) -> Entity {
    index.remove(old, hash: hash(old))
    let entity = entities.remove(old)
    free.insert(old)
    if count == 0 {
      // Memory is given back after a peak, and cursors start over.
      if indexEnd > Self.few { self = EntityTable() }
      indexEnd = 0
    }
    return entity
  }
}

protocol KeyedEntity {
  var key: [UInt8] { get }
}
