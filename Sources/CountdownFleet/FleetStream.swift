import Countdowns
import DequeModule
import Wire

/// Reads the streams of some partitions of one server, as entries arrive.
///
/// A cluster reads the streams of one slot at a time, so there each partition has its own reader.
final class FleetStream {
  private static let blockMilliseconds: UInt64 = 1_000
  private static let patienceMilliseconds: UInt64 = 2_000
  /// After so many failures in a row it is a trouble; a connection may be lost at any time.
  private static let maximumFailures = 3
  /// How long an entry may take to come, in microseconds.
  private static let longestDelay: Int64 = 5_000_000

  let partitions: [Int]
  private unowned let server: FleetServer
  private unowned let servers: FleetServers
  private let means: FleetConnection.Means
  private var link: ReconnectingLink! = nil
  private var client: Int?
  private var isClosed = false

  private var followed: [Int: Followed] = [:]
  /// The read without those ids; nil if other partitions are followed than before.
  private var request: (bytes: [UInt8], partitions: [Int])?
  private var changes = 0
  /// The partitions in the read under way, with the `since` of each; nil if none is under way.
  private var reading: [Int: Int]?
  private var hasChanged = false
  private var portion = StreamPortion()

  private var failures = 0
  /// Why the streams cannot be read; nil if they can.
  private var problem: FleetTrouble?

  /// A stream that is followed.
  private struct Followed {
    /// When following began, as a number of `changes`.
    let since: Int
    /// The id of the last entry.
    var last: [UInt8]
    /// The entry that a heartbeat has named, and since when it is awaited.
    var awaited: (number: Int64, since: Int64)?
    /// Whether that has not come in time.
    var isLate = false

    /// The number of the last entry.
    var position: Int64? {
      Int64(String(decoding: last.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self))
    }
  }

  init(
    _ server: FleetServer, _ means: FleetConnection.Means, _ settings: FleetSettings,
    _ servers: FleetServers, _ partitions: [Int]
  ) {
    self.server = server
    self.means = means
    self.servers = servers
    self.partitions = partitions
    link = ReconnectingLink(server.node, means) { [unowned self] greeting in
      guard greeting.role == "master" else { return link.lose("it is a replica at present") }
      client = greeting.client
      read()
    } received: { [unowned self] in
      take($0)
    } lost: { [unowned self] in
      hasLost($0)
    }
  }

  /// Returns the partitions of each reader.
  static func division(_ partitions: [Int], _ settings: FleetSettings) -> [[Int]] {
    settings.discovery == .cluster ? partitions.map { [$0] } : [partitions]
  }

  // MARK: What is followed

  func follow(_ partition: Int, after number: Int64) {
    changes += 1
    followed[partition] = Followed(since: changes, last: [UInt8](decimal: number) + "-0".utf8)
    hasChanged = true
    request = nil
  }

  func stop(_ partition: Int) {
    guard followed.removeValue(forKey: partition) != nil else { return }
    hasChanged = true
    request = nil
  }

  /// Reads at once, if the followed partitions have changed.
  func flush() {
    guard hasChanged, !isClosed else { return }
    hasChanged = false
    guard link.isOpen else { return link.open() }
    if reading == nil { read() } else if let client { server.unblock(client) }
  }

  // MARK: Connection

  private func hasLost(_ reason: FleetTrouble) {
    (client, reading) = (nil, nil)
    failures += 1
    // Perhaps the reply was too large for the link.
    portion.fail()
    request = nil
    if reason.refusal != nil || failures >= Self.maximumFailures {
      problem = reason.about("its changes cannot be read: ")
      servers.noteStreams(of: server)
    }
  }

  func close() {
    isClosed = true
    link.close()
    (client, reading) = (nil, nil)
  }

  // MARK: Troubles

  var trouble: FleetTrouble? {
    problem
      ?? (lateCount == 0
        ? nil : "changes that were made over \(Self.longestDelay / 1_000_000) s ago have not come")
  }

  private var lateCount: Int { followed.values.count(where: \.isLate) }

  /// How many partitions have changes that are not read.
  var unread: Int { problem == nil ? lateCount : followed.count }

  /// Compares the newest entry, which a heartbeat has named, with the position in the stream.
  func compare(_ newest: Int64, of partition: Int, at now: Int64) {
    guard var stream = followed[partition], let position = stream.position else { return }
    if let mark = stream.awaited, position < mark.number {
      guard now - mark.since > Self.longestDelay else { return }
      stream.isLate = true
    } else {
      stream.awaited = position < newest ? (newest, now) : nil
      stream.isLate = false
    }
    followed[partition] = stream
    servers.noteStreams(of: server)
  }

  private func hasRead() {
    failures = 0
    link.works()
    guard problem != nil else { return }
    problem = nil
    servers.noteStreams(of: server)
  }

  // MARK: Reading

  private func read() {
    guard link.isReady, reading == nil, !followed.isEmpty else { return }
    let request = request ?? makeRequest()
    self.request = request
    var bytes = request.bytes
    for partition in request.partitions {
      RESPRequest.append(followed[partition]!.last, to: &bytes)
    }
    reading = followed.mapValues(\.since)
    link.send(
      bytes, replies: 1, within: Self.blockMilliseconds + Self.patienceMilliseconds)
  }

  private func makeRequest() -> (bytes: [UInt8], partitions: [Int]) {
    let partitions = followed.keys.sorted()
    var words = [
      "XREAD", "COUNT", "\(portion.count)", "BLOCK", "\(Self.blockMilliseconds)", "STREAMS",
    ].map(\.utf8Array)
    words += partitions.map { servers.names[$0].stream }
    var bytes: [UInt8] = []
    RESPRequest.append(words, followedBy: partitions.count, to: &bytes)
    return (bytes, partitions)
  }

  private func take(_ value: RESPValue) {
    guard let asked = reading else { return }
    if case .error(let text) = value {
      if FleetRefusal(text).isElsewhere { servers.isDisturbed(by: server) }
      // Some versions report a read that was unblocked as an error.
      guard text.hasPrefix("UNBLOCKED") else { return link.lose(FleetTrouble(answer: text)) }
    }
    hasRead()
    let streams = value.elements ?? []
    let count = portion.count
    portion.take(streams.map { $0.elements?.last?.elements ?? [] }, of: asked.count)
    if portion.count != count { request = nil }
    hand(over: Deque(streams), asked)
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
      let since = followed[partition]?.since, since == asked[partition]
    else { return }
    // Ids rise, also those of entries that no daemon has written: none is read twice.
    if let id = values.last?.elements?.first?.bytes { followed[partition]!.last = id }
    let entries = values.compactMap(FleetEntry.init)
    if !entries.isEmpty { servers.take(entries, of: partition) }
  }
}

/// How many entries of each stream to ask for, so that a reply has about 4 MB. Small entries may be
/// followed by large ones, so it grows only while more is there than was asked for.
struct StreamPortion {
  static let bytesTogether = 4 << 20
  private static let first = 16
  private static let maximum = 1_000
  /// The most entries in one reply, which keeps it within the limits of `ReplyDecoder`.
  private static let maximumTogether = 32_000

  private(set) var count = first

  /// Takes the entries of each stream in a reply.
  mutating func take(_ streams: [[RESPValue]], of followed: Int) {
    let isFull = streams.contains { $0.count >= count }
    let largest = streams.lazy.joined().map(\.size).max() ?? 0
    let fitting = min(Self.bytesTogether / max(largest, 1), Self.maximumTogether) / max(followed, 1)
    count = max(1, min(isFull ? count * 2 : Self.first, fitting, Self.maximum))
  }

  /// The reply has not come in time.
  mutating func fail() { count = max(1, count / 4) }
}

extension RESPValue {
  /// About how many bytes it has.
  fileprivate var size: Int { bytes?.count ?? elements?.reduce(0) { $0 + $1.size } ?? 0 }
}
