/// Which records are free: a bit for each, and summaries of 64 above 64, so that the next free one
/// is found in a few steps.
///
/// Records are handed out in the order of memory. A list of free records would hand them out in
/// the order in which they were given back: after many were cancelled in any order, each arming
/// would then wait for memory.
struct FreeRecords: ~Copyable {
  private(set) var count = 0

  /// Bits of records; of words of those that have any; and of words of these.
  private var bits = GrowingArray<UInt64>(capacity: 1)
  private var words = GrowingArray<UInt64>(capacity: 1)
  private var groups = GrowingArray<UInt64>(capacity: 1)
  /// The word that was looked at last.
  private var current = 0

  init() {
    bits.base.update(repeating: 0, count: bits.capacity)
    words.base.update(repeating: 0, count: words.capacity)
    groups.base.update(repeating: 0, count: groups.capacity)
  }

  var allocatedBytes: Int { bits.allocatedBytes + words.allocatedBytes + groups.allocatedBytes }

  @inline(__always)
  mutating func insert(_ index: UInt32) {
    let word = Int(truncatingIfNeeded: index &>> 6)
    let old = bits.base[word]
    bits.base[word] = old | 1 &<< UInt64(index & 63)
    count &+= 1
    if old == 0 { announce(word) }
  }

  /// Takes a free record; `count` must not be 0.
  @inline(__always)
  mutating func take() -> UInt32 {
    if bits.base[current] == 0 { findWord() }
    let rest = bits.base[current]
    let index = UInt32(truncatingIfNeeded: current &<< 6 | rest.trailingZeroBitCount)
    bits.base[current] = rest & (rest &- 1)
    count &-= 1
    if rest & (rest &- 1) == 0 { withdraw(current) }
    return index
  }

  private func announce(_ word: Int) {
    let group = word &>> 6
    if words.base[group] == 0 {
      groups.base[group &>> 6] |= 1 &<< UInt64(truncatingIfNeeded: group & 63)
    }
    words.base[group] |= 1 &<< UInt64(truncatingIfNeeded: word & 63)
  }

  private func withdraw(_ word: Int) {
    let group = word &>> 6
    words.base[group] &= ~(1 &<< UInt64(truncatingIfNeeded: word & 63))
    if words.base[group] == 0 {
      groups.base[group &>> 6] &= ~(1 &<< UInt64(truncatingIfNeeded: group & 63))
    }
  }

  /// Goes on where it was, or from the start. Only the topmost words are searched, a 262,144th of
  /// the records in number.
  private mutating func findWord() {
    var group = current &>> 6
    if words.base[group] == 0 {
      var top = 0
      while groups.base[top] == 0 { top += 1 }
      group = top &<< 6 | groups.base[top].trailingZeroBitCount
    }
    current = group &<< 6 | words.base[group].trailingZeroBitCount
  }

  /// Makes room for `records` records in all.
  mutating func grow(to records: Int) {
    Self.grow(&bits, to: (records + 63) / 64)
    Self.grow(&words, to: (bits.capacity + 63) / 64)
    Self.grow(&groups, to: (words.capacity + 63) / 64)
  }

  private static func grow(_ array: inout GrowingArray<UInt64>, to capacity: Int) {
    let old = array.capacity
    guard capacity > old else { return }
    array.grow(atLeast: capacity)
    (array.base + old).update(repeating: 0, count: array.capacity - old)
  }

  /// None is free.
  mutating func clear() {
    bits.shrink(to: 16)
    words.shrink(to: 1)
    groups.shrink(to: 1)
    bits.base.update(repeating: 0, count: bits.capacity)
    words.base.update(repeating: 0, count: words.capacity)
    groups.base.update(repeating: 0, count: groups.capacity)
    current = 0
    count = 0
  }
}
