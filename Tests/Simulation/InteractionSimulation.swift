import Countdowns
import SeededRandom

/// One seeded random history of scopes, stacks and pages: they are opened, pushed and closed in any
/// order, leases end, connections are closed, time passes unnoticed and budgets run out.
package struct InteractionSimulation: ~Copyable {
  private let seed: UInt64
  private let limits: EngineSettings.Limits
  var random: SeededGenerator
  let engine: Engine
  var model = InteractionModel()
  var events = InteractionEvents()
  var now = Moment(
    boot: Instant(microseconds: 5_000_000), wall: Instant(microseconds: 1_790_000_000_000_000))
  /// The handlers that must receive the event that was just emitted.
  var expectedEmissions: [(scope: String, connection: UInt64)] = []
  /// The user of the last command.
  private(set) var user = InteractionSimulation.users[0]
  private var nextConnection: UInt64 = 2
  private var step = 0
  private var recent: [String] = []

  static let watcher: UInt64 = 1
  private static let users: [UInt32] = [1_000, 1_001]

  package init(seed: UInt64) {
    self.seed = seed
    random = SeededGenerator(seed: seed)
    var settings = EngineSettings()
    settings.presentation = Presentation.Request(fadeIn: .zero, fadeOut: .zero)
    settings.limits.scopeDepth = 6
    settings.limits.stackPages = 4
    if seed % 3 > 0 {
      settings.limits.entities = Int.random(in: 1...30, using: &random)
      settings.limits.entitiesPerUser = Int.random(in: 1...30, using: &random)
    }
    limits = settings.limits
    engine = Engine(settings: settings, at: now)
    engine.observer = SentEvents()
    model.now = now.boot.microseconds
    connect(Self.watcher)
    for pattern in ["scope:*", "timer:*", "once:*", "gate:*", "debounce:*", "nav:*", "page:*"] {
      _ = engine.subscribe(client(Self.watcher), toPattern: Array(pattern.utf8))
    }
    while !engine.connectionsAwaitingSnapshots.isEmpty {
      engine.continueSnapshots(to: Self.watcher, budget: 100, at: now)
    }
  }

  package mutating func play(steps: Int) throws(Disagreement) {
    do {
      for number in 0..<steps {
        step = number
        try takeStep()
      }
      for connection in model.connections where connection != Self.watcher { vanish(connection) }
      move(.seconds(100_000))
      try finish()
      try end()
    } catch {
      let lines = [error.description, "the last of what was done:"] + recent.suffix(25)
      throw Disagreement(
        description: "interactions, seed \(seed), step \(step), at \(now.text): "
          + lines.joined(separator: "\n  "))
    }
  }

  private mutating func takeStep() throws(Disagreement) {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<20: try pass()
    case 20..<23: if model.connections.count < 5 { connect(nextConnection) }
    case 23..<25:
      let others = model.connections.subtracting([Self.watcher])
      if let connection = others.sorted().randomElement(using: &random) { vanish(connection) }
    case 25..<57: try playScopes()
    case 57..<60: try playMessages()
    case 60..<80: try playStacks()
    default: try playPages()
    }
  }

  /// Closes everything that is still open; nothing may be left.
  private mutating func end() throws(Disagreement) {
    for name in model.contents.keys.sorted() {
      try closePage(name)
    }
    for name in model.scopes.keys.sorted() where model.scopes[name] != nil {
      try close(name)
    }
    try finish()
    let ofUsers = Self.users.reduce(0) { $0 + engine.entityCount(of: $1) }
    guard engine.entityCount == 0, engine.armedCount == 0, ofUsers == 0 else {
      throw Disagreement(
        description: "left over in the end: \(engine.entityCount) entities, \(ofUsers) of "
          + "users, \(engine.armedCount) timers")
    }
  }

  // MARK: Time and connections

  private mutating func pass() throws(Disagreement) {
    let length: Interval = pick([
      .zero, .milliseconds(1), .milliseconds(300), .milliseconds(1_000), .milliseconds(4_000),
      .seconds(60),
    ])
    if chance(oneIn: 6) { try suspend(length) } else { move(length) }
    switch Int.random(in: 0..<4, using: &random) {
    case 0, 1: try finish()
    case 2:
      try observe("a slice") { this in
        _ = this.engine.advance(
          to: this.now, budget: Int.random(in: 1...6, using: &this.random))
      }
    default: break
    }
  }

  private mutating func move(_ interval: Interval) {
    now.boot = now.boot + interval
    now.wall = now.wall + interval
    model.now = now.boot.microseconds
  }

  private mutating func suspend(_ length: Interval) throws(Disagreement) {
    try finish()
    note("a suspend of \(length.microseconds / 1_000) ms")
    let start = now.boot
    move(length)
    engine.noteSuspension(from: start, until: now.boot)
    model.prolongLeases(from: start.microseconds)
  }

  private mutating func connect(_ connection: UInt64) {
    engine.connect(connection)
    model.connections.insert(connection)
    nextConnection = max(nextConnection, connection + 1)
  }

  private mutating func vanish(_ connection: UInt64) {
    note("connection \(connection) vanishes")
    engine.disconnect(connection)
    model.connections.remove(connection)
  }

  /// Processes all that is due, in slices, and compares everything with the model.
  private mutating func finish() throws(Disagreement) {
    let budget = pick([1, 3, 50])
    try observe("all that is due") { this in
      while !this.engine.advance(to: this.now, budget: budget) {}
    }
    if let problem = events.problem(whenFinished: model) {
      throw Disagreement(description: problem)
    }
    try compareBoundHUDs()
    guard engine.entityCount == model.entityCount, engine.armedCount == model.armedCount else {
      throw Disagreement(
        description:
          "the engine has \(engine.entityCount) entities and \(engine.armedCount) timers,"
          + " the model \(model.entityCount) and \(model.armedCount)")
    }
    try compareAll()
  }

  /// Runs `body`, and checks the events that it causes.
  mutating func observe(
    _ what: String, _ body: (inout InteractionSimulation) throws(Disagreement) -> Void
  ) throws(Disagreement) {
    note(what)
    model.settle()
    let before = model.openGenerations
    try body(&self)
    model.settle()
    let after = model.openGenerations
    for event in engine.takeOutbox() {
      if let problem = events.problem(event, openBefore: before, openAfter: after) {
        throw Disagreement(description: problem)
      }
    }
  }

  private mutating func note(_ what: String) {
    if recent.count > 60 { recent.removeFirst(30) }
    recent.append("step \(step), at \(now.text): \(what)")
  }

  // MARK: Chance

  mutating func pick<T>(_ choices: [T]) -> T { choices.randomElement(using: &random)! }
  mutating func chance(oneIn n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }

  func client(_ connection: UInt64) -> Client { Client(connection: connection, uid: user) }

  /// Asks the engine as a random user; returns errors as values.
  mutating func ask<R>(
    _ body: (Engine, Moment, Client) throws(EngineError) -> R
  ) -> Result<R, EngineError> {
    user = pick(Self.users)
    do throws(EngineError) {
      return .success(try body(engine, now, client(Self.watcher)))
    } catch {
      return .failure(error)
    }
  }

  var isLimited: Bool { limits.entities < EngineSettings.Limits().entities }

  /// Returns whether a command was rightly refused because `added` more entities exceed a limit.
  /// The engine also counts entities that are over and not cleaned up yet.
  mutating func isFull<R>(_ asked: Result<R, EngineError>, adding added: Int) -> Bool {
    switch asked {
    case .failure(.limit("max-entities", limits.entities)):
      engine.entityCount + added > limits.entities
    case .failure(.limit("max-entities-per-uid", limits.entitiesPerUser)):
      engine.entityCount(of: user) + added > limits.entitiesPerUser
    case .failure, .success: false
    }
  }

  /// Throws if the engine and the model differ.
  func compare<T: Equatable>(_ what: String, _ engine: T, _ model: T) throws(Disagreement) {
    guard engine != model else { return }
    throw Disagreement(
      description: "\(what)\n  the engine: \(engine)\n  the model:  \(model)")
  }
}

extension String {
  func withKey<R>(_ body: (Span<UInt8>) -> R) -> R {
    body(utf8.span)
  }
}
