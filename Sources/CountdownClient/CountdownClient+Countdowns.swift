/// Verify-code countdowns. Every call throws `CountdownClientError`: `.server` with code `ERR` for
/// arguments out of range, `NOTFOUND`, `STALE` or `LIMIT`.
extension CountdownClient {
  /// Asks "may I send a code now?", and starts the countdown if so.
  ///
  /// While it counts or is paused nothing changes: `accepted` is false and `retryAfter` says how
  /// long to wait.
  ///
  /// - Parameters:
  ///   - key: 1 to 512 bytes.
  ///   - policy: one of the daemon's configuration, which says how long it counts, how often and
  ///     over what may be sent, and how long a code is good; then without `count` and `every`.
  ///   - count: steps, 1 to 2147483647; as configured (60) unless given.
  ///   - every: the length of a step, at least 1 ms, rounded up to a millisecond; as configured
  ///     (1 s) unless given.
  ///   - fire: counts the first step at once, as `Timer.fire()` does.
  ///   - title: the text while counting: `%d` stands for the steps left, `%m:%02s` for minutes and
  ///     seconds; at most 1024 bytes.
  ///   - readyTitle: the text when ready, at most 1024 bytes.
  ///   - owner: ends with the connection of this client, if so.
  ///   - meta: at most 4096 bytes of yours, kept and shown in views.
  ///   - token: 1 to 64 bytes that make a repetition of this call safe: it sends nothing, and
  ///     `reason` is `duplicate` (do not send a code then). The newest 16 of a key are known.
  public func startCountdown(
    _ key: String, policy: String? = nil, count: Int? = nil, every: Duration? = nil,
    fire: Bool = false,
    title: String? = nil, readyTitle: String? = nil, owner: Owner = .none,
    meta: [UInt8]? = nil, token: String? = nil
  ) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "START", key)
    command.option("POLICY", policy)
    command.option("COUNT", count)
    command.option("EVERY", every)
    command.flag("FIRE", fire)
    command.option("TITLE", title)
    command.option("READYTITLE", readyTitle)
    command.owner(owner)
    command.option("META", meta)
    command.option("TOKEN", token)
    return try await view(command) { try CountdownView($0) }
  }

  /// Starts it again with what it was started with last; `NOTFOUND` once that is forgotten.
  ///
  /// - Parameter token: as for `startCountdown`.
  public func resendCountdown(_ key: String, token: String? = nil) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "RESEND", key)
    command.option("TOKEN", token)
    return try await view(command) { try CountdownView($0) }
  }

  /// How it stands; nil when there is none.
  public func countdown(_ key: String) async throws -> CountdownView? {
    try await viewIfAny(CommandBuilder("COUNTDOWN", "GET", key)) { try CountdownView($0) }
  }

  /// The provider failed: gives that send back, with its cooldown and its place in the windows.
  /// Again it is harmless (`reason` duplicate); `STALE` once something newer was sent.
  @discardableResult
  public func refundCountdown(_ key: String, generation: Int) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "REFUND", key)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// Asks "may this code be tried?", and counts the attempt; check the code only if `accepted`.
  ///
  /// - Parameter generation: of the send whose code it is; the newest unless given.
  public func attemptCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "ATTEMPT", key)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// Marks the code as used: no more attempts. The send still counts towards the limits.
  ///
  /// Again it is harmless (`reason` duplicate). Not `accepted`, with `reason` expired, if the code
  /// is not good any more.
  ///
  /// - Parameter generation: of the send whose code it is; the newest unless given.
  @discardableResult
  public func passCountdown(_ key: String, generation: Int? = nil) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "PASS", key)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// Ends it; a policy remembers what was sent. Returns whether there was one.
  @discardableResult
  public func cancelCountdown(_ key: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("COUNTDOWN", "CANCEL", key)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// Keeps the remaining time; harmless when paused already.
  @discardableResult
  public func pauseCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "PAUSE", key)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// Goes on with the remaining time; harmless when it counts already.
  @discardableResult
  public func resumeCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "RESUME", key)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// Makes it end after `remaining` from now, 0 to 3650 days; zero makes it ready at once.
  @discardableResult
  public func retimeCountdown(
    _ key: String, remaining: Duration, generation: Int? = nil
  ) async throws -> CountdownView {
    var command = CommandBuilder("COUNTDOWN", "RETIME", key, remaining.wireText)
    command.option("GENERATION", generation)
    return try await view(command) { try CountdownView($0) }
  }

  /// A page of countdowns, from `cursor` on: `0`, then that of the page before until `isLast`.
  ///
  /// - Parameters:
  ///   - matching: a glob that keys have to match.
  ///   - owner: `none`, `connection` (this one) or `connection:ID`.
  ///   - limit: 1 to 1000, default 100.
  public func countdowns(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<CountdownView> {
    try await page("COUNTDOWN", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try CountdownView($0)
    }
  }
}
