import Countdowns
import Wire

/// Reads all records of some partitions of one server in pieces: each request for the values of one
/// piece also asks for the keys of the next.
final class FleetLoader {
  private static let keysPerPiece = 500
  private static let patienceMilliseconds: UInt64 = 2_000

  private unowned let server: FleetServer
  private unowned let servers: FleetServers
  private let means: FleetConnection.Means
  private let settings: FleetSettings
  private var connection: FleetConnection?
  private var backoff = Backoff()
  private var isClosed = false

  /// The partitions that the next pass loads.
  private var wanted: Set<Int> = []
  /// The partitions that this pass loads; nil between two passes.
  private var loading: Set<Int>?
  /// The keys whose values are expected, in their order.
  private var keys: ArraySlice<(partition: Int, key: FleetKey)> = []
  private var records: [Int: [(FleetKey, FleetRecord)]] = [:]
  /// Whether the piece under way is the last one.
  private var isLast = false

  init(
    _ server: FleetServer, _ means: FleetConnection.Means, _ settings: FleetSettings,
    _ servers: FleetServers
  ) {
    self.server = server
    self.means = means
    self.settings = settings
    self.servers = servers
  }

  func load(_ partition: Int) {
    // The pass under way may have missed changes of this partition.
    loading?.remove(partition)
    wanted.insert(partition)
  }

  func stop(_ partition: Int) {
    wanted.remove(partition)
    loading?.remove(partition)
  }

  /// Begins to load the requested partitions, all in one pass, unless a pass is under way.
  func flush() {
    guard !isClosed, !wanted.isEmpty else { return }
    if connection == nil { connect() } else if loading == nil { begin() }
  }

  private func connect() {
    guard !isClosed, connection == nil else { return }
    connection = FleetConnection(server.node, means) { [unowned self] greeting in
      guard greeting.role == "master" else { return lose("it is a replica at present") }
      backoff.reset()
      begin()
    } received: { [unowned self] in
      take($0)
    } closed: { [unowned self] in
      lose($0)
    }
    connection?.open()
  }

  /// Closes the connection, and tries again later; an unfinished pass begins again.
  private func lose(_ reason: String) {
    wanted.formUnion(loading ?? [])
    close()
    isClosed = false
    server.hasTrouble("its records: \(reason)")
    means.loop.schedule(inMilliseconds: backoff.next()) { [weak self] in self?.flush() }
  }

  func close() {
    isClosed = true
    connection?.close()
    connection = nil
    loading = nil
    keys = []
    records = [:]
  }

  // MARK: A pass

  private func begin() {
    guard let connection, connection.isReady, loading == nil, !wanted.isEmpty else { return }
    loading = wanted
    wanted = []
    ask(for: [], after: "0")
  }

  /// Asks for the values of keys, and for the keys after `cursor`; nil if there are no more keys.
  private func ask(for found: [(partition: Int, key: FleetKey)], after cursor: String?) {
    var bytes: [UInt8] = []
    for (partition, key) in found {
      RESPRequest.append(["GET".utf8Array, servers.names[partition].record(key)], to: &bytes)
    }
    keys = found[...]
    isLast = cursor == nil
    let scan = [
      "SCAN", cursor ?? "", "MATCH", FleetNames.recordPattern(settings.name), "COUNT",
      "\(Self.keysPerPiece)",
    ]
    RESPRequest.append((isLast ? ["PING"] : scan).map(\.utf8Array), to: &bytes)
    connection?.send(bytes, replies: found.count + 1, within: Self.patienceMilliseconds)
  }

  private func take(_ value: RESPValue) {
    if case .error(let text) = value { return lose(text) }
    if let (partition, key) = keys.popFirst() {
      // The record may have been deleted since its key was found.
      guard let bytes = value.bytes, case .some(.some(let record)) = FleetRecord.stored(bytes)
      else { return }
      records[partition, default: []].append((key, record))
      return
    }
    handOver()
    if isLast { return end() }
    guard let parts = value.elements, parts.count == 2, let cursor = parts[0].string,
      let names = parts[1].elements
    else { return lose("its answer to SCAN is not understood") }
    let found = names.compactMap { name in
      name.bytes.flatMap { FleetNames.record(named: $0, of: settings.name) }
    }.filter { loading?.contains($0.partition) == true }
    if found.isEmpty, cursor == "0" { return end() }
    ask(for: found, after: cursor == "0" ? nil : cursor)
  }

  private func handOver() {
    let found = records
    records = [:]
    for (partition, records) in found where loading?.contains(partition) == true {
      servers.take(records, of: partition)
    }
  }

  private func end() {
    let done = loading ?? []
    loading = nil
    isLast = false
    for partition in done.sorted() { servers.endLoading(partition) }
    if wanted.isEmpty {
      connection?.close()
      connection = nil
    } else {
      begin()
    }
  }
}
