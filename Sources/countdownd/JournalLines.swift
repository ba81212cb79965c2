import Countdowns
import Logging
import SystemdSupport

/// Writes log lines to the journal, with their metadata in separate fields:
/// `journalctl COUNTDOWND_UID=1000`.
enum JournalLines {
  static func write(_ line: LogLine) {
    var fields = [
      ("MESSAGE", line.wholeText), ("PRIORITY", "\(line.level.priority)"),
      ("SYSLOG_IDENTIFIER", Product.name), ("CODE_FILE", line.file), ("CODE_LINE", "\(line.line)"),
    ]
    if let id = line.messageID { fields.append(("MESSAGE_ID", id)) }
    fields += line.about.map { (fieldName($0.name), $0.value) }
    guard !Journal.send(fields) else { return }
    // A line without its fields is better than none.
    StandardError.write(line: "<\(line.level.priority)>\(line.wholeText)")
  }

  /// Source: systemd.journal-fields(7): names have capitals, digits and underscores.
  private static func fieldName(_ name: String) -> String {
    "COUNTDOWND_" + name.uppercased().map { $0.isLetter || $0.isNumber ? $0 : "_" }
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
