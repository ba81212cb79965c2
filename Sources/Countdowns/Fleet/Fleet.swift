import DequeModule
import HeapModule
import Wire

/// The part of a fleet that runs in this daemon. Servers keep the records of shared entities; each
/// change is decided here, and made there if no other daemon was faster.
///
///     decide on the known record ─► change it if it has the same version ─► reply
///           ▲                            │ it has another version
///           └────────────────────────────┘
///
/// The logic knows no sockets (`FleetLink`). Each partition is independent: it has a server's
/// clock, an epoch and a stream to follow, and is reachable or not.
package final class Fleet {
  package let settings: FleetSettings
  let link: any FleetLink
  unowned let dispatcher: Dispatcher
  let daemon: UInt64
  /// The ID of this daemon's event log in cursors.
  let eventLog: Int64
  let kinds: KindSet

  let partitions: [FleetPartition]
  var lanes: [FleetKey: FleetLane] = [:]
  /// Requests that are not answered yet, by id.
  var requests: [UInt64: FleetQuestion] = [:]
  private var lastRequest: UInt64 = 0
  private var lastOperation: UInt64 = 0
  /// Commands in the order of their deadlines: all have the same timeout.
  var deadlines: Deque<FleetOperation> = []
  /// Due entities to be looked at later: another daemon has written their record and comes first,
  /// or an attempt failed. The earliest comes first.
  private var dueLater = Heap<DueEntity>()
  private var lastDue: UInt64 = 0
  /// Operations to continue, as their partition is open again.
  var resuming: Deque<FleetOperation> = []
  /// Copies that a loading has not found, to be removed; then a nil for the end of that loading.
  var stale: Deque<(partition: Int, loading: Int, key: FleetKey?)> = []
  /// For how long a copy is held after its last use, in microseconds; at most for twice as long.
  package var useLength: Int64 = 60_000_000
  /// For how long hosts wait for one whose turn it is to change a rate limit, in microseconds.
  package var turnLength: Int64
  /// With `mirror: used`, until when copies are held at least, on the boot clock; and when to look
  /// at each of them, in the order of these times.
  var uses: [FleetKey: Int64] = [:]
  var useEnds: Deque<(boot: Int64, key: FleetKey)> = []
  /// Copies of partitions that this host has kept, to be let go of.
  var released: Deque<FleetKey> = []
  /// Keys that are read for a command, and for how many.
  var fetched: [FleetKey: Int] = [:]
  /// How many partitions this host is the keeper of.
  var keptCount = 0
  var heartbeats = 0
  /// How many keepers this heartbeat has asked for their lease.
  var relieving = 0
  /// Whether this host gives back what it keeps.
  var isEnding = false
  /// Operations that wait for the server's clock, each until a time on the boot clock.
  var held: [(boot: Int64, operation: FleetOperation)] = []
  /// Requests of clients for events, under way.
  var readings: [EventReading] = []
  var hasUnsent = false
  /// The daemons that have changed a rate limit lately, the last one at the end.
  var writers: [FleetKey: [FleetWriter]] = [:]
  /// The latest room of each limit that this host has let a countdown wait for.
  var promises: [[UInt8]: Instant] = [:]
  /// Operations to decide, one after the other.
  var ready: Deque<FleetOperation> = []
  var isDeciding = false
  var heartbeatDue: Int64
  let workbench: Workbench
  /// The number of this host in those of owners.
  var hostNumber: UInt32
  /// Numbers that this host has had, whose lease was over.
  var formerNumbers: Set<UInt32> = []
  /// What each owner owns, or runs an action of.
  var owned: [UInt64: Set<FleetKey>] = [:]
  /// The operation that is being decided: its partition, who asks, and the hosts that it takes for
  /// gone.
  var deciding: (partition: Int, asker: UInt64?, gone: Set<UInt32>) = (0, nil, [])
  /// The digest of the policies that a server last compared.
  var lastPolicies: [UInt8] = []
  /// Whether another host has other policies.
  var policiesDiffer = false
  /// Whether a new fleet was begun in part, so that the rest may be begun, too.
  var isBeginning = false
  /// Whether this host knows more than it has stored.
  var mustRemember = false
  package internal(set) var statistics = FleetStatistics()

  static let heartbeat: Int64 = 1_000_000
  /// How often servers that did not answer are tried, in microseconds.
  static let probe: Int64 = 500_000
  /// How much later than the writer of a record other daemons do its due work, in microseconds.
  static let grace: Int64 = 150_000
  static let maximumAttempts = 8
  /// How many steps of work follow an answer at once; the rest waits for its turn.
  static let stepsAtOnce = 64
  /// After so many commands in a row without an answer, the next ones do not wait for one.
  static let maximumFailures = 3

  /// - Parameters:
  ///   - daemon: a number that no other daemon of the fleet has.
  ///   - eventLog: the ID of the event log, if it is stored; then restarts keep it.
  ///   - memory: what earlier daemons of this host had `CommandHost.keep` store.
  package init(
    _ settings: FleetSettings, daemon: UInt64, eventLog: Int64? = nil, memory: FleetMemory? = nil,
    dispatcher: Dispatcher, link: any FleetLink
  ) {
    self.settings = settings
    self.link = link
    self.dispatcher = dispatcher
    self.daemon = daemon
    self.eventLog = eventLog ?? Int64(daemon >> 1)
    kinds = KindSet(settings.kinds)
    partitions = (0..<settings.partitions).map { _ in
      FleetPartition(ServerClock(maximumSkew: settings.maximumClockSkew))
    }
    workbench = Workbench(host: dispatcher.host)
    turnLength = settings.timeout.microseconds / 10
    hostNumber = UInt32(truncatingIfNeeded: daemon)
    for partition in partitions { partition.written = dispatcher.host.now.boot.microseconds }
    heartbeatDue = dispatcher.host.now.boot.microseconds + Self.heartbeat
    // The servers have the log of what is shared; without copies there is no room for another one.
    dispatcher.engine.decide(
      withCopies: DecisionContext.Copies(
        of: kinds, areLogged: settings.mirror == .all,
        isDue: { [unowned self] in fallDue($0) },
        position: { [unowned self] in position(of: FleetKey($0, $1)) }))
    workbench.isOwnerThere = { [unowned self] owner in
      // If the asker's connection is closed meanwhile, its command runs as if it was closed later.
      if owner == deciding.asker || isThere(owner, in: deciding.partition) { return true }
      let host = Self.host(of: owner)
      // The server checks the leases of other hosts.
      if host != hostNumber, !formerNumbers.contains(host) { deciding.gone.insert(host) }
      return false
    }
    workbench.copy = { [unowned self] key, time in
      let key = FleetKey(.throttle, key)
      let partition = partitions[partition(of: key)]
      guard let record = partition.copies[key]?.record else { return nil }
      let offset = (partition.clock.now(at: boot) ?? time) - time
      return (record.bytes, offset, promises[key.key])
    }
    recall(memory)
  }

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
  package var isLoading: Bool { partitions.contains { !$0.hasCopies } }

  package func partition(of key: FleetKey) -> Int { Int(CRC16.of(key.key)) % partitions.count }

  func copy(of key: FleetKey) -> FleetCopy? { partitions[partition(of: key)].copies[key] }

  var boot: Int64 { dispatcher.host.now.boot.microseconds }

  // MARK: What the driver calls

  /// When `advance` should next be called, on the boot clock.
  package var nextWake: Int64? {
    var next = heartbeatDue
    if let first = deadlines.first { next = min(next, first.deadline) }
    if let first = dueLater.min { next = min(next, first.boot) }
    for (boot, _) in held { next = min(next, boot) }
    if let first = useEnds.first { next = min(next, first.boot) }
    for reading in readings { next = min(next, reading.deadline) }
    return isBehind(at: boot) ? min(next, boot) : next
  }

  /// Whether work is left that nothing has to be awaited for.
  private func isBehind(at boot: Int64) -> Bool {
    !resuming.isEmpty || !stale.isEmpty || !released.isEmpty
      || dueLater.min.map { $0.boot <= boot } ?? false
      || useEnds.first.map { $0.boot <= boot } ?? false
  }

  /// Runs what is due: timeouts of commands, due work that other daemons did not do, operations
  /// that waited for a clock, and heartbeats. `Dispatcher.advance` calls it. Returns false if the
  /// budget ran out first.
  package func advance(to boot: Int64, budget: Int) -> Bool {
    while let first = deadlines.first, first.isOver || first.deadline <= boot {
      deadlines.removeFirst()
      if !first.isOver { timeOut(first) }
    }
    continueReadings(at: boot)
    resume(budget)
    sweep(budget)
    letGo(at: boot, budget: budget)
    var steps = 0
    while steps < budget, let first = dueLater.min, first.boot <= boot {
      dueLater.removeMin()
      if copy(of: first.key) != nil { enqueueDue(first.key) }
      steps += 1
    }
    if !held.isEmpty {
      let ready = held.filter { $0.boot <= boot }
      held.removeAll { $0.boot <= boot }
      for (_, operation) in ready { decide(operation) }
    }
    if heartbeatDue <= boot {
      let isAnyBroken = partitions.contains { $0.isBroken }
      heartbeatDue = boot + (isAnyBroken ? Self.probe : Self.heartbeat)
      heartbeats += 1
      mustRemember = mustRemember || partitions.contains { $0.blockedUntil > $0.rememberedUntil }
      relieving = 0
      for index in partitions.indices where partitions[index].isConnected { open(index) }
    }
    return !isBehind(at: boot)
  }

  /// Looks at a due entity at a time on the boot clock.
  func look(at key: FleetKey, at boot: Int64) {
    lastDue += 1
    dueLater.insert(DueEntity(boot: boot, number: lastDue, key: key))
  }

  /// Sends the requests of a batch when it ends.
  package func flush() {
    if mustRemember { remember() }
    guard hasUnsent else { return }
    hasUnsent = false
    link.flush()
  }

  func send(
    _ request: FleetRequest, to partition: Int, for operation: FleetOperation?,
    reading: EventReading? = nil, founding: FleetFounding? = nil
  ) {
    lastRequest += 1
    requests[lastRequest] = FleetQuestion(
      partition: partition, operation: operation, reading: reading, founding: founding,
      place: partitions[partition].place)
    if let operation { lanes[operation.key]!.requests += 1 }
    hasUnsent = true
    statistics.requests += 1
    link.send(request, id: lastRequest, to: partition)
  }

  func newVersion() -> FleetVersion {
    lastOperation += 1
    return FleetVersion(daemon: daemon, operation: lastOperation)
  }
}

/// An entity to be looked at later. Those of the same time keep their order.
private struct DueEntity: Comparable {
  let boot: Int64
  let number: UInt64
  let key: FleetKey

  static func < (a: Self, b: Self) -> Bool { (a.boot, a.number) < (b.boot, b.number) }
}

/// A request that is not answered yet: of an operation, for events, or to open a partition.
struct FleetQuestion {
  let partition: Int
  let operation: FleetOperation?
  let reading: EventReading?
  let founding: FleetFounding?
  /// The place in the stream when the request was sent.
  let place: FleetPlace
}

/// This daemon's copy of a shared record.
struct FleetCopy {
  var record: FleetRecord
  /// The number of the stream entry that brought it; 0 if it came otherwise.
  var number: Int64
  /// The partition's `loading` when the copy was set last.
  var loading: Int
  /// The connections that own the entity, or run its action.
  var owners: [UInt64] = []
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
