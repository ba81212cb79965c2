extension Engine {
  // MARK: Commands

  /// May `cost` be used now? If so, and unless `isPeek`, it is.
  ///
  /// Another rate than before counts from the next request that is accepted; see `Throttle.change`.
  ///
  /// - Precondition: `cost` is 1 to `rate.burst`.
  package func takeThrottle(
    _ key: UnsafeRawBufferPointer, _ rate: Throttle.Rate, cost: UInt32, isPeek: Bool,
    by client: Client, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: ThrottleView) {
    let entity = settledGuard(.throttle, key, at: now)
    var machine = entity.map { guards[$0].throttle } ?? Throttle(rate, at: now.boot)
    machine.change(rate, at: now.boot)
    guard !isPeek else {
      let answer = machine.answer(to: cost, at: now.boot)
      let generation = entity.map { guards[$0].generation } ?? Generation(0)
      return (
        answer.isAccepted, ThrottleView(Array(key), generation, machine, answer, at: now)
      )
    }
    let answer = machine.take(cost, at: now.boot)
    guard let entity else {
      try checkWritable(.none)
      try checkLimits(client)
      return (
        true, taken(insertGuard(key, .throttle(machine), owner: .none, by: client), answer, at: now)
      )
    }
    guard answer.isAccepted else {
      let view = ThrottleView(Array(key), guards[entity].generation, machine, answer, at: now)
      publish(entity, .refused, reason: .rate, of: .throttle(view), at: now)
      return (false, view)
    }
    try checkWritable(.none)
    guards[entity].throttle = machine
    armGuard(entity)
    return (true, taken(entity, answer, at: now))
  }

  /// Gives `cost` back; nil if nothing of that key is used.
  package func refundThrottle(
    _ key: UnsafeRawBufferPointer, cost: UInt32, generation: Generation?, at now: Moment
  ) throws(EngineError) -> ThrottleView? {
    guard let entity = settledGuard(.throttle, key, at: now) else { return nil }
    try check(generation, against: guards[entity].generation)
    try checkWritable(.none)
    guards[entity].throttle.refund(cost, at: now.boot)
    let view = ThrottleView(guards[entity], at: now)
    publish(entity, .refunded, of: .throttle(view), at: now)
    if guards[entity].throttle.nextExpiry <= now.boot {
      removeGuard(entity)
    } else {
      armGuard(entity)
    }
    return view
  }

  package func throttle(
    _ key: UnsafeRawBufferPointer, at now: Moment
  ) -> ThrottleView? {
    settledGuard(.throttle, key, at: now).map { ThrottleView(guards[$0], at: now) }
  }

  package func listThrottles(
    _ query: ListQuery, at now: Moment
  ) -> Page<ThrottleView> {
    listGuards(.throttle, query, at: now) { ThrottleView($0, at: now) }
  }

  // MARK: Time

  /// All of it is there again: there is nothing left to be remembered.
  func expireThrottle(_ entity: EntityRef, due: Instant, at now: Moment) {
    statistics.record(late: (now.boot - due).microseconds)
    publish(entity, .ready, due: due, at: now)
    removeGuard(entity)
  }

  private func taken(
    _ entity: EntityRef, _ answer: Throttle.Answer, at now: Moment
  ) -> ThrottleView {
    let view = ThrottleView(
      guards[entity].key, guards[entity].generation, guards[entity].throttle, answer, at: now)
    publish(entity, .accepted, of: .throttle(view), at: now)
    return view
  }
}
