import CountdownClient
import Glibc

/// The daemon's replies at one moment.
struct TopSample {
  let info: ServerFacts
  /// The reply to `SLOWLOG GET`, which may be an error.
  let slow: RESPValue
  let at: Duration

  init(info: RESPValue, slow: RESPValue, at: Duration) {
    self.info = ServerFacts(info: info.string ?? "")
    self.slow = slow
    self.at = at
  }

  /// Returns the numbers of the figures `PREFIXname:a=1,b=2`, by name.
  func table(_ prefix: String) -> [String: [String: Double]] {
    info.records(prefix).mapValues { $0.compactMapValues { Double($0) } }
  }
}

/// The figures of `top`: the difference of two samples. Rates are nil if there is only one.
struct TopFigures {
  struct User {
    let uid: Int
    let name: String
    let connections, entities, unreadBytes: Int
    let commandsPerSecond, busy: Double?
  }

  struct Command {
    let name: String
    /// The number of calls since the start or CONFIG RESETSTAT.
    let calls: Int
    /// The average of the last second if it had calls, else of all calls.
    let microsecondsPerCall: Double
    let callsPerSecond, busy, failedPerSecond: Double?
  }

  struct Slow {
    let microseconds: Int
    let unixSeconds: Int
    let words: [String]
    let client: String
  }

  /// A figure of the daemon as a whole: its title on the screen, its name in JSON.
  struct Fact {
    let title, name: String
    let value: (any JSONConvertible)?
    let text: String
  }

  let version: String
  let uptime: Duration
  /// Whether there is an earlier sample.
  let hasRates: Bool
  let facts: [Fact]
  /// Users, busiest first.
  let users: [User]
  /// Commands, the most time-consuming first.
  let commands: [Command]
  /// Slow commands, slowest first; nil if this user may not read the slow log.
  let slow: [Slow]?

  init(_ sample: TopSample, since before: TopSample?) {
    let rates = Rates(sample: sample, before: before)
    version = sample.info["countdownd_version"] ?? ""
    uptime = .seconds(sample.info.integer("uptime_in_seconds") ?? 0)
    hasRates = before != nil
    facts = rates.facts

    let usersBefore = before?.table("user_") ?? [:]
    users = sample.table("user_").compactMap { name, row -> User? in
      guard let uid = Int(name) else { return nil }
      // A user without an earlier sample counts from 0.
      let old = usersBefore[name]
      func rise(_ field: String) -> Double? {
        rates.rate(row[field], old.map { $0[field] ?? 0 } ?? 0)
      }
      return User(
        uid: uid, name: Self.userName(uid), connections: Int(row["connections"] ?? 0),
        entities: Int(row["entities"] ?? 0), unreadBytes: Int(row["unread"] ?? 0),
        commandsPerSecond: rise("commands"), busy: rise("usec").map { $0 / 1_000_000 })
    }.sorted {
      ($0.busy ?? 0, Double($0.entities), $1.uid) > ($1.busy ?? 0, Double($1.entities), $0.uid)
    }

    let commandsBefore = before?.table("cmdstat_") ?? [:]
    commands = sample.table("cmdstat_").map { name, row in
      let old = commandsBefore[name]
      func rise(_ field: String) -> Double? {
        rates.rate(row[field], old.map { $0[field] ?? 0 } ?? 0)
      }
      let (calls, microseconds) = (rise("calls") ?? 0, rise("usec") ?? 0)
      return Command(
        name: name.replacing("|", with: " "), calls: Int(row["calls"] ?? 0),
        microsecondsPerCall: calls > 0 ? microseconds / calls : row["usec_per_call"] ?? 0,
        callsPerSecond: rise("calls"), busy: rise("usec").map { $0 / 1_000_000 },
        failedPerSecond: rise("failed_calls"))
    }.sorted { ($0.busy ?? 0, $0.calls, $1.name) > ($1.busy ?? 0, $1.calls, $0.name) }

    slow = sample.slow.elements.map { entries in
      entries.compactMap { entry -> Slow? in
        guard let fields = entry.elements, fields.count > 4, let time = fields[1].int,
          let took = fields[2].int
        else { return nil }
        return Slow(
          microseconds: took, unixSeconds: time,
          words: fields[3].elements?.compactMap(\.string) ?? [], client: fields[4].string ?? "")
      }.sorted { ($0.microseconds, $0.unixSeconds) > ($1.microseconds, $1.unixSeconds) }
    }
  }

  private static func userName(_ uid: Int) -> String {
    guard let id = UInt32(exactly: uid), let entry = unsafe getpwuid(id),
      let name = unsafe entry.pointee.pw_name
    else { return "\(uid)" }
    return unsafe String(cString: name)
  }

  var json: RESPValue {
    let head: [(name: String, value: (any JSONConvertible)?)] =
      [("version", version), ("uptime_seconds", Int(uptime.inSeconds))]
    return .object(head + facts.map { ($0.name, $0.value) } + tables)
  }

  private var tables: [(name: String, value: (any JSONConvertible)?)] {
    [
      (
        "users",
        users.map { user in
          RESPValue.object([
            "uid": user.uid, "name": user.name, "commands_per_second": user.commandsPerSecond,
            "busy": user.busy, "connections": user.connections, "entities": user.entities,
            "unread_bytes": user.unreadBytes,
          ])
        }
      ),
      (
        "commands",
        commands.map { command in
          RESPValue.object([
            "name": command.name, "calls": command.calls,
            "calls_per_second": command.callsPerSecond, "us_per_call": command.microsecondsPerCall,
            "busy": command.busy, "failed_per_second": command.failedPerSecond,
          ])
        }
      ),
      (
        "slow",
        slow?.map { slow in
          RESPValue.object([
            "us": slow.microseconds, "unix_seconds": slow.unixSeconds, "command": slow.words,
            "client": slow.client,
          ])
        }
      ),
    ]
  }
}

/// The rise of counters between two samples.
private struct Rates {
  let sample: TopSample
  let before: TopSample?

  /// Returns the rise per second; nil without an earlier sample.
  func rate(_ now: Double?, _ then: Double?) -> Double? {
    guard let before, let now, let then else { return nil }
    // A counter that fell was reset, by a restart or CONFIG RESETSTAT.
    return max(now - (now < then ? 0 : then), 0) / max((sample.at - before.at).inSeconds, 0.001)
  }

  func rate(_ name: String) -> Double? {
    rate(sample.info.number(name), before?.info.number(name))
  }

  var facts: [TopFigures.Fact] {
    let processor = rate("used_cpu_user").map { $0 + (rate("used_cpu_sys") ?? 0) }
    let memory = integer("used_memory_rss")
    return [
      perSecond("commands", "commands_per_second", "total_commands_processed"),
      perSecond("errors", "errors_per_second", "total_error_replies"),
      perSecond("events", "events_per_second", "events_sent"),
      .init(title: "CPU", name: "cpu", value: processor, text: TopFigures.percent(processor)),
      .init(
        title: "memory", name: "memory_bytes", value: memory,
        text: "\(fixed(Double(memory) / 1_048_576, 1)) MiB"),
      count("connections", "connected_clients"), count("entities", "entities"),
      count("armed", "armed"),
      late("late p50", "late_us_p50"), late("late p99", "late_us_p99"),
      late("late p99.9", "late_us_p999"), late("late max", "late_us_max"),
    ]
  }

  private func integer(_ name: String) -> Int { sample.info.integer(name) ?? 0 }

  private func perSecond(_ title: String, _ name: String, _ figure: String) -> TopFigures.Fact {
    let rate = rate(figure)
    return .init(title: title, name: name, value: rate, text: TopFigures.rate(rate))
  }

  private func count(_ title: String, _ figure: String) -> TopFigures.Fact {
    let count = integer(figure)
    return .init(title: title, name: title, value: count, text: grouped(count))
  }

  private func late(_ title: String, _ name: String) -> TopFigures.Fact {
    // Nothing was due yet.
    let late = integer("expired") == 0 ? nil : integer(name)
    return .init(
      title: title, name: name, value: late,
      text: late.map { TopFigures.time(Double($0)) } ?? "–")
  }
}
