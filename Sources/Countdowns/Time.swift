/// A moment on one clock, in microseconds since that clock began. State machines receive it from
/// their caller; they never read a clock.
package struct Instant: Hashable, Comparable, Sendable {
  package var microseconds: Int64

  package init(microseconds: Int64) { self.microseconds = microseconds }

  package static let zero = Instant(microseconds: 0)

  package static func < (a: Instant, b: Instant) -> Bool { a.microseconds < b.microseconds }
  package static func + (a: Instant, b: Interval) -> Instant {
    Instant(microseconds: a.microseconds + b.microseconds)
  }
  package static func - (a: Instant, b: Instant) -> Interval {
    Interval(microseconds: a.microseconds - b.microseconds)
  }
}

/// A length of time in whole microseconds.
package struct Interval: Hashable, Comparable, Sendable {
  package var microseconds: Int64

  package init(microseconds: Int64) { self.microseconds = microseconds }

  package static let zero = Interval(microseconds: 0)
  /// The longest that anything may last: 3650 days. A sum of a few never reaches 2⁶³ µs.
  package static let longest = Interval.days(3650)

  package static func milliseconds(_ n: Int64) -> Interval { Interval(microseconds: n * 1_000) }
  package static func seconds(_ n: Int64) -> Interval { Interval(microseconds: n * 1_000_000) }
  package static func days(_ n: Int64) -> Interval { .seconds(n * 86_400) }

  /// Whole milliseconds, rounded up: never 0 while anything is left.
  package var millisecondsRoundedUp: Int64 { (microseconds + 999) / 1_000 }

  package static func < (a: Interval, b: Interval) -> Bool { a.microseconds < b.microseconds }
  package static func + (a: Interval, b: Interval) -> Interval {
    Interval(microseconds: a.microseconds + b.microseconds)
  }
  package static func - (a: Interval, b: Interval) -> Interval {
    Interval(microseconds: a.microseconds - b.microseconds)
  }
  package static func * (a: Interval, n: Int64) -> Interval {
    Interval(microseconds: a.microseconds * n)
  }
}

/// A number that tells the starts under one key apart. It rises across the whole daemon.
package struct Generation: Hashable, Comparable, Sendable {
  package var value: Int64

  package init(_ value: Int64) { self.value = value }

  package static func < (a: Generation, b: Generation) -> Bool { a.value < b.value }
}

/// The clock of a deadline.
package enum TimerClock: String, CaseIterable, Sendable {
  case boot, wall
}

extension Moment {
  func on(_ clock: TimerClock) -> Instant {
    switch clock {
    case .boot: boot
    case .wall: wall
    }
  }

  func unixMilliseconds(of instant: Instant, on clock: TimerClock) -> Int64 {
    switch clock {
    case .boot: unixMilliseconds(of: instant)
    case .wall: unixMilliseconds(ofWall: instant)
    }
  }
}
