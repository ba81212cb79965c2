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

  /// The followed partitions: the number of the last entry, and when following began.
  private var followed: [Int: (after: Int64, since: Int)] = [:]
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
    followed[partition] = (number, changes)
    hasChanged = true
  }

  func stop(_ partition: Int) {
    if followed.removeValue(forKey: partition) != nil { hasChanged = true }
  }

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
    let asked = followed.sorted { $0.key < $1.key }
    let count = max(1, min(Self.mostEntries, Self.mostEntriesTogether / asked.count))
    var words = [
      "XREAD", "COUNT", "\(count)", "BLOCK", "\(Self.blockMilliseconds)", "STREAMS",
    ].map(\.utf8Array)
    words += asked.map { servers.names[$0.key].stream }
    words += asked.map { "\($0.value.after)-0".utf8Array }
    var bytes: [UInt8] = []
    RESPRequest.append(words, to: &bytes)
    reading = followed.mapValues(\.since)
    connection.send(
      bytes, replies: 1, within: Self.blockMilliseconds + Self.patienceMilliseconds)
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
      let current = followed[partition], current.since == asked[partition]
    else { return }
    var entries: [FleetEntry] = []
    var last = current.after
    for value in values {
      guard let id = value.elements?.first?.string, let number = Int64(id.prefix { $0 != "-" })
      else { continue }
      last = max(last, number)
      FleetEntry(value).map { entries.append($0) }
    }
    followed[partition]?.after = last
    if !entries.isEmpty { servers.take(entries, of: partition) }
  }
}
