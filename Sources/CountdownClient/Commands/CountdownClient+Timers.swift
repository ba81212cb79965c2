/// Plain timers: something is due later, once or periodically.
extension CountdownClient {
  /// Sets a timer that is due `delay` from now, and replaces a timer of the same key.
  ///
  /// - Parameters:
  ///   - key: 1 to 512 bytes.
  ///   - delay: 0 to 3650 days, rounded up to a millisecond.
  ///   - every: the period, in phase with the first deadline, at least 1 ms; nil: it fires once.
  ///   - payload: at most 4096 bytes that come with each `fired`.
  ///   - late: the handling of missed periods; nil: `fire`.
  ///   - clock: the clock that the timer follows; nil: `boot`.
  @discardableResult
  public func setTimer(
    _ key: String, after delay: Duration, every: Duration? = nil, payload: [UInt8]? = nil,
    owner: Owner = .nobody, late: TimerView.Late? = nil, clock: TimerView.Clock? = nil
  ) async throws -> TimerView {
    try await view(
      "TIMER", "SET", key, delay,
      options: [
        "EVERY": every, "PAYLOAD": payload, "OWNER": owner.option, "LATE": late?.rawValue,
        "CLOCK": clock?.rawValue,
      ])
  }

  /// Returns a timer; nil if there is none.
  public func timer(_ key: String) async throws -> TimerView? {
    try await viewIfAny("TIMER", "GET", key)
  }

  /// Pauses a timer with its remaining time; idempotent.
  @discardableResult
  public func pauseTimer(
    _ key: String, generation: Int? = nil
  ) async throws -> TimerView {
    try await view("TIMER", "PAUSE", key, options: ["GENERATION": generation])
  }

  /// Continues a paused timer with its remaining time; idempotent.
  @discardableResult
  public func resumeTimer(
    _ key: String, generation: Int? = nil
  ) async throws -> TimerView {
    try await view("TIMER", "RESUME", key, options: ["GENERATION": generation])
  }

  /// Makes a timer due `remaining` from now, 0 to 3650 days.
  @discardableResult
  public func retimeTimer(
    _ key: String, remaining: Duration, generation: Int? = nil
  ) async throws -> TimerView {
    try await view("TIMER", "RETIME", key, remaining, options: ["GENERATION": generation])
  }

  /// Deletes a timer. Returns whether there was one.
  @discardableResult
  public func deleteTimer(
    _ key: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("TIMER", "DEL", key, options: ["GENERATION": generation])
  }

  /// Returns a page of timers, as `countdowns(cursor:matching:owner:limit:)` does.
  public func timers(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<TimerView> {
    try await page("TIMER", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
