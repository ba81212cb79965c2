import Countdowns

/// One seeded random history of the whole engine: commands on many keys, time in small and huge
/// steps, budgets that run out, clocks that are set and connections that vanish; all of it against
/// naive models.
package struct Simulation: ~Copyable {
  private let seed: UInt64
  private var world: World
  private let engine: Engine
  private let players: [any Playing]
  private var settings: EngineSettings
  private var nextConnection: UInt64 = 100
  /// Whether entities of closed connections or scopes may not be cleaned up yet.
  private var isClearingUp = false
  private var channels: [(player: Int, key: Int, connection: UInt64)] = []
  private var patterns: [(player: Int, connection: UInt64)] = []

  package init(seed: UInt64) {
    self.seed = seed
    world = World(seed: seed)
    world.repeatsOnWall = seed % 3 != 1
    let keyCount = [1, 4, 12, 40][Int(seed % 4)]
    var settings = EngineSettings()
    CountdownModel.configure(&settings)
    HUDModel.configure(&settings)
    TimerModel.configure(&settings)
    settings.hudReorder = .milliseconds([0, 1, 60, 2_000][Int(seed / 2 % 4)])
    players = [
      Player<CountdownModel>(keyCount: keyCount, settings),
      Player<PolicyModel>(keyCount: keyCount, settings),
      Player<HUDModel>(keyCount: keyCount, settings),
      Player<TimerModel>(keyCount: keyCount, settings),
      Player<ThrottleModel>(keyCount: keyCount, settings),
      Player<OnceModel>(keyCount: keyCount, settings),
      Player<GateModel>(keyCount: keyCount, settings),
      Player<DebounceModel>(keyCount: keyCount, settings),
    ]
    if seed % 3 > 0 { world.limit(&settings.limits, keyCount: keyCount * players.count) }
    self.settings = settings
    engine = Engine(settings: settings, at: world.now)
    engine.observer = SentEvents()
    engine.connect(World.operator.connection)
  }

  package mutating func play(steps: Int) throws(Disagreement) {
    do {
      for _ in 0..<steps {
        world.step += 1
        try step()
      }
      try end()
    } catch {
      throw Disagreement(description: "seed \(seed), \(error)")
    }
  }

  private mutating func step() throws(Disagreement) {
    switch Int.random(in: 0..<100, using: &world.random) {
    case 0..<28: try pass()
    case 28..<82: try player().play(engine, &world)
    case 82..<85: try openScope()
    case 85: try closeScope()
    case 86..<89: connect()
    case 89..<91: try vanish()
    case 91..<94: try listen()
    case 94..<96: try unlisten()
    case 96: if world.chance(oneIn: 2) { try setWallClock() } else { setLimits() }
    default:
      // A listing processes what is due for its entities, so everything due is processed first.
      try finish()
      try player().playListing(engine, &world)
    }
    try hear()
  }

  private mutating func player() -> any Playing { world.pick(players) }

  /// Ends everything, and checks that nothing is left.
  private mutating func end() throws(Disagreement) {
    for connection in world.connections { try vanish(connection) }
    while let scope = world.scopes.last { try closeScope(scope.name) }
    try finish()
    for _ in 0..<8 where players.contains(where: { $0.entityCount > 0 }) {
      for player in players { try player.playEnding(engine, &world) }
      try hear()
      move(.seconds(20_000))
      try finish()
    }
    let left = players.map(\.entityCount)
    let ofUsers = World.users.reduce(0) { $0 + engine.entityCount(of: $1) }
    guard left.allSatisfy({ $0 == 0 }), engine.entityCount == 0, engine.armedCount == 0,
      ofUsers == 0,
      engine.channelCount == 0, engine.patternCount == 0
    else {
      throw Disagreement(
        description:
          "left over in the end: \(engine.entityCount) entities (models: \(left)), \(ofUsers) of users, "
          + "\(engine.armedCount) timers, \(engine.channelCount) channels, "
          + "\(engine.patternCount) patterns")
    }
  }

  // MARK: Time

  private mutating func pass() throws(Disagreement) {
    if isClearingUp, players.contains(where: { $0.isTouchy(world) }) { try finish() }
    switch Int.random(in: 0..<10, using: &world.random) {
    case 9: try suspend()
    case 0: move(Interval(microseconds: 1))
    case 1: move(.milliseconds(1))
    case 7: moveToDeadline()
    case 2...4: move(Interval(microseconds: Int64.random(in: 0...200_000, using: &world.random)))
    case 5, 6: move(Interval(microseconds: Int64.random(in: 0...4_000_000, using: &world.random)))
    default:
      move(world.chance(oneIn: 4) ? .seconds(8 * 3_600) : .seconds(60))
    }
    // A lease may be over now.
    if isClearingUp, players.contains(where: { $0.isTouchy(world) }) { return try finish() }
    switch Int.random(in: 0..<4, using: &world.random) {
    case 0, 1: try finish()
    case 2: try advanceABit()
    default: break
    }
  }

  private mutating func move(_ interval: Interval) {
    world.now.boot = world.now.boot + interval
    world.now.wall = world.now.wall + interval
    // Some leases may have ended.
    if world.endScopes() { isClearingUp = true }
    if interval > .seconds(10) { world.note("\(interval.microseconds / 1_000_000) s pass") }
  }

  /// Moves to the moment at which the engine must wake, or a microsecond to either side.
  private mutating func moveToDeadline() {
    guard let deadline = engine.nextDeadline.boot else { return }
    let offset = Interval(microseconds: world.pick([-1, 0, 1]))
    move(max(deadline + offset - world.now.boot, .zero))
  }

  /// The machine sleeps; whoever renews leases, too.
  private mutating func suspend() throws(Disagreement) {
    try finish()
    let start = world.now.boot
    let length: Interval = world.pick([
      .milliseconds(200), .seconds(1), .seconds(30), .seconds(8 * 3_600),
    ])
    world.now.boot = start + length
    world.now.wall = world.now.wall + length
    engine.noteSuspension(from: start, until: world.now.boot)
    world.prolongLeases(from: start)
    if world.endScopes() { isClearingUp = true }
    world.note("a suspend of \(length.microseconds / 1_000) ms")
  }

  /// Sets the wall clock, which wakes the daemon.
  private mutating func setWallClock() throws(Disagreement) {
    // Only in some histories is the order of what is due together unknown afterwards.
    var steps: [Int64] = [1, 1_500, 3_600_000]
    if seed % 3 > 0 { steps += [-86_400_000, -3_600_000, -1_500, -1] }
    let step = world.pick(steps)
    if isClearingUp { try finish() }
    world.now.wall = world.now.wall + .milliseconds(step)
    if step < 0, world.repeatsOnWall { world.isOrderUnknown = true }
    world.note("the wall clock is set by \(step) ms")
    try finish()
  }

  /// Sets new limits; entities beyond them stay.
  private mutating func setLimits() {
    guard settings.limits != EngineSettings.Limits() else { return }
    world.limit(&settings.limits, keyCount: players.reduce(0) { $0 + $1.keyCount })
    engine.reload(settings, at: world.now)
  }

  /// Processes all that is due, in slices.
  private mutating func finish() throws(Disagreement) {
    let budget = world.pick([1, 3, 50])
    while !engine.advance(to: world.now, budget: budget) { try hear() }
    try finished()
  }

  private mutating func finished() throws(Disagreement) {
    isClearingUp = false
    try hear()
    for player in players { player.settle(before: Bounds(), world) }
    for player in players { try player.checkAll(world) }
    let entities = players.reduce(world.scopes.count) { $0 + $1.entityCount }
    let leases = world.scopes.count { $0.leaseEnd != nil }
    let armed = players.reduce(leases) { $0 + $1.armedCount }
    guard engine.entityCount == entities, engine.armedCount == armed else {
      throw Disagreement(
        description: "step \(world.step), at \(world.now.text): the engine has "
          + "\(engine.entityCount) entities and \(engine.armedCount) timers, the models "
          + "\(entities) and \(armed)")
    }
  }

  /// Runs one slice. The engine may be behind then; its next deadline shows what it has done.
  private mutating func advanceABit() throws(Disagreement) {
    world.note("a slice")
    var isFinished = engine.advance(
      to: world.now, budget: Int.random(in: 1...12, using: &world.random))
    while !isFinished {
      try hear()
      let next = engine.nextDeadline
      let bounds = Bounds(
        boot: next.boot?.microseconds ?? .max - 1, wall: next.wall?.microseconds ?? .max - 1)
      guard players.contains(where: { $0.isAmbiguous(bounds, world) }) else {
        for player in players { player.settle(before: bounds, world) }
        return
      }
      isFinished = engine.advance(to: world.now, budget: 1)
    }
    try finished()
  }

  private mutating func hear() throws(Disagreement) {
    for event in engine.takeOutbox() {
      guard
        let player = players.first(where: {
          $0.kind == event.kind && $0.owns(event.key)
        })
      else { throw Disagreement(description: "an event of a key that nobody knows") }
      try player.hear(event, world)
    }
  }

  // MARK: Connections

  private mutating func connect() {
    guard world.connections.count < 5 else { return }
    engine.connect(nextConnection)
    world.connections.append(nextConnection)
    nextConnection += 1
  }

  private mutating func vanish() throws(Disagreement) {
    guard let connection = world.connections.randomElement(using: &world.random) else { return }
    try vanish(connection)
  }

  private mutating func vanish(_ connection: UInt64) throws(Disagreement) {
    // Events that were due before come first.
    try finish()
    engine.disconnect(connection)
    isClearingUp = true
    world.connections.removeAll { $0 == connection }
    _ = world.endScopes()
    world.note("connection \(connection) vanishes")
    for channel in channels where channel.connection == connection {
      players[channel.player].unlisten(connection, from: channel.key)
    }
    channels.removeAll { $0.connection == connection }
    for player in players { player.unlisten(connection, from: nil) }
    patterns.removeAll { $0.connection == connection }
  }

  // MARK: Scopes

  /// Opens a scope. Some are owned by a connection or another scope, some have a lease.
  private mutating func openScope() throws(Disagreement) {
    guard world.scopes.count < 6 else { return }
    var opening = ScopeOpening()
    opening.owner = world.owner()
    if world.chance(oneIn: 3) { opening.ttl = world.milliseconds([1, 300, 5_000, 600_000]) }
    let client = world.client()
    // No name is used twice: a scope of the same name may still be closing.
    let name = Array("scope \(world.step)".utf8)
    let asked = Result { () throws(EngineError) in
      _ = try engine.openScope(name.span, opening, by: client, at: world.now)
      return try engine.scopeOwner(name.span, at: world.now)
    }
    if case .failure(let error) = asked, world.isFull(error, for: client, adding: 1, engine) {
      return
    }
    guard case .success(.scope(let owner)) = asked, owner.generation == world.newGeneration()
    else { throw Disagreement(description: "OPEN in step \(world.step): \(asked)") }
    let leaseEnd = opening.ttl.map { world.now.boot.microseconds + $0.microseconds }
    world.open(
      World.Scope(
        name: owner, owner: opening.owner ?? .none, leaseEnd: leaseEnd,
        ttl: opening.ttl?.microseconds ?? 0))
    world.note("scope \(owner.generation.value) is opened")
  }

  private mutating func closeScope() throws(Disagreement) {
    guard !world.scopes.isEmpty else { return }
    try closeScope(world.pick(world.scopes).name)
  }

  private mutating func closeScope(_ scope: OwnerName) throws(Disagreement) {
    // Events that were due before come first.
    try finish()
    let key = scope.key
    let asked = Result { () throws(EngineError) in
      try engine.closeScope(key.span, generation: nil, at: world.now)
    }
    guard asked == .success(true) else {
      throw Disagreement(description: "CLOSE in step \(world.step): \(asked)")
    }
    isClearingUp = true
    _ = world.endScopes(scope)
    world.note("scope \(scope.generation.value) is closed")
  }

  // MARK: Listening

  private mutating func listen() throws(Disagreement) {
    guard let connection = world.connections.randomElement(using: &world.random) else { return }
    let player = Int.random(in: 0..<players.count, using: &world.random)
    guard world.chance(oneIn: 5) else {
      let key = Int.random(in: 0..<players[player].keyCount, using: &world.random)
      try players[player].listen(connection, to: key, engine, world)
      channels.removeAll { $0 == (player, key, connection) }
      channels.append((player, key, connection))
      return
    }
    // A pattern for all keys of a kind: its subscriber receives all snapshots, in portions.
    try finish()
    let kind = players[player].kind
    _ = engine.subscribe(
      Client(connection: connection, uid: 1_000), toPattern: kind.channelPrefix + [0x2A])
    let listening = players.filter { $0.kind == kind }
    for player in listening { try player.listen(connection, to: nil, engine, world) }
    patterns.removeAll { $0 == (player, connection) }
    patterns.append((player, connection))
    while engine.connectionsAwaitingSnapshots.contains(connection) {
      engine.continueSnapshots(to: connection, budget: 7, at: world.now)
    }
    try hear()
    for player in listening { try player.checkSnapshots(nil, world) }
  }

  private mutating func unlisten() throws(Disagreement) {
    try finish()
    if world.chance(oneIn: 4) {
      guard let index = patterns.indices.randomElement(using: &world.random) else { return }
      let (player, connection) = patterns.remove(at: index)
      let kind = players[player].kind
      _ = engine.unsubscribe(connection, fromPattern: kind.channelPrefix + [0x2A])
      for player in players where player.kind == kind { player.unlisten(connection, from: nil) }
    } else {
      guard let index = channels.indices.randomElement(using: &world.random) else { return }
      let (player, key, connection) = channels.remove(at: index)
      _ = engine.unsubscribe(connection, from: players[player].channel(key))
      players[player].unlisten(connection, from: key)
    }
  }
}
