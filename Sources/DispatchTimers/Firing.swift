/// How late a callback is called, and how many periods it missed.
public struct Firing: Equatable, Sendable {
  /// The time from the deadline to the call, by the timer's clock. Never negative. Includes the
  /// step of a wall clock that was set forward past the deadline.
  public var lateness: Duration

  /// The number of further periods of a repeating timer that passed before this call, because the
  /// queue was busy, the machine asleep or the clock set forward. The timer does not make up for
  /// them. 0 for a timer that fires once.
  public var missed: Int

  /// The deadline, in microseconds of the timer's clock.
  package var deadline: UInt64

  package init(lateness: Duration, missed: Int, deadline: UInt64) {
    self.lateness = lateness
    self.missed = missed
    self.deadline = deadline
  }
}

/// The deadlines of a timer, in microseconds of its clock.
package struct Phase: Sendable {
  /// The next deadline.
  package private(set) var deadline: UInt64
  /// The time from one deadline to the next; 0 for a timer that fires once.
  package let interval: UInt64

  package init(deadline: UInt64, interval: UInt64) {
    self.deadline = deadline
    self.interval = interval
  }

  /// - Parameter interval: rounded up to a microsecond; nil for a timer that fires once.
  ///   - Precondition: greater than zero.
  init(deadline: UInt64, every interval: Duration?) {
    if let interval { precondition(interval > .zero, "a timer that repeats needs time in between") }
    self.init(deadline: deadline, interval: interval?.microsecondsRoundedUp ?? 0)
  }

  /// Returns the firing of a timer that fires once.
  static func once(_ deadline: UInt64, at now: UInt64) -> Firing {
    Firing(lateness: .microseconds(exactly: now - deadline), missed: 0, deadline: deadline)
  }

  /// Moves the next deadline; the following ones count from it.
  mutating func move(to deadline: UInt64) { self.deadline = deadline }

  /// Returns the firing for a call at `now`, which is not before the deadline, and moves the phase
  /// to the first deadline after `now`. Deadlines count from the first one, so lateness does not
  /// add up.
  package mutating func fire(at now: UInt64) -> Firing {
    let late = now - deadline
    let missed = interval == 0 ? 0 : late / interval
    let firing = Firing(
      lateness: .microseconds(exactly: late), missed: Int(missed), deadline: deadline)
    if interval > 0 {
      let (next, never) = (deadline + missed * interval).addingReportingOverflow(interval)
      deadline = never ? .max : next
    }
    return firing
  }
}
