/// Idempotency keys and gates: whether something runs now, later or not at all.
extension CountdownClient {
  // MARK: Idempotency keys

  /// Claims a request. If `accepted`, run it and call `finishOnce`; if not, the view has the result
  /// of the first request, or shows that it is still running.
  ///
  /// - Parameters:
  ///   - ttl: how long the daemon remembers the request.
  ///   - owner: with `.connection`, an unfinished claim ends with this connection.
  @discardableResult
  public func beginOnce(
    _ key: String, ttl: Duration, owner: Owner = .nobody
  ) async throws(CountdownClientError) -> OnceView {
    try await view("ONCE", "BEGIN", key, options: ["TTL": ttl, "OWNER": owner.option])
  }

  /// Stores the result of a request; `accepted` is false if one was stored before.
  @discardableResult
  public func finishOnce(
    _ key: String, result: [UInt8], generation: Int? = nil
  ) async throws(CountdownClientError) -> OnceView {
    try await view("ONCE", "DONE", key, result, options: ["GENERATION": generation])
  }

  /// Releases a failed request for another try. Returns whether the daemon knew the request.
  @discardableResult
  public func cancelOnce(
    _ key: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("ONCE", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Returns a request; nil if the daemon does not know it.
  public func once(_ key: String) async throws(CountdownClientError) -> OnceView? {
    try await viewIfAny("ONCE", "GET", key)
  }

  /// Returns a page of requests, as `countdowns(cursor:matching:owner:limit:)` does.
  public func onces(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws(CountdownClientError) -> Page<OnceView> {
    try await page("ONCE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }

  // MARK: Gates

  /// Asks whether an action may run now. If not `accepted`, the action is pending until the session
  /// opens (event `run`), and replaces an earlier pending action.
  ///
  /// - Parameters:
  ///   - action: 1 to 512 bytes.
  ///   - payload: at most 4096 bytes.
  ///   - isRequired: whether the action needs an open session; if not, it may always run.
  ///   - ttl: how long the action is pending; nil: as configured.
  @discardableResult
  public func checkGate(
    _ session: String, action: String, payload: [UInt8]? = nil, isRequired: Bool = true,
    ttl: Duration? = nil, owner: Owner = .nobody
  ) async throws(CountdownClientError) -> GateView {
    try await view(
      "GATE", "CHECK", session, action,
      options: [
        "PAYLOAD": payload, "REQUIRED": isRequired ? nil : "off", "TTL": ttl,
        "OWNER": owner.option,
      ])
  }

  /// Opens a session for `ttl`; nil: until it is closed. The view has the pending action: run it,
  /// or let a subscribed client take it.
  @discardableResult
  public func openGate(
    _ session: String, ttl: Duration? = nil
  ) async throws(CountdownClientError) -> GateView {
    try await view("GATE", "OPEN", session, options: ["TTL": ttl])
  }

  /// Takes the action of an open session; of several clients, only one is `accepted`. That client
  /// runs the action and calls `finishGate`. If it disconnects first, another client can take the
  /// action.
  @discardableResult
  public func takeGate(
    _ session: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> GateView {
    try await view("GATE", "TAKE", session, options: ["GENERATION": generation])
  }

  /// Reports that the action has run. Returns false if there is none, or another client runs it.
  @discardableResult
  public func finishGate(
    _ session: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("GATE", "DONE", session, options: ["GENERATION": generation])
  }

  /// Drops the pending action. Returns whether there was one.
  @discardableResult
  public func cancelGate(
    _ session: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("GATE", "CANCEL", session, options: ["GENERATION": generation])
  }

  /// Closes a session. Returns whether it was open.
  @discardableResult
  public func closeGate(
    _ session: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("GATE", "CLOSE", session, options: ["GENERATION": generation])
  }

  /// Returns a session; nil if it is closed and no action is pending.
  public func gate(_ session: String) async throws(CountdownClientError) -> GateView? {
    try await viewIfAny("GATE", "GET", session)
  }

  /// Returns a page of sessions, as `countdowns(cursor:matching:owner:limit:)` does.
  public func gates(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws(CountdownClientError) -> Page<GateView> {
    try await page("GATE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
