/// A lower bound of the time on a server's clock. Deadlines are on that clock, so nothing is early.
///
/// Each answer bounds how far the server's clock is ahead of this host's boot clock: at least by
/// the server's time less the time at which the answer came. The best bound stays valid, less the
/// drift between the two clocks. So this time is late by about the fastest round trip, never early.
struct ServerClock {
  /// The most that two clocks drift apart, in parts per million.
  private static let drift: Int64 = 200

  private let maximumSkew: Int64
  /// The best bound, and when it was found on the boot clock.
  private var best: (ahead: Int64, since: Int64)?
  /// The latest time returned. If the server's clock goes back, time stops, but never goes back.
  private var last = Int64.min
  /// Whether the server's clock was set too far forward. Then nothing is decided until it is back.
  private(set) var isTooFarAhead = false

  init(maximumSkew: Interval) { self.maximumSkew = maximumSkew.microseconds }

  private func ahead(at boot: Int64) -> Int64? { best.map { $0.ahead - drift(at: boot) } }

  /// Returns how far the clocks may have drifted apart since the best bound was found.
  private func drift(at boot: Int64) -> Int64 {
    best.map { max(boot - $0.since, 0) / 1_000_000 * Self.drift } ?? 0
  }

  /// Returns a time that the server's clock has reached; nil before the first answer.
  mutating func now(at boot: Int64) -> Int64? {
    guard let ahead = ahead(at: boot) else { return nil }
    last = max(last, boot + ahead)
    return last
  }

  /// Notes that the server's clock showed `engine` between these two times on the boot clock.
  mutating func note(_ engine: Int64, sent: Int64, received: Int64) {
    let atLeast = engine - received
    guard let best, let ahead = ahead(at: received) else {
      self.best = (atLeast, received)
      return
    }
    isTooFarAhead = atLeast > best.ahead + drift(at: received) + maximumSkew
    guard !isTooFarAhead else { return }
    // If it was less far ahead even at `sent`, it was set back, or is another server's clock.
    if atLeast > ahead || engine - sent < ahead {
      self.best = (atLeast, received)
    }
  }

  /// Notes that the server's clock had reached `engine` by this time on the boot clock.
  mutating func note(atLeast engine: Int64, at boot: Int64) {
    let atLeast = engine - boot
    guard let ahead = ahead(at: boot), atLeast > ahead, atLeast <= ahead + maximumSkew else {
      return
    }
    best = (atLeast, boot)
  }

  /// Returns how far the server's clock is ahead of the boot clock, to convert its times.
  mutating func offset(at boot: Int64) -> Int64? { now(at: boot).map { $0 - boot } }
}
