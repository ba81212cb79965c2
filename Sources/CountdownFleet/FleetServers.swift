import CountdownStore
import Countdowns
import DispatchTimers
import Glibc
import Logging
import Runtime
import Wire

/// Finds the servers of a fleet, and sends each partition's requests to the server that has it.
package final class FleetServers: FleetLink {
  let settings: FleetSettings
  let names: [FleetNames]
  let partitionOfStream: [[UInt8]: Int]
  private let means: FleetServer.Means
  private let logger: Logger
  private var discovery: (any FleetDiscovery)! = nil
  private let secrets = FleetSecrets()
  private let sentinelSecrets = FleetSecrets()
  private var servers: [FleetSettings.Node: FleetServer] = [:]
  /// The server of each partition; nil if it is not known.
  private var owners: [FleetServer?]
  /// What was logged last about each server.
  private var logged: [FleetSettings.Node: Logged] = [:]
  /// Partitions whose records were lost, and until when changes are refused, in microseconds; they
  /// are logged together.
  private var lost: [Int: Int64] = [:]
  /// The partitions that servers have not opened, and why; they are logged together, too.
  private var closed: [Int: FleetClosure] = [:]

  private struct Logged {
    /// How many replicas need not confirm changes.
    var replicas = 0
    /// Why it cannot be used.
    var problem: FleetTrouble?
    /// Why it refuses changes, and why streams cannot be read.
    var refused: FleetRefusal?
    var unread: FleetTrouble?
  }

  /// The receiver of answers and entries, which outlives all connections.
  package weak var client: (any FleetLinkClient)?

  /// - Parameter beginBatch: begins a batch of the daemon, unless one is open.
  package init(
    _ settings: FleetSettings, _ loop: EventLoop, _ logger: Logger,
    beginBatch: @escaping () -> Void
  ) throws(FleetError) {
    self.settings = settings
    self.logger = logger
    names = (0..<settings.partitions).map { FleetNames(settings.name, $0) }
    partitionOfStream = Dictionary(
      uniqueKeysWithValues: names.enumerated().map { ($1.stream, $0) })
    owners = Array(repeating: nil, count: settings.partitions)
    let files = try FleetSecrets.Files(settings)
    secrets.take(files, settings)
    sentinelSecrets.takeForSentinels(files, settings)
    let connection = FleetConnection.Means(
      loop: loop, addresses: Addresses(loop), secrets: secrets)
    var sentinel = connection
    sentinel.secrets = sentinelSecrets
    means = FleetServer.Means(
      connection: connection, settings: settings, beginBatch: beginBatch)
    discovery =
      switch settings.discovery {
      case .single: SingleServer(self)
      case .sentinel: SentinelDiscovery(self, sentinel)
      case .cluster: ClusterDiscovery(self, connection)
      }
  }

  /// Takes certificates and passwords that were read again, for new connections.
  package func take(_ files: Result<FleetSecrets.Files, FleetError>) {
    do throws(FleetError) {
      let files = try files.get()
      secrets.take(files, settings)
      sentinelSecrets.takeForSentinels(files, settings)
    } catch {
      logger.log(
        .fleetSecrets, .error, "certificates and passwords of the fleet stay as they were: \(error)"
      )
    }
  }

  package func start() {
    if let warning = settings.warning { logger.log(.fleetSecrets, .warning, "\(warning)") }
    discovery.start()
  }

  // MARK: FleetLink

  package func send(_ request: FleetRequest, id: UInt64, to partition: Int) {
    if let owner = owners[partition], owner.isReady {
      return owner.gather(request, id: id, of: partition)
    }
    let now = FleetServer.now
    means.connection.loop.enqueue { [self] in
      means.beginBatch()
      answer(
        FleetAnswer(.failed(mayBeDone: false, problem(of: partition)), engine: nil, sent: now),
        to: id)
    }
  }

  /// Why a partition has no server.
  package func problem(of partition: Int) -> String {
    guard let owner = owners[partition] else { return "no server is known" }
    guard !owner.isReady, let problem = owner.health.problem else {
      return "the servers do not answer"
    }
    return "\(owner.node.text) cannot be used: \(problem.publicText)"
  }

  package func flush() { for server in servers.values { server.flush() } }

  package func follow(_ partition: Int, after number: Int64) {
    owners[partition]?.follow(partition, after: number)
  }

  package func load(_ partition: Int, only keys: [FleetKey]?) {
    owners[partition]?.load(partition, only: keys)
  }

  // MARK: Who has the partitions

  /// Moves each partition to the server that has it now. Partitions whose server is unknown stay.
  func place(_ node: (_ partition: Int) -> FleetSettings.Node?) {
    var removed: [FleetSettings.Node: [Int]] = [:]
    var added: [FleetSettings.Node: [Int]] = [:]
    for partition in owners.indices {
      guard let new = node(partition), new != owners[partition]?.node else { continue }
      if let old = owners[partition] { removed[old.node, default: []].append(partition) }
      added[new, default: []].append(partition)
    }
    guard !added.isEmpty else { return }
    means.beginBatch()
    for (node, partitions) in removed { servers[node]?.remove(partitions) }
    for (node, partitions) in added {
      let old = partitions.compactMap { owners[$0] }.first
      let server =
        servers[node]
        ?? FleetServer(
          node, means, self, promoted: old?.replicas(promoting: node))
      for partition in partitions { owners[partition] = server }
      let isNew = servers.updateValue(server, forKey: node) == nil
      server.add(partitions)
      if isNew { server.connect() }
    }
    for (node, server) in servers where server.partitions.isEmpty {
      servers[node] = nil
      forgetTroubles(of: node)
      server.close()
    }
  }

  /// Returns whether a majority names a server the primary of its partitions.
  func names(_ node: FleetSettings.Node, since: Int64) -> Bool {
    discovery.names(node, since: since)
  }

  func replicas(of node: FleetSettings.Node) -> [FleetSettings.Node: Bool] {
    discovery.replicas(of: node)
  }

  func discoveryHasAnswered() {
    for server in Array(servers.values) { server.discoveryHasAnswered() }
  }

  var isComplete: Bool { owners.allSatisfy { $0?.isReady == true } }

  func isDisturbed(by server: FleetServer) {
    if servers[server.node] === server { discovery.lookAgain() }
  }

  // MARK: What servers report

  func hasConnected(_ server: FleetServer) {
    forgetTroubles(of: server.node)
    logger.log(
      .fleetConnected, .notice, "a server of the fleet is connected",
      ["server": "\(server.node.text)", "version": "\(server.health.version)"])
  }

  func hasDisconnected(_ server: FleetServer, wasReady: Bool) {
    if wasReady || logged[server.node]?.problem == nil {
      forgetTroubles(of: server.node)
      logged[server.node, default: Logged()].problem = server.health.problem
      logger.log(
        .fleetDisconnected, .warning, "a server of the fleet is not connected",
        ["server": "\(server.node.text)", "error": "\(server.health.problem?.text ?? "")"])
    }
    isDisturbed(by: server)
  }

  private func forgetTroubles(of node: FleetSettings.Node) {
    let replicas = logged[node]?.replicas ?? 0
    logged[node] = replicas > 0 ? Logged(replicas: replicas) : nil
  }

  /// Logs that a server refuses changes, and why, once; and that it does no more.
  func noteRefusals(of server: FleetServer) {
    let trouble = server.health.refusal
    guard logged[server.node]?.refused != trouble?.refusal else { return }
    logged[server.node, default: Logged()].refused = trouble?.refusal
    if let trouble, let refusal = trouble.refusal {
      logger.log(
        .fleetRefuses, .error, "a server of the fleet refuses changes: \(refusal.text)",
        [
          "server": "\(server.node.text)", "cause": "\(refusal.rawValue)",
          "error": "\(trouble.text)",
        ])
    } else {
      logger.log(
        .fleetAccepts, .notice, "a server of the fleet carries out changes again",
        ["server": "\(server.node.text)"])
    }
  }

  /// Logs that streams of a server cannot be read, once for each reason; and that they can again.
  func noteStreams(of server: FleetServer) {
    let trouble = server.streamTrouble
    let known = logged[server.node]?.unread
    guard (known == nil) != (trouble == nil) || known?.refusal != trouble?.refusal else { return }
    logged[server.node, default: Logged()].unread = trouble
    if let trouble {
      logger.log(
        .fleetUnread, .error,
        "changes of a server of the fleet cannot be read; subscribers here miss events",
        ["server": "\(server.node.text)", "error": "\(trouble.text)"])
    } else {
      logger.log(
        .fleetRead, .notice, "changes of a server of the fleet are read again",
        ["server": "\(server.node.text)"])
    }
  }

  func forgot(_ replica: FleetSettings.Node, of server: FleetServer) {
    logger.log(
      .fleetReplicaForgotten, .warning,
      "a replica was missing for fleet.replica-grace, so changes no longer wait for it",
      ["replica": "\(replica.text)", "server": "\(server.node.text)"])
  }

  /// Logs that Sentinels are not asked.
  func reportSentinels(_ known: Int) {
    logger.log(
      .fleetSentinels, .warning,
      "fleet.nodes lacks Sentinels, so a majority of those named may be none of all; name all",
      ["named": "\(settings.nodes.count)", "known": "\(known)"])
  }

  /// Logs that fewer replicas confirm changes than there are, once.
  func reportReplicas(of server: FleetServer, _ count: Int) {
    guard server.hasUnaskedReplicas, logged[server.node]?.replicas ?? 0 < count else { return }
    logged[server.node, default: Logged()].replicas = count
    logger.log(
      .fleetReplicas, .warning,
      "fleet.replicas is lower than the replicas of a server; a failover can lose what is accepted",
      ["server": "\(server.node.text)", "replicas": "\(count)"])
  }

  func refused(_ server: FleetServer, _ problem: FleetTrouble) {
    guard logged[server.node]?.problem != problem else { return }
    logged[server.node, default: Logged()].problem = problem
    logger.log(
      .fleetRefused, .critical, "a server of the fleet cannot be used: \(problem.text)",
      ["server": "\(server.node.text)"])
  }

  func connected(_ partitions: [Int]) {
    guard !partitions.isEmpty else { return }
    means.beginBatch()
    client?.connected(partitions, at: FleetServer.now)
  }

  func disconnected(_ partitions: [Int]) { client?.disconnected(partitions) }

  func cannotConnect(_ partitions: [Int], to server: FleetServer) {
    guard let first = partitions.first else { return }
    client?.cannotConnect(partitions, problem(of: first))
  }

  func answer(_ answer: FleetAnswer, to id: UInt64) {
    client?.receive(answer, to: id, at: FleetServer.now)
  }

  func take(_ entries: [FleetEntry], of partition: Int) {
    means.beginBatch()
    client?.receive(entries, of: partition)
  }

  func take(_ records: [(FleetKey, FleetRecord)], of partition: Int) {
    means.beginBatch()
    client?.load(records, of: partition)
  }

  func hasUnreadable(_ key: FleetKey, of partition: Int) {
    client?.noteUnreadable(key, of: partition)
  }

  func endLoading(_ partition: Int) {
    means.beginBatch()
    client?.endLoading(partition)
  }

  /// Logs what the fleet has noticed.
  package func note(_ notice: FleetNotice) {
    switch notice {
    case .lost(let partition, let until):
      if lost.isEmpty {
        means.connection.loop.schedule(inMilliseconds: Self.lostMilliseconds) { [self] in
          logLost()
        }
      }
      lost[partition] = until
    case .behind(let partition, let entries, let confirmed):
      logger.log(
        .fleetBehind, confirmed > 0 ? .critical : .warning,
        confirmed > 0
          ? "a server has taken over that lacks changes which were accepted; set fleet.replicas to all"
          : "a server has taken over that lacks the newest changes; none of them was accepted here",
        about(partition, ["entries": "\(entries)", "accepted": "\(confirmed)"]))
    case .unreadable(let partition, let count, let first):
      logger.log(
        .fleetUnreadable, .error, "records of a partition cannot be read; they are damaged",
        about(
          partition,
          ["count": "\(count)", "key": "\(String(decoding: first.key, as: UTF8.self).printable)"]))
    case .clockAhead(let partition):
      logger.log(
        .fleetClock, .error,
        """
        a server's clock is too far ahead of what it or the server before showed; set it right, or \
        raise fleet.max-clock-skew
        """,
        about(partition))
    case .policiesDiffer:
      logger.log(
        .fleetPolicies, .warning,
        "another host of the fleet has other policies; the same section policies: belongs on all")
    case .leaseOver(let owners):
      logger.log(
        .fleetLease, .warning,
        "the lease of this host was over; connections that owned what hosts share are closed",
        ["connections": "\(owners)"])
    case .closed(let partition, let closure):
      if closed.isEmpty {
        means.connection.loop.schedule(inMilliseconds: Self.lostMilliseconds) { [self] in
          logClosed()
        }
      }
      closed[partition] = closure
    case .begun(let beginning, let count, let client):
      closed = closed.filter { $0.value != .unknown }
      logger.log(
        .fleetBegun, .notice,
        beginning == .initialize
          ? "an administrator has begun a new fleet"
          : "an administrator has accepted that records are lost; limits may be exceeded",
        ["partitions": "\(count)", "uid": "\(client.uid)"])
    }
  }

  private static let lostMilliseconds: UInt64 = 500

  private func logClosed() {
    for (closure, partitions) in Dictionary(grouping: closed.keys, by: { closed[$0]! }) {
      logger.log(
        .fleetClosed, .error, "commands of partitions are refused: \(closure.problem)",
        ["partitions": "\(partitions.count)"])
    }
    closed = [:]
  }

  private func logLost() {
    let until = lost.values.max() ?? 0
    let isRefused = until > Int64(WallClock.now)
    logger.log(
      .fleetLost, .critical,
      isRefused
        ? "the servers have lost records; changes of these partitions are refused for a while"
        : """
        the servers have lost records; changes are allowed, as no policy looks back so far, or an \
        administrator has accepted it
        """,
      [
        "partitions": "\(lost.count)",
        "refused-until-unix-ms": isRefused ? "\(until / 1_000)" : "",
      ])
    lost = [:]
  }

  private func about(_ partition: Int, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
    let server = owners[partition]?.node.text ?? ""
    return more.merging(["partition": "\(partition)", "server": "\(server)"]) { $1 }
  }

  // MARK: Facts

  /// - Parameter forAdmin: whether to show the servers' own words.
  package func figures(forAdmin: Bool) -> [Figure] {
    let known = servers.values.sorted { $0.node.text < $1.node.text }
    let refusals = refusals
    var figures: [Figure] = [
      .init("fleet_discovery", settings.discovery.rawValue),
      .init("fleet_encrypted", settings.tls.isEnabled ? "1" : "0"),
      .init("fleet_servers", "\(known.count)"),
      .init("fleet_servers_connected", "\(known.count { $0.isReady })"),
      .init(
        "fleet_replicas_unasked", if: hasUnaskedReplicas,
        "1 if fleet.replicas is lower than the replicas that a server has."),
      .init(
        "fleet_replicas_missing", missingReplicas, .gauge,
        "Replicas that changes wait for although they are missing."),
      .init("fleet_refused_partitions", "\(refusals.values.reduce(0, +))"),
      .by(
        "cause", "fleet_refused_partitions", .gauge, "Parts whose server refuses changes.",
        FleetRefusal.allCases.map { ($0.rawValue, Int64(refusals[$0] ?? 0)) }),
      .init(
        "fleet_unread_partitions", unreadPartitions, .gauge,
        "Parts whose changes cannot be read."),
    ]
    for (index, server) in known.enumerated() {
      figures.append(.init("fleet_server\(index)", server.fact(forAdmin: forAdmin)))
    }
    if let sentinels = discovery.sentinelCounts {
      figures += [
        .init(nil, sentinels.all, .gauge, as: "fleet_sentinels", "Sentinels in fleet.nodes."),
        .init(
          nil, sentinels.reachable, .gauge, as: "fleet_sentinels_reachable",
          "Sentinels that answer, and know the primary."),
      ]
    }
    return figures + discovery.facts(forAdmin: forAdmin).map(Figure.init)
  }

  /// Whether fewer replicas must confirm changes than there are.
  var hasUnaskedReplicas: Bool { servers.values.contains(where: \.hasUnaskedReplicas) }

  /// How many replicas changes wait for although they are missing.
  var missingReplicas: Int {
    servers.values.reduce(0) { $0 + $1.confirmation.replicas.missing.count }
  }

  /// How many partitions cannot be changed, by the reason.
  var refusals: [FleetRefusal: Int] {
    servers.values.reduce(into: [:]) { $0.merge($1.health.refusalCounts, uniquingKeysWith: +) }
  }

  /// How many partitions have changes that cannot be read.
  var unreadPartitions: Int { servers.values.reduce(0) { $0 + $1.unreadPartitions } }

  /// A human-readable problem, without the servers' own words; nil if each partition has a server
  /// that works.
  package var trouble: String? {
    guard !isComplete else {
      let troubles = servers.values.flatMap { server in
        [server.health.refusal, server.streamTrouble].compactMap {
          $0.map { "\(server.node.text): \($0.publicText)" }
        }
      }
      return troubles.isEmpty ? nil : "fleet: \(troubles.sorted().joined(separator: "; "))"
    }
    let missing = owners.count { $0?.isReady != true }
    let reasons = servers.values.filter { !$0.isReady }
      .compactMap { server in
        server.health.problem.map { "\(server.node.text): \($0.publicText)" }
      }.sorted()
    return "fleet: \(missing) of \(owners.count) partitions have no server"
      + (reasons.isEmpty ? "" : " (\(reasons.joined(separator: "; ")))")
  }
}
