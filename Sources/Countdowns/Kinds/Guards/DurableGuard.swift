/// A guard as it is stored. Instants are on the boot clock of this boot. All kinds are in one table, as
/// they are much alike.
package struct DurableGuard: Equatable, Sendable {
  package var key: [UInt8]
  package var machine: GuardMachine
  package var generation: Generation
  package var uid: UInt32

  package init(key: [UInt8], machine: GuardMachine, generation: Generation, uid: UInt32) {
    self.key = key
    self.machine = machine
    self.generation = generation
    self.uid = uid
  }
}

extension DurableGuard: StoredRecord {
  package static let table = "guards"
  package static let kinds: [EntityKind] = [.throttle, .once, .gate, .debounce]

  package static var blank: DurableGuard {
    DurableGuard(
      key: [], machine: .once(Once(.running, until: .zero)), generation: Generation(0), uid: 0)
  }

  package var kind: EntityKind { machine.kind }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    var kind = kind
    row.code("kind", &kind, of: Self.kinds)
    row.key(&key)
    row.field("generation", &generation.value)
    row.field("uid", &uid)
    var stored = StoredGuard(machine)
    row.field("phase", &stored.phase)
    row.instant("moment_store_us", &stored.moment)
    row.instant("since_store_us", &stored.since)
    row.interval("interval_us", &stored.interval)
    row.interval("max_wait_us", &stored.maximumWait)
    row.field("number", &stored.number)
    row.field("rate_count", &stored.rateCount)
    row.field("fraction", &stored.fraction)
    row.field("action", &stored.action)
    row.field("payload", &stored.payload)
    guard Row.isReading else { return }
    if let read = stored.machine(kind) { machine = read } else { row.fail() }
  }

  package func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool {
    engine.restore(self, at: place, now: now)
    return true
  }

  package func putBack(in engine: Engine, at place: UInt32, now: Moment) {
    engine.putBack(self, at: place, now: now)
  }
}

/// A guard's machine, as columns. The schema says what each means for each kind.
package struct StoredGuard {
  /// How many calls can have been made.
  private static let counts: ClosedRange<Int64> = 0...1 << 53

  package var phase: Int64 = 0
  package var moment: Instant?
  package var since: Instant?
  package var interval: Interval?
  package var maximumWait: Interval?
  package var number: Int64?
  package var rateCount: Int64?
  package var fraction: Int64?
  package var action: [UInt8]?
  package var payload: [UInt8]?

  package init(_ machine: GuardMachine) {
    switch machine {
    case .throttle(let throttle):
      moment = throttle.arrival
      fraction = Int64(throttle.fraction)
      number = Int64(throttle.rate.burst)
      rateCount = Int64(throttle.rate.count)
      interval = throttle.rate.period
    case .once(let once):
      moment = once.deadline
      if case .done(let result) = once.phase { (phase, payload) = (1, result) }
    case .gate(let gate):
      switch gate.phase {
      case .pending(let waiting, let until):
        (moment, action, payload) = (until, waiting.name, waiting.payload)
      case .open(let until): (phase, moment) = (1, until)
      }
    case .debounce(let debounce):
      phase = debounce.rule.isLeading ? 1 : 0
      moment = debounce.lastCall
      interval = debounce.rule.quiet
      maximumWait = debounce.rule.maximumWait
      since = debounce.waiting?.since
      number = debounce.waiting?.calls ?? 0
      payload = debounce.waiting?.payload
    }
  }

  /// Nil if no guard of that kind is like this.
  package func machine(_ kind: EntityKind) -> GuardMachine? {
    switch (kind, phase) {
    case (.throttle, 0): throttle.map { .throttle($0) }
    case (.once, 0), (.once, 1): once.map { .once($0) }
    case (.gate, 0), (.gate, 1): gate.map { .gate($0) }
    case (.debounce, 0), (.debounce, 1): debounce.map { .debounce($0) }
    default: nil
    }
  }

  private var throttle: Throttle? {
    guard let moment, let number, let rateCount, let interval,
      let fraction = fraction.flatMap({ UInt32(exactly: $0) }),
      let rate = Throttle.Rate(burst: number, count: rateCount, period: interval)
    else { return nil }
    return Throttle(rate, arrival: moment, fraction: fraction)
  }

  private var once: Once? {
    guard let moment, (payload == nil) == (phase == 0) else { return nil }
    return Once(payload.map { .done(result: $0) } ?? .running, until: moment)
  }

  private var gate: Gate? {
    guard phase == 0 else { return Gate(.open(until: moment)) }
    guard let moment, let action else { return nil }
    return Gate(.pending(Gate.Action(name: action, payload: payload), until: moment))
  }

  private var debounce: Debounce? {
    guard let moment, let interval, let number, Self.counts.contains(number),
      let rule = Debounce.Rule(quiet: interval, maximumWait: maximumWait, isLeading: phase == 1)
    else { return nil }
    let waiting = since.map { Debounce.Waiting(since: $0, calls: number, payload: payload) }
    return Debounce(rule, lastCall: moment, waiting: waiting)
  }
}
