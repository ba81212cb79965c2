/// Rate limits.
extension CountdownClient {
  /// Takes `cost` from a rate limit if enough is left. `accepted` is the answer; if it is false,
  /// `retryAfter` is the time to wait.
  ///
  /// - Parameters:
  ///   - burst: the maximum at once, 1 to 1000000000.
  ///   - count: how much comes back in each `period`.
  ///   - cost: how much to use, 1 to `burst`.
  ///   - peek: whether to only ask: the answer is the same, but nothing is used.
  ///   - token: 1 to 64 bytes that make it safe to repeat the call; see `startCountdown`.
  @discardableResult
  public func takeThrottle(
    _ key: String, burst: Int, count: Int, per period: Duration, cost: Int = 1, peek: Bool = false,
    token: String? = nil
  ) async throws -> ThrottleView {
    try await view(
      "THROTTLE", "TAKE", key,
      options: [
        "BURST": burst, "RATE": "\(count)/\(period.millisecondsRoundedUp)ms",
        "COST": cost == 1 ? nil : cost, "PEEK": peek, "TOKEN": token,
      ])
  }

  /// Gives back an unused amount; nil when nothing of the key is used.
  @discardableResult
  public func refundThrottle(
    _ key: String, _ cost: Int = 1, generation: Int? = nil, token: String? = nil
  ) async throws -> ThrottleView? {
    try await viewIfAny(
      "THROTTLE", "REFUND", key, cost, options: ["GENERATION": generation, "TOKEN": token])
  }

  /// Returns a rate limit; nil when nothing of the key is used.
  public func throttle(_ key: String) async throws -> ThrottleView? {
    try await viewIfAny("THROTTLE", "GET", key)
  }

  /// Returns a page of rate limits, as `countdowns(cursor:matching:owner:limit:)` does.
  public func throttles(
    cursor: String = "0", matching: String? = nil, limit: Int? = nil
  ) async throws -> Page<ThrottleView> {
    try await page("THROTTLE", cursor: cursor, matching: matching, limit: limit)
  }
}
