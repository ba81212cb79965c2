import TimerWheel

/// Finds the index of an entity by the hash of its key. Takes about seven bytes per entity.
///
///     hash: | directory … | … | tag 5 | place in the segment 10 |
///
/// Extendible hashing: the first bits of a hash select one of many small segments through a
/// directory; within a segment, open addressing with linear probing. A full segment is split in
/// two, so the index grows in small steps and never moves all its entries at once. A slot holds an
/// index and five bits of the hash, so that few wrong keys are compared; a split asks for the
/// hashes again.
///
/// The hash (SipHash) has a random key per process, so that nobody can choose keys that collide.
///
/// Source: R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible Hashing" (ACM TODS
/// 1979).
struct KeyIndex: ~Copyable {
  typealias Hash = UInt32

  /// The most entries: an index must fit in a slot beside the tag.
  static let mostEntries = (1 << indexBits) - 2

  private static let hashBits: UInt32 = 32
  private static let placeBits: UInt32 = 10
  private static let slots = 1 << Int(placeBits)
  private static let placeMask = slots - 1
  private static let indexBits = 27
  private static let indexMask: UInt32 = 1 << UInt32(indexBits) - 1
  /// The most slots in use: keeps probing short, and leaves empty slots that end it.
  private static let mostUsed = slots * 7 / 8
  /// A full segment with fewer live entries than this is rebuilt, not split.
  private static let fewAlive = slots * 5 / 8

  private static let empty: UInt32 = 0
  /// A removed entry; probing continues past it.
  private static let removed = UInt32.max

  struct Segment: BitwiseCopyable {
    /// The number of slots that are not empty.
    var used: UInt16 = 0
    var alive: UInt16 = 0
    /// The number of leading hash bits that all its entries share.
    var depth: UInt16 = 0
  }

  /// The slots of all segments, one segment after the other.
  private var slotMemory = GrowingArray<UInt32>(capacity: slots)
  private var slots: Cells<UInt32>
  private var segmentMemory = GrowingArray<Segment>(capacity: 1)
  private var segments: Cells<Segment>
  private var segmentCount = 1
  /// The segments by the first `depth` bits of a hash.
  private var directory: [UInt32] = [0]
  private var depth: UInt32 = 0
  private(set) var count = 0

  init() {
    slots = slotMemory.cells
    segments = segmentMemory.cells
  }

  static func hash(_ key: Span<UInt8>) -> Hash {
    Hash(truncatingIfNeeded: SipHash.ofProcess(key))
  }

  @inline(__always)
  private func segment(_ hash: Hash) -> Int {
    // In 64 bits, because a shift by 32 must give 0.
    Int(directory[Int(UInt64(hash) &>> UInt64(Self.hashBits &- depth))])
  }

  @inline(__always)
  private static func tag(_ hash: Hash) -> UInt32 {
    (hash >> placeBits) << UInt32(indexBits)
  }

  @inline(__always)
  private static func place(_ hash: Hash) -> Int { Int(hash) & placeMask }

  /// O(1).
  @inline(__always)
  func find(hash: Hash, where matches: (UInt32) -> Bool) -> UInt32? {
    let start = segment(hash) << Int(Self.placeBits)
    let tag = Self.tag(hash)
    var place = Self.place(hash)
    while true {
      let slot = slots[start | place]
      if slot == Self.empty { return nil }
      if slot & ~Self.indexMask == tag, slot != Self.removed {
        let index = slot & Self.indexMask &- 1
        if matches(index) { return index }
      }
      place = (place &+ 1) & Self.placeMask
    }
  }

  /// Begins to fetch the slot that `find` reads first.
  func prefetch(_ hash: Hash) {
    slots.prefetch(segment(hash) << Int(Self.placeBits) | Self.place(hash))
  }

  /// O(1), amortized; a split asks for the hashes of a segment.
  ///
  /// - Parameter hashOf: returns the hash of an index that was inserted before.
  @inline(__always)
  mutating func insert(_ index: UInt32, hash: Hash, hashOf: (UInt32) -> Hash) {
    precondition(Int(index) < Self.mostEntries, "the index is full")
    var segment = segment(hash)
    while segments[segment].used >= Self.mostUsed {
      let all = makeRoom(in: segment, hash)
      for index in all {
        let hash = hashOf(index)
        place(index, hash, in: self.segment(hash))
      }
      segment = self.segment(hash)
    }
    place(index, hash, in: segment)
    count += 1
  }

  /// Removes an index, which must be present. O(1).
  mutating func remove(_ index: UInt32, hash: Hash) {
    let segment = segment(hash)
    let start = segment << Int(Self.placeBits)
    let entry = (index + 1) | Self.tag(hash)
    var place = Self.place(hash)
    while slots[start | place] != entry {
      precondition(slots[start | place] != Self.empty, "what is removed was there")
      place = (place &+ 1) & Self.placeMask
    }
    count -= 1
    segments[segment].alive -= 1
    guard slots[start | (place &+ 1) & Self.placeMask] == Self.empty else {
      slots[start | place] = Self.removed
      return
    }
    // An empty slot follows, so no probe has to pass this slot or the removed ones before it.
    repeat {
      slots[start | place] = Self.empty
      segments[segment].used -= 1
      place = (place &- 1) & Self.placeMask
    } while slots[start | place] == Self.removed
  }

  @inline(__always)
  private func place(_ index: UInt32, _ hash: Hash, in segment: Int) {
    let start = segment << Int(Self.placeBits)
    var place = Self.place(hash)
    while slots[start | place] != Self.empty, slots[start | place] != Self.removed {
      place = (place &+ 1) & Self.placeMask
    }
    if slots[start | place] == Self.empty { segments[segment].used &+= 1 }
    segments[segment].alive &+= 1
    slots[start | place] = (index &+ 1) | Self.tag(hash)
  }

  /// Splits a segment if enough of its entries are live. Then empties it and returns its entries,
  /// which the caller must place again.
  @inline(never)
  private mutating func makeRoom(in segment: Int, _ hash: Hash) -> [UInt32] {
    if segments[segment].alive >= Self.fewAlive { split(segment, hash) }
    let start = segment << Int(Self.placeBits)
    var all: [UInt32] = []
    all.reserveCapacity(Self.slots)
    for place in start..<start + Self.slots
    where slots[place] != Self.empty && slots[place] != Self.removed {
      all.append(slots[place] & Self.indexMask - 1)
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
    slotMemory.grow(atLeast: segmentCount << Int(Self.placeBits))
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
