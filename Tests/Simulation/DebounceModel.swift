import Countdowns

/// A naive model of debouncers: it keeps the calls of a burst that no event has reported yet.
package struct DebounceModel: Model {
  package enum Command {
    case call(Debounce.Rule, [UInt8]?, Owner)
    case flush(Generation?)
    case cancel(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: DebounceView.State
    var generation: Generation
    var calls: Int64
    var payload: [UInt8]?
    var remainingMS: Int64
    var deadlineUnixMS: Int64?
    var owner: Owner
  }

  private struct Burst {
    /// When the last call was made, in microseconds.
    var lastCall: Int64
    var rule: Debounce.Rule
    var unreported: [(at: Int64, payload: [UInt8]?)] = []

    var quiet: Int64 { lastCall + rule.quiet.microseconds }
    var longest: Int64? {
      guard let first = unreported.first, let wait = rule.maximumWait else { return nil }
      return max(first.at + wait.microseconds, lastCall)
    }
    var deadline: Int64 { min(quiet, longest ?? .max) }
  }

  private typealias Ledger = GuardLedger<Burst>

  package static let kind = EntityKind.debounce
  package static let keyPrefix: Unicode.Scalar = "d"
  package static let ending = [Command.cancel(nil)]

  private var ledger = Ledger()
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {}

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = ledger[key]?.generation
    switch Int.random(in: 0..<10, using: &world.random) {
    case 0..<7:
      let quiet = world.milliseconds([1, 100, 2_000, 60_000])
      let wait = world.chance(oneIn: 2) ? quiet * world.pick([1, 2, 3]) : nil
      let rule = Debounce.Rule(
        quiet: quiet, maximumWait: wait, isLeading: world.chance(oneIn: 3))!
      return .call(rule, world.pick([nil, [1], [2]]), world.owner())
    case 7: return .flush(world.generation(near: current))
    case 8: return .cancel(world.generation(near: current))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .call(let rule, let payload, let owner):
      return .facts(
        Facts(
          try engine.callDebounce(
            key, rule, payload: payload, owner: owner, by: client, at: now)))
    case .flush(let generation):
      return .flag(try engine.flushDebounce(key, generation: generation, at: now))
    case .cancel(let generation):
      return .flag(try engine.cancelDebounce(key, generation: generation, at: now))
    case .get:
      return engine.debounce(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    switch command {
    case .call(let rule, let payload, let owner):
      var entry: Ledger.Entry
      if let found = ledger[key] {
        entry = found
        entry.state.rule = rule
        entry.state.lastCall = now
        entry.state.unreported.append((now, payload))
      } else {
        entry = Ledger.Entry(
          key: key, generation: world.newGeneration(), owner: owner, deadline: nil,
          state: Burst(lastCall: now, rule: rule))
        if rule.isLeading {
          fired(entry, [(now, payload)], reason: .leading)
        } else {
          entry.state.unreported = [(now, payload)]
        }
      }
      entry.owner = owner
      entry.deadline = entry.state.deadline
      ledger.put(entry)
      settle(key, world)
    case .flush(let generation):
      guard let entry = ledger[key] else { return .flag(false) }
      try ledger.check(generation, entry)
      guard !entry.state.unreported.isEmpty else { return .flag(false) }
      ledger.remove(key)
      fired(entry, entry.state.unreported, reason: .flush)
      return .flag(true)
    case .cancel(let generation):
      guard let entry = ledger[key] else { return .flag(false) }
      try ledger.check(generation, entry)
      ledger.remove(key)
      cancelled(entry, .cancelled)
      return .flag(true)
    case .get:
      break
    }
    return ledger[key].map { .facts(facts($0, world)) } ?? .nothing
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard var entry = ledger[key] else { return }
    let now = world.now.boot.microseconds
    guard world.isAlive(entry.owner) else {
      ledger.remove(key)
      return cancelled(entry, .ownerGone)
    }
    let burst = entry.state
    guard burst.deadline <= now else { return }
    if !burst.unreported.isEmpty {
      let isQuiet = burst.deadline == burst.quiet
      fired(
        entry, burst.unreported, due: burst.deadline, reason: isQuiet ? .quiet : .maximumWait)
    }
    entry.state.unreported = []
    entry.deadline = entry.state.deadline
    if burst.quiet <= now { ledger.remove(key) } else { ledger.put(entry) }
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

  private func facts(_ entry: Ledger.Entry, _ world: World) -> Facts {
    let left = Ledger.left(entry.state.deadline, world)
    let unreported = entry.state.unreported
    return Facts(
      state: unreported.isEmpty ? .resting : .waiting, generation: entry.generation,
      calls: Int64(unreported.count), payload: unreported.last?.payload, remainingMS: left.ms,
      deadlineUnixMS: left.unixMS, owner: entry.owner)
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? DebounceView).map { Facts($0) }
  }

  package static func detail(_ event: SentEvent) -> String? {
    guard let view = event.subject as? DebounceView else { return nil }
    return text(view.calls, view.payload)
  }

  private static func text(_ calls: Int64, _ payload: [UInt8]?) -> String {
    "\(calls) \(payload.map { "\($0)" } ?? "none")"
  }

  // MARK: Events

  private mutating func fired(
    _ entry: Ledger.Entry, _ calls: [(at: Int64, payload: [UInt8]?)], due: Int64? = nil,
    reason: Reason
  ) {
    said.append(
      Said(
        .fired, entry.generation, due: due, reason: reason,
        detail: Self.text(Int64(calls.count), calls.last?.payload)))
  }

  private mutating func cancelled(_ entry: Ledger.Entry, _ reason: Reason) {
    said.append(Said(.cancelled, entry.generation, reason: reason, detail: Self.text(0, nil)))
  }
}

extension DebounceModel.Facts {
  init(_ view: DebounceView) {
    self.init(
      state: view.state, generation: view.generation, calls: view.calls, payload: view.payload,
      remainingMS: view.remainingMS, deadlineUnixMS: view.deadlineUnixMS, owner: view.owner)
  }
}
