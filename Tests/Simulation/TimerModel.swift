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
    var late: PlainTimer.Late
    var payload: [UInt8]?
    var owner: Owner
  }

  private struct Timer {
    let key: Int
    let clock: TimerClock
    let every: Int64?
    var late: PlainTimer.Late
    let generation: Generation
    var owner: Owner
    var payload: [UInt8]?
    /// The deadline in microseconds of the timer's clock; nil while paused.
    var deadline: Int64?
    var left: Int64 = 0
    /// Before this moment of the boot clock, a set-back of the wall clock makes it fire no sooner.
    var soonest: Int64?
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
      if world.chance(oneIn: 3) { set.clock = .wall }
      if world.chance(oneIn: 8) {
        let step = world.pick([-3_600_000, -1_500, -1, 0, 10, 20_000, 3_600_000] as [Int64])
        set = TimerSet(at: world.now.wall + .milliseconds(step))
      }
      let repeats = set.clock == .boot || world.repeatsOnWall
      if repeats, world.chance(oneIn: 2) {
        set.every = world.milliseconds([1, 7, 1_000, 60_000, 3_600_000])
      }
      set.late = world.pick(PlainTimer.Late.allCases)
      set.owner = world.owner()
      if world.chance(oneIn: 4) { set.payload = [1] }
      set.existing = world.pick([.replace, .replace, .keepPhase, .refuse])
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
      let (refusal, view) = try engine.setTimer(key, set, by: client, at: now)
      return .taken(refusal, Facts(view))
    case .pause(let generation):
      return .facts(Facts(try engine.pauseTimer(key, generation: generation, at: now)))
    case .resume(let generation):
      return .facts(Facts(try engine.resumeTimer(key, generation: generation, at: now)))
    case .retime(let left, let generation):
      return .facts(Facts(try engine.retimeTimer(key, to: left, generation: generation, at: now)))
    case .delete(let generation):
      return .flag(try engine.deleteTimer(key, generation: generation, at: now))
    case .get:
      return engine.timer(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .set(let set):
      if let reason = self.set(key, set, &world) {
        return .taken(reason, facts(key, world)[0])
      }
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
    let facts = facts(key, world).last ?? last
    if case .set = command { return .taken(nil, facts!) }
    return facts.map { .facts($0) } ?? .nothing
  }

  /// Sets a timer, or returns why not.
  private mutating func set(_ key: Int, _ set: TimerSet, _ world: inout World) -> Reason? {
    if var old = timer(key) {
      if set.existing == .refuse { return .exists }
      if set.existing == .keepPhase, old.clock == set.clock, old.every == set.every?.microseconds {
        guard old.late != set.late || old.owner != set.owner || old.payload != set.payload else {
          return nil
        }
        (old.late, old.owner, old.payload) = (set.late, set.owner, set.payload)
        timers[timers.firstIndex { $0.key == key }!] = old
        say(.set, old)
        return nil
      }
    }
    if let old = remove(key) { say(.cancelled, old, reason: .replaced) }
    var timer = Timer(
      key: key, clock: set.clock, every: set.every?.microseconds, late: set.late,
      generation: world.newGeneration(), owner: set.owner, payload: set.payload)
    switch set.time {
    case .after(let delay):
      timer.deadline = world.now.microseconds(on: set.clock) + delay.microseconds
      timer.soonest = soonest(timer, world)
    case .at(let moment): timer.deadline = moment.microseconds
    }
    insert(timer)
    say(.set, timer)
    return nil
  }

  /// Returns the earliest moment of the boot clock for a deadline that comes of a duration.
  private func soonest(_ timer: Timer, _ world: World) -> Int64? {
    guard timer.clock == .wall, let every = timer.every, let deadline = timer.deadline else {
      return nil
    }
    return world.now.boot.microseconds + deadline - world.now.wall.microseconds - every / 2
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard var timer = timer(key) else { return }
    guard world.isAlive(timer.owner) else {
      _ = remove(key)
      return say(.cancelled, timer, reason: .ownerGone)
    }
    follow(&timer, world)
    let now = world.now.microseconds(on: timer.clock)
    guard let deadline = timer.deadline, deadline <= now else { return }
    _ = remove(key)
    guard let every = timer.every else { return say(.fired, timer, due: deadline, missed: 0) }
    let newest = now - (now - deadline) % every
    let unseen = (newest - deadline) / every
    let boot = world.now.boot.microseconds
    timer.deadline = newest + every
    // The first of them is late, so all are missed.
    let isMissed = unseen > 0 || now - deadline >= 1_000_000
    if timer.clock == .wall {
      timer.soonest =
        timer.late == .skip && isMissed
        ? max(timer.soonest ?? 0, boot + 1) : boot + (every + 1) / 2
    }
    switch timer.late {
    case .skip where isMissed:
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

  /// Moves a repeating timer after the wall clock was set back: to the first moment in phase, from
  /// the one on at which it may fire.
  private mutating func follow(_ timer: inout Timer, _ world: World) {
    guard let deadline = timer.deadline, let every = timer.every, let soonest = timer.soonest
    else { return }
    let wall = world.now.wall.microseconds
    let least = max(wall, wall + soonest - world.now.boot.microseconds)
    guard least < deadline else { return }
    let first = least + (deadline - least) % every
    guard first < deadline else { return }
    timer.deadline = first
    _ = remove(timer.key)
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
        remainingMS: (timer.deadline.map { max($0 - now, 0) } ?? timer.left).roundedUp,
        deadlineUnixMS: timer.deadline.map {
          timer.clock == .boot
            ? world.now.deadlineUnixMS($0) : world.now.deadlineUnixMS(wall: $0)
        },
        everyMS: timer.every.map { $0 / 1_000 }, fired: timer.fired, missed: timer.missed,
        late: timer.late, payload: timer.payload, owner: timer.owner)
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
    timer.soonest = soonest(timer, world)
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
      fired: view.fired, missed: view.missed, late: view.late, payload: view.payload,
      owner: view.owner)
  }
}

extension Int64 {
  /// Microseconds as milliseconds, rounded up.
  var roundedUp: Int64 { (self + 999) / 1_000 }
}
