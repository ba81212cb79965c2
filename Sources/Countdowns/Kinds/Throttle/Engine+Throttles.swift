/// Rate limits.
enum ThrottleKind: GuardKind {
  typealias Machine = Throttle
  typealias View = ThrottleView

  static let kind = EntityKind.throttle
  static let name: StaticString = "throttle"
  static let stateOfNothing: StaticString = "idle"
  /// False: rate limits are used so often that their events would crowd all others out of the log.
  static let isLogged = false

  static func logs(_ event: Event.Name) -> Bool { event == .blocked || event == .unblocked }

  static func store(of engine: Engine) -> ThrottleStore { engine.stores.throttles }

  static let isInHistory = false
  static let takesTurns = true
  static let canBlock = true

  /// Gives a limit the rules of a reload before anything of it is due.
  static func releaseAbsent(_ index: UInt32, in engine: Engine, at now: Moment) {
    if engine.stores.throttles.reload != nil { engine.adoptRules(index) }
  }

  static func newestNumber(_ index: UInt32, in engine: Engine) -> Int64 {
    guard let entity = engine.throttles.entity(at: index) else { return 0 }
    return max(entity.generation.value, entity.machine.limit?.newestID ?? 0)
  }

  static func blockedUntil(_ index: UInt32, in engine: Engine, at now: Moment) -> Instant? {
    engine.throttles[index].machine.emptyAt
  }

  /// Ends a rate limit when all of BURST is available again.
  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    guard !engine.throttles[index].machine.isNamed else {
      return engine.fireLimit(index, at: now)
    }
    engine.statistics.record(late: (now.boot - due).microseconds)
    engine.publish(Self.self, index, .ready, due: due, at: now)
    engine.endGuard(Self.self, index, at: now)
  }
}

extension Engine {
  // MARK: Commands

  /// Uses `cost` if it is available now; with `isPeek`, only returns whether it is.
  ///
  /// A changed rate applies from the next accepted request on; see `Throttle.change`.
  ///
  /// - Precondition: `cost` is 1 to `rate.burst`.
  package func takeThrottle(
    _ key: Span<UInt8>, _ rate: Throttle.Rate, cost: UInt32, isPeek: Bool, token: [UInt8]? = nil,
    digest: Int64 = 0, by client: Client, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: ThrottleView) {
    let index = current(ThrottleKind.self, key, at: now)
    var machine = index.map { throttles[$0].machine } ?? Throttle(rate, at: now.boot)
    machine.change(rate, at: now.boot)
    guard !isPeek else {
      let answer = (index.map { throttles[$0].machine } ?? machine).answer(
        to: cost, by: rate, at: now.boot)
      let generation = index.map { throttles[$0].generation } ?? Generation(0)
      return (
        answer.isAccepted, ThrottleView(Array(key), generation, machine, answer, at: now)
      )
    }
    let answer = machine.take(cost, at: now.boot)
    guard let index else {
      try checkWritable(.none)
      try checkLimits(client)
      let new = insertGuard(ThrottleKind.self, key, machine, owner: .none, by: client)
      return (true, taken(new, answer, token, digest, at: now))
    }
    guard answer.isAccepted else {
      let answer = throttles[index].machine.answer(to: cost, by: rate, at: now.boot)
      let view = ThrottleView(Array(key), throttles[index].generation, machine, answer, at: now)
      publish(ThrottleKind.self, index, .refused, reason: .rate, at: now) { _ in view }
      return (false, view)
    }
    try checkWritable(.none)
    if machine.isNamed {
      // The configuration has lost the limit, and the client describes it now.
      ThrottleKind.release(index, in: self)
      machine.limit = nil
    }
    throttles[index].machine = machine
    arm(ThrottleKind.self, index)
    return (true, taken(index, answer, token, digest, at: now))
  }

  /// Gives `cost` back: the newest, or of what was taken with an id. Returns nil if nothing of the
  /// rate limit is used. `isFirst` is false if there is nothing to give back of that id.
  package func refundThrottle(
    _ key: Span<UInt8>, cost: UInt32, id: Int64? = nil, generation: Generation?,
    token: [UInt8]? = nil, digest: Int64 = 0, at now: Moment
  ) throws(EngineError) -> (isFirst: Bool, view: ThrottleView)? {
    let index = current(ThrottleKind.self, key, at: now)
    let rules = rules(of: key) ?? index.flatMap { throttles[$0].machine.limit?.rules }
    if id != nil, rules.map({ $0.retention == .zero }) ?? true {
      throw .limits(.hasNoRecord(key: Array(key)))
    }
    guard let index else { return nil }
    try check(generation, against: throttles[index].generation)
    try checkWritable(.none)
    let hadRoom = throttles[index].machine.roomAt == nil
    var isFirst = true
    if let id, let rules {
      isFirst = throttles[index].machine.refund(cost, of: id, by: rules, at: now.boot)
    } else {
      throttles[index].machine.refundNewest(cost, at: now.boot)
    }
    syncSends(of: index)
    guard isFirst else {
      statistics.decisions.repeated += 1
      return (false, ThrottleView(throttles[index], at: now))
    }
    throttles[index].tokens.remember(
      token, of: .refund, throttles[index].generation, digest: digest, at: now.boot)
    let view = ThrottleView(throttles[index], at: now)
    publish(ThrottleKind.self, index, .refunded, at: now) { _ in view }
    endIfUnused(index, hadRoom: hadRoom, at: now)
    shadow?.learn { other throws(EngineError) in
      _ = try other.refundThrottle(key, cost: cost, id: id, generation: nil, at: now)
    }
    return (true, view)
  }

  private func taken(
    _ index: UInt32, _ answer: Throttle.Answer, _ token: [UInt8]?, _ digest: Int64, at now: Moment
  ) -> ThrottleView {
    throttles[index].tokens.remember(
      token, of: .take, throttles[index].generation, digest: digest, at: now.boot)
    let view = ThrottleView(
      throttles[index].key, throttles[index].generation, throttles[index].machine, answer, at: now)
    publish(ThrottleKind.self, index, .accepted, at: now) { _ in view }
    return view
  }
}
