import DequeModule

/// What is to be done about an entity, on its way to the servers and back.
final class FleetOperation {
  enum Purpose {
    case command(FleetCommand, for: PendingReply)
    /// Time is to change it.
    case due
  }

  let key: FleetKey
  let partition: Int
  let purpose: Purpose
  /// When whoever waits for it receives an error instead, on the boot clock.
  let deadline: Int64
  /// The reply is given, or nobody waits for one.
  var isOver = false
  /// Of the record, where the servers had it since the operation began.
  var seen: FleetVersion??
  /// Changes that were overtaken by others.
  var attempts = 0
  /// A change is out that may be made.
  var isAtStake = false
  var request: UInt64?
  var outcome = Workbench.Outcome()
  var version: FleetVersion?

  init(_ key: FleetKey, partition: Int, _ purpose: Purpose, deadline: Int64) {
    self.key = key
    self.partition = partition
    self.purpose = purpose
    self.deadline = deadline
  }

  var isDue: Bool { if case .due = purpose { true } else { false } }
  var command: FleetCommand? {
    if case .command(let command, _) = purpose { command } else { nil }
  }
}

/// A reply that comes later, in its place among those of its session.
final class PendingReply {
  let session: Session
  /// The client wants none.
  let isDropped: Bool
  var bytes: [UInt8]?

  init(for session: Session) {
    self.session = session
    isDropped = session.replies.areDropped
  }
}

/// What operations wait for about one entity: one is under way, the others follow.
struct FleetLane {
  var current: FleetOperation
  var next: Deque<FleetOperation> = []
}
