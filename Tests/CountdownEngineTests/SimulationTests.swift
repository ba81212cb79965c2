import CountdownCore
import CountdownEngine
import Testing

/// Random commands, times and budgets: answers and events against a naive model of countdowns,
/// which is a dictionary and some arithmetic.
@Suite struct SimulationTests {
  @Test("The engine does what a naive model does", arguments: 0..<60)
  func simulation(seed: UInt64) throws {
    let simulation = Simulation(seed: seed)
    try simulation.run(steps: 400)
    #expect(simulation.problems == [], "seed \(seed)")
  }
}

/// What the model knows of one key.
private struct Known {
  enum State {
    case counting(until: Int64)
    case paused(left: Int64)
    case ready(since: Int64)
  }
  var state: State
  var count: Int64
  var every: Int64
  var generation: Generation
  var sends: UInt32
  var owner: Owner

  func left(_ now: Int64) -> Int64 {
    switch state {
    case .counting(let deadline): max(deadline - now, 0)
    case .paused(let left): left
    case .ready: 0
    }
  }
}

private final class Simulation {
  private(set) var problems: [String] = []

  private let desk: Desk
  private var generator: SeededGenerator
  private let kept: Int64 = 3_000
  private let keys = ["a", "b", "c", "d"]
  private var now: Int64 = 0
  private var model: [String: Known] = [:]
  private var listeners: [String: Set<UInt64>] = [:]
  private var connections: Set<UInt64> = []
  private var nextConnection: UInt64 = 10
  private var clearingUp = false
  /// What each listener must have heard of each key, ticks and snapshots left out.
  private var expected: [UInt64: [String: [String]]] = [:]
  /// The number that was shown last.
  private var shown: [UInt64: [String: Int64]] = [:]

  init(seed: UInt64) {
    generator = SeededGenerator(seed: seed)
    var settings = EngineSettings()
    settings.keepReady = .milliseconds(kept)
    desk = Desk(settings)
  }

  func run(steps: Int) throws {
    for _ in 0..<steps {
      try command()
      checkEvents()
      guard problems.isEmpty else { return }
    }
    for connection in connections.sorted() { disconnect(connection) }
    now += 1_000_000
    desk.late(at: now)
    finish()
    for key in model.keys.sorted() {
      if try desk.cancel(key) { model[key] = nil }
    }
    if desk.engine.entityCount != 0 || desk.engine.armedCount != 0 { problems.append("left over") }
    if desk.engine.channelCount != 0 { problems.append("subscriptions left over") }
  }

  private func random(_ range: ClosedRange<Int64>) -> Int64 {
    Int64.random(in: range, using: &generator)
  }

  private func command() throws {
    let key = keys.randomElement(using: &generator)!
    switch random(0...19) {
    case 0...3: pass()
    case 4...6: try start(key)
    case 7...8: try change(key, "resend")
    case 9: try change(key, "pause")
    case 10: try change(key, "resume")
    case 11: try change(key, "retime")
    case 12: try change(key, "cancel")
    case 13...14: check(key)
    case 15: connect()
    case 16...17: subscribe(key)
    case 18: unsubscribe(key)
    default: if let one = connections.sorted().randomElement(using: &generator) { disconnect(one) }
    }
  }

  // MARK: Time

  private func pass() {
    now += ([0, 1, 7, 100, 1_000, 2_500, 20_000] as [Int64]).randomElement(using: &generator)!
    desk.unnoticed(at: now)
    // Sometimes all that is due happens, sometimes a bit of it, sometimes nothing.
    switch random(0...2) {
    case 0: finish()
    case 1: _ = desk.step(Int(random(1...3)))
    default: break
    }
  }

  private func finish() {
    desk.advance()
    clearingUp = false
    for key in keys { settle(key) }
  }

  private func settle(_ key: String) {
    guard let known = model[key] else { return }
    if case .counting(let deadline) = known.state, deadline <= now {
      model[key]!.state = .ready(since: deadline)
      say(key, "ready")
    }
    if case .ready(let since) = model[key]!.state, since + kept <= now { model[key] = nil }
  }

  private func say(_ key: String, _ what: String) {
    for listener in listeners[key] ?? [] {
      expected[listener, default: [:]][key, default: []].append(what)
    }
  }

  // MARK: Commands

  private func start(_ key: String) throws {
    settle(key)
    let count = random(1...5)
    let every = ([1, 10, 1_000] as [Int64]).randomElement(using: &generator)!
    let fire = random(0...4) == 0
    let owner = connections.sorted().randomElement(using: &generator).map { Owner.connection($0) }
    let duration = every * (fire ? count - 1 : count)
    let answer = try desk.start(
      key, count: UInt32(count), every: every, fire: fire, owner: owner ?? .none)
    if let known = model[key] {
      guard case .ready = known.state else {
        demand(answer.decision == .refused(.cooldown), "START while it counts")
        return say(key, "refused")
      }
    }
    demand(answer.decision == .accepted, "START was refused")
    accept(key, answer.view, duration, count, every, owner ?? .none)
  }

  private func accept(
    _ key: String, _ view: CountdownView, _ duration: Int64, _ count: Int64, _ every: Int64,
    _ owner: Owner
  ) {
    let sends = (model[key]?.sends ?? 0) + 1
    demand(view.generation.value > (model[key]?.generation.value ?? 0), "the generation is old")
    model[key] = Known(
      state: .counting(until: now + duration), count: count, every: every,
      generation: view.generation, sends: sends, owner: owner)
    say(key, "started")
    settle(key)
  }

  private func change(_ key: String, _ what: String) throws {
    settle(key)
    let left = random(0...3_000)
    do throws(EngineError) {
      switch what {
      case "resend":
        let answer = try attempt { try self.desk.resend(key) }
        guard let known = model[key] else { return problems.append("RESEND of nothing") }
        guard case .ready = known.state else {
          demand(answer.decision == .refused(.cooldown), "RESEND while it counts")
          return say(key, "refused")
        }
        let duration = answer.view.remainingMS
        let isWhole = duration == known.count * known.every
        demand(isWhole || duration == (known.count - 1) * known.every, "RESEND of another length")
        accept(key, answer.view, duration, known.count, known.every, known.owner)
      case "cancel":
        let done = try attempt { try self.desk.cancel(key) }
        demand(done == (model[key] != nil), "CANCEL")
        if done { say(key, "cancelled") }
        model[key] = nil
      case "pause":
        _ = try attempt { try self.desk.pause(key) }
        if case .counting = model[key]?.state {
          model[key]!.state = .paused(left: model[key]!.left(now))
          say(key, "paused")
        }
      case "resume":
        _ = try attempt { try self.desk.resume(key) }
        if case .paused(let left) = model[key]?.state {
          model[key]!.state = .counting(until: now + left)
          say(key, "resumed")
        }
      default:
        _ = try attempt { try self.desk.retime(key, left) }
        guard let known = model[key] else { return problems.append("RETIME of nothing") }
        if known.left(now) != left { say(key, "retimed") }
        if case .paused = known.state, left > 0 {
          model[key]!.state = .paused(left: left)
        } else {
          model[key]!.state = .counting(until: now + left)
        }
        settle(key)
      }
    } catch {
      switch (error, model[key]?.state) {
      case (.notFound, nil), (.isReady, .ready): break
      default: problems.append("\(now) \(what) \(key): \(error)")
      }
    }
  }

  private func attempt<R>(_ body: () throws -> R) throws(EngineError) -> R {
    do { return try body() } catch { throw error as! EngineError }
  }

  private func check(_ key: String) {
    settle(key)
    let view = desk.get(key)
    guard let known = model[key] else { return demand(view == nil, "\(key) is still there") }
    guard let view else { return problems.append("\(now) \(key) is not there") }
    let left = known.left(now)
    demand(view.remainingMS == left, "\(key): \(view.remainingMS) ms left, not \(left)")
    demand(view.remaining == (left + known.every - 1) / known.every, "\(key): steps left")
    demand(view.generation == known.generation && view.sends == known.sends, "\(key): whose?")
    demand(view.owner == known.owner, "\(key): owner")
    switch (known.state, view.state) {
    case (.counting, .counting), (.paused, .paused), (.ready, .ready): break
    default: problems.append("\(now) \(key) is \(view.state), not \(known.state)")
    }
  }

  // MARK: Connections

  private func connect() {
    guard connections.count < 4 else { return }
    desk.connect(nextConnection)
    connections.insert(nextConnection)
    nextConnection += 1
  }

  private func subscribe(_ key: String) {
    guard let connection = connections.sorted().randomElement(using: &generator) else { return }
    settle(key)
    desk.subscribe(connection, "countdown:\(key)")
    listeners[key, default: []].insert(connection)
  }

  private func unsubscribe(_ key: String) {
    guard let connection = (listeners[key] ?? []).sorted().randomElement(using: &generator)
    else { return }
    // What was due before is heard before.
    finish()
    desk.unsubscribe(connection, "countdown:\(key)")
    listeners[key]!.remove(connection)
  }

  private func disconnect(_ connection: UInt64) {
    finish()
    checkEvents()
    desk.disconnect(connection)
    connections.remove(connection)
    for key in keys { listeners[key]?.remove(connection) }
    expected[connection] = nil
    for key in keys where model[key]?.owner == .connection(connection) {
      say(key, "cancelled")
      model[key] = nil
    }
    clearingUp = true
    if random(0...1) == 0 { finish() }
  }

  // MARK: Events

  private func checkEvents() {
    for connection in connections.sorted() {
      for event in desk.takeEvents(connection) {
        guard case .countdown(let view) = event.subject else { continue }
        let key = String(decoding: view.key, as: UTF8.self)
        let last = shown[connection]?[key]
        shown[connection, default: [:]][key] = view.remaining
        let left = (view.deadlineUnixMS ?? 0) - view.nowUnixMS
        switch event.name {
        case .tick:
          demand(view.remaining < last ?? .max, "\(key): \(view.remaining) after \(last ?? -1)")
          demand(view.remaining == (left + view.everyMS - 1) / view.everyMS, "\(key): wrong number")
          demand(view.remaining > 0, "\(key): tick of 0")
        case .snapshot:
          break
        default:
          settle(key)
          var queue = expected[connection]?[key] ?? []
          let next = queue.isEmpty ? "nothing" : queue.removeFirst()
          expected[connection, default: [:]][key] = queue
          demand("\(event.name.text)" == next, "\(key): heard \(event.name.text), not \(next)")
        }
        if let due = event.dueUnixMS { demand(due <= view.nowUnixMS, "\(key): early") }
      }
      // Once nothing is due any more, all that must be heard has been.
      guard isSettled else { continue }
      for (key, queue) in expected[connection] ?? [:] where !queue.isEmpty {
        problems.append("\(now) \(connection) has not heard \(queue) of \(key)")
      }
    }
  }

  private var isSettled: Bool {
    !clearingUp && desk.engine.nextDeadline.boot.map { $0.microseconds > now * 1_000 } ?? true
  }

  private func demand(_ holds: Bool, _ rule: String) {
    if !holds { problems.append("\(now) \(rule)") }
  }
}
