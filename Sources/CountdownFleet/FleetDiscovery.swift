import Countdowns
import DispatchTimers
import Runtime
import Wire

/// Finds the servers that have the partitions, and calls `FleetServers.place`.
protocol FleetDiscovery: AnyObject {
  func start()
  /// Searches again after a failure: another server may have the partitions now.
  func lookAgain()
  /// Returns whether a majority has named a server the primary, asked at `since` or later on the
  /// boot clock. At 0 every answer counts that is still valid.
  func names(_ node: FleetSettings.Node, since: Int64) -> Bool
  /// Returns the replicas that are listed, and whether each one can be promoted at present.
  func replicas(of node: FleetSettings.Node) -> [FleetSettings.Node: Bool]
  /// Lines of INFO.
  func facts(forAdmin: Bool) -> [(name: String, value: String)]
  /// How many Sentinels there are, and how many answer; nil without Sentinels.
  var sentinelCounts: (all: Int, reachable: Int)? { get }
}

extension FleetDiscovery {
  var sentinelCounts: (all: Int, reachable: Int)? { nil }
}

/// Always uses one server for all partitions.
final class SingleServer: FleetDiscovery {
  private unowned let servers: FleetServers
  init(_ servers: FleetServers) { self.servers = servers }

  func start() { servers.place { _ in servers.settings.nodes.first } }
  func lookAgain() {}
  /// Nobody else can be asked, so no replica is forgotten.
  func names(_ node: FleetSettings.Node, since: Int64) -> Bool { since == 0 }
  func replicas(of node: FleetSettings.Node) -> [FleetSettings.Node: Bool] { [:] }
  func facts(forAdmin: Bool) -> [(name: String, value: String)] { [] }
}

/// Asks a node the same questions repeatedly.
final class FleetQuestions {
  private static let patienceMilliseconds: UInt64 = 1_000
  /// How long an answer is valid.
  private static let validMicroseconds: UInt64 = 2_500_000

  /// Returns whether an answer of time `at` is still valid: to a question of `since` or later.
  static func isValid(_ at: UInt64, asked: UInt64, since: Int64, now: UInt64) -> Bool {
    asked >= UInt64(since) && now - min(at, now) < validMicroseconds
  }

  let node: FleetSettings.Node
  private let means: FleetConnection.Means
  private let bytes: [UInt8]
  private let count: Int
  private let answered: ([RESPValue]) -> Void
  private var connection: FleetConnection?
  private var answers: [RESPValue] = []
  private var isAsking = false
  /// Whether to send the password. A sentinel has users of its own, and often none.
  private var sendsPassword = true
  /// Whether to find out if it takes the password.
  private let triesPassword: Bool
  private(set) var problem: FleetTrouble?
  /// When it was asked, on the boot clock.
  private(set) var askedAt: UInt64 = 0

  init(
    _ node: FleetSettings.Node, _ means: FleetConnection.Means, _ questions: [[String]],
    triesPassword: Bool = true, answered: @escaping ([RESPValue]) -> Void
  ) {
    self.node = node
    self.means = means
    self.triesPassword = triesPassword
    self.answered = answered
    count = questions.count
    bytes = questions.reduce(into: []) { RESPRequest.append($1.map(\.utf8Array), to: &$0) }
  }

  /// Asks, unless an earlier call is under way. `answered` is not called if the node fails.
  func ask() {
    guard !isAsking else { return }
    isAsking = true
    answers = []
    guard connection == nil else { return send() }
    connection = FleetConnection(node, means, sendsPassword: sendsPassword) { [unowned self] _ in
      send()
    } received: { [unowned self] value in
      answers.append(value)
      guard answers.count == count else { return }
      isAsking = false
      problem = answers.compactMap(\.errorText).first.map { FleetTrouble(answer: $0) }
      answered(answers)
    } closed: { [unowned self] reason in
      problem = reason
      if triesPassword, ["WRONGPASS", "NOAUTH", "ERR"].contains(reason.text.prefix { $0 != " " }) {
        sendsPassword.toggle()
      }
      close()
    }
    connection?.open()
  }

  private func send() {
    askedAt = BootClock.now
    connection?.send(bytes, replies: count, within: Self.patienceMilliseconds)
  }

  func close() {
    isAsking = false
    connection?.close()
    connection = nil
  }
}

/// Keeps asking all sentinels for the primary. The answer with the highest epoch counts: a
/// sentinel that is cut off from the others reports an older one.
final class SentinelDiscovery: FleetDiscovery {
  private static let pauseMilliseconds: UInt64 = 1_000
  private static let pauseWhileDisturbedMilliseconds: UInt64 = 200
  private struct Answer {
    var primary: FleetSettings.Node
    /// How many Sentinels it knows, itself included.
    var sentinels: Int
    var epoch: Int
    var at: UInt64
    var asked: UInt64
    var replicas: [FleetSettings.Node: Bool]

    func isValid(since: Int64 = 0, now: UInt64) -> Bool {
      FleetQuestions.isValid(at, asked: asked, since: since, now: now)
    }
  }

  private unowned let servers: FleetServers
  private let loop: EventLoop
  private var sentinels: [FleetQuestions] = []
  private var answers: [FleetSettings.Node: Answer] = [:]
  private var current: FleetSettings.Node?
  private var rounds = 0
  private var lastRound: UInt64 = 0
  /// The most Sentinels that one of them knew.
  private var known = 0

  init(_ servers: FleetServers, _ means: FleetConnection.Means) {
    self.servers = servers
    loop = means.loop
    let name = servers.settings.sentinelName
    let questions = [
      ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name], ["SENTINEL", "MASTER", name],
      ["SENTINEL", "REPLICAS", name],
    ]
    sentinels = servers.settings.nodes.map { node in
      FleetQuestions(
        node, means, questions,
        triesPassword: servers.settings.sentinelPasswordFile == nil
      ) { [unowned self] in take($0, from: node) }
    }
  }

  func start() { ask() }

  func names(_ node: FleetSettings.Node, since: Int64) -> Bool {
    let now = BootClock.now
    let count = answers.values.count {
      $0.primary == node && $0.isValid(since: since, now: now)
    }
    return count > sentinels.count / 2
  }

  func replicas(of node: FleetSettings.Node) -> [FleetSettings.Node: Bool] {
    var all: [FleetSettings.Node: Bool] = [:]
    for answer in answers.values where answer.primary == node {
      all.merge(answer.replicas) { $0 || $1 }
    }
    // During a failover a Sentinel names the promoted replica the primary, and lists it, too.
    all[node] = nil
    return all
  }

  /// Parses a list of replicas. A Sentinel promotes one only if it is reachable and has reported
  /// how much it has.
  static func replicas(_ value: RESPValue) -> [FleetSettings.Node: Bool] {
    var replicas: [FleetSettings.Node: Bool] = [:]
    for entry in value.elements ?? [] {
      guard let host = entry["ip"]?.string, let port = entry["port"]?.string.flatMap({ Int($0) })
      else { continue }
      let flags = (entry["flags"]?.string ?? "").split(separator: ",")
      let isDown = flags.contains { ["s_down", "o_down", "disconnected"].contains($0) }
      let hasReported = entry["info-refresh"]?.string != "0"
      replicas[FleetSettings.Node(host: host, port: port)] =
        !isDown && hasReported && entry["slave-priority"]?.string != "0"
    }
    return replicas
  }

  func lookAgain() {
    if BootClock.now - lastRound > Self.pauseWhileDisturbedMilliseconds * 1_000 / 4 { ask() }
  }

  private func ask() {
    rounds += 1
    lastRound = BootClock.now
    let round = rounds
    for sentinel in sentinels { sentinel.ask() }
    let pause =
      servers.isComplete ? Self.pauseMilliseconds : Self.pauseWhileDisturbedMilliseconds
    loop.schedule(inMilliseconds: pause) { [weak self] in
      // Another round may have begun since.
      if let self, rounds == round { ask() }
    }
  }

  private func take(_ values: [RESPValue], from sentinel: FleetSettings.Node) {
    defer { servers.discoveryHasAnswered() }
    guard let parts = values[0].elements, parts.count == 2, let host = parts[0].string,
      let port = parts[1].int, (1...65_535).contains(port)
    else {
      answers[sentinel] = nil
      return
    }
    let epoch = values[1]["config-epoch"]?.int ?? 0
    let now = BootClock.now
    answers[sentinel] = Answer(
      primary: FleetSettings.Node(host: host, port: port),
      sentinels: 1 + Self.others(values[1]), epoch: epoch, at: now,
      asked: sentinels.first { $0.node == sentinel }?.askedAt ?? 0,
      replicas: Self.replicas(values[2]))
    noteSentinels()
    answers = answers.filter { $0.value.isValid(now: now) }
    let newest = answers.values.map(\.epoch).max() ?? 0
    let primaries = Set(answers.values.filter { $0.epoch == newest }.map(\.primary))
    if let current, primaries.contains(current) { return }
    guard let primary = primaries.min(by: { $0.text < $1.text }) else { return }
    current = primary
    servers.place { _ in primary }
  }

  /// Reads how many other Sentinels one knows, from its answer about the primary.
  static func others(_ value: RESPValue) -> Int {
    value["num-other-sentinels"]?.string.flatMap { Int($0) } ?? 0
  }

  private func noteSentinels() {
    let maximum = answers.values.map(\.sentinels).max() ?? 0
    if maximum > max(sentinels.count, known) { servers.reportSentinels(maximum) }
    known = maximum
  }

  var sentinelCounts: (all: Int, reachable: Int)? {
    let now = BootClock.now
    return (sentinels.count, answers.values.count { $0.isValid(now: now) })
  }

  func facts(forAdmin: Bool) -> [(name: String, value: String)] {
    [("fleet_sentinels_known", "\(known)")]
      + sentinels.enumerated().map { index, sentinel in
        let primary = answers[sentinel.node]?.primary.text ?? ""
        return (
          "fleet_sentinel\(index)",
          "address=\(sentinel.node.text),primary=\(primary),"
            + "error=\(sentinel.problem?.text(forAdmin: forAdmin).printable ?? "")"
        )
      }
  }
}

/// Asks nodes of a cluster which node has which slots, until every partition has a working server.
final class ClusterDiscovery: FleetDiscovery {
  private static let pauseMilliseconds: UInt64 = 100
  private static let nodesAsked = 8
  /// After this time without an answer, any epoch counts: a recreated cluster begins with low ones.
  private static let patienceMicroseconds: UInt64 = 3_000_000

  private unowned let servers: FleetServers
  private let means: FleetConnection.Means
  private let slots: [Int]
  /// All known nodes: any of them may answer.
  private var nodes: [FleetSettings.Node]
  private var questions: [FleetSettings.Node: FleetQuestions] = [:]
  private var isAsking = false
  /// Whether a search was requested, and no answer has arrived since.
  private var isWanted = true
  private var asked = 0
  private var epoch = 0
  private var placed: UInt64 = 0
  private var map: ClusterMap?
  /// What each node reported last, and when it was asked.
  private var views: [FleetSettings.Node: (map: ClusterMap, asked: UInt64)] = [:]

  init(_ servers: FleetServers, _ means: FleetConnection.Means) {
    self.servers = servers
    self.means = means
    nodes = servers.settings.nodes
    slots = (0..<servers.settings.partitions).map {
      ClusterMap.slot(ofTag: FleetNames.tag(servers.settings.name, $0))
    }
  }

  func start() { ask() }

  func lookAgain() {
    isWanted = true
    if !isAsking { ask() }
  }

  private func ask() {
    isAsking = true
    // With `replicas: all`, a majority of the primaries must agree.
    var chosen = servers.settings.replicas == .all ? Set(map?.primaries ?? []) : []
    for _ in 0..<min(Self.nodesAsked, nodes.count) {
      chosen.insert(nodes[asked % nodes.count])
      asked += 1
    }
    for node in chosen {
      let question =
        questions[node]
        ?? FleetQuestions(node, means, [["CLUSTER", "INFO"], ["CLUSTER", "SLOTS"]]) {
          [unowned self] in take($0, from: node)
        }
      questions[node] = question
      question.ask()
    }
    means.loop.schedule(inMilliseconds: Self.pauseMilliseconds) { [weak self] in
      guard let self else { return }
      isAsking = false
      if isWanted || !servers.isComplete { return ask() }
      for question in questions.values { question.close() }
      questions = [:]
    }
  }

  private func take(_ values: [RESPValue], from node: FleetSettings.Node) {
    guard let state = ClusterState(values[0]), state.isOK,
      let map = ClusterMap(values[1], from: node)
    else { return }
    let now = BootClock.now
    views[node] = (map, questions[node]?.askedAt ?? 0)
    defer { servers.discoveryHasAnswered() }
    if now - placed > Self.patienceMicroseconds { epoch = 0 }
    guard state.epoch >= epoch else { return }
    epoch = state.epoch
    placed = now
    isWanted = false
    self.map = map
    nodes = map.nodes + servers.settings.nodes.filter { !map.nodes.contains($0) }
    servers.place { map.primary(of: slots[$0]) }
  }

  func names(_ node: FleetSettings.Node, since: Int64) -> Bool {
    guard let map else { return false }
    let now = BootClock.now
    let own = slots.filter { map.primary(of: $0) == node }
    let count = map.primaries.count { other in
      guard let view = views[other],
        FleetQuestions.isValid(view.asked, asked: view.asked, since: since, now: now)
      else { return false }
      return own.allSatisfy { view.map.primary(of: $0) == node }
    }
    return !own.isEmpty && count > map.primaries.count / 2
  }

  func replicas(of node: FleetSettings.Node) -> [FleetSettings.Node: Bool] {
    Dictionary(uniqueKeysWithValues: (map?.replicas(of: node) ?? []).map { ($0, true) })
  }

  func facts(forAdmin: Bool) -> [(name: String, value: String)] {
    [("fleet_cluster_nodes", "\(nodes.count)"), ("fleet_cluster_epoch", "\(epoch)")]
  }
}

/// What a node reports about its cluster: `CLUSTER INFO`.
struct ClusterState: Equatable {
  var isOK = false
  var epoch = 0

  /// Nil if the answer is not text.
  init?(_ value: RESPValue) {
    guard let text = value.string else { return nil }
    for line in text.split(whereSeparator: \.isNewline) {
      let parts = line.split(separator: ":", maxSplits: 1)
      guard parts.count == 2 else { continue }
      if parts[0] == "cluster_state" { isOK = parts[1] == "ok" }
      if parts[0] == "cluster_current_epoch" { epoch = Int(parts[1]) ?? 0 }
    }
  }
}

/// The nodes that have the slots: `CLUSTER SLOTS`.
struct ClusterMap {
  private static let slotCount = 16_384

  /// Returns the slot of keys with this hash tag, the text between `{` and `}`.
  static func slot(ofTag tag: String) -> Int { Int(CRC16.of(tag.utf8)) % slotCount }

  private var ranges: [(slots: ClosedRange<Int>, primary: FleetSettings.Node)] = []
  /// All nodes, including replicas.
  private(set) var nodes: [FleetSettings.Node] = []
  private var replicas: [FleetSettings.Node: Set<FleetSettings.Node>] = [:]

  /// Nil if the answer is not that of `CLUSTER SLOTS`.
  ///
  /// - Parameter asked: the node that answered; it need not know its own address.
  init?(_ value: RESPValue, from asked: FleetSettings.Node) {
    guard let entries = value.elements else { return nil }
    for entry in entries {
      guard let parts = entry.elements, parts.count >= 3, let first = parts[0].int,
        let last = parts[1].int, 0 <= first, first <= last, last < Self.slotCount
      else { return nil }
      let found = parts[2...].compactMap { Self.node($0, from: asked) }
      guard found.count == parts.count - 2 else { return nil }
      ranges.append((first...last, found[0]))
      replicas[found[0], default: []].formUnion(found.dropFirst())
      for node in found where !nodes.contains(node) { nodes.append(node) }
    }
  }

  private static func node(
    _ value: RESPValue, from asked: FleetSettings.Node
  ) -> FleetSettings.Node? {
    guard let parts = value.elements, parts.count >= 2, let port = parts[1].int,
      (1...65_535).contains(port)
    else { return nil }
    let host = parts[0].string ?? ""
    return FleetSettings.Node(host: host.isEmpty || host == "?" ? asked.host : host, port: port)
  }

  var primaries: [FleetSettings.Node] { Array(replicas.keys) }

  func replicas(of primary: FleetSettings.Node) -> Set<FleetSettings.Node> {
    replicas[primary] ?? []
  }

  func primary(of slot: Int) -> FleetSettings.Node? {
    ranges.first { $0.slots.contains(slot) }?.primary
  }
}
