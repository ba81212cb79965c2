import TimerWheel

package struct TimerEntity: KeyedEntity {
  let key: [UInt8]
  var machine: PlainTimer
  package var generation: Generation
  var owner: Owner
  var uid: UInt32
  var clock: TimerClock
  var payload: [UInt8]?
  var alarm: TimerWheel.Token?
  var nextExpiry: Instant? { machine.nextExpiry }
}

/// The arguments of TIMER SET beyond the key.
package struct TimerSet: Sendable {
  package enum Time: Equatable, Sendable {
    case after(Interval)
    /// A moment of the wall clock; one that has passed is due now. It takes `clock` to be `.wall`.
    case at(Instant)
  }

  /// What to do if there is a timer of that key.
  package enum Existing: Sendable {
    case replace
    /// With the same `every` and `clock`, its deadline stays, and the rest is updated.
    case keepPhase
    /// It stays as it is.
    case refuse
  }

  package var time: Time
  package var every: Interval?
  package var late = PlainTimer.Late.fire
  package var clock = TimerClock.boot
  package var owner: Owner = .none
  package var payload: [UInt8]?
  package var existing = Existing.replace

  package init(after: Interval) { time = .after(after) }
  package init(at moment: Instant) {
    time = .at(moment)
    clock = .wall
  }

  /// Nil if it would repeat more often than once a millisecond.
  fileprivate func machine(canBeSetBack: Bool, at now: Moment) -> PlainTimer? {
    switch time {
    case .after(let delay):
      var machine = PlainTimer(after: delay, every: every, late: late, at: now.on(clock))
      if canBeSetBack { machine?.beginPeriod(at: now) }
      return machine
    case .at(let moment): return PlainTimer(at: moment, every: every, late: late)
    }
  }
}

enum TimerKind: ExpiringKind, SharedKind {
  typealias View = TimerView

  static let kind = EntityKind.timer
  static let name: StaticString = "timer"
  static let stateOfNothing: StaticString = "idle"

  static func store(of engine: Engine) -> EntityTable<TimerEntity> { engine.timers }

  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    let clock = now.on(engine.timers[index].clock)
    let boot = engine.canBeSetBack(engine.timers[index].clock) ? now.boot : nil
    let before = engine.timers[index].machine
    guard let firing = engine.timers[index].machine.expire(at: clock, boot: boot) else {
      // Missed periods were skipped.
      if engine.timers[index].machine != before { engine.noteChange(Self.self, index) }
      return
    }
    engine.statistics.record(late: (clock - firing.due).microseconds)
    engine.publish(Self.self, index, .fired, due: firing.due, at: now) {
      var view = TimerView($0, at: now)
      view.justMissed = firing.missed
      return view
    }
    if firing.last { engine.remove(Self.self, index) }
  }

  static func followClock(_ index: UInt32, in engine: Engine, at now: Moment) {
    _ = follows(index, in: engine, at: now)
  }

  /// Moves a repeating timer to an earlier deadline if the wall clock was set back. Returns whether
  /// it has moved.
  static func follows(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    guard engine.canBeSetBack(engine.timers[index].clock) else { return false }
    engine.wallClock.look(at: now)
    guard engine.timers[index].machine.follow(now) else { return false }
    engine.arm(Self.self, index)
    engine.noteChange(Self.self, index)
    return true
  }
}

extension Engine {
  // MARK: Commands

  /// Sets a timer; replaces or updates the one of that key, as `set.existing` says, or refuses.
  /// `set.every` must be at least a millisecond.
  package func setTimer(
    _ key: Span<UInt8>, _ set: TimerSet, by client: Client, at now: Moment
  ) throws(EngineError) -> (refusal: Reason?, view: TimerView) {
    let old = current(TimerKind.self, key, at: now)
    if let old {
      switch set.existing {
      case .refuse: return (.exists, TimerView(timers[old], at: now))
      case .keepPhase
      where timers[old].clock == set.clock && timers[old].machine.every == set.every:
        return (nil, try updateTimer(old, set, at: now))
      case .keepPhase, .replace: break
      }
    }
    return (nil, try setTimer(key, set, replacing: old, by: client, at: now))
  }

  private func setTimer(
    _ key: Span<UInt8>, _ set: TimerSet, replacing old: UInt32?, by client: Client, at now: Moment
  ) throws(EngineError) -> TimerView {
    guard let machine = set.machine(canBeSetBack: canBeSetBack(set.clock), at: now) else {
      preconditionFailure("a timer repeats at most once a millisecond")
    }
    try checkWritable(set.owner)
    if let old {
      try checkWritable(timers[old].owner)
      // Replacing another user's timer adds one to this user's.
      if timers[old].uid != client.uid { try checkUserLimit(client) }
    } else {
      try checkLimits(client)
    }
    if let old {
      statistics.decisions.cancelled += 1
      publish(TimerKind.self, old, .cancelled, reason: .replaced, at: now)
    }
    let entity = TimerEntity(
      key: Array(key), machine: machine, generation: newGeneration(), owner: set.owner,
      uid: client.uid, clock: set.clock, payload: set.payload)
    // At the old index, so that a listing that is under way returns the key only once.
    let index = insert(TimerKind.self, entity, replacing: old)
    arm(TimerKind.self, index)
    publish(TimerKind.self, index, .set, at: now)
    return currentView(ofTimer: index, at: now)
  }

  /// Returns false if there was nothing to delete.
  package func deleteTimer(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    try cancel(TimerKind.self, key, generation: generation, at: now)
  }

  package func pauseTimer(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .paused, at: now) { $0.pause(at: $1) }
  }

  package func resumeTimer(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .resumed, at: now) { $0.resume(at: $1) }
  }

  package func retimeTimer(
    _ key: Span<UInt8>, to left: Interval, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .retimed, at: now) { $0.retime(left, at: $1) }
  }

  // MARK: Steps

  /// Changes what a timer has besides its time.
  private func updateTimer(
    _ index: UInt32, _ set: TimerSet, at now: Moment
  ) throws(EngineError) -> TimerView {
    let old = timers[index]
    guard (old.machine.late, old.owner) != (set.late, set.owner) || old.payload != set.payload
    else {
      return TimerView(old, at: now)
    }
    try checkWritable(old.owner)
    try checkWritable(set.owner)
    timers[index].machine.late = set.late
    timers[index].payload = set.payload
    timers[index].owner = set.owner
    connections.disown(EntityRef(.timer, index), old.owner)
    connections.own(EntityRef(.timer, index), set.owner)
    publish(TimerKind.self, index, .set, at: now)
    return TimerView(timers[index], at: now)
  }

  private func changeTimer(
    _ key: Span<UInt8>, _ generation: Generation?, _ event: Event.Name,
    at now: Moment, _ change: (inout PlainTimer, Instant) -> Void
  ) throws(EngineError) -> TimerView {
    guard let index = current(TimerKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: timers[index].generation)
    try checkWritable(timers[index].owner)
    let before = timers[index].machine
    change(&timers[index].machine, now.on(timers[index].clock))
    if timers[index].machine != before {
      if canBeSetBack(timers[index].clock) { timers[index].machine.beginPeriod(at: now) }
      arm(TimerKind.self, index)
      publish(TimerKind.self, index, event, at: now)
    }
    return currentView(ofTimer: index, at: now)
  }

  /// Fires a timer that is due now, and returns its view afterwards; the view before if that was
  /// the last firing.
  private func currentView(ofTimer index: UInt32, at now: Moment) -> TimerView {
    let last = TimerView(timers[index], at: now)
    return TimerKind.runDue(index, in: self, at: now) ? TimerView(timers[index], at: now) : last
  }

  /// Whether a clock can go back while the boot clock runs on: a fleet has one clock, which cannot.
  fileprivate func canBeSetBack(_ clock: TimerClock) -> Bool {
    clock == .wall && !context.isWorkbench
  }

  /// Moves timers after the wall clock was set back. None of its timers expires before.
  func followWallClock(budget: inout Int, at now: Moment) {
    guard let start = wallClock.next else { return }
    guard armedOnWall > 0, !context.copiedKinds.contains(.timer) else {
      wallClock.next = nil
      return
    }
    // Only a timer that moves costs a step.
    let end = min(UInt32(timers.indexEnd), start + 4_096)
    var next = start
    while budget > 0, next < end {
      if timers.contains(next), TimerKind.follows(next, in: self, at: now) { budget -= 1 }
      next += 1
    }
    wallClock.next = next < UInt32(timers.indexEnd) ? next : nil
    if wallClock.next != nil { budget = 0 }
  }

  /// Notes the alarm of a timer that the wheels of the wall clock have moved.
  func setAlarm(ofTimer payload: UInt64, _ alarm: TimerWheel.Token) {
    timers[EntityRef(payload: payload).index].alarm = alarm
  }
}
