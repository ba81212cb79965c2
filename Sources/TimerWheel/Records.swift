/// What the wheel keeps of a timer wherever its deadline is kept: 16 bytes, found by index.
struct Record {
  var payload: UInt64
  /// Which arming this is; 0 while the record is free.
  var generation: UInt32
  /// Where its entry is.
  var position: UInt32
}

/// All records in one block of memory.
struct Records: ~Copyable {
  /// The index that means "none"; so there can be 2³² − 1 timers.
  static let none = UInt32.max

  private var array = GrowingArray<Record>(capacity: 64)
  private(set) var base: UnsafeMutablePointer<Record>
  private var used = 0
  private var free = FreeRecords()
  /// Never 0. It comes round after 2³² − 1 armings; a token would have to be that old, and its
  /// record armed at that very moment, to be mistaken for another's.
  private var lastGeneration: UInt32 = 0

  init() {
    base = array.base
    free.grow(to: array.capacity)
  }

  var allocatedBytes: Int { array.allocatedBytes + free.allocatedBytes }

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
    if free.count > 0 {
      index = free.take()
    } else {
      if used == array.capacity { grow() }
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
    free.insert(index)
  }

  /// All records are free: gives their memory back, if it is more than a megabyte.
  mutating func reset() {
    guard array.capacity > 1 << 16 else { return }
    used = 0
    free.clear()
    array.shrink(to: 1_024)
    base = array.base
  }

  @inline(never)
  private mutating func grow() {
    precondition(used < Int(Records.none), "a wheel holds at most 2³² − 1 timers")
    array.grow(atLeast: used + 1)
    free.grow(to: array.capacity)
    base = array.base
  }
}
