/// What the wheel keeps of a timer wherever its deadline is kept, found by index: 8 bytes, and
/// apart from them, since cancelling has no need of it, a payload of 8.
struct Record {
  /// Which arming this is; 0 while the record is free.
  var generation: UInt32
  /// Where its entry is.
  var position: UInt32
}

/// All records, in two blocks of memory.
struct Records: ~Copyable {
  /// How many payloads share a huge page.
  private static let region = 1 << 18

  private var array = GrowingArray<Record>(capacity: 64)
  private var payloadArray = GrowingArray<UInt64>(capacity: 64)
  private(set) var all: Cells<Record>
  private(set) var payloads: Cells<UInt64>
  private var free = FreeIndices()
  /// Never 0. It comes round after 2³² − 1 armings; a token would have to be that old, and its
  /// record armed at that very moment, to be mistaken for another's.
  private var lastGeneration: UInt32 = 0

  init() {
    all = array.cells
    payloads = payloadArray.cells
    free.extend(to: array.capacity)
  }

  var allocatedBytes: Int {
    array.allocatedBytes + payloadArray.allocatedBytes + free.allocatedBytes
  }

  @inline(__always)
  func holds(_ index: UInt32, _ generation: UInt32) -> Bool {
    Int(index) < free.end && all[Int(index)].generation == generation && generation != 0
  }

  /// Whether the next `add` has a record at hand. One in 64 times it has not: see `findFree`.
  @inline(__always)
  var hasFree: Bool { free.isHolding }

  @inline(__always)
  mutating func add(_ payload: UInt64, at position: UInt32) -> TimerWheel.Token {
    lastGeneration &+= 1
    if lastGeneration == 0 { lastGeneration = 1 }
    let index = free.takeHeld()
    payloads[Int(index)] = payload
    all[Int(index)] = Record(generation: lastGeneration, position: position)
    return TimerWheel.Token(index: index, generation: lastGeneration)
  }

  @inline(__always)
  mutating func giveBack(_ index: UInt32) {
    all[Int(index)].generation = 0
    free.insert(index)
  }

  /// Gives back the memory of regions that hold no timer.
  func releaseUnusedMemory() {
    free.forEachFreeRegion(of: Records.region) {
      array.giveBack($0)
      payloadArray.giveBack($0)
    }
  }

  /// No timer is left: starts over with little memory.
  mutating func startOver() {
    array.startOver(64)
    payloadArray.startOver(64)
    all = array.cells
    payloads = payloadArray.cells
    free.removeAll()
    free.extend(to: array.capacity)
  }

  /// Finds records for the next calls of `add`, and makes more if none is free.
  @inline(never)
  mutating func findFree() {
    if free.holdNextWord() { return }
    precondition(array.capacity < 1 << 32, "a wheel holds at most 2³² timers")
    array.grow(atLeast: array.capacity + 1)
    payloadArray.grow(atLeast: array.capacity)
    all = array.cells
    payloads = payloadArray.cells
    free.extend(to: array.capacity)
    _ = free.holdNextWord()
  }
}
