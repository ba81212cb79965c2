/// What is said of a rate limit.
package struct ThrottleView: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable {
    /// Nothing of it is used.
    case idle
    case available, exhausted
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var limit: Int64
  package var remaining: Int64
  /// Until a request is accepted, of the cost that was asked for, or of 1.
  package var retryAfterMS: Int64
  /// Until all of BURST is there.
  package var resetAfterMS: Int64
  package var nowUnixMS: Int64
  package var rateCount: Int64
  package var rateMS: Int64

  init(
    _ key: [UInt8], _ generation: Generation, _ machine: Throttle, _ answer: Throttle.Answer,
    at now: Moment
  ) {
    self.key = key
    self.generation = generation
    limit = Int64(machine.rate.burst)
    remaining = answer.remaining
    state = answer.resetAfter == .zero ? .idle : remaining > 0 ? .available : .exhausted
    retryAfterMS = answer.retryAfter.millisecondsRoundedUp
    resetAfterMS = answer.resetAfter.millisecondsRoundedUp
    nowUnixMS = now.wall.microseconds / 1_000
    rateCount = Int64(machine.rate.count)
    rateMS = machine.rate.period.millisecondsRoundedUp
  }

  init(_ entity: GuardEntity, at now: Moment) {
    let machine = entity.throttle
    self.init(
      entity.key, entity.generation, machine, machine.answer(to: 1, at: now.boot), at: now)
  }
}

/// What is said of an idempotency guard.
package struct OnceView: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable { case idle, running, done }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner
  package var result: [UInt8]?

  /// Of what is over.
  init(idle key: [UInt8], _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    state = .idle
    remainingMS = 0
    owner = .none
  }

  init(_ entity: GuardEntity, at now: Moment) {
    self.init(
      idle: entity.key, entity.generation, nowUnixMS: now.wall.microseconds / 1_000)
    let machine = entity.once
    switch machine.phase {
    case .running: state = .running
    case .done(let result):
      state = .done
      self.result = result
    }
    remainingMS = machine.remainingTime(at: now.boot).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: machine.deadline)
    owner = entity.owner
  }
}

/// What is said of a session's gate.
package struct GateView: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable { case closed, pending, open }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// What waits for it to open, or is to be run.
  package var action: [UInt8]?
  package var payload: [UInt8]?
  /// Nil while it is open for good.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner

  /// Closed, and nothing waits.
  init(closed key: [UInt8], _ generation: Generation = Generation(0), nowUnixMS: Int64) {
    self.key = key
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    state = .closed
    owner = .none
  }

  init(closed key: [UInt8], at now: Moment) {
    self.init(closed: key, nowUnixMS: now.wall.microseconds / 1_000)
  }

  init(_ entity: GuardEntity, at now: Moment) {
    let machine = entity.gate
    self.init(
      closed: entity.key, entity.generation, nowUnixMS: now.wall.microseconds / 1_000)
    state = machine.isOpen ? .open : .pending
    action = machine.pending?.name
    payload = machine.pending?.payload
    owner = entity.owner
    guard let deadline = machine.nextExpiry else { return }
    remainingMS = max(deadline - now.boot, .zero).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: deadline)
  }
}

/// What is said of debounced calls.
package struct DebounceView: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable { case idle, waiting, resting }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// That nobody has been told of; of `fired`, those it stands for.
  package var calls: Int64
  /// Until it fires, or until it has been quiet.
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var quietMS: Int64
  package var maximumWaitMS: Int64?
  package var isLeading: Bool
  package var owner: Owner
  package var payload: [UInt8]?

  /// Of what is over, to be filled in.
  init(idle key: [UInt8], _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    state = .idle
    calls = 0
    remainingMS = 0
    quietMS = 0
    isLeading = false
    owner = .none
  }

  init(idle entity: GuardEntity, at now: Moment) {
    self.init(
      idle: entity.key, entity.generation, nowUnixMS: now.wall.microseconds / 1_000)
    let rule = entity.debounce.rule
    quietMS = rule.quiet.millisecondsRoundedUp
    maximumWaitMS = rule.maximumWait?.millisecondsRoundedUp
    isLeading = rule.isLeading
    owner = entity.owner
  }

  init(_ entity: GuardEntity, at now: Moment) {
    self.init(idle: entity, at: now)
    let machine = entity.debounce
    state = machine.waiting == nil ? .resting : .waiting
    calls = machine.waiting?.calls ?? 0
    payload = machine.waiting?.payload
    remainingMS = max(machine.nextExpiry - now.boot, .zero).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: machine.nextExpiry)
  }
}

/// What is said of a guard of any kind.
package enum GuardView: Equatable, Sendable {
  case throttle(ThrottleView)
  case once(OnceView)
  case gate(GateView)
  case debounce(DebounceView)

  init(_ entity: GuardEntity, at now: Moment) {
    self =
      switch entity.machine {
      case .throttle: .throttle(ThrottleView(entity, at: now))
      case .once: .once(OnceView(entity, at: now))
      case .gate: .gate(GateView(entity, at: now))
      case .debounce: .debounce(DebounceView(entity, at: now))
      }
  }

  /// As it is once it is over. Whose it was stays said.
  init(idle entity: GuardEntity, at now: Moment) {
    let nowUnixMS = now.wall.microseconds / 1_000
    switch entity.machine {
    case .throttle:
      self = .throttle(ThrottleView(entity, at: now))
    case .once:
      var view = OnceView(idle: entity.key, entity.generation, nowUnixMS: nowUnixMS)
      view.owner = entity.owner
      self = .once(view)
    case .gate(let gate):
      var view = GateView(closed: entity.key, entity.generation, nowUnixMS: nowUnixMS)
      view.owner = entity.owner
      // What is not going to be run.
      view.action = gate.pending?.name
      view.payload = gate.pending?.payload
      self = .gate(view)
    case .debounce:
      self = .debounce(DebounceView(idle: entity, at: now))
    }
  }

  package var kind: EntityKind {
    switch self {
    case .throttle: .throttle
    case .once: .once
    case .gate: .gate
    case .debounce: .debounce
    }
  }

  package var key: [UInt8] {
    switch self {
    case .throttle(let view): view.key
    case .once(let view): view.key
    case .gate(let view): view.key
    case .debounce(let view): view.key
    }
  }

  package var generation: Generation {
    switch self {
    case .throttle(let view): view.generation
    case .once(let view): view.generation
    case .gate(let view): view.generation
    case .debounce(let view): view.generation
    }
  }

  package var owner: Owner {
    switch self {
    case .throttle: .none
    case .once(let view): view.owner
    case .gate(let view): view.owner
    case .debounce(let view): view.owner
    }
  }

  package var nowUnixMS: Int64 {
    switch self {
    case .throttle(let view): view.nowUnixMS
    case .once(let view): view.nowUnixMS
    case .gate(let view): view.nowUnixMS
    case .debounce(let view): view.nowUnixMS
    }
  }
}
