import Countdowns
import SeededRandom

/// What the engine and the models have in common: the time, and open connections and scopes.
package struct World {
  package var random: SeededGenerator
  package internal(set) var now: Moment
  /// The open connections, besides `World.operator`, which is always open.
  package internal(set) var connections: [UInt64] = []
  package internal(set) var step = 0
  /// Whether timers of the wall clock repeat.
  package internal(set) var repeatsOnWall = true
  /// Whether the wall clock was set back while timers repeated on it: the order of those that are
  /// due together is then unknown.
  package internal(set) var isOrderUnknown = false
  /// Who sends the command at hand.
  private(set) var asker = World.operator
  package internal(set) var limits = EngineSettings.Limits()
  /// The open scopes, each after the one that it is below.
  private(set) var scopes: [Scope] = []

  private var lastGeneration: Int64 = 0
  /// The last changes of time and connections, to explain a failure.
  private(set) var faults: [String] = []

  static let `operator` = Client(connection: 1, uid: 1_000)
  static let users: [UInt32] = [1_000, 1_001]

  init(seed: UInt64) {
    random = SeededGenerator(seed: seed)
    now = Moment(
      boot: Instant(microseconds: 5_000_000),
      wall: Instant(microseconds: 1_790_000_000_000_000))
  }

  package func isAlive(_ owner: Owner) -> Bool {
    switch owner {
    case .none: true
    case .connection(let id): id == Self.operator.connection || connections.contains(id)
    case .scope(let name): scopes.contains { $0.name == name }
    case .page: true
    }
  }

  // MARK: Scopes

  struct Scope {
    let name: OwnerName
    /// A connection, or the scope that it is below.
    let owner: Owner
    /// The end of the lease in microseconds of the boot clock; nil without a lease.
    var leaseEnd: Int64?
    /// How long the lease is each time, in microseconds; 0 without one.
    var ttl: Int64 = 0
  }

  /// Prolongs leases that were running when the machine was suspended.
  mutating func prolongLeases(from suspend: Instant) {
    for index in scopes.indices {
      guard let end = scopes[index].leaseEnd, end > suspend.microseconds else { continue }
      scopes[index].leaseEnd = max(
        end, now.boot.microseconds + min(scopes[index].ttl, 10_000_000))
    }
  }

  mutating func open(_ scope: Scope) { scopes.append(scope) }

  /// Ends a scope, and those whose lease or owner has ended, with all scopes below them. Returns
  /// whether any has ended.
  mutating func endScopes(_ closed: OwnerName? = nil) -> Bool {
    let before = scopes
    scopes = []
    for scope in before {
      let isOver = scope.leaseEnd.map { $0 <= now.boot.microseconds } ?? false
      if scope.name != closed, !isOver, isAlive(scope.owner) { scopes.append(scope) }
    }
    return scopes.count < before.count
  }

  /// Returns the generation that the engine must give next.
  package mutating func newGeneration() -> Generation {
    lastGeneration += 1
    return Generation(lastGeneration)
  }

  mutating func note(_ fault: String) {
    if faults.count >= 40 { faults.removeFirst(20) }
    faults.append("step \(step), at \(now.text): \(fault)")
  }

  // MARK: Chance

  package mutating func chance(oneIn n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }
  package mutating func pick<T>(_ choices: [T]) -> T { choices.randomElement(using: &random)! }
  package mutating func milliseconds(_ choices: [Int64]) -> Interval {
    .milliseconds(pick(choices))
  }

  /// Returns no owner, or an open connection or scope.
  package mutating func owner() -> Owner {
    if chance(oneIn: 2) { return .none }
    if !scopes.isEmpty, chance(oneIn: 2) { return .scope(pick(scopes).name) }
    return .connection(pick(connections + [Self.operator.connection]))
  }

  /// Returns mostly nil, else one of more tokens than a key remembers.
  package mutating func token() -> [UInt8]? {
    chance(oneIn: 3) ? [UInt8.random(in: 0...UInt8(Tokens.maximum) * 2, using: &random)] : nil
  }

  /// Chooses limits that a history with `keyCount` keys reaches.
  mutating func limit(_ limits: inout EngineSettings.Limits, keyCount: Int) {
    limits.entities = Int.random(in: 1...keyCount, using: &random)
    limits.entitiesPerUser = Int.random(in: 1...keyCount, using: &random)
    self.limits = limits
  }

  /// Returns the operator, as one of the users.
  package mutating func client() -> Client {
    asker = Client(connection: Self.operator.connection, uid: pick(Self.users))
    return asker
  }

  /// Returns what is wrong if a command exceeded the limits; `before` has the counts before it.
  func problem(
    withLimitsOf client: Client, before: (all: Int, ofUser: Int), _ engine: Engine
  ) -> String? {
    let (all, ofUser) = (engine.entityCount, engine.entityCount(of: client.uid))
    guard
      all > max(limits.entities, before.all) || ofUser > max(limits.entitiesPerUser, before.ofUser)
    else { return nil }
    return "there are \(all) entities, \(ofUser) of the user, in spite of the limits"
  }

  /// Returns whether a refusal names a limit that `added` entities would exceed.
  func isFull(_ error: EngineError, for client: Client, adding added: Int, _ engine: Engine)
    -> Bool
  {
    switch error {
    case .limit("max-entities", limits.entities):
      engine.entityCount + added > limits.entities
    case .limit("max-entities-per-uid", limits.entitiesPerUser):
      engine.entityCount(of: client.uid) + added > limits.entitiesPerUser
    default: false
    }
  }

  /// Returns mostly nil, else `current` or an older generation.
  package mutating func generation(near current: Generation?) -> Generation? {
    switch Int.random(in: 0..<10, using: &random) {
    case 0..<7: nil
    case 7..<9: current
    default: Generation((current?.value ?? 1) - 1)
    }
  }
}

extension Moment {
  /// The milliseconds on both clocks.
  var text: String { "\(milliseconds(boot)) ms (wall \(milliseconds(wall)) ms)" }

  private func milliseconds(_ instant: Instant) -> String {
    let rest = "\(1_000 + instant.microseconds % 1_000)".dropFirst()
    return "\(instant.microseconds / 1_000).\(rest)"
  }

  /// Returns a moment of the boot clock as `deadline_unix_ms`: one that has come is rounded down.
  package func deadlineUnixMS(_ microseconds: Int64) -> Int64 {
    deadlineUnixMS(wall: wall.microseconds + microseconds - boot.microseconds)
  }

  /// Returns a moment of the wall clock as `deadline_unix_ms`.
  package func deadlineUnixMS(wall moment: Int64) -> Int64 {
    moment > wall.microseconds ? (moment + 999) / 1_000 : moment / 1_000
  }

  func microseconds(on clock: TimerClock) -> Int64 {
    switch clock {
    case .boot: boot.microseconds
    case .wall: wall.microseconds
    }
  }
}

/// A token that a key remembers, for the models.
struct SentToken {
  /// Whether it was given to RESEND.
  var isResend = false
  let token: [UInt8]
  let generation: Generation
  /// In microseconds.
  let at: Int64

  /// Returns until when a key that is ready is retained for its tokens.
  static func end(_ tokens: [SentToken]) -> Int64 {
    tokens.last.map { $0.at + Tokens.retention.microseconds } ?? 0
  }
}
