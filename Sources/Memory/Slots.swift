/// The slots of a table: small numbers, each free or taken. Slots are taken in the order of
/// memory.
public struct Slots: ~Copyable {
  @usableFromInline var free = FreeIndices()
  /// One more than the highest slot taken since the start, or since `startOver`.
  @usableFromInline var highest = 0

  @inlinable public var end: Int { highest }

  public init() {}

  /// Takes a free slot. O(1).
  @inlinable @inline(__always)
  public mutating func take() -> UInt32 {
    let slot = free.take() ?? takeNew()
    highest = max(highest, Int(slot) + 1)
    return slot
  }

  /// Returns a free slot without taking it. O(1).
  package mutating func peek() -> UInt32 {
    let slot = free.take() ?? takeNew()
    free.insert(slot)
    return slot
  }

  /// Takes a given slot, which must be free. O(1) when slots rise.
  package mutating func take(_ slot: UInt32) {
    if Int(slot) >= free.end { free.extend(to: (Int(slot) / 64 + 1) * 64) }
    free.remove(slot)
    highest = max(highest, Int(slot) + 1)
  }

  @inline(never)
  @usableFromInline
  mutating func takeNew() -> UInt32 {
    free.extend(to: free.end + 64)
    return free.take()!
  }

  /// Frees a slot. O(1).
  @inlinable @inline(__always)
  public mutating func release(_ slot: UInt32) { free.insert(slot) }

  /// Calls `body` with each taken slot. O(end / 64), plus O(1) for each.
  package func forEachTaken(_ body: (UInt32) -> Void) { free.forEachTaken(body) }

  /// Calls `body` with each region of `size` slots, a multiple of 64, that are all free.
  package func forEachFreeRegion(of size: Int, _ body: (Range<Int>) -> Void) {
    free.forEachFreeRegion(of: size, body)
  }

  /// Resets `end` once no slot is taken, so that cursors start over.
  package mutating func startOver() { highest = 0 }
}
