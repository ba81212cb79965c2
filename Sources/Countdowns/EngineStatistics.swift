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
  /// Limits whose sends were refused from then on, as too few codes were entered.
  package var blocked: Int64 = 0
  /// Starts that were refused because of a limit.
  package var limited: Int64 = 0
  package var events: Int64 = 0
  package var publications: Int64 = 0
  package var snapshots: Int64 = 0
  /// How late deadlines were noticed.
  package private(set) var lateness = DurationStatistics()

  package init() {}

  /// What another engine decided. Small, as each operation of a fleet has one.
  struct Decisions: Equatable {
    var accepted: Int64 = 0
    var refused: Int64 = 0
    var repeated: Int64 = 0
    var refunded: Int64 = 0
    var cancelled: Int64 = 0
    var blocked: Int64 = 0
    var limited: Int64 = 0
  }

  /// Returns the decisions counted since the last call.
  mutating func takeDecisions() -> Decisions {
    defer {
      (accepted, refused, repeated, refunded, cancelled) = (0, 0, 0, 0, 0)
      (blocked, limited) = (0, 0)
    }
    return Decisions(
      accepted: accepted, refused: refused, repeated: repeated, refunded: refunded,
      cancelled: cancelled, blocked: blocked, limited: limited)
  }

  mutating func add(_ other: Decisions) {
    accepted += other.accepted
    refused += other.refused
    refunded += other.refunded
    cancelled += other.cancelled
    repeated += other.repeated
    blocked += other.blocked
    limited += other.limited
  }

  mutating func record(late microseconds: Int64) {
    expired += 1
    lateness.record(microseconds)
  }
}
