import NIOConcurrencyHelpers

/// A scope that is open as long as this object lives.
///
/// Keep it in the object whose entities end with it, such as a view controller: it is released with
/// that object, and the scope closes at once, with everything that it owns.
public final class ScopeHandle: Sendable {
  /// The name of the scope.
  public let key: String
  private let parent: String?
  private let client: Client
  private let state: NIOLockedValueBox<State>

  private struct State {
    var generation: Int
    var events: EventHandle?
    var isOpening = false
    /// Whether the scope has ended for another reason than a lost connection.
    var isOver = false
    /// Whether `close()` closes it.
    var isClosed = false
  }

  /// The scope as the owner of other entities.
  public var owner: Owner { .scope(key) }

  fileprivate init(_ scope: ScopeView, parent: String?, _ client: Client) {
    key = scope.key
    self.parent = parent
    self.client = client
    state = NIOLockedValueBox(State(generation: scope.generation))
  }

  deinit {
    let (client, command) = (client, closing)
    if !state.withLockedValue({ $0.isClosed }) { Task { await client.end(command) } }
  }

  // The generation protects a scope that another client has opened again.
  private var closing: Command {
    Command(["SCOPE", "CLOSE", key], ["GENERATION": state.withLockedValue { $0.generation }])
  }

  /// Closes the scope; returns after the first attempt, and further ones follow.
  func close() async {
    state.withLockedValue { state in
      state.isOver = true
      state.isClosed = true
    }
    await client.end(closing)
  }

  fileprivate func follow() {
    let events = client.observe(.scope, key) { [weak self] event in
      guard let self, let event else { return false }
      self.take(event)
      return true
    }
    state.withLockedValue { $0.events = events }
  }

  /// Opens the scope again if it has ended with the connection or the daemon.
  private func take(_ event: CountdownEvent) {
    guard event.scope?.state == .closed else { return }
    let isLost = state.withLockedValue { state in
      if event.name == .closed {
        guard event.generation == state.generation else { return false }
        state.isOver = event.reason != .ownerGone
      }
      guard !state.isOver, !state.isOpening else { return false }
      state.isOpening = true
      return true
    }
    if isLost { Task { [weak self] in await Self.open { self } } }
  }

  /// Tries until the daemon has answered, or the object is released: the scope above may come back
  /// later than this one.
  private static func open(_ handle: () -> ScopeHandle?) async {
    var backoff = Backoff()
    while await handle()?.open() == false { try? await Task.sleep(for: backoff.next()) }
  }

  /// Returns whether no other attempt is needed.
  private func open() async -> Bool {
    do {
      if state.withLockedValue({ $0.isClosed }) { return true }
      let scope = try await client.scope.open(key, parent: parent, owner: .connection)
      let isClosed = state.withLockedValue { state in
        state.generation = scope.generation
        state.isOpening = false
        return state.isClosed
      }
      if isClosed { await client.end(closing) }
      return true
    } catch CountdownClientError.clientClosed {
      return true
    } catch {
      return false
    }
  }
}

extension Client {
  /// Opens a scope for as long as the handle lives.
  ///
  ///     final class OrdersController {
  ///       let scope: ScopeHandle
  ///       init(_ client: Client) async throws {
  ///         scope = try await client.openScope("orders", parent: "app")
  ///         try await client.timer.set("refresh", after: .seconds(30), owner: scope.owner)
  ///       }
  ///     }
  ///
  /// The scope also closes if this client disconnects. It is opened again after a lost connection
  /// and a restart of the daemon, without what it owned; not after somebody has closed it.
  ///
  /// - Parameters:
  ///   - id: 1 to 512 bytes; nil: a random name.
  ///   - parent: the scope above: this scope closes with it, and events continue there.
  public func openScope(_ id: String? = nil, parent: String? = nil) async throws -> ScopeHandle {
    try await openedScope(id ?? "scope-\(Command.newToken)", parent: parent).handle
  }

  func openedScope(
    _ id: String, parent: String?
  ) async throws -> (handle: ScopeHandle, view: ScopeView) {
    let view = try await scope.open(id, parent: parent, owner: .connection)
    let handle = ScopeHandle(view, parent: parent, self)
    handle.follow()
    return (handle, view)
  }
}
