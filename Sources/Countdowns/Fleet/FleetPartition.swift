import DequeModule

/// One part of the shared records, on one server at a time.
final class FleetPartition {
  var clock: ServerClock
  var health: PartitionHealth
  var epoch = PartitionEpoch()
  var stream = PartitionStream()
  var loading = PartitionLoading()
  var leases = PartitionLeases()
  /// This daemon's copies of the partition's records.
  var copies: [FleetKey: FleetCopy] = [:]
  /// Whether this host is the keeper, which has copies of all records.
  var isKept = false
  /// Commands that wait until the partition is open.
  var parked: Deque<FleetOperation> = []
  /// Entities with due work that waits until the partition can be used.
  var due: Deque<FleetKey> = []

  /// - Parameter boot: the present on the boot clock.
  init(_ clock: ServerClock, at boot: Int64) {
    (self.clock, health) = (clock, PartitionHealth(at: boot))
  }

  var isUsable: Bool { health.isUsable && !clock.isTooFarAhead }

  /// Releases commands that have ended. All wait for the same time, so they end in order.
  func forgetParked() { while let first = parked.first, first.isOver { parked.removeFirst() } }

  /// Returns the memory of removed copies.
  func returnMemory() {
    guard copies.capacity > 4 * copies.count + 64 else { return }
    copies = Dictionary(uniqueKeysWithValues: copies.lazy.map { $0 })
  }
}

/// Whether a partition can be used, and why not.
struct PartitionHealth {
  /// After so many commands in a row without an answer, the next ones do not wait for one.
  private static let maximumFailures = 3

  /// Whether the server can be reached.
  private(set) var isConnected = false
  /// Whether the partition was opened on its server, so that requests can be sent.
  private(set) var isOpen = false
  /// Why the partition cannot be opened; nil if nothing is known against it.
  var problem: String?
  /// Why the server does not open it; nil if it does, or has not answered.
  private(set) var closure: FleetClosure?
  /// Why the server refuses to write; nil if it does not.
  var refusal: FleetRefusal?
  /// When the server last wrote for a heartbeat, on the boot clock.
  var written: Int64
  /// The number of commands in a row without an answer in time.
  private var failures = 0

  init(at boot: Int64) { written = boot }

  var isBroken: Bool { failures >= Self.maximumFailures }
  var isUsable: Bool { isOpen && !isBroken && refusal == nil }

  mutating func connect() { (isConnected, problem) = (true, nil) }
  mutating func disconnect() { (isConnected, isOpen, closure) = (false, false, nil) }
  mutating func open() { (isOpen, closure, problem, failures) = (true, nil, nil, 0) }
  mutating func close(_ closure: FleetClosure) { (isOpen, self.closure) = (false, closure) }
  /// Notes that the server has to be asked again to open the partition.
  mutating func mustOpen() { isOpen = false }
  mutating func noteAnswer() { failures = 0 }

  /// Notes a command without an answer in time. Returns whether it makes the difference.
  mutating func noteFailure() -> Bool {
    failures += 1
    return failures == Self.maximumFailures
  }
}

/// How far a partition's stream is read.
struct PartitionStream {
  /// The number of the entry that was read last, and its version, if known.
  private(set) var position: Int64 = 0
  private(set) var version: FleetVersion?
  var isFollowed = false
  /// The keys whose records answers have brought before the stream. A server that takes over may
  /// lack these records, and the stream does not tell.
  private(set) var ahead: Set<FleetKey> = []
  /// The number of the newest change that this daemon has reported as accepted.
  private(set) var confirmed: Int64 = 0

  mutating func noteAhead(_ key: FleetKey) { ahead.insert(key) }
  mutating func noteReached(_ key: FleetKey) { ahead.remove(key) }
  mutating func read(_ number: Int64, _ version: FleetVersion?) {
    (position, self.version) = (number, version)
  }
  mutating func begin(after number: Int64, _ version: FleetVersion?) {
    read(number, version)
    ahead = []
  }
  mutating func confirm(_ number: Int64) { confirmed = max(confirmed, number) }
  mutating func forgetConfirmed() { confirmed = 0 }
}

/// A daemon's place in a stream.
struct FleetPlace {
  let position: Int64
  let version: FleetVersion?
  /// The number of the loading under way then.
  let loading: Int
}

extension FleetPartition {
  var place: FleetPlace {
    FleetPlace(position: stream.position, version: stream.version, loading: loading.number)
  }
}
