import Countdowns

/// The slot of the newest change of each entity in a series of segments.
///
/// Changes are noted in order, then sorted once.
struct NewestChanges {
  fileprivate struct Found {
    /// The offset of the record in the segment; negative if the entity has ended.
    var start: Int
    /// The length of the record, which 4 bytes have in the log.
    var count: UInt32
    var segment: UInt32
  }

  /// Kind, slot and, in the lowest bits, an index in `found`. After `sort`, one for each entity,
  /// by kind and slot.
  private var noted: [UInt64] = []
  private var found: [Found] = []
  /// Enough for the changes in any log.
  private static let indexBits: UInt64 = 32
  private static let slotBits: UInt64 = 28

  /// An entity and its newest change.
  struct Change {
    let kind: EntityKind
    let slot: UInt32
    fileprivate let found: Found

    /// Returns the entity's record, or nil if the entity has ended.
    ///
    /// - Parameter segments: the segments that the changes were noted from.
    func bytes(in segments: [[UInt8]]) -> ArraySlice<UInt8>? {
      guard found.start >= 0 else { return nil }
      return segments[Int(found.segment)][found.start..<found.start + Int(found.count)]
    }
  }

  private static func id(_ kind: EntityKind, _ slot: UInt32) -> UInt64 {
    UInt64(kind.rawValue) << slotBits | UInt64(slot)
  }

  var isEmpty: Bool { noted.isEmpty }

  /// Notes an entry. Returns false if no entity can have its slot.
  mutating func note(_ entry: ChangeEntry, inSegment segment: Int) -> Bool {
    switch entry {
    case .current(let kind, let slot, let bytes):
      note(
        kind, slot,
        Found(
          start: bytes.startIndex, count: UInt32(bytes.count), segment: UInt32(segment)))
    case .gone(let kind, let slot):
      note(kind, slot, Found(start: -1, count: 0, segment: UInt32(segment)))
    case .events, .clocks: true
    }
  }

  private mutating func note(_ kind: EntityKind, _ slot: UInt32, _ change: Found) -> Bool {
    guard slot < StoredSlots.end else { return false }
    noted.append(Self.id(kind, slot) << Self.indexBits | UInt64(found.count))
    found.append(change)
    return true
  }

  /// Sorts the changes once all are noted, and keeps the newest of each entity.
  mutating func sort() {
    noted.sort()
    var last = 0
    for index in noted.indices.dropFirst() {
      if noted[index] >> Self.indexBits != noted[last] >> Self.indexBits { last += 1 }
      noted[last] = noted[index]
    }
    if !noted.isEmpty { noted.removeLast(noted.count - last - 1) }
  }

  /// Finds out whether entities have changed; fastest when asked in order of kind and slot.
  struct Search {
    private let changes: NewestChanges
    private var next = 0
    private var last: UInt64 = 0

    init(_ changes: NewestChanges) { self.changes = changes }

    /// Returns whether an entity has changed. O(1) from one entity to the next, O(log n) backwards.
    mutating func contains(_ kind: EntityKind, _ slot: UInt32) -> Bool {
      let id = NewestChanges.id(kind, slot)
      if id < last { next = changes.firstIndex(of: id) }
      last = id
      while let found = changes.id(at: next), found < id { next += 1 }
      return changes.id(at: next) == id
    }
  }

  private func id(at index: Int) -> UInt64? {
    index < noted.count ? noted[index] >> Self.indexBits : nil
  }

  /// Returns whether this entry of a segment is the newest change of its entity.
  func isNewest(
    _ kind: EntityKind, _ slot: UInt32, _ bytes: ArraySlice<UInt8>, inSegment segment: Int
  ) -> Bool {
    guard let newest = find(kind, slot) else { return false }
    return newest.segment == segment && newest.start == bytes.startIndex
  }

  private func find(_ kind: EntityKind, _ slot: UInt32) -> Found? {
    let id = Self.id(kind, slot)
    let index = firstIndex(of: id)
    guard index < noted.count, noted[index] >> Self.indexBits == id else { return nil }
    return found[Int(truncatingIfNeeded: noted[index] & (1 << Self.indexBits - 1))]
  }

  private func firstIndex(of id: UInt64) -> Int {
    var (low, high) = (0, noted.count)
    while low < high {
      let middle = (low + high) / 2
      if noted[middle] >> Self.indexBits < id { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Calls `body` with the changes, by kind and slot.
  func forEachChange(_ body: (Change) throws(StoreError) -> Void) throws(StoreError) {
    for noted in noted {
      let id = noted >> Self.indexBits
      guard let kind = EntityKind(rawValue: UInt8(truncatingIfNeeded: id >> Self.slotBits)) else {
        preconditionFailure("a kind was noted")
      }
      try body(
        Change(
          kind: kind, slot: UInt32(truncatingIfNeeded: id & (1 << Self.slotBits - 1)),
          found: found[Int(truncatingIfNeeded: noted & (1 << Self.indexBits - 1))]))
    }
  }
}
