import DequeModule

extension Deque {
  /// Returns the index of the first element for which a condition does not hold. It holds for all
  /// elements before it and for none after it. O(log count).
  func firstIndexAfter(_ holds: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if holds(self[middle]) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
