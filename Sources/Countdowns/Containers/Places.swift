import TimerWheel

/// The places of a table: small numbers, each free or taken. Places are taken in the order of
/// memory.
struct Places: ~Copyable {
  private var free = FreeIndices()
  /// One more than the highest place taken since the start, or since `startOver`.
  private(set) var end = 0

  /// Takes a free place. O(1).
  @inline(__always)
  mutating func take() -> UInt32 {
    let place = free.take() ?? takeNew()
    end = max(end, Int(place) + 1)
    return place
  }

  /// Returns a free place without taking it. O(1).
  mutating func peek() -> UInt32 {
    let place = free.take() ?? takeNew()
    free.insert(place)
    return place
  }

  /// Takes a given place, which must be free. O(1) when places rise.
  mutating func take(_ place: UInt32) {
    if Int(place) >= free.end { free.extend(to: (Int(place) / 64 + 1) * 64) }
    free.remove(place)
    end = max(end, Int(place) + 1)
  }

  @inline(never)
  private mutating func takeNew() -> UInt32 {
    free.extend(to: free.end + 64)
    return free.take()!
  }

  /// Frees a place. O(1).
  @inline(__always)
  mutating func giveBack(_ place: UInt32) { free.insert(place) }

  /// Calls `body` with each taken place. O(end / 64), plus O(1) for each.
  func forEachTaken(_ body: (UInt32) -> Void) { free.forEachTaken(body) }

  /// Calls `body` with each region of `size` places, a multiple of 64, that are all free.
  func forEachFreeRegion(of size: Int, _ body: (Range<Int>) -> Void) {
    free.forEachFreeRegion(of: size, body)
  }

  /// Resets `end` once no place is taken, so that cursors start over.
  mutating func startOver() { end = 0 }
}
