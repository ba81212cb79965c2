/// Which entities have changed since a store was told, and which of them it keeps.
///
/// An entity is kept if nobody owns it: what belongs to a connection ends with it. Kept or not, it
/// is named by its place in its table, which is nobody else's as long as anything is stored of it.
struct Changes {
  private var kinds = EntityKind.allCases.map { _ in Kind() }
  /// Nobody asks: nothing is noted.
  var isOn = false
  /// What commands have done, and time by itself. What a command lets happen because it is due is
  /// no doing of its own: whoever does that puts this back.
  var count = Count()
  /// Which batch was taken last: they are numbered from 1 on.
  private(set) var batch: UInt64 = 0
  /// Levels of screens that were kept, and are not any more, by the first batch that says so. Each may come
  /// back as long as that is not stored.
  private var leavingLevels: [ScreenLevel: UInt64] = [:]

  /// How often things were changed, so that a command can be seen to have done it.
  struct Count {
    /// Something that is kept.
    var kept: UInt64 = 0
    /// Anything.
    var any: UInt64 = 0
    /// The newest batch that must be stored for what was changed to last, though it is not kept: it
    /// is where something was that is kept no more. 0 if there is none.
    var restsOn: UInt64 = 0
  }

  private struct ScreenLevel: Hashable {
    let screen: [UInt8]
    let level: Level
  }

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
    count.any &+= 1
    let kind = Int(entity.kind.rawValue)
    if !isKept {
      guard kinds[kind].isKept[entity.index] else { return }
      // That it is kept no more has been said already, and it has not been kept since.
      if !kinds[kind].goneBatches.isEmpty, !kinds[kind].isChanged[entity.index],
        let batch = kinds[kind].goneBatches[entity.index]
      {
        return rest(on: batch)
      }
    }
    count.kept &+= 1
    guard !kinds[kind].isChanged[entity.index] else { return }
    kinds[kind].isChanged[entity.index] = true
    kinds[kind].changed.append(entity.index)
  }

  /// Something was changed of which nothing is stored.
  mutating func noteUnstored() {
    if isOn { count.any &+= 1 }
  }

  /// What was changed does not last if that batch is not stored.
  private mutating func rest(on batch: UInt64) { count.restsOn = max(count.restsOn, batch) }

  /// Something of a screen was changed.
  ///
  /// - Parameter isKept: whether that level is kept, or was.
  mutating func note(_ entity: EntityRef, _ screen: [UInt8], _ level: Level, isKept: Bool) {
    guard isOn else { return }
    let leaves =
      leavingLevels.isEmpty ? nil : leavingLevels[ScreenLevel(screen: screen, level: level)]
    if isKept || leaves == batch + 1 { return note(entity, isKept: true) }
    count.any &+= 1
    if let leaves { rest(on: leaves) }
  }

  /// A level of a screen is kept no more.
  mutating func noteLeaving(_ entity: EntityRef, _ screen: [UInt8], _ level: Level) {
    guard isOn, isKept(entity) else { return }
    leavingLevels[ScreenLevel(screen: screen, level: level)] = batch + 1
  }

  /// The levels that may come back, as they do now.
  mutating func takeLeavingLevels() -> [(screen: [UInt8], level: Level)] {
    defer { leavingLevels = [:] }
    return leavingLevels.keys.map { ($0.screen, $0.level) }
  }

  /// A batch is stored, with all before it.
  mutating func setStored(_ batch: UInt64) {
    if !leavingLevels.isEmpty { leavingLevels = leavingLevels.filter { $0.value > batch } }
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
