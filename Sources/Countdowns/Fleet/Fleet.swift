import Wire

/// The part of a fleet that runs in this daemon. Servers keep the records of shared entities; each
/// change is decided here, and made there if no other daemon was faster.
///
///     decide on the known record ─► change it if it has the same version ─► reply
///           ▲                            │ it has another version
///           └────────────────────────────┘
///
/// The logic knows no sockets (`FleetLink`). Each partition is independent: it has a server's
/// clock, an epoch and a stream to follow, and is reachable or not. What the parts have changes in
/// their files alone.
package final class Fleet {
  package let settings: FleetSettings
  unowned let dispatcher: Dispatcher
  let workbench: Workbench
  let partitions: [FleetPartition]
  var requests: FleetRequests
  var lanes = FleetLanes()
  var times: FleetTimes
  var readings: FleetReadings
  var owners: FleetOwners
  var epochs = FleetEpochs()
  var policies = FleetPolicies()
  package var mirror = FleetMirror()
  package var turns: FleetTurns
  package internal(set) var statistics = FleetStatistics()
  /// The version of the newest change that this daemon has decided.
  private var newest: FleetVersion

  static let heartbeat: Int64 = 1_000_000
  /// How often servers that did not answer are tried, in microseconds.
  static let probe: Int64 = 500_000
  /// How much later than the writer of a record other daemons do its due work, in microseconds.
  static let grace: Int64 = 150_000
  static let maximumAttempts = 8
  /// How many steps of work follow an answer at once; the rest waits for its turn.
  static let stepsAtOnce = 64

  /// - Parameters:
  ///   - daemon: a number that no other daemon of the fleet has.
  ///   - eventLog: the ID of the event log, if it is stored; then restarts keep it.
  ///   - memory: what earlier daemons of this host had `CommandHost.keep` store.
  package init(
    _ settings: FleetSettings, daemon: UInt64, eventLog: Int64? = nil, memory: FleetMemory? = nil,
    dispatcher: Dispatcher, link: any FleetLink
  ) {
    let boot = dispatcher.host.now.boot.microseconds
    self.settings = settings
    self.dispatcher = dispatcher
    newest = FleetVersion(daemon: daemon, operation: 0)
    workbench = Workbench(host: dispatcher.host)
    partitions = (0..<settings.partitions).map { _ in
      FleetPartition(ServerClock(maximumSkew: settings.maximumClockSkew), at: boot)
    }
    requests = FleetRequests(link)
    times = FleetTimes(startingAt: boot)
    readings = FleetReadings(of: eventLog ?? Int64(daemon >> 1))
    owners = FleetOwners(UInt32(truncatingIfNeeded: daemon))
    turns = FleetTurns(settings.timeout)
    times.beat(at: boot + Self.heartbeat)
    // The servers have the log of what is shared; without copies there is no room for another one.
    dispatcher.engine.decide(
      withCopies: DecisionContext.Copies(
        of: KindSet(settings.kinds), areLogged: settings.mirror == .all,
        isDue: { [unowned self] in fallDue(FleetKey($0, $1)) },
        position: { [unowned self] in position(of: FleetKey($0, $1)) }))
    workbench.isOwnerThere = { [unowned self] in isThereForDecision($0) }
    workbench.copy = { [unowned self] in copyOfLimit($0, at: $1) }
    recall(memory)
  }

  /// The kinds whose entities are shared.
  var kinds: KindSet { dispatcher.engine.context.copiedKinds }
  var daemon: UInt64 { newest.daemon }
  var boot: Int64 { dispatcher.host.now.boot.microseconds }

  /// Returns whether a command is about one shared entity.
  func shares(_ spec: CommandSpec) -> Bool {
    guard let kind = spec.group.kind, kinds.contains(kind) else { return false }
    return spec.keyPosition > 0
  }

  /// Returns whether the entities of a kind are shared.
  func shares(_ kind: EntityKind) -> Bool { kinds.contains(kind) }

  /// Returns whether a command is about all entities of a shared kind.
  func lists(_ spec: CommandSpec) -> Bool {
    guard let kind = spec.group.kind else { return false }
    return kinds.contains(kind) && spec.keyPosition == 0 && spec.subcommand != "HELP"
  }

  /// Whether some copies are not loaded yet.
  package var isLoading: Bool { partitions.contains { !$0.loading.hasCopies } }

  package func partition(of key: FleetKey) -> Int { Int(CRC16.of(key.key)) % partitions.count }

  func copy(of key: FleetKey) -> FleetCopy? { partitions[partition(of: key)].copies[key] }

  func newVersion() -> FleetVersion {
    newest.operation += 1
    return newest
  }

  // MARK: What the driver calls

  /// When `advance` should next be called, on the boot clock.
  package var nextWake: Int64? { hasWork ? boot : times.next }

  /// Whether work is left that nothing has to be awaited for.
  private var hasWork: Bool {
    lanes.isResuming || times.hasChores || times.next.map { $0 <= boot } ?? false
  }

  /// Runs what is due: timeouts of commands, due work that other daemons did not do, operations
  /// that waited for a clock, and heartbeats. `Dispatcher.advance` calls it. Returns false if the
  /// budget ran out first.
  package func advance(to boot: Int64, budget: Int) -> Bool {
    var steps = max(budget, Self.stepsAtOnce)
    while let occasion = times.removeNext(until: boot, budget: &steps) {
      switch occasion {
      case .heartbeat: beat()
      case .operation(let operation): isTime(for: operation)
      case .reading(let reading): proceed(reading)
      case .chore(let chore): times.add(chore)
      }
    }
    resume(budget)
    doChores(budget)
    return !hasWork
  }

  private func beat() {
    times.beat(
      at: boot + (partitions.contains { $0.health.isBroken } ? Self.probe : Self.heartbeat))
    mirror.beginHeartbeat()
    if partitions.contains(where: \.epoch.mustBeRemembered) { epochs.mustRemember = true }
    for index in partitions.indices where partitions[index].health.isConnected { open(index) }
  }

  func doChores(_ budget: Int) {
    for _ in 0..<budget {
      switch times.removeChore() {
      case .look(let key)?: if copy(of: key) != nil { enqueueDue(key) }
      case .letGo(let key)?: letGoIfUnused(key)
      case .release(let key)?: release(key)
      case .returnMemory(let partition)?: partition.returnMemory()
      case .removeStale(let key, let index, let loading)?: removeStale(key, of: index, loading)
      case .endLoading(let index, let loading)?: endLoading(index, loading)
      case nil: return
      }
    }
  }

  /// Looks at a due entity at a time on the boot clock.
  func look(at key: FleetKey, at boot: Int64) { times.add(.chore(.look(key)), at: boot) }
}

package struct FleetStatistics: Sendable {
  /// Requests sent to the servers.
  package var requests: Int64 = 0
  package var commands: Int64 = 0
  package var confirmed: Int64 = 0
  /// Changes decided again, most often because another daemon was faster.
  package var conflicts: Int64 = 0
  package var unavailable: Int64 = 0
  package var unsure: Int64 = 0
  /// Changes decided without the servers.
  package var degraded: Int64 = 0
  package var entries: Int64 = 0
  package var loadings: Int64 = 0
  /// How often the records of a partition were lost, and how often a server that took over lacked
  /// the newest changes.
  package var losses: Int64 = 0
  package var forks: Int64 = 0
  /// How often a lease of this host was over, so that its connections lost what they owned.
  package var leasesLost: Int64 = 0
}

/// Source: CRC-16/XMODEM, as Redis Cluster uses it for its slots.
package enum CRC16 {
  private static let table: [UInt16] = (0..<256).map { index in
    (0..<8).reduce(UInt16(index) << 8) { crc, _ in
      crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1
    }
  }

  package static func of(_ bytes: some Sequence<UInt8>) -> UInt16 {
    bytes.reduce(0) { crc, byte in crc << 8 ^ table[Int(crc >> 8 ^ UInt16(byte))] }
  }
}
