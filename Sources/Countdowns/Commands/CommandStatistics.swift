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
  /// Refused commands, by the limit and by the rules that refuse.
  private(set) var limits: [Substring: Int64] = [:]
  private(set) var rules: [AccessRules.Part: Int64] = [:]
  var protocolErrors: Int64 = 0
  var eventsSent: Int64 = 0
  var ticksMerged: Int64 = 0
  var outputLimitDisconnections: Int64 = 0
  private(set) var perCommand: [PerCommand]

  /// The limits of commands, as METRICS names them; all else is `other`.
  static let limitNames: Set<Substring> = [
    "max-entities", "max-entities-per-uid", "max-key-memory", "max-memory", "max-output",
    "max-output-per-uid", "max-patterns-per-uid", "max-payload-length", "max-request-length",
    "max-result-length", "max-scope-children", "max-scope-depth", "max-scope-handlers",
    "max-stack-pages", "max-subscriptions", "other",
  ]

  init(commands: Int) { perCommand = Array(repeating: PerCommand(), count: commands) }

  mutating func record(_ error: CommandError) {
    let words = error.text.utf8.split(separator: UInt8(ascii: " "), maxSplits: 2)
      .map(Substring.init)
    errors[words.first ?? "", default: 0] += 1
    if let rules = error.rules { self.rules[rules, default: 0] += 1 }
    if words.count > 1, words[0] == ErrorCode.limit.rawValue {
      limits[Self.limitNames.contains(words[1]) ? words[1] : "other", default: 0] += 1
    }
  }

  mutating func record(_ index: Int, microseconds: Int64, failed: Bool = false) {
    perCommand[index].calls += 1
    perCommand[index].microseconds += microseconds
    if failed { perCommand[index].failed += 1 }
  }
}
