import CountdownServer
import Logging
import Runtime
import Wire

/// One line for the log.
struct LogLine: Sendable {
  var level: Logger.Level
  /// The message, on one line.
  var text: String
  /// The metadata, sorted by name.
  var about: [(name: String, value: String)]
  /// The raw value of a `LogMessage`; nil for lines that are only human-readable.
  var messageID: String?
  /// The source file and line that logged the message.
  var file: String
  var line: UInt

  init(_ event: LogEvent, _ metadata: Logger.Metadata) {
    var fields = metadata.merging(event.metadata ?? [:]) { $1 }
    messageID = fields.removeValue(forKey: LogMessage.metadataKey)?.description
    level = event.level
    text = Self.oneLine(event.message.description)
    about = fields.sorted { $0.key < $1.key }
      .map { ($0.key, Self.oneLine($0.value.description)) }
    file = event.file
    line = event.line
  }

  var isAudit: Bool { messageID == LogMessage.foreignChange.rawValue }

  /// The user ID of the client that it is about; empty without one.
  var user: String { about.first { $0.name == "uid" }?.value ?? "" }

  /// The message, then the metadata.
  var wholeText: String { text + about.map { " \($0.name)=\($0.value)" }.joined() }

  private static func oneLine(_ text: String) -> String {
    // Text that clients choose, such as keys, must not look like another line.
    guard text.utf8.contains(UInt8(ascii: "\n")) else { return text.printable }
    return text.split(separator: "\n").joined(separator: " | ").printable
  }
}
