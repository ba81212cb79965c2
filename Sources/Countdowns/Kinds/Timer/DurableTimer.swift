/// A plain timer as it is stored. Instants are on the timer's clock.
package struct DurableTimer: Equatable, Sendable {
  package var key: [UInt8]
  package var machine: PlainTimer
  package var generation: Generation
  package var uid: UInt32
  package var clock: TimerClock
  package var payload: [UInt8]?

  package init(
    key: [UInt8], machine: PlainTimer, generation: Generation, uid: UInt32, clock: TimerClock,
    payload: [UInt8]?
  ) {
    self.key = key
    self.machine = machine
    self.generation = generation
    self.uid = uid
    self.clock = clock
    self.payload = payload
  }
}

extension DurableTimer: StoredRecord {
  package static let table = "timers"
  package static let kinds: [EntityKind] = [.timer]

  package static var blank: DurableTimer {
    DurableTimer(
      key: [], machine: PlainTimer(after: .zero, every: nil, late: .fire, at: .zero)!,
      generation: Generation(0), uid: 0, clock: .boot, payload: nil)
  }

  package var kind: EntityKind { .timer }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    row.key(&key)
    row.field("generation", &generation.value)
    row.field("uid", &uid)
    row.code("clock", &clock, of: [.boot, .wall])
    var stored = StoredTimer(machine, clock)
    row.code("phase", &stored.isPaused, of: [false, true])
    row.instant("deadline_store_us", &stored.deadline)
    row.instant("deadline_unix_us", &stored.wallDeadline, ahead: 0)
    row.interval("left_us", &stored.left)
    row.interval("every_us", &stored.every)
    row.code("late", &stored.late, of: [.fire, .skip, .coalesce])
    row.field("fired", &stored.fired)
    row.field("missed", &stored.missed)
    row.field("payload", &payload)
    guard Row.isReading else { return }
    if let read = stored.machine(clock) { machine = read } else { row.fail() }
  }

  package func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool {
    engine.restore(self, at: place, now: now)
    return true
  }
}

/// A timer's machine, as columns.
package struct StoredTimer {
  /// The range of the stored numbers of fired and missed periods.
  private static let counts: ClosedRange<Int64> = 0...1 << 53

  package var isPaused = false
  package var deadline: Instant?
  package var wallDeadline: Instant?
  package var left: Interval?
  package var every: Interval?
  package var late: PlainTimer.Late
  package var fired: Int64
  package var missed: Int64

  package init(_ machine: PlainTimer, _ clock: TimerClock) {
    switch (machine.phase, clock) {
    case (.running(let until), .boot): deadline = until
    case (.running(let until), .wall): wallDeadline = until
    case (.paused(let left), _): (isPaused, self.left) = (true, left)
    }
    every = machine.every
    late = machine.late
    fired = machine.fired
    missed = machine.missed
  }

  /// Returns the timer of these columns; nil if they are invalid.
  package func machine(_ clock: TimerClock) -> PlainTimer? {
    guard Self.counts.contains(fired), Self.counts.contains(missed) else { return nil }
    let phase: PlainTimer.Phase
    switch (isPaused, clock == .boot ? deadline : wallDeadline, left) {
    case (false, let until?, nil): phase = .running(until: until)
    case (true, nil, let left?): phase = .paused(left: left)
    default: return nil
    }
    return PlainTimer(phase, every: every, late: late, fired: fired, missed: missed)
  }
}
