/// What is said of a countdown: in replies, events and snapshots.
package struct CountdownView: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable { case counting, paused, ready, idle }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remaining: Int64
  package var remainingMS: Int64
  package var retryAfterMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var count: UInt32
  package var everyMS: Int64
  package var title: [UInt8]?
  package var sends: UInt32
  package var owner: Owner
  package var meta: [UInt8]?
  private var quotaBox: QuotaBox

  /// Elsewhere in memory, so that views of countdowns without a policy stay small.
  private indirect enum QuotaBox: Equatable, Sendable {
    case none
    case some(QuotaView)
  }

  /// What the policy says; nil for a countdown that was started without one.
  package internal(set) var quota: QuotaView? {
    get {
      switch quotaBox {
      case .none: nil
      case .some(let quota): quota
      }
    }
    set { quotaBox = newValue.map { .some($0) } ?? .none }
  }

  /// Of nobody's countdown, to be filled in.
  init(key: [UInt8], _ state: State, _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.state = state
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    remaining = 0
    remainingMS = 0
    retryAfterMS = 0
    count = 0
    everyMS = 0
    sends = 0
    owner = .none
    quotaBox = .none
  }

  /// - Parameters:
  ///   - code: the generation whose code it is about, if not the newest.
  ///   - retryAt: when a start is accepted, where that has just been found out.
  init(
    _ entity: CountdownEntity, key: [UInt8], code: Generation? = nil, retryAt: Instant? = nil,
    at now: Moment
  ) {
    let machine = entity.machine
    self.key = key
    generation = entity.generation
    remaining = machine.remainingSteps(at: now.boot)
    let left = machine.remainingTime(at: now.boot)
    remainingMS = left.millisecondsRoundedUp
    let steps = remaining
    func countingTitle() -> [UInt8]? {
      entity.titles?.counting.map { Title.text($0, remaining: steps, left: left) }
    }
    switch machine.phase {
    case .counting(let deadline) where deadline > now.boot:
      state = .counting
      deadlineUnixMS = now.unixMilliseconds(of: deadline)
      title = countingTitle()
    case .paused:
      state = .paused
      title = countingTitle()
    // With no time left it is ready; `ready` is the next event.
    case .counting(let since), .ready(let since):
      state = .ready
      deadlineUnixMS = now.unixMilliseconds(of: since)
      title = entity.titles?.ready
    case .idle:
      state = .idle
    }
    nowUnixMS = now.wall.microseconds / 1_000
    count = machine.plan.count
    everyMS = machine.plan.every.millisecondsRoundedUp
    owner = entity.owner
    meta = entity.meta
    guard let sending = entity.sending, sending.isInForce else {
      sends = machine.sends
      quotaBox = .none
      retryAfterMS = retryAt.map { ($0 - now.boot).millisecondsRoundedUp } ?? remainingMS
      return
    }
    let record = sending.record
    sends = record.sendCount(by: sending.policy, at: now.boot)
    quotaBox = .some(QuotaView(record, sending.policy, code: code, at: now.boot))
    let until = retryAt ?? machine.refusal(by: sending.policy, record, at: now.boot)?.until
    retryAfterMS = until.map { ($0 - now.boot).millisecondsRoundedUp } ?? 0
  }
}

/// What is said of a countdown that was started with a policy.
package struct QuotaView: Equatable, Sendable {
  package var policy: String
  package var sendsLeft: Int?
  package var channel: String?
  package var nextChannel: String?
  /// Of the newest code, or the one that is spoken of; nil if it is not good.
  package var expiresInMS: Int64?
  package var attemptsLeft: Int64?

  init(
    policy: String, sendsLeft: Int?, channel: String?, nextChannel: String?, expiresInMS: Int64?,
    attemptsLeft: Int64?
  ) {
    self.policy = policy
    self.sendsLeft = sendsLeft
    self.channel = channel
    self.nextChannel = nextChannel
    self.expiresInMS = expiresInMS
    self.attemptsLeft = attemptsLeft
  }

  init(_ record: SendRecord, _ policy: SendPolicy, code: Generation?, at now: Instant) {
    self.policy = policy.name
    sendsLeft = record.sendsLeft(by: policy, at: now)
    (channel, nextChannel) = record.channels(by: policy, at: now)
    guard let code = record.code(code, at: now), let expires = code.expires else { return }
    expiresInMS = (expires - now).millisecondsRoundedUp
    attemptsLeft = policy.rules.attempts.map { Int64($0) - Int64(min(code.attempts, $0)) }
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
  package var isDurable: Bool

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
    isDurable = machine.request.isDurable
  }
}

extension HUDView {
  /// As it was told of: everything but the owner, as only what nobody owns is kept.
  init(
    key: [UInt8], state: State, generation: Generation, level: Level, kind: Presentation.Kind,
    status: [UInt8]?, mask: Presentation.Mask, fraction: Double?, leases: Int64,
    isDismissing: Bool, isPaused: Bool, remainingMS: Int64?, deadlineUnixMS: Int64?,
    nowUnixMS: Int64, end: Presentation.End?, isDurable: Bool
  ) {
    self.key = key
    self.state = state
    self.generation = generation
    self.level = level
    self.kind = kind
    self.status = status
    self.mask = mask
    self.fraction = fraction
    self.leases = leases
    self.isDismissing = isDismissing
    self.isPaused = isPaused
    self.remainingMS = remainingMS
    self.deadlineUnixMS = deadlineUnixMS
    self.nowUnixMS = nowUnixMS
    self.end = end
    owner = .none
    self.isDurable = isDurable
  }
}

/// What is said of a plain timer.
package struct TimerView: Equatable, Sendable {
  package enum State: String, Sendable {
    case running, paused
    /// Nothing of the time is left: it fires now.
    case idle
  }

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

  /// Of nobody's timer, to be filled in.
  init(key: [UInt8], _ state: State, _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.state = state
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    remainingMS = 0
    clock = .boot
    late = .fire
    fired = 0
    missed = 0
    owner = .none
  }

  init(_ entity: TimerEntity, at now: Moment) {
    let machine = entity.machine
    key = entity.key
    generation = entity.generation
    switch machine.phase {
    case .running(let deadline):
      state = deadline > now.on(entity.clock) ? .running : .idle
      deadlineUnixMS =
        switch entity.clock {
        case .boot: now.unixMilliseconds(of: deadline)
        case .wall: now.unixMilliseconds(ofWall: deadline)
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
