import CountdownClient
import Histogram

/// What a load test has found.
struct BenchReport: Sendable {
  var options: BenchOptions
  var prefix: String
  var load: LoadResult
  var started: Int
  var events: EventCounts?
  var pings: PingLatencies?
  /// Before the load, after it, and after the last event.
  var before: ServerFacts
  var loaded: ServerFacts
  var after: ServerFacts
  var isInterrupted = false

  var seconds: Double { Double(load.nanoseconds) / 1e9 }

  var commands: Int { load.stages.reduce(0) { $0 + Int($1.latencies.totalCount) } }

  var perSecond: Double { seconds > 0 ? Double(commands) / seconds : 0 }

  var lost: Int? {
    guard let events, !isInterrupted else { return nil }
    return started - events.ready
  }

  /// What must not be. Others may use the daemon at the same time, so counters may have risen by more.
  var problems: [String] {
    var problems: [String] = []
    if let events, events.early > 0 { problems.append("\(events.early) events came early") }
    if let lost, lost > 0 { problems.append("\(lost) countdowns never became ready") }
    if let lost, lost < 0 { problems.append("\(-lost) countdowns became ready twice") }
    if let accepted = after.rise("starts_accepted", since: before), accepted < started {
      problems.append("only \(accepted) of \(started) starts were accepted")
    }
    return problems
  }

  /// Microseconds of the daemon's processor time for a command of the load.
  var processorPerCommand: Double? {
    guard let then = before.processorSeconds, let now = loaded.processorSeconds, commands > 0
    else { return nil }
    return (now.user + now.system - then.user - then.system) * 1e6 / Double(commands)
  }

  /// Bytes by which the daemon has grown for a countdown; nil when they have not stayed, when they are
  /// too few to say, and when it had room from before.
  var memoryPerCountdown: Double? {
    guard options.mix != .startCancel, started >= 10_000,
      let rise = loaded.rise("used_memory_rss", since: before), rise > 0
    else { return nil }
    return Double(rise) / Double(started)
  }

  // MARK: JSON

  var json: JSONValue {
    .object([
      .init("mix", .string(options.mix.rawValue)),
      .init("countdowns", .integer(options.countdowns)),
      .init("connections", .integer(options.connections)),
      .init("pipeline", .integer(options.pipeline)),
      .init("rate", options.rate.map { .integer($0) } ?? .null),
      .init("key_prefix", .string(prefix)),
      .init("kept", .bool(options.keep)),
      .init("interrupted", .bool(isInterrupted)),
      .init("started", .integer(started)),
      .init("seconds", .number(seconds)),
      .init("commands", .integer(commands)),
      .init("commands_per_second", .number(perSecond)),
      .init(
        "latency_us", .object(load.stages.map { .init($0.name, Self.json($0.latencies)) })),
      .init("events", eventsJSON),
      .init("ping_us", Self.json(pings?.all)),
      .init("ping_while_due_us", Self.json(pings?.whileDue)),
      .init("server", serverJSON),
      .init("problems", .array(problems.map { .string($0) })),
    ])
  }

  private var eventsJSON: JSONValue {
    guard let events else { return .null }
    let merged = after.rise("ticks_merged", since: before)
    return .object([
      .init("ready", .integer(events.ready)), .init("ticks", .integer(events.ticks)),
      .init("ticks_merged", merged.map { .integer($0) } ?? .null),
      .init("early", .integer(events.early)),
      .init("lost", lost.map { .integer($0) } ?? .null),
      .init("late_us", Self.json(events.late)),
      .init("arrived_late_us", Self.json(events.arrivedLate)),
    ])
  }

  private var serverJSON: JSONValue {
    func rise(_ name: String) -> JSONValue {
      after.rise(name, since: before).map { .integer($0) } ?? .null
    }
    return .object([
      .init("version", before.text("countdownd_version").map { .string($0) } ?? .null),
      .init("cpu_us_per_command", processorPerCommand.map { .number($0) } ?? .null),
      .init("memory_before", before.integer("used_memory_rss").map { .integer($0) } ?? .null),
      .init("memory_loaded", loaded.integer("used_memory_rss").map { .integer($0) } ?? .null),
      .init("memory_per_countdown", memoryPerCountdown.map { .number($0) } ?? .null),
      .init("starts_accepted", rise("starts_accepted")),
      .init("starts_refused", rise("starts_refused")),
      .init("commands_processed", rise("total_commands_processed")),
      .init("error_replies", rise("total_error_replies")),
    ])
  }

  static func json(_ latencies: Latencies?) -> JSONValue {
    guard let latencies, latencies.totalCount > 0 else { return .null }
    func percentile(_ value: Double) -> JSONValue {
      .integer(Int(latencies.valueAtPercentile(value)))
    }
    return .object([
      .init("count", .integer(Int(latencies.totalCount))),
      .init("min", .integer(Int(latencies.min))), .init("mean", .number(latencies.mean)),
      .init("p50", percentile(50)), .init("p90", percentile(90)), .init("p99", percentile(99)),
      .init("p999", percentile(99.9)), .init("max", .integer(Int(latencies.max))),
    ])
  }
}
