import CountdownStore
import Countdowns
import Glibc

extension Server {
  package var configuration: [(name: String, value: String)] {
    // redis-benchmark asks for these two, and warns if a server does not answer.
    settings.shown + [("appendonly", "no"), ("save", "")]
  }

  package func facts(_ section: InfoSection, forAdmin: Bool) -> [(name: String, value: String)] {
    switch section {
    case .server: serverFacts()
    case .clients:
      [
        ("maxclients", "\(settings.connections.all)"),
        ("rejected_connections", "\(connections.rejected)"),
        ("missing_descriptors", "\(missingDescriptors)"),
        ("users", "\(dispatcher.users.count)"),
      ]
    case .memory: memoryFacts()
    case .cpu: ProcessTime.facts
    case .persistence:
      [
        ("loading", dispatcher.isLoading ? "1" : "0"),
        ("loading_entities", dispatcher.isLoading ? "\(dispatcher.engine.entityCount)" : ""),
        ("events_kept", "\(dispatcher.engine.eventLog.count)"),
        ("events_bytes", "\(dispatcher.engine.eventLog.bytes)"),
        ("events_evicted", "\(dispatcher.engine.eventLog.evicted)"),
      ]
        + storeFacts + journalFacts
    case .systemd: hooks.systemdFacts()
    case .fleet: fleetServers?.facts(forAdmin: forAdmin) ?? []
    case .stats, .timers, .lateness, .commandstats, .users: []
    }
  }

  package var storeOffset: Int64 { storing.writer?.batch.offset ?? 0 }

  package func forgetStored(_ kind: EntityKind, at place: UInt32) {
    storing.writer?.batch.appendGone(kind, at: place)
  }

  package func note(_ notice: FleetNotice) { fleetServers?.note(notice) }

  package func keep(_ memory: FleetMemory) { fleetMemory?.keep(memory) }

  package func note(_ change: ForeignChange, by client: Client) {
    logger.log(
      .foreignChange, .notice, "an entity of another user was changed",
      [
        "uid": "\(client.uid)", "connection": "\(client.connection)",
        "command": .string(change.command), "maker": "\(change.maker)",
        "key": .string("\(change.kind.name):" + String(decoding: change.key, as: UTF8.self)),
        "allowed-by": .string(change.permission),
      ])
    if hooks.isLogBehind() { connection(client.connection)?.waitForLog() }
  }

  package func hasCleared(
    _ count: Int, _ kind: EntityKind, _ pattern: [UInt8], for client: Client
  ) {
    logger.log(
      .cleared, .notice, "entities were ended by an administrator",
      [
        "uid": "\(client.uid)", "kind": "\(kind.name)", "count": "\(count)",
        "match": "\(String(decoding: pattern, as: UTF8.self))",
      ])
  }

  package var metrics: HostMetrics {
    var metrics = HostMetrics()
    metrics.connectionLimits = settings.connections
    metrics.refusedByRules = connections.refusedByRules
    metrics.refusedAtLimit = connections.refusedAtLimit
    if let writer = storing.writer {
      metrics.commits = writer.appending
      metrics.stateBytes = writer.stateBytes
      metrics.foldingFails = writer.foldingProblem != nil
    }
    metrics.journal = journalMetrics
    metrics.history = history.map {
      HistoryMetrics(
        starts: $0.starts, uncleanEnds: $0.uncleanEnds,
        lastBackupMicroseconds: UInt64($0.lastBackup))
    }
    metrics.hasReloaded = reloadProblem == nil
    metrics.configuredMicroseconds = UInt64(clamping: configuredAt.microseconds)
    metrics.fleet = fleetServers.map {
      FleetServersMetrics(
        missingReplicas: $0.missingReplicas, hasUnaskedReplicas: $0.hasUnaskedReplicas,
        refusals: $0.refusals, unread: $0.unreadPartitions,
        sentinels: $0.sentinels)
    }
    metrics.startMicroseconds = UInt64(clamping: startedAt.wall.microseconds)
    metrics.processorMicroseconds = ProcessTime.microseconds
    metrics.residentBytes = ProcessMemory.residentBytes
    metrics.openDescriptors = ProcessDescriptors.open
    metrics.mostDescriptors = ProcessDescriptors.most
    metrics.missingDescriptors = missingDescriptors
    metrics.lostLines = hooks.lostLines()
    return metrics
  }

  private var storeFacts: [(name: String, value: String)] {
    let damage = [
      ("damaged", dispatcher.damage.isEmpty ? "0" : "1"),
      ("damage", dispatcher.damage.joined(separator: "; ")),
      ("on_damage", settings.dispatcher.onDamage.rawValue),
    ]
    guard let writer = storing.writer else {
      return [("durability", settings.state?.durability.rawValue ?? "none")] + damage
    }
    return damage + [
      ("process_starts", "\(history?.starts ?? 0)"),
      ("unclean_ends", "\(history?.uncleanEnds ?? 0)"),
      ("last_backup_unix_ms", "\((history?.lastBackup ?? 0) / 1_000)"),
      ("durability", writer.options.durability.rawValue),
      ("state_directory", writer.options.directory),
      ("read_only", isReadOnly ? "1" : "0"),
      ("last_error", storing.problem?.description ?? ""),
    ] + writer.facts
  }

  private func serverFacts() -> [(name: String, value: String)] {
    let seconds = (now.boot - startedAt.boot).microseconds / 1_000_000
    let socket =
      switch settings.listener {
      case .path(let path, _): path
      case .descriptor: "passed by systemd"
      }
    let lost = hooks.lostLines()
    return [
      ("countdownd_version", Product.version),
      // Tools made for Redis read these.
      ("redis_mode", "standalone"),
      ("process_id", "\(getpid())"),
      ("socket", socket),
      ("clock", virtualClock == nil ? "real" : "virtual"),
      ("now_unix_ms", "\(now.wall.microseconds / 1_000)"),
      ("uptime_in_seconds", "\(seconds)"),
      ("config_last_reload_successful", reloadProblem == nil ? "1" : "0"),
      ("config_last_reload_error", reloadProblem ?? ""),
      ("config_last_reload_success_unix_ms", "\(configuredAt.microseconds / 1_000)"),
      ("log_lost_lines", "\(lost.all)"),
      ("log_lost_audit_lines", "\(lost.audit)"),
    ]
  }

  private func memoryFacts() -> [(name: String, value: String)] {
    let resident = ProcessMemory.residentBytes
    let entities = dispatcher.engine.entityCount
    return [
      ("used_memory_rss", "\(resident)"),
      ("maxmemory", "\(settings.engine.limits.memory)"),
      ("used_memory_rss_human", ProcessMemory.humanReadable(resident)),
      ("entities", "\(entities)"),
      // Covers all memory of the process, so it is meaningful only with many entities.
      ("rss_per_entity", entities == 0 ? "" : "\(resident / entities)"),
    ]
  }
}

/// The processor time used by all threads of this process.
enum ProcessTime {
  /// Lines of INFO, in seconds with microseconds. Source: getrusage(2).
  static var facts: [(name: String, value: String)] {
    var usage = rusage()
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func seconds(_ time: timeval) -> String {
      let fraction = "\(1_000_000 + Int(time.tv_usec))".dropFirst()
      return "\(time.tv_sec).\(fraction)"
    }
    return [
      ("used_cpu_sys", seconds(usage.ru_stime)), ("used_cpu_user", seconds(usage.ru_utime)),
    ]
  }

  static var microseconds: UInt64 {
    var usage = rusage()
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let seconds = usage.ru_stime.tv_sec + usage.ru_utime.tv_sec
    return UInt64(seconds * 1_000_000 + usage.ru_stime.tv_usec + usage.ru_utime.tv_usec)
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
    guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
    defer { unsafe closedir(folder) }
    var entries = 0
    while unsafe readdir(folder) != nil { entries += 1 }
    // Without `.`, `..` and the folder's own.
    return max(entries - 3, 0)
  }

  /// How many may be open. Source: getrlimit(2).
  static var most: UInt64 {
    var limit = rlimit()
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return UInt64(limit.rlim_cur)
  }
}

/// The memory that this process uses.
enum ProcessMemory {
  /// The resident memory; 0 if it cannot be read. Source: proc(5), /proc/self/statm.
  static var residentBytes: Int {
    let bytes = (try? FileContents.read("/proc/self/statm", atMost: 128)) ?? []
    let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
  }

  static func humanReadable(_ bytes: Int) -> String {
    let tenths = bytes * 10 / (1 << 20)
    return "\(tenths / 10).\(tenths % 10)M"
  }
}
