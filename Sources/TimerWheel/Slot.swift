/// One slot of one level of the wheel.
///
/// Six bits of a deadline choose a slot on a level, so eleven levels cover all 64 bits. Level 0
/// slots are one tick wide, those of level k are 64ᵏ ticks.
struct Slot: Equatable {
  static let levels = 11
  static let bitsPerLevel: UInt64 = 6
  static let perLevel = 64
  static let count = levels * perLevel

  /// The level and the position in one number: 64 × level + position.
  let id: Int

  @inline(__always)
  init(id: Int) { self.id = id }

  @inline(__always)
  init(level: Int, containing tick: UInt64) {
    let digit = (tick &>> (UInt64(truncatingIfNeeded: level) &* Slot.bitsPerLevel)) & 63
    id = level &* Slot.perLevel &+ Int(truncatingIfNeeded: digit)
  }

  /// Creates the slot of `deadline` when the time is `elapsed`: on the level of the highest six-bit
  /// digit in which they differ. All higher digits are equal, so time reaches the slot before it
  /// reaches the next slot of the level above.
  @inline(__always)
  init(for deadline: UInt64, from elapsed: UInt64) {
    let highestBit = 63 &- ((deadline ^ elapsed) | 1).leadingZeroBitCount
    // Divides by six, for 0...63.
    let level = (highestBit &* 43) &>> 8
    self.init(level: level, containing: deadline)
  }

  @inline(__always)
  var level: Int { id &>> 6 }
  @inline(__always)
  var position: UInt64 { UInt64(truncatingIfNeeded: id & 63) }

  /// The number of low bits of a tick in which timers of one slot can differ.
  @inline(__always)
  var shift: UInt64 { UInt64(truncatingIfNeeded: level) &* Slot.bitsPerLevel }

  /// Returns the first tick of the slot, in the turn of its level that contains `elapsed`.
  func start(near elapsed: UInt64) -> UInt64 {
    let above = shift &+ Slot.bitsPerLevel
    let turn = above >= 64 ? 0 : (elapsed &>> above) &<< above
    return turn | position &<< shift
  }

  /// Returns the last tick of the slot, in the same turn.
  func lastTick(near elapsed: UInt64) -> UInt64 {
    start(near: elapsed) | ((1 &<< shift) &- 1)
  }

  /// Returns whether `tick` lies in the slot, in the same turn.
  func covers(_ tick: UInt64, near elapsed: UInt64) -> Bool {
    tick &>> shift == start(near: elapsed) &>> shift
  }
}
