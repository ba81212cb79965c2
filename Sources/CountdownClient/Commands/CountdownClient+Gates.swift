/// Gates: whether an action runs now or later.
extension CountdownClient {
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
  ) async throws -> GateView {
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
  ) async throws -> GateView {
    try await view("GATE", "OPEN", session, options: ["TTL": ttl])
  }

  /// Takes the action of an open session; of several clients, only one is `accepted`. That client
  /// runs the action and calls `finishGate`. If it disconnects first, another client can take the
  /// action.
  @discardableResult
  public func takeGate(
    _ session: String, generation: Int? = nil
  ) async throws -> GateView {
    try await view("GATE", "TAKE", session, options: ["GENERATION": generation])
  }

  /// Reports that the action has run. Returns false if there is none, or another client runs it.
  @discardableResult
  public func finishGate(
    _ session: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("GATE", "DONE", session, options: ["GENERATION": generation])
  }

  /// Drops the pending action. Returns whether there was one.
  @discardableResult
  public func cancelGate(
    _ session: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("GATE", "CANCEL", session, options: ["GENERATION": generation])
  }

  /// Closes a session. Returns whether it was open.
  @discardableResult
  public func closeGate(
    _ session: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("GATE", "CLOSE", session, options: ["GENERATION": generation])
  }

  /// Returns a session; nil if it is closed and no action is pending.
  public func gate(_ session: String) async throws -> GateView? {
    try await viewIfAny("GATE", "GET", session)
  }

  /// Returns a page of sessions, as `countdowns(cursor:matching:owner:limit:)` does.
  public func gates(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<GateView> {
    try await page("GATE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
