/// A timer that fires once or repeatedly.
///
///     running --deadline--> over (once) | running (repeating)
///     running --pause--> paused --resume--> running
///
/// A repeating timer stays in phase with its first deadline. Missed periods are counted, never
/// replayed in a burst. A one-shot timer has no further period, so it fires however late it is.
///
/// The wall clock can be set back. Then a repeating timer does not wait until the clock is where it
/// was: it fires at the first moment in phase that is at least half a period after it last fired.
package struct PlainTimer: Equatable, Sendable {
  /// What to do about missed periods; no effect on a one-shot timer.
  ///
  /// A period is missed if it is noticed a whole period late, or a second if a period is longer.
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

  /// A period that is noticed this late is missed, however long it is.
  package static let longestDelay = Interval.seconds(1)

  package let every: Interval?
  package var late: Late
  package private(set) var phase: Phase
  package private(set) var fired: Int64 = 0
  package private(set) var missed: Int64 = 0
  /// The earliest moment of the boot clock at which a repeating timer of the wall clock fires if
  /// that is set back. Nil if its deadline stays: on the boot clock, without `every`, while paused,
  /// and until it has fired at a moment that was given.
  package private(set) var soonest: Instant?

  /// Nil if it would repeat more often than once a millisecond.
  package init?(after delay: Interval, every: Interval?, late: Late, at now: Instant) {
    if let every, every < .milliseconds(1) { return nil }
    self.every = every
    self.late = late
    phase = .running(until: now + delay)
  }

  /// Creates a timer that fires at a given moment of the wall clock. Nil as above.
  package init?(at deadline: Instant, every: Interval?, late: Late) {
    self.init(after: .zero, every: every, late: late, at: deadline)
  }

  /// Restores a stored timer. Nil if it would repeat more often than once a millisecond.
  package init?(
    _ phase: Phase, every: Interval?, late: Late, fired: Int64, missed: Int64,
    soonest: Instant? = nil
  ) {
    if let every, every < .milliseconds(1) { return nil }
    self.every = every
    self.late = late
    self.phase = phase
    self.fired = fired
    self.missed = missed
    self.soonest = soonest
  }

  // MARK: Inputs

  /// Begins a period on the wall clock, of which a duration was asked for: as if the timer had
  /// fired one period before its deadline.
  package mutating func beginPeriod(at now: Moment) {
    soonest = nil
    guard case .running(let deadline) = phase, let every else { return }
    soonest = now.boot + (deadline - now.wall - every.half)
  }

  /// Follows the wall clock if that was set back. Returns whether the deadline has changed.
  package mutating func follow(_ now: Moment) -> Bool {
    guard case .running(let deadline) = phase, let every, let soonest else { return false }
    let earliest = max(now.wall, now.wall + (soonest - now.boot))
    guard deadline - earliest >= every else { return false }
    let periods = (deadline - earliest).microseconds / every.microseconds
    phase = .running(until: deadline + every * -periods)
    return true
  }

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
  ///
  /// - Parameter boot: the time of the boot clock, for a timer of the wall clock.
  package mutating func expire(at now: Instant, boot: Instant? = nil) -> Firing? {
    guard case .running(let deadline) = phase, now >= deadline else { return nil }
    guard let every else {
      fired += 1
      return Firing(due: deadline, missed: 0, last: true)
    }
    let unseen = (now - deadline).microseconds / every.microseconds
    phase = .running(until: deadline + every * (unseen + 1))
    if late == .skip, now - deadline >= min(every, Self.longestDelay) {
      missed += unseen + 1
      // Those that were missed by now do not come again at this very moment.
      soonest = boot.map { max($0 + Interval(microseconds: 1), soonest ?? $0) }
      return nil
    }
    soonest = boot.map { $0 + (every - every.half) }
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

extension Interval {
  /// Half of it, rounded down.
  fileprivate var half: Interval { Interval(microseconds: microseconds / 2) }
}
