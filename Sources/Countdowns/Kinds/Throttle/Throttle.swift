/// A rate limit: BURST at once, and RATE in the long run, by an exact generic cell rate algorithm.
///
///     (nothing) --taken--> used --taken--> used (more)
///     used --refused--> used (unchanged)
///     used --REFUND, time--> used (less) | (nothing: all of BURST is available again)
///
/// The only state is the theoretical arrival time: the instant at which everything used is
/// available again. One use moves it by `period`/`count`, which need not be a whole number of
/// microseconds, so it is stored as whole microseconds and a fraction with the denominator `count`.
/// Only a change of rate rounds it: any span of time allows exactly what BURST and RATE specify.
///
/// Source: ITU-T I.371, annex A (the virtual scheduling algorithm).
package struct Throttle: Guard {
  /// `burst` at once, and `count` more in each `period`.
  package struct Rate: Hashable, Sendable {
    /// The maximum of BURST, of the count of RATE and of COST.
    package static let maximum: Int64 = 1_000_000_000

    package let burst: UInt32
    package let count: UInt32
    package let period: Interval

    /// Returns nil unless both numbers are 1 to `most`, the period is 1 ms to 3650 d, and an
    /// exhausted burst is full again within 3650 d.
    package init?(burst: Int64, count: Int64, period: Interval) {
      guard (1...Self.maximum).contains(burst), (1...Self.maximum).contains(count),
        period >= .milliseconds(1), period <= .longest
      else { return nil }
      let refill = UInt128(burst) * UInt128(period.microseconds)
      guard refill <= UInt128(Interval.longest.microseconds) * UInt128(count) else { return nil }
      self.burst = UInt32(burst)
      self.count = UInt32(count)
      self.period = period
    }

    /// The time in which a whole burst comes back, rounded up.
    var fullTime: Interval { time(of: full) }

    /// One use and a whole burst, in units of 1/`count` µs.
    fileprivate var use: UInt128 { UInt128(period.microseconds) }
    fileprivate var full: UInt128 { UInt128(burst) * use }

    /// Returns the time in which `parts`, each 1/`count` µs, come back, rounded up.
    fileprivate func time(of parts: UInt128) -> Interval {
      Interval(microseconds: Int64((parts + UInt128(count) - 1) / UInt128(count)))
    }
  }

  /// The answer to a request of some cost.
  package struct Answer: Equatable, Sendable {
    package var isAccepted: Bool
    /// The number of uses still available.
    package var remaining: Int64
    /// The shortest wait until a request of this cost is accepted; zero if this one was.
    package var retryAfter: Interval
    /// The time until all of BURST is available, rounded up.
    package var resetAfter: Interval
  }

  package private(set) var rate: Rate
  /// The theoretical arrival time: `arrival` plus `fraction`/`rate.count` of a microsecond.
  package private(set) var arrival: Instant
  package private(set) var fraction: UInt32
  /// What a limit with named rules has besides: windows, and the sends in them.
  private var rest = OptionalDetails<Limit>()

  /// Creates an unused rate limit.
  package init(_ rate: Rate, at now: Instant) {
    self.rate = rate
    arrival = now
    fraction = 0
  }

  /// Restores a rate limit. Returns nil unless `fraction` is below `rate.count`.
  package init?(_ rate: Rate, arrival: Instant, fraction: UInt32) {
    guard fraction < rate.count else { return nil }
    self.rate = rate
    self.arrival = arrival
    self.fraction = fraction
  }

  // MARK: Inputs

  /// Uses `cost` if that much is available; otherwise changes nothing.
  ///
  /// - Precondition: `cost` is 1 to `rate.burst`.
  package mutating func take(_ cost: UInt32, at now: Instant) -> Answer {
    let answer = answer(to: cost, at: now)
    guard answer.isAccepted else { return answer }
    use(cost, at: now)
    let used = used(at: now)
    return Answer(
      isAccepted: true, remaining: Int64((rate.full - used) / rate.use), retryAfter: .zero,
      resetAfter: rate.time(of: used))
  }

  /// Uses `cost`, which `take` would accept.
  mutating func use(_ cost: UInt32, at now: Instant) {
    set(used(at: now) + UInt128(cost) * rate.use, at: now)
  }

  /// Gives `cost` back, at most what was used.
  ///
  /// - Parameter taken: when it was taken. What has come back since then is not given back again.
  ///   With nil, all is given back.
  package mutating func refund(_ cost: UInt32, taken: Instant? = nil, at now: Instant) {
    let (used, cost) = (used(at: now), UInt128(cost) * rate.use)
    let passed = taken.map { UInt128(max((now - $0).microseconds, 0)) * UInt128(rate.count) } ?? 0
    set(used - min(used, cost - min(cost, passed)), at: now)
  }

  /// Applies another BURST or RATE from now on. What was used stays used, up to all of the new
  /// BURST, and comes back at the new rate.
  package mutating func change(_ new: Rate, at now: Instant) {
    guard new != rate else { return }
    // Round up, so that changing back and forth gains nothing. More than a burst can only be used
    // if the clock went back or a file is damaged.
    let parts = (min(used(at: now), rate.full) * new.use + rate.use - 1) / rate.use
    rate = new
    set(min(parts, new.full), at: now)
  }

  // MARK: State

  /// Returns whether `take` would accept `cost`, and what is available before it does.
  package func answer(to cost: UInt32, at now: Instant) -> Answer {
    precondition(cost >= 1 && cost <= rate.burst, "what costs more is never accepted")
    let used = used(at: now)
    let wanted = used + UInt128(cost) * rate.use
    return Answer(
      isAccepted: wanted <= rate.full,
      remaining: used >= rate.full ? 0 : Int64((rate.full - used) / rate.use),
      retryAfter: wanted <= rate.full ? .zero : rate.time(of: wanted - rate.full),
      resetAfter: rate.time(of: used))
  }

  /// Returns the answer to a request with another rate, which applies once such a request is
  /// accepted: until then what is used comes back at the rate that there is.
  package func answer(to cost: UInt32, by new: Rate, at now: Instant) -> Answer {
    var changed = self
    changed.change(new, at: now)
    var answer = changed.answer(to: cost, at: now)
    guard !answer.isAccepted, new != rate else { return answer }
    let used = used(at: now)
    answer.retryAfter = rate.time(of: used - min(used, UInt128(new.burst - cost) * rate.use))
    answer.resetAfter = rate.time(of: used)
    return answer
  }

  package var nextExpiry: Instant? { rest.isNone ? emptyRate : nextOfLimit }

  /// When everything used is available again, rounded up to a microsecond.
  var emptyRate: Instant {
    fraction == 0 ? arrival : Instant(microseconds: arrival.microseconds + 1)
  }

  /// Returns when one more use has come back after a moment, rounded up.
  func refill(after moment: Instant) -> Instant { min(moment + rate.time(of: rate.use), emptyRate) }

  /// To change it, use `changeLimit`: while somebody has a copy, its sends are copied as well.
  package internal(set) var limit: Limit? {
    @inline(__always) get { rest.value }
    set { rest.value = newValue }
  }

  var isNamed: Bool { !rest.isNone }
  /// When the limit has room again; nil while it has.
  var roomAt: Instant? { readLimit { $0.roomAt } ?? nil }
  var blockedUntil: Instant? { readLimit { $0.blockedUntil } ?? nil }

  /// Reads the limit in its place; nil if there is none.
  @inline(__always)
  func readLimit<R>(_ body: (borrowing Limit) -> R) -> R? { rest.read(body) }

  /// Changes the limit, which must exist, in its place.
  ///
  /// - Parameter body: receives the rate as well.
  @inline(__always)
  mutating func changeLimit<R>(_ body: (inout Limit, Throttle) -> R) -> R {
    var rate = self
    rate.rest = OptionalDetails()
    return rest.change { body(&$0, rate) }
  }

  // MARK: Parts

  /// Returns what is used, in units of 1/`rate.count` µs, which come back one by one.
  private func used(at now: Instant) -> UInt128 {
    guard arrival >= now else { return 0 }
    return UInt128((arrival - now).microseconds) * UInt128(rate.count) + UInt128(fraction)
  }

  private mutating func set(_ used: UInt128, at now: Instant) {
    let (whole, rest) = used.quotientAndRemainder(dividingBy: UInt128(rate.count))
    arrival = now + Interval(microseconds: Int64(whole))
    fraction = UInt32(rest)
  }
}

extension Throttle {
  package typealias View = ThrottleView
  package static var blank: Throttle {
    Throttle(Rate(burst: 1, count: 1, period: .seconds(1))!, at: .zero)
  }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var (burst, count, period) = (rate.burst, rate.count, rate.period)
    visitor.field("burst", &burst)
    visitor.field("count", &count)
    visitor.interval("period", &period)
    visitor.instant("arrival", &arrival)
    visitor.field("fraction", &fraction)
    var limit = limit
    if visitor.format > EntityRecord.plain {
      visitor.optional("limit", &limit, blank: .blank) { $1.fields(&$0) }
    }
    guard Visitor.isReading else { return }
    guard let rate = Rate(burst: Int64(burst), count: Int64(count), period: period),
      let read = Throttle(rate, arrival: arrival, fraction: fraction)
    else { return visitor.fail() }
    self = read
    guard var limit else { return }
    limit.adopt(rate)
    self.limit = limit
  }

  package var format: UInt8 {
    guard let limit else { return EntityRecord.plain }
    guard limit.sends.isWhole else { return EntityRecord.extended }
    if limit.sends.hasRefunds { return EntityRecord.refundedShared }
    return limit.sends.count == limit.sends.sendCount
      ? EntityRecord.shared : EntityRecord.countedShared
  }
}
