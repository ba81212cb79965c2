import CSystemd
import Glibc
import Wire

/// Reports the status of the daemon to the service manager (`Type=notify`).
///
/// Every method may be called without systemd: then it does nothing and returns `notUnderSystemd`.
/// The variables of the environment are left as they are, so a process the daemon starts must be
/// kept from them by `NotifyAccess=main`.
///
/// Source: sd_notify(3).
package struct ServiceNotifier: Sendable {
  /// What became of a message.
  package enum Delivery: Equatable, Sendable {
    case sent
    /// Nobody asked for messages.
    case notUnderSystemd
    /// The socket in `NOTIFY_SOCKET` did not take it; an `errno`.
    case failed(code: Int32)
  }

  /// The most bytes of a status text that are sent. systemd drops a message of 4096 bytes or more
  /// whole, and a dropped `READY=1` would fail the start.
  package static let statusLimitBytes = 1024

  /// Whether a service manager waits for messages: `NOTIFY_SOCKET` was set when this was made.
  package let isUnderSystemd: Bool

  package init() {
    isUnderSystemd = unsafe getenv("NOTIFY_SOCKET") != nil
  }

  /// The daemon answers from now on: `systemctl start` returns, units ordered after it start.
  @discardableResult
  package func ready(status: String? = nil) -> Delivery {
    send("READY=1", status)
  }

  /// The daemon reloads its configuration; `ready` must follow, whatever the outcome.
  ///
  /// The moment tells this reload from one that was asked for later.
  @discardableResult
  package func reloading() -> Delivery {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    return send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)", nil)
  }

  /// The start takes longer: extends its timeout to 30 seconds from now.
  @discardableResult
  package func loading(_ entities: Int) -> Delivery {
    send("EXTEND_TIMEOUT_USEC=30000000", "loading: \(entities) entities")
  }

  /// The line that `systemctl status` shows.
  @discardableResult
  package func status(_ text: String) -> Delivery {
    send(nil, text)
  }

  /// The daemon is on its way out, by its own decision or by a signal.
  @discardableResult
  package func stopping(status: String? = nil) -> Delivery {
    send("STOPPING=1", status)
  }

  /// The daemon is alive. Due at least once per `Watchdog.interval()`; half of it leaves room.
  @discardableResult
  package func watchdog() -> Delivery {
    send("WATCHDOG=1", nil)
  }

  private func send(_ assignment: String?, _ status: String?) -> Delivery {
    guard isUnderSystemd else { return .notUnderSystemd }
    let lines = [assignment, status.map { "STATUS=" + Self.oneLine($0) }]
    let result = unsafe sd_notify(0, lines.compactMap(\.self).joined(separator: "\n"))
    // Zero means that the variable has gone since.
    return result > 0 ? .sent : result == 0 ? .notUnderSystemd : .failed(code: -result)
  }

  /// `text` without what would end it or begin another assignment, and short enough to be taken.
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
