import Countdowns

/// A naive model of ONCE.
package struct OnceModel: Model {
  package enum Command {
    case begin(ttl: Interval, lease: Interval?, text: UInt8?, Owner)
    case extend(Interval?, Generation)
    case done([UInt8], Generation?)
    case cancel(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var generation: Generation
    var result: [UInt8]?
    var remainingMS: Int64
    var deadlineUnixMS: Int64?
    var leaseMS: Int64?
    var owner: Owner
  }

  /// What is known of a request and its work.
  struct Work {
    /// When TTL is over, in microseconds.
    let end: Int64
    /// What the request was about.
    let text: UInt8?
    var lease: (length: Int64, until: Int64)?
    var result: [UInt8]?
    /// Whether the lease is over, and nobody has begun again.
    var isLate = false

    var leaseEnd: Int64? {
      guard result == nil, !isLate, let lease, lease.until < end else { return nil }
      return lease.until
    }
  }

  private typealias Ledger = GuardLedger<Work>

  package static let kind = EntityKind.once
  package static let keyPrefix: Unicode.Scalar = "o"
  /// Work with a lease cannot be cancelled without its generation, but ends with TTL.
  package static let ending = [Command.cancel(nil)]

  private var ledger = Ledger()
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {}

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = ledger[key]?.generation
    switch Int.random(in: 0..<12, using: &world.random) {
    case 0..<5:
      let ttl = world.milliseconds([1, 10, 1_000, 60_000, 3_600_000])
      let lease = world.chance(oneIn: 2) ? world.milliseconds([1, 5, 500, 60_000]) : nil
      return .begin(
        ttl: ttl, lease: lease.map { min($0, ttl) }, text: world.pick([nil, 1, 2]), world.owner())
    case 5, 6:
      let lease = world.chance(oneIn: 2) ? world.milliseconds([1, 50, 5_000, 600_000]) : nil
      return .extend(lease, world.generation(near: current) ?? current ?? Generation(1))
    case 7, 8:
      let generation = world.chance(oneIn: 2) ? current : world.generation(near: current)
      return .done(world.pick([[], [1], [0, 255]]), generation)
    case 9: return .cancel(world.chance(oneIn: 2) ? current : world.generation(near: current))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .begin(let ttl, let lease, let text, let owner):
      var request = OnceRequest(ttl: ttl)
      (request.lease, request.owner) = (lease, owner)
      request.fingerprint = text.map { Fingerprint(of: [$0].span) }
      let (refusal, view) = try engine.beginOnce(key, request, by: client, at: now)
      return .taken(refusal, Facts(view))
    case .extend(let lease, let generation):
      let (isAccepted, view) = try engine.extendOnce(
        key, lease: lease, generation: generation, at: now)
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
    let visible = ledger[key].flatMap { $0.state.isLate ? nil : $0 }
    switch command {
    case .begin(let ttl, let lease, let text, let owner):
      if let entry = visible { return refuse(entry, text, world) }
      let now = world.now.boot.microseconds
      let work = Work(
        end: now + ttl.microseconds, text: text,
        lease: lease.map { ($0.microseconds, now + $0.microseconds) })
      put(key, world.newGeneration(), owner, work)
      say(.started, ledger[key]!)
      return .taken(nil, facts(ledger[key]!, world))
    case .extend(let length, let generation):
      guard var entry = visible else { throw .notFound }
      try ledger.check(generation, entry)
      guard let lease = entry.state.lease else { throw .noLease }
      guard entry.state.result == nil else {
        return .reported(isFirst: false, facts(entry, world))
      }
      let new = length?.microseconds ?? lease.length
      entry.state.lease = (new, world.now.boot.microseconds + new)
      put(key, entry.generation, entry.owner, entry.state)
      return .reported(isFirst: true, facts(entry, world))
    case .done(let result, let generation):
      guard var entry = ledger[key] else { throw .notFound }
      try check(generation, entry)
      guard entry.state.result == nil else {
        return .reported(isFirst: false, facts(entry, world))
      }
      (entry.state.result, entry.state.isLate) = (result, false)
      put(key, entry.generation, .none, entry.state)
      say(.done, ledger[key]!)
      return .reported(isFirst: true, facts(ledger[key]!, world))
    case .cancel(let generation):
      guard let entry = visible else { return .flag(false) }
      try check(generation, entry)
      end(entry, .cancelled, reason: .cancelled)
      return .flag(true)
    case .get:
      return visible.map { .facts(facts($0, world)) } ?? .nothing
    }
  }

  private mutating func refuse(
    _ entry: Ledger.Entry, _ text: UInt8?, _ world: World
  ) -> Answer<Facts> {
    var facts = facts(entry, world)
    let isOther = text != nil && entry.state.text != nil && text != entry.state.text
    let reason: Reason = isOther ? .mismatch : .duplicate
    say(.refused, entry, reason: reason)
    if isOther { facts.result = nil }
    return .taken(reason, facts)
  }

  private func check(_ generation: Generation?, _ entry: Ledger.Entry) throws(EngineError) {
    if generation == nil, entry.state.lease != nil { throw .leaseNeedsGeneration }
    try ledger.check(generation, entry)
  }

  private mutating func put(
    _ key: Int, _ generation: Generation, _ owner: Owner, _ work: Work
  ) {
    ledger.put(
      Ledger.Entry(
        key: key, generation: generation, owner: owner, deadline: work.leaseEnd ?? work.end,
        state: work))
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard var entry = ledger[key] else { return }
    let now = world.now.boot.microseconds
    if !world.isAlive(entry.owner) {
      end(entry, .cancelled, reason: .ownerGone)
    } else if let leaseEnd = entry.state.leaseEnd, leaseEnd <= now {
      end(entry, .expired, due: leaseEnd, reason: .lease)
      guard entry.state.end > now else { return }
      entry.state.isLate = true
      put(key, entry.generation, .none, entry.state)
    } else if entry.state.end <= now {
      if entry.state.isLate { return ledger.remove(key) }
      end(entry, .expired, due: entry.state.end)
    }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    ledger.deadline(key)
  }

  package var order: [Int] { ledger.entries.map(\.key) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { ledger[key].map { !$0.state.isLate } ?? false }
  package func isCounted(_ key: Int) -> Bool { ledger[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    guard let entry = ledger[key], !entry.state.isLate else { return [] }
    return [facts(entry, world)]
  }

  private func facts(_ entry: Ledger.Entry, _ world: World) -> Facts {
    let left = Ledger.left(entry.state.end, world)
    let lease = entry.state.result == nil ? entry.state.lease : nil
    return Facts(
      generation: entry.generation, result: entry.state.result, remainingMS: left.ms,
      deadlineUnixMS: left.unixMS, leaseMS: lease.map { Ledger.left($0.until, world).ms },
      owner: entry.owner)
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
    _ entry: Ledger.Entry, _ name: Event.Name, due: Int64? = nil, reason: Reason? = nil
  ) {
    ledger.remove(entry.key)
    var idle = entry
    idle.state.result = nil
    say(name, idle, due: due, reason: reason)
  }

  private mutating func say(
    _ name: Event.Name, _ entry: Ledger.Entry, due: Int64? = nil, reason: Reason? = nil
  ) {
    said.append(
      Said(
        name, entry.generation, due: due, reason: reason, detail: Self.text(entry.state.result)))
  }
}

extension OnceModel.Facts {
  init(_ view: OnceView) {
    self.init(
      generation: view.generation, result: view.result, remainingMS: view.remainingMS,
      deadlineUnixMS: view.deadlineUnixMS, leaseMS: view.leaseMS, owner: view.owner)
  }
}
