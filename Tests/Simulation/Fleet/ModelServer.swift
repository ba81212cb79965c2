import Countdowns

/// A change of a primary's data, which its replicas repeat.
struct ModelWrite {
  enum Effect {
    case written(partition: Int, ModelPartition.Effect)
    case flushed
  }

  /// Unique for each write, so two logs are the same if their last writes are.
  let id: Int
  let effect: Effect
}

/// A server: its data, its clock, and the replicas that follow it.
final class ModelServer {
  /// A replica that follows this server.
  private final class Follower {
    let server: ModelServer
    /// When the last of the writes under way arrives.
    var lastArrival: Int64 = 0
    var confirmed = 0
    var isCut = false
    /// Since when it has been cut off, and whether it has all data.
    var cutSince: Int64 = 0
    var isOnline = false

    init(_ server: ModelServer) { self.server = server }
  }

  private struct Waiter {
    let id: Int
    let count: Int
    let written: Int
    let done: (_ replicas: Int) -> Void
  }

  let name: String
  private let world: FleetWorld
  /// How far its clock is ahead of the true time, in microseconds.
  var clockError: Int64 = 0
  private(set) var partitions: [Int: ModelPartition] = [:]
  private(set) var log: [ModelWrite] = []
  private(set) var isUp = true
  /// Whether it answers as a primary.
  private(set) var isServing = false
  /// The time until which the server is stopped.
  private(set) var stoppedUntil: Int64 = 0
  private var followers: [Follower] = []
  /// When replicas were detached that had all data.
  private var detached: [(server: ModelServer, at: Int64)] = []
  private var waiters: [Waiter] = []
  private var lastWaiter = 0
  /// How many entries of the log enough replicas have confirmed.
  fileprivate(set) var lastConfirmed = 0
  var connections: [ModelConnection] = []

  init(_ name: String, _ world: FleetWorld) {
    self.name = name
    self.world = world
  }

  var clock: Int64 { FleetWorld.clockStart + world.agenda.now + clockError }

  private var empty: ModelPartition {
    ModelPartition(leases: ModelLeases(length: world.settings.leaseLength))
  }

  // MARK: The scripts

  func execute(_ request: FleetRequest, on number: Int) -> (body: FleetAnswer.Body, engine: Int64) {
    let time = clock
    let partition = partitions[number] ?? empty
    let (body, effects) = partition.answer(
      request, at: time, ignoresVersions: world.settings.ignoresVersions)
    for effect in effects { write(.written(partition: number, effect)) }
    switch (request, body) {
    case (.open(let opening), .opened(_, _, _, _, _, let leases)):
      if let host = opening.lease, !leases.over.contains(host) {
        world.journal.noteRenewal(of: host, in: number)
      }
    case (.change(let key, let change), .changed(let entry, _)):
      if let host = change.lease { world.journal.noteRenewal(of: host, in: number) }
      world.journal.note(
        Execution(
          key: key, partition: number, number: entry, write: log.last!.id,
          at: world.agenda.now, clock: time, before: partition.records[key], change: change),
        on: self)
    default: break
    }
    return (body, time)
  }

  /// Begins partitions, as an administrator does for a new fleet.
  func begin(_ numbers: [Int]) {
    for number in numbers {
      write(.written(partition: number, .opened(ModelEpoch(begunAt: clock))))
    }
  }

  func flushAll() { write(.flushed) }

  private func write(_ effect: ModelWrite.Effect) {
    world.lastWrite += 1
    apply(ModelWrite(id: world.lastWrite, effect: effect))
    for connection in connections { connection.pumpStreams() }
    for follower in followers { ship(to: follower) }
  }

  private func apply(_ write: ModelWrite) {
    log.append(write)
    guard case .written(let number, let effect) = write.effect else {
      partitions = [:]
      if isServing { world.journal.begin(self) }
      return
    }
    // Moved out of the table meanwhile, so that nothing is copied.
    var partition = partitions.removeValue(forKey: number) ?? empty
    partition.apply(effect)
    let excess = partition.stream.count - world.settings.streamLength
    if excess > 0 { partition.stream.removeFirst(excess) }
    partitions[number] = partition
    if isServing, case .changed(let entry) = effect {
      world.journal.observe(self, entry.key, in: number, partition.records[entry.key])
    }
  }

  /// Begins or stops to answer as a primary.
  func serve(_ isServing: Bool) {
    self.isServing = isServing
    if isServing { world.journal.begin(self) } else { world.journal.end(self) }
  }

  // MARK: Replication

  func attach(_ replica: ModelServer) {
    guard !followers.contains(where: { $0.server === replica }) else { return }
    let follower = Follower(replica)
    // The data of a replica is replaced if its log is not the beginning of this one.
    let count = replica.log.count
    if count > log.count || count > 0 && replica.log[count - 1].id != log[count - 1].id {
      replica.log = []
      replica.partitions = [:]
    }
    followers.append(follower)
    ship(to: follower)
  }

  func detach(_ replica: ModelServer) {
    for follower in followers where follower.server === replica && follower.isOnline {
      detached.append((replica, world.agenda.now))
    }
    followers.removeAll { $0.server === replica }
  }

  /// Detaches all replicas but one.
  func detachAll(but kept: ModelServer?) {
    for follower in followers where follower.server !== kept { detach(follower.server) }
  }

  func hasAttached(_ replica: ModelServer) -> Bool {
    followers.contains { $0.server === replica }
  }

  /// Whether a replica with all data follows this server, or did within that time.
  func hasHad(_ replica: ModelServer, within time: Int64) -> Bool {
    followers.contains { $0.server === replica && $0.isOnline }
      || detached.contains { $0.server === replica && $0.at >= world.agenda.now - time }
  }

  /// Continues the absence of replicas that the server before this one had.
  func inherit(_ old: ModelServer) {
    detached = old.detached.filter { $0.server !== self }
  }

  var node: FleetSettings.Node { FleetSettings.Node(host: name, port: 6_379) }

  /// Its answer to `INFO replication`.
  var report: ReplicaSet.Report {
    var replicas: [FleetSettings.Node: ReplicaSet.Replica] = [:]
    for follower in followers {
      replicas[follower.server.node] = ReplicaSet.Replica(
        offset: Int64(follower.confirmed),
        silence: follower.isCut ? world.agenda.now - follower.cutSince : 0,
        isOnline: follower.isOnline)
    }
    return ReplicaSet.Report(offset: Int64(log.count), replicas: replicas)
  }

  /// Cuts or restores the replication to all replicas.
  func cutReplication(_ isCut: Bool) {
    for follower in followers {
      if isCut, !follower.isCut { follower.cutSince = world.agenda.now }
      follower.isCut = isCut
      if !isCut { ship(to: follower) }
    }
  }

  private func ship(to follower: Follower) {
    guard !follower.isCut else { return }
    let count = log.count
    let arrival = max(follower.lastArrival, world.agenda.now + world.replicationDelay())
    follower.lastArrival = arrival
    world.agenda.at(arrival) { [self] in take(count, follower) }
  }

  private func take(_ count: Int, _ follower: Follower) {
    let replica = follower.server
    guard followers.contains(where: { $0 === follower }), !follower.isCut, isUp, replica.isUp else {
      return
    }
    guard replica.stoppedUntil <= world.agenda.now else {
      world.agenda.at(replica.stoppedUntil) { [self] in take(count, follower) }
      return
    }
    while replica.log.count < count { replica.apply(log[replica.log.count]) }
    follower.isOnline = true
    world.agenda.after(world.replicationDelay()) { [self] in
      follower.confirmed = max(follower.confirmed, count)
      guard followers.contains(where: { $0 === follower }), isUp else { return }
      awaken()
    }
  }

  /// Calls back once `count` replicas have all current writes, or after 100 ms.
  func wait(for count: Int, _ done: @escaping (_ replicas: Int) -> Void) {
    lastWaiter += 1
    let id = lastWaiter
    waiters.append(Waiter(id: id, count: count, written: log.count, done: done))
    awaken()
    world.agenda.after(100_000) { [self] in
      whenRunning { [self] in
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        finish(waiters.remove(at: index))
      }
    }
  }

  private func confirmations(of count: Int) -> Int { followers.count { $0.confirmed >= count } }

  private func awaken() {
    whenRunning { [self] in
      let met = waiters.filter { confirmations(of: $0.written) >= $0.count }
      waiters.removeAll { waiter in met.contains { $0.id == waiter.id } }
      for waiter in met { finish(waiter) }
    }
  }

  private func finish(_ waiter: Waiter) {
    let replicas = confirmations(of: waiter.written)
    if replicas >= waiter.count { lastConfirmed = max(lastConfirmed, waiter.written) }
    waiter.done(replicas)
  }

  // MARK: Trouble

  /// Calls `body` now, or once the server is no longer stopped; not if it has ended.
  func whenRunning(_ body: @escaping () -> Void) {
    if stoppedUntil <= world.agenda.now {
      if isUp { body() }
    } else {
      world.agenda.at(stoppedUntil) { [self] in whenRunning(body) }
    }
  }

  func stop(for interval: Int64) { stoppedUntil = world.agenda.now + interval }

  /// Ends the server without warning; its data stay.
  func crash() {
    isUp = false
    if isServing { serve(false) }
    waiters = []
    stoppedUntil = 0
    closeConnections()
  }

  func start(serving: Bool) {
    isUp = true
    if serving { serve(true) }
  }

  func closeConnections() {
    for connection in connections { connection.end() }
  }
}

/// A primary and its replicas.
final class ModelShard {
  let servers: [ModelServer]
  private(set) var primary: ModelServer
  /// Former primaries that still answer connections from before.
  private(set) var former: [ModelServer] = []

  init(_ servers: [ModelServer]) {
    self.servers = servers
    primary = servers[0]
    primary.serve(true)
    for replica in servers.dropFirst() { primary.attach(replica) }
  }

  func isFormer(_ server: ModelServer) -> Bool { former.contains { $0 === server } }

  /// Promotes a replica. The old primary continues as one until `demote`, perhaps with a replica.
  func promote(_ replica: ModelServer, keeping kept: ModelServer?) {
    let old = primary
    old.detachAll(but: kept)
    replica.inherit(old)
    former.append(old)
    primary = replica
    replica.lastConfirmed = old.lastConfirmed
    replica.serve(true)
    for server in servers where server !== replica && server !== kept && !isFormer(server) {
      replica.attach(server)
    }
  }

  /// Turns the former primaries that run into replicas.
  func demote() {
    for old in former where old.isUp {
      former.removeAll { $0 === old }
      if old.isServing { old.serve(false) }
      for server in servers where old.hasAttached(server) {
        old.detach(server)
        if server !== primary { primary.attach(server) }
      }
      old.closeConnections()
      primary.attach(old)
    }
  }
}
