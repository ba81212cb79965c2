import Dispatch
import DispatchTimers

/// Writes log lines, but only counts those that are repeated too often.
final class LogOutput: Sendable {
  /// The place in the sources that logs a line, and its severity.
  private struct Message: Hashable {
    var file: String
    var line: UInt
    var level: String
  }

  private static let maximumOfAKind = 10
  private static let intervalSeconds: Int64 = 10
  private static let maximumKinds = 256

  private let gate = Lock(
    FloodGate<Message, String>(
      maximum: maximumOfAKind, interval: intervalSeconds * 1_000_000, maximumKinds: maximumKinds))
  private let queue = DispatchQueue(label: "countdownd.log")
  private let write: @Sendable (LogLine) -> Void

  init(_ write: @escaping @Sendable (LogLine) -> Void) { self.write = write }

  func take(_ line: LogLine) {
    // Debugging needs all lines, as does an audit, and critical ones are not repeated.
    guard line.level > .debug, line.level < .critical, !line.isAudit else { return write(line) }
    let message = Message(file: line.file, line: line.line, level: line.level.rawValue)
    let now = Int64(BootClock.now)
    switch gate.withLock({ $0.admit(message, of: line.user, at: now) }) {
    case .pass: write(line)
    case .hold: break
    case .holdUntil(let end, let kind):
      queue.asyncAfter(
        deadline: .now() + .microseconds(Int(max(end - now, 0)))
      ) { [self] in
        let count = gate.withLock { $0.close(kind) }
        var summary = line
        let ofWhom = kind.user == nil ? " of various users" : ""
        if kind.user == nil { summary.about = [] }
        summary.text +=
          " (held back in \(Self.intervalSeconds) s: \(count) like this\(ofWhom))"
        write(summary)
      }
    }
  }
}
