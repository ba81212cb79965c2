/// Debouncers.
extension CountdownClient {
  /// Adds a call to a burst: the event `fired` follows once no call has come for `quiet`.
  ///
  /// - Parameters:
  ///   - payload: at most 4096 bytes; `fired` has the payload of the newest call.
  ///   - leading: whether the first call fires at once.
  ///   - maximumWait: the maximum time from the first pending call to the event; nil: no limit.
  ///   - token: 1 to 64 bytes that make it safe to repeat the call; see `startCountdown`.
  @discardableResult
  public func callDebounce(
    _ key: String, quiet: Duration, payload: [UInt8]? = nil, leading: Bool = false,
    maximumWait: Duration? = nil, owner: Owner = .nobody, token: String? = nil
  ) async throws -> DebounceView {
    try await view(
      "DEBOUNCE", "CALL", key, quiet,
      options: [
        "PAYLOAD": payload, "LEADING": leading, "MAXWAIT": maximumWait, "OWNER": owner.option,
        "TOKEN": token,
      ])
  }

  /// Cancels a burst without an event. Returns whether there was one.
  @discardableResult
  public func cancelDebounce(
    _ key: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("DEBOUNCE", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Fires the pending calls now. Returns whether there were any.
  @discardableResult
  public func flushDebounce(
    _ key: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("DEBOUNCE", "FLUSH", key, options: ["GENERATION": generation])
  }

  /// Returns a debouncer; nil while it is idle.
  public func debounce(_ key: String) async throws -> DebounceView? {
    try await viewIfAny("DEBOUNCE", "GET", key)
  }

  /// Returns a page of debouncers, as `countdowns(cursor:matching:owner:limit:)` does.
  public func debounces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<DebounceView> {
    try await page("DEBOUNCE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
