extension Engine {
  // MARK: Commands

  /// Whether this is the first request for `ttl`; else the view says how the first one went.
  package func beginOnce(
    _ key: UnsafeRawBufferPointer, for ttl: Interval, owner: Owner, by client: Client,
    at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    if let entity = settledGuard(.once, key, at: now) {
      publish(entity, .refused, reason: .duplicate, at: now)
      return (false, OnceView(guards[entity], at: now))
    }
    try checkWritable(owner)
    try checkLimits(client)
    let machine = Once(for: ttl, at: now.boot)
    let entity = insertGuard(key, .once(machine), owner: owner, by: client)
    publish(entity, .started, at: now)
    return (true, OnceView(guards[entity], at: now))
  }

  /// It was done, with that result; false, and nothing changes, if it was before. From then on it
  /// is nobody's: the result outlives who made it.
  package func finishOnce(
    _ key: UnsafeRawBufferPointer, _ result: [UInt8], generation: Generation?, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    guard let entity = settledGuard(.once, key, at: now) else { throw .notFound }
    try check(generation, against: guards[entity].generation)
    guard case .running = guards[entity].once.phase else {
      return (false, OnceView(guards[entity], at: now))
    }
    try checkWritable(.none)
    _ = guards[entity].once.finish(result)
    setOwner(ofGuard: entity, .none)
    publish(entity, .done, at: now)
    return (true, OnceView(guards[entity], at: now))
  }

  /// It did not come about, and may be tried again; false if there was nothing.
  package func cancelOnce(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    try cancelGuard(.once, key, generation: generation, at: now)
  }

  package func once(_ key: UnsafeRawBufferPointer, at now: Moment) -> OnceView? {
    settledGuard(.once, key, at: now).map { OnceView(guards[$0], at: now) }
  }

  package func listOnces(_ query: ListQuery, at now: Moment) -> Page<OnceView> {
    listGuards(.once, query, at: now) { OnceView($0, at: now) }
  }

  // MARK: Time

  func expireOnce(_ entity: EntityRef, due: Instant, at now: Moment) {
    statistics.record(late: (now.boot - due).microseconds)
    let idle = GuardView(idle: guards[entity], at: now)
    publish(entity, .expired, due: due, of: idle, at: now)
    removeGuard(entity)
  }
}
