import CountdownStore
import Countdowns

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
  package func durable(offset: Int64) -> DurableGuard? {
    guard let machine = machine(offset: offset) else { return nil }
    return DurableGuard(
      key: key, machine: machine, generation: Generation(generation), uid: uid)
  }

  private func machine(offset: Int64) -> GuardMachine? {
    func instant(_ stored: Int64) -> Instant? { Instant(stored: stored, offset: offset) }
    switch state {
    case .throttle(let arrival, let fraction, let burst, let count, let period):
      guard let period = Interval(stored: period), let arrival = instant(arrival),
        let rate = Throttle.Rate(burst: burst, count: count, period: period)
      else { return nil }
      return Throttle(rate, arrival: arrival, fraction: fraction).map { .throttle($0) }
    case .once(let deadline, let result):
      guard let deadline = instant(deadline) else { return nil }
      return .once(Once(result.map { .done(result: $0) } ?? .running, until: deadline))
    case .gatePending(let deadline, let action, let payload):
      guard let deadline = instant(deadline) else { return nil }
      return .gate(Gate(.pending(Gate.Action(name: action, payload: payload), until: deadline)))
    case .gateOpen(nil):
      return .gate(Gate(.open(until: nil)))
    case .gateOpen(let deadline?):
      return instant(deadline).map { .gate(Gate(.open(until: $0))) }
    case .debounce(
      let lastCall, let quiet, let maximumWait, let isLeading, let since, let calls, let payload):
      return debounce(
        lastCall: instant(lastCall), quiet: Interval(stored: quiet),
        maximumWait: maximumWait.map { Interval(stored: $0) }, isLeading: isLeading,
        since: since.map(instant), calls: calls, payload: payload)
    }
  }

  /// - Parameters: nil where there is something, and it makes no sense.
  private func debounce(
    lastCall: Instant?, quiet: Interval?, maximumWait: Interval??, isLeading: Bool,
    since: Instant??, calls: Int64, payload: [UInt8]?
  ) -> GuardMachine? {
    guard let lastCall, let quiet, (0...1 << 53).contains(calls) else { return nil }
    if let maximumWait, maximumWait == nil { return nil }
    if let since, since == nil { return nil }
    guard
      let rule = Debounce.Rule(
        quiet: quiet, maximumWait: maximumWait ?? nil, isLeading: isLeading)
    else { return nil }
    let waiting = (since ?? nil).map {
      Debounce.Waiting(since: $0, calls: calls, payload: payload)
    }
    return .debounce(Debounce(rule, lastCall: lastCall, waiting: waiting))
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
