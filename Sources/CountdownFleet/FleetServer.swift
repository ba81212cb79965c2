import Countdowns
import DequeModule
import DispatchTimers
import Runtime
import Wire

/// A server that has partitions of the fleet: its connections, and the requests sent over them.
///
/// Requests of a batch go in one write. If the batch has changes, questions to the replicas follow
/// (`Confirmation`); everything but changes is answered at once. Until the replicas have answered,
/// the next batch gathers, so batches grow with the load.
final class FleetServer {
  /// What all servers of a fleet need.
  struct Means {
    var connection: FleetConnection.Means
    var settings: FleetSettings
    /// Begins a batch of the daemon, for the effects of an answer.
    var beginBatch: () -> Void
  }

  private enum State: Equatable { case connecting, preparing, ready, closed }

  private static let memoryMilliseconds: UInt64 = 5_000
  private static let patienceMilliseconds: UInt64 = 1_000
  private static let oldestVersion = (7, 0)
  /// The oldest version that has `WAITAOF`.
  private static let oldestVersionWithDisks = (7, 2)
  /// How often the replicas are looked at, at most, in microseconds.
  private static let replicasPause: Int64 = 900_000

  let node: FleetSettings.Node
  private let means: Means
  private unowned let servers: FleetServers
  private var state = State.connecting
  private(set) var partitions: Set<Int> = []

  private var link: ReconnectingLink! = nil
  private var pipe = RequestPipe()

  private(set) var confirmation: Confirmation
  /// Whether nothing was known of the server's replicas before.
  private var isFirst: Bool
  private var isPrepared = false
  private var replicasAsked: Int64 = 0

  private var streams: [FleetStream] = []
  private var loader: FleetLoader?

  private(set) var health = ServerHealth()

  /// - Parameter promoted: the replicas of the server that this one replaces; nil if unknown.
  init(
    _ node: FleetSettings.Node, _ means: Means, _ servers: FleetServers, promoted: ReplicaSet?
  ) {
    self.node = node
    self.means = means
    self.servers = servers
    isFirst = promoted == nil
    confirmation = Confirmation(
      means.settings, promoted ?? ReplicaSet(grace: means.settings.replicaGrace))
    link = ReconnectingLink(node, means.connection) { [unowned self] in
      prepare($0)
    } received: { [unowned self] in
      take($0)
    } lost: { [unowned self] in
      hasLost($0)
    }
  }

  var isReady: Bool { state == .ready }
  static var now: Int64 { Int64(BootClock.now) }

  // MARK: Partitions

  func add(_ added: [Int]) {
    partitions.formUnion(added)
    if isReady { servers.connected(added) }
  }

  func remove(_ removed: [Int]) {
    partitions.subtract(removed)
    for partition in removed {
      stream(of: partition)?.stop(partition)
      loader?.stop(partition)
    }
    if isReady { servers.disconnected(removed) }
  }

  // MARK: Connecting

  func connect() { link.open() }

  private func prepare(_ greeting: FleetConnection.Greeting) {
    health.version = greeting.version
    let isOnDisk = means.settings.durability == .disk
    let oldest = isOnDisk ? Self.oldestVersionWithDisks : Self.oldestVersion
    let numbers = greeting.version.split(separator: ".").prefix(2).map { Int($0) ?? 0 }
    guard numbers.count == 2, (numbers[0], numbers[1]) >= oldest else {
      return refuse(
        """
        its version is \(greeting.version); it must be \(oldest.0).\(oldest.1) or later\
        \(isOnDisk ? " for fleet.durability: disk" : "")
        """)
    }
    guard greeting.role == "master" else { return link.lose("it is a replica at present") }
    state = .preparing
    isPrepared = false
    pipe.ask(["INFO", "memory"], .memory)
    pipe.ask(["INFO", "persistence"], .persistence)
    pipe.ask(["INFO", "replication"], .replicas)
    for script in FleetScript.allCases { pipe.load(script) }
    send()
  }

  /// Uses the server. With `replicas: all`, only once a majority names it the primary.
  private func becomeReady() {
    guard state == .preparing, isPrepared else { return }
    if means.settings.replicas == .all {
      guard servers.names(node, since: 0) else {
        health.problem = "no majority names it the primary yet"
        return servers.isDisturbed(by: self)
      }
      confirmation.replicas.add(servers.replicas(of: node), isFirst: isFirst)
      isFirst = false
      guard confirmation.replicas.count > 0 || means.settings.discovery != .single else {
        return refuse("it has no replica; a single server needs fleet.replicas: 0")
      }
    }
    state = .ready
    reportReplicas()
    link.works()
    health.problem = nil
    servers.hasConnected(self)
    streams = FleetStream.division(partitions.sorted(), means.settings).map {
      FleetStream(self, means.connection, means.settings, servers, $0)
    }
    servers.connected(partitions.sorted())
    checkMemoryLater(of: link.connection)
  }

  /// Asks again for as long as the connection lasts: somebody may change the policy.
  private func checkMemoryLater(of connection: FleetConnection?) {
    means.connection.loop.schedule(inMilliseconds: Self.memoryMilliseconds) {
      [weak self, weak connection] in
      guard let self, let connection, connection === link.connection, isReady else { return }
      pipe.ask(["INFO", "memory"], .memory)
      send()
      checkMemoryLater(of: connection)
    }
  }

  /// Reports that the server cannot be used until somebody changes its configuration.
  private func refuse(_ problem: FleetTrouble) {
    servers.refused(self, problem)
    link.lose(problem)
  }

  /// Fails all requests without an answer.
  private func hasLost(_ reason: FleetTrouble) {
    let wasReady = isReady
    closeReaders()
    state = .connecting
    health.lose(reason)
    means.beginBatch()
    if wasReady {
      servers.disconnected(partitions.sorted())
    } else {
      servers.cannotConnect(partitions.sorted(), to: self)
    }
    failRequests(reason.publicText)
    servers.hasDisconnected(self, wasReady: wasReady)
  }

  private func closeReaders() {
    for stream in streams { stream.close() }
    streams = []
    loader?.close()
    loader = nil
  }

  private func failRequests(_ reason: String) {
    let (unconfirmed, sent, unsent) = pipe.takeAll()
    for one in unconfirmed { confirm(one, reason) }
    for pending in sent { answer(pending, .failed(mayBeDone: pending.request.isChange, reason)) }
    for pending in unsent { answer(pending, .failed(mayBeDone: false, reason)) }
  }

  /// Closes a server that has no partitions any more.
  func close() {
    link.close()
    closeReaders()
    let wasReady = isReady
    state = .closed
    means.beginBatch()
    if wasReady, !partitions.isEmpty { servers.disconnected(partitions.sorted()) }
    failRequests("another server has the partition now")
  }

  // MARK: Requests

  func gather(_ request: FleetRequest, id: UInt64, of partition: Int) {
    pipe.gather(RequestPipe.Pending(id: id, request: request, partition: partition))
  }

  /// Sends gathered requests, unless replicas are asked, or earlier requests must be repeated.
  func flush() {
    guard isReady else { return }
    for stream in streams { stream.flush() }
    loader?.flush()
    guard pipe.canFlush else { return }
    let now = Self.now
    let (hasChanges, opens) = pipe.askGathered(servers.names, at: now)
    if hasChanges, means.settings.waitsForReplicas {
      pipe.awaitReplicas()
      ask(confirmation.begin(at: now))
    } else if opens, now - replicasAsked > Self.replicasPause {
      replicasAsked = now
      pipe.ask(["INFO", "replication"], .replicas)
    }
    send()
  }

  private func ask(_ questions: [Confirmation.Question]) {
    for question in questions {
      pipe.ask(confirmation.words(of: question), .confirmation(question))
    }
  }

  private func send() {
    let (bytes, replies) = pipe.takeOutput()
    if replies > 0 { link.send(bytes, replies: replies, within: Self.patienceMilliseconds) }
  }

  /// Ends a blocked read of another client of this server, so that it can ask for other streams.
  func unblock(_ client: Int) {
    pipe.ask(["CLIENT", "UNBLOCK", "\(client)"], .nothing)
    send()
  }

  // MARK: Answers

  private func take(_ value: RESPValue) {
    switch pipe.next() {
    case nil, .nothing: break
    case .memory: checkMemory(value)
    case .persistence: checkPersistence(value)
    case .script(let script): takeScript(script, value)
    case .answer(let pending): take(value, for: pending)
    case .replicas: takeReplicas(value)
    case .confirmation(let question): take(value, to: question)
    }
  }

  // MARK: Replicas

  private func takeReplicas(_ value: RESPValue) {
    guard let report = ReplicaSet.Report(value) else {
      if let text = value.errorText {
        return refuse(FleetTrouble(answer: text, "INFO replication: "))
      }
      return link.lose("it is a replica at present")
    }
    confirmation.note(report, at: Self.now)
    if isReady { reportReplicas() }
    forgetReplicas()
  }

  private func take(_ value: RESPValue, to question: Confirmation.Question) {
    guard let outcome = confirmation.take(value, to: question, at: Self.now) else { return }
    switch outcome {
    case .again(let questions):
      ask(questions)
      send()
    case .over(let problem):
      means.beginBatch()
      for one in pipe.takeUnconfirmed() { confirm(one, problem) }
      forgetReplicas()
    }
  }

  /// Takes new answers of Sentinels or cluster nodes.
  func discoveryHasAnswered() {
    if state == .preparing { return becomeReady() }
    guard isReady, means.settings.replicas == .all else { return }
    confirmation.replicas.add(servers.replicas(of: node), isFirst: false)
    forgetReplicas()
  }

  /// Forgets replicas whose grace is over, once a majority names the server the primary.
  private func forgetReplicas() {
    guard isReady, means.settings.replicas == .all,
      let over = confirmation.replicas.overdue(at: Self.now)
    else { return }
    guard servers.names(node, since: over) else { return servers.isDisturbed(by: self) }
    let missing = confirmation.replicas.missing
    confirmation.replicas.forget(asked: over)
    let left = Set(confirmation.replicas.missing)
    for replica in missing where !left.contains(replica) { servers.forgot(replica, of: self) }
  }

  /// Returns the replicas of a server that takes over from this one; nil if little is known.
  func replicas(promoting node: FleetSettings.Node) -> ReplicaSet? {
    guard !isFirst, confirmation.replicas.contains(node) else { return nil }
    return confirmation.replicas.promoted(node)
  }

  /// Whether fewer replicas must confirm changes than there are.
  var hasUnaskedReplicas: Bool {
    guard isReady, case .count(let count) = means.settings.replicas else { return false }
    return count < confirmation.connected
  }

  private func reportReplicas() {
    servers.reportReplicas(of: self, confirmation.connected)
  }

  private func checkMemory(_ value: RESPValue) {
    let lines = (value.string ?? "").split(whereSeparator: \.isNewline)
    let name = "maxmemory_policy:"
    guard let line = lines.first(where: { $0.hasPrefix(name) }) else {
      return refuse("INFO memory does not show its maxmemory-policy, which must be noeviction")
    }
    let policy = line.dropFirst(name.count)
    guard policy == "noeviction" else {
      return refuse(
        "its maxmemory-policy is \(policy), so it may forget records; set it to noeviction")
    }
  }

  private func checkPersistence(_ value: RESPValue) {
    guard means.settings.durability == .disk else { return }
    guard (value.string ?? "").contains("aof_enabled:1") else {
      return refuse("it has no append-only file; fleet.durability: disk needs appendonly yes")
    }
  }

  private func takeScript(_ script: FleetScript, _ value: RESPValue) {
    guard let sha = value.bytes else {
      let trouble = FleetTrouble(
        answer: value.errorText ?? "no error", "it does not take scripts: ")
      return trouble.refusal?.isElsewhere == true ? link.lose(trouble) : refuse(trouble)
    }
    pipe.note(sha, of: script)
    guard state == .preparing, script == FleetScript.allCases.last else { return }
    isPrepared = true
    becomeReady()
  }

  private func take(_ value: RESPValue, for pending: RequestPipe.Pending) {
    means.beginBatch()
    let now = Self.now
    health.note(roundTrip: now - pending.sent)
    let error = pending.request.error(in: value)
    let refusal = error.map { FleetRefusal($0) }
    if refusal == .script, !pending.isRepeated { return pipe.repeat(pending) }
    note(error, to: pending)
    let (body, engine) = pending.request.answer(value)
    guard case .changed(let number, _) = body, means.settings.waitsForReplicas else {
      var answer = FleetAnswer(body, engine: engine, sent: pending.sent)
      answer.refusal = refusal
      if case .opened(_, let number, _, _, _, _) = body {
        answer.policies = value.elements?[5].bytes ?? []
        stream(of: pending.partition)?.compare(number, of: pending.partition, at: now)
      }
      return servers.answer(answer, to: pending.id)
    }
    pipe.awaitConfirmation(.init(pending: pending, number: number, engine: engine))
  }

  /// Notes whether the server refuses changes of a partition. What it carries out is found by the
  /// next heartbeat.
  private func note(_ error: String?, to pending: RequestPipe.Pending) {
    let trouble = error.map { FleetTrouble(answer: $0, "it refuses changes: ") }
    let isElsewhere = trouble?.refusal?.isElsewhere == true
    if isElsewhere { servers.isDisturbed(by: self) }
    var isHeartbeat = false
    if case .open = pending.request { isHeartbeat = true }
    // Perhaps another server takes over at this moment.
    guard isHeartbeat || trouble != nil && !isElsewhere else { return }
    if health.note(trouble, of: pending.partition) { servers.noteRefusals(of: self) }
  }

  private func confirm(_ one: RequestPipe.Unconfirmed, _ problem: String?) {
    answer(one.pending, .changed(number: one.number, problem: problem), one.engine)
  }

  private func answer(
    _ pending: RequestPipe.Pending, _ body: FleetAnswer.Body, _ engine: Int64? = nil
  ) {
    servers.answer(FleetAnswer(body, engine: engine, sent: pending.sent), to: pending.id)
  }

  // MARK: Streams and records

  private func stream(of partition: Int) -> FleetStream? {
    streams.first { $0.partitions.contains(partition) }
  }

  func follow(_ partition: Int, after number: Int64) {
    guard isReady else { return }
    if let stream = stream(of: partition) {
      stream.follow(partition, after: number)
    } else {
      // The partition came to this server after the others.
      let added = FleetStream(self, means.connection, means.settings, servers, [partition])
      streams.append(added)
      added.follow(partition, after: number)
    }
  }

  func load(_ partition: Int, only keys: [FleetKey]?) {
    guard isReady else { return }
    let loader =
      loader
      ?? FleetLoader(self, means.connection, servers)
    self.loader = loader
    loader.load(partition, only: keys)
  }

  // MARK: Troubles

  var streamTrouble: FleetTrouble? { streams.lazy.compactMap(\.trouble).first }
  var unreadPartitions: Int { streams.reduce(0) { $0 + $1.unread } }
  var trouble: FleetTrouble? {
    health.problem ?? health.refusal ?? streamTrouble ?? loader?.trouble
  }

  /// A line of INFO. The error comes last, as it may contain commas.
  func fact(forAdmin: Bool) -> String {
    "address=\(node.text),connected=\(isReady ? 1 : 0),version=\(health.version),"
      + "partitions=\(partitions.count),round_trip_us=\(health.roundTrip),"
      + "replicas=\(confirmation.connected),"
      + "missing=\(confirmation.replicas.missing.map(\.text).joined(separator: "|")),"
      + "refuses=\(health.refusal?.refusal?.rawValue ?? ""),unread=\(unreadPartitions),"
      + "error=\(trouble?.text(forAdmin: forAdmin).printable ?? "")"
  }
}

/// What is known about a server besides its data.
struct ServerHealth {
  var version = ""
  /// Why the server is not used; nil if it is.
  var problem: FleetTrouble?
  /// What partitions the server refuses to change, and why.
  private var refusals: [Int: FleetTrouble] = [:]
  /// The smoothed round-trip time, in microseconds.
  private(set) var roundTrip: Int64 = 0

  /// Why the server refuses changes; nil if it does not.
  var refusal: FleetTrouble? { refusals.min { $0.key < $1.key }?.value }
  /// How many partitions it refuses to change, by the reason.
  var refusalCounts: [FleetRefusal: Int] {
    refusals.values.reduce(into: [:]) { $0[$1.refusal ?? .other, default: 0] += 1 }
  }

  mutating func lose(_ reason: FleetTrouble) { (problem, refusals) = (reason, [:]) }

  mutating func note(roundTrip took: Int64) {
    roundTrip = roundTrip == 0 ? took : roundTrip + (took - roundTrip) / 8
  }

  /// Notes whether changes of a partition are refused. Returns whether that is new.
  mutating func note(_ trouble: FleetTrouble?, of partition: Int) -> Bool {
    guard refusals[partition] != trouble else { return false }
    refusals[partition] = trouble
    return true
  }
}

/// How long to wait before the next attempt to connect.
struct Backoff {
  private static let first: UInt64 = 50
  private static let longest: UInt64 = 500

  private var milliseconds = first

  mutating func next() -> UInt64 {
    defer { milliseconds = min(milliseconds * 2, Self.longest) }
    return milliseconds
  }

  mutating func reset() { self = Backoff() }
}

extension RESPValue {
  var errorText: String? { if case .error(let text) = self { text } else { nil } }
}
