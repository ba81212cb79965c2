/// Debouncers: one event for many calls.
enum DebounceKind: GuardKind {
  typealias Machine = Debounce
  typealias View = DebounceView

  static let kind = EntityKind.debounce
  static let name: StaticString = "debounce"
  static let stateOfNothing: StaticString = "idle"

  static func store(of engine: Engine) -> EntityTable<GuardEntity<Debounce>> { engine.debounces }

  static func endedView(of entity: Entity, at now: Moment) -> DebounceView {
    DebounceView(idle: entity, at: now)
  }

  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    let (firing, isOver) = engine.debounces[index].machine.expire(at: now.boot)
    if let firing {
      if let due = firing.due { engine.statistics.record(late: (now.boot - due).microseconds) }
      engine.publish(index, firing, isOver: isOver, at: now)
    }
    if isOver { engine.endGuard(Self.self, index, at: now) }
  }

  /// Ends a burst without firing. What fired before still counts for SPACING.
  static func end(_ index: UInt32, _ reason: Reason, in engine: Engine, at now: Moment) {
    engine.statistics.countEnd(reason)
    engine.debounces[index].machine.drop()
    engine.debounces[index].tokens = Tokens()
    engine.publish(Self.self, index, endEvent, reason: reason, at: now) {
      endedView(of: $0, at: now)
    }
    engine.endGuard(Self.self, index, at: now)
  }
}

extension Engine {
  /// Makes a call; subscribers receive an event once calls pause. The rule, the payload and the
  /// owner of the newest call apply.
  package func callDebounce(
    _ key: Span<UInt8>, _ rule: Debounce.Rule, payload: [UInt8]?, owner: Owner,
    token: [UInt8]? = nil, by client: Client, at now: Moment
  ) throws(EngineError) -> DebounceView {
    try checkWritable(owner)
    guard let index = current(DebounceKind.self, key, at: now) else {
      try checkLimits(client)
      let before = debounces.find(key).flatMap { debounces[$0].machine.lastFired }
      let (machine, firing) = Debounce.begin(rule, payload, after: before, at: now.boot)
      let index = insertGuard(DebounceKind.self, key, machine, owner: owner, by: client)
      debounces[index].tokens.remember(token, of: .call, debounces[index].generation, at: now.boot)
      noteChange(DebounceKind.self, index)
      if let firing { publish(index, firing, isOver: false, at: now) }
      return DebounceView(debounces[index], at: now)
    }
    try checkWritable(debounces[index].owner)
    debounces[index].machine.call(rule, payload, at: now.boot)
    debounces[index].tokens.remember(token, of: .call, debounces[index].generation, at: now.boot)
    setOwner(of: DebounceKind.self, index, owner)
    noteChange(DebounceKind.self, index)
    // Fires if MAXWAIT is over; the quiet time cannot be.
    _ = DebounceKind.runDue(index, in: self, at: now)
    arm(DebounceKind.self, index)
    return DebounceView(debounces[index], at: now)
  }

  /// Ends a burst without firing. Returns false if there is none.
  package func cancelDebounce(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    try cancel(DebounceKind.self, key, generation: generation, at: now)
  }

  /// Fires at once. Returns false if no call waits.
  package func flushDebounce(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(DebounceKind.self, key, at: now) else { return false }
    try check(generation, against: debounces[index].generation)
    guard debounces[index].machine.waiting != nil else { return false }
    try checkWritable(debounces[index].owner)
    guard let firing = debounces[index].machine.flush(at: now.boot) else { return false }
    publish(index, firing, isOver: true, at: now)
    endGuard(DebounceKind.self, index, at: now)
    return true
  }

  fileprivate func publish(
    _ index: UInt32, _ firing: Debounce.Firing, isOver: Bool, at now: Moment
  ) {
    publish(
      DebounceKind.self, index, .fired, due: firing.due, reason: firing.edge, at: now
    ) {
      var view = isOver ? DebounceView(idle: $0, at: now) : DebounceView($0, at: now)
      view.calls = firing.calls
      view.payload = firing.payload
      return view
    }
  }
}
