/// Takes requests to the servers that hold a fleet's records, and reports what comes back. The
/// fleet knows no sockets; a test has servers of its own.
///
/// Everything happens on the event loop. Times called `boot` are microseconds of the boot clock of
/// this host, times called `engine` microseconds since 1970 on the server's clock.
package protocol FleetLink: AnyObject {
  /// Sends a request to the server that holds a partition, once `flush` is called. Its answer
  /// comes as `Fleet.receive`: exactly one for each request, never before this returns. Requests of
  /// a partition are done in their order.
  func send(_ request: FleetRequest, id: UInt64, to partition: Int)
  /// All requests of a batch were sent. They go in one write for each server, changes followed by
  /// `WAIT replicas 100` where the fleet waits for replicas.
  func flush()
  /// Reports, with `Fleet.receive(_:of:)`, each entry of a partition's stream after that number, as
  /// they come. Replaces what was followed of that partition before.
  func follow(_ partition: Int, after number: Int64)
  /// Reports all records of a partition, with `Fleet.load`; then `Fleet.endLoading`.
  func load(_ partition: Int)
}

/// What a link reports to: the fleet, or a test.
package protocol FleetLinkClient: AnyObject {
  func connected(_ partitions: [Int], at boot: Int64)
  func disconnected(_ partitions: [Int])
  func receive(_ answer: FleetAnswer, to id: UInt64, at boot: Int64)
  func receive(_ entries: [FleetEntry], of partition: Int)
  func load(_ records: [(FleetKey, FleetRecord)], of partition: Int)
  func endLoading(_ partition: Int)
}

extension Fleet: FleetLinkClient {}

/// An entity that the fleet shares.
package struct FleetKey: Hashable, Sendable {
  package var kind: EntityKind
  package var key: [UInt8]

  package init(_ kind: EntityKind, _ key: [UInt8]) {
    self.kind = kind
    self.key = key
  }
}

/// Who wrote a record, and by which of its operations: no two writes have the same.
package struct FleetVersion: Hashable, Sendable {
  package static let length = 16

  package var daemon: UInt64
  package var operation: UInt64

  package init(daemon: UInt64, operation: UInt64) {
    self.daemon = daemon
    self.operation = operation
  }

  /// Nil unless there are 16.
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

/// What a server has of an entity. Its instants are on the server's clock.
package struct FleetRecord: Equatable, Sendable {
  package var version: FleetVersion
  package var bytes: [UInt8]

  package init(_ version: FleetVersion, _ bytes: [UInt8]) {
    self.version = version
    self.bytes = bytes
  }
}

package enum FleetRequest: Sendable {
  /// Whether the records are those that this daemon knows; makes the partition if there is none.
  case open(FleetOpening)
  case read(FleetKey)
  case change(FleetKey, FleetChange)
}

package struct FleetOpening: Equatable, Sendable {
  /// As it was found before; empty: not yet.
  package var known: [UInt8]
  /// What to call it, if there is none.
  package var new: [UInt8]
  /// How long changes are to be refused if what was known is lost, in microseconds.
  package var refusal: Int64
  /// The number of the stream's entry that was read last; 0: none.
  package var position: Int64
  /// A digest of this host's policies, to be compared with what the server has of another; empty:
  /// not to be compared.
  package var policies: [UInt8] = []
  /// The server is to have this one from now on.
  package var setsPolicies = false

  package init(known: [UInt8], new: [UInt8], refusal: Int64, position: Int64) {
    self.known = known
    self.new = new
    self.refusal = refusal
    self.position = position
  }
}

/// A change that is made if the record still has the version that it was decided on.
package struct FleetChange: Equatable, Sendable {
  /// The partition's, as it was opened.
  package var epoch: [UInt8]
  /// Nil: there is no record.
  package var expected: FleetVersion?
  package var version: FleetVersion
  /// Nil: the record is deleted.
  package var record: [UInt8]?
  /// For the stream, which has the record, too.
  package var events: [UInt8]
  /// It is only made while the server's clock is between these.
  package var earliest: Int64
  package var latest: Int64

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
    ///   - number: of the stream's newest entry.
    ///   - refusedUntil: changes are refused until then on the server's clock.
    ///   - atPosition: the version of the entry at the position that was asked for, if it is there.
    case opened(epoch: [UInt8], number: Int64, refusedUntil: Int64, atPosition: FleetVersion?)
    case record(FleetRecord?)
    /// The change is made. So many replicas have it: fewer than were to be waited for if they did
    /// not confirm in time.
    case changed(number: Int64, replicas: Int)
    /// The record has another version: this.
    case differs(FleetRecord?)
    /// The server's clock is not between the times of the change.
    case clock
    /// The partition is not the one that was opened, or changes are refused.
    case epoch
    /// There is no answer. `mayBeDone`: it was sent, so it may be done nevertheless.
    case failed(mayBeDone: Bool, String)
  }

  package var body: Body
  /// The server's time when it did the request; nil if it did not say.
  package var engine: Int64?
  /// When the request was sent.
  package var sent: Int64
  /// When a partition is opened: the digest of the policies of the host that came last.
  package var policies: [UInt8] = []

  package init(_ body: Body, engine: Int64?, sent: Int64) {
    self.body = body
    self.engine = engine
    self.sent = sent
  }
}

/// An entry of a partition's stream: a change, and what happened by it.
package struct FleetEntry: Equatable, Sendable {
  package var number: Int64
  package var key: FleetKey
  package var version: FleetVersion
  /// Nil: there is none any more.
  package var record: [UInt8]?
  package var events: [UInt8]
  /// The server's time when it was made; nil if it did not say.
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
