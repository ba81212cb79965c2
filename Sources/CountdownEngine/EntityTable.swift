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

  func entity(at index: Int) -> Entity? {
    entities.indices.contains(index) ? entities[index] : nil
  }

  /// O(1).
  func find(_ key: UnsafeRawBufferPointer) -> UInt32? {
    index.find(hash: KeyIndex.hash(key)) { candidate in
      entities[Int(candidate)]!.key.withUnsafeBytes { $0.elementsEqual(key) }
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
    index.insert(new, hash: entity.key.withUnsafeBytes { KeyIndex.hash($0) })
    return new
  }

  /// O(1).
  @discardableResult
  mutating func remove(_ old: UInt32) -> Entity {
    let entity = entities[Int(old)]!
    index.remove(old, hash: entity.key.withUnsafeBytes { KeyIndex.hash($0) })
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

/// A part of a listing, and where to go on; 0 when it is complete.
package struct Page<View> {
  package var cursor: Int
  package var views: [View]
}

/// Which entities a listing is about, and how much of it one call may do.
package struct ListQuery: Sendable {
  package var pattern: [UInt8]?
  package var owner: Owner?
  package var cursor = 0
  package var limit = 100

  /// How many entities one call looks at for each that it may return.
  static let looksPerResult = 10

  package init() {}
}

extension EntityTable {
  /// Whatever is in the table from the first page to the last is visited exactly once, because
  /// nothing changes its index. O(limit).
  func page<View>(
    _ query: ListQuery, owner: (Entity) -> Owner, view: (Entity) -> View
  ) -> Page<View> {
    var page = Page<View>(cursor: 0, views: [])
    let end = min(indexEnd, query.cursor + query.limit * ListQuery.looksPerResult)
    var next = query.cursor
    while next < end, page.views.count < query.limit {
      defer { next += 1 }
      guard let entity = entity(at: next) else { continue }
      if let wanted = query.owner, owner(entity) != wanted { continue }
      if let pattern = query.pattern, !Glob.matches(pattern, entity.key) { continue }
      page.views.append(view(entity))
    }
    page.cursor = next < indexEnd ? next : 0
    return page
  }
}
