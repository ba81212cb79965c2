/// A clock whose time passes only when a test says so. It runs the timers itself, so that they need
/// no alarm and the test knows when all have run.
package protocol ManualClock: Clock<Duration> {
  /// The present of the continuous or the wall clock, in nanoseconds since 1970 or an epoch of its
  /// own.
  func nanoseconds(wall: Bool) -> UInt64

  /// Lets the clock run `timers`, which it holds weakly.
  func attach(_ timers: any VirtualTimers, wall: Bool)
}

/// Timers that a ``ManualClock`` runs.
package protocol VirtualTimers: AnyObject, Sendable {
  /// The earliest deadline, in microseconds of the clock.
  var nextDeadline: UInt64? { get }
  /// All deadlines, sorted.
  var deadlines: [UInt64] { get }
  /// Runs all timers that are due, and returns after the last callback.
  func runDue() async
}

extension AlarmClock {
  /// A clock whose alarms never fire on their own.
  static func virtual(_ clock: any ManualClock, wall: Bool) -> AlarmClock {
    AlarmClock(read: { clock.nanoseconds(wall: wall) }, setTimer: { _, _ in })
  }
}
