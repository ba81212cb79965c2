import Countdowns

/// Gates, naively.
package struct GateModel: Model {
  package enum Command {
    case check(GateCheck)
    case open(Interval?)
    case cancel(Generation?)
    case close(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: GateView.State
    var generation: Generation
    var action: [UInt8]?
    var payload: [UInt8]?
    var remainingMS: Int64?
    var deadlineUnixMS: Int64?
    var owner: Owner
  }

  /// What waits; nil while it is open.
  private typealias Ledger = GuardLedger<Gate.Action?>

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
    switch Int.random(in: 0..<12, using: &world.random) {
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
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .check(let check):
      let (isAccepted, view) = try engine.checkGate(key, check, by: client, at: now)
      return .told(isFirst: isAccepted, Facts(view))
    case .open(let ttl):
      return .facts(Facts(try engine.openGate(key, for: ttl, by: client, at: now)))
    case .cancel(let generation):
      return .flag(try engine.cancelGate(key, generation: generation, at: now))
    case .close(let generation):
      return .flag(try engine.closeGate(key, generation: generation, at: now))
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
        return .told(isFirst: true, found.map { facts($0, world) } ?? Self.closed)
      }
      if let found {
        if found.state == nil { return .told(isFirst: true, facts(found, world)) }
        say(.dismissed, found, reason: .replaced)
      }
      let entry = Ledger.Entry(
        key: key, generation: world.newGeneration(), owner: check.owner,
        deadline: now + check.ttl.microseconds, state: check.action)
      ledger.put(entry)
      say(.pending, entry)
      return .told(isFirst: false, facts(entry, world))
    case .open(let ttl):
      let entry = Ledger.Entry(
        key: key, generation: world.newGeneration(), owner: .none,
        deadline: ttl.map { now + $0.microseconds }, state: nil)
      ledger.put(entry)
      say(.opened, entry)
      if let found, found.state != nil { say(.run, found) }
      return .facts(facts(entry, world))
    case .cancel(let generation):
      guard let found, found.state != nil else { return .flag(false) }
      try ledger.check(generation, found)
      ledger.remove(key)
      say(.dismissed, found, reason: .cancelled)
      return .flag(true)
    case .close(let generation):
      guard let found, found.state == nil else { return .flag(false) }
      try ledger.check(generation, found)
      ledger.remove(key)
      say(.closed, found)
      return .flag(true)
    case .get:
      return found.map { .facts(facts($0, world)) } ?? .nothing
    }
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard let entry = ledger[key] else { return }
    if !world.isThere(entry.owner) {
      ledger.remove(key)
      say(.dismissed, entry, reason: .ownerGone)
    } else if let deadline = entry.deadline, deadline <= world.now.boot.microseconds {
      ledger.remove(key)
      say(entry.state == nil ? .closed : .dismissed, entry, due: deadline, reason: .expired)
    }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    ledger.deadline(key)
  }

  package var order: [Int] { ledger.entries.map(\.key) }

  // MARK: What is so

  private static let closed = Facts(
    state: .closed, generation: Generation(0), action: nil, payload: nil, remainingMS: nil,
    deadlineUnixMS: nil, owner: .none)

  package func exists(_ key: Int) -> Bool { ledger[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    ledger[key].map { [facts($0, world)] } ?? []
  }

  private func facts(_ entry: Ledger.Entry, _ world: World) -> Facts {
    let left = entry.deadline.map { Ledger.left($0, world) }
    return Facts(
      state: entry.state == nil ? .open : .pending, generation: entry.generation,
      action: entry.state?.name, payload: entry.state?.payload, remainingMS: left?.ms,
      deadlineUnixMS: left?.unixMS, owner: entry.owner)
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? GateView).map { Facts($0) }
  }

  package static func detail(_ event: Event) -> String? {
    guard let view = event.subject as? GateView else { return nil }
    return text(view.action, view.payload)
  }

  private static func text(_ action: [UInt8]?, _ payload: [UInt8]?) -> String {
    "\(action ?? []) \(payload.map { "\($0)" } ?? "none")"
  }

  private mutating func say(
    _ name: Event.Name, _ entry: Ledger.Entry, due: Int64? = nil, reason: Event.Reason? = nil
  ) {
    said.append(
      Said(
        name, entry.generation, due: due, reason: reason,
        detail: Self.text(entry.state?.name, entry.state?.payload)))
  }
}

extension GateModel.Facts {
  init(_ view: GateView) {
    self.init(
      state: view.state, generation: view.generation, action: view.action, payload: view.payload,
      remainingMS: view.remainingMS, deadlineUnixMS: view.deadlineUnixMS, owner: view.owner)
  }
}
