import CountdownServer
import Logging
import Wire

/// One line of the log on its way out.
struct LogLine: Sendable {
  var level: Logger.Level
  /// What has happened, on one line.
  var text: String
  /// What it is about, by name.
  var about: [(name: String, value: String)]
  /// One of `LogMessage`, as it is written; nil for lines that are only human-readable.
  var messageID: String?
  /// Where in the sources it comes from.
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

  /// The text, then what it is about.
  var wholeText: String { text + about.map { " \($0.name)=\($0.value)" }.joined() }

  private static func oneLine(_ text: String) -> String {
    // What clients choose, such as keys, must not look like another line.
    text.split(separator: "\n").joined(separator: " | ").printable
  }
}
