/// Finds the index of an entity by the hash of its key. Takes about seven bytes per entity.
///
///     hash: | directory … | … | tag 5 | offset in the segment 10 |
///
/// Extendible hashing: the first bits of a hash select one of many small segments through a
/// directory; within a segment, open addressing with linear probing. A full segment is split in
/// two, so the index grows in small steps and never moves all its entries at once. A slot holds an
/// index and five bits of the hash, so that few wrong keys are compared; a split asks for the
/// hashes again.
///
/// The caller chooses the hash. It should depend on a secret, so that nobody can choose keys that
/// collide.
///
/// Source: R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible Hashing" (ACM TODS
/// 1979).
public struct KeyIndex: ~Copyable {
  public typealias Hash = UInt32

  /// The most entries: an index must fit in a slot beside the tag.
  @inlinable public static var maximumEntries: Int { (1 << indexBits) - 2 }

  @inlinable static var hashBits: UInt32 { 32 }
  @inlinable static var offsetBits: UInt32 { 10 }
  @inlinable static var slots: Int { 1 << Int(offsetBits) }
  @inlinable static var offsetMask: Int { slots - 1 }
  @inlinable static var indexBits: Int { 27 }
  @inlinable static var indexMask: UInt32 { 1 << UInt32(indexBits) - 1 }
  /// The most slots in use: keeps probing short, and leaves empty slots that end it.
  @inlinable static var maximumUsed: Int { slots * 7 / 8 }
  /// A full segment with fewer live entries than this is rebuilt, not split.
  @inlinable static var fewAlive: Int { slots * 5 / 8 }

  @inlinable static var empty: UInt32 { 0 }
  /// A removed entry; probing continues past it.
  @inlinable static var removed: UInt32 { UInt32.max }

  @usableFromInline
  struct Segment: BitwiseCopyable {
    /// The number of slots that are not empty.
    @usableFromInline var used: UInt16 = 0
    @usableFromInline var alive: UInt16 = 0
    /// The number of leading hash bits that all its entries share.
    @usableFromInline var depth: UInt16 = 0
  }

  /// The slots of all segments, one segment after the other.
  @usableFromInline var slotMemory = GrowingArray<UInt32>(capacity: slots)
  @usableFromInline var slots: Cells<UInt32>
  @usableFromInline var segmentMemory = GrowingArray<Segment>(capacity: 1)
  @usableFromInline var segments: Cells<Segment>
  private var segmentCount = 1
  /// The segments by the first `depth` bits of a hash.
  @usableFromInline var directory: [UInt32] = [0]
  @usableFromInline var depth: UInt32 = 0
  @usableFromInline var used = 0
  @inlinable public var count: Int { used }

  public init() {
    slots = slotMemory.cells
    segments = segmentMemory.cells
  }

  @inlinable @inline(__always)
  func segment(_ hash: Hash) -> Int {
    // In 64 bits, because a shift by 32 must give 0.
    Int(directory[Int(UInt64(hash) &>> UInt64(Self.hashBits &- depth))])
  }

  @inlinable @inline(__always)
  static func tag(_ hash: Hash) -> UInt32 {
    (hash >> offsetBits) << UInt32(indexBits)
  }

  @inlinable @inline(__always)
  static func offset(_ hash: Hash) -> Int { Int(hash) & offsetMask }

  /// O(1).
  @inlinable @inline(__always)
  public func find(hash: Hash, where matches: (UInt32) -> Bool) -> UInt32? {
    let start = segment(hash) << Int(Self.offsetBits)
    let tag = Self.tag(hash)
    var offset = Self.offset(hash)
    while true {
      let slot = slots[start | offset]
      if slot == Self.empty { return nil }
      if slot & ~Self.indexMask == tag, slot != Self.removed {
        let index = slot & Self.indexMask &- 1
        if matches(index) { return index }
      }
      offset = (offset &+ 1) & Self.offsetMask
    }
  }

  /// Begins to fetch the slot that `find` reads first.
  @inlinable
  public func prefetch(_ hash: Hash) {
    slots.prefetch(segment(hash) << Int(Self.offsetBits) | Self.offset(hash))
  }

  /// O(1), amortized; a split asks for the hashes of a segment.
  ///
  /// - Parameter hashOf: returns the hash of an index that was inserted before.
  @inlinable @inline(__always)
  public mutating func insert(_ index: UInt32, hash: Hash, hashOf: (UInt32) -> Hash) {
    precondition(Int(index) < Self.maximumEntries, "the index is full")
    var segment = segment(hash)
    while segments[segment].used >= Self.maximumUsed {
      let all = makeRoom(in: segment, hash)
      for index in all {
        let hash = hashOf(index)
        insertEntry(index, hash, in: self.segment(hash))
      }
      segment = self.segment(hash)
    }
    insertEntry(index, hash, in: segment)
    used += 1
  }

  /// Removes an index, which must be present. O(1).
  @inlinable
  public mutating func remove(_ index: UInt32, hash: Hash) {
    let segment = segment(hash)
    let start = segment << Int(Self.offsetBits)
    let entry = (index + 1) | Self.tag(hash)
    var offset = Self.offset(hash)
    while slots[start | offset] != entry {
      precondition(slots[start | offset] != Self.empty, "what is removed was there")
      offset = (offset &+ 1) & Self.offsetMask
    }
    used -= 1
    segments[segment].alive -= 1
    guard slots[start | (offset &+ 1) & Self.offsetMask] == Self.empty else {
      slots[start | offset] = Self.removed
      return
    }
    // An empty slot follows, so no probe has to pass this slot or the removed ones before it.
    repeat {
      slots[start | offset] = Self.empty
      segments[segment].used -= 1
      offset = (offset &- 1) & Self.offsetMask
    } while slots[start | offset] == Self.removed
  }

  @inlinable @inline(__always)
  mutating func insertEntry(_ index: UInt32, _ hash: Hash, in segment: Int) {
    let start = segment << Int(Self.offsetBits)
    var offset = Self.offset(hash)
    while slots[start | offset] != Self.empty, slots[start | offset] != Self.removed {
      offset = (offset &+ 1) & Self.offsetMask
    }
    if slots[start | offset] == Self.empty { segments[segment].used &+= 1 }
    segments[segment].alive &+= 1
    slots[start | offset] = (index &+ 1) | Self.tag(hash)
  }

  /// Splits a segment if enough of its entries are live. Then empties it and returns its entries,
  /// which the caller must insert again.
  @usableFromInline @inline(never)
  mutating func makeRoom(in segment: Int, _ hash: Hash) -> [UInt32] {
    if segments[segment].alive >= Self.fewAlive { split(segment, hash) }
    let start = segment << Int(Self.offsetBits)
    var all: [UInt32] = []
    all.reserveCapacity(Self.slots)
    for offset in start..<start + Self.slots
    where slots[offset] != Self.empty && slots[offset] != Self.removed {
      all.append(slots[offset] & Self.indexMask - 1)
    }
    slots.fill(start..<start + Self.slots, with: Self.empty)
    segments[segment].used = 0
    segments[segment].alive = 0
    return all
  }

  /// Adds a segment, and points half of the directory entries of a full segment to it.
  private mutating func split(_ old: Int, _ hash: Hash) {
    let new = segmentCount
    segmentCount += 1
    segmentMemory.grow(atLeast: segmentCount)
    segments = segmentMemory.cells
    slotMemory.grow(atLeast: segmentCount << Int(Self.offsetBits))
    slots = slotMemory.cells
    let bits = UInt32(segments[old].depth) + 1
    precondition(bits < 26, "hashes that differ")
    segments[old].depth = UInt16(bits)
    segments[new] = Segment(depth: UInt16(bits))
    if bits > depth {
      var longer: [UInt32] = []
      longer.reserveCapacity(directory.count * 2)
      for segment in directory {
        longer.append(segment)
        longer.append(segment)
      }
      directory = longer
      depth = bits
    }
    // The old segment's directory entries are consecutive; the second half names the new segment.
    let names = 1 << Int(depth - bits)
    let first = Int(hash >> (Self.hashBits - bits) | 1) << Int(depth - bits)
    for name in first..<first + names { directory[name] = UInt32(new) }
  }
}
