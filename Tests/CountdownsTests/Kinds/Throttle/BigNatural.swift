/// A natural number of any size, with only the operations that an exact model needs. It never
/// divides, so it never rounds.
struct BigNatural: Comparable {
  /// The limbs, lowest 32 bits first, without zeros at the end.
  private var limbs: [UInt32] = []

  init(_ value: UInt64) {
    limbs = [UInt32(truncatingIfNeeded: value), UInt32(value >> 32)]
    trim()
  }

  private mutating func trim() {
    while limbs.last == 0 { limbs.removeLast() }
  }

  static func + (a: BigNatural, b: BigNatural) -> BigNatural {
    var sum = a
    var carry: UInt64 = 0
    for place in 0..<max(a.limbs.count, b.limbs.count) {
      if place == sum.limbs.count { sum.limbs.append(0) }
      let other = place < b.limbs.count ? b.limbs[place] : 0
      let next = UInt64(sum.limbs[place]) + UInt64(other) + carry
      sum.limbs[place] = UInt32(truncatingIfNeeded: next)
      carry = next >> 32
    }
    if carry > 0 { sum.limbs.append(UInt32(carry)) }
    return sum
  }

  /// - Precondition: `b` is at most `a`.
  static func - (a: BigNatural, b: BigNatural) -> BigNatural {
    precondition(b <= a)
    var difference = a
    var borrow: Int64 = 0
    for place in 0..<a.limbs.count {
      let other = place < b.limbs.count ? b.limbs[place] : 0
      let next = Int64(a.limbs[place]) - Int64(other) - borrow
      difference.limbs[place] = UInt32(truncatingIfNeeded: next)
      borrow = next < 0 ? 1 : 0
    }
    difference.trim()
    return difference
  }

  static func * (a: BigNatural, b: UInt64) -> BigNatural {
    func times(_ factor: UInt32, shiftedBy shift: Int) -> BigNatural {
      var product = BigNatural(0)
      product.limbs = Array(repeating: 0, count: shift)
      var carry: UInt64 = 0
      for limb in a.limbs {
        let next = UInt64(limb) * UInt64(factor) + carry
        product.limbs.append(UInt32(truncatingIfNeeded: next))
        carry = next >> 32
      }
      if carry > 0 { product.limbs.append(UInt32(carry)) }
      product.trim()
      return product
    }
    let low = times(UInt32(truncatingIfNeeded: b), shiftedBy: 0)
    return b >> 32 == 0 ? low : low + times(UInt32(b >> 32), shiftedBy: 1)
  }

  static func < (a: BigNatural, b: BigNatural) -> Bool {
    if a.limbs.count != b.limbs.count { return a.limbs.count < b.limbs.count }
    for place in a.limbs.indices.reversed() where a.limbs[place] != b.limbs[place] {
      return a.limbs[place] < b.limbs[place]
    }
    return false
  }
}
