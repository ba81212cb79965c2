import Histogram

/// How long something took each time, in microseconds.
package struct DurationStatistics {
  /// To 2 digits; more than an hour as an hour.
  package private(set) var histogram = Histogram<UInt64>(
    lowestDiscernibleValue: 1, highestTrackableValue: Self.longest,
    numberOfSignificantValueDigits: .two)
  /// Exactly, without a bound.
  package private(set) var maximum: UInt64 = 0
  package private(set) var total: UInt64 = 0

  private static let longest: UInt64 = 3_600_000_000

  package init() {}

  /// Less than nothing counts as nothing.
  package mutating func record(_ microseconds: Int64) {
    let duration = UInt64(max(microseconds, 0))
    maximum = max(maximum, duration)
    total &+= duration
    _ = histogram.record(min(duration, Self.longest))
  }

  /// How many took no longer than each of these, which rise, in microseconds.
  func counts(upTo bounds: [UInt64]) -> [Int64] {
    var counts = [Int64](repeating: 0, count: bounds.count)
    for found in histogram.recordedValues() {
      // Of those that share a place in the histogram, the longest.
      let longest = histogram.highestEquivalentForValue(found.value)
      guard let first = bounds.firstIndex(where: { longest <= $0 }) else { break }
      counts[first] += Int64(found.count)
    }
    for index in counts.indices.dropFirst() { counts[index] += counts[index - 1] }
    return counts
  }
}
