import CountdownCore
import CountdownEngine
import CountdownStore

/// Between what the engine calls durable and the rows of the store. Instants of the boot clock are
/// `offset` microseconds behind the store's clock.
extension CountdownRecord {
  init(_ countdown: DurableCountdown, at index: UInt32, offset: Int64) {
    let machine = countdown.machine
    let phase: Phase =
      switch machine.phase {
      case .counting(let until): .counting(untilMicroseconds: until.microseconds + offset)
      case .paused(let left): .paused(leftMicroseconds: left.microseconds)
      case .ready(let since): .ready(sinceMicroseconds: since.microseconds + offset)
      case .idle(let since): .idle(sinceMicroseconds: since.microseconds + offset)
      }
    self.init(
      index: index, key: countdown.key, generation: countdown.generation.value,
      uid: countdown.uid, phase: phase, count: machine.plan.count,
      everyMicroseconds: machine.plan.every.microseconds,
      firesAtOnce: machine.plan.firesAtOnce, sends: machine.sends,
      isRefunded: machine.isRefunded, title: countdown.title, readyTitle: countdown.readyTitle,
      meta: countdown.meta, token: countdown.token,
      policy: countdown.sending.map { Array($0.policy.name.utf8) },
      policyState: countdown.sending.map { SendingCoding.encode($0, offset: offset) })
  }

  /// Nil if no countdown is like this.
  func durable(offset: Int64) -> DurableCountdown? {
    guard
      let plan = Countdown.Plan(
        count: count, every: Interval(microseconds: everyMicroseconds), firesAtOnce: firesAtOnce)
    else { return nil }
    let phase: Countdown.Phase =
      switch phase {
      case .counting(let until): .counting(until: Instant(microseconds: until &- offset))
      case .paused(let left): .paused(left: Interval(microseconds: left))
      case .ready(let since): .ready(since: Instant(microseconds: since &- offset))
      case .idle(let since): .idle(since: Instant(microseconds: since &- offset))
      }
    var countdown = DurableCountdown(
      key: key, machine: Countdown(plan, phase, sends: sends, isRefunded: isRefunded),
      generation: Generation(generation), uid: uid)
    countdown.title = title
    countdown.readyTitle = readyTitle
    countdown.meta = meta
    countdown.token = token
    if let policy, let policyState {
      guard let sending = SendingCoding.decode(policyState, policy: policy, offset: offset)
      else { return nil }
      countdown.sending = sending
    }
    return countdown
  }
}

extension TimerRecord {
  init(_ timer: DurableTimer, at index: UInt32, offset: Int64) {
    let ahead = timer.clock == .boot ? offset : 0
    let phase: Phase =
      switch timer.machine.phase {
      case .running(let until): .running(untilMicroseconds: until.microseconds + ahead)
      case .paused(let left): .paused(leftMicroseconds: left.microseconds)
      }
    self.init(
      index: index, key: timer.key, generation: timer.generation.value, uid: timer.uid,
      clock: timer.clock == .boot ? .boot : .wall, phase: phase,
      everyMicroseconds: timer.machine.every?.microseconds, late: Late(timer.machine.late),
      fired: timer.machine.fired, missed: timer.machine.missed, payload: timer.payload)
  }

  /// Nil if no timer is like this.
  func durable(offset: Int64) -> DurableTimer? {
    let ahead = clock == .boot ? offset : 0
    let phase: PlainTimer.Phase =
      switch phase {
      case .running(let until): .running(until: Instant(microseconds: until &- ahead))
      case .paused(let left): .paused(left: Interval(microseconds: left))
      }
    guard
      let machine = PlainTimer(
        phase, every: everyMicroseconds.map { Interval(microseconds: $0) },
        late: PlainTimer.Late(late), fired: fired, missed: missed)
    else { return nil }
    return DurableTimer(
      key: key, machine: machine, generation: Generation(generation), uid: uid,
      clock: clock == .boot ? .boot : .wall, payload: payload)
  }
}

extension TimerRecord.Late {
  fileprivate init(_ late: PlainTimer.Late) {
    switch late {
    case .fire: self = .fire
    case .skip: self = .skip
    case .coalesce: self = .coalesce
    }
  }
}

extension PlainTimer.Late {
  fileprivate init(_ late: TimerRecord.Late) {
    switch late {
    case .fire: self = .fire
    case .skip: self = .skip
    case .coalesce: self = .coalesce
    }
  }
}
