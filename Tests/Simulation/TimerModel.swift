import Countdowns

/// A naive model of plain timers: a list in the order of their deadlines.
package struct TimerModel: Model {
  package enum Command {
    case set(TimerSet)
    case pause(Generation?)
    case resume(Generation?)
    case retime(Interval, Generation?)
    case delete(Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: TimerView.State
    var generation: Generation
    var remainingMS: Int64
    var deadlineUnixMS: Int64?
    var everyMS: Int64?
    var fired: Int64
    var missed: Int64
    var owner: Owner
  }

  private struct Timer {
    let key: Int
    let clock: TimerClock
    let every: Int64?
    let late: PlainTimer.Late
    let generation: Generation
    let owner: Owner
    /// The deadline in microseconds of the timer's clock; nil while paused.
    var deadline: Int64?
    var left: Int64 = 0
    var fired: Int64 = 0
    var missed: Int64 = 0
  }

  package static let kind = EntityKind.timer
  package static let keyPrefix: Unicode.Scalar = "t"
  package static let ending = [Command.delete(nil)]

  /// By rising deadline; of equal ones, the one armed first is first. Paused timers are last.
  private var timers: [Timer] = []
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {}

  package func adds(_ key: Int, existed: Bool) -> Bool { said.contains { $0.name == .set } }

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    let delays: [Int64] = [0, 1, 10, 500, 1_000, 20_000, 3_600_000]
    let current = timer(key)?.generation
    switch Int.random(in: 0..<12, using: &world.random) {
    case 0..<4:
      var set = TimerSet(after: world.milliseconds(delays))
      if world.chance(oneIn: 2) { set.every = world.milliseconds([1, 7, 1_000, 60_000]) }
      set.late = world.pick(PlainTimer.Late.allCases)
      set.clock = world.chance(oneIn: 3) ? .wall : .boot
      set.owner = world.owner()
      return .set(set)
    case 4: return .pause(world.generation(near: current))
    case 5, 6: return .resume(world.generation(near: current))
    case 7, 8: return .retime(world.milliseconds(delays), world.generation(near: current))
    case 9: return .delete(world.generation(near: current))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .set(let set):
      .facts(Facts(try engine.setTimer(key, set, by: client, at: now)))
    case .pause(let generation):
      .facts(Facts(try engine.pauseTimer(key, generation: generation, at: now)))
    case .resume(let generation):
      .facts(Facts(try engine.resumeTimer(key, generation: generation, at: now)))
    case .retime(let left, let generation):
      .facts(Facts(try engine.retimeTimer(key, to: left, generation: generation, at: now)))
    case .delete(let generation):
      .flag(try engine.deleteTimer(key, generation: generation, at: now))
    case .get:
      engine.timer(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .set(let set):
      if let old = remove(key) { say(.cancelled, old, reason: .replaced) }
      let timer = Timer(
        key: key, clock: set.clock, every: set.every?.microseconds, late: set.late,
        generation: world.newGeneration(), owner: set.owner,
        deadline: world.now.microseconds(on: set.clock) + set.after.microseconds)
      insert(timer)
      say(.set, timer)
    case .get:
      break
    case .delete(let generation):
      guard let timer = timer(key) else { return .flag(false) }
      try check(generation, timer)
      _ = remove(key)
      say(.cancelled, timer, reason: .cancelled)
      return .flag(true)
    case .pause(let generation):
      try change(key, generation, world) { timer, now in
        guard let deadline = timer.deadline else { return nil }
        timer.left = min(deadline - now, Interval.longest.microseconds)
        timer.deadline = nil
        return .paused
      }
    case .resume(let generation):
      try change(key, generation, world) { timer, now in
        guard timer.deadline == nil else { return nil }
        timer.deadline = now + timer.left
        return .resumed
      }
    case .retime(let left, let generation):
      try change(key, generation, world) { timer, now in
        let left = left.microseconds
        // With no time left, there is nothing to pause.
        if timer.deadline == nil, left > 0 {
          defer { timer.left = left }
          return timer.left == left ? nil : .retimed
        }
        let before = timer.deadline
        timer.deadline = now + left
        return before == timer.deadline ? nil : .retimed
      }
    }
    // A timer that is due fires at once; if that was the last time, the reply has its last state.
    let last = facts(key, world).last
    settle(key, world)
    return (facts(key, world).last ?? last).map { .facts($0) } ?? .nothing
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard var timer = timer(key) else { return }
    guard world.isAlive(timer.owner) else {
      _ = remove(key)
      return say(.cancelled, timer, reason: .ownerGone)
    }
    let now = world.now.microseconds(on: timer.clock)
    guard let deadline = timer.deadline, deadline <= now else { return }
    _ = remove(key)
    guard let every = timer.every else { return say(.fired, timer, due: deadline, missed: 0) }
    let newest = now - (now - deadline) % every
    let unseen = (newest - deadline) / every
    timer.deadline = newest + every
    switch timer.late {
    case .skip where unseen > 0:
      timer.missed += unseen + 1
    case .skip, .fire:
      say(.fired, timer, due: deadline, missed: unseen)
      timer.fired += 1
      timer.missed += unseen
    case .coalesce:
      say(.fired, timer, due: newest, missed: unseen)
      timer.fired += 1
      timer.missed += unseen
    }
    insert(timer)
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    timer(key).flatMap { timer in timer.deadline.map { (timer.clock, $0) } }
  }

  package var order: [Int] {
    timers.filter { $0.clock == .boot }.map(\.key) + timers.filter { $0.clock == .wall }.map(\.key)
  }

  // MARK: State

  package func exists(_ key: Int) -> Bool { timer(key) != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    guard let timer = timer(key) else { return [] }
    let now = world.now.microseconds(on: timer.clock)
    return [
      Facts(
        state: timer.deadline.map { $0 > now ? .running : .idle } ?? .paused,
        generation: timer.generation,
        remainingMS: (timer.deadline.map { $0 - now } ?? timer.left).roundedUp,
        deadlineUnixMS: timer.deadline.map {
          timer.clock == .boot
            ? world.now.deadlineUnixMS($0) : world.now.deadlineUnixMS(wall: $0)
        },
        everyMS: timer.every.map { $0 / 1_000 }, fired: timer.fired, missed: timer.missed,
        owner: timer.owner)
    ]
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? TimerView).map { Facts($0) }
  }

  // MARK: The list

  private func timer(_ key: Int) -> Timer? { timers.first { $0.key == key } }

  private mutating func remove(_ key: Int) -> Timer? {
    timers.firstIndex { $0.key == key }.map { timers.remove(at: $0) }
  }

  private func check(_ wanted: Generation?, _ timer: Timer) throws(EngineError) {
    if let wanted, wanted != timer.generation { throw .stale(now: timer.generation) }
  }

  /// Changes a timer. If nothing changes, it keeps its place among equal deadlines.
  private mutating func change(
    _ key: Int, _ wanted: Generation?, _ world: World,
    _ body: (inout Timer, _ now: Int64) -> Event.Name?
  ) throws(EngineError) {
    guard var timer = timer(key) else { throw .notFound }
    try check(wanted, timer)
    guard let event = body(&timer, world.now.microseconds(on: timer.clock)) else { return }
    _ = remove(key)
    insert(timer)
    say(event, timer)
  }

  private mutating func insert(_ timer: Timer) {
    let moment = timer.deadline ?? .max
    let index = timers.firstIndex { ($0.deadline ?? .max) > moment } ?? timers.count
    timers.insert(timer, at: index)
  }

  private mutating func say(
    _ name: Event.Name, _ timer: Timer, due: Int64? = nil, reason: Reason? = nil,
    missed: Int64? = nil
  ) {
    said.append(Said(name, timer.generation, due: due, reason: reason, missed: missed))
  }
}

extension TimerModel.Facts {
  init(_ view: TimerView) {
    self.init(
      state: view.state, generation: view.generation,
      remainingMS: view.remainingMS, deadlineUnixMS: view.deadlineUnixMS, everyMS: view.everyMS,
      fired: view.fired, missed: view.missed, owner: view.owner)
  }
}

extension Int64 {
  /// Microseconds as milliseconds, rounded up.
  var roundedUp: Int64 { (self + 999) / 1_000 }
}
