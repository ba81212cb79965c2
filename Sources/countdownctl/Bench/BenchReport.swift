import CountdownClient
import Histogram

/// The result of a load test.
struct BenchReport: Sendable {
  var options: BenchOptions
  var prefix: String
  var load: LoadResult
  var started: Int
  var events: EventCounts?
  var pings: PingLatencies?
  /// The daemon's figures before the load, after it, and after the last event.
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

  /// The problems. Counters may rise by more than this test causes, as other clients may run.
  var problems: [String] {
    var problems: [String] = []
    if let events, events.early > 0 { problems.append("\(events.early) events were early") }
    if let lost, lost > 0 { problems.append("\(lost) countdowns never became ready") }
    if let lost, lost < 0 { problems.append("\(-lost) countdowns became ready twice") }
    if let accepted = after.rise("starts_accepted", since: before), accepted < started {
      problems.append("only \(accepted) of \(started) starts were accepted")
    }
    return problems
  }

  /// The daemon's processor time per command of the load, in microseconds.
  var processorPerCommand: Double? {
    guard let then = before.processorSeconds, let now = loaded.processorSeconds, commands > 0
    else { return nil }
    return (now.user + now.system - then.user - then.system) * 1e6 / Double(commands)
  }

  /// The growth of the daemon's memory per countdown, in bytes; nil if the countdowns were
  /// cancelled or too few, or if the memory did not grow.
  var memoryPerCountdown: Double? {
    guard options.mix != .startCancel, started >= 10_000,
      let rise = loaded.rise("used_memory_rss", since: before), rise > 0
    else { return nil }
    return Double(rise) / Double(started)
  }

  // MARK: JSON

  var json: RESPValue {
    .object([
      "mix": options.mix.rawValue, "countdowns": options.countdowns,
      "connections": options.connections, "pipeline": options.pipeline, "rate": options.rate,
      "key_prefix": prefix, "kept": options.keep, "interrupted": isInterrupted,
      "started": started, "seconds": seconds, "commands": commands,
      "commands_per_second": perSecond,
      "latency_us": RESPValue.map(
        load.stages.map { .init(.text($0.name), Self.json($0.latencies)) }),
      "events": eventsJSON, "ping_us": Self.json(pings?.all),
      "ping_while_due_us": Self.json(pings?.whileDue), "server": serverJSON,
      "problems": problems,
    ])
  }

  private var eventsJSON: RESPValue? {
    guard let events else { return nil }
    return .object([
      "ready": events.ready, "ticks": events.ticks,
      "ticks_merged": after.rise("ticks_merged", since: before), "early": events.early,
      "lost": lost, "late_us": Self.json(events.late),
      "arrived_late_us": Self.json(events.arrivedLate),
    ])
  }

  private var serverJSON: RESPValue {
    .object([
      "version": before["countdownd_version"], "cpu_us_per_command": processorPerCommand,
      "memory_before": before.integer("used_memory_rss"),
      "memory_loaded": loaded.integer("used_memory_rss"),
      "memory_per_countdown": memoryPerCountdown,
      "starts_accepted": after.rise("starts_accepted", since: before),
      "starts_refused": after.rise("starts_refused", since: before),
      "commands_processed": after.rise("total_commands_processed", since: before),
      "error_replies": after.rise("total_error_replies", since: before),
    ])
  }

  static func json(_ latencies: Latencies?) -> RESPValue {
    guard let latencies, latencies.totalCount > 0 else { return .null }
    func percentile(_ value: Double) -> Int { Int(latencies.valueAtPercentile(value)) }
    return .object([
      "count": Int(latencies.totalCount), "min": Int(latencies.min), "mean": latencies.mean,
      "p50": percentile(50), "p90": percentile(90), "p99": percentile(99),
      "p999": percentile(99.9), "max": Int(latencies.max),
    ])
  }
}
