import CSystemd
import Glibc

/// The service manager's watchdog (`WatchdogSec=`).
///
/// Source: sd_watchdog_enabled(3).
package enum Watchdog {
  /// Returns the maximum time between two heartbeats in microseconds; nil if no watchdog monitors
  /// this process.
  ///
  /// A malformed environment counts as no watchdog: systemd never writes one, and no other writer
  /// would monitor the process.
  package static func intervalMicroseconds() -> UInt64? {
    guard unsafe getenv("WATCHDOG_USEC") != nil, let libsystemd = unsafe libsystemd else {
      return nil
    }
    var interval: UInt64 = 0
    return unsafe libsystemd.pointee.sd_watchdog_enabled(0, &interval) > 0 ? interval : nil
  }
}
