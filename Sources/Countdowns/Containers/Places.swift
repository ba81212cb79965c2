import TimerWheel

/// The places of a table: small numbers, each of which is free, or taken by what is there, or held
/// though nothing is there: what was there is still stored under that number.
///
/// They are handed out in the order of memory.
struct Places: ~Copyable {
  private var free = FreeIndices()
  /// One more than the highest that was taken since it began.
  private(set) var end = 0
  /// How many are held.
  private(set) var held = 0

  /// Takes one that is free. O(1).
  @inline(__always)
  mutating func take() -> UInt32 {
    let place = free.take() ?? takeNew()
    end = max(end, Int(place) + 1)
    return place
  }

  /// Takes that one, which must be free. O(1) when places rise.
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

  /// What was there has gone. O(1).
  ///
  /// - Parameter isHeld: the place stays taken until it is released.
  @inline(__always)
  mutating func giveBack(_ place: UInt32, isHeld: Bool) {
    if isHeld { held += 1 } else { free.insert(place) }
  }

  /// One that is held is free from now on. O(1).
  mutating func release(_ place: UInt32) {
    precondition(held > 0, "no place is held")
    held -= 1
    free.insert(place)
  }

  /// None is taken or held: cursors start over.
  mutating func startOver() { end = 0 }
}
