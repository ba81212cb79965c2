/// A countdown for verification codes: may a code be sent now, and how long until the next?
///
///     (nothing) --start--> counting --deadline--> ready --start--> counting
///     counting --pause--> paused --resume--> counting
///     ready --kept long enough--> forgotten
///     any --cancel--> idle --start--> counting    (idle: only with sends under a policy)
///
/// The steps left are computed from the deadline, never by counting ticks, so nothing can drift
/// and a late tick shows the right number. While it counts or is paused, `start` is refused and
/// changes nothing.
package struct Countdown: Equatable, Sendable {
  /// The length of a countdown: `count` steps of `every`.
  package struct Plan: Hashable, Sendable {
    package var count: UInt32
    package var every: Interval
    /// Whether the first step counts at once, as with `-[NSTimer fire]`: one step less to wait for.
    package var firesAtOnce: Bool

    /// Returns nil for a `count` outside 1...`Int32.max`, a step under 1 ms, or more than
    /// `Interval.longest` in total.
    package init?(count: UInt32, every: Interval, firesAtOnce: Bool = false) {
      guard count >= 1, count <= UInt32(Int32.max), every >= .milliseconds(1) else { return nil }
      let (total, overflow) = every.microseconds.multipliedReportingOverflow(by: Int64(count))
      guard !overflow, total <= Interval.longest.microseconds else { return nil }
      self.count = count
      self.every = every
      self.firesAtOnce = firesAtOnce
    }

    package var duration: Interval { every * Int64(firesAtOnce ? count - 1 : count) }
  }

  package enum Phase: Equatable, Sendable {
    case counting(until: Instant)
    case paused(left: Interval)
    case ready(since: Instant)
    /// Cancelled: nothing counts, and nothing is shown.
    case idle(since: Instant)
  }

  package enum Decision: Equatable, Sendable { case accepted, refused }

  /// An effect of the passage of time.
  package enum Expiry: Equatable, Sendable {
    /// A step is over, and more are left.
    case tick
    case ready
    /// It was ready or idle for as long as it is retained.
    case forgotten
  }

  package private(set) var plan: Plan
  package private(set) var phase: Phase
  /// Whether the last start was refunded.
  package private(set) var isRefunded = false
  /// The number of accepted starts that were not refunded.
  package private(set) var sends: UInt32 = 1

  /// Starts a key for the first time, which is always accepted; the cooldown begins.
  package init(_ plan: Plan, at now: Instant) {
    self.plan = plan
    phase = .counting(until: now + plan.duration)
  }

  /// Restores a stored countdown.
  package init(_ plan: Plan, _ phase: Phase, sends: UInt32, isRefunded: Bool) {
    self.plan = plan
    self.phase = phase
    self.sends = sends
    self.isRefunded = isRefunded
  }

  // MARK: Inputs

  package mutating func start(_ plan: Plan, at now: Instant) -> Decision {
    guard !isPending else { return .refused }
    self.plan = plan
    phase = .counting(until: now + plan.duration)
    isRefunded = false
    sends &+= 1
    return .accepted
  }

  /// Refunds the last start: the countdown is ready at once, as if it had not started. Returns
  /// false if it was refunded before.
  package mutating func refund(at now: Instant) -> Bool {
    guard !isRefunded else { return false }
    isRefunded = true
    // Its sends may have started over since.
    if sends > 0 { sends -= 1 }
    if isPending { phase = .counting(until: now) }
    return true
  }

  /// Ends it without making it ready. Returns false if it was cancelled before.
  package mutating func cancel(at now: Instant) -> Bool {
    if case .idle = phase { return false }
    phase = .idle(since: now)
    return true
  }

  /// Extends a countdown that counts, so that it ends at `moment` or later.
  package mutating func hold(until moment: Instant) {
    if case .counting(let deadline) = phase { phase = .counting(until: max(deadline, moment)) }
  }

  /// Makes it count until `moment` or later, also if it was ready.
  package mutating func wait(until moment: Instant) {
    if case .ready = phase { phase = .counting(until: moment) } else { hold(until: moment) }
  }

  /// Ends a countdown that only counts on for somebody else's sake, without an event.
  package mutating func endWait(at now: Instant) {
    if case .counting = phase { phase = .ready(since: now) }
  }

  /// Returns false if there is nothing to pause: it is ready or idle.
  package mutating func pause(at now: Instant) -> Bool {
    switch phase {
    case .counting: phase = .paused(left: remainingTime(at: now))
    case .paused: break
    case .ready, .idle: return false
    }
    return true
  }

  /// Returns false if there is nothing to resume: it is ready or idle.
  package mutating func resume(at now: Instant) -> Bool {
    switch phase {
    case .paused(let left): phase = .counting(until: now + left)
    case .counting: break
    case .ready, .idle: return false
    }
    return true
  }

  /// Makes it end `left` from now; if it is paused, sets its remaining time, and zero also resumes
  /// it. Returns false if it is ready or idle.
  package mutating func retime(_ left: Interval, at now: Instant) -> Bool {
    switch phase {
    case .counting: phase = .counting(until: now + left)
    case .paused where left > .zero: phase = .paused(left: left)
    case .paused: phase = .counting(until: now)
    case .ready, .idle: return false
    }
    return true
  }

  /// Advances to `now`, and returns the effect; nil if there is none.
  package mutating func expire(at now: Instant, kept: Interval) -> Expiry? {
    switch phase {
    case .counting(let deadline):
      guard now >= deadline else { return .tick }
      phase = .ready(since: deadline)
      return .ready
    case .ready(let since), .idle(let since):
      return now >= since + kept ? .forgotten : nil
    case .paused:
      return nil
    }
  }

  // MARK: State

  /// Whether it counts or is paused, so that a start is refused.
  package var isPending: Bool {
    switch phase {
    case .counting, .paused: true
    case .ready, .idle: false
    }
  }

  /// Whether it counts, so that its steps end.
  package var ticks: Bool {
    if case .counting = phase { true } else { false }
  }

  package func remainingTime(at now: Instant) -> Interval {
    switch phase {
    case .counting(let deadline): max(deadline - now, .zero)
    case .paused(let left): left
    case .ready, .idle: .zero
    }
  }

  /// Returns the steps left, including the current one: the number to show.
  package func remainingSteps(at now: Instant) -> Int64 {
    let every = plan.every.microseconds
    return (remainingTime(at: now).microseconds + every - 1) / every
  }

  /// Returns when time next has an effect; nil while paused. Ticks are included only if `watched`.
  package func nextExpiry(at now: Instant, watched: Bool, kept: Interval) -> Instant? {
    switch phase {
    case .counting(let deadline):
      guard watched else { return deadline }
      let stepsAfterNext = max(remainingSteps(at: now) - 1, 0)
      return deadline + plan.every * -stepsAfterNext
    case .ready(let since), .idle(let since): return since + kept
    case .paused: return nil
    }
  }
}
