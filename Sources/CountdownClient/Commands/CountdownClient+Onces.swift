/// Idempotency keys.
extension CountdownClient {
  /// Claims a request. If `accepted`, run it and call `finishOnce`; if not, the view has the result
  /// of the first request, or shows that it is still running.
  ///
  /// - Parameters:
  ///   - ttl: how long the daemon remembers the request.
  ///   - owner: with `.connection`, an unfinished claim ends with this connection.
  ///   - token: 1 to 64 bytes that make it safe to repeat the call; see `startCountdown`.
  @discardableResult
  public func beginOnce(
    _ key: String, ttl: Duration, owner: Owner = .nobody, token: String? = nil
  ) async throws -> OnceView {
    try await view(
      "ONCE", "BEGIN", key, options: ["TTL": ttl, "OWNER": owner.option, "TOKEN": token])
  }

  /// Stores the result of a request; `accepted` is false if one was stored before.
  @discardableResult
  public func finishOnce(
    _ key: String, result: [UInt8], generation: Int? = nil
  ) async throws -> OnceView {
    try await view("ONCE", "DONE", key, result, options: ["GENERATION": generation])
  }

  /// Releases a failed request for another try. Returns whether the daemon knew the request.
  @discardableResult
  public func cancelOnce(
    _ key: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("ONCE", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Returns a request; nil if the daemon does not know it.
  public func once(_ key: String) async throws -> OnceView? {
    try await viewIfAny("ONCE", "GET", key)
  }

  /// Returns a page of requests, as `countdowns(cursor:matching:owner:limit:)` does.
  public func onces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<OnceView> {
    try await page("ONCE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
