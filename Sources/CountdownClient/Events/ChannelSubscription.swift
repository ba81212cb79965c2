/// A subscription whose channels can change. It waits for a daemon that is not running yet, and
/// continues without a channel that the daemon refuses, at once or when the connection is back. It
/// reports that as `denied`.
///
/// It yields the events of `Client.events(_:since:)`, until `close()` or its release. It throws if
/// the daemon refuses the client, and after a protocol violation.
public final class ChannelSubscription: Sendable {
  /// The events of all channels. Iterate them once.
  public let events: CountdownEvents
  private let subscription: Subscription

  init(_ events: CountdownEvents, _ subscription: Subscription) {
    self.events = events
    self.subscription = subscription
  }

  deinit { subscription.finish() }

  /// Subscribes to a channel. A `snapshot` follows, even if the channel was already subscribed.
  public func add(_ channel: EventChannel) { subscription.add(channel: channel.name) }

  /// Unsubscribes from a channel. Events already in transit still arrive.
  public func remove(_ channel: EventChannel) { subscription.remove(channel: channel.name) }
}
