/// Idempotency keys: something runs once, and repetitions get its result.
enum OnceKind: GuardKind {
  typealias Machine = Once
  typealias View = OnceView

  static let kind = EntityKind.once
  static let name: StaticString = "once"
  static let stateOfNothing: StaticString = "idle"

  static func store(of engine: Engine) -> EntityTable<GuardEntity<Once>> { engine.onces }

  static func endedView(of entity: Entity, at now: Moment) -> OnceView {
    OnceView(idle: entity, at: now)
  }

  /// Removes a key whose TTL is over. One whose lease is over is remembered until then.
  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.statistics.record(late: (now.boot - due).microseconds)
    let hasLapsed = engine.onces[index].machine.lapse(at: now.boot)
    if hasLapsed {
      // A repetition with the token begins again, as nobody works any more.
      engine.onces[index].tokens.forget(engine.onces[index].generation, of: [.begin])
    }
    engine.publish(
      Self.self, index, .expired, due: due, reason: hasLapsed ? .lease : nil, at: now
    ) { endedView(of: $0, at: now) }
    engine.endGuard(Self.self, index, at: now)
  }
}

/// The arguments of ONCE BEGIN beyond the key.
package struct OnceRequest: Sendable {
  package var ttl: Interval
  /// How long the work may take without EXTEND; nil for as long as TTL.
  package var lease: Interval?
  /// What the request is about; nil if unknown.
  package var fingerprint: Fingerprint?
  package var owner = Owner.none
  package var token: [UInt8]?

  package init(ttl: Interval) { self.ttl = ttl }
}

extension Engine {
  // MARK: Commands

  /// Returns why it is refused, or nil if this is the first request within `ttl`. In a refusal, the
  /// view has the status of the first, without its result if that is about something else.
  package func beginOnce(
    _ key: Span<UInt8>, _ request: OnceRequest, by client: Client, at now: Moment
  ) throws(EngineError) -> (refusal: Reason?, view: OnceView) {
    if let index = current(OnceKind.self, key, at: now) {
      let differs = onces[index].machine.differs(from: request.fingerprint)
      let reason: Reason = differs ? .mismatch : .duplicate
      publish(OnceKind.self, index, .refused, reason: reason, at: now)
      var view = OnceView(onces[index], at: now)
      if differs { view.result = nil }
      return (reason, view)
    }
    try checkWritable(request.owner)
    try checkLimits(client)
    let machine = Once(
      for: request.ttl, lease: request.lease, fingerprint: request.fingerprint, at: now.boot)
    let index = insertGuard(OnceKind.self, key, machine, owner: request.owner, by: client)
    onces[index].tokens.remember(
      request.token, of: .begin, onces[index].generation, at: now.boot)
    publish(OnceKind.self, index, .started, at: now)
    return (nil, OnceView(onces[index], at: now))
  }

  /// Returns whether the token of a request stands for one that was about something else. A token
  /// of an earlier generation is about that one.
  func isMismatch(_ key: Span<UInt8>, _ request: OnceRequest, at now: Moment) -> Bool {
    guard let token = request.token, let index = current(OnceKind.self, key, at: now),
      onces[index].tokens.generation(token, of: .begin) == onces[index].generation
    else { return false }
    return onces[index].machine.differs(from: request.fingerprint)
  }

  /// Records the result, unless there is one already. From then on the key has no owner: the result
  /// outlives its creator. Work whose lease is over is late; it is accepted if nobody has begun
  /// again.
  package func finishOnce(
    _ key: Span<UInt8>, _ result: [UInt8], generation: Generation?, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    guard let index = current(OnceKind.self, key, at: now) ?? lapsedOnce(key) else {
      throw .notFound
    }
    try checkOnce(index, generation)
    if case .done = onces[index].machine.phase {
      return (false, OnceView(onces[index], at: now))
    }
    try checkWritable(.none)
    _ = onces[index].machine.finish(result)
    onces[index].isOver = false
    setOwner(of: OnceKind.self, index, .none)
    arm(OnceKind.self, index)
    publish(OnceKind.self, index, .done, at: now)
    return (true, OnceView(onces[index], at: now))
  }

  /// Lets the lease of running work begin again, with another length if one is given. Returns false
  /// if the work is done.
  package func extendOnce(
    _ key: Span<UInt8>, lease: Interval?, generation: Generation, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    guard let index = current(OnceKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: onces[index].generation)
    guard onces[index].machine.lease != nil else { throw .noLease }
    var machine = onces[index].machine
    guard machine.extend(lease, at: now.boot) else {
      return (false, OnceView(onces[index], at: now))
    }
    try checkWritable(onces[index].owner)
    onces[index].machine = machine
    noteChange(OnceKind.self, index)
    arm(OnceKind.self, index)
    return (true, OnceView(onces[index], at: now))
  }

  /// Releases the key of a failed request for another try. Returns false if there is none.
  package func cancelOnce(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(OnceKind.self, key, at: now) else { return false }
    try checkOnce(index, generation)
    return try cancel(OnceKind.self, key, generation: generation, at: now)
  }

  // MARK: Steps

  /// Returns the index of a key whose lease is over, if nobody has begun again.
  private func lapsedOnce(_ key: Span<UInt8>) -> UInt32? {
    onces.find(key).flatMap { onces[$0].machine.phase == .lapsed ? $0 : nil }
  }

  /// Throws if a generation is another one, or not given though work with a lease needs it.
  private func checkOnce(
    _ index: UInt32, _ generation: Generation?
  ) throws(EngineError) {
    guard generation != nil || onces[index].machine.lease == nil else {
      throw .leaseNeedsGeneration
    }
    try check(generation, against: onces[index].generation)
  }
}

extension OnceKind: JournaledKind {
  static var hasState: Bool { false }
}
