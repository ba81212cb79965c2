import Wire

/// The text of METRICS, for Prometheus: counters that INFO has as well. It has no keys, nor
/// anything else that a client chose.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
struct MetricsText {
  private(set) var text = ""

  enum MetricType: String { case gauge, counter, histogram }

  private mutating func family(_ name: String, _ type: MetricType, _ help: String) {
    text += "# HELP countdownd_\(name) \(help)\n# TYPE countdownd_\(name) \(type)\n"
  }

  private mutating func sample(_ name: String, _ label: String, _ value: String) {
    text += "countdownd_\(name)\(label.isEmpty ? "" : "{\(label)}") \(value)\n"
  }

  mutating func value(
    _ name: String, _ type: MetricType, _ help: String, _ value: some BinaryInteger
  ) {
    family(name, type, help)
    sample(name, "", "\(value)")
  }

  mutating func seconds(_ name: String, _ type: MetricType, _ help: String, _ value: UInt64) {
    family(name, type, help)
    sample(name, "", Self.seconds(value))
  }

  /// Adds one sample for each value of a label.
  mutating func values(
    _ name: String, _ type: MetricType, by label: String, _ help: String,
    _ values: [(label: String, value: Int64)]
  ) {
    family(name, type, help)
    for (value, count) in values { sample(name, "\(label)=\"\(value)\"", "\(count)") }
  }

  fileprivate mutating func shadows(
    _ shadows: [(policy: String, shadow: String, counts: Shadow.Counts)]
  ) {
    family(
      "shadow_starts_total", .counter, "STARTs by which of a policy and its shadow accepted them.")
    for (policy, shadow, counts) in shadows {
      for (who, count) in [
        ("both", counts.both), ("policy", counts.onlyPolicy), ("shadow", counts.onlyShadow),
        ("none", counts.none), ("undecided", counts.undecided),
      ] {
        let labels = "policy=\"\(policy)\",shadow=\"\(shadow)\",accepted=\"\(who)\""
        sample("shadow_starts_total", labels, "\(count)")
      }
    }
  }

  mutating func durations(_ name: String, _ help: String, _ durations: DurationStatistics) {
    family(name, .histogram, help)
    let counts = durations.counts(upTo: Self.bounds)
    for (bound, count) in zip(Self.bounds, counts) {
      sample("\(name)_bucket", "le=\"\(Self.seconds(bound))\"", "\(count)")
    }
    let count = "\(durations.histogram.totalCount)"
    sample("\(name)_bucket", "le=\"+Inf\"", count)
    sample("\(name)_sum", "", Self.seconds(durations.total))
    sample("\(name)_count", "", count)
  }

  /// The upper bounds of the buckets, 100 µs to 60 s, in microseconds.
  private static let bounds: [UInt64] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
  ]

  private static func seconds(_ microseconds: UInt64) -> String {
    let fraction = "\(1_000_000 + microseconds % 1_000_000)".dropFirst()
    let digits = fraction.reversed().drop { $0 == "0" }.reversed()
    let whole = "\(microseconds / 1_000_000)"
    return digits.isEmpty ? whole : "\(whole).\(String(digits))"
  }
}

extension Dispatcher {
  func metrics() -> String {
    let (engine, host) = (engine, host.metrics)
    var text = MetricsText()
    text.values(
      "build_info", .gauge, by: "version", "The version of the daemon; always 1.",
      [(Product.version, 1)])
    text.values(
      "entities", .gauge, by: "kind", "Entities there are.",
      EntityKind.allCases.map { ("\($0.name)", Int64(engine.count($0))) })
    text.value("connections", .gauge, "Open connections.", sessions.count)
    text.values(
      "commands_total", .counter, by: "command", "Commands done or refused.",
      zip(table.rows, statistics.perCommand).filter { $0.1.calls > 0 }.map {
        ($0.statisticsName, $1.calls)
      })
    text.values(
      "errors_total", .counter, by: "code", "Error replies.",
      statistics.errors.sorted { $0.key < $1.key }.map { (String($0.key), $0.value) })
    text.values(
      "starts_total", .counter, by: "result", "Requests to start a countdown.",
      [("accepted", engine.statistics.accepted), ("refused", engine.statistics.refused)])
    text.value(
      "limited_starts_total", .counter, "Starts refused because of a named limit.",
      engine.statistics.limited)
    text.value(
      "limits_blocked_total", .counter,
      "How often a named limit was blocked because too few codes were entered.",
      engine.statistics.blocked)
    let shadows = self.engine.shadowCounts
    if !shadows.isEmpty {
      text.shadows(shadows)
    }
    text.value(
      "blocked_limits", .gauge, "Named limits that are blocked now.", engine.blockedLimits)
    text.durations(
      "timer_lateness_seconds", "How late what fell due was noticed.", engine.statistics.lateness)
    text.value(
      "events_total", .counter, "Events, with or without a reader.", engine.statistics.events)
    text.value(
      "event_log_bytes", .gauge, "Bytes of the event log in memory.", engine.eventLog.bytes)
    text.value(
      "event_log_evicted_total", .counter, "Events dropped because of events.max-bytes.",
      engine.eventLog.evicted)
    text.value(
      "rejected_connections_total", .counter,
      "Connections refused at a limit or by an access rule.",
      host.refusedByRules + host.refusedAtLimit.values.reduce(0, +))
    writeLimits(host, to: &text)
    text.value(
      "output_limit_disconnections_total", .counter,
      "Connections closed because their client did not read.",
      statistics.outputLimitDisconnections)
    text.value(
      "loading", .gauge, "1 while the state, or what a fleet shares, is being read.",
      isLoading || fleet?.isLoading == true ? 1 : 0)
    text.value(
      "read_only", .gauge, "1 while the state cannot be stored and changes are refused.",
      engine.isReadOnly ? 1 : 0)
    text.value(
      "damaged", .gauge, "1 while damage to the state is not acknowledged.",
      damage.isEmpty ? 0 : 1)
    text.durations(
      "batch_commit_seconds", "How long it took to append a batch of changes to the log.",
      host.commits)
    text.value("state_bytes", .gauge, "Size of the files in the state directory.", host.stateBytes)
    text.value(
      "folding_fails", .gauge, "1 while the change log cannot be folded into the database.",
      host.foldingFails ? 1 : 0)
    if let history = host.history {
      text.value(
        "process_starts_total", .counter, "Starts of the daemon with this state directory.",
        history.starts)
      text.value(
        "unclean_ends_total", .counter,
        "Starts after a daemon that had not ended in order: it hung, failed or was killed.",
        history.uncleanEnds)
      text.seconds(
        "last_backup_timestamp_seconds", .gauge,
        "When the last backup was read to its end, in Unix time; 0 for never.",
        history.lastBackupMicroseconds)
    }
    if let journal = host.journal {
      text.value("journal_bytes", .gauge, "Size of the journal of decisions.", journal.bytes)
      text.value("journal_entries", .gauge, "Entries of the journal.", journal.entries)
      text.value(
        "journal_lost_entries_total", .counter, "Entries that could not be kept.", journal.lost)
      text.value(
        "journal_fails", .gauge, "1 while the journal cannot be written.", journal.fails ? 1 : 0)
    }
    text.value(
      "config_last_reload_successful", .gauge, "0 while the newest configuration is refused.",
      host.hasReloaded ? 1 : 0)
    text.seconds(
      "config_last_reload_success_timestamp_seconds", .gauge,
      "When the configuration in force was loaded, in Unix time.", host.configuredMicroseconds)
    // node_exporter has the names without the prefix for itself.
    text.seconds(
      "process_start_time_seconds", .gauge, "When the process started, in Unix time.",
      host.startMicroseconds)
    text.seconds(
      "process_cpu_seconds_total", .counter, "Processor time of all threads.",
      host.processorMicroseconds)
    text.value(
      "process_resident_memory_bytes", .gauge, "Resident memory.", host.residentBytes)
    text.value("process_open_fds", .gauge, "Open file descriptors.", host.openDescriptors)
    text.value("process_max_fds", .gauge, "The most that may be open.", host.mostDescriptors)
    text.value(
      "process_missing_fds", .gauge,
      "How many more the connections would need that limits.max-connections allows.",
      host.missingDescriptors)
    text.value(
      "log_lost_lines_total", .counter, "Log lines that nobody has read in time.",
      host.lostLines.all)
    text.value(
      "log_lost_audit_lines_total", .counter, "Those of them about changes for another user.",
      host.lostLines.audit)
    fleet?.write(to: &text)
    return text.text
  }
}

extension Dispatcher {
  /// How much of each limit is used, and what limits and rights refuse. Every label has a sample
  /// from the start, as Prometheus sees no rise in a series that begins above 0.
  private func writeLimits(_ host: HostMetrics, to text: inout MetricsText) {
    let limits = limits(host).filter { $0.most > 0 }
    text.values(
      "limit_used", .gauge, by: "limit",
      "How much of a limit is used; of one for each user or connection, by the one with the most.",
      limits.map { ($0.name, Int64($0.used)) })
    text.values(
      "limit_max", .gauge, by: "limit", "The limit; one that is 0 is not in force and not here.",
      limits.map { ($0.name, Int64($0.most)) })
    let refused = statistics.limits
    text.values(
      "limit_refusals_total", .counter, by: "limit",
      "Commands and connections refused at a limit.",
      CommandStatistics.limitNames.sorted().map { (String($0), refused[$0] ?? 0) }
        + host.refusedAtLimit.sorted { $0.key < $1.key }.map { ($0.key, Int64($0.value)) })
    text.values(
      "rights_refusals_total", .counter, by: "setting",
      "Commands and connections that the access rules refuse.",
      AccessRules.Part.allCases.map { part in
        let connections = part == .connect ? host.refusedByRules : 0
        return (part.rawValue, (statistics.rules[part] ?? 0) + Int64(connections))
      })
  }

  private func limits(_ host: HostMetrics) -> [(name: String, used: Int, most: Int)] {
    let (limits, use) = (engine.settings.limits, engine.limitUse)
    return [
      ("max-connections", sessions.count, host.connectionLimits.all),
      (
        "max-connections-per-uid", users.values.map(\.connections).max() ?? 0,
        host.connectionLimits.perUser
      ),
      ("max-entities", engine.countForLimits, limits.entities),
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

extension CommandSpec {
  /// The command's name in INFO and METRICS.
  var statisticsName: String { fullName.lowercased().replacingBlank(with: "|") }
}
