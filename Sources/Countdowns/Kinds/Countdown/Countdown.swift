/// A countdown for verification codes: may a code be sent now, and how long until the next?
///
///     (nothing) --start--> counting --deadline--> ready --start--> counting
///     counting --pause--> paused --resume--> counting
///     ready --kept long enough--> forgotten
///     any --cancel--> idle --start--> counting    (idle: only where a policy remembers what was sent)
///
/// The steps left are computed from the deadline, never by counting ticks, so nothing can drift
/// and a late tick shows the right number. While it counts or is paused, `start` is refused and
/// changes nothing.
package struct Countdown: Equatable, Sendable {
  /// How long it counts: `count` steps of `every`.
  package struct Plan: Hashable, Sendable {
    package var count: UInt32
    package var every: Interval
    /// Counts the first step at once, as `-[NSTimer fire]` does: one step less to wait for.
    package var firesAtOnce: Bool

    /// Nil if it would last longer than `Interval.longest`, or a step less than a millisecond.
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

  /// What the passing of time did.
  package enum Expiry: Equatable, Sendable {
    /// A step is over, more are left.
    case tick
    case ready
    /// It has been ready or idle for as long as it is kept; nothing about it matters any more.
    case forgotten
  }

  package private(set) var plan: Plan
  package private(set) var phase: Phase
  /// The last start was given back.
  package private(set) var isRefunded = false
  /// Starts that were accepted, and not given back.
  package private(set) var sends: UInt32 = 1

  /// The first start of a key is always accepted, and is what the cooldown counts from.
  package init(_ plan: Plan, at now: Instant) {
    self.plan = plan
    phase = .counting(until: now + plan.duration)
  }

  /// As it was kept.
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

  /// The last start failed: the countdown is ready at once, as if it had not started. Returns false
  /// if it was refunded before.
  package mutating func refund(at now: Instant) -> Bool {
    guard !isRefunded else { return false }
    isRefunded = true
    sends &-= 1
    if isPending { phase = .counting(until: now) }
    return true
  }

  /// Ends it without its becoming ready. False if it was cancelled before.
  package mutating func cancel(at now: Instant) -> Bool {
    if case .idle = phase { return false }
    phase = .idle(since: now)
    return true
  }

  /// Counts on until then, at least.
  package mutating func hold(until moment: Instant) {
    if case .counting(let deadline) = phase { phase = .counting(until: max(deadline, moment)) }
  }

  /// False when there is nothing to pause: nothing counts.
  package mutating func pause(at now: Instant) -> Bool {
    switch phase {
    case .counting: phase = .paused(left: remainingTime(at: now))
    case .paused: break
    case .ready, .idle: return false
    }
    return true
  }

  /// False when there is nothing to resume: nothing counts.
  package mutating func resume(at now: Instant) -> Bool {
    switch phase {
    case .paused(let left): phase = .counting(until: now + left)
    case .counting: break
    case .ready, .idle: return false
    }
    return true
  }

  /// Makes it end `left` from now, or leaves `left` to go while paused: with nothing left to go
  /// there is nothing to be paused. False when nothing counts.
  package mutating func retime(_ left: Interval, at now: Instant) -> Bool {
    switch phase {
    case .counting: phase = .counting(until: now + left)
    case .paused where left > .zero: phase = .paused(left: left)
    case .paused: phase = .counting(until: now)
    case .ready, .idle: return false
    }
    return true
  }

  /// Time has passed to `now`; nil when that means nothing.
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

  // MARK: What is so

  /// Whether a start is refused: it counts or is paused.
  package var isPending: Bool {
    switch phase {
    case .counting, .paused: true
    case .ready, .idle: false
    }
  }

  /// Whether steps of it end.
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

  /// The steps left, the one that is running included: the number to show.
  package func remainingSteps(at now: Instant) -> Int64 {
    let every = plan.every.microseconds
    return (remainingTime(at: now).microseconds + every - 1) / every
  }

  /// When time next means something: nil while paused. Ticks matter only if anybody watches.
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
