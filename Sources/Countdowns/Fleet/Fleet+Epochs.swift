import Wire

/// Epochs: by them a host finds out that records are lost. Each partition has one, which its server
/// loses together with the records.
///
///     server has none ── a host knows one ────────► lost: another one, and changes are refused
///                     └─ no host knows one ► unknown ── FLEET INIT, FLEET ACCEPT-LOSS ─► begun
///
/// A host remembers epochs over restarts. One that knows none asks all others by waiting: each of
/// them opens the partition with every heartbeat, and finds the loss.
struct FleetEpochs {
  /// Whether a new fleet was begun in part, so that the rest may be begun, too.
  fileprivate var isBeginning = false
  /// Whether this host knows more than it has stored.
  var mustRemember = false
}

/// A partition's epoch, and until when its loss would matter.
struct PartitionEpoch {
  /// How much longer than needed the end of the longest cooldown is remembered, at least, in
  /// microseconds, so that it is not written all the time.
  private static let leastHeadroom: Int64 = 10_000_000

  private(set) var id: [UInt8] = []
  /// Tells epochs apart in cursors.
  private(set) var digest: Int64 = 0
  /// The epoch that an earlier daemon of this host has found.
  private var remembered: [UInt8] = []
  /// The time on the server's clock until which changes are refused, as records were lost.
  private(set) var refusedUntil: Int64 = 0
  /// The end of the longest cooldown and of the longest refill of a limit that was ever seen, in
  /// microseconds on the server's clock.
  private(set) var blockedUntil: Int64 = 0
  /// Until when the host remembers that.
  private var rememberedUntil: Int64 = 0

  /// The epoch that this host knows; empty if it knows none.
  var known: [UInt8] { id.isEmpty ? remembered : id }
  /// Whether this host has not stored until when a loss would matter.
  var mustBeRemembered: Bool { blockedUntil > rememberedUntil }

  /// Whether the records that this host knew are lost, as the server's epoch shows.
  func isLost(by epoch: [UInt8]) -> Bool { !known.isEmpty && known != epoch }

  mutating func noteBlock(until end: Int64) { blockedUntil = max(blockedUntil, end) }

  mutating func take(_ epoch: [UInt8], refusedUntil: Int64) {
    let new = SipHash(key: (0, 0))(epoch.span, compression: 2, finalization: 4)
    (id, digest) = (epoch, Int64(UInt32(truncatingIfNeeded: new)))
    self.refusedUntil = refusedUntil
  }

  fileprivate mutating func recall(_ memory: FleetMemory.Partition) {
    (remembered, rememberedUntil) = (memory.epoch, memory.blockedUntil)
    blockedUntil = memory.blockedUntil
  }

  /// - Parameter now: the time on the server's clock; nil if it is not known.
  fileprivate mutating func remember(at now: Int64?) -> FleetMemory.Partition {
    if mustBeRemembered {
      let left = max(blockedUntil - (now ?? blockedUntil), 0)
      rememberedUntil = blockedUntil + max(Self.leastHeadroom, left / 4)
    }
    return FleetMemory.Partition(epoch: known, blockedUntil: rememberedUntil)
  }
}

extension Fleet {
  /// Takes what earlier daemons of this host knew.
  func recall(_ memory: FleetMemory?) {
    guard let memory, memory.name == settings.name, memory.partitions.count == partitions.count
    else { return }
    for (partition, known) in zip(partitions, memory.partitions) {
      partition.epoch.recall(known)
    }
  }

  /// Has the host store what it knows.
  func remember() {
    epochs.mustRemember = false
    let known = partitions.map { $0.epoch.remember(at: $0.clock.now(at: boot)) }
    dispatcher.host.keep(FleetMemory(name: settings.name, partitions: known))
  }

  /// Refuses commands about a partition that its server has not opened.
  func close(_ index: Int, _ closure: FleetClosure) {
    let partition = partitions[index]
    if partition.health.closure != closure {
      dispatcher.host.note(.fleet(.closed(partition: index, closure)))
    }
    partition.health.close(closure)
    resume(partition)
  }

  // MARK: Beginning

  /// Begins the partitions that nobody knows. The reply comes later.
  func begin(_ beginning: FleetBeginning, _ call: borrowing Call) throws(CommandError) {
    let waiting = partitions.count { !$0.health.isOpen && $0.health.closure == nil }
    guard waiting == 0 else {
      throw CommandError(
        "UNAVAILABLE the servers of \(waiting) of \(partitions.count) partitions have not answered "
          + "yet. Nothing was done")
    }
    let now = dispatcher.host.now.wall.microseconds
    let wanted = partitions.indices.filter {
      partitions[$0].health.closure == .unknown
        || beginning == .acceptLoss && partitions[$0].epoch.refusedUntil > now
    }
    let isNew = wanted.isEmpty || wanted.count == partitions.count || epochs.isBeginning
    guard beginning != .initialize || isNew else {
      throw CommandError(
        "ERR the fleet is not new, as its servers know "
          + "\(partitions.count - wanted.count) of \(partitions.count) partitions; if the others "
          + "are lost, restore them or use FLEET ACCEPT-LOSS")
    }
    guard !wanted.isEmpty else { return call.session.output.integer(0) }
    epochs.isBeginning = beginning == .initialize
    let founding = FleetFounding(
      beginning, wanted.count, call.session.awaitReply(isBarrier: false), call.session.client)
    for index in wanted { open(index, for: founding) }
  }

  /// Counts an answer to `begin`.
  func take(_ body: FleetAnswer.Body, for founding: FleetFounding) {
    switch body {
    case .opened: founding.begun += 1
    case .failed(_, let problem): founding.problem = problem
    default: founding.problem = "a server did not begin its partition"
    }
    founding.left -= 1
    guard founding.left == 0 else { return }
    if founding.problem == nil { epochs.isBeginning = false }
    dispatcher.host.note(
      .fleet(.begun(founding.beginning, partitions: founding.begun, by: founding.client)))
    dispatcher.fill(founding.slot) {
      guard let problem = founding.problem else { return $0.integer(Int64(founding.begun)) }
      $0.error("UNAVAILABLE \(problem). Repeat it")
    }
  }
}

/// How an administrator begins partitions that nobody knows.
package enum FleetBeginning: String, Sendable {
  /// The fleet is new: nothing was ever sent.
  case initialize = "new"
  /// Whatever was sent is lost; changes are not refused.
  case acceptLoss = "loss"
}

/// Partitions that are begun for a client.
final class FleetFounding {
  let beginning: FleetBeginning
  let slot: ReplySlot
  let client: Client
  /// How many answers have not come.
  var left: Int
  var begun = 0
  var problem: String?

  init(_ beginning: FleetBeginning, _ left: Int, _ slot: ReplySlot, _ client: Client) {
    (self.beginning, self.left, self.slot, self.client) = (beginning, left, slot, client)
  }
}

/// Why a server does not open a partition.
package enum FleetClosure: Hashable, Sendable {
  /// It has no epoch, and neither does the host that asks.
  case unknown
  /// Hosts with other scripts, of this version, use it.
  case otherScripts(String)

  /// Why commands are refused, and what to do.
  package var problem: String {
    switch self {
    case .unknown:
      "the server has nothing of this partition, and this host knows nothing of it: for a new "
        + "fleet, run `countdownctl fleet init` once; if records were lost, restore them, or run "
        + "`countdownctl fleet accept-loss`"
    case .otherScripts(let version):
      "hosts of the fleet run a release with scripts \(version), this one has "
        + "\(FleetOpening.scripts): run the same release on all hosts"
    }
  }
}

/// What a host remembers of its fleet over restarts.
package struct FleetMemory: Equatable, Sendable {
  package struct Partition: Equatable, Sendable {
    /// Empty if it is not known.
    package var epoch: [UInt8]
    /// At least the end of the longest cooldown and refill, in microseconds on the server's clock.
    package var blockedUntil: Int64

    package init(epoch: [UInt8], blockedUntil: Int64) {
      (self.epoch, self.blockedUntil) = (epoch, blockedUntil)
    }
  }

  package var name: String
  package var partitions: [Partition]

  package init(name: String, partitions: [Partition]) {
    (self.name, self.partitions) = (name, partitions)
  }
}
