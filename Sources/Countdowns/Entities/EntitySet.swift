/// A set of entities: bits for 1,024 adjacent indices of a kind in each page. A table has 2²⁷
/// slots, so there are never more than some 130,000 pages to move when the set grows, however the
/// entities are spread.
struct EntitySet {
  /// The pages, each under the entity of its lowest bit; no page is empty.
  private var pages: [EntityRef: Page] = [:]
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  fileprivate struct Page {
    private var words = [UInt64](repeating: 0, count: 1 << 4)
    private(set) var count = 0

    /// Adds or removes an index. Returns false if that changes nothing.
    mutating func set(_ index: UInt32, _ isMember: Bool) -> Bool {
      let (word, bit) = (Int(index >> 6 & 15), UInt64(1) << UInt64(index & 63))
      guard words[word] & bit == 0 ? isMember : !isMember else { return false }
      words[word] ^= bit
      count += isMember ? 1 : -1
      return true
    }

    /// Removes and returns the first index. Precondition: there is one.
    mutating func takeFirst() -> UInt32 {
      let word = words.firstIndex { $0 != 0 }!
      let bit = words[word].trailingZeroBitCount
      words[word] &= words[word] - 1
      count -= 1
      return UInt32(word << 6 | bit)
    }
  }

  private static func name(_ entity: EntityRef) -> EntityRef {
    EntityRef(entity.kind, entity.index & ~1_023)
  }

  /// O(1), amortized.
  mutating func insert(_ entity: EntityRef) {
    if pages[Self.name(entity), default: Page()].set(entity.index, true) { count += 1 }
  }

  /// O(1).
  mutating func remove(_ entity: EntityRef) {
    guard count > 0, let page = pages.index(forKey: Self.name(entity)),
      pages.values[page].set(entity.index, false)
    else { return }
    count -= 1
    if pages.values[page].count == 0 { pages.remove(at: page) }
  }

  /// Returns all entities of one kind. O(count / 1024) at best, O(count) at worst.
  func all(of kind: EntityKind) -> [EntityRef] {
    var iterator = Iterator(pages: pages.filter { $0.key.kind == kind }.makeIterator())
    var found: [EntityRef] = []
    while let entity = iterator.next() { found.append(entity) }
    return found
  }

  func makeIterator() -> Iterator { Iterator(pages: pages.makeIterator()) }

  struct Iterator: IteratorProtocol {
    private var pages: [EntityRef: Page].Iterator
    private var name = EntityRef(payload: 0)
    private var rest: Page?

    fileprivate init(pages: [EntityRef: Page].Iterator) { self.pages = pages }

    /// O(1), amortized.
    mutating func next() -> EntityRef? {
      if rest?.count ?? 0 == 0 {
        guard let page = pages.next() else { return nil }
        (name, rest) = (page.key, page.value)
      }
      return EntityRef(name.kind, name.index | rest!.takeFirst())
    }
  }
}
