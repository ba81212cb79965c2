/// A suspend of the machine. Whoever renews a lease slept as well, so a lease that was running when
/// it began expires no sooner than a moment after it: its TTL, at most ten seconds.
package struct Suspension: Equatable, Sendable {
  /// The longest moment after a suspend.
  package static let longestGrace = Interval.seconds(10)

  /// The last time before it, and the first time after it, on the boot clock.
  private var (from, until) = (Instant(microseconds: .max), Instant.zero)

  /// Creates one that was never.
  package init() {}

  package init(from: Instant, until: Instant) { (self.from, self.until) = (from, until) }

  /// Returns when a lease expires that would expire at `end`.
  ///
  /// - Parameter ttl: how long it runs each time that it is renewed; zero if nobody renews it.
  package func end(of end: Instant, lasting ttl: Interval) -> Instant {
    guard end > from, ttl > .zero else { return end }
    return max(end, until + min(ttl, Self.longestGrace))
  }
}
