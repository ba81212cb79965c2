extension Dispatcher {
  /// Returns the text of INFO.
  func information(_ sections: [InfoSection], forAdmin: Bool) -> String {
    sections.map { section in
      let title = section.rawValue.prefix(1).uppercased() + section.rawValue.dropFirst()
      let lines = host.facts(section, forAdmin: forAdmin) + facts(section)
      return "# \(title)\r\n" + lines.map { "\($0.name):\($0.value)\r\n" }.joined()
    }.joined(separator: "\r\n")
  }

  /// Returns what the dispatcher and the engine report in a section.
  private func facts(_ section: InfoSection) -> [(name: String, value: String)] {
    switch section {
    case .server, .memory, .cpu, .systemd, .persistence: []
    case .clients: clientFacts()
    case .stats: statisticsFacts()
    case .timers: timerFacts()
    case .lateness: latenessFacts()
    case .commandstats: commandFacts()
    case .users: userFacts()
    case .fleet: fleet?.facts ?? []
    }
  }

  private func clientFacts() -> [(name: String, value: String)] {
    [
      ("connected_clients", "\(sessions.count)"),
      ("pubsub_clients", "\(sessions.values.count { type(of: $0) == .pubsub })"),
      ("monitors", "\(sessions.values.count { $0.isMonitor })"),
      ("backed_up_clients", "\(sessions.values.count { $0.isBackedUp })"),
      ("output_bytes", "\(sessions.values.reduce(0) { $0 + $1.pendingOutput })"),
    ]
  }

  private func statisticsFacts() -> [(name: String, value: String)] {
    let engine = engine.statistics
    return [
      ("total_connections_received", "\(statistics.connections)"),
      ("total_commands_processed", "\(statistics.commands)"),
      ("total_error_replies", "\(statistics.errors.values.reduce(0, +))"),
      ("protocol_errors", "\(statistics.protocolErrors)"),
      ("starts_accepted", "\(engine.accepted)"),
      ("starts_refused", "\(engine.refused)"),
      ("starts_limited", "\(engine.limited)"),
      ("limits_blocked", "\(engine.blocked)"),
      ("sends_refunded", "\(engine.refunded)"),
      ("cancelled", "\(engine.cancelled)"),
      ("owner_gone", "\(engine.ownerGone)"),
      ("events", "\(engine.events)"),
      ("events_published", "\(engine.publications)"),
      ("events_sent", "\(statistics.eventsSent)"),
      ("snapshots", "\(engine.snapshots)"),
      ("ticks_merged", "\(statistics.ticksMerged)"),
      ("output_limit_disconnections", "\(statistics.outputLimitDisconnections)"),
      ("pubsub_channels", "\(self.engine.channelCount)"),
      ("pubsub_patterns", "\(self.engine.patternCount)"),
      ("slowlog_len", "\(slowLog.entries.count)"),
    ]
      + self.engine.shadowCounts.map { policy, shadow, counts in
        (
          "shadow_\(policy)",
          "shadow=\(shadow),both=\(counts.both),only_policy=\(counts.onlyPolicy),"
            + "only_shadow=\(counts.onlyShadow),none=\(counts.none),undecided=\(counts.undecided)"
        )
      }
  }

  private func timerFacts() -> [(name: String, value: String)] {
    let (boot, wall) = engine.nextDeadline
    let now = host.now
    let left = [boot.map { $0 - now.boot }, wall.map { $0 - now.wall }].compactMap { $0 }.min()
    return [
      ("entities", "\(engine.entityCount)"),
      ("max_entities", "\(engine.settings.limits.entities)"),
    ] + EntityKind.listed.map { ("\($0.behavior.noun)s", "\(engine.count($0))") } + [
      ("armed", "\(engine.armedCount)"),
      ("next_deadline_in_ms", left.map { "\(max($0.millisecondsRoundedUp, 0))" } ?? ""),
    ]
  }

  private func latenessFacts() -> [(name: String, value: String)] {
    let statistics = engine.statistics.lateness
    let lateness = statistics.histogram
    let isEmpty = lateness.totalCount == 0
    func percentile(_ percent: Double) -> String {
      isEmpty ? "0" : "\(lateness.valueAtPercentile(percent))"
    }
    return [
      ("expired", "\(lateness.totalCount)"),
      ("late_us_p50", percentile(50)),
      ("late_us_p99", percentile(99)),
      ("late_us_p999", percentile(99.9)),
      ("late_us_max", "\(statistics.maximum)"),
    ]
  }

  /// The most users in INFO, so that the reply stays small: those whose commands took longest.
  private static let mostUsers = 64

  private func userFacts() -> [(name: String, value: String)] {
    users.sorted { ($0.value.microseconds, $1.key) > ($1.value.microseconds, $0.key) }
      .prefix(Self.mostUsers).map { uid, user in
        (
          "user_\(uid)",
          "connections=\(user.connections),entities=\(engine.entityCount(of: uid)),"
            + "commands=\(user.commands),usec=\(user.microseconds),unread=\(user.unreadBytes)"
        )
      }
  }

  private func commandFacts() -> [(name: String, value: String)] {
    zip(table.rows, statistics.perCommand).filter { $0.1.calls > 0 }.map { row, counted in
      let hundredths = counted.microseconds * 100 / counted.calls
      let average = "\(hundredths / 100).\(String(hundredths % 100 + 100).dropFirst())"
      return (
        "cmdstat_\(row.statisticsName)",
        "calls=\(counted.calls),usec=\(counted.microseconds),usec_per_call=\(average),"
          + "failed_calls=\(counted.failed)"
      )
    }
  }
}
