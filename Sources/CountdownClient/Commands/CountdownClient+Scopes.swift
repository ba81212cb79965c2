/// Scopes: owners that form a tree, and events that travel through it.
///
/// `handle(_:at:captures:)` handles events, over its own connection.
extension CountdownClient {
  /// Opens a scope, or renews the lease of one that is open below the same parent.
  ///
  /// - Parameters:
  ///   - id: 1 to 512 bytes.
  ///   - parent: the scope above: this scope closes with it, and events continue there.
  ///   - owner: closes the scope too when it ends; with `.nobody`, an open scope keeps its owner.
  ///   - ttl: its lease, which `touchScope` renews; nil: it stays open until it is closed.
  @discardableResult
  public func openScope(
    _ id: String, parent: String? = nil, owner: Owner = .nobody, ttl: Duration? = nil
  ) async throws -> ScopeView {
    try await view(
      "SCOPE", "OPEN", id, options: ["PARENT": parent, "OWNER": owner.option, "TTL": ttl])
  }

  /// Closes a scope and all scopes below it, children first. Returns whether there was one.
  @discardableResult
  public func closeScope(
    _ id: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("SCOPE", "CLOSE", id, options: ["GENERATION": generation])
  }

  /// Renews the lease of a scope, for `ttl` from now; nil: for its current length.
  @discardableResult
  public func touchScope(
    _ id: String, ttl: Duration? = nil, generation: Int? = nil
  ) async throws -> ScopeView {
    try await view("SCOPE", "TOUCH", id, options: ["TTL": ttl, "GENERATION": generation])
  }

  /// Returns a scope; nil if there is none.
  public func scope(_ id: String) async throws -> ScopeView? {
    try await viewIfAny("SCOPE", "GET", id)
  }

  /// Returns a page of scopes, as `countdowns(cursor:matching:owner:limit:)` does.
  public func scopes(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<ScopeView> {
    try await page("SCOPE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }

  /// Returns a page of the scopes in a tree: a scope and all scopes below it, parents first.
  public func scopeTree(
    _ id: String, cursor: String = "0", limit: Int? = nil
  ) async throws -> Page<ScopeView> {
    let command = Command(
      ["SCOPE", "TREE", id], ["CURSOR": cursor == "0" ? nil : cursor, "LIMIT": limit])
    return try Page(try await send(command))
  }

  /// Sends an event down to a scope from the top and up again. Returns the scope that handled it.
  ///
  /// - Parameters:
  ///   - event: 1 to 128 bytes.
  ///   - payload: at most 4096 bytes.
  @discardableResult
  public func emit(
    _ event: String, to scope: String, payload: [UInt8]? = nil
  ) async throws -> String? {
    let words: [any CommandWord] = ["SCOPE", "EMIT", scope, event]
    return try await send(Command(words + (payload.map { [$0] } ?? []), [:])).string
  }
}
