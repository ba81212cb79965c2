/// Plain timers. Every call throws `CountdownClientError`.
extension CountdownClient {
  /// Arms a timer for `delay` from now; one of that name is replaced.
  ///
  /// - Parameters:
  ///   - key: 1 to 512 bytes.
  ///   - delay: 0 to 3650 days, rounded up to a millisecond.
  ///   - every: fires again and again, in phase; at least 1 ms.
  ///   - payload: at most 4096 bytes that come back with each `fired`.
  ///   - owner: ends with the connection of this client, if so.
  ///   - late: `fire`, `skip` or `coalesce`: what becomes of periods that were missed.
  ///   - clock: `boot` or `wall`.
  @discardableResult
  public func setTimer(
    _ key: String, after delay: Duration, every: Duration? = nil, payload: [UInt8]? = nil,
    owner: Owner = .none, late: String? = nil, clock: String? = nil
  ) async throws -> TimerView {
    var command = CommandBuilder("TIMER", "SET", key, delay.wireText)
    command.option("EVERY", every)
    command.option("PAYLOAD", payload)
    command.owner(owner)
    command.option("LATE", late)
    command.option("CLOCK", clock)
    return try await view(command) { try TimerView($0) }
  }

  /// How it stands; nil when there is none.
  public func timer(_ key: String) async throws -> TimerView? {
    try await viewIfAny(CommandBuilder("TIMER", "GET", key)) { try TimerView($0) }
  }

  /// Disarms it. Returns whether there was one.
  @discardableResult
  public func deleteTimer(_ key: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("TIMER", "DEL", key)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// A page of timers: see `countdowns(cursor:matching:owner:limit:)`.
  public func timers(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<TimerView> {
    try await page("TIMER", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try TimerView($0)
    }
  }
}
