import Dispatch

/// What `Client.onUpdate` reports about an entity.
public enum EntityUpdate<View: EntityView>: Sendable {
  /// An event with the entity after it; the first one is a `snapshot`.
  case event(CountdownEvent, View)
  /// The connection was lost: what is shown may be out of date.
  case disconnected
  /// The connection is back. The missed events follow, then a snapshot.
  case resubscribed
  /// Events may be missing: the next snapshot tells the state.
  case gap
  /// There will be no more updates: the client was closed, or the daemon broke the protocol.
  case end
}

extension Client {
  /// Calls a closure on a queue with each update of an entity, as long as its target lives.
  ///
  ///     handle = client.onUpdate(of: HUDView.self, "checkout", target: screen, queue: queue) {
  ///       screen, update in
  ///       switch update {
  ///       case .event(_, let hud): screen.show(hud)
  ///       case .disconnected: screen.dim()
  ///       case .resubscribed, .gap, .end: break
  ///       }
  ///     }
  ///
  /// Unlike `onEvent`, it reports the state of the connection, too.
  ///
  /// - Parameters:
  ///   - target: held weakly.
  ///   - queue: must be serial.
  /// - Returns: a handle; releasing it ends the calls.
  public func onUpdate<View: EntityView, Target: AnyObject & Sendable>(
    of entity: View.Type = View.self, _ key: String, target: Target, queue: DispatchQueue,
    _ body: @escaping @Sendable (Target, EntityUpdate<View>) -> Void
  ) -> EventHandle {
    updates(key, of: target) { target, update in
      queue.async { [weak target] in if let target { body(target, update) } }
    }
  }

  /// Calls a closure on the main actor with each update of an entity, as long as its target lives.
  ///
  /// Otherwise behaves like `onUpdate(of:_:target:queue:_:)`.
  public func onUpdate<View: EntityView, Target: AnyObject & Sendable>(
    of entity: View.Type = View.self, _ key: String, mainActor target: Target,
    _ body: @escaping @MainActor @Sendable (Target, EntityUpdate<View>) -> Void
  ) -> EventHandle {
    updates(key, of: target) { target, update in
      Task { @MainActor [weak target] in if let target { body(target, update) } }
    }
  }

  private func updates<View: EntityView, Target: AnyObject & Sendable>(
    _ key: String, of target: Target,
    _ body: @escaping @Sendable (Target, EntityUpdate<View>) -> Void
  ) -> EventHandle {
    observe(View.kind, key, followsConnection: true) { [weak target] event in
      guard let target else { return false }
      if let update = EntityUpdate<View>(event) { body(target, update) }
      return true
    }
  }
}

extension EntityUpdate {
  fileprivate init?(_ event: CountdownEvent?) {
    guard let event else {
      self = .end
      return
    }
    switch event.name {
    case .disconnected: self = .disconnected
    case .resubscribed: self = .resubscribed
    case .gap: self = .gap
    default:
      guard let view = event.view(View.self) else { return nil }
      self = .event(event, view)
    }
  }
}
