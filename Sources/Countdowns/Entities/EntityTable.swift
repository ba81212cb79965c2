import Memory
import TimerWheel
import Wire

/// Entities of one kind, by key and by index.
///
/// An entity keeps its index for as long as it exists, so an index can be a timer's payload and a
/// cursor; then it is reused. However many entities there are, no call but the removal of the last
/// one moves, frees or reads more than a small part of them.
final class EntityTable<Entity: KeyedEntity> {
  private var entities = PagedTable<Entity>()
  private var slots = Slots()
  /// The number of slots that are taken without an entity.
  private var reserved = 0
  private var index = KeyIndex()
  /// The hashes of the keys, so that the index can grow without reading the keys.
  private var hashes = GrowingArray<KeyIndex.Hash>(capacity: 64)
  /// A peak of this many entities or fewer takes too little memory to be worth releasing.
  private static var resetThreshold: Int { 64 }

  var count: Int { index.count }
  /// One more than the highest index used since the table was last empty.
  var indexEnd: Int { slots.end }

  subscript(index: UInt32) -> Entity {
    @inline(__always) _read { yield entities[index] }
    @inline(__always) _modify { yield &entities[index] }
  }

  func contains(_ index: UInt32) -> Bool { entities.contains(index) }

  func entity(at index: UInt32) -> Entity? {
    entities.contains(index) ? entities[index] : nil
  }

  /// O(1).
  func find(_ key: Span<UInt8>) -> UInt32? {
    index.find(hash: KeyIndex.hash(key)) { candidate in
      entities[candidate].key.span.hasSameBytes(as: key)
    }
  }

  func find(_ key: [UInt8]) -> UInt32? { find(key.span) }

  /// Inserts an entity, whose key must not be in the table, and returns its index. O(1).
  func insert(_ entity: Entity) -> UInt32 {
    let new = slots.take()
    enter(entity, at: new)
    return new
  }

  /// A free index.
  var freeIndex: UInt32 { slots.peek() }

  /// Takes a slot without an entity, for something that is stored besides. O(1).
  func reserve() -> UInt32 {
    reserved += 1
    return slots.take()
  }

  /// Takes a given slot without an entity.
  func reserve(_ slot: UInt32) {
    reserved += 1
    slots.take(slot)
  }

  func release(_ slot: UInt32) {
    reserved -= 1
    slots.release(slot)
  }

  /// Inserts an entity at a given index, which must be free. Its key must not be in the table.
  /// O(1).
  func insert(_ entity: Entity, at slot: UInt32) {
    slots.take(slot)
    enter(entity, at: slot)
  }

  private func enter(_ entity: Entity, at new: UInt32) {
    let hash = KeyIndex.hash(entity.key.span)
    entities.insert(entity, at: new)
    if new >= hashes.capacity { hashes.grow(atLeast: Int(new) + 1) }
    hashes.cells[Int(new)] = hash
    index.insert(new, hash: hash) { [hashes = hashes.cells] in hashes[Int($0)] }
  }

  /// O(1).
  @discardableResult
  func remove(_ old: UInt32) -> Entity {
    index.remove(old, hash: hashes.cells[Int(old)])
    let entity = entities.remove(old)
    slots.release(old)
    startOverIfEmpty()
    return entity
  }

  private func startOverIfEmpty() {
    guard count == 0, reserved == 0 else { return }
    // Releases memory after a peak; cursors start over.
    if indexEnd > Self.resetThreshold {
      entities = PagedTable()
      slots = Slots()
      index = KeyIndex()
      hashes = GrowingArray(capacity: 64)
    }
    slots.startOver()
  }
}

protocol KeyedEntity {
  var key: [UInt8] { get }
  var generation: Generation { get }
  var owner: Owner { get }
  /// The id of the user who started the entity, and whose limit it counts towards.
  var uid: UInt32 { get }
  /// The entity's only timer.
  var alarm: TimerWheel.Token? { get set }
  /// The clock of the timer.
  var clock: TimerClock { get }
  /// When the timer is due, on its clock; nil if none is needed.
  var nextExpiry: Instant? { get }
  /// Whether it has ended, and is only there for its tokens. Clients do not see it.
  var isOver: Bool { get }
  /// Visits the owners and connections whose end concerns the entity.
  func forEachOwner(_ body: (Owner) -> Void)
}

extension KeyedEntity {
  var clock: TimerClock { .boot }
  var isOver: Bool { false }
  func forEachOwner(_ body: (Owner) -> Void) { body(owner) }
}
