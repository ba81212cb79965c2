/// What a server's clock says at least: deadlines are on that clock, and by it nothing is early.
///
/// Each answer of the server bounds how far its clock is ahead of this host's boot clock: at least
/// by the time that it tells less the time at which the answer came. The best bound holds for
/// later, less what the two clocks may have drifted apart. So the machines' time is late by about
/// the fastest round trip, never early.
struct ServerClock {
  /// Parts in a million by which two clocks may run apart.
  private static let drift: Int64 = 200

  private let maximumSkew: Int64
  /// The best bound, and when it was found out on the boot clock.
  private var best: (ahead: Int64, since: Int64)?
  /// Time never goes back, whatever the server's clock does: then it stops.
  private var last = Int64.min
  /// The server's clock was set forward by more than may be: nothing is decided until it is back.
  private(set) var isTooFarAhead = false

  init(maximumSkew: Interval) { self.maximumSkew = maximumSkew.microseconds }

  private func ahead(at boot: Int64) -> Int64? { best.map { $0.ahead - drift(at: boot) } }

  /// How far the clocks may have drifted apart since the best bound was found out.
  private func drift(at boot: Int64) -> Int64 {
    best.map { max(boot - $0.since, 0) / 1_000_000 * Self.drift } ?? 0
  }

  /// The time on the server's clock, or less; nil before the first answer.
  mutating func now(at boot: Int64) -> Int64? {
    guard let ahead = ahead(at: boot) else { return nil }
    last = max(last, boot + ahead)
    return last
  }

  /// The server's clock said that, between these two times on the boot clock.
  mutating func note(_ engine: Int64, sent: Int64, received: Int64) {
    let atLeast = engine - received
    guard let best, let ahead = ahead(at: received) else {
      self.best = (atLeast, received)
      return
    }
    isTooFarAhead = atLeast > best.ahead + drift(at: received) + maximumSkew
    guard !isTooFarAhead else { return }
    // Where it was less ahead even when it was asked, it was set back, or is another server's.
    if atLeast > ahead || engine - sent < ahead {
      self.best = (atLeast, received)
    }
  }

  /// The server's clock had reached that before this time on the boot clock.
  mutating func note(atLeast engine: Int64, at boot: Int64) {
    let atLeast = engine - boot
    guard let ahead = ahead(at: boot), atLeast > ahead, atLeast <= ahead + maximumSkew else {
      return
    }
    best = (atLeast, boot)
  }

  /// By how much it is ahead of the boot clock, for what is put on that.
  mutating func offset(at boot: Int64) -> Int64? { now(at: boot).map { $0 - boot } }
}
