import CSystemd
import Glibc
import Wire

/// Reports the status of the daemon to the service manager (`Type=notify`).
///
/// Without systemd, every method does nothing and returns `notUnderSystemd`. The environment
/// variables stay set, so `NotifyAccess=main` must keep child processes from sending messages.
///
/// Source: sd_notify(3).
package struct ServiceNotifier: Sendable {
  /// The outcome of sending a message.
  package enum Delivery: Equatable, Sendable {
    case sent
    /// No service manager expects messages.
    case notUnderSystemd
    /// The socket in `NOTIFY_SOCKET` did not accept the message; `code` is an `errno`.
    case failed(code: Int32)
  }

  /// The maximum length of a status text, in bytes. systemd drops any message of 4096 bytes or
  /// more, and a dropped `READY=1` would fail the start.
  package static let statusLimitBytes = 1024

  /// Whether a service manager expects messages: `NOTIFY_SOCKET` was set at initialization.
  package let isUnderSystemd: Bool

  package init() {
    isUnderSystemd = unsafe getenv("NOTIFY_SOCKET") != nil
  }

  /// Reports that the daemon is ready: `systemctl start` returns, units ordered after it start.
  @discardableResult
  package func ready(status: String? = nil) -> Delivery {
    send("READY=1", status)
  }

  /// Reports that the daemon reloads its configuration; `ready` must follow, whatever the outcome.
  ///
  /// The timestamp distinguishes this reload from one requested later.
  @discardableResult
  package func reloading() -> Delivery {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    return send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)", nil)
  }

  /// Reports loading progress, and extends the start timeout to 30 seconds from now.
  @discardableResult
  package func loading(_ entities: Int) -> Delivery {
    send("EXTEND_TIMEOUT_USEC=30000000", "loading: \(entities) entities")
  }

  /// Sets the line that `systemctl status` shows.
  @discardableResult
  package func status(_ text: String) -> Delivery {
    send(nil, text)
  }

  /// Reports that the daemon is shutting down, by its own decision or by a signal.
  @discardableResult
  package func stopping(status: String? = nil) -> Delivery {
    send("STOPPING=1", status)
  }

  /// Sends a heartbeat, due at least once per `Watchdog.interval()`; every half interval is safe.
  @discardableResult
  package func watchdog() -> Delivery {
    send("WATCHDOG=1", nil)
  }

  private func send(_ assignment: String?, _ status: String?) -> Delivery {
    guard isUnderSystemd else { return .notUnderSystemd }
    guard let libsystemd = unsafe libsystemd else { return .failed(code: ELIBACC) }
    let lines = [assignment, status.map { "STATUS=" + Self.oneLine($0) }]
    let message = lines.compactMap(\.self).joined(separator: "\n")
    let result = unsafe libsystemd.pointee.sd_notify(0, message)
    // Zero means that the variable has been unset since.
    return result > 0 ? .sent : result == 0 ? .notUnderSystemd : .failed(code: -result)
  }

  /// Returns `text` on one line with control characters escaped, at most `statusLimitBytes` long.
  static func oneLine(_ text: String) -> String {
    var result = String.UnicodeScalarView()
    var length = 0
    for scalar in text.printable.unicodeScalars {
      length += UTF8.width(scalar)
      if length > statusLimitBytes { break }
      result.append(scalar)
    }
    return String(result)
  }
}
