/// What has the entities of a kind, by key and by index. A store knows no time and no other kinds.
package protocol EntityStore: AnyObject {
  associatedtype State: EntityState

  var count: Int { get }
  /// One more than the highest index in use.
  var indexEnd: Int { get }
  /// An index for a new entity.
  var freeIndex: UInt32 { get }
  /// Returns the index of the entity with that key. O(1).
  func find(_ key: Span<UInt8>) -> UInt32?
  func contains(_ index: UInt32) -> Bool
  /// Returns whether an entity has ended, and is only there for its tokens. Clients do not see it.
  func isOver(_ index: UInt32) -> Bool
  func key(_ index: UInt32) -> [UInt8]
  func owner(_ index: UInt32) -> Owner
  /// Visits the owners and connections whose end concerns an entity.
  func forEachOwner(_ index: UInt32, _ body: (Owner) -> Void)
  /// Returns the user who has made an entity.
  func uid(_ index: UInt32) -> UInt32
  /// Returns the state of an entity; nil if there is none at that index.
  func state(_ index: UInt32) -> State?
  /// Returns whether nothing is stored at that index.
  func isFree(_ index: UInt32) -> Bool
  /// Prefetches what restoring a record needs.
  func prepare(record: Span<UInt8>)
}

extension EntityStore {
  func isOver(_ index: UInt32) -> Bool { false }
  func isFree(_ index: UInt32) -> Bool { !contains(index) }
  func prepare(record: Span<UInt8>) {}

  /// Returns nil if there is no entity at that index that clients see.
  func entry(_ index: UInt32) -> (owner: Owner, key: [UInt8])? {
    contains(index) && !isOver(index) ? (owner(index), key(index)) : nil
  }

  func generation(_ index: UInt32) -> Generation? { state(index)?.generation }
}

/// A store whose entities are in an `EntityTable`.
protocol TableStore: EntityStore {
  associatedtype Entity: KeyedEntity

  var table: EntityTable<Entity> { get }
}

extension TableStore {
  var count: Int { table.count }
  var indexEnd: Int { table.indexEnd }
  var freeIndex: UInt32 { table.freeIndex }
  func find(_ key: Span<UInt8>) -> UInt32? { table.find(key) }
  func contains(_ index: UInt32) -> Bool { table.contains(index) }
  func isOver(_ index: UInt32) -> Bool { table[index].isOver }
  func key(_ index: UInt32) -> [UInt8] { table[index].key }
  func owner(_ index: UInt32) -> Owner { table[index].owner }
  func uid(_ index: UInt32) -> UInt32 { table[index].uid }

  func forEachOwner(_ index: UInt32, _ body: (Owner) -> Void) {
    table[index].forEachOwner(body)
  }
}

extension TableStore where State == Entity {
  func state(_ index: UInt32) -> State? { table.entity(at: index) }
}

/// A table is the whole store of most kinds.
extension EntityTable: EntityStore, TableStore where Entity: EntityState {
  typealias State = Entity
  var table: EntityTable<Entity> { self }
}
