/// A subscription whose channels change while it lasts. It survives everything but `close()`: also
/// a daemon that does not run yet, and one that refuses a channel.
///
/// Its events are those of `CountdownClient.events(channels:patterns:)`. It ends when it is
/// released.
public final class ChannelSubscription: Sendable {
  /// Iterate them once.
  public let events: CountdownEvents
  private let subscription: Subscription

  init(_ events: CountdownEvents, _ subscription: Subscription) {
    self.events = events
    self.subscription = subscription
  }

  deinit { subscription.finish() }

  /// Subscribes to a channel: a `snapshot` follows, also if it was subscribed to before.
  public func add(_ channel: String) { subscription.add(channel: channel) }

  /// Unsubscribes from a channel. Events that are under way still come.
  public func remove(_ channel: String) { subscription.remove(channel: channel) }
}
