/// Rate limits and debouncers: how often something happens.
extension CountdownClient {
  // MARK: Rate limits

  /// Takes `cost` from a rate limit if enough is left. `accepted` is the answer; if it is false,
  /// `retryAfter` is the time to wait.
  ///
  /// - Parameters:
  ///   - burst: the maximum at once, 1 to 1000000000.
  ///   - count: how much comes back in each `period`.
  ///   - cost: how much to use, 1 to `burst`.
  ///   - peek: whether to only ask: the answer is the same, but nothing is used.
  @discardableResult
  public func takeThrottle(
    _ key: String, burst: Int, count: Int, per period: Duration, cost: Int = 1, peek: Bool = false
  ) async throws(CountdownClientError) -> ThrottleView {
    try await view(
      "THROTTLE", "TAKE", key,
      options: [
        "BURST": burst, "RATE": "\(count)/\(period.millisecondsRoundedUp)",
        "COST": cost == 1 ? nil : cost, "PEEK": peek,
      ])
  }

  /// Gives back an unused amount; nil when nothing of the key is used.
  @discardableResult
  public func refundThrottle(
    _ key: String, _ cost: Int = 1, generation: Int? = nil
  ) async throws(CountdownClientError) -> ThrottleView? {
    try await viewIfAny("THROTTLE", "REFUND", key, cost, options: ["GENERATION": generation])
  }

  /// Returns a rate limit; nil when nothing of the key is used.
  public func throttle(_ key: String) async throws(CountdownClientError) -> ThrottleView? {
    try await viewIfAny("THROTTLE", "GET", key)
  }

  /// Returns a page of rate limits, as `countdowns(cursor:matching:owner:limit:)` does.
  public func throttles(
    cursor: String = "0", matching: String? = nil, limit: Int? = nil
  ) async throws(CountdownClientError) -> Page<ThrottleView> {
    try await page("THROTTLE", cursor: cursor, matching: matching, limit: limit)
  }

  // MARK: Debouncers

  /// Adds a call to a burst: the event `fired` follows once no call has come for `quiet`.
  ///
  /// - Parameters:
  ///   - payload: at most 4096 bytes; `fired` has the payload of the newest call.
  ///   - leading: whether the first call fires at once.
  ///   - maximumWait: the maximum time from the first pending call to the event; nil: no limit.
  @discardableResult
  public func callDebounce(
    _ key: String, quiet: Duration, payload: [UInt8]? = nil, leading: Bool = false,
    maximumWait: Duration? = nil, owner: Owner = .nobody
  ) async throws(CountdownClientError) -> DebounceView {
    try await view(
      "DEBOUNCE", "CALL", key, quiet,
      options: [
        "PAYLOAD": payload, "LEADING": leading, "MAXWAIT": maximumWait, "OWNER": owner.option,
      ])
  }

  /// Cancels a burst without an event. Returns whether there was one.
  @discardableResult
  public func cancelDebounce(
    _ key: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("DEBOUNCE", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Fires the pending calls now. Returns whether there were any.
  @discardableResult
  public func flushDebounce(
    _ key: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("DEBOUNCE", "FLUSH", key, options: ["GENERATION": generation])
  }

  /// Returns a debouncer; nil while it is idle.
  public func debounce(_ key: String) async throws(CountdownClientError) -> DebounceView? {
    try await viewIfAny("DEBOUNCE", "GET", key)
  }

  /// Returns a page of debouncers, as `countdowns(cursor:matching:owner:limit:)` does.
  public func debounces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws(CountdownClientError) -> Page<DebounceView> {
    try await page("DEBOUNCE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
