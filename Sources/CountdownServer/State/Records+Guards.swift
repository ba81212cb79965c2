import CountdownCore
import CountdownEngine
import CountdownStore

extension GuardRecord {
  init(_ kept: DurableGuard, at place: UInt32, offset: Int64) {
    func stored(_ moment: Instant) -> Int64 { moment.microseconds + offset }
    let state: State =
      switch kept.machine {
      case .throttle(let throttle):
        .throttle(
          arrival: stored(throttle.arrival), fraction: throttle.fraction,
          burst: Int64(throttle.rate.burst), rateCount: Int64(throttle.rate.count),
          ratePeriod: throttle.rate.period.microseconds)
      case .once(let once):
        switch once.phase {
        case .running: .once(deadline: stored(once.deadline), result: nil)
        case .done(let result): .once(deadline: stored(once.deadline), result: result)
        }
      case .gate(let gate):
        switch gate.phase {
        case .pending(let action, let until):
          .gatePending(deadline: stored(until), action: action.name, payload: action.payload)
        case .open(let until): .gateOpen(deadline: until.map(stored))
        }
      case .debounce(let debounce):
        .debounce(
          lastCall: stored(debounce.lastCall), quiet: debounce.rule.quiet.microseconds,
          maximumWait: debounce.rule.maximumWait?.microseconds,
          isLeading: debounce.rule.isLeading,
          waitingSince: (debounce.waiting?.since).map(stored),
          calls: debounce.waiting?.calls ?? 0, payload: debounce.waiting?.payload)
      }
    self.init(
      place: place, key: kept.key, generation: kept.generation.value, uid: kept.uid, state: state)
  }

  /// Nil if no guard is like this.
  func durable(offset: Int64) -> DurableGuard? {
    guard let machine = machine(offset: offset) else { return nil }
    return DurableGuard(
      key: key, machine: machine, generation: Generation(generation), uid: uid)
  }

  private func machine(offset: Int64) -> GuardMachine? {
    func instant(_ stored: Int64) -> Instant { Instant(microseconds: stored &- offset) }
    switch state {
    case .throttle(let arrival, let fraction, let burst, let count, let period):
      return Throttle.Rate(
        burst: burst, count: count, period: Interval(microseconds: period)
      ).flatMap { rate in
        Throttle(rate, arrival: instant(arrival), fraction: fraction).map { .throttle($0) }
      }
    case .once(let deadline, let result):
      return .once(
        Once(result.map { .done(result: $0) } ?? .running, until: instant(deadline)))
    case .gatePending(let deadline, let action, let payload):
      return .gate(
        Gate(.pending(Gate.Action(name: action, payload: payload), until: instant(deadline))))
    case .gateOpen(let deadline):
      return .gate(Gate(.open(until: deadline.map(instant))))
    case .debounce(
      let lastCall, let quiet, let maximumWait, let isLeading, let since, let calls, let payload):
      return Debounce.Rule(
        quiet: Interval(microseconds: quiet),
        maximumWait: maximumWait.map { Interval(microseconds: $0) }, isLeading: isLeading
      ).map { rule in
        let waiting = since.map {
          Debounce.Waiting(since: instant($0), calls: calls, payload: payload)
        }
        return .debounce(Debounce(rule, lastCall: instant(lastCall), waiting: waiting))
      }
    }
  }
}

extension GuardRecord.Kind {
  init(_ kind: EntityKind) {
    switch kind {
    case .throttle: self = .throttle
    case .once: self = .once
    case .gate: self = .gate
    case .debounce: self = .debounce
    case .countdown, .hud, .timer, .scope, .nav, .page: preconditionFailure("no guard")
    }
  }

  var entityKind: EntityKind {
    switch self {
    case .throttle: .throttle
    case .once: .once
    case .gate: .gate
    case .debounce: .debounce
    }
  }
}
