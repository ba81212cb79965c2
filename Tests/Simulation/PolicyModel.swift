import Countdowns

/// A naive model of countdowns with policies, made of a `SendHistory` for each key.
package struct PolicyModel: Model {
  package enum Command {
    case start(SendPolicy, fires: Bool, Owner, token: [UInt8]?)
    case resend(token: [UInt8]?)
    case refund(Generation)
    case attempt(Generation?)
    case attemptAny
    case pass(Generation?)
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
    var retryAfterMS: Int64
    var deadlineUnixMS: Int64?
    var count: UInt32
    var everyMS: Int64
    var sends: UInt32
    var owner: Owner
    var quota: Quota?
  }

  struct Quota: Equatable {
    var policy: String
    var sendsLeft: Int?
    var channel: String?
    var nextChannel: String?
    var expiresInMS: Int64?
    var attemptsLeft: Int64?
    var guessesLeft: Int64?
    var refundsLeft: Int64?
    /// The codes that may be checked, in a reply to ATTEMPT ANY.
    var toCheck: [Code]?
  }

  struct Code: Equatable {
    var generation: Generation
    var expiresInMS: Int64
    var attemptsLeft: Int64?
  }

  package static let kind = EntityKind.countdown
  package static let keyPrefix: Unicode.Scalar = "p"
  /// All that happens by itself happens at moments that follow from the sends.
  package static let noticeMatters = false
  package static let ending = [Command.cancel(nil)]

  private let keepReady: Int64
  private var known: [SendHistory?]
  private var tokens: [[SentToken]]
  private var shown: [ShownSteps]
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {
    keepReady = settings.keepReady.microseconds
    known = Array(repeating: nil, count: keyCount)
    tokens = Array(repeating: [], count: keyCount)
    shown = Array(repeating: ShownSteps(), count: keyCount)
  }

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let current = known[key]?.generation
    let token = world.token()
    switch Int.random(in: 0..<22, using: &world.random) {
    case 0..<7:
      // Sometimes another policy than before: its rules apply to the same record.
      let other = world.chance(oneIn: 20) ? nil : known[key]?.policy
      return .start(
        other ?? world.pick(SendPolicy.samples), fires: world.chance(oneIn: 4), world.owner(),
        token: token)
    case 7, 8: return .resend(token: token)
    case 9, 10: return .refund(send(of: key, &world) ?? current ?? Generation(0))
    case 11...13: return .attempt(send(of: key, &world))
    case 14: return .pass(send(of: key, &world))
    case 15: return .pause(world.generation(near: current))
    case 16: return .resume(world.generation(near: current))
    case 17:
      let left = Interval(microseconds: Int64.random(in: 0...20_000_000, using: &world.random))
      return .retime(world.chance(oneIn: 5) ? .zero : left, world.generation(near: current))
    case 18: return .cancel(world.generation(near: current))
    case 19, 20: return .attemptAny
    default: return .get
    }
  }

  /// Returns the generation of any send, or one that never existed; often nil.
  private func send(of key: Int, _ world: inout World) -> Generation? {
    if world.chance(oneIn: 2) { return nil }
    return world.pick((known[key]?.generations.suffix(20) ?? []) + [Generation(0)])
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .start(let policy, let fires, let owner, let token):
      // A START with a policy does not choose the steps.
      var start = CountdownStart(
        Countdown.Plan(count: 60, every: .seconds(1), firesAtOnce: fires)!)
      start.policy = policy
      start.owner = owner
      start.token = token
      let (decision, view) = try engine.startCountdown(key, start, by: client, at: now)
      return .decided(decision, Facts(view))
    case .resend(let token):
      let (decision, view) = try engine.resendCountdown(
        key, token: token, by: client, at: now)
      return .decided(decision, Facts(view))
    case .refund(let generation):
      let (refund, view) = try engine.refundCountdown(key, generation: generation, at: now)
      return .refunded(refund, Facts(view))
    case .attempt(let generation):
      let (attempt, view) = try engine.attemptCountdown(
        key, generation: generation, by: client, at: now)
      return .attempted(attempt, Facts(view))
    case .attemptAny:
      let (attempt, view) = try engine.attemptCountdown(
        key, generation: nil, atAny: true, by: client, at: now)
      return .attempted(attempt, Facts(view))
    case .pass(let generation):
      let (pass, view) = try engine.passCountdown(key, generation: generation, at: now)
      return .passed(pass, Facts(view))
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
    let now = world.now.boot.microseconds
    switch command {
    case .start(let policy, let fires, let owner, let token):
      return send(key, policy, fires: fires, owner, token: token, &world)
    case .resend(let token):
      let old = try found(key)
      return send(
        key, old.policy, fires: old.fires, old.owner, isResend: true, token: token, &world)
    case .refund(let generation):
      _ = try found(key, generation)
      let refund = known[key]!.refund(at: now)
      guard refund == .accepted else { return .refunded(refund, facts(key, world)!) }
      tokens[key].removeAll { $0.generation == generation }
      say(.refunded, key)
      return .refunded(.accepted, settled(key, world))
    case .attempt(let generation):
      let code = try code(key, generation, now)
      let before = known[key]!.clock
      let attempt = known[key]!.attempt(code, at: now)
      if attempt == .accepted(isLast: true) { say(.locked, key, code) }
      sayRetimed(key, since: before, now)
      let retryAt = attempt == .refused(.guesses) ? known[key]!.guessesUntil(now) : nil
      return .attempted(attempt, facts(key, world, code: code, retryAt: retryAt)!)
    case .attemptAny:
      return try attemptAny(key, world)
    case .pass(let generation):
      let code = try code(key, generation, now)
      if generation == nil, !known[key]!.triedCodes(now).isEmpty { throw .needsGeneration }
      let pass = known[key]!.pass(code, at: now)
      guard pass == .accepted else { return .passed(pass, facts(key, world, code: code)!) }
      say(.passed, key, code)
      return .passed(pass, settled(key, world))
    case .get:
      return facts(key, world).map { .facts($0) } ?? .nothing
    case .cancel(let generation):
      guard known[key] != nil else { return .flag(false) }
      if case .idle = try found(key, generation).clock { return .flag(false) }
      cancel(key, .cancelled, world)
      return .flag(true)
    case .pause(let generation):
      return try change(key, generation, .paused, world) { history, now in
        if case .counting(let until) = history.clock { history.pause(left: until - now) }
      }
    case .resume(let generation):
      return try change(key, generation, .resumed, world) { history, now in
        if case .paused(let left) = history.clock { history.count(for: left, at: now) }
      }
    case .retime(let left, let generation):
      return try change(key, generation, .retimed, world) { history, now in
        if case .paused = history.clock, left > .zero {
          history.pause(left: left.microseconds)
        } else {
          history.count(for: left.microseconds, at: now)
        }
      }
    }
  }

  private mutating func attemptAny(
    _ key: Int, _ world: World
  ) throws(EngineError) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    _ = try code(key, nil, now)
    let before = known[key]!.clock
    let attempt = known[key]!.attemptAny(at: now)
    var tried: [Code] = []
    if case .accepted = attempt {
      let attempts = known[key]!.policy.rules.attempts
      tried = known[key]!.triedCodes(now).map { send in
        Code(
          generation: send.generation, expiresInMS: (send.expires! - now).roundedUp,
          attemptsLeft: attempts.map { max(Int64($0) - Int64(send.attempts), 0) })
      }
    }
    for code in tried where code.attemptsLeft == 0 { say(.locked, key, code.generation) }
    sayRetimed(key, since: before, now)
    let retryAt = attempt == .refused(.guesses) ? known[key]!.guessesUntil(now) : nil
    var facts = facts(key, world, retryAt: retryAt)!
    facts.quota?.toCheck = tried
    return .attempted(attempt, facts)
  }

  private mutating func sayRetimed(_ key: Int, since before: SendHistory.Clock, _ now: Int64) {
    guard known[key]!.clock != before else { return }
    say(.retimed, key, reason: known[key]!.attemptBlock(now).reason)
  }

  private mutating func send(
    _ key: Int, _ policy: SendPolicy, fires: Bool, _ owner: Owner, isResend: Bool = false,
    token: [UInt8]?, _ world: inout World
  ) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    if let sent = tokens[key].first(where: { $0.token == token && $0.isResend == isResend }) {
      var facts = facts(key, world, code: sent.generation)!
      facts.generation = sent.generation
      return .decided(.acceptedBefore, facts)
    }
    if let refusal = known[key]?.refusal(now, by: policy) {
      say(.refused, key, reason: refusal.reason)
      return .decided(.refused(refusal.reason), facts(key, world, retryAt: refusal.until)!)
    }
    let new = world.newGeneration()
    var history = known[key] ?? SendHistory(policy, new)
    history.send(new, fires: fires, by: policy, at: now)
    history.owner = owner
    known[key] = history
    if let token {
      let sent = SentToken(isResend: isResend, token: token, generation: new, at: now)
      tokens[key] = (tokens[key] + [sent]).suffix(Tokens.maximum)
    }
    say(.started, key)
    return .decided(.accepted, settled(key, world))
  }

  private mutating func change(
    _ key: Int, _ generation: Generation?, _ name: Event.Name, _ world: World,
    _ body: (inout SendHistory, _ now: Int64) -> Void
  ) throws(EngineError) -> Answer<Facts> {
    var history = try found(key, generation)
    guard history.isPending else { throw .isReady }
    let before = history.clock
    body(&history, world.now.boot.microseconds)
    known[key] = history
    if history.clock != before { say(name, key) }
    return .facts(settled(key, world))
  }

  private func found(_ key: Int, _ wanted: Generation? = nil) throws(EngineError) -> SendHistory {
    guard let history = known[key] else { throw .notFound }
    if let wanted, wanted != history.generation { throw .stale(now: history.generation) }
    return history
  }

  /// Returns the send whose code is meant. An earlier send is stale once its code is not valid.
  private func code(
    _ key: Int, _ wanted: Generation?, _ now: Int64
  ) throws(EngineError) -> Generation? {
    let history = try found(key)
    guard history.policy.rules.validity != nil else {
      throw .noCodes(policy: history.policy.name)
    }
    if history.code(wanted, now) == nil { _ = try found(key, wanted) }
    return wanted ?? history.generations.last
  }

  private mutating func cancel(_ key: Int, _ reason: Reason, _ world: World) {
    say(.cancelled, key, reason: reason)
    known[key]!.cancel(at: world.now.boot.microseconds)
    settle(key, world)
  }

  /// Returns the state once everything due has happened, or the last one if the key is forgotten.
  private mutating func settled(_ key: Int, _ world: World) -> Facts {
    let last = facts(key, world)!
    settle(key, world)
    return facts(key, world) ?? last
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard let history = known[key] else { return }
    guard world.isAlive(history.owner) else {
      cancel(key, .ownerGone, world)
      return
    }
    let now = world.now.boot.microseconds
    for (due, what) in known[key]!.pass(to: now) {
      switch what {
      case .ready: say(.ready, key, due: due)
      case .expired(let generation): say(.expired, key, generation, due: due)
      }
    }
    if known[key]!.isForgotten(now, keepReady: keepReady, tokens: SentToken.end(tokens[key])) {
      known[key] = nil
      tokens[key] = []
    }
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    known[key]?.deadline(keepReady: keepReady, tokens: SentToken.end(tokens[key])).map {
      (.boot, $0)
    }
  }

  package var order: [Int] { Array(known.indices) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { known[key] != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    facts(key, world).map { [$0] } ?? []
  }

  private func facts(
    _ key: Int, _ world: World, code: Generation? = nil, retryAt: Int64? = nil
  ) -> Facts? {
    guard let history = known[key] else { return nil }
    let now = world.now.boot.microseconds
    let rules = history.policy.rules
    let (state, deadline): (CountdownView.State, Int64?) =
      switch history.clock {
      case .counting(let until): (.counting, until)
      case .paused: (.paused, nil)
      case .ready(let since): (.ready, since)
      case .idle: (.idle, nil)
      }
    let retryAt = retryAt ?? history.refusal(now, by: history.policy)?.until
    var quota = Quota(
      policy: history.policy.name, sendsLeft: history.sendsLeft(now),
      channel: history.channel(0, now), nextChannel: history.channel(1, now),
      guessesLeft: history.guessesLeft(now).map { Int64($0) },
      refundsLeft: history.refundsLeft(now).map { Int64($0) })
    if let code = history.code(code, now) {
      quota.expiresInMS = (code.expires! - now).roundedUp
      quota.attemptsLeft = rules.attempts.map { max(Int64($0) - Int64(code.attempts), 0) }
    }
    return Facts(
      state: state, generation: history.generation, remaining: steps(history, now),
      remainingMS: history.left(now).roundedUp,
      retryAfterMS: retryAt.map { ($0 - now).roundedUp } ?? 0,
      deadlineUnixMS: deadline.map { world.now.deadlineUnixMS($0) },
      count: UInt32(history.cooldown / rules.every.microseconds),
      everyMS: rules.every.microseconds.roundedUp, sends: UInt32(history.sends(now)),
      owner: history.owner, quota: quota)
  }

  private func steps(_ history: SendHistory, _ now: Int64) -> Int64 {
    let every = history.policy.rules.every.microseconds
    return (history.left(now) + every - 1) / every
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? CountdownView).map { Facts($0) }
  }

  // MARK: Events

  package mutating func hears(
    _ event: SentEvent, _ key: Int, _ world: World, problem: inout String?
  ) -> Bool {
    let now = world.now.boot.microseconds
    var expected: Int64?
    if let history = known[key], history.generation == event.generation,
      case .counting = history.clock
    {
      expected = steps(history, now)
    }
    return shown[key].hears(event, expected: expected, problem: &problem)
  }

  package func problem(ofListenersTo key: Int, _ world: World) -> String? {
    // A cancelled countdown shows nothing.
    guard let history = known[key], history.clock.isShown else { return nil }
    return shown[key].problem(expected: steps(history, world.now.boot.microseconds))
  }

  private mutating func say(
    _ name: Event.Name, _ key: Int, _ generation: Generation? = nil, due: Int64? = nil,
    reason: Reason? = nil
  ) {
    said.append(Said(name, generation ?? known[key]!.generation, due: due, reason: reason))
  }
}

extension SendHistory.Clock {
  fileprivate var isShown: Bool { if case .idle = self { false } else { true } }
}

extension PolicyModel.Facts {
  init(_ view: CountdownView) {
    self.init(
      state: view.state, generation: view.generation, remaining: view.remaining,
      remainingMS: view.remainingMS, retryAfterMS: view.retryAfterMS,
      deadlineUnixMS: view.deadlineUnixMS, count: view.count, everyMS: view.everyMS,
      sends: view.sends, owner: view.owner,
      quota: view.quota.map {
        PolicyModel.Quota(
          policy: $0.policy, sendsLeft: $0.sendsLeft, channel: $0.channel,
          nextChannel: $0.nextChannel, expiresInMS: $0.expiresInMS, attemptsLeft: $0.attemptsLeft,
          guessesLeft: $0.guessesLeft, refundsLeft: $0.refundsLeft,
          toCheck: view.codes?.map {
            PolicyModel.Code(
              generation: $0.generation, expiresInMS: $0.expiresInMS,
              attemptsLeft: $0.attemptsLeft)
          })
      })
  }
}
