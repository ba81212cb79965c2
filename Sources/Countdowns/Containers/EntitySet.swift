/// A set of entities: one word for 64 adjacent indices of a kind. An owner's entities are mostly
/// created in a row, so a million of them take some 16,000 words: few to move when the set grows.
struct EntitySet {
  /// The words, each under the entity of its lowest bit; no word is 0.
  private var words: [EntityRef: UInt64] = [:]
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  private static func word(_ entity: EntityRef) -> (name: EntityRef, bit: UInt64) {
    (EntityRef(entity.kind, entity.index & ~63), 1 << UInt64(entity.index & 63))
  }

  /// O(1), amortized.
  mutating func insert(_ entity: EntityRef) {
    let (name, bit) = Self.word(entity)
    let before = words[name] ?? 0
    guard before & bit == 0 else { return }
    words[name] = before | bit
    count += 1
  }

  /// O(1).
  mutating func remove(_ entity: EntityRef) {
    let (name, bit) = Self.word(entity)
    guard let word = words[name], word & bit != 0 else { return }
    words[name] = word == bit ? nil : word & ~bit
    count -= 1
  }

  /// Returns all entities of one kind. O(count / 64) at best, O(count) at worst.
  func all(of kind: EntityKind) -> [EntityRef] {
    var iterator = Iterator(words: words.filter { $0.key.kind == kind }.makeIterator())
    var found: [EntityRef] = []
    while let entity = iterator.next() { found.append(entity) }
    return found
  }

  func makeIterator() -> Iterator { Iterator(words: words.makeIterator()) }

  struct Iterator: IteratorProtocol {
    fileprivate var words: [EntityRef: UInt64].Iterator
    private var name = EntityRef(.countdown, 0)
    private var rest: UInt64 = 0

    fileprivate init(words: [EntityRef: UInt64].Iterator) { self.words = words }

    /// O(1), amortized.
    mutating func next() -> EntityRef? {
      if rest == 0 {
        guard let word = words.next() else { return nil }
        (name, rest) = (word.key, word.value)
      }
      let place = UInt32(truncatingIfNeeded: rest.trailingZeroBitCount)
      rest &= rest - 1
      return EntityRef(name.kind, name.index | place)
    }
  }
}
