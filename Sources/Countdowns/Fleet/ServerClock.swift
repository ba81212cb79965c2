/// Bounds of the time on a server's clock. Deadlines are on that clock: they begin at the latest
/// time that it may show, and are over at the earliest, so nothing is early.
///
/// Each answer bounds how far the server's clock is ahead of this host's boot clock: at least by
/// the server's time less the time at which the answer came, at most by the server's time less the
/// time at which the question was sent. The best bounds stay valid, but for the drift between the
/// two clocks. So the bounds are about the fastest round trip apart.
struct ServerClock {
  private struct Bound {
    /// How far the server's clock is ahead, in microseconds.
    let ahead: Int64
    /// When this may have been so, on the boot clock.
    let since: Int64

    /// The most that the two clocks have drifted apart meanwhile, at 200 parts per million.
    func drift(at boot: Int64) -> Int64 { max(boot - since, 0) / 1_000_000 * 200 }
  }

  private let maximumSkew: Int64
  private var least: Bound?
  private var maximum: Bound?
  /// The latest time returned. If the server's clock goes back, time stops, but never goes back.
  private var last = Int64.min
  /// Whether the server's clock was set too far forward, or a server with such a clock has taken
  /// over. Then nothing is decided until it is back.
  private(set) var isTooFarAhead = false

  init(maximumSkew: Interval) { self.maximumSkew = maximumSkew.microseconds }

  private func leastAhead(at boot: Int64) -> Int64? { least.map { $0.ahead - $0.drift(at: boot) } }

  private func maximumAhead(at boot: Int64) -> Int64? {
    maximum.map { $0.ahead + $0.drift(at: boot) }
  }

  /// Returns a time that the server's clock has reached; nil before the first answer.
  mutating func now(at boot: Int64) -> Int64? {
    guard let ahead = leastAhead(at: boot) else { return nil }
    last = max(last, boot + ahead)
    return last
  }

  /// Returns a time that the server's clock has not passed; nil before the first answer.
  mutating func latest(at boot: Int64) -> Int64? {
    guard let now = now(at: boot), let ahead = maximumAhead(at: boot) else { return nil }
    return max(now, boot + ahead)
  }

  /// Notes that the server's clock showed `engine` between these two times on the boot clock.
  mutating func note(_ engine: Int64, sent: Int64, received: Int64) {
    let lower = Bound(ahead: engine - received, since: received)
    // The server may have shown it at once, and the clocks have drifted apart since then.
    let upper = Bound(ahead: engine - sent, since: sent)
    guard let known = leastAhead(at: received), let limit = maximumAhead(at: received) else {
      (least, maximum) = (lower, upper)
      return
    }
    // A late answer shows less than the clock does, so only what it cannot have been counts.
    isTooFarAhead = lower.ahead > limit + maximumSkew
    guard !isTooFarAhead else { return }
    // If it was less far ahead even at `sent`, it was set back, or is another server's clock.
    if lower.ahead > known || upper.ahead < known { least = lower }
    // If it was further ahead even at `received`, it was set forward.
    if upper.ahead < limit || lower.ahead > limit { maximum = upper }
  }

  /// Notes that the server's clock had reached `engine` by this time on the boot clock.
  mutating func note(atLeast engine: Int64, at boot: Int64) {
    let lower = Bound(ahead: engine - boot, since: boot)
    guard let known = leastAhead(at: boot), lower.ahead > known, lower.ahead <= known + maximumSkew
    else { return }
    least = lower
  }

  /// Returns how far the server's clock is ahead of the boot clock, to convert its times.
  mutating func offset(at boot: Int64) -> Int64? { now(at: boot).map { $0 - boot } }
}
