import Countdowns

/// A daemon's connection to a server: requests and answers in order, both with delays; and the
/// streams that the daemon follows.
final class ModelConnection {
  struct Sent {
    let id: UInt64
    let request: FleetRequest
    let partition: Int
    let boot: Int64
  }

  let server: ModelServer
  private let world: FleetWorld
  private let link: ModelLink
  /// Whether it is open on the daemon's side.
  private(set) var isOpen = true
  /// How many requests under way are still executed after the connection was closed.
  private var doneAfterEnd = 0
  /// Whether all messages are lost, without an error.
  var isSilent = false
  private var lastArrival: Int64 = 0
  private var lastAnswer: Int64 = 0
  private var arrived: [[Sent]] = []
  private var isWaiting = false
  private var outstanding: [(sent: Sent, since: Int64)] = []
  /// The position in each stream that is followed, by partition.
  private var followed: [Int: (position: Int64, id: Int)] = [:]
  private var lastFollowing = 0
  private var lastEntries: Int64 = 0
  /// The newest load of each partition: it replaces the one before.
  private var loads: [Int: Int] = [:]

  init(_ link: ModelLink, to server: ModelServer, _ world: FleetWorld) {
    self.link = link
    self.server = server
    self.world = world
    server.connections.append(self)
  }

  // MARK: Requests

  func send(_ batch: [Sent]) {
    outstanding += batch.map { ($0, world.agenda.now) }
    watch()
    lastArrival = max(lastArrival, world.agenda.now + world.latency())
    world.agenda.at(lastArrival) { [self] in
      guard !isSilent || doneAfterEnd > 0 else { return }
      arrived.append(batch)
      pump()
    }
  }

  /// Executes what has arrived. A connection that waits for replicas executes nothing else.
  private func pump() {
    server.whenRunning { [self] in
      guard server.isServing, !isWaiting, !arrived.isEmpty else { return }
      let batch = arrived.removeFirst()
      var answers: [(id: UInt64, answer: FleetAnswer)] = []
      for sent in batch {
        if !isOpen {
          guard doneAfterEnd > 0 else { break }
          doneAfterEnd -= 1
        }
        let (body, engine) = server.execute(sent.request, on: sent.partition)
        answers.append((sent.id, FleetAnswer(body, engine: engine, sent: sent.boot)))
      }
      let hasChanges = batch.contains { if case .change = $0.request { true } else { false } }
      guard world.settings.replicas != .count(0), hasChanges, isOpen else {
        return answer(answers, [server.report])
      }
      isWaiting = true
      answer(answers.filter { !$0.answer.isChanged })
      let before = server.report
      let required =
        if case .count(let count) = world.settings.replicas { count } else {
          link.replicas(of: self).present
        }
      server.wait(for: required) { [self] replicas in
        isWaiting = false
        let isCounted = world.settings.replicas != .all || world.settings.countsReplicas
        answer(
          answers.compactMap { id, answer in
            guard case .changed(let number, _) = answer.body else { return nil }
            var answer = answer
            let problem = isCounted && replicas < required ? "too few" : nil
            answer.body = .changed(number: number, problem: problem)
            return (id, answer)
          }, [before, server.report])
        pump()
      }
    }
  }

  /// - Parameter reports: reports of replicas; the last one says which changes are confirmed, if
  ///   there are two.
  private func answer(
    _ answers: [(id: UInt64, answer: FleetAnswer)], _ reports: [ReplicaSet.Report] = []
  ) {
    guard isOpen, !isSilent, !answers.isEmpty else { return pump() }
    lastAnswer = max(lastAnswer, world.agenda.now + world.latency())
    world.agenda.at(lastAnswer) { [self] in
      guard isOpen, !isSilent else { return }
      outstanding.removeAll { sent, _ in answers.contains { $0.id == sent.id } }
      link.daemon.run { [self] fleet, boot in
        let problem = link.note(reports, of: self, at: boot)
        for (id, answer) in answers {
          var answer = answer
          if case .changed(let number, nil) = answer.body {
            answer.body = .changed(number: number, problem: problem)
          }
          fleet.receive(answer, to: id, at: boot)
        }
      }
    }
    pump()
  }

  /// Closes the connection if a request is not answered within the patience.
  private func watch() {
    world.agenda.after(world.settings.patience) { [self] in
      let given = world.agenda.now - world.settings.patience
      if isOpen, outstanding.contains(where: { $0.since <= given }) { end() }
    }
  }

  /// Closes the connection. Requests may be lost, or executed later.
  func end() {
    guard isOpen else { return }
    isOpen = false
    server.connections.removeAll { $0 === self }
    doneAfterEnd = world.chance(oneIn: 2) ? 0 : Int.random(in: 0...4, using: &world.random)
    let lost = outstanding.map(\.sent)
    outstanding = []
    followed = [:]
    link.ended(self, lost)
  }

  // MARK: Streams

  func follow(_ partition: Int, after number: Int64) {
    lastFollowing += 1
    let id = lastFollowing
    followed[partition] = (.max, id)
    world.agenda.after(world.latency()) { [self] in
      guard isOpen, followed[partition]?.id == id else { return }
      followed[partition]!.position = number
      pumpStreams()
    }
  }

  func pumpStreams() {
    server.whenRunning { [self] in
      guard isOpen, !isSilent else { return }
      for partition in followed.keys.sorted() { pumpStream(partition, followed[partition]!) }
    }
  }

  private func pumpStream(_ partition: Int, _ following: (position: Int64, id: Int)) {
    let next = server.partitions[partition]?.stream.filter { $0.number > following.position } ?? []
    guard let last = next.last?.number else { return }
    followed[partition]!.position = last
    lastEntries = max(lastEntries, world.agenda.now + world.streamDelay())
    world.agenda.at(lastEntries) { [self] in
      guard isOpen, !isSilent, followed[partition]?.id == following.id else { return }
      link.daemon.run { fleet, _ in fleet.receive(next, of: partition) }
    }
  }

  /// Loads the records, or those of some keys, in portions.
  func load(_ partition: Int, only wanted: [FleetKey]?) {
    let id = loads[partition, default: 0] + 1
    loads[partition] = id
    world.agenda.after(world.latency()) { [self] in
      guard isOpen, loads[partition] == id else { return }
      let keys = wanted ?? (server.partitions[partition]?.records.keys).map(Array.init) ?? []
      loadNext(
        keys.sorted { $0.order < $1.order }.shuffled(using: &world.random)[...], partition, id)
    }
  }

  private func loadNext(_ keys: ArraySlice<FleetKey>, _ partition: Int, _ id: Int) {
    server.whenRunning { [self] in
      guard isOpen, !isSilent, loads[partition] == id else { return }
      let now = keys.prefix(3)
      let records = now.compactMap { key in
        server.partitions[partition]?.records[key].map { (key, $0) }
      }
      let rest = keys.dropFirst(now.count)
      world.agenda.after(world.latency()) { [self] in
        guard isOpen, !isSilent, loads[partition] == id else { return }
        link.daemon.run { fleet, _ in
          fleet.load(records, of: partition)
          if rest.isEmpty { fleet.endLoading(partition) }
        }
        if !rest.isEmpty { loadNext(rest, partition, id) }
      }
    }
  }
}

extension FleetAnswer {
  fileprivate var isChanged: Bool { if case .changed = body { true } else { false } }
}

extension FleetKey {
  /// A sort key: the order of a dictionary's keys varies.
  var order: String { "\(kind.rawValue) " + String(decoding: key, as: UTF8.self) }
}

/// A daemon's link to the model servers.
final class ModelLink: FleetLink {
  unowned let daemon: ModelDaemon
  private let world: FleetWorld
  private var connections: [Int: ModelConnection] = [:]
  private var unsent: [Int: [ModelConnection.Sent]] = [:]
  /// The replicas of the server that the daemon was last connected to, for each shard.
  private var replicas: [Int: (server: ModelServer, set: ReplicaSet)] = [:]
  /// Whether the daemon has ended.
  private var isOver = false

  init(_ daemon: ModelDaemon, _ world: FleetWorld) {
    self.daemon = daemon
    self.world = world
  }

  func send(_ request: FleetRequest, id: UInt64, to partition: Int) {
    let shard = world.shardIndex(of: partition)
    let boot = daemon.now.boot.microseconds
    guard connections[shard] != nil else {
      world.agenda.after(0) { [self] in
        daemon.run { fleet, boot in
          fleet.receive(
            FleetAnswer(.failed(mayBeDone: false, "not connected"), engine: nil, sent: boot),
            to: id, at: boot)
        }
      }
      return
    }
    unsent[shard, default: []].append(
      ModelConnection.Sent(id: id, request: request, partition: partition, boot: boot))
  }

  func flush() {
    for shard in unsent.keys.sorted() { connections[shard]?.send(unsent[shard]!) }
    unsent = [:]
  }

  func follow(_ partition: Int, after number: Int64) {
    connections[world.shardIndex(of: partition)]?.follow(partition, after: number)
  }

  func load(_ partition: Int, only keys: [FleetKey]?) {
    connections[world.shardIndex(of: partition)]?.load(partition, only: keys)
  }

  // MARK: Connections

  /// Connects to the current primary after a delay, and tries again until that succeeds.
  func connect(_ shard: Int) {
    world.agenda.after(world.connectionDelay()) { [self] in
      guard !isOver, connections[shard] == nil else { return }
      let primary = world.shards[shard].primary
      guard primary.isUp, primary.stoppedUntil <= world.agenda.now,
        !daemon.isCutOff
      else { return connect(shard) }
      let partitions = world.partitions(of: shard)
      connections[shard] = ModelConnection(self, to: primary, world)
      know(primary, of: shard)
      daemon.run { fleet, boot in fleet.connected(partitions, at: boot) }
    }
  }

  // MARK: Replicas

  /// Takes over what is known of the replicas, and what the Sentinels list.
  private func know(_ server: ModelServer, of shard: Int) {
    let known = replicas[shard]
    var set =
      known.map { $0.server === server ? $0.set : $0.set.promoted(server.node) }
      ?? ReplicaSet(grace: world.settings.grace)
    set.add(listed(shard, server), isFirst: known == nil)
    replicas[shard] = (server, set)
  }

  /// Whether each replica of a server can be promoted at present.
  private func listed(_ index: Int, _ server: ModelServer) -> [FleetSettings.Node: Bool] {
    let shard = world.shards[index]
    let others = shard.servers.filter { $0 !== server }
    return Dictionary(
      uniqueKeysWithValues: others.map { ($0.node, $0.isUp && !shard.isFormer($0)) })
  }

  func replicas(of connection: ModelConnection) -> ReplicaSet {
    replicas.values.first { $0.server === connection.server }?.set
      ?? ReplicaSet(grace: world.settings.grace)
  }

  /// Notes reports of a server's replicas. Returns why changes before the first one are not
  /// confirmed by the last one.
  func note(
    _ reports: [ReplicaSet.Report], of connection: ModelConnection, at boot: Int64
  ) -> String? {
    guard world.settings.replicas == .all, let first = reports.first,
      let shard = replicas.first(where: { $0.value.server === connection.server })?.key
    else { return nil }
    replicas[shard]!.set.add(listed(shard, connection.server), isFirst: false)
    for report in reports { replicas[shard]!.set.note(report, at: boot) }
    let problem = replicas[shard]!.set.problem(of: first.offset, in: reports.last!)
    forget(shard, connection.server, at: boot)
    return reports.count == 1 || world.settings.countsReplicas ? nil : problem
  }

  private func forget(_ shard: Int, _ server: ModelServer, at boot: Int64) {
    guard let over = replicas[shard]!.set.overdue(at: boot) else { return }
    if world.settings.asksNoMajority { return replicas[shard]!.set.forget(asked: over) }
    world.agenda.after(world.latency()) { [self] in
      guard world.shards[shard].primary === server else { return }
      world.agenda.after(world.latency()) { [self] in
        guard replicas[shard]?.server === server else { return }
        replicas[shard]!.set.forget(asked: over)
      }
    }
  }

  func connection(_ shard: Int) -> ModelConnection? { connections[shard] }

  func ended(_ connection: ModelConnection, _ lost: [ModelConnection.Sent]) {
    guard !isOver, let shard = connections.first(where: { $0.value === connection })?.key else {
      return
    }
    connections[shard] = nil
    let unsent = unsent.removeValue(forKey: shard) ?? []
    let partitions = world.partitions(of: shard)
    daemon.run { fleet, boot in
      for (sent, mayBeDone) in lost.map({ ($0, true) }) + unsent.map({ ($0, false) }) {
        fleet.receive(
          FleetAnswer(
            .failed(mayBeDone: mayBeDone, "the connection was closed"), engine: nil,
            sent: sent.boot), to: sent.id, at: boot)
      }
      fleet.disconnected(partitions)
    }
    connect(shard)
  }

  /// Ends all connections with the daemon; requests under way may still be executed.
  func end() {
    isOver = true
    for shard in connections.keys.sorted() { connections[shard]!.end() }
    connections = [:]
  }
}
