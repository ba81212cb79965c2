import Synchronization

/// A registration of `CountdownClient.onReady`; its release ends the calls.
public final class EventHandle: Sendable {
  private let onCancel: Mutex<(@Sendable () -> Void)?>

  init(onCancel: @escaping @Sendable () -> Void) {
    self.onCancel = Mutex(onCancel)
  }

  deinit { cancel() }

  /// Ends the calls; one that is under way completes. Idempotent.
  public func cancel() {
    let action = onCancel.withLock { action in
      defer { action = nil }
      return action
    }
    action?()
  }
}

/// Notifies many observers that their countdown is ready, over one subscription.
final class ReadyHub: Sendable {
  /// Returns false to end the calls.
  typealias Observer = @Sendable (CountdownEvent) -> Bool

  private struct Registration {
    let key: String
    let observer: Observer
    /// The last generation that the observer was called for.
    var notified: Int?
  }

  private struct State {
    var nextID = 0
    var registrations: [Int: Registration] = [:]
    var idsByKey: [String: Set<Int>] = [:]
    /// The countdowns that are ready now, for observers that come later.
    var ready: [String: CountdownEvent] = [:]
  }

  private let subscription: Subscription
  private let state = Mutex(State())
  /// Observers that came when their countdown was ready.
  private let late: AsyncStream<(Int, CountdownEvent)>.Continuation

  init(events: CountdownEvents, subscription: Subscription) {
    self.subscription = subscription
    let (latecomers, late) = AsyncStream.makeStream(of: (Int, CountdownEvent).self)
    self.late = late
    Task { [weak self] in
      for await (id, event) in latecomers { self?.notify(id, event) }
    }
    Task { [weak self] in
      do {
        for try await event in events { self?.receive(event) }
      } catch {
        // The subscription is persistent: only a violation of the protocol comes here; see
        // `isOpen`.
      }
    }
  }

  deinit {
    late.finish()
    subscription.finish()
  }

  var isOpen: Bool { !subscription.isStopped }

  func add(key: String, observer: @escaping Observer) -> EventHandle {
    let (id, current) = state.withLock { state in
      state.nextID += 1
      let id = state.nextID
      state.registrations[id] = Registration(key: key, observer: observer)
      state.idsByKey[key, default: []].insert(id)
      // Under the lock, as below: of a start and an end at once, the later wins.
      if state.idsByKey[key]?.count == 1 { subscription.add(channel: "countdown:" + key) }
      return (id, state.ready[key])
    }
    if let current { late.yield((id, current)) }
    return EventHandle { self.remove(id) }
  }

  private func remove(_ id: Int) {
    // Released outside the lock: an observer may hold another handle.
    let removed: Registration? = state.withLock { state in
      guard let registration = state.registrations.removeValue(forKey: id) else { return nil }
      let key = registration.key
      state.idsByKey[key]?.remove(id)
      if state.idsByKey[key]?.isEmpty == true {
        state.idsByKey[key] = nil
        state.ready[key] = nil
        subscription.remove(channel: "countdown:" + key)
      }
      return registration
    }
    _ = removed
  }

  private func receive(_ event: CountdownEvent) {
    guard event.kind == .countdown else { return }
    let staysReady = event.fields["state"]?.string == "ready"
    let isReady = event.name == .ready || event.name == .snapshot && staysReady
    let ids = state.withLock { state in
      guard let ids = state.idsByKey[event.key] else { return Set<Int>() }
      // Events of the code do not change that.
      if isReady || !staysReady { state.ready[event.key] = isReady ? event : nil }
      return ids
    }
    if isReady { for id in ids.sorted() { notify(id, event) } }
  }

  private func notify(_ id: Int, _ event: CountdownEvent) {
    let observer: Observer? = state.withLock { state in
      guard let registration = state.registrations[id] else { return nil }
      if let last = registration.notified, last == event.generation { return nil }
      state.registrations[id]?.notified = event.generation
      return registration.observer
    }
    if let observer, !observer(event) { remove(id) }
  }
}
