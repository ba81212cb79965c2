/// The entities that have changed since the last batch was taken, and the entities that are stored.
///
/// Entities without an owner are stored; those of a connection end with it. An entity is identified
/// by its slot in its table.
struct Changes {
  private var kinds = EntityKind.allCases.map { _ in Kind() }
  /// Whether changes are noted; false while nothing is stored.
  var isOn = false
  /// Whether entities with an owner are stored, too: by a fleet's servers.
  var areAllKept = false
  /// Kinds that are not stored here, because their entities are copies.
  var copies = KindSet()

  private struct Kind {
    var changed: [UInt32] = []
    var isChanged = Bits()
    var isKept = Bits()

    var isBlank: Bool { changed.isEmpty && isKept.isEmpty }
  }

  /// - Parameter isKept: whether the current state of the entity is to be stored.
  mutating func note(_ entity: EntityRef, isKept: Bool) {
    guard isOn, !copies.contains(entity.kind) else { return }
    let kind = Int(entity.kind.rawValue)
    guard isKept || areAllKept || kinds[kind].isKept[entity.index],
      !kinds[kind].isChanged[entity.index]
    else { return }
    kinds[kind].isChanged[entity.index] = true
    kinds[kind].changed.append(entity.index)
  }

  /// Notes whether a store has the entity, or is about to receive it.
  mutating func setKept(_ entity: EntityRef, _ isKept: Bool) {
    kinds[Int(entity.kind.rawValue)].isKept[entity.index] = isKept
  }

  func isKept(_ entity: EntityRef) -> Bool { kinds[Int(entity.kind.rawValue)].isKept[entity.index] }

  var isEmpty: Bool { kinds.allSatisfy { $0.changed.isEmpty } }

  /// Forgets all changes, and that anything is stored.
  mutating func forgetAll() {
    for kind in kinds.indices where !kinds[kind].isBlank { kinds[kind] = Kind() }
  }

  mutating func take(_ kind: EntityKind) -> [UInt32] {
    let taken = kinds[Int(kind.rawValue)].changed
    guard !taken.isEmpty else { return [] }
    for index in taken { kinds[Int(kind.rawValue)].isChanged[index] = false }
    kinds[Int(kind.rawValue)].changed.removeAll(keepingCapacity: taken.count <= 4_096)
    return taken
  }
}

/// A set of small numbers.
private struct Bits {
  private var words: [UInt64] = []
  var isEmpty: Bool { words.isEmpty }

  subscript(index: UInt32) -> Bool {
    get {
      let word = Int(index >> 6)
      return word < words.count && words[word] & 1 << UInt64(index & 63) != 0
    }
    set {
      let word = Int(index >> 6)
      if word >= words.count {
        guard newValue else { return }
        words.append(contentsOf: repeatElement(0, count: word + 1 - words.count))
      }
      if newValue {
        words[word] |= 1 << UInt64(index & 63)
      } else {
        words[word] &= ~(1 << UInt64(index & 63))
      }
    }
  }
}
