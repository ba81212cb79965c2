import Countdowns
import DequeModule
import Wire

/// Reads records of some partitions of one server in pieces, one partition after the other.
final class FleetLoader {
  private static let patienceMilliseconds: UInt64 = 2_000
  /// About how many bytes a piece should have, and how many records it may have.
  private static let bytesPerPiece = 256 << 10
  private static let recordsPerPiece = 16...1_000

  private unowned let server: FleetServer
  private unowned let servers: FleetServers
  private var link: ReconnectingLink! = nil

  /// The partitions to load after the one under way.
  private var wanted: Deque<Int> = []
  /// The keys to read, where not all records of a partition are wanted.
  private var keys: [Int: [FleetKey]] = [:]
  /// The partition that is being loaded, and how many of its keys were asked for.
  private var current: Int?
  private var asked = 0
  /// Whether the load under way has to begin again, or to stop.
  private var isOutdated = false
  private var count = 100
  /// Why records cannot be read; nil if they can.
  private(set) var trouble: FleetTrouble?

  init(_ server: FleetServer, _ means: FleetConnection.Means, _ servers: FleetServers) {
    self.server = server
    self.servers = servers
    link = ReconnectingLink(server.node, means) { [unowned self] greeting in
      guard greeting.role == "master" else { return link.lose("it is a replica at present") }
      link.works()
      begin()
    } received: { [unowned self] in
      take($0)
    } lost: { [unowned self] in
      hasLost($0)
    }
  }

  func load(_ partition: Int, only keys: [FleetKey]?) {
    self.keys[partition] = keys
    // The load under way may have missed changes.
    if partition == current { isOutdated = true }
    if !wanted.contains(partition) { wanted.append(partition) }
  }

  func stop(_ partition: Int) {
    if partition == current { isOutdated = true }
    wanted.removeAll { $0 == partition }
  }

  /// Begins to load the requested partitions, unless a load is under way.
  func flush() {
    guard !wanted.isEmpty else { return }
    if !link.isOpen { link.open() } else if current == nil { begin() }
  }

  /// An unfinished load begins again.
  private func hasLost(_ reason: FleetTrouble) {
    if let current, !isOutdated { wanted.prepend(current) }
    current = nil
    // Perhaps the piece was too large for the link.
    count = max(count / 4, Self.recordsPerPiece.lowerBound)
    trouble = reason.about("its records cannot be read: ")
  }

  func close() {
    link.close()
    current = nil
  }

  // MARK: A partition

  private func begin() {
    guard link.isReady, current == nil else { return }
    guard let next = wanted.popFirst() else { return link.drop() }
    current = next
    isOutdated = false
    asked = 0
    ask(for: next, after: "0")
  }

  private func ask(for partition: Int, after cursor: String) {
    var bytes: [UInt8] = []
    let records = servers.names[partition].records
    if let next = keys[partition]?[asked...].prefix(count) {
      RESPRequest.append(["HMGET".utf8Array, records] + next.map(FleetNames.text), to: &bytes)
    } else {
      RESPRequest.append(
        ["HSCAN".utf8Array, records] + [cursor, "COUNT", "\(count)"].map(\.utf8Array), to: &bytes)
    }
    link.send(bytes, replies: 1, within: Self.patienceMilliseconds)
  }

  private func take(_ value: RESPValue) {
    guard let partition = current else { return }
    if case .error(let text) = value { return link.lose(FleetTrouble(answer: text)) }
    trouble = nil
    guard !isOutdated else { return end() }
    if let keys = keys[partition] { return take(value, for: keys[asked...], of: partition) }
    guard let parts = value.elements, parts.count == 2, let cursor = parts[0].string,
      let found = parts[1].elements, found.count.isMultiple(of: 2)
    else { return link.lose("its answer to HSCAN is not understood") }
    handOver(found, of: partition)
    if cursor == "0" { return end() }
    ask(for: partition, after: cursor)
  }

  private func take(_ value: RESPValue, for keys: ArraySlice<FleetKey>, of partition: Int) {
    guard let values = value.elements, 1...keys.count ~= values.count else {
      return link.lose("its answer to HMGET is not understood")
    }
    asked += values.count
    handOver(
      zip(keys, values).flatMap { key, value in
        value.bytes == nil ? [] : [.bulkString(FleetNames.text(key)), value]
      }, of: partition)
    if values.count == keys.count { return end() }
    ask(for: partition, after: "")
  }

  private func handOver(_ found: [RESPValue], of partition: Int) {
    var records: [(FleetKey, FleetRecord)] = []
    var size = 0
    for index in stride(from: 0, to: found.count, by: 2) {
      guard let name = found[index].bytes, let bytes = found[index + 1].bytes else { continue }
      size += name.count + bytes.count
      let key = FleetNames.key(name)
      if let key, case .some(.some(let record)) = FleetRecord.stored(bytes) {
        records.append((key, record))
      } else {
        servers.hasUnreadable(key ?? FleetKey(.countdown, name), of: partition)
      }
    }
    if size > 0 {
      let fitting = max(found.count / 2, 1) * Self.bytesPerPiece / size
      count = min(max(fitting, Self.recordsPerPiece.lowerBound), Self.recordsPerPiece.upperBound)
    }
    if !records.isEmpty { servers.take(records, of: partition) }
  }

  private func end() {
    let (done, isDone) = (current!, !isOutdated)
    current = nil
    if isDone { servers.endLoading(done) }
    begin()
  }
}
