import CountdownCore

/// What is said of a countdown: in replies, events and snapshots.
package struct CountdownView: Equatable, Sendable {
  package enum State: String, Sendable { case counting, paused, ready }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remaining: Int64
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var count: UInt32
  package var everyMS: Int64
  package var title: [UInt8]?
  package var sends: UInt32
  package var owner: Owner
  package var meta: [UInt8]?

  init(_ entity: CountdownEntity, at now: Moment) {
    let machine = entity.machine
    key = entity.key
    generation = entity.generation
    remaining = machine.remainingSteps(at: now.boot)
    remainingMS = machine.remainingTime(at: now.boot).millisecondsRoundedUp
    let steps = remaining
    switch machine.phase {
    case .counting(let deadline):
      state = .counting
      deadlineUnixMS = now.unixMilliseconds(of: deadline)
      title = entity.titles?.counting.map { Title.text($0, remaining: steps) }
    case .paused:
      state = .paused
      title = entity.titles?.counting.map { Title.text($0, remaining: steps) }
    case .ready(let since):
      state = .ready
      deadlineUnixMS = now.unixMilliseconds(of: since)
      title = entity.titles?.ready
    }
    nowUnixMS = now.wall.microseconds / 1_000
    count = machine.plan.count
    everyMS = machine.plan.every.millisecondsRoundedUp
    sends = machine.sends
    owner = entity.owner
    meta = entity.meta
  }
}

/// What is said of one level of a screen.
package struct HUDView: Equatable, Sendable {
  package enum State: String, Sendable {
    case waiting, appearing, visible, disappearing, hidden

    init(_ phase: Presentation.Phase) {
      self =
        switch phase {
        case .waiting: .waiting
        case .appearing: .appearing
        case .visible: .visible
        case .disappearing: .disappearing
        case .hidden: .hidden
        }
    }
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var level: Level
  package var kind: Presentation.Kind
  package var status: [UInt8]?
  package var mask: Presentation.Mask
  package var fraction: Double?
  package var leases: Int64
  package var isDismissing: Bool
  package var isPaused: Bool
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var end: Presentation.End?
  package var owner: Owner

  init(_ screen: [UInt8], _ level: Level, _ machine: Presentation, at now: Moment) {
    key = screen
    self.level = level
    state = State(machine.phase)
    generation = machine.generation
    kind = machine.request.kind
    status = machine.request.status
    mask = machine.request.mask
    fraction = machine.fraction
    leases = machine.leases.count
    isDismissing = machine.isDismissing
    isPaused = machine.isPaused
    let left = machine.remainingTime(at: now.boot)
    remainingMS = left?.millisecondsRoundedUp
    deadlineUnixMS = isPaused ? nil : left.map { now.unixMilliseconds(of: now.boot + $0) }
    nowUnixMS = now.wall.microseconds / 1_000
    end = machine.end
    owner = machine.owner
  }
}

/// What is said of a plain timer.
package struct TimerView: Equatable, Sendable {
  package enum State: String, Sendable { case running, paused }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var everyMS: Int64?
  package var clock: TimerClock
  package var late: PlainTimer.Late
  package var fired: Int64
  package var missed: Int64
  package var owner: Owner
  package var payload: [UInt8]?

  init(_ entity: TimerEntity, at now: Moment) {
    let machine = entity.machine
    key = entity.key
    generation = entity.generation
    switch machine.phase {
    case .running(let deadline):
      state = .running
      deadlineUnixMS =
        switch entity.clock {
        case .boot: now.unixMilliseconds(of: deadline)
        case .wall: deadline.millisecondsRoundedUp
        }
    case .paused:
      state = .paused
    }
    remainingMS = machine.remainingTime(at: now.on(entity.clock)).millisecondsRoundedUp
    nowUnixMS = now.wall.microseconds / 1_000
    everyMS = machine.every?.millisecondsRoundedUp
    clock = entity.clock
    late = machine.late
    fired = machine.fired
    missed = machine.missed
    owner = entity.owner
    payload = entity.payload
  }
}

/// Which clock a plain timer's deadline is on.
package enum TimerClock: String, CaseIterable, Sendable {
  case boot, wall
}

extension Moment {
  func on(_ clock: TimerClock) -> Instant {
    switch clock {
    case .boot: boot
    case .wall: wall
    }
  }
}
