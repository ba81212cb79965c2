import Glibc

/// The clock of timers: time since boot, including suspend.
///
/// `CLOCK_BOOTTIME`, because nobody can set it, and because `CLOCK_MONOTONIC` stops in suspend,
/// which would lengthen a countdown.
package enum BootClock {
  /// The present, in microseconds since boot, rounded down, so that nothing is due early.
  package static var now: UInt64 { nanoseconds / 1_000 }

  /// The present, in nanoseconds since boot.
  package static var nanoseconds: UInt64 { read(CLOCK_BOOTTIME) }
}

/// The time since boot without suspend, which `SuspendingClock` shows.
package enum UptimeClock {
  /// The present, in nanoseconds since boot.
  package static var nanoseconds: UInt64 { read(CLOCK_MONOTONIC) }
}

/// The wall clock, which can be set forwards and backwards.
package enum WallClock {
  /// The present, in microseconds since 1970, rounded down.
  package static var now: UInt64 { nanoseconds / 1_000 }

  /// The present, in nanoseconds since 1970.
  package static var nanoseconds: UInt64 { read(CLOCK_REALTIME) }
}

private func read(_ clock: clockid_t) -> UInt64 {
  var time = timespec()
  // Fails only for a clock that the kernel lacks; both are older than Swift.
  let result = unsafe clock_gettime(clock, &time)
  precondition(result == 0, "clock_gettime failed")
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

extension Duration {
  /// Returns the first whole microsecond at or after `start` nanoseconds plus this duration;
  /// saturates at `UInt64.max`. Negative durations count as zero.
  package func microseconds(after start: UInt64) -> UInt64 {
    let delay = max(self, .zero)
    let (seconds, attoseconds) = delay.components
    let nanoseconds = (UInt64(attoseconds) + 999_999_999) / 1_000_000_000
    // Only the seconds can overflow; they are whole microseconds already.
    let (whole, tooLong) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000)
    let part = (start + nanoseconds + 999) / 1_000
    let (sum, tooLate) = whole.addingReportingOverflow(part)
    return tooLong || tooLate ? .max : sum
  }

  /// This duration in whole microseconds, rounded up; saturates at `UInt64.max`.
  package var microsecondsRoundedUp: UInt64 { microseconds(after: 0) }

  /// This duration in whole microseconds, rounded down; negative durations count as zero.
  var microsecondsRoundedDown: UInt64 {
    let rounded = microsecondsRoundedUp
    return .microseconds(exactly: rounded) > max(self, .zero) ? rounded - 1 : rounded
  }

  /// This duration in whole nanoseconds, rounded down; saturates. Negative durations count as zero.
  package var nanosecondsRoundedDown: UInt64 {
    let (seconds, attoseconds) = max(self, .zero).components
    let (whole, tooLong) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, tooLate) = whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000)
    return tooLong || tooLate ? .max : sum
  }

  /// Returns a duration of `count` microseconds, for any count.
  package static func microseconds(exactly count: UInt64) -> Duration {
    Duration(
      secondsComponent: Int64(count / 1_000_000),
      attosecondsComponent: Int64(count % 1_000_000) * 1_000_000_000_000)
  }
}
