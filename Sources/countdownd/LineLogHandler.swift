import Glibc
import Logging
import Synchronization

/// Log lines on standard error: with the time for people, with a priority for the journal, which
/// knows the time itself.
struct LineLogHandler: LogHandler {
  let isJournal: Bool
  var metadata: Logger.Metadata = [:]
  /// One for all handlers, so that a reload reaches those that loggers have copied.
  var logLevel: Logger.Level {
    get { Logger.Level.allCases[Self.level.load(ordering: .relaxed)] }
    set { Self.level.store(Logger.Level.allCases.firstIndex(of: newValue)!, ordering: .relaxed) }
  }

  private static let level = Atomic(Logger.Level.allCases.firstIndex(of: .info)!)

  init(isJournal: Bool) { self.isJournal = isJournal }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let fields = metadata.merging(event.metadata ?? [:]) { $1 }
    let suffix = fields.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
    let start = isJournal ? "<\(event.level.priority)>" : "\(Self.time()) \(event.level): "
    StandardError.write(line: start + Self.oneLine(event.message.description + suffix))
  }

  private static func oneLine(_ text: String) -> String {
    text.contains("\n") ? text.split(separator: "\n").joined(separator: " | ") : text
  }

  private static func time() -> String {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    var fields = tm()
    localtime_r(&now.tv_sec, &fields)
    var text = [CChar](repeating: 0, count: 32)
    strftime(&text, text.count, "%F %T", &fields)
    let milliseconds = String(now.tv_nsec / 1_000_000 + 1_000).dropFirst()
    return text.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } + "." + milliseconds
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
