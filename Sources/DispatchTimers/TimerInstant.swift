#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A moment that a timer can be scheduled at: the clock is part of its type.
///
/// - `ContinuousClock.Instant`: nobody can set the clock, and it runs while the machine sleeps.
/// - `SuspendingClock.Instant`: the clock stops while the machine sleeps, so the timer is later.
/// - ``WallTime`` and Foundation's `Date`: a time of day. The timer follows the wall clock when
///   that is set. Set forward past the deadline, the timer is due at once; a repeating one fires
///   once and reports what it missed. Set back, it waits until the clock shows the deadline again,
///   and does not fire again for a deadline it has served.
public protocol TimerInstant: Sendable {
  /// The moment as the timers see it.
  var timerDeadline: TimerDeadline { get }
}

/// A moment of one of the machine's clocks.
public struct TimerDeadline: Sendable {
  /// `virtual` is the clock of a queue that a test drives.
  package enum Base: Int, Sendable {
    case continuous, suspending, wall, virtual

    /// The clock of the machine whose time passes while a test's is frozen.
    var machine: AlarmClock? {
      switch self {
      case .continuous: .boot
      case .suspending: .uptime
      case .wall, .virtual: nil
      }
    }
  }

  let base: Base
  /// Rounded up, since the clock's epoch.
  let microseconds: UInt64
}

extension TimerDeadline {
  /// A moment of a clock whose time passes only when a test says so.
  package init(virtual sinceEpoch: Duration) {
    self.init(base: .virtual, microseconds: sinceEpoch.microsecondsRoundedUp)
  }
}

extension ContinuousClock.Instant: TimerInstant {
  public var timerDeadline: TimerDeadline {
    let sinceBoot = ContinuousClock().systemEpoch.duration(to: self)
    return TimerDeadline(base: .continuous, microseconds: sinceBoot.microsecondsRoundedUp)
  }
}

extension SuspendingClock.Instant: TimerInstant {
  public var timerDeadline: TimerDeadline {
    let sinceBoot = SuspendingClock().systemEpoch.duration(to: self)
    return TimerDeadline(base: .suspending, microseconds: sinceBoot.microsecondsRoundedUp)
  }
}

extension WallTime: TimerInstant {
  public var timerDeadline: TimerDeadline {
    TimerDeadline(base: .wall, microseconds: since1970.microsecondsRoundedUp)
  }
}

extension Date: TimerInstant {
  public var timerDeadline: TimerDeadline { WallTime(self).timerDeadline }
}

extension WallTime {
  /// Creates the moment of a date; one too far away for a `Duration` becomes the farthest.
  public init(_ date: Date) {
    let farthest = 9e18
    let seconds = date.timeIntervalSince1970
    self.init(secondsSince1970: min(max(seconds.isNaN ? 0 : seconds, -farthest), farthest))
  }
}
