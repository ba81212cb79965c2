import Synchronization

extension CountdownClient {
  /// Opens a scope that closes, with everything it owns, when an object is released.
  ///
  ///     final class OrdersController: Sendable { … }
  ///
  ///     let scope = try await client.scope(for: controller, parent: "app")
  ///     try await client.setTimer("refresh", after: .seconds(30), owner: .scope(scope.key))
  ///
  /// The object is held weakly and checked ten times a second: the scope closes within about 0.1 s.
  /// It also closes with this client's connection for commands.
  ///
  /// - Parameters:
  ///   - object: a view controller, for example.
  ///   - id: 1 to 512 bytes; nil: a random name.
  ///   - parent: the scope above: this scope closes with it, and events continue there.
  public func scope<Object: AnyObject & Sendable>(
    for object: Object, id: String? = nil, parent: String? = nil
  ) async throws -> ScopeView {
    let name = id ?? "\(Object.self)-\(UInt64.random(in: 0 ... .max))"
    let scope = try await openScope(name, parent: parent, owner: .connection)
    objectScopes.add(scope, of: object, self)
    return scope
  }
}

/// The scopes that close with an object.
final class ObjectScopes: Sendable {
  private struct Entry: Sendable {
    weak let object: (any AnyObject & Sendable)?
    let id: String
    let generation: Int
  }

  private struct State {
    var entries: [Entry] = []
    var isWatching = false
  }

  private static let interval = Duration.milliseconds(100)
  private let state = Mutex(State())

  func add(_ scope: ScopeView, of object: some AnyObject & Sendable, _ client: CountdownClient) {
    let isFirst = state.withLock { state in
      state.entries.append(Entry(object: object, id: scope.key, generation: scope.generation))
      defer { state.isWatching = true }
      return !state.isWatching
    }
    guard isFirst else { return }
    Task { [weak client] in
      while client != nil, let released = self.takeReleased() {
        for entry in released {
          // The generation protects a scope that another client has opened again.
          _ = try? await client?.closeScope(entry.id, generation: entry.generation)
        }
        try? await Task.sleep(for: Self.interval)
      }
    }
  }

  /// Removes and returns the entries of released objects; nil if no entries are left.
  private func takeReleased() -> [Entry]? {
    state.withLock { state in
      guard !state.entries.isEmpty else {
        state.isWatching = false
        return nil
      }
      let released = state.entries.filter { $0.object == nil }
      if !released.isEmpty { state.entries.removeAll { $0.object == nil } }
      return released
    }
  }
}
