/// What the wheel keeps of one timer: 40 bytes, linked into its slot's list by index.
struct Record {
  var deadline: UInt64
  var payload: UInt64
  var next: UInt32
  var previous: UInt32
  /// Odd while the timer is armed, even while the record is free; so a token tells its own timer
  /// from the record's next one.
  var generation: UInt32
  var slot: UInt16
}

/// All records in one block of memory, addressed by index. Free records form a list of their own.
struct RecordSlab: ~Copyable {
  /// The index that means "no record"; so there can be 2³² − 1 timers.
  static let none = UInt32.max

  private var base: UnsafeMutablePointer<Record>
  private var capacity: Int
  private(set) var used = 0
  private var firstFree = RecordSlab.none

  init() {
    capacity = 64
    base = .allocate(capacity: capacity)
  }

  deinit { base.deallocate() }

  subscript(index: UInt32) -> Record {
    unsafeAddress {
      assert(Int(index) < used)
      return UnsafePointer(base + Int(index))
    }
    unsafeMutableAddress {
      assert(Int(index) < used)
      return base + Int(index)
    }
  }

  /// Whether `index` is the armed timer that `generation` was given to.
  func holds(_ index: UInt32, generation: UInt32) -> Bool {
    Int(index) < used && generation & 1 == 1 && base[Int(index)].generation == generation
  }

  mutating func allocate(deadline: UInt64, payload: UInt64) -> UInt32 {
    let index: UInt32
    if firstFree != RecordSlab.none {
      index = firstFree
      firstFree = base[Int(index)].next
    } else {
      if used == capacity { grow() }
      index = UInt32(used)
      (base + used).initialize(
        to: Record(deadline: 0, payload: 0, next: 0, previous: 0, generation: 0, slot: 0))
      used += 1
    }
    self[index].deadline = deadline
    self[index].payload = payload
    self[index].generation &+= 1
    return index
  }

  mutating func free(_ index: UInt32) {
    self[index].generation &+= 1
    self[index].next = firstFree
    firstFree = index
  }

  private mutating func grow() {
    precondition(used < Int(RecordSlab.none), "a wheel holds at most 2³² − 1 timers")
    let bigger = UnsafeMutablePointer<Record>.allocate(capacity: capacity * 2)
    bigger.moveInitialize(from: base, count: used)
    base.deallocate()
    base = bigger
    capacity *= 2
  }
}
