/// One slot of one level of the wheel.
///
/// Six bits of a deadline choose a slot on a level, so eleven levels cover all 64 bits. Level 0
/// slots are one tick wide, those of level k are 64ᵏ ticks.
struct Slot: Equatable {
  static let levels = 11
  static let bitsPerLevel: UInt64 = 6
  static let perLevel = 64
  static let count = levels * perLevel

  /// Level and position in one: the slots in the order of their tables.
  let id: Int

  @inline(__always)
  init(id: Int) { self.id = id }

  @inline(__always)
  init(level: Int, containing tick: UInt64) {
    let digit = (tick &>> (UInt64(truncatingIfNeeded: level) &* Slot.bitsPerLevel)) & 63
    id = level &* Slot.perLevel &+ Int(truncatingIfNeeded: digit)
  }

  /// Where `deadline` belongs when the time is `elapsed`: on the level of the highest six-bit
  /// digit in which they differ. Every higher digit is the same, so time will get to the slot
  /// before it gets to the next one of the level above.
  @inline(__always)
  init(for deadline: UInt64, from elapsed: UInt64) {
    let highestBit = 63 &- ((deadline ^ elapsed) | 1).leadingZeroBitCount
    // A division by six, for 0...63.
    let level = (highestBit &* 43) &>> 8
    self.init(level: level, containing: deadline)
  }

  @inline(__always)
  var level: Int { id &>> 6 }
  @inline(__always)
  var position: UInt64 { UInt64(truncatingIfNeeded: id & 63) }

  /// How many bits of a tick tell apart what is in one slot.
  @inline(__always)
  var shift: UInt64 { UInt64(truncatingIfNeeded: level) &* Slot.bitsPerLevel }

  /// The first tick of the slot, in the turn of its level that `elapsed` is in.
  func start(near elapsed: UInt64) -> UInt64 {
    let above = shift &+ Slot.bitsPerLevel
    let turn = above >= 64 ? 0 : (elapsed &>> above) &<< above
    return turn | position &<< shift
  }

  /// The last tick of the slot, likewise.
  func lastTick(near elapsed: UInt64) -> UInt64 {
    start(near: elapsed) | ((1 &<< shift) &- 1)
  }

  /// Whether `tick` lies in the slot, in the turn of its level that `elapsed` is in.
  func covers(_ tick: UInt64, near elapsed: UInt64) -> Bool {
    tick &>> shift == start(near: elapsed) &>> shift
  }
}
