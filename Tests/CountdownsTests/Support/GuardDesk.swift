import Countdowns
import Simulation

/// Commands of guards.
extension Desk {
  // MARK: Throttles

  @discardableResult
  func take(
    _ key: String, _ burst: Int64, _ count: Int64, per period: Int64, cost: UInt32 = 1,
    peek: Bool = false
  ) throws -> (isAccepted: Bool, view: ThrottleView) {
    let rate = Throttle.Rate(burst: burst, count: count, period: .milliseconds(period))!
    return try with(key) {
      try engine.takeThrottle($0, rate, cost: cost, isPeek: peek, by: client(1), at: now)
    }
  }

  @discardableResult
  func refund(
    throttle key: String, _ cost: UInt32 = 1, _ generation: Int64? = nil
  ) throws -> ThrottleView? {
    try with(key) {
      try engine.refundThrottle(
        $0, cost: cost, generation: generation.map(Generation.init), at: now)?.view
    }
  }

  func throttle(_ key: String) -> ThrottleView? { with(key) { engine.throttle($0, at: now) } }

  // MARK: Onces

  @discardableResult
  func begin(
    _ key: String, ttl: Int64 = 60_000, lease: Int64? = nil, about text: String? = nil,
    owner: Owner = .none
  ) throws -> (isAccepted: Bool, view: OnceView) {
    var request = OnceRequest(ttl: .milliseconds(ttl))
    request.lease = lease.map { .milliseconds($0) }
    request.fingerprint = text.map { Fingerprint(of: $0.utf8.span) }
    request.owner = owner
    let (refusal, view) = try with(key) {
      try engine.beginOnce($0, request, by: client(1), at: now)
    }
    return (refusal == nil, view)
  }

  @discardableResult
  func extend(
    _ key: String, _ generation: Int64, lease: Int64? = nil
  ) throws -> (isAccepted: Bool, view: OnceView) {
    try with(key) {
      try engine.extendOnce(
        $0, lease: lease.map { .milliseconds($0) }, generation: Generation(generation), at: now)
    }
  }

  @discardableResult
  func done(
    _ key: String, _ result: String, _ generation: Int64? = nil
  ) throws -> (isAccepted: Bool, view: OnceView) {
    try with(key) {
      try engine.finishOnce(
        $0, Array(result.utf8), generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func cancel(once key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.cancelOnce($0, generation: generation.map(Generation.init), at: now)
    }
  }

  func once(_ key: String) -> OnceView? { with(key) { engine.once($0, at: now) } }

  // MARK: Gates

  @discardableResult
  func check(
    _ session: String, _ action: String, payload: String? = nil, required: Bool = true,
    ttl: Int64 = 60_000, owner: Owner = .none
  ) throws -> (isAccepted: Bool, view: GateView) {
    var check = GateCheck(
      Gate.Action(name: Array(action.utf8), payload: payload.map { Array($0.utf8) }),
      ttl: .milliseconds(ttl))
    check.isRequired = required
    check.owner = owner
    return try with(session) { try engine.checkGate($0, check, by: client(1), at: now) }
  }

  @discardableResult
  func open(gate session: String, ttl: Int64? = nil) throws -> GateView {
    try with(session) {
      try engine.openGate($0, for: ttl.map { .milliseconds($0) }, by: client(1), at: now)
    }
  }

  /// Returns the reason of a refusal; nil if the connection has the action.
  func take(
    gate session: String, by connection: UInt64, _ generation: Int64? = nil
  ) throws -> Reason? {
    try with(session) {
      try engine.takeGate(
        $0, generation: generation.map(Generation.init), by: client(connection), at: now)
    }.refusal
  }

  func done(
    gate session: String, by connection: UInt64, _ generation: Int64? = nil
  ) throws -> Bool {
    try with(session) {
      try engine.finishGate(
        $0, generation: generation.map(Generation.init), by: client(connection), at: now)
    }
  }

  @discardableResult
  func cancel(gate session: String, _ generation: Int64? = nil) throws -> Bool {
    try with(session) {
      try engine.cancelGate($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func close(gate session: String, _ generation: Int64? = nil) throws -> Bool {
    try with(session) {
      try engine.closeGate($0, generation: generation.map(Generation.init), at: now)
    }
  }

  func gate(_ session: String) -> GateView? { with(session) { engine.gate($0, at: now) } }

  // MARK: Debounces

  @discardableResult
  func call(
    _ key: String, quiet: Int64 = 1_000, payload: String? = nil,
    edges: Debounce.Edges = .trailing, longest: Int64? = nil, spacing: Int64? = nil,
    owner: Owner = .none
  ) throws -> DebounceView {
    let rule = Debounce.Rule(
      quiet: .milliseconds(quiet), maximumWait: longest.map { .milliseconds($0) },
      edges: edges, spacing: spacing.map { .milliseconds($0) })!
    return try with(key) {
      try engine.callDebounce(
        $0, rule, payload: payload.map { Array($0.utf8) }, owner: owner, by: client(1), at: now)
    }
  }

  @discardableResult
  func cancel(debounce key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.cancelDebounce($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func flush(_ key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.flushDebounce($0, generation: generation.map(Generation.init), at: now)
    }
  }

  func debounce(_ key: String) -> DebounceView? { with(key) { engine.debounce($0, at: now) } }

  // MARK: Events

  /// Returns the words of a line about a guard that follow the event's name.
  static func words(_ view: any GuardView, of event: SentEvent) -> [String] {
    func text(_ bytes: [UInt8]?) -> [String] {
      bytes.map { [String(decoding: $0, as: UTF8.self)] } ?? []
    }
    switch view {
    case let view as ThrottleView: return [view.state.rawValue, "\(view.remaining)"]
    case let view as OnceView: return [view.state.rawValue] + text(view.result)
    case let view as GateView: return [view.state.rawValue] + text(view.action) + text(view.payload)
    case let view as DebounceView:
      return [view.state.rawValue, "\(view.calls)"] + text(view.payload)
    default: return []
    }
  }
}
