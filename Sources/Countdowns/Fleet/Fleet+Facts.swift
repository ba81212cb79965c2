/// The facts about a fleet in INFO and METRICS.
extension Fleet {
  private var copyCount: Int { partitions.reduce(0) { $0 + $1.copies.count } }

  /// How many partitions wait for an administrator to begin them.
  private var unknownCount: Int { partitions.count { $0.closure == .unknown } }

  /// How many partitions this host has copies of all records of.
  private var wholeCount: Int {
    partitions.indices.count {
      isWhole($0) && partitions[$0].hasCopies && !partitions[$0].isLoading
    }
  }

  /// How long ago the servers last wrote for a heartbeat, in microseconds: the longest time.
  private var heartbeatAge: Int64 { boot - (partitions.map(\.written).min() ?? boot) }

  var facts: [(name: String, value: String)] {
    let boot = boot
    let kinds = settings.kinds.sorted { $0.rawValue < $1.rawValue }
    var lines: [(name: String, value: String)] = [
      ("fleet_name", settings.name),
      ("fleet_kinds", kinds.map(\.name.description).joined(separator: ",")),
      ("fleet_partitions", "\(partitions.count)"),
      ("fleet_connected_partitions", "\(partitions.count { $0.isConnected })"),
      ("fleet_open_partitions", "\(partitions.count { $0.isOpen })"),
      ("fleet_loaded_partitions", "\(partitions.count { $0.hasCopies })"),
      ("fleet_unknown_partitions", "\(unknownCount)"),
      ("fleet_broken_partitions", "\(partitions.count { $0.isBroken })"),
      ("fleet_heartbeat_age_ms", "\(heartbeatAge / 1_000)"),
      ("fleet_partitions_with_clock_ahead", "\(partitions.count { $0.clock.isTooFarAhead })"),
      ("fleet_policies_differ", policiesDiffer ? "1" : "0"),
      ("fleet_mirror", settings.mirror.rawValue),
      ("fleet_kept_partitions", "\(wholeCount)"),
      ("fleet_partial", settings.mirror == .used && wholeCount < partitions.count ? "1" : "0"),
      ("fleet_copies", "\(copyCount)"),
      ("fleet_hidden", "\(dispatcher.engine.hiddenCount)"),
      ("fleet_under_way", "\(lanes.count)"),
      ("fleet_requests", "\(statistics.requests)"),
      ("fleet_commands", "\(statistics.commands)"),
      ("fleet_changes", "\(statistics.confirmed)"),
      ("fleet_conflicts", "\(statistics.conflicts)"),
      ("fleet_unavailable", "\(statistics.unavailable)"),
      ("fleet_unsure", "\(statistics.unsure)"),
      ("fleet_degraded", "\(statistics.degraded)"),
      ("fleet_entries_read", "\(statistics.entries)"),
      ("fleet_loadings", "\(statistics.loadings)"),
      ("fleet_unreadable", "\(partitions.reduce(0) { $0 + $1.unreadable.count })"),
      ("fleet_losses", "\(statistics.losses)"),
      ("fleet_takeovers_behind", "\(statistics.forks)"),
      ("fleet_owners", "\(owned.count)"),
      ("fleet_leases_lost", "\(statistics.leasesLost)"),
    ]
    let refused = partitions.map(\.refusedUntil).max() ?? 0
    lines.append(("fleet_refused_until_unix_ms", "\(refused / 1_000)"))
    // How far the servers' clocks are ahead of the wall clock of this host, or behind it.
    let wall = dispatcher.host.now.wall.microseconds
    let ahead = partitions.indices.compactMap { partitions[$0].clock.offset(at: boot) }
      .map { $0 + boot - wall }
    if let least = ahead.min(), let most = ahead.max() {
      lines.append(("fleet_clock_ahead_us", "\(least)..\(most)"))
    }
    return lines
  }

  /// What is wrong while this host joins; nil once it has all copies.
  package var trouble: String? {
    if let closure = partitions.lazy.compactMap(\.closure).first {
      return "fleet: \(closure.problem)"
    }
    let loaded = partitions.count { $0.hasCopies }
    guard loaded < partitions.count else { return nil }
    return "fleet: \(loaded) of \(partitions.count) partitions are loaded; listings are refused"
  }

  func write(to text: inout MetricsText) {
    text.value("fleet_partitions", .gauge, "Parts of what is shared.", partitions.count)
    text.value(
      "fleet_open_partitions", .gauge, "Parts whose server can be reached.",
      partitions.count { $0.isOpen && !$0.isBroken })
    text.value(
      "fleet_loaded_partitions", .gauge, "Parts that are copied to this host.",
      partitions.count { $0.hasCopies })
    text.value(
      "fleet_refuses", .gauge, "1 while changes are refused, as the servers have lost records.",
      partitions.contains { $0.refusedUntil > dispatcher.host.now.wall.microseconds } ? 1 : 0)
    text.value(
      "fleet_policies_differ", .gauge, "1 while another host has other policies.",
      policiesDiffer ? 1 : 0)
    text.value(
      "fleet_partitions_with_clock_ahead", .gauge, "Parts whose server's clock is too far ahead.",
      partitions.count { $0.clock.isTooFarAhead })
    text.value(
      "fleet_heartbeat_age_seconds", .gauge,
      "How long ago the servers last wrote for a heartbeat.", Int(heartbeatAge / 1_000_000))
    text.value("fleet_copies", .gauge, "Shared entities that this host has.", copyCount)
    text.value(
      "fleet_kept_partitions", .gauge, "Parts of which this host has all entities.", wholeCount)
    text.value("fleet_requests_total", .counter, "Requests to servers.", statistics.requests)
    text.values(
      "fleet_commands_total", .counter, by: "result", "Commands about what is shared.",
      [
        ("changed", statistics.confirmed), ("unavailable", statistics.unavailable),
        ("unsure", statistics.unsure), ("degraded", statistics.degraded),
      ])
    text.value(
      "fleet_losses_total", .counter, "How often the records of a part were lost.",
      statistics.losses)
    text.value(
      "fleet_takeovers_behind_total", .counter,
      "How often a server took over without the newest changes.", statistics.forks)
    text.value(
      "fleet_unreadable", .gauge, "Records that cannot be read.",
      partitions.reduce(0) { $0 + $1.unreadable.count })
    if let host = dispatcher.host.metrics.fleet {
      text.values(
        "fleet_refused_partitions", .gauge, by: "cause", "Parts whose server refuses changes.",
        FleetRefusal.allCases.map { ($0.rawValue, Int64(host.refusals[$0] ?? 0)) })
      text.value(
        "fleet_unread_partitions", .gauge, "Parts whose changes cannot be read.", host.unread)
      text.value(
        "fleet_replicas_missing", .gauge,
        "Replicas that changes wait for although they are missing.", host.missingReplicas)
      text.value(
        "fleet_replicas_unasked", .gauge,
        "1 if fleet.replicas is lower than the replicas that a server has.",
        host.hasUnaskedReplicas ? 1 : 0)
      if let sentinels = host.sentinels {
        text.value("fleet_sentinels", .gauge, "Sentinels in fleet.nodes.", sentinels.all)
        text.value(
          "fleet_sentinels_reachable", .gauge, "Sentinels that answer, and know the primary.",
          sentinels.reachable)
      }
    }
    text.value(
      "fleet_conflicts_total", .counter, "Changes decided again, as another host was faster.",
      statistics.conflicts)
  }
}
