import CSystemd
import DequeModule
import Dispatch
import Glibc
import Wire

/// Reports the status of the daemon to the service manager (`Type=notify`), in the order of the
/// calls. Never waits: a service manager that does not read its socket must not stop the daemon.
///
/// Without systemd, every method does nothing. The environment variables stay set, so
/// `NotifyAccess=main` must keep child processes from sending messages.
///
/// Source: sd_notify(3).
package final class ServiceNotifier: Sendable {
  /// The maximum length of a status text, in bytes. systemd drops any message of 4096 bytes or
  /// more, and a dropped `READY=1` would fail the start.
  package static let statusLimitBytes = 1024

  /// Whether a service manager expects messages: `NOTIFY_SOCKET` was set at initialization.
  package let isUnderSystemd: Bool

  private struct Message {
    var assignment: String?
    var status: String?

    var name: Substring? { assignment?.prefix { $0 != "=" } }
  }

  /// Nil without systemd.
  private let outbox: Outbox<Message>?

  package init() {
    isUnderSystemd = unsafe getenv("NOTIFY_SOCKET") != nil
    outbox = isUnderSystemd ? Outbox { Self.notify($0) } : nil
  }

  /// Reports that the daemon is ready: `systemctl start` returns, units ordered after it start.
  package func ready(status: String? = nil) { send("READY=1", status) }

  /// Reports that the daemon reloads its configuration; `ready` must follow, whatever the outcome.
  ///
  /// The timestamp distinguishes this reload from one requested later.
  package func reloading() {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)", nil)
  }

  /// Reports loading progress, and extends the start timeout to 30 seconds from now.
  package func loading(_ entities: Int) {
    send("EXTEND_TIMEOUT_USEC=30000000", "loading: \(entities) entities")
  }

  /// Sets the line that `systemctl status` shows.
  package func status(_ text: String) { send(nil, text) }

  /// Reports that the daemon is shutting down, by its own decision or by a signal.
  package func stopping(status: String? = nil) { send("STOPPING=1", status) }

  /// Sends a heartbeat, due at least once per `Watchdog.interval()`; every half interval is safe.
  package func watchdog() { send("WATCHDOG=1", nil) }

  /// Waits until everything is sent, but not for long: call it before the process ends.
  package func drain(atMost limit: DispatchTimeInterval = .seconds(1)) {
    outbox?.drain(atMost: limit)
  }

  /// Replaces a message of the same name, and an older status, that systemd has not read yet: it
  /// acts upon the newest ones only, and few messages wait however long it does not read.
  private func send(_ assignment: String?, _ status: String?) {
    let message = Message(assignment: assignment, status: status.map(Self.oneLine))
    outbox?.change { waiting in
      if status != nil {
        for index in waiting.indices { waiting[index].status = nil }
      }
      waiting.removeAll { $0.name == message.name || $0.assignment == nil && $0.status == nil }
      waiting.append(message)
    }
  }

  private static func notify(_ message: Message) {
    let lines = [message.assignment, message.status.map { "STATUS=" + $0 }]
    // Nothing can be done if it fails.
    _ = unsafe libsystemd?.pointee.sd_notify(0, lines.compactMap(\.self).joined(separator: "\n"))
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
