import Memory

/// The part of a timer that is found by index, wherever its entry is: 8 bytes. Its payload, another
/// 8 bytes, is stored separately, because cancelling does not need it.
struct Record {
  /// The generation of the timer's token; 0 while the record is free.
  var generation: UInt32
  /// The position of the timer's entry in `Chunks`.
  var position: UInt32
}

/// All records and payloads, in two blocks of memory.
struct Records: ~Copyable {
  /// The number of payloads in a huge page.
  private static let region = 1 << 18

  private var array = GrowingArray<Record>(capacity: 64)
  private var payloadArray = GrowingArray<UInt64>(capacity: 64)
  private(set) var all: Cells<Record>
  private(set) var payloads: Cells<UInt64>
  private var free = FreeIndices()
  /// The newest generation, which wraps after 2³² − 1 armings and skips 0. A stale token names
  /// another timer only if exactly that many armings later its record is armed again.
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

  /// Whether `add` has a free record at hand. One time in 64 it has none: see `findFree`.
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
  mutating func release(_ index: UInt32) {
    all[Int(index)].generation = 0
    free.insert(index)
  }

  /// Releases the memory of regions that hold no timer.
  func releaseUnusedMemory() {
    free.forEachFreeRegion(of: Records.region) {
      array.returnToSystem($0)
      payloadArray.returnToSystem($0)
    }
  }

  /// Starts over with little memory once no timer is left.
  mutating func startOver() {
    array.startOver(64)
    payloadArray.startOver(64)
    all = array.cells
    payloads = payloadArray.cells
    free.removeAll()
    free.extend(to: array.capacity)
  }

  /// Finds free records for the next calls of `add`; creates more if none is free.
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
