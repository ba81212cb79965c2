/// Scopes: owners in a tree, and events that travel in it. Every call throws
/// `CountdownClientError`.
///
/// What this client handles (`SCOPE HANDLE`) comes by a connection that is kept for that:
/// `handle(_:at:)`.
extension CountdownClient {
  /// Opens a scope; if it is there already, below the same parent, it stays, and its lease is
  /// renewed.
  ///
  /// - Parameters:
  ///   - id: 1 to 512 bytes.
  ///   - parent: the scope that it closes with, and that events go on to.
  ///   - owner: what it closes with as well; left out, it stays as it is.
  ///   - ttl: its lease, to be renewed by `touchScope`; without one it stays until it is closed.
  @discardableResult
  public func openScope(
    _ id: String, parent: String? = nil, owner: Owner = .none, ttl: Duration? = nil
  ) async throws -> ScopeView {
    var command = CommandBuilder("SCOPE", "OPEN", id)
    command.option("PARENT", parent)
    command.owner(owner)
    command.option("TTL", ttl)
    return try await view(command) { try ScopeView($0) }
  }

  /// Closes it and all below it, children first. Returns whether there was one.
  @discardableResult
  public func closeScope(_ id: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("SCOPE", "CLOSE", id)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// Renews its lease, for as long as it was opened for or for `ttl` from now on.
  @discardableResult
  public func touchScope(
    _ id: String, ttl: Duration? = nil, generation: Int? = nil
  ) async throws -> ScopeView {
    var command = CommandBuilder("SCOPE", "TOUCH", id)
    command.option("TTL", ttl)
    command.option("GENERATION", generation)
    return try await view(command) { try ScopeView($0) }
  }

  /// How it stands; nil when there is none.
  public func scope(_ id: String) async throws -> ScopeView? {
    try await viewIfAny(CommandBuilder("SCOPE", "GET", id)) { try ScopeView($0) }
  }

  /// A page of scopes: see `countdowns(cursor:matching:owner:limit:)`.
  public func scopes(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<ScopeView> {
    try await page("SCOPE", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try ScopeView($0)
    }
  }

  /// Sends an event to a scope, down from the top and up again. Returns the scope that took it.
  ///
  /// - Parameters:
  ///   - event: 1 to 128 bytes.
  ///   - payload: at most 4096 bytes.
  @discardableResult
  public func emit(
    _ event: String, to scope: String, payload: [UInt8]? = nil
  ) async throws -> String? {
    var words = ["SCOPE", "EMIT", scope, event].map { Array($0.utf8) }
    if let payload { words.append(payload) }
    let reply = try await send(bytes: words)
    return reply.isNull ? nil : reply.string
  }
}
