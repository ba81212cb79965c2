/// What answers "now, later, or not?": rate limits, idempotency guards, gates and debounced calls.
/// Every call throws `CountdownClientError`.
extension CountdownClient {
  // MARK: Throttles

  /// May it be done now? `burst` at once, `count` more in each `period`; `accepted` says so, and if
  /// not, `retryAfter` when to ask again.
  ///
  /// - Parameters:
  ///   - cost: how much of it is used, 1 to `burst`.
  ///   - peek: answers alike, but uses nothing.
  @discardableResult
  public func throttle(
    _ key: String, burst: Int, count: Int, per period: Duration, cost: Int = 1, peek: Bool = false
  ) async throws -> ThrottleView {
    var command = CommandBuilder("THROTTLE", "TAKE", key)
    command.option("BURST", burst)
    command.option("RATE", "\(count)/\(period.wireText)")
    if cost != 1 { command.option("COST", cost) }
    command.flag("PEEK", peek)
    return try await view(command) { try ThrottleView($0) }
  }

  /// Gives back what was not needed; nil when nothing of the key is used.
  @discardableResult
  public func refundThrottle(
    _ key: String, _ cost: Int = 1, generation: Int? = nil
  ) async throws -> ThrottleView? {
    var command = CommandBuilder("THROTTLE", "REFUND", key, String(cost))
    command.option("GENERATION", generation)
    return try await viewIfAny(command) { try ThrottleView($0) }
  }

  /// How it stands; nil when nothing of the key is used.
  public func throttle(_ key: String) async throws -> ThrottleView? {
    try await viewIfAny(CommandBuilder("THROTTLE", "GET", key)) { try ThrottleView($0) }
  }

  /// A page of rate limits: see `countdowns(cursor:matching:owner:limit:)`.
  public func throttles(
    cursor: String = "0", matching: String? = nil, limit: Int? = nil
  ) async throws -> Page<ThrottleView> {
    try await page("THROTTLE", cursor: cursor, matching: matching, owner: nil, limit: limit) {
      try ThrottleView($0)
    }
  }

  // MARK: Onces

  /// Whether this is the first request for `ttl`. If `accepted`, do it and say `finishOnce`; if
  /// not, the view says how the first one went.
  ///
  /// - Parameter owner: `.connection`: if this connection ends before `finishOnce`, others may try.
  @discardableResult
  public func beginOnce(
    _ key: String, ttl: Duration, owner: Owner = .none
  ) async throws -> OnceView {
    var command = CommandBuilder("ONCE", "BEGIN", key)
    command.option("TTL", ttl)
    command.owner(owner)
    return try await view(command) { try OnceView($0) }
  }

  /// It was done, with that result; `accepted` is false if it had been before.
  @discardableResult
  public func finishOnce(
    _ key: String, result: [UInt8], generation: Int? = nil
  ) async throws -> OnceView {
    var command = CommandBuilder("ONCE", "DONE", key)
    command.argument(result)
    command.option("GENERATION", generation)
    return try await view(command) { try OnceView($0) }
  }

  /// It did not come about, and may be tried again; false if there was nothing.
  @discardableResult
  public func cancelOnce(_ key: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("ONCE", "CANCEL", key)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// How far it is; nil if it is not known.
  public func once(_ key: String) async throws -> OnceView? {
    try await viewIfAny(CommandBuilder("ONCE", "GET", key)) { try OnceView($0) }
  }

  /// A page of what is done once: see `countdowns(cursor:matching:owner:limit:)`.
  public func onces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<OnceView> {
    try await page("ONCE", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try OnceView($0)
    }
  }

  // MARK: Gates

  /// Whether an action may run now. If not `accepted`, it is kept, the newest alone, and run (event
  /// `run`) when the session opens.
  ///
  /// - Parameters:
  ///   - isRequired: if not, it always may.
  ///   - ttl: how long it is kept; as configured unless given.
  @discardableResult
  public func checkGate(
    _ session: String, action: String, payload: [UInt8]? = nil, isRequired: Bool = true,
    ttl: Duration? = nil, owner: Owner = .none
  ) async throws -> GateView {
    var command = CommandBuilder("GATE", "CHECK", session, action)
    command.option("PAYLOAD", payload)
    if !isRequired { command.option("REQUIRED", "off") }
    command.option("TTL", ttl)
    command.owner(owner)
    return try await view(command) { try GateView($0) }
  }

  /// Opens a session, for good unless `ttl` is given, and runs what waits for it.
  @discardableResult
  public func openGate(_ session: String, ttl: Duration? = nil) async throws -> GateView {
    var command = CommandBuilder("GATE", "OPEN", session)
    command.option("TTL", ttl)
    return try await view(command) { try GateView($0) }
  }

  /// Drops the action that waits; false if none does.
  @discardableResult
  public func cancelGate(_ session: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("GATE", "CANCEL", session)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// Closes a session; false if it is not open.
  @discardableResult
  public func closeGate(_ session: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("GATE", "CLOSE", session)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// How it stands; nil if it is closed and nothing waits.
  public func gate(_ session: String) async throws -> GateView? {
    try await viewIfAny(CommandBuilder("GATE", "GET", session)) { try GateView($0) }
  }

  /// A page of sessions: see `countdowns(cursor:matching:owner:limit:)`.
  public func gates(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<GateView> {
    try await page("GATE", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try GateView($0)
    }
  }

  // MARK: Debounces

  /// One of many calls: subscribers get one event `fired` once they have been quiet for `quiet`.
  ///
  /// - Parameters:
  ///   - leading: the first call fires at once.
  ///   - maximumWait: it fires no later than this after the first call that it stands for.
  @discardableResult
  public func debounce(
    _ key: String, quiet: Duration, payload: [UInt8]? = nil, leading: Bool = false,
    maximumWait: Duration? = nil, owner: Owner = .none
  ) async throws -> DebounceView {
    var command = CommandBuilder("DEBOUNCE", "CALL", key, quiet.wireText)
    command.option("PAYLOAD", payload)
    command.flag("LEADING", leading)
    command.option("MAXWAIT", maximumWait)
    command.owner(owner)
    return try await view(command) { try DebounceView($0) }
  }

  /// Forgets what was called; false if nothing was.
  @discardableResult
  public func cancelDebounce(_ key: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("DEBOUNCE", "CANCEL", key)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// Fires what waits, at once; false if nothing does.
  @discardableResult
  public func flushDebounce(_ key: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("DEBOUNCE", "FLUSH", key)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// What waits for quiet; nil if it is quiet.
  public func debounce(_ key: String) async throws -> DebounceView? {
    try await viewIfAny(CommandBuilder("DEBOUNCE", "GET", key)) { try DebounceView($0) }
  }

  /// A page of what waits for quiet: see `countdowns(cursor:matching:owner:limit:)`.
  public func debounces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<DebounceView> {
    try await page("DEBOUNCE", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try DebounceView($0)
    }
  }
}
