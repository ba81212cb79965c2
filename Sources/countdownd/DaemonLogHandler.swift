import Logging
import Synchronization

/// Receives the daemon's log lines from swift-log.
struct DaemonLogHandler: LogHandler {
  let output: LogOutput
  var metadata: Logger.Metadata = [:]
  /// The level of all handlers: shared, so that a reload also reaches the copies in loggers.
  var logLevel: Logger.Level {
    get { Logger.Level.allCases[Self.level.load(ordering: .relaxed)] }
    set { Self.level.store(Logger.Level.allCases.firstIndex(of: newValue)!, ordering: .relaxed) }
  }

  private static let level = Atomic(Logger.Level.allCases.firstIndex(of: .info)!)

  init(output: LogOutput) { self.output = output }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { output.take(LogLine(event, metadata)) }
}
