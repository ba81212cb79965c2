/// A set of free indices: a bit for each index, and two levels of summary bits, each for 64 bits
/// below, so that the next free index is found in a few steps.
///
/// Indices are taken in the order of memory. A free list would return them in the order in which
/// they were freed: after many timers were cancelled in any order, each arming would wait for
/// memory.
public struct FreeIndices: ~Copyable {
  /// A bit for each free index, except those in `held`.
  @usableFromInline var bits = GrowingArray<UInt64>(capacity: 1)
  /// A bit for each word of `bits` that is not 0; `groups` has one for each word of `words`.
  @usableFromInline var words = GrowingArray<UInt64>(capacity: 1)
  @usableFromInline var groups = GrowingArray<UInt64>(capacity: 1)
  /// The rest of the word that indices are taken from.
  @usableFromInline var held: UInt64 = 0
  /// The first index of that word, or `none`.
  @usableFromInline var heldStart = none
  private static let none = UInt32.max
  /// The number of indices, free or taken.
  public private(set) var end = 0

  public init() {}

  package var allocatedBytes: Int {
    bits.allocatedBytes + words.allocatedBytes + groups.allocatedBytes
  }

  /// Whether `takeHeld` can be called. One time in 64 it cannot, and `take` must search.
  @inlinable @inline(__always)
  public var isHolding: Bool { held != 0 }

  @inlinable @inline(__always)
  public mutating func takeHeld() -> UInt32 {
    let index = heldStart | UInt32(truncatingIfNeeded: held.trailingZeroBitCount)
    held &= held &- 1
    return index
  }

  /// Takes the next free index; nil when none is left.
  @inlinable @inline(__always)
  public mutating func take() -> UInt32? {
    if !isHolding, !holdNextWord() { return nil }
    return takeHeld()
  }

  @inlinable @inline(__always)
  public mutating func insert(_ index: UInt32) {
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

  /// Takes a given index, which must be free.
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

  /// Calls `body` with each region of `size` indices, a multiple of 64, that are all free.
  package func forEachFreeRegion(of size: Int, _ body: (Range<Int>) -> Void) {
    for start in stride(from: 0, to: end - size + 1, by: size) {
      let regionWords = start / 64..<(start + size) / 64
      if regionWords.allSatisfy({ free(inWord: $0) == ~0 }) { body(start..<start + size) }
    }
  }

  /// Calls `body` with each taken index, in order. O(end / 64), plus O(1) for each.
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

  @usableFromInline
  mutating func announce(_ word: Int) {
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

  /// Holds the next word with a free index: in the same group if there is one, else the first word.
  /// Searches only `groups`, one word for 262,144 indices. Returns false if nothing is free.
  @inline(never)
  public mutating func holdNextWord() -> Bool {
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

  /// Appends free indices: `end` becomes `newEnd`, a multiple of 64.
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

  /// Removes all indices.
  package mutating func removeAll() {
    bits.startOver(1)
    words.startOver(1)
    groups.startOver(1)
    held = 0
    heldStart = Self.none
    end = 0
  }
}
