import Countdowns
import DequeModule
import Wire

/// Reads the streams of some partitions of one server, as entries arrive.
///
/// A cluster reads the streams of one slot at a time, so there each partition has its own reader.
final class FleetStream {
  private static let blockMilliseconds: UInt64 = 1_000
  private static let patienceMilliseconds: UInt64 = 2_000
  private static let mostEntries = 1_000
  /// The most entries in one reply, which keeps it within the limits of `ReplyDecoder`.
  private static let mostEntriesTogether = 32_000

  let partitions: [Int]
  private unowned let server: FleetServer
  private unowned let servers: FleetServers
  private let means: FleetConnection.Means
  private var connection: FleetConnection?
  private var client: Int?
  private var backoff = Backoff()
  private var isClosed = false

  /// The followed partitions, and when following began.
  private var followed: [Int: Int] = [:]
  /// The id of the last entry of each followed partition.
  private var last: [Int: [UInt8]] = [:]
  /// The read without those ids; nil if other partitions are followed than before.
  private var request: (bytes: [UInt8], partitions: [Int])?
  private var changes = 0
  /// The partitions in the read under way, with the `since` of each; nil if none is under way.
  private var reading: [Int: Int]?
  private var hasChanged = false

  init(
    _ server: FleetServer, _ means: FleetConnection.Means, _ settings: FleetSettings,
    _ servers: FleetServers, _ partitions: [Int]
  ) {
    self.server = server
    self.means = means
    self.servers = servers
    self.partitions = partitions
  }

  /// Returns the partitions of each reader.
  static func division(_ partitions: [Int], _ settings: FleetSettings) -> [[Int]] {
    settings.discovery == .cluster ? partitions.map { [$0] } : [partitions]
  }

  // MARK: What is followed

  func follow(_ partition: Int, after number: Int64) {
    changes += 1
    followed[partition] = changes
    last[partition] = id(number)
    hasChanged = true
    request = nil
  }

  func stop(_ partition: Int) {
    guard followed.removeValue(forKey: partition) != nil else { return }
    hasChanged = true
    request = nil
  }

  private func id(_ number: Int64) -> [UInt8] { [UInt8](decimal: number) + "-0".utf8 }

  /// Reads at once, if the followed partitions have changed.
  func flush() {
    guard hasChanged, !isClosed else { return }
    hasChanged = false
    guard connection != nil else { return connect() }
    if reading == nil { read() } else if let client { server.unblock(client) }
  }

  // MARK: Connection

  private func connect() {
    guard !isClosed, connection == nil else { return }
    connection = FleetConnection(server.node, means) { [unowned self] greeting in
      guard greeting.role == "master" else { return lose("it is a replica at present") }
      client = greeting.client
      backoff.reset()
      read()
    } received: { [unowned self] in
      take($0)
    } closed: { [unowned self] in
      lose($0)
    }
    connection?.open()
  }

  private func lose(_ reason: String) {
    drop()
    server.hasTrouble("its streams: \(reason)")
    means.loop.schedule(inMilliseconds: backoff.next()) { [weak self] in self?.connect() }
  }

  private func drop() {
    connection?.close()
    connection = nil
    client = nil
    reading = nil
  }

  func close() {
    isClosed = true
    drop()
  }

  // MARK: Reading

  private func read() {
    guard let connection, connection.isReady, reading == nil, !followed.isEmpty else { return }
    let request = request ?? makeRequest()
    self.request = request
    var bytes = request.bytes
    for partition in request.partitions { RESPRequest.append(last[partition]!, to: &bytes) }
    reading = followed
    connection.send(
      bytes, replies: 1, within: Self.blockMilliseconds + Self.patienceMilliseconds)
  }

  private func makeRequest() -> (bytes: [UInt8], partitions: [Int]) {
    let partitions = followed.keys.sorted()
    let count = max(1, min(Self.mostEntries, Self.mostEntriesTogether / partitions.count))
    var words = [
      "XREAD", "COUNT", "\(count)", "BLOCK", "\(Self.blockMilliseconds)", "STREAMS",
    ].map(\.utf8Array)
    words += partitions.map { servers.names[$0].stream }
    var bytes: [UInt8] = []
    RESPRequest.append(words, followedBy: partitions.count, to: &bytes)
    return (bytes, partitions)
  }

  private func take(_ value: RESPValue) {
    guard let asked = reading else { return }
    if case .error(let text) = value {
      if FleetProblem(text) == .isElsewhere { servers.isDisturbed(by: server) }
      // Some versions report a read that was unblocked as an error.
      guard text.hasPrefix("UNBLOCKED") else { return lose(text) }
    }
    hand(over: Deque(value.elements ?? []), asked)
  }

  /// Hands over the entries of one partition at a time, so that other work comes in between.
  private func hand(over streams: Deque<RESPValue>, _ asked: [Int: Int]) {
    var rest = streams
    guard !isClosed, reading != nil else { return }
    guard let stream = rest.popFirst() else {
      reading = nil
      return read()
    }
    take(stream, asked)
    if rest.isEmpty { return hand(over: rest, asked) }
    means.loop.enqueue { [weak self] in self?.hand(over: rest, asked) }
  }

  private func take(_ stream: RESPValue, _ asked: [Int: Int]) {
    guard let parts = stream.elements, parts.count == 2, let name = parts[0].bytes,
      let values = parts[1].elements,
      let partition = servers.partitionOfStream[name],
      // Since the read began, following may have stopped, or begun again at another entry.
      let since = followed[partition], since == asked[partition]
    else { return }
    // Ids rise, also those of entries that no daemon has written: none is read twice.
    if let id = values.last?.elements?.first?.bytes { last[partition] = id }
    let entries = values.compactMap(FleetEntry.init)
    if !entries.isEmpty { servers.take(entries, of: partition) }
  }
}
