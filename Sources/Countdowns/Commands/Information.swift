import Wire

extension Dispatcher {
  /// Returns the text of INFO.
  func information(_ sections: [InfoSection], forAdmin: Bool) -> String {
    sections.map { section in
      let title = section.rawValue.prefix(1).uppercased() + section.rawValue.dropFirst()
      let lines = figures(section, forAdmin: forAdmin).compactMap { figure in
        figure.name.map { "\($0):\(figure.value)\r\n" }
      }
      return "# \(title)\r\n" + lines.joined()
    }.joined(separator: "\r\n")
  }

  /// Returns the text of METRICS.
  func metrics() -> String {
    let metrics = InfoSection.allCases.flatMap { figures($0, forAdmin: false).compactMap(\.metric) }
    return metrics.sorted { $0.place < $1.place }.map { metric in
      let name = "countdownd_\(metric.name)"
      return "# HELP \(name) \(metric.help)\n# TYPE \(name) \(metric.type)\n"
        + metric.samples().map { "\(name)\($0) \($1)\n" }.joined()
    }.joined()
  }

  private func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] {
    host.figures(section, forAdmin: forAdmin) + ownFigures(section)
  }

  /// Returns what the dispatcher and the engine report in a section.
  private func ownFigures(_ section: InfoSection) -> [Figure] {
    switch section {
    case .server:
      [
        Figure.by(
          "version", "build_info", .gauge, "The version of the daemon; always 1.",
          [(label: Product.version, value: 1)])
      ]
    case .memory, .cpu, .systemd: []
    case .clients: clientFigures() + limitFigures()
    case .stats: statisticsFigures()
    case .timers: timerFigures()
    case .lateness: latenessFigures()
    case .persistence: stateFigures()
    case .commandstats: commandFigures()
    case .users: userFigures()
    case .fleet: fleet?.figures ?? []
    }
  }

  private func clientFigures() -> [Figure] {
    [
      .init("connected_clients", sessions.count, .gauge, as: "connections", "Open connections."),
      .init("pubsub_clients", "\(sessions.values.count { type(of: $0) == .pubsub })"),
      .init("monitors", "\(sessions.values.count { $0.isMonitor })"),
      .init("backed_up_clients", "\(sessions.values.count { $0.isBackedUp })"),
      .init("output_bytes", "\(sessions.values.reduce(0) { $0 + $1.pendingOutput })"),
    ]
  }

  private func statisticsFigures() -> [Figure] {
    let errors = statistics.errors
    let replies: [Figure] = [
      .init("total_connections_received", "\(statistics.connections)"),
      .init("total_commands_processed", "\(statistics.commands)"),
      .init("total_error_replies", "\(errors.values.reduce(0, +))"),
      .by(
        "code", "errors_total", .counter, "Error replies.",
        errors.sorted { $0.key < $1.key }.map { (String($0.key), $0.value) }),
      .init("protocol_errors", "\(statistics.protocolErrors)"),
    ]
    let events: [Figure] = [
      .init("cancelled", "\(engine.statistics.decisions.cancelled)"),
      .init("owner_gone", "\(engine.statistics.ownerGone)"),
      .init("events", engine.statistics.events, .counter, "Events, with or without a reader."),
      .init("events_published", "\(engine.statistics.publications)"),
      .init("events_sent", "\(statistics.eventsSent)"),
      .init("snapshots", "\(engine.statistics.snapshots)"),
      .init("ticks_merged", "\(statistics.ticksMerged)"),
      .init(
        "output_limit_disconnections", statistics.outputLimitDisconnections, .counter,
        "Connections closed because their client did not read."),
      .init("pubsub_channels", "\(engine.channelCount)"),
      .init("pubsub_patterns", "\(engine.patternCount)"),
      .init("slowlog_len", "\(slowLog.entries.count)"),
    ]
    return replies + engine.sendFigures + events + engine.shadowFigures
  }

  private func timerFigures() -> [Figure] {
    let (boot, wall) = engine.nextDeadline
    let now = host.now
    let left = [boot.map { $0 - now.boot }, wall.map { $0 - now.wall }].compactMap { $0 }.min()
    let all: [Figure] = [
      .init("entities", "\(engine.entityCount)"),
      .init("max_entities", "\(engine.settings.limits.entities)"),
      .by(
        "kind", "entities", .gauge, "Entities there are.",
        EntityKind.allCases.map { ("\($0.name)", Int64(engine.count($0))) }),
    ]
    let timers: [Figure] = [
      .init("armed", "\(engine.armedCount)"),
      .init("next_deadline_in_ms", left.map { "\(max($0.millisecondsRoundedUp, 0))" } ?? ""),
    ]
    let kinds = EntityKind.listed.map { Figure("\($0.behavior.noun)s", "\(engine.count($0))") }
    return all + kinds + timers
  }

  private func latenessFigures() -> [Figure] {
    let lateness = engine.statistics.lateness
    func percentile(_ percent: Double) -> String {
      lateness.histogram.totalCount == 0 ? "0" : "\(lateness.histogram.valueAtPercentile(percent))"
    }
    return [
      .init("expired", "\(lateness.histogram.totalCount)"),
      .init("late_us_p50", percentile(50)),
      .init("late_us_p99", percentile(99)),
      .init("late_us_p999", percentile(99.9)),
      .init("late_us_max", "\(lateness.maximum)"),
      .durations("timer_lateness_seconds", "How late what fell due was noticed.", lateness),
    ]
  }

  private func stateFigures() -> [Figure] {
    [
      .init(
        nil, if: isLoading || fleet?.isLoading == true, as: "loading",
        "1 while the state, or what a fleet shares, is being read."),
      .init(
        nil, if: engine.isReadOnly, as: "read_only",
        "1 while the state cannot be stored and changes are refused."),
    ]
  }

  /// The most users in INFO, so that the reply stays small: those whose commands took longest.
  private static let maximumUsers = 64

  private func userFigures() -> [Figure] {
    users.sorted { ($0.value.microseconds, $1.key) > ($1.value.microseconds, $0.key) }
      .prefix(Self.maximumUsers).map { uid, user in
        Figure(
          "user_\(uid)",
          "connections=\(user.connections),entities=\(engine.entityCount(of: uid)),"
            + "commands=\(user.commands),usec=\(user.microseconds),unread=\(user.unreadBytes)"
        )
      }
  }

  private func commandFigures() -> [Figure] {
    let used = zip(table.rows, statistics.perCommand).filter { $0.1.calls > 0 }
    let commands = used.map { row, counted in
      let hundredths = counted.microseconds * 100 / counted.calls
      let average = "\(hundredths / 100).\(String(hundredths % 100 + 100).dropFirst())"
      return Figure(
        "cmdstat_\(row.wireName)",
        "calls=\(counted.calls),usec=\(counted.microseconds),usec_per_call=\(average),"
          + "failed_calls=\(counted.failed)"
      )
    }
    return commands + [
      .by(
        "command", "commands_total", .counter, "Commands done or refused.",
        used.map { ($0.wireName, $1.calls) })
    ]
  }

  /// How much of each limit is used, and what limits and rights refuse. Every label has a sample
  /// from the start, as Prometheus sees no rise in a series that begins above 0.
  private func limitFigures() -> [Figure] {
    let host = host.limits
    let limits = limits(host).filter { $0.maximum > 0 }
    let refused = statistics.limits
    return [
      .by(
        "limit", "limit_used", .gauge,
        "How much of a limit is used; of one for each user or connection, by the one with the most.",
        limits.map { ($0.name, Int64($0.used)) }),
      .by(
        "limit", "limit_max", .gauge, "The limit; one that is 0 is not in force and not here.",
        limits.map { ($0.name, Int64($0.maximum)) }),
      .by(
        "limit", "limit_refusals_total", .counter, "Commands and connections refused at a limit.",
        CommandStatistics.limitNames.sorted().map { (String($0), refused[$0] ?? 0) }
          + host.refused.sorted { $0.key < $1.key }.map { ($0.key, Int64($0.value)) }),
      .by(
        "setting", "rights_refusals_total", .counter,
        "Commands and connections that the access rules refuse.",
        AccessRules.Part.allCases.map { part in
          let connections = part == .connect ? host.refusedByRules : 0
          return (part.rawValue, (statistics.rules[part] ?? 0) + Int64(connections))
        }),
    ]
  }

  private func limits(_ host: HostLimits) -> [(name: String, used: Int, maximum: Int)] {
    let (limits, use) = (engine.settings.limits, engine.limitUse)
    return [
      ("max-connections", sessions.count, host.connections.all),
      (
        "max-connections-per-uid", users.values.map(\.connections).max() ?? 0,
        host.connections.perUser
      ),
      ("max-entities", engine.stores.countForLimits, limits.entities),
      ("max-entities-per-uid", use.entitiesOfUser, limits.entitiesPerUser),
      ("max-key-memory", use.keyBytes, limits.keyMemory),
      ("max-memory", host.residentBytes, limits.memory),
      (
        "max-output-per-uid", users.values.map(\.unreadBytes).max() ?? 0,
        settings.maxOutputPerUser
      ),
      ("max-patterns-per-uid", use.patternsOfUser, limits.patternsPerUser),
      ("max-subscriptions", use.subscriptionsOfConnection, limits.subscriptions),
    ]
  }
}
