import Countdowns

/// A naive model of ONCE.
package struct OnceModel: Model {
  package enum Command {
    case begin(Interval, Owner)
    case done([UInt8], Generation?)
    case cancel(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var generation: Generation
    var result: [UInt8]?
    var remainingMS: Int64
    var deadlineUnixMS: Int64?
    var owner: Owner
  }

  package static let kind = EntityKind.once
  package static let keyPrefix: Unicode.Scalar = "o"
  package static let ending = [Command.cancel(nil)]

  /// The state is the result.
  private var ledger = GuardLedger<[UInt8]?>()
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {}

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = ledger[key]?.generation
    switch Int.random(in: 0..<10, using: &world.random) {
    case 0..<5: return .begin(world.milliseconds([1, 10, 1_000, 60_000, 3_600_000]), world.owner())
    case 5, 6:
      return .done(world.pick([[], [1], [0, 255]]), world.generation(near: current))
    case 7: return .cancel(world.generation(near: current))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .begin(let ttl, let owner):
      let (isAccepted, view) = try engine.beginOnce(
        key, for: ttl, owner: owner, by: client, at: now)
      return .reported(isFirst: isAccepted, Facts(view))
    case .done(let result, let generation):
      let (isAccepted, view) = try engine.finishOnce(
        key, result, generation: generation, at: now)
      return .reported(isFirst: isAccepted, Facts(view))
    case .cancel(let generation):
      return .flag(try engine.cancelOnce(key, generation: generation, at: now))
    case .get:
      return engine.once(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .begin(let ttl, let owner):
      if let entry = ledger[key] {
        say(.refused, entry, reason: .duplicate)
        return .reported(isFirst: false, facts(entry, world))
      }
      let entry = GuardLedger<[UInt8]?>.Entry(
        key: key, generation: world.newGeneration(), owner: owner,
        deadline: world.now.boot.microseconds + ttl.microseconds, state: nil)
      ledger.put(entry)
      say(.started, entry)
      return .reported(isFirst: true, facts(entry, world))
    case .done(let result, let generation):
      guard var entry = ledger[key] else { throw .notFound }
      try ledger.check(generation, entry)
      guard entry.state == nil else { return .reported(isFirst: false, facts(entry, world)) }
      entry.state = result
      entry.owner = .none
      ledger.put(entry)
      say(.done, entry)
      return .reported(isFirst: true, facts(entry, world))
    case .cancel(let generation):
      guard let entry = ledger[key] else { return .flag(false) }
      try ledger.check(generation, entry)
      end(entry, .cancelled, reason: .cancelled)
      return .flag(true)
    case .get:
      return ledger[key].map { .facts(facts($0, world)) } ?? .nothing
    }
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard let entry = ledger[key] else { return }
    if !world.isAlive(entry.owner) {
      end(entry, .cancelled, reason: .ownerGone)
    } else if let deadline = entry.deadline, deadline <= world.now.boot.microseconds {
      end(entry, .expired, due: deadline)
    }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    ledger.deadline(key)
  }

  package var order: [Int] { ledger.entries.map(\.key) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { ledger[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    ledger[key].map { [facts($0, world)] } ?? []
  }

  private func facts(_ entry: GuardLedger<[UInt8]?>.Entry, _ world: World) -> Facts {
    let left = GuardLedger<[UInt8]?>.left(entry.deadline!, world)
    return Facts(
      generation: entry.generation, result: entry.state, remainingMS: left.ms,
      deadlineUnixMS: left.unixMS, owner: entry.owner)
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? OnceView).map { Facts($0) }
  }

  package static func detail(_ event: SentEvent) -> String? {
    if let view = event.subject as? OnceView { text(view.result) } else { nil }
  }

  private static func text(_ result: [UInt8]?) -> String { result.map { "\($0)" } ?? "none" }

  // MARK: Events

  private mutating func end(
    _ entry: GuardLedger<[UInt8]?>.Entry, _ name: Event.Name, due: Int64? = nil,
    reason: Reason? = nil
  ) {
    ledger.remove(entry.key)
    var idle = entry
    idle.state = nil
    say(name, idle, due: due, reason: reason)
  }

  private mutating func say(
    _ name: Event.Name, _ entry: GuardLedger<[UInt8]?>.Entry, due: Int64? = nil,
    reason: Reason? = nil
  ) {
    said.append(
      Said(name, entry.generation, due: due, reason: reason, detail: Self.text(entry.state)))
  }
}

extension OnceModel.Facts {
  init(_ view: OnceView) {
    self.init(
      generation: view.generation, result: view.result, remainingMS: view.remainingMS,
      deadlineUnixMS: view.deadlineUnixMS, owner: view.owner)
  }
}
