/// The receivers of an event. Events with the same receivers can share one.
package final class Audience: Sendable {
  /// Connections that subscribed to the channel itself.
  package let subscribers: [UInt64]
  /// Connections that subscribed to a pattern the channel matches.
  package let patterns: [(pattern: [UInt8], subscribers: [UInt64])]

  /// Stands for whoever is found when the event is delivered.
  static let later = Audience(subscribers: [])

  init(
    subscribers: [UInt64], patterns: [(pattern: [UInt8], subscribers: [UInt64])] = []
  ) {
    self.subscribers = subscribers
    self.patterns = patterns
  }
}
