/// The facts about a fleet in INFO and METRICS.
extension Fleet {
  private var copyCount: Int { partitions.reduce(0) { $0 + $1.copies.count } }

  /// How many partitions wait for an administrator to begin them.
  private var unknownCount: Int { partitions.count { $0.health.closure == .unknown } }

  /// How many partitions this host has copies of all records of.
  private var wholeCount: Int {
    partitions.indices.count {
      isWhole($0) && partitions[$0].loading.hasCopies && !partitions[$0].loading.isUnderWay
    }
  }

  /// How long ago the servers last wrote for a heartbeat, in microseconds: the longest time.
  private var heartbeatAge: Int64 { boot - (partitions.map(\.health.written).min() ?? boot) }

  var figures: [Figure] {
    let kinds = settings.kinds.sorted { $0.rawValue < $1.rawValue }
    let names = kinds.map(\.name.description).joined(separator: ",")
    return [Figure("fleet_name", settings.name), Figure("fleet_kinds", names)]
      + partitionFigures + statisticsFigures + clockFigures
  }

  private var partitionFigures: [Figure] {
    [
      .init("fleet_partitions", partitions.count, .gauge, "Parts of what is shared."),
      .init("fleet_connected_partitions", "\(partitions.count { $0.health.isConnected })"),
      .init(
        "fleet_open_partitions", partitions.count { $0.health.isOpen && !$0.health.isBroken },
        .gauge,
        "Parts whose server can be reached.", shown: "\(partitions.count { $0.health.isOpen })"),
      .init(
        "fleet_loaded_partitions", partitions.count { $0.loading.hasCopies }, .gauge,
        "Parts that are copied to this host."),
      .init("fleet_unknown_partitions", "\(unknownCount)"),
      .init("fleet_broken_partitions", "\(partitions.count { $0.health.isBroken })"),
      .init(
        "fleet_heartbeat_age_ms", heartbeatAge / 1_000_000, .gauge,
        as: "fleet_heartbeat_age_seconds", "How long ago the servers last wrote for a heartbeat.",
        shown: "\(heartbeatAge / 1_000)"),
      .init(
        "fleet_partitions_with_clock_ahead", partitions.count { $0.clock.isTooFarAhead }, .gauge,
        "Parts whose server's clock is too far ahead."),
      .init(
        "fleet_policies_differ", if: policies.differ, "1 while another host has other policies."),
      .init("fleet_mirror", settings.mirror.rawValue),
      .init(
        "fleet_kept_partitions", wholeCount, .gauge,
        "Parts of which this host has all entities."),
      .init("fleet_partial", settings.mirror == .used && wholeCount < partitions.count ? "1" : "0"),
    ]
  }

  private var statisticsFigures: [Figure] {
    [
      .init("fleet_copies", copyCount, .gauge, "Shared entities that this host has."),
      .init("fleet_hidden", "\(dispatcher.engine.hiddenCount)"),
      .init("fleet_under_way", "\(lanes.count)"),
      .init("fleet_requests", statistics.requests, .counter, "Requests to servers."),
      .init("fleet_commands", "\(statistics.commands)"),
      .by(
        "result", "fleet_commands_total", .counter, "Commands about what is shared.",
        [
          ("changed", statistics.confirmed), ("unavailable", statistics.unavailable),
          ("unsure", statistics.unsure), ("degraded", statistics.degraded),
        ]),
      .init("fleet_changes", "\(statistics.confirmed)"),
      .init(
        "fleet_conflicts", statistics.conflicts, .counter,
        "Changes decided again, as another host was faster."),
      .init("fleet_unavailable", "\(statistics.unavailable)"),
      .init("fleet_unsure", "\(statistics.unsure)"),
      .init("fleet_degraded", "\(statistics.degraded)"),
      .init("fleet_entries_read", "\(statistics.entries)"),
      .init("fleet_loadings", "\(statistics.loadings)"),
      .init(
        "fleet_unreadable", partitions.reduce(0) { $0 + $1.loading.unreadable.count }, .gauge,
        "Records that cannot be read."),
      .init(
        "fleet_losses", statistics.losses, .counter, "How often the records of a part were lost."),
      .init(
        "fleet_takeovers_behind", statistics.forks, .counter,
        "How often a server took over without the newest changes."),
      .init("fleet_owners", "\(owners.owned.count)"),
      .init("fleet_leases_lost", "\(statistics.leasesLost)"),
    ]
  }

  private var clockFigures: [Figure] {
    let wall = dispatcher.host.now.wall.microseconds
    let refused = partitions.map(\.epoch.refusedUntil).max() ?? 0
    // How far the servers' clocks are ahead of the wall clock of this host, or behind it.
    let ahead = partitions.indices.compactMap { partitions[$0].clock.offset(at: boot) }
      .map { $0 + boot - wall }
    let refusal: [Figure] = [
      .init(
        "fleet_refused_until_unix_ms", if: refused > wall, as: "fleet_refuses",
        "1 while changes are refused, as the servers have lost records.",
        shown: "\(refused / 1_000)")
    ]
    guard let least = ahead.min(), let maximum = ahead.max() else { return refusal }
    return refusal + [Figure("fleet_clock_ahead_us", "\(least)..\(maximum)")]
  }

  /// What is wrong while this host joins; nil once it has all copies.
  package var trouble: String? {
    if let closure = partitions.lazy.compactMap(\.health.closure).first {
      return "fleet: \(closure.problem)"
    }
    let loaded = partitions.count { $0.loading.hasCopies }
    guard loaded < partitions.count else { return nil }
    return "fleet: \(loaded) of \(partitions.count) partitions are loaded; listings are refused"
  }
}
