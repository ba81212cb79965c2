import NIOConcurrencyHelpers

/// Closures that are called for as long as an object lives.
///
/// All handles of a client share one connection and call their closures one at a time: return soon.
/// The target is held weakly: the calls end when the target or the handle is released.
extension Client {
  /// Calls a closure with each event of an entity.
  ///
  ///     handle = client.onEvent(of: HUDView.self, "checkout", target: screen) { screen, event, hud in
  ///       Task { @MainActor in screen.show(hud) }
  ///     }
  ///
  /// The first event is a `snapshot`. After a lost connection or a restart of the daemon, missed
  /// events follow, as far as the event log has them, then a new snapshot.
  ///
  /// - Parameters:
  ///   - entity: the view of the entity's kind.
  ///   - key: the key of the entity: for a HUD its screen, for a gate its session.
  ///   - endsEntity: whether releasing the handle also ends the entity: cancels a countdown,
  ///     deletes a timer, dismisses a HUD, closes a scope. A rate limit has no end. It ends the
  ///     generation that the last event showed, and tries until the daemon has answered, also
  ///     through a restart, or the client is closed.
  /// - Returns: a handle; releasing it ends the calls.
  public func onEvent<View: EntityView, Target: AnyObject & Sendable>(
    of entity: View.Type = View.self, _ key: String, target: Target, endsEntity: Bool = false,
    _ body: @escaping @Sendable (Target, CountdownEvent, View) -> Void
  ) -> EventHandle {
    let seen = LastGeneration()
    let calls = observe(View.kind, key) { [weak target] event in
      guard let target, let event else { return false }
      seen.note(event.generation)
      if let view = event.view(View.self) { body(target, event, view) }
      return true
    }
    guard endsEntity, let end = View.kind.end else { return calls }
    return EventHandle { [self] in
      calls.cancel()
      let command = Command(end + [key], ["GENERATION": seen.current])
      Task { await self.end(command) }
    }
  }

  /// Calls a closure each time a countdown becomes ready.
  ///
  ///     handle = client.onReady("+4512345678", target: button) { button, _ in
  ///       Task { @MainActor in button.isEnabled = true }
  ///     }
  ///
  /// The closure is called once per generation: at once if the countdown is ready, and after a lost
  /// connection or a restart of the daemon for the `ready` events it missed.
  ///
  /// - Returns: a handle; releasing it ends the calls.
  public func onReady<Target: AnyObject & Sendable>(
    _ key: String, target: Target,
    _ body: @escaping @Sendable (Target, CountdownEvent) -> Void
  ) -> EventHandle {
    let last = LastGeneration()
    return observe(.countdown, key) { [weak target] event in
      guard let target, let event else { return false }
      let isReady =
        event.name == .ready
        || event.name == .snapshot && event.fields["state"]?.string == "ready"
      if isReady, last.isNew(event.generation) { body(target, event) }
      return true
    }
  }

  /// The last generation that an observer was called for.
  private final class LastGeneration: Sendable {
    private let generation = NIOLockedValueBox<Int?>(nil)

    /// Nil if no event has shown one.
    var current: Int? { generation.withLockedValue { $0 } }

    /// Notes the generation of an event, if the entity exists.
    func note(_ new: Int?) {
      if let new, new > 0 { generation.withLockedValue { $0 = new } }
    }

    func isNew(_ new: Int?) -> Bool {
      generation.withLockedValue { generation in
        defer { generation = new }
        return new == nil || generation != new
      }
    }
  }
}

extension CountdownEvent.Kind {
  /// The command that ends an entity, without its key; nil where there is none.
  fileprivate var end: [String]? {
    let verb: String
    switch self {
    case .countdown, .once, .debounce: verb = "CANCEL"
    case .timer: verb = "DEL"
    case .hud, .nav: verb = "DISMISS"
    case .gate, .scope, .page: verb = "CLOSE"
    default: return nil
    }
    return [rawValue.uppercased(), verb]
  }
}
