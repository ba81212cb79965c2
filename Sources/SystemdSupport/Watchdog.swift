import CSystemd

/// What the service manager's watchdog (`WatchdogSec=`) wants of this process.
///
/// Source: sd_watchdog_enabled(3).
package enum Watchdog {
  /// The longest time between two heartbeats in microseconds, or nil when nobody
  /// watches this process.
  ///
  /// A malformed environment counts as nobody: systemd writes none, and whoever did would not
  /// be listening.
  package static func intervalMicroseconds() -> UInt64? {
    var interval: UInt64 = 0
    return unsafe sd_watchdog_enabled(0, &interval) > 0 ? interval : nil
  }

  /// The same as a duration.
  package static func interval() -> Duration? {
    intervalMicroseconds().map { .microseconds(Int64(clamping: $0)) }
  }
}
