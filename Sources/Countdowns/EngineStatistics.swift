/// Counters since the start or the last reset.
package struct EngineStatistics {
  package var accepted: Int64 = 0
  package var refused: Int64 = 0
  /// Repeated requests that had been accepted before.
  package var repeated: Int64 = 0
  package var refunded: Int64 = 0
  package var expired: Int64 = 0
  package var cancelled: Int64 = 0
  package var ownerGone: Int64 = 0
  package var events: Int64 = 0
  package var publications: Int64 = 0
  package var snapshots: Int64 = 0
  /// How late deadlines were noticed.
  package private(set) var lateness = DurationStatistics()

  package init() {}

  /// Adds the decisions that another engine counted, but not their lateness.
  mutating func add(_ other: EngineStatistics) {
    accepted += other.accepted
    refused += other.refused
    refunded += other.refunded
    cancelled += other.cancelled
    repeated += other.repeated
  }

  mutating func record(late microseconds: Int64) {
    expired += 1
    lateness.record(microseconds)
  }
}
