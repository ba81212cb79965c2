import DequeModule
import Wire

/// The part of a fleet that runs in this daemon: what several hosts share is kept by servers, and
/// each change is decided here and made there, if nobody was faster.
///
///     decide on the record as it is known ─► change it, if it still is as it was known ─► reply
///           ▲                                      │ it is another way by now
///           └──────────────────────────────────────┘
///
/// The logic knows no sockets (`FleetLink`). Each partition of what is shared is independent: it
/// has a server's clock, an epoch, a stream that is followed, and is reachable or not.
package final class Fleet {
  package let settings: FleetSettings
  let link: any FleetLink
  unowned let dispatcher: Dispatcher
  let daemon: UInt64
  let kinds: KindSet

  let partitions: [FleetPartition]
  var lanes: [FleetKey: FleetLane] = [:]
  /// What was asked of the servers and not answered yet.
  var requests: [UInt64: FleetQuestion] = [:]
  private var lastRequest: UInt64 = 0
  private var lastOperation: UInt64 = 0
  /// Commands by their deadlines: each has the same time.
  var deadlines: Deque<FleetOperation> = []
  /// What is due and another daemon has written: it comes first.
  var dueLater: Deque<(boot: Int64, key: FleetKey)> = []
  /// Until the server's clock gets there.
  var held: [(boot: Int64, operation: FleetOperation)] = []
  var hasUnsent = false
  /// To be decided, one after the other.
  var ready: Deque<FleetOperation> = []
  var isDeciding = false
  var heartbeatDue: Int64
  let workbench: Workbench
  /// A digest of the policies, as the servers were asked to compare it.
  var lastPolicies: [UInt8] = []
  /// Another host has other policies.
  var policiesDiffer = false
  package internal(set) var statistics = FleetStatistics()

  static let heartbeat: Int64 = 1_000_000
  /// How often servers that did not answer are tried.
  static let probe: Int64 = 500_000
  /// How much later than the daemon that wrote a record the others do what is due.
  static let grace: Int64 = 150_000
  static let mostAttempts = 8
  /// So many commands in a row without an answer, and the next ones do not wait for one.
  static let mostFailures = 3

  /// - Parameter daemon: a number that no other daemon of the fleet has.
  package init(
    _ settings: FleetSettings, daemon: UInt64, dispatcher: Dispatcher, link: any FleetLink
  ) {
    self.settings = settings
    self.link = link
    self.dispatcher = dispatcher
    self.daemon = daemon
    kinds = KindSet(settings.kinds)
    partitions = (0..<settings.partitions).map { _ in
      FleetPartition(ServerClock(maximumSkew: settings.maximumClockSkew))
    }
    workbench = Workbench(host: dispatcher.host)
    heartbeatDue = dispatcher.host.now.boot.microseconds + Self.heartbeat
    dispatcher.engine.copies = kinds
    dispatcher.engine.copyIsDue = { [unowned self] in fallDue($0) }
  }

  /// Whether a command is about something that is shared.
  func shares(_ spec: CommandSpec) -> Bool {
    guard let kind = spec.group.kind, kinds.contains(kind) else { return false }
    return spec.keyPosition > 0
  }

  /// Whether it is about all that is shared.
  func lists(_ spec: CommandSpec) -> Bool {
    guard let kind = spec.group.kind else { return false }
    return kinds.contains(kind) && spec.keyPosition == 0 && spec.subcommand != "HELP"
  }

  /// Whether not all copies are here yet.
  package var isLoading: Bool { partitions.contains { !$0.hasCopies } }

  func partition(of key: FleetKey) -> Int { Int(CRC16.of(key.key)) % partitions.count }

  func copy(of key: FleetKey) -> FleetCopy? { partitions[partition(of: key)].copies[key] }

  var boot: Int64 { dispatcher.host.now.boot.microseconds }

  // MARK: What the driver calls

  /// When `advance` should next be called, on the boot clock.
  package var nextWake: Int64? {
    var next = heartbeatDue
    if let first = deadlines.first { next = min(next, first.deadline) }
    if let first = dueLater.first { next = min(next, first.boot) }
    for (boot, _) in held { next = min(next, boot) }
    return next
  }

  /// Does what is due: commands whose time has run out, what other daemons should have done, and
  /// heartbeats. `Dispatcher.advance` calls it.
  package func advance(to boot: Int64) {
    while let first = deadlines.first, first.isOver || first.deadline <= boot {
      deadlines.removeFirst()
      if !first.isOver { timeOut(first) }
    }
    while let first = dueLater.first, first.boot <= boot {
      dueLater.removeFirst()
      if copy(of: first.key) != nil { enqueueDue(first.key) }
    }
    if !held.isEmpty {
      let ready = held.filter { $0.boot <= boot }
      held.removeAll { $0.boot <= boot }
      for (_, operation) in ready { decide(operation) }
    }
    guard heartbeatDue <= boot else { return }
    let isAnyBroken = partitions.contains { $0.isBroken }
    heartbeatDue = boot + (isAnyBroken ? Self.probe : Self.heartbeat)
    for index in partitions.indices where partitions[index].isConnected { open(index) }
  }

  /// A batch ends: what it has to ask the servers is sent.
  package func flush() {
    guard hasUnsent else { return }
    hasUnsent = false
    link.flush()
  }

  func send(_ request: FleetRequest, to partition: Int, for operation: FleetOperation?) {
    lastRequest += 1
    requests[lastRequest] = FleetQuestion(
      partition: partition, operation: operation, place: partitions[partition].place)
    operation?.request = lastRequest
    hasUnsent = true
    statistics.requests += 1
    link.send(request, id: lastRequest, to: partition)
  }

  func newVersion() -> FleetVersion {
    lastOperation += 1
    return FleetVersion(daemon: daemon, operation: lastOperation)
  }
}

/// What was asked of the servers: for an operation, or whether they are there.
struct FleetQuestion {
  let partition: Int
  let operation: FleetOperation?
  /// Where the stream was read to when it was asked.
  let place: FleetPlace
}

/// What this daemon knows of something that is shared.
struct FleetCopy {
  var record: FleetRecord
  /// Of the entry of the stream that it came with; 0: it came otherwise.
  var number: Int64
  /// Which loading of its partition has found it.
  var loading: Int
}

package struct FleetStatistics: Sendable {
  /// Sent to the servers.
  package var requests: Int64 = 0
  package var commands: Int64 = 0
  package var confirmed: Int64 = 0
  /// Decided again, as another daemon was faster.
  package var conflicts: Int64 = 0
  package var unavailable: Int64 = 0
  package var unsure: Int64 = 0
  /// Decided without the servers.
  package var degraded: Int64 = 0
  package var entries: Int64 = 0
  package var loadings: Int64 = 0
}

/// Source: CRC-16/XMODEM, as Redis Cluster has it for its slots.
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
