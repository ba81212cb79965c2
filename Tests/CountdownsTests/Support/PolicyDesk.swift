import Countdowns
import Simulation
import Testing

/// Commands of countdowns with a policy.
extension Desk {
  @discardableResult
  func start(
    _ key: String, policy: SendPolicy, fire: Bool = false, owner: Owner = .none,
    token: String? = nil, title: String? = nil
  ) throws -> (decision: StartDecision, view: CountdownView) {
    var start = CountdownStart(
      Countdown.Plan(count: 60, every: .seconds(1), firesAtOnce: fire)!)
    start.policy = policy
    start.owner = owner
    start.token = token.map { Array($0.utf8) }
    start.title = title.map { Array($0.utf8) }
    return try with(key) { try engine.startCountdown($0, start, by: client(1), at: now) }
  }

  /// Returns the decision and the wait in milliseconds: `accepted 60000`, `refused window 123`.
  func send(_ key: String, policy: SendPolicy) throws -> String {
    line(try start(key, policy: policy))
  }

  func line(_ answer: (decision: StartDecision, view: CountdownView)) -> String {
    let word = answer.decision.isAccepted ? "accepted" : "refused"
    let reason = answer.decision.reason.map { " \($0.text)" } ?? ""
    return "\(word)\(reason) \(answer.view.retryAfterMS)"
  }

  @discardableResult
  func refund(
    _ key: String, _ generation: Generation
  ) throws -> (isFirst: Bool, view: CountdownView) {
    let (refund, view) = try with(key) {
      try engine.refundCountdown($0, generation: generation, at: now)
    }
    return (refund == .accepted, view)
  }

  @discardableResult
  func attempt(
    _ key: String, _ generation: Generation? = nil
  ) throws -> (attempt: SendRecord.Attempt, view: CountdownView) {
    try with(key) {
      try engine.attemptCountdown($0, generation: generation, by: client(1), at: now)
    }
  }

  @discardableResult
  func attemptAny(_ key: String) throws -> (attempt: SendRecord.Attempt, view: CountdownView) {
    try with(key) {
      try engine.attemptCountdown($0, generation: nil, atAny: true, by: client(1), at: now)
    }
  }

  @discardableResult
  func pass(
    _ key: String, _ generation: Generation? = nil
  ) throws -> (pass: SendRecord.Pass, view: CountdownView) {
    try with(key) { try engine.passCountdown($0, generation: generation, at: now) }
  }
}

extension SendPolicy {
  /// Returns a policy; durations are in milliseconds.
  static func test(
    count: UInt32? = nil, every: Int64 = 1_000, ladder: [Int64] = [],
    windows: [(limit: Int, milliseconds: Int64)] = [], channels: [String] = [],
    validity: Int64? = nil, attempts: UInt32? = nil, lockout: [Int64] = [],
    guesses: (limit: Int, milliseconds: Int64)? = nil,
    refunds: (limit: Int, milliseconds: Int64)? = nil, onResend: OnResend = .keep
  ) -> SendPolicy {
    var rules = Rules()
    rules.count = count
    rules.every = .milliseconds(every)
    rules.ladder = ladder.map { .milliseconds($0) }
    rules.windows = windows.map { Window(limit: $0.limit, length: .milliseconds($0.milliseconds)) }
    rules.channels = channels
    rules.validity = validity.map { .milliseconds($0) }
    rules.attempts = attempts
    rules.lockout = lockout.map { .milliseconds($0) }
    rules.guesses = guesses.map {
      Window(limit: $0.limit, length: .milliseconds($0.milliseconds))
    }
    rules.refunds = refunds.map {
      Window(limit: $0.limit, length: .milliseconds($0.milliseconds))
    }
    rules.onResend = onResend
    do {
      return try SendPolicy(name: "test", rules)
    } catch {
      preconditionFailure("\(error.problems)")
    }
  }
}
