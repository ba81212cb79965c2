import NIOConcurrencyHelpers

/// A registration by `Client.onEvent` or `onReady`; releasing it ends the calls.
public final class EventHandle: Sendable {
  private let onCancel: NIOLockedValueBox<(@Sendable () -> Void)?>

  init(onCancel: @escaping @Sendable () -> Void) {
    self.onCancel = NIOLockedValueBox(onCancel)
  }

  deinit { cancel() }

  /// Ends the calls; a call in progress completes. Idempotent.
  public func cancel() {
    let action = onCancel.withLockedValue { action in
      defer { action = nil }
      return action
    }
    action?()
  }
}

/// Distributes the events of channels to many observers, over one subscription.
final class EventHub: Sendable {
  /// Receives the events of its channel and, if it asks for them, those of the connection; nil at
  /// the end of all events. Returns false to end the calls.
  typealias Observer = @Sendable (CountdownEvent?) -> Bool

  private struct Registration {
    let channel: String
    let followsConnection: Bool
    let observer: Observer
    /// Whether the observer has received its first event, a snapshot.
    var hasBegun = false
  }

  private struct State {
    var nextID = 0
    var registrations: [Int: Registration] = [:]
    var idsByChannel: [String: Set<Int>] = [:]
  }

  private let subscription: Subscription
  private let state = NIOLockedValueBox(State())

  init(events: CountdownEvents, subscription: Subscription) {
    self.subscription = subscription
    Task { [weak self] in
      do {
        for try await event in events { self?.receive(event) }
      } catch {
        // A refused client, a protocol violation or a closed client; see `isOpen`.
      }
      self?.end()
    }
  }

  deinit { subscription.finish() }

  var isOpen: Bool { !subscription.isStopped }

  func add(
    channel: String, followsConnection: Bool, observer: @escaping Observer
  ) -> EventHandle {
    let id = state.withLockedValue { state in
      state.nextID += 1
      let id = state.nextID
      state.registrations[id] = Registration(
        channel: channel, followsConnection: followsConnection, observer: observer)
      state.idsByChannel[channel, default: []].insert(id)
      // Sent under the lock, as in `remove`: the later of two concurrent calls wins.
      subscription.add(channel: channel)
      return id
    }
    return EventHandle { self.remove(id) }
  }

  func requestSnapshot(channel: String) {
    state.withLockedValue { state in
      if state.idsByChannel[channel] != nil { subscription.add(channel: channel) }
    }
  }

  private func remove(_ id: Int) {
    // Released outside the lock: the observer may hold another handle, whose `deinit` takes it.
    let removed: Registration? = state.withLockedValue { state in
      guard let registration = state.registrations.removeValue(forKey: id) else { return nil }
      let channel = registration.channel
      state.idsByChannel[channel]?.remove(id)
      if state.idsByChannel[channel]?.isEmpty == true {
        state.idsByChannel[channel] = nil
        subscription.remove(channel: channel)
      }
      return registration
    }
    _ = removed
  }

  private func receive(_ event: CountdownEvent) {
    let ids = state.withLockedValue { state in
      event.kind == .connection
        ? Set(state.registrations.filter { $0.value.followsConnection }.keys)
        : state.idsByChannel[event.channel] ?? []
    }
    for id in ids.sorted() { notify(id, event) }
  }

  private func end() {
    end(state.withLockedValue { $0.registrations.keys.sorted() })
  }

  /// Ends calls for which nothing will come any more.
  private func end(_ ids: [Int]) {
    for id in ids {
      let registration = state.withLockedValue { $0.registrations[id] }
      if let registration, registration.followsConnection { _ = registration.observer(nil) }
      remove(id)
    }
  }

  private func notify(_ id: Int, _ event: CountdownEvent) {
    if event.name == .denied { return end([id]) }
    let observer: Observer? = state.withLockedValue { state in
      guard let registration = state.registrations[id] else { return nil }
      if event.kind == .connection { return registration.observer }
      guard registration.hasBegun || event.name == .snapshot else { return nil }
      state.registrations[id]?.hasBegun = true
      return registration.observer
    }
    if let observer, !observer(event) { remove(id) }
  }
}
