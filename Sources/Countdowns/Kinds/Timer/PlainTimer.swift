/// A timer that fires once or repeatedly.
///
///     running --deadline--> over (once) | running (repeating)
///     running --pause--> paused --resume--> running
///
/// A repeating timer stays in phase with its first deadline. Missed periods are counted, never
/// replayed in a burst. A one-shot timer has no further period, so it fires however late it is.
package struct PlainTimer: Equatable, Sendable {
  /// What to do about missed periods; no effect on a one-shot timer.
  package enum Late: String, CaseIterable, Sendable {
    /// Fire once, for the first missed period.
    case fire
    /// Do not fire for them; continue with the next period.
    case skip
    /// Fire once, for the newest missed period.
    case coalesce
  }

  package enum Phase: Equatable, Sendable {
    case running(until: Instant)
    case paused(left: Interval)
  }

  package struct Firing: Equatable, Sendable {
    /// The deadline of the period for which it fires.
    package var due: Instant
    /// The number of missed periods, not counting the one for which it fires.
    package var missed: Int64
    /// Whether the timer is over.
    package var last: Bool
  }

  package let every: Interval?
  package let late: Late
  package private(set) var phase: Phase
  package private(set) var fired: Int64 = 0
  package private(set) var missed: Int64 = 0

  /// Nil if it would repeat more often than once a millisecond.
  package init?(after delay: Interval, every: Interval?, late: Late, at now: Instant) {
    if let every, every < .milliseconds(1) { return nil }
    self.every = every
    self.late = late
    phase = .running(until: now + delay)
  }

  /// Restores a stored timer. Nil if it would repeat more often than once a millisecond.
  package init?(_ phase: Phase, every: Interval?, late: Late, fired: Int64, missed: Int64) {
    if let every, every < .milliseconds(1) { return nil }
    self.every = every
    self.late = late
    self.phase = phase
    self.fired = fired
    self.missed = missed
  }

  // MARK: Inputs

  /// Pauses a running timer. If the clock was set back, the time left may exceed
  /// `Interval.longest`, which caps it.
  package mutating func pause(at now: Instant) {
    if case .running = phase { phase = .paused(left: min(remainingTime(at: now), .longest)) }
  }

  package mutating func resume(at now: Instant) {
    if case .paused(let left) = phase { phase = .running(until: now + left) }
  }

  package mutating func retime(_ left: Interval, at now: Instant) {
    switch phase {
    case .paused where left > .zero: phase = .paused(left: left)
    // A timer with no time left cannot be paused.
    case .running, .paused: phase = .running(until: now + left)
    }
  }

  /// Advances to `now`. Returns nil if nothing fires.
  package mutating func expire(at now: Instant) -> Firing? {
    guard case .running(let deadline) = phase, now >= deadline else { return nil }
    guard let every else {
      fired += 1
      return Firing(due: deadline, missed: 0, last: true)
    }
    let unseen = (now - deadline).microseconds / every.microseconds
    phase = .running(until: deadline + every * (unseen + 1))
    if late == .skip, unseen > 0 {
      missed += unseen + 1
      return nil
    }
    fired += 1
    missed += unseen
    return Firing(
      due: late == .coalesce ? deadline + every * unseen : deadline, missed: unseen, last: false)
  }

  // MARK: State

  package var nextExpiry: Instant? {
    switch phase {
    case .running(let deadline): deadline
    case .paused: nil
    }
  }

  package func remainingTime(at now: Instant) -> Interval {
    switch phase {
    case .running(let deadline): max(deadline - now, .zero)
    case .paused(let left): left
    }
  }
}
