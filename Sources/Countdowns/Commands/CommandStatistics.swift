/// Counters of the protocol, since the start or CONFIG RESETSTAT.
struct CommandStatistics {
  struct PerCommand {
    var calls: Int64 = 0
    var microseconds: Int64 = 0
    var failed: Int64 = 0
  }

  var connections: Int64 = 0
  var commands: Int64 = 0
  /// Error replies, by error code.
  private(set) var errors: [Substring: Int64] = [:]
  var protocolErrors: Int64 = 0
  var eventsSent: Int64 = 0
  var ticksMerged: Int64 = 0
  var outputLimitDisconnections: Int64 = 0
  private(set) var perCommand: [PerCommand]

  init(commands: Int) { perCommand = Array(repeating: PerCommand(), count: commands) }

  mutating func record(_ error: CommandError) {
    errors[error.text.prefix { $0 != " " }, default: 0] += 1
  }

  mutating func record(_ index: Int, microseconds: Int64, failed: Bool = false) {
    perCommand[index].calls += 1
    perCommand[index].microseconds += microseconds
    if failed { perCommand[index].failed += 1 }
  }
}
