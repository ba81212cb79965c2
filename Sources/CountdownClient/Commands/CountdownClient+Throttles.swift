/// Rate limits and debouncers: how often something happens.
extension CountdownClient {
  // MARK: Rate limits

  /// Uses a part of a rate limit, if it is there: `accepted` tells, and `retryAfter` when to try
  /// again.
  ///
  /// - Parameters:
  ///   - burst: the most at once, 1 to 1000000000.
  ///   - count: how much comes back in each `period`.
  ///   - cost: how much to use, 1 to `burst`.
  ///   - peek: whether only to ask: the answer is the same, and nothing is used.
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

  /// Gives back what was not needed; nil when nothing of the key is used.
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

  /// Reports one of many calls: the event `fired` comes once no more have come for `quiet`.
  ///
  /// - Parameters:
  ///   - payload: at most 4096 bytes; those of the newest call come with `fired`.
  ///   - leading: whether the first call fires at once.
  ///   - maximumWait: the most from the first call to the event; nil: no limit.
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

  /// Drops the calls that wait. Returns whether there were any.
  @discardableResult
  public func cancelDebounce(
    _ key: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("DEBOUNCE", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Fires the calls that wait, at once. Returns whether there were any.
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
