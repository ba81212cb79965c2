/// Which of many numbered things are free: a bit for each, and summaries of 64 above 64, so that
/// the next free one is found in a few steps.
///
/// They are handed out in the order of memory. A list of free ones would hand them out in the order
/// in which they were given back: after many timers were cancelled in any order, each arming would
/// then wait for memory.
package struct FreeIndices: ~Copyable {
  /// Bits of things, except those in `held`; of words that have any; and of words of those words.
  private var bits = GrowingArray<UInt64>(capacity: 1)
  private var words = GrowingArray<UInt64>(capacity: 1)
  private var groups = GrowingArray<UInt64>(capacity: 1)
  /// What is left of the word that things are taken from now; and the number of its first thing, or
  /// `none`.
  private var held: UInt64 = 0
  private var heldStart = none
  private static let none = UInt32.max
  /// How many there are, free or not.
  package private(set) var end = 0

  package init() {}

  var allocatedBytes: Int {
    bits.allocatedBytes + words.allocatedBytes + groups.allocatedBytes
  }

  /// Whether `takeHeld` can be called. One in 64 times it cannot, and `take` has to look further.
  @inline(__always)
  var isHolding: Bool { held != 0 }

  @inline(__always)
  mutating func takeHeld() -> UInt32 {
    let index = heldStart | UInt32(truncatingIfNeeded: held.trailingZeroBitCount)
    held &= held &- 1
    return index
  }

  /// Takes the next free one; nil when none is left.
  @inline(__always)
  package mutating func take() -> UInt32? {
    if !isHolding, !holdNextWord() { return nil }
    return takeHeld()
  }

  @inline(__always)
  package mutating func insert(_ index: UInt32) {
    let bit: UInt64 = 1 &<< UInt64(truncatingIfNeeded: index & 63)
    if index & ~63 == heldStart {
      held |= bit
      return
    }
    let word = Int(truncatingIfNeeded: index &>> 6)
    let old = bits.cells[word]
    bits.cells[word] = old | bit
    if old == 0 { announce(word) }
  }

  /// Takes that one, which must be free.
  package mutating func remove(_ index: UInt32) {
    let word = Int(index >> 6)
    let bit: UInt64 = 1 << UInt64(index & 63)
    if index & ~63 == heldStart, held & bit != 0 {
      held &= ~bit
      return
    }
    precondition(Int(index) < end && bits.cells[word] & bit != 0, "it is not free")
    bits.cells[word] &= ~bit
    if bits.cells[word] == 0 { withdraw(word) }
  }

  /// Calls `body` with each region of `size` that is free as a whole; `size` is a multiple of 64.
  package func forEachFreeRegion(of size: Int, _ body: (Range<Int>) -> Void) {
    for start in stride(from: 0, to: end - size + 1, by: size) {
      let regionWords = start / 64..<(start + size) / 64
      if regionWords.allSatisfy({ free(inWord: $0) == ~0 }) { body(start..<start + size) }
    }
  }

  /// Calls `body` with each that is taken, in order. O(end / 64), and O(1) for each.
  package func forEachTaken(_ body: (UInt32) -> Void) {
    for word in 0..<end / 64 {
      var taken = ~free(inWord: word)
      while taken != 0 {
        body(UInt32(truncatingIfNeeded: word &<< 6 | taken.trailingZeroBitCount))
        taken &= taken &- 1
      }
    }
  }

  private func free(inWord word: Int) -> UInt64 {
    word == Int(heldStart &>> 6) ? bits.cells[word] | held : bits.cells[word]
  }

  private mutating func announce(_ word: Int) {
    let group = word &>> 6
    if words.cells[group] == 0 {
      groups.cells[group &>> 6] |= 1 &<< UInt64(truncatingIfNeeded: group & 63)
    }
    words.cells[group] |= 1 &<< UInt64(truncatingIfNeeded: word & 63)
  }

  private mutating func withdraw(_ word: Int) {
    let group = word &>> 6
    words.cells[group] &= ~(1 &<< UInt64(truncatingIfNeeded: word & 63))
    if words.cells[group] == 0 {
      groups.cells[group &>> 6] &= ~(1 &<< UInt64(truncatingIfNeeded: group & 63))
    }
  }

  /// Continues where it was, or from the start. Only the topmost words are searched, a 262,144th of
  /// all in number. Returns false if nothing is free.
  @inline(never)
  mutating func holdNextWord() -> Bool {
    var group = heldStart == Self.none ? 0 : Int(heldStart &>> 12)
    if words.cells[group] == 0 {
      var top = 0
      while top < groups.capacity, groups.cells[top] == 0 { top += 1 }
      guard top < groups.capacity else { return false }
      group = top &<< 6 | groups.cells[top].trailingZeroBitCount
    }
    let word = group &<< 6 | words.cells[group].trailingZeroBitCount
    held = bits.cells[word]
    heldStart = UInt32(truncatingIfNeeded: word &<< 6)
    bits.cells[word] = 0
    withdraw(word)
    return true
  }

  /// Adds free ones behind those there are: `end` becomes `newEnd`, a multiple of 64.
  package mutating func extend(to newEnd: Int) {
    let first = end / 64
    end = newEnd
    bits.grow(atLeast: end / 64)
    words.grow(atLeast: (end / 64 + 63) / 64)
    groups.grow(atLeast: (words.capacity + 63) / 64)
    for word in first..<(end / 64) {
      bits.cells[word] = ~0
      announce(word)
    }
  }

  /// There are none any more.
  mutating func removeAll() {
    bits.startOver(1)
    words.startOver(1)
    groups.startOver(1)
    held = 0
    heldStart = Self.none
    end = 0
  }
}
