import TimerWheel

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
    /// Until the server's clock has gone on.
    case awaitsClock
    /// Until it is this host's turn to change a limit.
    case awaitsTurn
    /// Its limits are charged before it is decided again.
    case atLimits
    /// A change was sent that may have been made.
    case atStake
    /// The client's answer is certain, and only its limits are still to be changed.
    case confirmed
    /// Its reply is given, if it has one.
    case over
    /// As `over`, but the change may have been made.
    case unsure
  }

  let key: FleetKey
  let partition: Int
  let purpose: Purpose
  var state = State.underWay
  /// Fires at its deadline, or at the end of what it waits for.
  var timer: TimerWheel.Token?
  /// When the client receives an error instead of the reply, on the boot clock.
  var deadline: Int64
  /// The version that a server reported since the operation began. Inner nil: there was no record.
  var seen: FleetVersion??
  /// How often a change was not made and had to be decided again.
  var attempts = 0
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
  /// What was sent last.
  var change: FleetChange?

  init(_ key: FleetKey, partition: Int, _ purpose: Purpose, deadline: Int64) {
    self.key = key
    self.partition = partition
    self.purpose = purpose
    self.deadline = deadline
  }
}

extension FleetOperation {
  var parts: [FleetOperation] { several.isEmpty ? [self] : several }

  func take(_ outcome: Workbench.Outcome) {
    self.outcome = outcome
    for (part, answer) in zip(parts, outcome.answers) { part.answer = answer }
  }

  /// Writes the same record again.
  func confirmAgain(_ record: [UInt8]) { outcome.change = .record(record) }

  /// Notes that the change that was sent was not made.
  func wasNotMade() { state = isOver ? .over : .underWay }

  var isOver: Bool { state == .over || state == .unsure }
  var isAtStake: Bool { state == .atStake || state == .unsure }
  var isHeld: Bool { state == .awaitsClock || state == .awaitsTurn }
  /// Whether its end depends on an answer of the servers.
  var asks: Bool { state == .underWay || state == .awaitsClock || state == .atStake }

  /// Whether it changes an entity that hosts change in turns, for a client.
  var takes: Bool {
    guard key.kind.shared?.takesTurns == true else { return false }
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
