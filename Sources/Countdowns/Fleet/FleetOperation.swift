import DequeModule

/// A command about a shared entity, or its due work, on its way to the servers and back.
final class FleetOperation {
  enum Purpose {
    case command(FleetCommand, for: ReplySlot)
    /// A part of a command about several entities.
    case action(FleetAction)
    /// Changes of one limit, made at once: see `parts`.
    case several
    /// A deadline of the entity has passed.
    case due
    /// A command waits for the record.
    case fetch(FleetFetch)
  }

  /// Where it is on its way. Where a queue has it as well, the queue leaves out what is over.
  enum State {
    /// To be decided, or a server is asked.
    case underWay
    /// Until it is this host's turn to change a limit.
    case awaitsTurn
    /// Its limits are charged before it is decided again.
    case atLimits
    /// The client's answer is certain, and only its limits are still to be changed.
    case confirmed
    /// Its reply is given, if it has one.
    case over
  }

  let key: FleetKey
  let partition: Int
  let purpose: Purpose
  var state = State.underWay
  var isOver: Bool { state == .over }
  /// When the client receives an error instead of the reply, on the boot clock.
  var deadline: Int64
  /// The version that a server reported since the operation began. Inner nil: there was no record.
  var seen: FleetVersion??
  /// How often a change was not made and had to be decided again.
  var attempts = 0
  /// Whether a change was sent that may have been made.
  var isAtStake = false
  private(set) var outcome = Workbench.Outcome()
  var answer = Workbench.Answer()
  /// What is done at once. Each part ends by itself.
  var several: [FleetOperation] = []
  /// What it is a part of.
  weak var whole: FleetOperation?
  /// Whether it has counted as a failure of the servers.
  var hasFailed = false
  /// The places in limits that were charged for it.
  var charged: [LimitCharge] = []
  var version: FleetVersion?
  /// The time at which the change was decided, on the server's clock.
  var decided: Int64?
  /// The number of this host whose lease the change needed last; nil if none was.
  var lease: UInt32?

  init(_ key: FleetKey, partition: Int, _ purpose: Purpose, deadline: Int64) {
    self.key = key
    self.partition = partition
    self.purpose = purpose
    self.deadline = deadline
  }

  var parts: [FleetOperation] { several.isEmpty ? [self] : several }

  func take(_ outcome: Workbench.Outcome) {
    self.outcome = outcome
    for (part, answer) in zip(parts, outcome.answers) { part.answer = answer }
  }

  /// Writes the same record again.
  func confirmAgain(_ record: [UInt8]) { outcome.change = .record(record) }

  /// Whether it changes a rate limit for a client.
  var takes: Bool {
    guard key.kind == .throttle else { return false }
    return switch purpose {
    case .several, .action: true
    case .command(let command, _):
      command.spec.flags.isDisjoint(with: [.readOnly, .decidedByFleet])
    case .due, .fetch: false
    }
  }

  var isDue: Bool { if case .due = purpose { true } else { false } }
  var isFetch: Bool { if case .fetch = purpose { true } else { false } }
  var command: FleetCommand? {
    if case .command(let command, _) = purpose { command } else { nil }
  }
  var action: FleetAction? { if case .action(let action) = purpose { action } else { nil } }
  var client: Client? { command?.client ?? action?.client ?? several.first?.client }
}

/// What is under way about one entity: one operation, while the others wait, and requests, also of
/// operations that have timed out.
struct FleetLane {
  var current: FleetOperation?
  var next: Deque<FleetOperation> = []
  var requests = 0
  /// The newest entry that the stream has brought about the entity meanwhile, and the partition's
  /// `loading` then.
  var newest: (number: Int64, loading: Int)?
}
