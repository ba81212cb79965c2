/// Which entities have changed since a store was told, and which of them it keeps.
///
/// An entity is kept if nobody owns it: what belongs to a connection ends with it. Kept or not, it
/// is named by its place in its table.
struct Changes {
  private var kinds = EntityKind.allCases.map { _ in Kind() }
  /// Nobody asks: nothing is noted.
  var isOn = false
  /// How often something that is kept was changed, so that a command can be seen to have done it.
  private(set) var noted: UInt64 = 0
  /// How often anything was changed.
  private(set) var notedAny: UInt64 = 0
  /// Which batch is being taken: they are numbered from 1 on.
  private(set) var batch: UInt64 = 0

  private struct Kind {
    var changed: [UInt32] = []
    var isChanged = Bits()
    var isKept = Bits()
    /// The batches that newest took them as gone, and that are not stored yet.
    var goneBatches: [UInt32: UInt64] = [:]
  }

  /// - Parameter isKept: whether it is to be kept as it is now.
  mutating func note(_ entity: EntityRef, isKept: Bool) {
    guard isOn else { return }
    notedAny &+= 1
    let kind = Int(entity.kind.rawValue)
    guard isKept || kinds[kind].isKept[entity.index] else { return }
    noted &+= 1
    guard !kinds[kind].isChanged[entity.index] else { return }
    kinds[kind].isChanged[entity.index] = true
    kinds[kind].changed.append(entity.index)
  }

  /// Something has changed that is not kept, in a place where something else may still be stored.
  mutating func noteUnkept() {
    if isOn { notedAny &+= 1 }
  }

  /// A store keeps it, as it is; or is about to.
  mutating func setKept(_ entity: EntityRef, _ isKept: Bool) {
    let kind = Int(entity.kind.rawValue)
    kinds[kind].isKept[entity.index] = isKept
    if !kinds[kind].goneBatches.isEmpty { kinds[kind].goneBatches[entity.index] = nil }
  }

  mutating func beginBatch() -> UInt64 {
    batch += 1
    return batch
  }

  /// The batch that is being taken says that it is gone.
  mutating func setGone(_ entity: EntityRef) {
    kinds[Int(entity.kind.rawValue)].goneBatches[entity.index] = batch
  }

  /// Whether a batch was the last to say anything of an entity, and that it is gone.
  func isGone(_ entity: EntityRef, since batch: UInt64) -> Bool {
    kinds[Int(entity.kind.rawValue)].goneBatches[entity.index] == batch
  }

  func isKept(_ entity: EntityRef) -> Bool { kinds[Int(entity.kind.rawValue)].isKept[entity.index] }

  var isEmpty: Bool { kinds.allSatisfy { $0.changed.isEmpty } }

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
