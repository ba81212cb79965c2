/// Events that clients emit, and the handlers that take them.
extension Engine {
  /// Adds a handler. Returns false if the connection has it already.
  package func handle(
    _ key: Span<UInt8>, _ event: [UInt8], captures: Bool, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(ScopeKind.self, key, at: now) else { throw .notFound }
    let handler = Handlers.Handler(
      connection: client.connection, event: event, captures: captures)
    if scopes.table[index].handlers.contains(handler) { return false }
    let maximum = settings.limits.scopeHandlers
    guard scopes.table[index].handlers.count < maximum else {
      throw .limit(name: "max-scope-handlers", value: maximum)
    }
    _ = scopes.table[index].handlers.add(handler)
    // When the connection closes, this leads to the scope and its handlers.
    connections.own(EntityRef(.scope, index), .connection(client.connection))
    return true
  }

  /// Removes the handlers of an event. Returns false if the connection had none.
  package func unhandle(
    _ key: Span<UInt8>, _ event: [UInt8], by client: Client, at now: Moment
  ) -> Bool {
    guard let index = current(ScopeKind.self, key, at: now) else { return false }
    let connection = client.connection
    guard scopes.table[index].handlers.remove(connection: connection, event: event) > 0 else {
      return false
    }
    if !scopes.table[index].handlers.contains(connection: connection) {
      noteEndOfHandling(index, by: connection)
    }
    return true
  }

  /// Returns the scopes at which a connection may handle events, including all that it owns.
  package func scopesOfHandlers(of client: Client) -> [UInt32] {
    connections.scopes(of: client.connection).map(\.index)
  }

  /// Removes all handlers of a connection at a scope.
  package func unhandleAll(at scope: UInt32, by client: Client) {
    guard scopes.table.contains(scope) else { return }
    scopes.table[scope].handlers.removeAll(of: client.connection)
    noteEndOfHandling(scope, by: client.connection)
  }

  private func noteEndOfHandling(_ index: UInt32, by connection: UInt64) {
    guard scopes.table[index].owner != .connection(connection) else { return }
    connections.disown(EntityRef(.scope, index), .connection(connection))
  }

  /// Offers an event to capturing handlers from the top down to a scope, then to the others from
  /// there up. The first handler that can receive it takes it.
  ///
  /// - Parameters:
  ///   - canReceive: whether a connection can receive unsolicited messages.
  ///   - mayHandle: whether a connection may handle events at a scope.
  /// - Returns: the scope whose handler took it; nil if none did.
  package func emit(
    _ event: [UInt8], payload: [UInt8]?, for key: Span<UInt8>, at now: Moment,
    canReceive: (UInt64) -> Bool, mayHandle: (UInt64, _ scope: [UInt8]) -> Bool = { _, _ in true }
  ) throws(EngineError) -> [UInt8]? {
    guard let target = current(ScopeKind.self, key, at: now) else { throw .notFound }
    let path = scopes.tree.path(from: target)
    let way = path.reversed().map { ($0, true) } + path.map { ($0, false) }
    for (scope, isCapturing) in way {
      let entity = scopes.table[scope]
      let taker = taker(of: event, at: scope, isCapturing) {
        (canReceive($0) || subscriptionCount(of: $0) > 0) && mayHandle($0, entity.key)
      }
      guard let taker else { continue }
      tell(
        taker,
        Emission(
          key: entity.key, generation: entity.generation, name: event, payload: payload,
          target: Array(key), isCaptured: isCapturing, nowUnixMS: now.unixMilliseconds))
      return entity.key
    }
    return nil
  }

  private func taker(
    of event: [UInt8], at scope: UInt32, _ isCapturing: Bool, _ canTake: (UInt64) -> Bool
  ) -> UInt64? {
    guard !scopes.table[scope].handlers.isEmpty else { return nil }
    return scopes.table[scope].handlers.taker(of: event, capturing: isCapturing) {
      // Closed connections are skipped, even if they have not been cleaned up yet.
      connections.isAlive(connection: $0) && canTake($0)
    }
  }

  /// Sends an emission to one connection, whatever its subscriptions are.
  private func tell(_ connection: UInt64, _ emission: Emission) {
    var head = Event.Head(.emitted, emission.generation)
    head.sequence = newSequence()
    send(head, emission, .scope, emission.key.span, to: Audience(subscribers: [connection]))
  }
}
