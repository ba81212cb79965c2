import CountdownFleet
import CountdownStore
import Countdowns
import Glibc

extension Server {
  package var configuration: [(name: String, value: String)] {
    // redis-benchmark asks for these two, and warns if a server does not answer.
    settings.shown + [("appendonly", "no"), ("save", "")]
  }

  package func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] {
    switch section {
    case .server: serverFigures()
    case .clients: clientFigures()
    case .memory: memoryFigures()
    case .cpu: ProcessTime.figures
    case .persistence: eventLogFigures() + storeFigures() + journalFigures
    case .systemd: hooks.systemdFacts().map(Figure.init)
    case .fleet: fleetServers?.figures(forAdmin: forAdmin) ?? []
    case .stats, .timers, .lateness, .commandstats, .users: []
    }
  }

  package var storeOffset: Int64 { state.writer?.batch.offset ?? 0 }

  package func forgetStored(_ kind: EntityKind, at slot: UInt32) {
    state.writer?.batch.appendGone(kind, at: slot)
  }

  package func keep(_ memory: FleetMemory) { fleetMemory?.keep(memory) }

  package var limits: HostLimits {
    var limits = HostLimits()
    limits.connections = settings.connections
    limits.refusedByRules = connections.refusedByRules
    limits.refused = connections.refusedAtLimit
    limits.residentBytes = ProcessMemory.residentBytes
    return limits
  }

  private func clientFigures() -> [Figure] {
    [
      .init("maxclients", "\(settings.connections.all)"),
      .init(
        "rejected_connections", connections.rejected, .counter,
        "Connections refused at a limit or by an access rule."),
      .init(
        "missing_descriptors", missingDescriptors, .gauge, as: "process_missing_fds",
        "How many more the connections would need that limits.max-connections allows."),
      .init(nil, ProcessDescriptors.open, .gauge, as: "process_open_fds", "Open file descriptors."),
      .init(
        nil, ProcessDescriptors.maximum, .gauge, as: "process_max_fds",
        "The most that may be open."),
      .init("users", "\(dispatcher.users.count)"),
    ]
  }

  private func eventLogFigures() -> [Figure] {
    let log = dispatcher.engine.eventLog
    return [
      .init("loading", dispatcher.isLoading ? "1" : "0"),
      .init("loading_entities", dispatcher.isLoading ? "\(dispatcher.engine.entityCount)" : ""),
      .init("events_kept", "\(log.count)"),
      .init(
        "events_bytes", log.bytes, .gauge, as: "event_log_bytes",
        "Bytes of the event log in memory."),
      .init(
        "events_evicted", log.evicted, .counter, as: "event_log_evicted_total",
        "Events dropped because of events.max-bytes."),
    ]
  }

  private func storeFigures() -> [Figure] {
    let writer = state.writer
    let damage: [Figure] = [
      .init(
        "damaged", if: !dispatcher.damage.isEmpty,
        "1 while damage to the state is not acknowledged."),
      .init("damage", dispatcher.damage.joined(separator: "; ")),
      .init("on_damage", settings.dispatcher.onDamage.rawValue),
      .durations(
        "batch_commit_seconds", "How long it took to append a batch of changes to the log.",
        writer?.appending ?? DurationStatistics()),
      .init(
        nil, writer?.stateBytes ?? 0, .gauge, as: "state_bytes",
        "Size of the files in the state directory."),
      .init(
        nil, if: writer?.upkeep.problem != nil, as: "folding_fails",
        "1 while the change log cannot be folded into the database."),
    ]
    guard let writer else {
      let durability = settings.state?.durability.rawValue ?? "none"
      return [Figure("durability", durability)] + damage + historyFigures(isShown: false)
    }
    let state: [Figure] = [
      .init("durability", writer.options.durability.rawValue),
      .init("state_directory", writer.options.directory),
      .init("read_only", isReadOnly ? "1" : "0"),
      .init("last_error", state.problem?.description ?? ""),
    ]
    return damage + historyFigures(isShown: true) + state + writer.facts.map(Figure.init)
  }

  /// - Parameter isShown: whether INFO has them.
  private func historyFigures(isShown: Bool) -> [Figure] {
    guard let history = state.history else { return [] }
    return [
      .init(
        isShown ? "process_starts" : nil, history.starts, .counter, as: "process_starts_total",
        "Starts of the daemon with this state directory."),
      .init(
        isShown ? "unclean_ends" : nil, history.uncleanEnds, .counter, as: "unclean_ends_total",
        "Starts after a daemon that had not ended in order: it hung, failed or was killed."),
      .init(
        isShown ? "last_backup_unix_ms" : nil, Figure.seconds(UInt64(history.lastBackup)), .gauge,
        as: "last_backup_timestamp_seconds",
        "When the last backup was read to its end, in Unix time; 0 for never.",
        shown: "\(history.lastBackup / 1_000)"),
    ]
  }

  private func serverFigures() -> [Figure] {
    let seconds = (now.boot - startedAt.boot).microseconds / 1_000_000
    let socket =
      switch settings.listener {
      case .path(let path, _): path
      case .descriptor: "passed by systemd"
      }
    let lost = hooks.lostLines()
    return [
      .init("countdownd_version", Product.version),
      // Tools made for Redis read these.
      .init("redis_mode", "standalone"),
      .init("process_id", "\(getpid())"),
      .init("socket", socket),
      .init("clock", virtualClock == nil ? "real" : "virtual"),
      .init("now_unix_ms", "\(now.wall.microseconds / 1_000)"),
      .init("uptime_in_seconds", "\(seconds)"),
      .init(
        nil, Figure.seconds(UInt64(clamping: startedAt.wall.microseconds)), .gauge,
        // node_exporter has the names without the prefix for itself.
        as: "process_start_time_seconds", "When the process started, in Unix time."),
      .init(
        "config_last_reload_successful", if: configured.problem == nil,
        "0 while the newest configuration is refused."),
      .init("config_last_reload_error", configured.problem ?? ""),
      .init(
        "config_last_reload_success_unix_ms",
        Figure.seconds(UInt64(clamping: configured.at.microseconds)), .gauge,
        as: "config_last_reload_success_timestamp_seconds",
        "When the configuration in force was loaded, in Unix time.",
        shown: "\(configured.at.microseconds / 1_000)"),
      .init("log_lost_lines", lost.all, .counter, "Log lines that nobody has read in time."),
      .init(
        "log_lost_audit_lines", lost.audit, .counter,
        "Those of them about changes for another user."),
    ]
  }

  private func memoryFigures() -> [Figure] {
    let resident = ProcessMemory.residentBytes
    let entities = dispatcher.engine.entityCount
    return [
      .init(
        "used_memory_rss", resident, .gauge, as: "process_resident_memory_bytes",
        "Resident memory."),
      .init("maxmemory", "\(settings.engine.limits.memory)"),
      .init("used_memory_rss_human", ProcessMemory.humanReadable(resident)),
      .init("entities", "\(entities)"),
      // Covers all memory of the process, so it is meaningful only with many entities.
      .init("rss_per_entity", entities == 0 ? "" : "\(resident / entities)"),
    ]
  }
}

/// The processor time used by all threads of this process.
enum ProcessTime {
  /// Seconds with microseconds in INFO. Source: getrusage(2).
  static var figures: [Figure] {
    var usage = rusage()
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func microseconds(_ time: timeval) -> UInt64 { UInt64(time.tv_sec * 1_000_000 + time.tv_usec) }
    func seconds(_ time: timeval) -> String {
      let fraction = "\(1_000_000 + Int(time.tv_usec))".dropFirst()
      return "\(time.tv_sec).\(fraction)"
    }
    return [
      .init("used_cpu_sys", seconds(usage.ru_stime)),
      .init("used_cpu_user", seconds(usage.ru_utime)),
      .init(
        nil, Figure.seconds(microseconds(usage.ru_stime) + microseconds(usage.ru_utime)), .counter,
        as: "process_cpu_seconds_total", "Processor time of all threads."),
    ]
  }
}

/// The file descriptors of this process.
enum ProcessDescriptors {
  /// How many are open; 0 if that cannot be read. O(1); before Linux 6.2, O(open).
  ///
  /// Source: proc_pid_fd(5); Linux commit f1f1f2569901, the size of /proc/self/fd.
  static var open: Int {
    var status = stat()
    if unsafe stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return status.st_size }
    // Without the folder's own.
    return max(((try? SafeFile.names(in: "/proc/self/fd")) ?? []).count - 1, 0)
  }

  /// How many may be open. Source: getrlimit(2).
  static var maximum: UInt64 {
    var limit = rlimit()
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return UInt64(limit.rlim_cur)
  }
}

/// The memory that this process uses.
enum ProcessMemory {
  /// The resident memory; 0 if it cannot be read. Source: proc(5), /proc/self/statm.
  static var residentBytes: Int {
    let bytes = (try? SafeFile.read("/proc/self/statm", atMost: 128)) ?? []
    let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
  }

  static func humanReadable(_ bytes: Int) -> String {
    let tenths = bytes * 10 / (1 << 20)
    return "\(tenths / 10).\(tenths % 10)M"
  }
}
