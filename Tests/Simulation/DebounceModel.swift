import Countdowns

/// A naive model of debouncers: it keeps the calls of a burst that no event has reported yet, and
/// when it fired last.
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
    /// The calls, and since when each has waited, or its firing before.
    var unreported: [(since: Int64, payload: [UInt8]?)] = []
    /// When it fired last, as far as the rule needs to know.
    var fired: Int64?
    /// Whether the burst is over, and only `fired` is left.
    var isOver = false

    var quiet: Int64 { lastCall + rule.quiet.microseconds }
    /// When the next firing may be.
    var free: Int64 { fired.flatMap { at in rule.spacing.map { at + $0.microseconds } } ?? 0 }
    private var patience: Int64? {
      rule.maximumWait?.microseconds
        ?? rule.spacing.map { max($0.microseconds, rule.quiet.microseconds) }
    }
    var deadline: Int64 {
      if isOver { return free }
      if let first = unreported.first {
        let longest = patience.map { max(first.since + $0, lastCall) }
        return max(min(quiet, longest ?? .max), free)
      }
      guard rule.edges == .leading, let fired, let patience, fired + patience > lastCall else {
        return quiet
      }
      return min(quiet, fired + patience)
    }

    mutating func add(_ payload: [UInt8]?, at now: Int64) {
      if rule.edges == .leading {
        unreported = []
      } else {
        unreported.append((now < free ? fired! : now, payload))
      }
    }

    mutating func fire(at now: Int64) {
      unreported = []
      if rule.spacing != nil || rule.edges == .leading { fired = now }
    }
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
        quiet: quiet, maximumWait: wait,
        edges: world.pick([.trailing, .trailing, .both, .leading]),
        spacing: world.chance(oneIn: 3) ? world.milliseconds([1, 150, 3_000, 60_000]) : nil)!
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
      if let found = burst(key) {
        entry = found
        entry.state.rule = rule
        entry.state.lastCall = now
        if rule.spacing == nil, rule.edges != .leading { entry.state.fired = nil }
        entry.state.add(payload, at: now)
      } else {
        let isForgotten = rule.spacing == nil && rule.edges != .leading
        let before = isForgotten ? nil : ledger[key]?.state.fired
        entry = Ledger.Entry(
          key: key, generation: world.newGeneration(), owner: owner, deadline: nil,
          state: Burst(lastCall: now, rule: rule, fired: before))
        if rule.edges != .trailing, entry.state.free <= now {
          fired(entry, [(now, payload)], reason: .leading)
          entry.state.fire(at: now)
        } else {
          entry.state.add(payload, at: now)
        }
      }
      entry.owner = owner
      entry.deadline = entry.state.deadline
      ledger.put(entry)
      settle(key, world)
    case .flush(let generation):
      guard var entry = burst(key) else { return .flag(false) }
      try ledger.check(generation, entry)
      guard !entry.state.unreported.isEmpty else { return .flag(false) }
      fired(entry, entry.state.unreported, reason: .flush)
      entry.state.fire(at: now)
      end(entry, world)
      return .flag(true)
    case .cancel(let generation):
      guard let entry = burst(key) else { return .flag(false) }
      try ledger.check(generation, entry)
      end(entry, world)
      cancelled(entry, .cancelled)
      return .flag(true)
    case .get:
      break
    }
    return burst(key).map { .facts(facts($0, world)) } ?? .nothing
  }

  /// Returns the burst of a key, unless it is over.
  private func burst(_ key: Int) -> Ledger.Entry? {
    ledger[key].flatMap { $0.state.isOver ? nil : $0 }
  }

  /// Ends a burst. What SPACING needs is left.
  private mutating func end(_ entry: Ledger.Entry, _ world: World) {
    guard entry.state.free > world.now.boot.microseconds else { return ledger.remove(entry.key) }
    var entry = entry
    (entry.state.isOver, entry.state.unreported, entry.owner) = (true, [], .none)
    entry.deadline = entry.state.deadline
    ledger.put(entry)
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard var entry = ledger[key] else { return }
    let now = world.now.boot.microseconds
    guard world.isAlive(entry.owner) else {
      end(entry, world)
      return cancelled(entry, .ownerGone)
    }
    let burst = entry.state
    guard burst.deadline <= now else { return }
    guard !burst.unreported.isEmpty else { return end(entry, world) }
    let reason: Reason =
      burst.deadline == burst.quiet
      ? .quiet : burst.deadline == burst.free ? .spacing : .maximumWait
    fired(entry, burst.unreported, due: burst.deadline, reason: reason)
    entry.state.fire(at: now)
    entry.deadline = entry.state.deadline
    if burst.quiet <= now { end(entry, world) } else { ledger.put(entry) }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    ledger.deadline(key)
  }

  package var order: [Int] { ledger.entries.map(\.key) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { burst(key) != nil }
  package func isCounted(_ key: Int) -> Bool { ledger[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    burst(key).map { [facts($0, world)] } ?? []
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
    _ entry: Ledger.Entry, _ calls: [(since: Int64, payload: [UInt8]?)], due: Int64? = nil,
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
