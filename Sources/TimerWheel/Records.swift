/// What the wheel keeps of a timer wherever its deadline is kept: 16 bytes, found by index.
struct Record {
  var payload: UInt64
  /// Which arming this is; 0 while the record is free.
  var generation: UInt32
  /// Where its entry is; while the record is free, the next free one.
  var position: UInt32
}

/// All records in one block of memory. Free ones form a list.
struct Records: ~Copyable {
  /// The index that means "none"; so there can be 2³² − 1 timers.
  static let none = UInt32.max

  private(set) var base: UnsafeMutablePointer<Record>
  private var capacity: Int
  private var used = 0
  private var firstFree = Records.none
  /// Never 0. It comes round after 2³² − 1 armings; a token would have to be that old, and its
  /// record armed at that very moment, to be mistaken for another's.
  private var lastGeneration: UInt32 = 0

  init() {
    capacity = 64
    base = allocateMemory(capacity)
  }

  deinit { freeMemory(base) }

  var allocatedBytes: Int { capacity * MemoryLayout<Record>.stride }

  @inline(__always)
  func holds(_ index: UInt32, _ generation: UInt32) -> Bool {
    Int(index) < used && base[Int(index)].generation == generation && generation != 0
  }

  /// A record with a generation of its own; its position is the caller's to fill in.
  @inline(__always)
  mutating func take(payload: UInt64) -> (index: UInt32, generation: UInt32) {
    lastGeneration &+= 1
    if lastGeneration == 0 { lastGeneration = 1 }
    let index: UInt32
    if firstFree != Records.none {
      index = firstFree
      firstFree = base[Int(index)].position
    } else {
      if used == capacity { grow() }
      index = UInt32(truncatingIfNeeded: used)
      used &+= 1
    }
    base[Int(index)].payload = payload
    base[Int(index)].generation = lastGeneration
    return (index, lastGeneration)
  }

  @inline(__always)
  mutating func giveBack(_ index: UInt32) {
    base[Int(index)].generation = 0
    base[Int(index)].position = firstFree
    firstFree = index
  }

  /// Forgets all records, which must be free, and gives their memory back.
  mutating func reset() {
    used = 0
    firstFree = Records.none
    guard capacity > 1_024 else { return }
    freeMemory(base)
    capacity = 64
    base = allocateMemory(capacity)
  }

  @inline(never)
  private mutating func grow() {
    precondition(used < Int(Records.none), "a wheel holds at most 2³² − 1 timers")
    capacity *= 2
    base = growMemory(base, to: capacity)
  }
}
