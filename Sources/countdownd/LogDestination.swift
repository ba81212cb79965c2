import Countdowns
import Glibc
import Logging
import SystemdSupport

/// Where log lines go.
enum LogDestination {
  /// With the metadata in separate fields: `journalctl COUNTDOWND_UID=1000`.
  case journal
  /// Human-readable.
  case standardError
  /// An object on each line of standard error.
  case json

  func write(_ line: LogLine) {
    switch self {
    case .journal: Self.queue.take(line)
    case .standardError: line.write("\(Self.time()) \(line.level): \(line.wholeText)")
    case .json: line.write(Self.object(of: line))
    }
  }

  /// Whether the journal reads more slowly than lines are logged.
  static var isBehind: Bool { queue.isBehind() }

  /// Writes what waits for the journal, but not for long: call it before the process ends.
  static func flush() {
    if Journal.isStandardError() { queue.flush() }
  }

  private static let queue = LogQueue { line in
    // A line without its fields is better than none.
    if !Journal.send(fields(of: line)) { StandardError.write(tagged: line) }
  }

  private static func fields(of line: LogLine) -> [(name: String, value: String)] {
    var fields = [
      ("MESSAGE", line.wholeText), ("PRIORITY", "\(line.level.priority)"),
      ("SYSLOG_IDENTIFIER", Product.name), ("CODE_FILE", line.file), ("CODE_LINE", "\(line.line)"),
    ]
    if let id = line.messageID { fields.append(("MESSAGE_ID", id)) }
    return fields + line.about.map { (fieldName($0.name), $0.value) }
  }

  /// Source: systemd.journal-fields(7): names have capitals, digits and underscores.
  private static func fieldName(_ name: String) -> String {
    "COUNTDOWND_" + name.uppercased().map { $0.isLetter || $0.isNumber ? $0 : "_" }
  }

  private static func object(of line: LogLine) -> String {
    var members = [
      ("time", time(isUTC: true)), ("level", "\(line.level)"), ("message", line.text),
    ]
    if let id = line.messageID { members.append(("message-id", id)) }
    // Unprintable characters are escaped already.
    func quoted(_ text: String) -> String {
      "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
    members += line.about.map { ($0.name, $0.value) }
    return "{" + members.map { quoted($0.0) + ":" + quoted($0.1) }.joined(separator: ",") + "}"
  }

  private static func time(isUTC: Bool = false) -> String {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    var fields = unsafe tm()
    _ = unsafe isUTC ? gmtime_r(&now.tv_sec, &fields) : localtime_r(&now.tv_sec, &fields)
    var text = [CChar](repeating: 0, count: 32)
    let length = unsafe strftime(&text, text.count, isUTC ? "%FT%T" : "%F %T", &fields)
    let milliseconds = String(now.tv_nsec / 1_000_000 + 1_000).dropFirst()
    let seconds = String(decoding: text.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return seconds + "." + milliseconds + (isUTC ? "Z" : "")
  }
}

extension StandardError {
  /// Writes a line as the journal reads it from standard error.
  static func write(tagged line: LogLine) {
    line.write("<\(line.level.priority)>\(line.wholeText)")
  }
}

extension LogLine {
  /// Writes this text for the line to standard error.
  fileprivate func write(_ text: String) {
    guard !StandardError.write(line: text) else { return }
    LostLines.sinceStart.withLock { $0.count(self) }
  }
}

extension Logger.Level {
  /// Source: sd-daemon(3), the prefixes of syslog levels.
  fileprivate var priority: Int {
    switch self {
    case .trace, .debug: 7
    case .info: 6
    case .notice: 5
    case .warning: 4
    case .error: 3
    case .critical: 2
    }
  }
}
