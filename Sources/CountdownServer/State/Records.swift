import CountdownStore
import Countdowns

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
    // Of each start with a token there is one; the newest start may have none.
    let tokens = countdown.tokens
    let newest = tokens.last.flatMap { $0.generation == countdown.generation ? $0 : nil }
    let earlier = newest == nil ? tokens[...] : tokens.dropLast()
    self.init(
      index: index, key: countdown.key, generation: countdown.generation.value,
      uid: countdown.uid, phase: phase, count: machine.plan.count,
      everyMicroseconds: machine.plan.every.microseconds,
      firesAtOnce: machine.plan.firesAtOnce, sends: machine.sends,
      isRefunded: machine.isRefunded, title: countdown.title, readyTitle: countdown.readyTitle,
      meta: countdown.meta, token: newest?.token,
      earlierTokens: earlier.isEmpty ? nil : TokenCoding.encode(earlier),
      policy: countdown.sending.map { Array($0.policy.name.utf8) },
      policyState: countdown.sending.map { SendingCoding.encode($0, offset: offset) })
  }

  /// Nil if no countdown is like this.
  package func durable(offset: Int64) -> DurableCountdown? {
    guard
      let plan = Countdown.Plan(
        count: count, every: Interval(microseconds: everyMicroseconds), firesAtOnce: firesAtOnce)
    else { return nil }
    let phase: Countdown.Phase
    switch self.phase {
    case .counting(let until):
      guard let until = Instant(stored: until, offset: offset) else { return nil }
      phase = .counting(until: until)
    case .paused(let left):
      guard let left = Interval(stored: left) else { return nil }
      phase = .paused(left: left)
    case .ready(let since):
      guard let since = Instant(stored: since, offset: offset) else { return nil }
      phase = .ready(since: since)
    case .idle(let since):
      guard let since = Instant(stored: since, offset: offset) else { return nil }
      phase = .idle(since: since)
    }
    var countdown = DurableCountdown(
      key: key, machine: Countdown(plan, phase, sends: sends, isRefunded: isRefunded),
      generation: Generation(generation), uid: uid)
    countdown.title = title
    countdown.readyTitle = readyTitle
    countdown.meta = meta
    if let earlierTokens {
      guard let tokens = TokenCoding.decode(earlierTokens) else { return nil }
      countdown.tokens = tokens
    }
    if let token { countdown.tokens.append(SentToken(token, countdown.generation)) }
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
  package func durable(offset: Int64) -> DurableTimer? {
    let ahead = clock == .boot ? offset : 0
    let phase: PlainTimer.Phase
    switch self.phase {
    case .running(let until):
      guard let until = Instant(stored: until, offset: ahead) else { return nil }
      phase = .running(until: until)
    case .paused(let left):
      guard let left = Interval(stored: left) else { return nil }
      phase = .paused(left: left)
    }
    var every: Interval?
    if let everyMicroseconds {
      every = Interval(stored: everyMicroseconds)
      guard every != nil else { return nil }
    }
    let counts: ClosedRange<Int64> = 0...1 << 53
    guard counts.contains(fired), counts.contains(missed),
      let machine = PlainTimer(
        phase, every: every, late: PlainTimer.Late(late), fired: fired, missed: missed)
    else { return nil }
    return DurableTimer(
      key: key, machine: machine, generation: Generation(generation), uid: uid,
      clock: clock == .boot ? .boot : .wall, payload: payload)
  }
}

extension StoreBatch {
  /// What has changed since the last batch.
  ///
  /// - Parameter offset: of the store's clock.
  package init(takenFrom engine: Engine, offset: Int64) {
    self = StateKeeper.takeBatch(from: engine, offset: offset)
  }
}

/// What a damaged file may hold must not make the daemon overflow, at each start anew.
extension Instant {
  /// Three thousand years about the epoch: beyond any deadline, and any sum of them.
  private static let possible = -mostMicroseconds...mostMicroseconds
  private static let mostMicroseconds: Int64 = 100_000_000_000_000_000

  init?(stored: Int64, offset: Int64) {
    guard Self.possible.contains(stored) else { return nil }
    self.init(microseconds: stored - offset)
  }
}

extension Interval {
  init?(stored: Int64) {
    guard (0...Self.longest.microseconds).contains(stored) else { return nil }
    self.init(microseconds: stored)
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
