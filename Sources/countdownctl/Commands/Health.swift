import ArgumentParser
import CountdownClient
import Glibc
import Wire

struct Health: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check the daemon, and print one line for each problem.",
    discussion: """
      Exit status: 0 all is well; 1 it serves, but something needs attention; 2 it does not serve: \
      it cannot be reached, does not answer within 5 s (--wait), loads its state, or refuses \
      because of damage.

      Checks whether state can be stored and folded, damage, refused configurations, the fleet, \
      limits that are 90 % full, and whether the service may open enough files.

      Example:
        countdownctl health || countdownctl health --json | mail -s countdownd root
      """)

  @OptionGroup var global: GlobalOptions

  var patience: Duration? { global.wait ?? .seconds(5) }

  func run() async throws {
    let session = Session(socket: global.socket, json: global.json, patience: patience)
    do {
      try await run(session)
    } catch let error as CountdownClientError {
      try report([session.explain(error)], .notServing)
    }
  }

  func run(_ session: Session) async throws {
    let ping = try await session.reply(["PING"])
    if let text = ping.string, text != "PONG" { return try report([text], .notServing) }
    let text = try await session.reply(["INFO"]).string ?? ""
    let facts = HealthFacts(facts: ServerFacts(info: text))
    // Only admins may read the settings.
    let replicas = try? await session.reply(["CONFIG", "GET", "fleet.replicas"])["fleet.replicas"]
    let fleet = FleetFacts(info: text)?.problems(
      replicas: replicas?.string, now: Int(time(nil)) * 1_000)
    let problems = facts.problems + (fleet ?? [])
    try report(
      problems, facts.refuses ? .notServing : problems.isEmpty ? .well : .attention)
  }

  private enum Outcome: String {
    case well
    case attention
    case notServing = "not-serving"

    var exitCode: ExitCode {
      switch self {
      case .well: .success
      case .attention: ExitCode(1)
      case .notServing: ExitCode(2)
      }
    }
  }

  private func report(_ problems: [String], _ outcome: Outcome) throws {
    global.show(
      .object(["status": outcome.rawValue, "problems": problems]),
      problems.isEmpty ? ["all is well"] : problems.map(\.printable))
    guard outcome == .well else { throw outcome.exitCode }
  }
}

/// What INFO says about the health of a daemon.
struct HealthFacts {
  let facts: ServerFacts

  /// Whether commands are refused until damage is acknowledged.
  var refuses: Bool { facts["damaged"] == "1" && facts["on_damage"] == "refuse" }

  var problems: [String] {
    func text(_ name: String) -> String? { facts[name].flatMap { $0.isEmpty ? nil : $0 } }
    let texts = [
      text("damage").map {
        "damaged: \($0). Look at it, then `countdownctl state acknowledge`"
      },
      facts["read_only"] == "1" ? "read-only: \(text("last_error") ?? "")" : nil,
      text("fold_error").map { "folding fails: \($0)" },
      text("config_last_reload_error").map {
        "the new configuration is refused, the old one stays: \($0)"
      },
      text("missing_descriptors").flatMap { $0 == "0" ? nil : $0 }.map {
        "the service may open too few files for limits.max-connections: raise LimitNOFILE= by \($0), "
          + "or lower the limit"
      },
    ]
    return texts.compactMap(\.self)
      + [
        full("connected_clients", "maxclients", "limits.max-connections"),
        full("entities", "max_entities", "limits.max-entities"),
        full("used_memory_rss", "maxmemory", "limits.max-memory"),
      ].compactMap(\.self)
  }

  private func full(_ used: String, _ limit: String, _ setting: String) -> String? {
    guard let used = facts.integer(used), let limit = facts.integer(limit), limit > 0,
      used > limit / 10 * 9
    else { return nil }
    return "\(setting) is \(limit), and \(used) are in use"
  }
}
