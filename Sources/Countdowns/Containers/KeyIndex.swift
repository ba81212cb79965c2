import TimerWheel

/// Finds the index of an entity by the hash of its key, in about seven bytes for each.
///
///     hash: | directory … | … | tag 5 | place in the segment 10 |
///
/// Extendible hashing: the first bits of a hash name, through a directory, one of many small
/// segments; in it, open addressing with linear probing. A full segment is split in two, so the
/// index grows by small steps and never moves all of its entries at once. A slot holds an index and
/// five bits of the hash, so that few keys are looked at which are not the one; what a split needs
/// of hashes is computed again.
///
/// The hash has a key of each process (SipHash), so that nobody can choose keys that collide.
///
/// Source: R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible Hashing" (ACM TODS
/// 1979).
struct KeyIndex: ~Copyable {
  /// How many entries it can hold, at most: what fits into a slot beside the tag.
  static let mostEntries = (1 << indexBits) - 2

  private static let placeBits: UInt64 = 10
  private static let slots = 1 << Int(placeBits)
  private static let placeMask = slots - 1
  private static let indexBits = 27
  private static let indexMask: UInt32 = 1 << UInt32(indexBits) - 1
  /// So that probing stays short, and an empty slot ends it.
  private static let mostUsed = slots * 7 / 8
  /// With fewer than this left alive, a segment is full of what was removed.
  private static let fewAlive = slots * 5 / 8

  private static let empty: UInt32 = 0
  /// Was removed; probing continues past it.
  private static let removed = UInt32.max

  struct Segment: BitwiseCopyable {
    /// Slots that are not empty.
    var used: UInt16 = 0
    var alive: UInt16 = 0
    /// How many bits of the hash all its entries have in common.
    var depth: UInt8 = 0
  }

  /// Of each segment, its slots in a row.
  private var memory = GrowingArray<UInt32>(capacity: slots)
  private var slots: Cells<UInt32>
  private var segments = [Segment()]
  /// By the first `depth` bits of a hash.
  private var directory: [UInt32] = [0]
  private var depth: UInt64 = 0
  private(set) var count = 0

  init() { slots = memory.cells }

  static func hash(_ key: Span<UInt8>) -> UInt64 { SipHash.ofProcess(key) }

  private func segment(_ hash: UInt64) -> Int {
    // A shift by 64 gives 0, as it should.
    Int(directory[Int(hash >> (64 - depth))])
  }

  private static func entry(_ index: UInt32, _ hash: UInt64) -> UInt32 {
    (index + 1) | UInt32(truncatingIfNeeded: hash >> placeBits) << UInt32(indexBits)
  }

  /// O(1).
  @inline(__always)
  func find(hash: UInt64, where matches: (UInt32) -> Bool) -> UInt32? {
    let start = segment(hash) << Int(Self.placeBits)
    let tag = UInt32(truncatingIfNeeded: hash >> Self.placeBits) << UInt32(Self.indexBits)
    var place = Int(truncatingIfNeeded: hash) & Self.placeMask
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

  /// O(1), amortized; a split looks at the keys of a segment.
  ///
  /// - Parameter hashes: of what was inserted before, for up to a segment of it at a time.
  mutating func insert(_ index: UInt32, hash: UInt64, hashes: ([UInt32]) -> [UInt64]) {
    precondition(Int(index) < Self.mostEntries, "the index is full")
    var segment = segment(hash)
    while segments[segment].used >= Self.mostUsed {
      if segments[segment].alive < Self.fewAlive {
        refill(segment, hashes)
      } else {
        split(segment, hash, hashes)
      }
      segment = self.segment(hash)
    }
    place(index, hash, in: segment)
    count += 1
  }

  /// `index` must be there. O(1).
  mutating func remove(_ index: UInt32, hash: UInt64) {
    let segment = segment(hash)
    let start = segment << Int(Self.placeBits)
    let entry = Self.entry(index, hash)
    var place = Int(truncatingIfNeeded: hash) & Self.placeMask
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
    // Nothing follows it, so no probe has to pass it, nor what was removed before it.
    repeat {
      slots[start | place] = Self.empty
      segments[segment].used -= 1
      place = (place &- 1) & Self.placeMask
    } while slots[start | place] == Self.removed
  }

  private mutating func place(_ index: UInt32, _ hash: UInt64, in segment: Int) {
    let start = segment << Int(Self.placeBits)
    var place = Int(truncatingIfNeeded: hash) & Self.placeMask
    while slots[start | place] != Self.empty, slots[start | place] != Self.removed {
      place = (place &+ 1) & Self.placeMask
    }
    if slots[start | place] == Self.empty { segments[segment].used += 1 }
    segments[segment].alive += 1
    slots[start | place] = Self.entry(index, hash)
  }

  /// Takes out all that is in a segment.
  private mutating func takeAll(_ segment: Int) -> [UInt32] {
    let start = segment << Int(Self.placeBits)
    var all: [UInt32] = []
    all.reserveCapacity(Self.slots)
    for place in 0..<Self.slots
    where slots[start | place] != Self.empty && slots[start | place] != Self.removed {
      all.append(slots[start | place] & Self.indexMask - 1)
    }
    slots.fill(start..<start + Self.slots, with: Self.empty)
    segments[segment].used = 0
    segments[segment].alive = 0
    return all
  }

  private mutating func refill(_ segment: Int, _ hashes: ([UInt32]) -> [UInt64]) {
    let all = takeAll(segment)
    for (index, hash) in zip(all, hashes(all)) { place(index, hash, in: segment) }
  }

  private mutating func split(_ old: Int, _ hash: UInt64, _ hashes: ([UInt32]) -> [UInt64]) {
    let new = segments.count
    let bits = UInt64(segments[old].depth) + 1
    precondition(bits < 48, "hashes that differ")
    segments[old].depth = UInt8(bits)
    segments.append(Segment(depth: UInt8(bits)))
    memory.grow(atLeast: segments.count << Int(Self.placeBits))
    slots = memory.cells
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
    // Of the names of the old segment, which follow each other, the second half names the new one.
    let names = 1 << Int(depth - bits)
    let first = Int(hash >> (64 - bits) | 1) << Int(depth - bits)
    for name in first..<first + names { directory[name] = UInt32(new) }
    let all = takeAll(old)
    for (index, hash) in zip(all, hashes(all)) {
      // The bit that the old segment's entries do not have in common.
      place(index, hash, in: hash >> (64 - bits) & 1 == 0 ? old : new)
    }
  }
}
