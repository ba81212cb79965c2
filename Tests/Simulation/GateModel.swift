import Countdowns

/// A naive model of gates.
package struct GateModel: Model {
  package enum Command {
    case check(GateCheck)
    case open(Interval?)
    case cancel(Generation?)
    case close(Generation?)
    case take(UInt64, Generation?)
    case done(UInt64, Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: GateView.State
    var generation: Generation
    var action: [UInt8]?
    var payload: [UInt8]?
    var isTaken: Bool
    var remainingMS: Int64?
    var deadlineUnixMS: Int64?
    var owner: Owner
  }

  private struct State {
    /// The action that waits, or is to run.
    var action: Gate.Action?
    var isOpen: Bool
    /// The end of the session, in microseconds; nil if it has none.
    var sessionEnd: Int64?
    var actionEnd: Int64?
    var taker: UInt64?

    var deadline: Int64? {
      guard isOpen else { return actionEnd }
      let waits = action != nil && taker == nil
      return [sessionEnd, waits ? actionEnd : nil].compactMap(\.self).min()
    }
  }

  private typealias Ledger = GuardLedger<State>

  package static let kind = EntityKind.gate
  package static let keyPrefix: Unicode.Scalar = "g"
  package static let ending = [Command.cancel(nil), Command.close(nil)]

  private var ledger = Ledger()
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {}

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = ledger[key]?.generation
    let lengths: [Int64] = [1, 10, 1_000, 60_000, 3_600_000]
    switch Int.random(in: 0..<16, using: &world.random) {
    case 0..<5:
      var check = GateCheck(
        Gate.Action(name: world.pick([[1], [2, 0]]), payload: world.pick([nil, [], [9]])),
        ttl: world.milliseconds(lengths))
      check.isRequired = !world.chance(oneIn: 5)
      check.owner = world.owner()
      return .check(check)
    case 5, 6: return .open(world.chance(oneIn: 3) ? nil : world.milliseconds(lengths))
    case 7, 8: return .cancel(world.generation(near: current))
    case 9: return .close(world.generation(near: current))
    case 10...12:
      return .take(Self.connection(&world), world.generation(near: current))
    case 13:
      let taker = ledger[key]?.state.taker
      return .done(
        taker.flatMap { world.chance(oneIn: 2) ? $0 : nil } ?? Self.connection(&world),
        world.generation(near: current))
    default: return .get
    }
  }

  private static func connection(_ world: inout World) -> UInt64 {
    world.pick(world.connections + [World.operator.connection])
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .check(let check):
      let (isAccepted, view) = try engine.checkGate(key, check, by: client, at: now)
      return .reported(isFirst: isAccepted, Facts(view))
    case .open(let ttl):
      return .facts(Facts(try engine.openGate(key, for: ttl, by: client, at: now)))
    case .cancel(let generation):
      return .flag(try engine.cancelGate(key, generation: generation, at: now))
    case .close(let generation):
      return .flag(try engine.closeGate(key, generation: generation, at: now))
    case .take(let connection, let generation):
      let taker = Client(connection: connection, uid: client.uid)
      let (refusal, view) = try engine.takeGate(key, generation: generation, by: taker, at: now)
      return .taken(refusal, Facts(view))
    case .done(let connection, let generation):
      let taker = Client(connection: connection, uid: client.uid)
      return .flag(try engine.finishGate(key, generation: generation, by: taker, at: now))
    case .get:
      return engine.gate(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    let found = ledger[key]
    switch command {
    case .check(let check):
      guard check.isRequired else {
        return .reported(isFirst: true, found.map { facts($0, world) } ?? Self.closed)
      }
      if let found {
        if found.state.isOpen { return .reported(isFirst: true, facts(found, world)) }
        say(.dismissed, found, reason: .replaced)
      }
      let state = State(
        action: check.action, isOpen: false, actionEnd: now + check.ttl.microseconds)
      let entry = put(key, world.newGeneration(), check.owner, state)
      say(.pending, entry)
      return .reported(isFirst: false, facts(entry, world))
    case .open(let ttl):
      var state = found?.state ?? State(isOpen: true)
      state.isOpen = true
      state.sessionEnd = ttl.map { now + $0.microseconds }
      let generation = state.action == nil ? world.newGeneration() : found!.generation
      let entry = put(key, generation, .none, state)
      say(.opened, entry)
      if found?.state.isOpen == false { say(.run, entry) }
      return .facts(facts(entry, world))
    case .cancel(let generation):
      guard let found, !found.state.isOpen else { return .flag(false) }
      try ledger.check(generation, found)
      ledger.remove(key)
      say(.dismissed, found, reason: .cancelled)
      return .flag(true)
    case .close(let generation):
      guard let found, found.state.isOpen else { return .flag(false) }
      try ledger.check(generation, found)
      close(found)
      return .flag(true)
    case .take(let connection, let generation):
      guard let found else { return .taken(.noAction, Self.closed) }
      try ledger.check(generation, found)
      guard found.state.isOpen else { return .taken(.login, facts(found, world)) }
      guard found.state.action != nil else { return .taken(.noAction, facts(found, world)) }
      if let taker = found.state.taker {
        return .taken(taker == connection ? nil : .taken, facts(found, world))
      }
      var state = found.state
      state.taker = connection
      let entry = put(key, found.generation, .none, state)
      say(.taken, entry)
      return .taken(nil, facts(entry, world))
    case .done(let connection, let generation):
      guard let found, found.state.isOpen, found.state.action != nil else { return .flag(false) }
      try ledger.check(generation, found)
      guard [nil, connection].contains(found.state.taker) else { return .flag(false) }
      say(.done, found)
      drop(found)
      return .flag(true)
    case .get:
      return found.map { .facts(facts($0, world)) } ?? .nothing
    }
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    let now = world.now.boot.microseconds
    guard let entry = ledger[key] else { return }
    if !world.isAlive(entry.owner) {
      ledger.remove(key)
      say(.dismissed, entry, reason: .ownerGone)
    } else if let taker = entry.state.taker, !world.isAlive(.connection(taker)) {
      var state = entry.state
      state.taker = nil
      let free = put(key, entry.generation, .none, state)
      if state.actionEnd! <= now {
        say(.dismissed, free, reason: .expired)
        drop(free)
      } else if state.sessionEnd ?? .max > now {
        say(.run, free)
      }
    }
    guard let entry = ledger[key], let deadline = entry.deadline, deadline <= now else { return }
    if !entry.state.isOpen {
      ledger.remove(key)
      say(.dismissed, entry, due: deadline, reason: .expired)
    } else if entry.state.action != nil, entry.state.taker == nil, entry.state.actionEnd == deadline
    {
      say(.dismissed, entry, due: deadline, reason: .expired)
      drop(entry)
      settle(key, world)
    } else {
      close(entry, due: deadline)
    }
  }

  private mutating func put(
    _ key: Int, _ generation: Generation, _ owner: Owner, _ state: State
  ) -> Ledger.Entry {
    let entry = Ledger.Entry(
      key: key, generation: generation, owner: owner, deadline: state.deadline, state: state)
    ledger.put(entry)
    return entry
  }

  /// Removes the action; the session continues.
  private mutating func drop(_ entry: Ledger.Entry) {
    let state = State(isOpen: true, sessionEnd: entry.state.sessionEnd)
    _ = put(entry.key, entry.generation, .none, state)
  }

  private mutating func close(_ entry: Ledger.Entry, due: Int64? = nil) {
    if entry.state.action != nil, entry.state.taker == nil {
      say(.dismissed, entry, due: due, reason: .closed)
    }
    ledger.remove(entry.key)
    var closed = entry
    closed.state.action = nil
    say(.closed, closed, due: due, reason: due == nil ? nil : .expired)
  }

  /// Returns whether a closed connection has taken an action: when that is noticed matters.
  package func isTouchy(_ world: World) -> Bool {
    ledger.entries.contains { entry in
      entry.state.taker.map { !world.isAlive(.connection($0)) } ?? false
    }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    ledger.deadline(key)
  }

  package var order: [Int] { ledger.entries.map(\.key) }

  // MARK: State

  private static let closed = Facts(
    state: .closed, generation: Generation(0), action: nil, payload: nil, isTaken: false,
    remainingMS: nil, deadlineUnixMS: nil, owner: .none)

  package func exists(_ key: Int) -> Bool { ledger[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    ledger[key].map { [facts($0, world)] } ?? []
  }

  private func facts(_ entry: Ledger.Entry, _ world: World) -> Facts {
    let state = entry.state
    let end = state.isOpen ? state.sessionEnd : state.actionEnd
    let left = end.map { Ledger.left($0, world) }
    return Facts(
      state: state.isOpen ? .open : .pending, generation: entry.generation,
      action: state.action?.name, payload: state.action?.payload, isTaken: state.taker != nil,
      remainingMS: left?.ms, deadlineUnixMS: left?.unixMS, owner: entry.owner)
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? GateView).map { Facts($0) }
  }

  package static func detail(_ event: SentEvent) -> String? {
    guard let view = event.subject as? GateView else { return nil }
    return text(view.action, view.payload)
  }

  private static func text(_ action: [UInt8]?, _ payload: [UInt8]?) -> String {
    "\(action ?? []) \(payload.map { "\($0)" } ?? "none")"
  }

  private mutating func say(
    _ name: Event.Name, _ entry: Ledger.Entry, due: Int64? = nil, reason: Reason? = nil
  ) {
    said.append(
      Said(
        name, entry.generation, due: due, reason: reason,
        detail: Self.text(entry.state.action?.name, entry.state.action?.payload)))
  }
}

extension GateModel.Facts {
  init(_ view: GateView) {
    self.init(
      state: view.state, generation: view.generation, action: view.action, payload: view.payload,
      isTaken: view.isTaken, remainingMS: view.remainingMS, deadlineUnixMS: view.deadlineUnixMS,
      owner: view.owner)
  }
}
