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

  /// Removes a key whose TTL is over.
  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.statistics.record(late: (now.boot - due).microseconds)
    engine.publish(Self.self, index, .expired, due: due, at: now) { endedView(of: $0, at: now) }
    engine.endGuard(Self.self, index, at: now)
  }
}

extension Engine {
  // MARK: Commands

  /// Returns whether this is the first request within `ttl`; otherwise the view has the status of
  /// the first.
  package func beginOnce(
    _ key: Span<UInt8>, for ttl: Interval, owner: Owner, token: [UInt8]? = nil,
    by client: Client, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    if let index = current(OnceKind.self, key, at: now) {
      publish(OnceKind.self, index, .refused, reason: .duplicate, at: now)
      return (false, OnceView(onces[index], at: now))
    }
    try checkWritable(owner)
    try checkLimits(client)
    let machine = Once(for: ttl, at: now.boot)
    let index = insertGuard(OnceKind.self, key, machine, owner: owner, by: client)
    onces[index].tokens.remember(token, of: .begin, onces[index].generation, at: now.boot)
    publish(OnceKind.self, index, .started, at: now)
    return (true, OnceView(onces[index], at: now))
  }

  /// Records the result, unless there is one already. From then on the key has no owner: the result
  /// outlives its creator.
  package func finishOnce(
    _ key: Span<UInt8>, _ result: [UInt8], generation: Generation?, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: OnceView) {
    guard let index = current(OnceKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: onces[index].generation)
    guard case .running = onces[index].machine.phase else {
      return (false, OnceView(onces[index], at: now))
    }
    try checkWritable(.none)
    _ = onces[index].machine.finish(result)
    setOwner(of: OnceKind.self, index, .none)
    publish(OnceKind.self, index, .done, at: now)
    return (true, OnceView(onces[index], at: now))
  }

  /// Releases the key of a failed request for another try. Returns false if there is none.
  package func cancelOnce(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    try cancel(OnceKind.self, key, generation: generation, at: now)
  }
}

extension OnceKind: JournaledKind {
  static var hasState: Bool { false }
}
