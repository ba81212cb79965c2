import Wire

/// What the daemon reports of itself: a line of INFO, a metric, or both. Metrics have no keys, nor
/// anything else that a client chose.
package struct Figure {
  package enum MetricType: String { case gauge, counter, histogram }

  /// A family of METRICS.
  ///
  /// Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
  package struct Metric {
    let name: String
    let type: MetricType
    let help: String
    /// What follows the name, and the value.
    let samples: () -> [(rest: String, value: String)]

    /// Its place in METRICS.
    var place: Int { places[name] ?? order.count }
  }

  /// The name in INFO; nil if it is a metric only.
  package let name: String?
  /// The value in INFO.
  package let value: String
  let metric: Metric?

  /// Creates a line of INFO.
  package init(_ name: String, _ value: String) {
    (self.name, self.value, metric) = (name, value, nil)
  }

  /// Creates a metric with several samples.
  init(
    _ metric: String, _ type: MetricType, _ help: String,
    samples: @escaping () -> [(rest: String, value: String)]
  ) {
    (name, value) = (nil, "")
    self.metric = Metric(name: metric, type: type, help: help, samples: samples)
  }

  /// Creates a metric with one value.
  ///
  /// - Parameters:
  ///   - name: the name in INFO; nil if it is not there.
  ///   - metric: the name in METRICS; nil for that in INFO, after which a counter has `_total`.
  ///   - shown: the value in INFO, if it differs.
  package init(
    _ name: String?, _ value: some CustomStringConvertible, _ type: MetricType,
    as metric: String? = nil, _ help: String, shown: String? = nil
  ) {
    let value = "\(value)"
    (self.name, self.value) = (name, shown ?? value)
    self.metric = Metric(
      name: metric ?? (name ?? "") + (type == .counter ? "_total" : ""), type: type, help: help
    ) { [("", value)] }
  }

  /// Creates a gauge that is 1 or 0.
  package init(
    _ name: String?, if flag: Bool, as metric: String? = nil, _ help: String, shown: String? = nil
  ) {
    self.init(name, flag ? 1 : 0, .gauge, as: metric, help, shown: shown)
  }

  /// Returns a metric with one sample for each value of a label.
  package static func by(
    _ label: String, _ metric: String, _ type: MetricType, _ help: String,
    _ values: [(label: String, value: Int64)]
  ) -> Figure {
    Figure(metric, type, help) { values.map { ("{\(label)=\"\($0)\"}", "\($1)") } }
  }

  // MARK: Durations

  package static func durations(
    _ metric: String, _ help: String, _ durations: DurationStatistics
  ) -> Figure {
    Figure(metric, .histogram, help) {
      let count = "\(durations.histogram.totalCount)"
      let buckets = zip(bounds, durations.counts(upTo: bounds)).map { bound, count in
        (rest: "_bucket{le=\"\(seconds(bound))\"}", value: "\(count)")
      }
      return buckets + [
        ("_bucket{le=\"+Inf\"}", count), ("_sum", seconds(durations.total)), ("_count", count),
      ]
    }
  }

  /// The upper bounds of the buckets, 100 µs to 60 s, in microseconds.
  private static let bounds: [UInt64] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
  ]

  /// Returns microseconds as seconds.
  package static func seconds(_ microseconds: UInt64) -> String {
    let fraction = "\(1_000_000 + microseconds % 1_000_000)".dropFirst()
    let digits = fraction.reversed().drop { $0 == "0" }.reversed()
    let whole = "\(microseconds / 1_000_000)"
    return digits.isEmpty ? whole : "\(whole).\(String(digits))"
  }

  // MARK: Order

  /// The order of METRICS, where related families of several sections of INFO are side by side.
  /// Others come after these.
  private static let order = """
    build_info entities connections commands_total errors_total starts_total limited_starts_total
    limits_blocked_total shadow_starts_total blocked_limits timer_lateness_seconds events_total
    event_log_bytes event_log_evicted_total rejected_connections_total limit_used limit_max
    limit_refusals_total rights_refusals_total output_limit_disconnections_total loading read_only
    damaged batch_commit_seconds state_bytes folding_fails process_starts_total unclean_ends_total
    last_backup_timestamp_seconds journal_bytes journal_entries journal_lost_entries_total
    journal_fails config_last_reload_successful config_last_reload_success_timestamp_seconds
    process_start_time_seconds process_cpu_seconds_total process_resident_memory_bytes
    process_open_fds process_max_fds process_missing_fds log_lost_lines_total
    log_lost_audit_lines_total fleet_partitions fleet_open_partitions fleet_loaded_partitions
    fleet_refuses fleet_policies_differ fleet_partitions_with_clock_ahead
    fleet_heartbeat_age_seconds fleet_copies fleet_kept_partitions fleet_requests_total
    fleet_commands_total fleet_losses_total fleet_takeovers_behind_total fleet_unreadable
    fleet_refused_partitions fleet_unread_partitions fleet_replicas_missing fleet_replicas_unasked
    fleet_sentinels fleet_sentinels_reachable fleet_conflicts_total
    """.split(whereSeparator: \.isWhitespace).map(String.init)

  private static let places = Dictionary(uniqueKeysWithValues: zip(order, 0...))
}
