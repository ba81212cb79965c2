import Histogram

/// Counters since the start, or since they were reset.
package struct EngineStatistics {
  package var accepted: Int64 = 0
  package var refused: Int64 = 0
  package var refunded: Int64 = 0
  package var expired: Int64 = 0
  package var cancelled: Int64 = 0
  package var ownerGone: Int64 = 0
  package var events: Int64 = 0
  package var publications: Int64 = 0
  package var snapshots: Int64 = 0

  /// How late what fell due was noticed, in microseconds; to 2 digits, more than an hour as an
  /// hour.
  package private(set) var lateness = Histogram<UInt64>(
    lowestDiscernibleValue: 1, highestTrackableValue: Self.latest,
    numberOfSignificantValueDigits: .two)

  private static let latest: UInt64 = 3_600_000_000
  /// The latest that anything was noticed, in microseconds: exactly, without a bound.
  package private(set) var maximumLateness: UInt64 = 0

  package init() {}

  mutating func record(late microseconds: Int64) {
    expired += 1
    let late = UInt64(max(microseconds, 0))
    maximumLateness = max(maximumLateness, late)
    _ = lateness.record(min(late, Self.latest))
  }
}
