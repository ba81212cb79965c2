import CountdownCore
import CountdownEngine
import SendPolicyModel
import Testing

/// Random policies, commands and times: the engine against a list and plain arithmetic.
@Suite struct PolicySimulationTests {
  @Test("The engine does what the naive model does", arguments: 0..<48)
  func simulation(seed: UInt64) throws {
    let simulation = PolicySimulation(seed: seed)
    for _ in 0..<2_000 {
      try simulation.step()
      guard simulation.problems.isEmpty else { break }
    }
    #expect(simulation.problems == [], "seed \(seed)\n\(simulation.log.suffix(12))")
  }
}

private final class PolicySimulation {
  private(set) var problems: [String] = []
  private(set) var log: [String] = []

  private let desk: Desk
  private var model: SendPolicyModel
  private let policy: SendPolicy
  private let ownsCodes: Bool
  private var generator: SeededGenerator
  private var now: Int64 = 0
  private let steps: [Int64]

  init(seed: UInt64) {
    generator = SeededGenerator(seed: seed)
    policy = Self.policy(&generator)
    ownsCodes = policy.rules.validity != nil
    var settings = EngineSettings()
    settings.keepReady = .milliseconds(2_000)
    desk = Desk(settings)
    model = SendPolicyModel(policy, keepReady: 2_000)
    desk.subscribe(1, "countdown:a")
    _ = desk.takeEvents(1)
    // Near the edges: a cooldown, a window, a validity, and a millisecond to either side.
    var steps: [Int64] = [0, 1, 500, 2_000, 10_000]
    for length in policy.rules.windows.map(\.length) + policy.rules.ladder {
      steps += [-1, 0, 1].map { length.microseconds / 1_000 + $0 }
    }
    self.steps = steps
  }

  private static func policy(_ random: inout SeededGenerator) -> SendPolicy {
    while true {
      var rules = SendPolicy.Rules()
      rules.every = .milliseconds([100, 1_000].randomElement(using: &random)!)
      if Bool.random(using: &random) {
        let count = Int.random(in: 1...4, using: &random)
        rules.ladder = (0..<count).map { _ in
          rules.every * Int64.random(in: 1...9, using: &random)
        }
      } else {
        rules.count = UInt32.random(in: 1...9, using: &random)
      }
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        rules.windows.append(
          .init(
            limit: Int.random(in: 1...6, using: &random),
            length: .milliseconds(Int64.random(in: 1...60, using: &random) * 500)))
      }
      if Bool.random(using: &random) {
        rules.channels = Array(
          ["sms", "call", "mail", "post"].prefix(.random(in: 1...4, using: &random)))
      }
      if Int.random(in: 0..<4, using: &random) > 0 {
        rules.validity = .milliseconds(Int64.random(in: 1...40, using: &random) * 250)
        rules.attempts =
          Bool.random(using: &random) ? UInt32.random(in: 1...4, using: &random) : nil
      }
      rules.onResend = Bool.random(using: &random) ? .keep : .replace
      if let policy = try? SendPolicy(name: "random", rules) { return policy }
    }
  }

  func step() throws {
    if Int.random(in: 0..<2, using: &generator) == 0 { pass() }
    try command()
    check()
  }

  private func pass() {
    now += max(steps.randomElement(using: &generator)!, 0)
    desk.unnoticed(at: now)
    // Sometimes it is noticed by itself, else by whatever is said next.
    if Bool.random(using: &generator) { desk.advance() }
  }

  // MARK: Commands

  private func command() throws {
    let token = ["x", "y", nil, nil].randomElement(using: &generator)!
    model.pass(to: now)
    switch Int.random(in: 0..<16, using: &generator) {
    case 0..<5:
      let fires = Int.random(in: 0..<4, using: &generator) == 0
      try send("start", token) {
        try self.desk.start("a", policy: self.policy, fire: fires, token: token)
      } model: {
        $0.start($1, fires: fires, token: token, at: self.now)
      }
    case 5..<7:
      try send("resend", token) {
        try self.desk.resend("a", token: token)
      } model: {
        $0.resend($1, token: token, at: self.now)
      }
    case 7: try refund()
    case 8..<11: try attempt()
    case 11:
      guard ownsCodes else { return }
      let verdict = model.passCode(at: now)
      compare("pass", verdict) { try self.desk.pass("a").isFirst ? .accepted : .duplicate }
    case 12: change("pause", model.pause(at: now)) { try self.desk.pause("a") }
    case 13: change("resume", model.resume(at: now)) { try self.desk.resume("a") }
    case 14:
      let left = [0, 1, 3_000, 20_000].randomElement(using: &generator)! as Int64
      change("retime \(left)", model.retime(left, at: now)) { try self.desk.retime("a", left) }
    default:
      let done = model.cancel(at: now)
      demand(try desk.cancel("a") == done, "cancel is \(!done)")
    }
  }

  private func send(
    _ what: String, _ token: String?,
    _ body: @escaping () throws -> (decision: StartDecision, view: CountdownView),
    model send: (inout SendPolicyModel, Int64) -> SendPolicyModel.Verdict
  ) throws {
    var generation: Int64 = 0
    var until: Int64 = 0
    let answer: SendPolicyModel.Verdict
    do {
      let (decision, view) = try body()
      generation = view.generation.value
      until = now + view.retryAfterMS
      switch decision {
      case .accepted: answer = .accepted
      case .acceptedBefore: answer = .duplicate
      case .refused(let reason): answer = .refused("\(reason)", until: until)
      }
    } catch EngineError.notFound {
      answer = .nothing
    }
    let verdict = send(&model, generation)
    log.append("\(now) \(what) \(token ?? "-"): \(answer)")
    demand(answer == verdict, "\(what): \(answer), not \(verdict)")
  }

  /// A generation of now or before, or one that never was.
  private func someGeneration() -> Int64 {
    let known = model.all.map(\.generation) + [model.generation, 0]
    return known.randomElement(using: &generator)!
  }

  private func refund() throws {
    let wanted =
      Bool.random(using: &generator) ? model.generation : someGeneration()
    let verdict = model.refund(wanted, at: now)
    compare("refund \(wanted)", verdict) {
      try self.desk.refund("a", Generation(wanted)).isFirst ? .accepted : .duplicate
    }
  }

  private func attempt() throws {
    guard ownsCodes else { return }
    let wanted = Bool.random(using: &generator) ? nil : someGeneration()
    let verdict = model.attempt(wanted, at: now)
    compare("attempt \(wanted ?? -1)", verdict) {
      switch try self.desk.attempt("a", wanted.map { Generation($0) }).attempt {
      case .accepted: .accepted
      case .expired: .refused("expired", until: 0)
      case .locked: .refused("locked", until: 0)
      case .passed: .refused("passed", until: 0)
      }
    }
  }

  private func compare(
    _ what: String, _ verdict: SendPolicyModel.Verdict,
    _ body: () throws -> SendPolicyModel.Verdict
  ) {
    let answer: SendPolicyModel.Verdict
    do {
      answer = try body()
    } catch EngineError.notFound {
      answer = .nothing
    } catch EngineError.stale {
      answer = .stale
    } catch {
      return problems.append("\(now) \(what): \(error)")
    }
    log.append("\(now) \(what): \(answer)")
    demand(answer == verdict, "\(what): \(answer), not \(verdict)")
  }

  private func change(_ what: String, _ expected: Bool, _ body: () throws -> CountdownView) {
    log.append("\(now) \(what)")
    demand(((try? body()) != nil) == expected, "\(what) is \(!expected)")
  }

  // MARK: Comparison

  private func check() {
    model.pass(to: now)
    let view = desk.get("a")
    guard let clock = model.clock else {
      demand(view == nil, "it is still there: \(view.map { "\($0.state)" } ?? "")")
      return checkEvents()
    }
    guard let view, let quota = view.quota else { return problems.append("\(now) it is gone") }
    let state: (CountdownView.State, Int64)
    switch clock {
    case .counting(let until): state = (.counting, until - now)
    case .paused(let left): state = (.paused, left)
    case .ready: state = (.ready, 0)
    case .idle: state = (.idle, 0)
    }
    demand(view.state == state.0, "\(view.state), not \(state.0)")
    demand(view.remainingMS == state.1, "\(view.remainingMS) left, not \(state.1)")
    var retry: Int64 = 0
    if case .refused(_, let until) = model.refusal(now) { retry = until - now }
    demand(view.retryAfterMS == retry, "retry after \(view.retryAfterMS), not \(retry)")
    let number = model.number(now)
    demand(view.sends == number, "sends \(view.sends), not \(number)")
    let left = model.left(now)
    demand(quota.sendsLeft == left, "sends left \(quota.sendsLeft ?? -1), not \(left ?? -1)")
    demand(quota.channel == model.channel(number - 1), "channel")
    demand(quota.nextChannel == model.channel(number), "next channel")
    let isGood = model.newest?.isGood(now) ?? false
    demand((quota.expiresInMS != nil) == isGood, "the code is good: \(!isGood)")
    demand(quota.attemptsLeft == model.attemptsLeft(now), "attempts left")
    checkEvents()
  }

  private func checkEvents() {
    let names = ["ready", "expired", "locked", "passed"]
    let heard = desk.takeEvents(1).compactMap { event in
      let name = "\(event.name.text)"
      return names.contains(name) ? "\(name) \(event.generation.value)" : nil
    }
    let expected = model.events
    model.events = []
    demand(heard == expected, "heard \(heard), not \(expected)")
  }

  private func demand(_ holds: Bool, _ rule: String) {
    if !holds { problems.append("\(now) \(rule)") }
  }
}
