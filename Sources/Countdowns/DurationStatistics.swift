import Histogram

/// Statistics of repeated durations, in microseconds.
package struct DurationStatistics {
  /// The durations, to 2 significant digits. Anything above an hour counts as an hour.
  package private(set) var histogram = Histogram<UInt64>(
    lowestDiscernibleValue: 1, highestTrackableValue: Self.longest,
    numberOfSignificantValueDigits: .two)
  /// The longest duration, exact and without an upper bound.
  package private(set) var maximum: UInt64 = 0
  package private(set) var total: UInt64 = 0

  private static let longest: UInt64 = 3_600_000_000

  package init() {}

  /// Records a duration. A negative one counts as 0.
  package mutating func record(_ microseconds: Int64) {
    let duration = UInt64(max(microseconds, 0))
    maximum = max(maximum, duration)
    total &+= duration
    _ = histogram.record(min(duration, Self.longest))
  }

  /// Returns how many durations are at most each bound. `bounds` are in microseconds and rise.
  func counts(upTo bounds: [UInt64]) -> [Int64] {
    var counts = [Int64](repeating: 0, count: bounds.count)
    for found in histogram.recordedValues() {
      // The longest duration that the histogram counts in the same place.
      let longest = histogram.highestEquivalentForValue(found.value)
      guard let first = bounds.firstIndex(where: { longest <= $0 }) else { break }
      counts[first] += Int64(found.count)
    }
    for index in counts.indices.dropFirst() { counts[index] += counts[index - 1] }
    return counts
  }
}
