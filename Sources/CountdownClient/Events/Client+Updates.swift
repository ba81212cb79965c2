import Dispatch
import NIOConcurrencyHelpers
import NIOCore

/// What `Client.onUpdate` reports about an entity.
public enum EntityUpdate<View: EntityView>: Sendable {
  /// An event with the entity after it; the first one is a `snapshot`.
  case event(CountdownEvent, View)
  /// The connection was lost: what is shown may be out of date.
  case disconnected
  /// The connection is back. The missed events follow, then a snapshot.
  case resubscribed
  /// Events may be missing, also because the target is slow: the next snapshot tells the state.
  case gap
  /// There will be no more updates: the client was closed, the daemon refuses it or broke the
  /// protocol.
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
  /// Unlike `onEvent`, it reports the state of the connection, too. A target that falls 512 updates
  /// behind receives a `gap` instead of them, and a snapshot.
  ///
  /// - Parameters:
  ///   - target: held weakly.
  ///   - queue: must be serial.
  /// - Returns: a handle; releasing it ends the calls.
  public func onUpdate<View: EntityView, Target: AnyObject & Sendable>(
    of entity: View.Type = View.self, _ key: String, target: Target, queue: DispatchQueue,
    _ body: @escaping @Sendable (Target, EntityUpdate<View>) -> Void
  ) -> EventHandle {
    updates(key, of: target) { [weak target] (waiting: WaitingUpdates<View>) in
      queue.async { [weak target] in
        while let target, let update = waiting.next() { body(target, update) }
      }
    }
  }

  /// Calls a closure on the main actor with each update of an entity, as long as its target lives.
  ///
  /// Otherwise behaves like `onUpdate(of:_:target:queue:_:)`.
  public func onUpdate<View: EntityView, Target: AnyObject & Sendable>(
    of entity: View.Type = View.self, _ key: String, mainActor target: Target,
    _ body: @escaping @MainActor @Sendable (Target, EntityUpdate<View>) -> Void
  ) -> EventHandle {
    updates(key, of: target) { [weak target] (waiting: WaitingUpdates<View>) in
      Task { @MainActor [weak target] in
        while let target, let update = waiting.next() { body(target, update) }
      }
    }
  }

  /// - Parameter deliver: takes what waits, later.
  private func updates<View: EntityView, Target: AnyObject & Sendable>(
    _ key: String, of target: Target, _ deliver: @escaping @Sendable (WaitingUpdates<View>) -> Void
  ) -> EventHandle {
    let waiting = WaitingUpdates<View> { [weak self] in
      self?.requestSnapshot(of: View.kind, key)
    }
    return observe(View.kind, key, followsConnection: true) { [weak target] event in
      guard target != nil else { return false }
      if let update = EntityUpdate<View>(event), waiting.add(update) { deliver(waiting) }
      return true
    }
  }
}

/// The updates that a target has yet to take. If it is too slow, they become a gap.
private final class WaitingUpdates<View: EntityView>: Sendable {
  /// As many events as a sequence may be behind.
  private static var maximum: Int { CountdownEvents.highWatermark }

  private let updates = NIOLockedValueBox<CircularBuffer<EntityUpdate<View>>>([])
  private let hasGap: @Sendable () -> Void

  init(hasGap: @escaping @Sendable () -> Void) { self.hasGap = hasGap }

  /// Returns whether the delivery has to start: nothing waited before.
  func add(_ update: EntityUpdate<View>) -> Bool {
    let (isFirst, isFull) = updates.withLockedValue { updates in
      let isFirst = updates.isEmpty
      let isFull = updates.count == Self.maximum
      if isFull { updates = [.gap] }
      updates.append(update)
      return (isFirst, isFull)
    }
    if isFull { hasGap() }
    return isFirst
  }

  func next() -> EntityUpdate<View>? { updates.withLockedValue { $0.popFirst() } }
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
