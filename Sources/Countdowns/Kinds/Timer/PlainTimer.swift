/// Something due later, once or again and again.
///
///     running --deadline--> over (once) | running (repeating)
///     running --pause--> paused --resume--> running
///
/// A repeating timer stays in phase with its first deadline. Periods that passed unseen are
/// counted, never replayed in a burst. What fires once has no further period, so it
/// fires however late it is.
package struct PlainTimer: Equatable, Sendable {
  /// What to do about periods that were missed; nothing for what fires once.
  package enum Late: String, CaseIterable, Sendable {
    /// Fire once, for the first that was missed.
    case fire
    /// Fire nothing for them; continue with the next period.
    case skip
    /// Fire once, for the newest.
    case coalesce
  }

  package enum Phase: Equatable, Sendable {
    case running(until: Instant)
    case paused(left: Interval)
  }

  package struct Firing: Equatable, Sendable {
    /// The deadline it stands for.
    package var due: Instant
    /// Periods that passed unseen since the last firing, this one not counted.
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

  /// As it was kept. Nil if it would repeat more often than once a millisecond.
  package init?(_ phase: Phase, every: Interval?, late: Late, fired: Int64, missed: Int64) {
    if let every, every < .milliseconds(1) { return nil }
    self.every = every
    self.late = late
    self.phase = phase
    self.fired = fired
    self.missed = missed
  }

  // MARK: Inputs

  /// Where the clock was set back, more may be left than anything may last: the longest is kept.
  package mutating func pause(at now: Instant) {
    if case .running = phase { phase = .paused(left: min(remainingTime(at: now), .longest)) }
  }

  package mutating func resume(at now: Instant) {
    if case .paused(let left) = phase { phase = .running(until: now + left) }
  }

  package mutating func retime(_ left: Interval, at now: Instant) {
    switch phase {
    case .paused where left > .zero: phase = .paused(left: left)
    // With nothing left to go there is nothing to be paused.
    case .running, .paused: phase = .running(until: now + left)
    }
  }

  /// Time has passed to `now`; nil when nothing is to be fired.
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

  // MARK: What is so

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
