/// Counters since the start or the last reset.
package struct EngineStatistics {
  package var decisions = Decisions()
  package var ownerGone: Int64 = 0
  package var events: Int64 = 0
  package var publications: Int64 = 0
  package var snapshots: Int64 = 0
  /// How late deadlines were noticed.
  package private(set) var lateness = DurationStatistics()

  package init() {}

  /// What is decided. Small, as each operation of a fleet has one.
  package struct Decisions: Equatable {
    package var accepted: Int64 = 0
    package var refused: Int64 = 0
    /// Repeated requests that had been accepted before.
    package var repeated: Int64 = 0
    package var refunded: Int64 = 0
    package var cancelled: Int64 = 0
    /// Limits whose sends were refused from then on, as too few codes were entered.
    package var blocked: Int64 = 0
    /// Starts that were refused because of a limit.
    package var limited: Int64 = 0

    static func += (sum: inout Decisions, other: Decisions) {
      sum.accepted += other.accepted
      sum.refused += other.refused
      sum.repeated += other.repeated
      sum.refunded += other.refunded
      sum.cancelled += other.cancelled
      sum.blocked += other.blocked
      sum.limited += other.limited
    }
  }

  mutating func countEnd(_ reason: Reason) {
    if reason == .ownerGone { ownerGone += 1 } else { decisions.cancelled += 1 }
  }

  mutating func record(late microseconds: Int64) { lateness.record(microseconds) }
}
