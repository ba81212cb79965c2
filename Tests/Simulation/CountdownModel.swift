import Countdowns

/// A naive model of countdowns without a policy: plain arithmetic on one deadline.
package struct CountdownModel: Model {
  package enum Command {
    case start(CountdownStart)
    case resend(token: [UInt8]?)
    case pause(Generation?)
    case resume(Generation?)
    case retime(Interval, Generation?)
    case cancel(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: CountdownView.State
    var generation: Generation
    var remaining: Int64
    var remainingMS: Int64
    var deadlineUnixMS: Int64?
    var count: UInt32
    var everyMS: Int64
    var sends: UInt32
    var owner: Owner
  }

  private struct Known {
    var start: CountdownStart
    var generation: Generation
    var tokens: [SentToken] = []
    var sends: UInt32 = 1
    /// When it is or was ready, in microseconds; nil while paused.
    var deadline: Int64?
    var left: Int64 = 0
    var isReady = false

    /// When it is forgotten, once it is ready since then.
    func end(_ ready: Int64) -> Int64 {
      max(ready + CountdownModel.kept.microseconds, SentToken.end(tokens))
    }
  }

  package static let kind = EntityKind.countdown
  package static let keyPrefix: Unicode.Scalar = "c"
  /// A countdown is ready at its deadline, whenever the engine processes it.
  package static let noticeMatters = false
  package static let ending = [Command.cancel(nil)]

  private static let kept = Interval.seconds(3)
  package static func configure(_ settings: inout EngineSettings) { settings.keepReady = kept }

  private var known: [Known?]
  private var shown: [ShownSteps]
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {
    known = Array(repeating: nil, count: keyCount)
    shown = Array(repeating: ShownSteps(), count: keyCount)
  }

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = known[key]?.generation
    let token = world.token()
    switch Int.random(in: 0..<14, using: &world.random) {
    case 0..<5:
      let plan = Countdown.Plan(
        count: UInt32.random(in: 1...6, using: &world.random),
        every: world.milliseconds([1, 10, 333, 1_000, 60_000]),
        firesAtOnce: world.chance(oneIn: 4))!
      var start = CountdownStart(plan)
      start.owner = world.owner()
      start.token = token
      return .start(start)
    case 5, 6: return .resend(token: token)
    case 7: return .pause(world.generation(near: current))
    case 8, 9: return .resume(world.generation(near: current))
    case 10:
      let left = Interval(microseconds: Int64.random(in: 0...3_000_000, using: &world.random))
      return .retime(world.chance(oneIn: 5) ? .zero : left, world.generation(near: current))
    case 11: return .cancel(world.generation(near: current))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .start(let start):
      let (decision, view) = try engine.startCountdown(key, start, by: client, at: now)
      return .decided(decision, Facts(view))
    case .resend(let token):
      let (decision, view) = try engine.resendCountdown(
        key, token: token, by: client, at: now)
      return .decided(decision, Facts(view))
    case .pause(let generation):
      return .facts(Facts(try engine.pauseCountdown(key, generation: generation, at: now)))
    case .resume(let generation):
      return .facts(Facts(try engine.resumeCountdown(key, generation: generation, at: now)))
    case .retime(let left, let generation):
      return .facts(
        Facts(try engine.retimeCountdown(key, to: left, generation: generation, at: now)))
    case .cancel(let generation):
      return .flag(try engine.cancelCountdown(key, generation: generation, at: now))
    case .get:
      return engine.countdown(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .start(let start):
      return try send(key, start, token: start.token, &world)
    case .resend(let token):
      guard let start = known[key]?.start else { throw .notFound }
      return try send(key, start, isResend: true, token: token, &world)
    case .get:
      break
    case .cancel(let generation):
      guard let old = known[key] else { return .flag(false) }
      try check(generation, old)
      say(.cancelled, key, reason: .cancelled)
      known[key] = nil
      return .flag(true)
    case .pause(let generation):
      let old = try counting(key, generation)
      if let deadline = old.deadline {
        known[key]!.left = deadline - world.now.boot.microseconds
        known[key]!.deadline = nil
        say(.paused, key)
      }
    case .resume(let generation):
      if try counting(key, generation).deadline == nil {
        known[key]!.deadline = world.now.boot.microseconds + known[key]!.left
        say(.resumed, key)
      }
    case .retime(let left, let generation):
      let old = try counting(key, generation)
      let deadline = world.now.boot.microseconds + left.microseconds
      known[key]!.left = left.microseconds
      // With no time left, there is nothing to pause.
      if old.deadline != nil || left == .zero { known[key]!.deadline = deadline }
      if known[key]!.deadline != old.deadline
        || (old.deadline == nil && old.left != known[key]!.left)
      {
        say(.retimed, key)
      }
      settle(key, world)
    }
    return facts(key, world).last.map { .facts($0) } ?? .nothing
  }

  private mutating func send(
    _ key: Int, _ start: CountdownStart, isResend: Bool = false, token: [UInt8]?,
    _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    let old = known[key]
    var decision = StartDecision.accepted
    if let sent = old?.tokens.first(where: {
      $0.token == token && $0.isResend == isResend
    }) {
      var facts = facts(key, world).last!
      facts.generation = sent.generation
      return .decided(.acceptedBefore, facts)
    }
    if let old, !old.isReady {
      say(.refused, key, reason: .cooldown)
      decision = .refused(.cooldown)
    } else {
      let steps = Int64(start.plan.count) - (start.plan.firesAtOnce ? 1 : 0)
      let generation = world.newGeneration()
      let tokens =
        (old?.tokens ?? [])
        + (token.map {
          [
            SentToken(
              isResend: isResend, token: $0, generation: generation,
              at: world.now.boot.microseconds)
          ]
        } ?? [])
      known[key] = Known(
        start: start, generation: generation, tokens: tokens.suffix(Tokens.maximum),
        sends: (old?.sends ?? 0) + 1,
        deadline: world.now.boot.microseconds + steps * start.plan.every.microseconds)
      say(.started, key)
      settle(key, world)
    }
    return .decided(decision, facts(key, world).last!)
  }

  private func counting(_ key: Int, _ wanted: Generation?) throws(EngineError) -> Known {
    guard let known = known[key] else { throw .notFound }
    try check(wanted, known)
    if known.isReady { throw .isReady }
    return known
  }

  private func check(_ wanted: Generation?, _ known: Known) throws(EngineError) {
    if let wanted, wanted != known.generation { throw .stale(now: known.generation) }
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard let old = known[key] else { return }
    guard world.isAlive(old.start.owner) else {
      say(.cancelled, key, reason: .ownerGone)
      known[key] = nil
      return
    }
    let now = world.now.boot.microseconds
    guard let deadline = old.deadline, deadline <= now else { return }
    if !old.isReady {
      known[key]!.isReady = true
      say(.ready, key, due: deadline)
    }
    if old.end(deadline) <= now { known[key] = nil }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    guard let known = known[key], let deadline = known.deadline else { return nil }
    return (.boot, known.isReady ? known.end(deadline) : deadline)
  }

  package var order: [Int] { Array(known.indices) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { known[key] != nil }

  private func left(_ known: Known, _ world: World) -> Int64 {
    known.isReady ? 0 : known.deadline.map { $0 - world.now.boot.microseconds } ?? known.left
  }

  private func steps(_ known: Known, _ world: World) -> Int64 {
    let every = known.start.plan.every.microseconds
    return (left(known, world) + every - 1) / every
  }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    guard let known = known[key] else { return [] }
    return [
      Facts(
        state: known.isReady ? .ready : known.deadline == nil ? .paused : .counting,
        generation: known.generation, remaining: steps(known, world),
        remainingMS: left(known, world).roundedUp,
        deadlineUnixMS: known.deadline.map { world.now.deadlineUnixMS($0) },
        count: known.start.plan.count, everyMS: known.start.plan.every.microseconds.roundedUp,
        sends: known.sends, owner: known.start.owner)
    ]
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? CountdownView).map { Facts($0) }
  }

  // MARK: Events

  package mutating func hears(
    _ event: SentEvent, _ key: Int, _ world: World, problem: inout String?
  ) -> Bool {
    var expected: Int64?
    if let known = known[key], known.generation == event.generation, known.deadline != nil {
      expected = steps(known, world)
    }
    return shown[key].hears(event, expected: expected, problem: &problem)
  }

  package func problem(ofListenersTo key: Int, _ world: World) -> String? {
    known[key].flatMap { shown[key].problem(expected: steps($0, world)) }
  }

  private mutating func say(
    _ name: Event.Name, _ key: Int, due: Int64? = nil, reason: Reason? = nil
  ) {
    said.append(Said(name, known[key]!.generation, due: due, reason: reason))
  }
}

extension CountdownModel.Facts {
  init(_ view: CountdownView) {
    self.init(
      state: view.state, generation: view.generation, remaining: view.remaining,
      remainingMS: view.remainingMS, deadlineUnixMS: view.deadlineUnixMS, count: view.count,
      everyMS: view.everyMS, sends: view.sends, owner: view.owner)
  }
}
