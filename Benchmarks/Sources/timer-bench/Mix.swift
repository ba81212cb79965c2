/// The random number generator of all measured programs, in every language.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators"
/// (OOPSLA 2014).
struct SplitMix64 {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z &>> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z &>> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z &>> 31)
  }

  /// Returns a number below `bound`, which must fit in 32 bits, so that 64-bit arithmetic suffices.
  mutating func next(below bound: UInt64) -> UInt32 {
    UInt32(((next() &>> 32) &* bound) &>> 32)
  }
}

/// The random input of the workloads, generated before any time is measured.
struct Mix {
  /// An hour in milliseconds, over which the deadlines are spread.
  static let hour: UInt64 = 3_600_000

  /// The delay of each timer, from 1 to `span`. A larger `span` divides the same hour more finely.
  let delays: [UInt32]
  /// A random permutation of all timers.
  let order: [UInt32]
  /// `2 * count` random timers, with repetitions.
  let picks: [UInt32]
  /// A checksum that is equal if two programs, in any language, do the same work.
  let checksum: UInt64

  init(count: Int, seed: UInt64, span: UInt64 = Mix.hour) {
    var random = SplitMix64(seed: seed)
    var sum: UInt64 = 0xcbf2_9ce4_8422_2325
    func note(_ value: UInt32) { sum = (sum ^ UInt64(value)) &* 0x100_0000_01b3 }

    delays = (0..<count).map { _ in
      let high = random.next() &>> 32
      note(UInt32(1 + ((high &* Mix.hour) &>> 32)))
      return UInt32(1 + ((high &* span) &>> 32))
    }
    var order = (0..<count).map { UInt32($0) }
    for i in stride(from: count - 1, to: 0, by: -1) {
      let j = random.next(below: UInt64(i + 1))
      note(j)
      order.swapAt(i, Int(j))
    }
    self.order = order
    picks = (0..<2 * count).map { _ in
      let pick = random.next(below: UInt64(count))
      note(pick)
      return pick
    }
    checksum = sum
  }
}
