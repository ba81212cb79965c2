/// Sends requests to the servers that hold a fleet's records, and reports the answers. The fleet
/// knows no sockets; a test has servers of its own.
///
/// Everything happens on the event loop. Times called `boot` are microseconds of this host's boot
/// clock; times called `engine` are microseconds since 1970 on the server's clock.
package protocol FleetLink: AnyObject {
  /// Returns why the server of a partition does not answer.
  func problem(of partition: Int) -> String
  /// Sends a request to the server of a partition, once `flush` is called. Exactly one answer comes
  /// through `Fleet.receive`, never before this returns. Requests of a partition run in order.
  func send(_ request: FleetRequest, id: UInt64, to partition: Int)
  /// Writes all requests of a batch: one write for each server. After changes it asks which
  /// replicas have them, if the fleet waits for replicas.
  func flush()
  /// Reports each entry of a partition's stream after `number`, as it comes, with
  /// `Fleet.receive(_:of:)`. Replaces what was followed of that partition before.
  func follow(_ partition: Int, after number: Int64)
  /// Reports records of a partition with `Fleet.load`: all, or those of some keys. Then calls
  /// `Fleet.endLoading`. Replaces a load of that partition that is under way.
  func load(_ partition: Int, only keys: [FleetKey]?)
}

extension FleetLink {
  package func problem(of partition: Int) -> String { "the servers do not answer" }
}

/// The receiver of a link's reports: the fleet, or a test.
package protocol FleetLinkClient: AnyObject {
  func connected(_ partitions: [Int], at boot: Int64)
  func disconnected(_ partitions: [Int])
  /// Reports that the server of partitions cannot be used for now. It is tried again all the time.
  func cannotConnect(_ partitions: [Int], _ problem: String)
  func receive(_ answer: FleetAnswer, to id: UInt64, at boot: Int64)
  func receive(_ entries: [FleetEntry], of partition: Int)
  func load(_ records: [(FleetKey, FleetRecord)], of partition: Int)
  func noteUnreadable(_ key: FleetKey, of partition: Int)
  func endLoading(_ partition: Int)
}

extension Fleet: FleetLinkClient {}

/// The kind and key of a shared entity.
package struct FleetKey: Hashable, Sendable {
  package var kind: EntityKind
  package var key: [UInt8]

  package init(_ kind: EntityKind, _ key: [UInt8]) {
    self.kind = kind
    self.key = key
  }
}

/// The version of a record: the daemon that wrote it and the number of its operation. Never reused.
package struct FleetVersion: Hashable, Sendable {
  package static let length = 16

  package var daemon: UInt64
  package var operation: UInt64

  package init(daemon: UInt64, operation: UInt64) {
    self.daemon = daemon
    self.operation = operation
  }

  /// Fails unless there are 16 bytes.
  package init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.length else { return nil }
    func number(_ bytes: some Sequence<UInt8>) -> UInt64 {
      bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
    self.init(daemon: number(bytes.prefix(8)), operation: number(bytes.dropFirst(8)))
  }

  package var bytes: [UInt8] {
    [daemon, operation].flatMap { number in
      stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
    }
  }
}

/// A shared entity as a server stores it. Its instants are on the server's clock.
package struct FleetRecord: Equatable, Sendable {
  package var version: FleetVersion
  package var bytes: [UInt8]

  package init(_ version: FleetVersion, _ bytes: [UInt8]) {
    self.version = version
    self.bytes = bytes
  }
}

package enum FleetRequest: Sendable {
  /// Asks whether the partition has the epoch known here; creates another one if that is lost.
  case open(FleetOpening)
  case read(FleetKey)
  /// Asks for entries of the partition's stream.
  case entries(after: Int64, through: Int64, count: Int)
  case change(FleetKey, FleetChange)
}

package struct FleetOpening: Equatable, Sendable {
  /// The version of the scripts, and of what they store. A partition belongs to one version.
  package static let scripts = "1"

  /// The epoch found before, perhaps by an earlier daemon of this host; empty if there is none.
  package var known: [UInt8]
  /// The epoch of the partition if it is created.
  package var new: [UInt8]
  /// How long changes are refused after a loss of the known epoch was found, in microseconds; at
  /// least until `keeping.blockedUntil`.
  package var refusal: Int64
  /// Creates an epoch though none is known.
  package var beginning: FleetBeginning?
  /// The number of the stream entry that was read last; 0 if none.
  package var position: Int64
  /// A digest of this host's policies, for the server to compare; empty for no comparison.
  package var policies: [UInt8] = []
  /// Whether the server stores `policies` as its digest.
  package var setsPolicies = false
  /// The number of this host if it has a lease to renew.
  package var lease: UInt32?
  /// What it asks about the keeper's lease.
  package var keeping: FleetKeeping?

  package init(known: [UInt8], new: [UInt8], refusal: Int64, position: Int64) {
    self.known = known
    self.new = new
    self.refusal = refusal
    self.position = position
  }
}

/// A change of a record, made if the record still has the version that it was decided on.
package struct FleetChange: Equatable, Sendable {
  /// The epoch of the partition, as it was opened.
  package var epoch: [UInt8]
  /// The version that it was decided on; nil if there was no record.
  package var expected: FleetVersion?
  package var version: FleetVersion
  /// The new record; nil deletes the record.
  package var record: [UInt8]?
  /// Events for the stream entry, which has the record, too.
  package var events: [UInt8]
  /// The change is made only while the server's clock is between these times.
  package var earliest: Int64
  package var latest: Int64
  /// The number of this host, which takes or renews its lease, if its connections own the entity.
  package var lease: UInt32?
  /// Another host whose lease must be over.
  package var gone: UInt32?

  package init(
    epoch: [UInt8], expected: FleetVersion?, version: FleetVersion, record: [UInt8]?,
    events: [UInt8], earliest: Int64, latest: Int64
  ) {
    self.epoch = epoch
    self.expected = expected
    self.version = version
    self.record = record
    self.events = events
    self.earliest = earliest
    self.latest = latest
  }
}

package struct FleetAnswer: Sendable {
  package enum Body: Sendable {
    /// - Parameters:
    ///   - number: the number of the newest stream entry.
    ///   - refusedUntil: the time on the server's clock until which changes are refused.
    ///   - atPosition: the version of the entry at the requested position; nil if it is not there.
    ///   - newest: the version of the newest entry; nil if it is not there.
    case opened(
      epoch: [UInt8], number: Int64, refusedUntil: Int64, atPosition: FleetVersion?,
      newest: FleetVersion?, leases: FleetLeases)
    /// The partition cannot be opened.
    case closed(FleetClosure)
    case record(FleetRecord?)
    case entries([FleetEntry])
    /// The change is made. `problem` says why it is not confirmed: a failover may lose it.
    case changed(number: Int64, problem: String?)
    /// The record has another version; this is the record.
    case differs(FleetRecord?)
    /// The server's clock is not between the times of the change.
    case clock
    /// The lease of this host is over; or else that of the other host is not.
    case lease(isOver: Bool)
    /// The partition has another epoch than when it was opened, or changes are refused.
    case epoch
    /// There is no answer. `mayBeDone`: the request was sent, so it may have been executed.
    case failed(mayBeDone: Bool, String)
  }

  package var body: Body
  /// The server's time when it executed the request; nil if unknown.
  package var engine: Int64?
  /// When the request was sent, on the boot clock.
  package var sent: Int64
  /// In the answer to `open`: the digest of policies on the server, if it was asked for.
  package var policies: [UInt8] = []
  /// Why the server refuses the request, or, in the answer to `open`, to write; nil if it does not.
  package var refusal: FleetRefusal?

  package init(_ body: Body, engine: Int64?, sent: Int64) {
    self.body = body
    self.engine = engine
    self.sent = sent
  }
}

/// An entry of a partition's stream: a change and its events.
package struct FleetEntry: Equatable, Sendable {
  package var number: Int64
  package var key: FleetKey
  package var version: FleetVersion
  /// The new record; nil if it was deleted.
  package var record: [UInt8]?
  package var events: [UInt8]
  /// The server's time of the change; nil if unknown.
  package var time: Int64?

  package init(
    number: Int64, key: FleetKey, version: FleetVersion, record: [UInt8]?, events: [UInt8]
  ) {
    self.number = number
    self.key = key
    self.version = version
    self.record = record
    self.events = events
  }
}
