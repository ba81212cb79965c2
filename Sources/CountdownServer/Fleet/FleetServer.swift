import Countdowns
import DequeModule
import DispatchTimers
import Wire

/// A server that has partitions of the fleet: its connections, and the requests sent over them.
///
/// Requests of a batch go in one write, followed by `WAIT` if the batch has changes. The answer to
/// `WAIT` confirms changes; everything else is answered at once. While a `WAIT` has no answer, the
/// next batch gathers, so batches grow with the load.
final class FleetServer {
  /// What all servers of a fleet need.
  struct Means {
    var connection: FleetConnection.Means
    var settings: FleetSettings
    /// Begins a batch of the daemon, for the effects of an answer.
    var beginBatch: () -> Void
  }

  private enum State: Equatable { case connecting, preparing, ready, closed }

  /// A request that has no answer yet.
  private struct Pending {
    var id: UInt64
    var request: FleetRequest
    var partition: Int
    var sent: Int64
    /// Whether the request is repeated because the server did not know its script.
    var isRepeated = false
  }

  private enum Expected {
    case memory
    case script(FleetScript)
    case answer(Pending)
    case replicas
    case nothing
  }

  /// A change that the server has made, but its replicas have not confirmed.
  private struct Unconfirmed {
    var pending: Pending
    var number: Int64
    var engine: Int64?
  }

  private static let patienceMilliseconds: UInt64 = 1_000
  private static let waitMilliseconds = 100
  private static let oldestVersion = 7
  /// The most requests that are under way at once; the others wait in `gathered`.
  private static let mostUnderWay = 4_096

  let node: FleetSettings.Node
  private let means: Means
  private unowned let servers: FleetServers
  private var state = State.connecting
  private(set) var partitions: Set<Int> = []

  private var connection: FleetConnection?
  private var expected: Deque<Expected> = []
  private var shas = [[UInt8]](repeating: [], count: FleetScript.allCases.count)
  private var gathered: Deque<Pending> = []
  private var unconfirmed: [Unconfirmed] = []
  private var isWaiting = false
  private var scriptsToLoad: Set<FleetScript> = []

  private var streams: [FleetStream] = []
  private var loader: FleetLoader?

  private var backoff = Backoff()
  private(set) var version = ""
  /// The current problem of the server; empty if there is none.
  private(set) var lastError = ""
  /// The smoothed round-trip time, in microseconds.
  private(set) var roundTrip: Int64 = 0

  init(_ node: FleetSettings.Node, _ means: Means, _ servers: FleetServers) {
    self.node = node
    self.means = means
    self.servers = servers
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

  func connect() {
    guard state != .closed else { return }
    state = .connecting
    connection = FleetConnection(node, means.connection) { [unowned self] in
      prepare($0)
    } received: { [unowned self] in
      take($0)
    } closed: { [unowned self] in
      lose($0)
    }
    connection?.open()
  }

  private func prepare(_ greeting: FleetConnection.Greeting) {
    version = greeting.version
    guard let major = Int(version.prefix { $0 != "." }), major >= Self.oldestVersion else {
      return refuse("its version is \(version); it must be \(Self.oldestVersion).0 or later")
    }
    guard greeting.role == "master" else { return lose("it is a replica at present") }
    state = .preparing
    var bytes: [UInt8] = []
    RESPRequest.append(["INFO", "memory"].map(\.utf8Array), to: &bytes)
    expected.append(.memory)
    for script in FleetScript.allCases { appendLoading(of: script, to: &bytes) }
    send(bytes, replies: 1 + FleetScript.allCases.count)
  }

  private func appendLoading(of script: FleetScript, to bytes: inout [UInt8]) {
    RESPRequest.append(["SCRIPT", "LOAD", script.source].map(\.utf8Array), to: &bytes)
    expected.append(.script(script))
  }

  private func becomeReady() {
    state = .ready
    backoff.reset()
    lastError = ""
    servers.hasConnected(self)
    streams = FleetStream.division(partitions.sorted(), means.settings).map {
      FleetStream(self, means.connection, means.settings, servers, $0)
    }
    servers.connected(partitions.sorted())
  }

  /// Reports that the server cannot be used until somebody changes its configuration.
  private func refuse(_ problem: String) {
    servers.refused(self, problem)
    lose(problem)
  }

  /// Closes the connection, fails all requests without an answer, and connects again later.
  private func lose(_ reason: String) {
    let wasReady = isReady
    dropConnections()
    state = .connecting
    lastError = reason
    means.beginBatch()
    if wasReady { servers.disconnected(partitions.sorted()) }
    failRequests(reason)
    servers.hasDisconnected(self, wasReady: wasReady)
    guard state != .closed else { return }
    means.connection.loop.schedule(inMilliseconds: backoff.next()) { [weak self] in
      guard let self, state == .connecting, connection == nil else { return }
      connect()
    }
  }

  private func dropConnections() {
    connection?.close()
    connection = nil
    for stream in streams { stream.close() }
    streams = []
    loader?.close()
    loader = nil
  }

  private func failRequests(_ reason: String) {
    let (expected, unconfirmed, gathered) = (expected, unconfirmed, gathered)
    self.expected = []
    self.unconfirmed = []
    self.gathered = []
    isWaiting = false
    scriptsToLoad = []
    for one in unconfirmed { confirm(one, replicas: 0) }
    for case .answer(let pending) in expected {
      answer(pending, .failed(mayBeDone: pending.request.isChange, reason))
    }
    for pending in gathered { answer(pending, .failed(mayBeDone: false, reason)) }
  }

  /// Closes a server that has no partitions any more.
  func close() {
    dropConnections()
    let wasReady = isReady
    state = .closed
    means.beginBatch()
    if wasReady, !partitions.isEmpty { servers.disconnected(partitions.sorted()) }
    failRequests("another server has the partition now")
  }

  // MARK: Requests

  func gather(_ request: FleetRequest, id: UInt64, of partition: Int) {
    gathered.append(Pending(id: id, request: request, partition: partition, sent: 0))
  }

  /// Sends gathered requests, unless a `WAIT` has no answer yet.
  func flush() {
    guard isReady else { return }
    for stream in streams { stream.flush() }
    loader?.flush()
    guard !isWaiting, !gathered.isEmpty else { return }
    var bytes: [UInt8] = []
    var replies = 0
    for script in scriptsToLoad {
      appendLoading(of: script, to: &bytes)
      replies += 1
    }
    scriptsToLoad = []
    let now = Self.now
    while expected.count < Self.mostUnderWay, var pending = gathered.popFirst() {
      pending.sent = now
      let sha = shas[pending.request.script.rawValue]
      pending.request.append(servers.names[pending.partition], sha: sha, to: &bytes)
      expected.append(.answer(pending))
      replies += 1
      if pending.request.isChange, means.settings.replicas > 0 { isWaiting = true }
    }
    if isWaiting {
      let words = ["WAIT", "\(means.settings.replicas)", "\(Self.waitMilliseconds)"]
      RESPRequest.append(words.map(\.utf8Array), to: &bytes)
      expected.append(.replicas)
      replies += 1
    }
    if replies > 0 { send(bytes, replies: replies) }
  }

  private func send(_ bytes: [UInt8], replies: Int) {
    connection?.send(bytes, replies: replies, within: Self.patienceMilliseconds)
  }

  /// Ends a blocked read of another client of this server, so that it can ask for other streams.
  func unblock(_ client: Int) {
    var bytes: [UInt8] = []
    RESPRequest.append(["CLIENT", "UNBLOCK", "\(client)"].map(\.utf8Array), to: &bytes)
    expected.append(.nothing)
    send(bytes, replies: 1)
  }

  // MARK: Answers

  private func take(_ value: RESPValue) {
    guard let first = expected.popFirst() else { return }
    switch first {
    case .nothing: break
    case .memory: checkMemory(value)
    case .script(let script): takeScript(script, value)
    case .answer(let pending): take(value, for: pending)
    case .replicas:
      means.beginBatch()
      isWaiting = false
      let (done, replicas) = (unconfirmed, value.int ?? 0)
      unconfirmed = []
      for one in done { confirm(one, replicas: replicas) }
    }
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

  private func takeScript(_ script: FleetScript, _ value: RESPValue) {
    guard let sha = value.bytes else {
      return refuse("it does not take scripts: \(value.errorText ?? "no error")")
    }
    shas[script.rawValue] = sha
    if state == .preparing, script == FleetScript.allCases.last { becomeReady() }
  }

  private func take(_ value: RESPValue, for pending: Pending) {
    means.beginBatch()
    let now = Self.now
    let took = now - pending.sent
    roundTrip = roundTrip == 0 ? took : roundTrip + (took - roundTrip) / 8
    if case .error(let text) = value {
      switch FleetProblem(text) {
      case .isElsewhere:
        lastError = text
        servers.isDisturbed(by: self)
      case .noScript where !pending.isRepeated:
        // Somebody has removed the scripts. They are loaded again, before the request is repeated.
        scriptsToLoad.insert(pending.request.script)
        var again = pending
        again.isRepeated = true
        gathered.append(again)
        return
      case .noScript, .refused, .unknown: lastError = text
      }
    } else {
      lastError = ""
    }
    let (body, engine) = pending.request.answer(value)
    guard case .changed(let number, _) = body, means.settings.replicas > 0 else {
      var answer = FleetAnswer(body, engine: engine, sent: pending.sent)
      if case .opened = body { answer.policies = value.elements?.last?.bytes ?? [] }
      return servers.answer(answer, to: pending.id)
    }
    unconfirmed.append(Unconfirmed(pending: pending, number: number, engine: engine))
  }

  private func confirm(_ one: Unconfirmed, replicas: Int) {
    answer(one.pending, .changed(number: one.number, replicas: replicas), one.engine)
  }

  private func answer(_ pending: Pending, _ body: FleetAnswer.Body, _ engine: Int64? = nil) {
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

  func load(_ partition: Int) {
    guard isReady else { return }
    let loader =
      loader
      ?? FleetLoader(self, means.connection, means.settings, servers)
    self.loader = loader
    loader.load(partition)
  }

  /// A line of INFO. The error comes last, as it may contain commas.
  var fact: String {
    "address=\(node.text),connected=\(isReady ? 1 : 0),version=\(version),"
      + "partitions=\(partitions.count),round_trip_us=\(roundTrip),error=\(lastError.printable)"
  }

  /// Notes that records cannot be loaded, or that streams cannot be read.
  func hasTrouble(_ problem: String) { lastError = problem }
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
