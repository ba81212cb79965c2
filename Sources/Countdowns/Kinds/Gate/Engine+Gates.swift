/// What GATE CHECK says, beyond the session.
package struct GateCheck: Sendable {
  package var action: Gate.Action
  /// How long the action is kept.
  package var ttl: Interval
  /// If not, it may always run.
  package var isRequired = true
  package var owner = Owner.none

  package init(_ action: Gate.Action, ttl: Interval) {
    self.action = action
    self.ttl = ttl
  }
}

extension Engine {
  // MARK: Commands

  /// Whether the action may run now; else it is kept until the session opens.
  package func checkGate(
    _ session: UnsafeRawBufferPointer, _ check: GateCheck, by client: Client, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: GateView) {
    let found = settledGuard(.gate, session, at: now)
    if let found, !check.isRequired || guards[found].gate.isOpen {
      return (true, GateView(guards[found], at: now))
    }
    guard check.isRequired else { return (true, GateView(closed: Array(session), at: now)) }
    try checkWritable(check.owner)
    guard let entity = found else {
      try checkLimits(client)
      let gate = Gate(waitingFor: check.action, for: check.ttl, at: now.boot)
      let entity = insertGuard(session, .gate(gate), owner: check.owner, by: client)
      publish(entity, .pending, at: now)
      return (false, GateView(guards[entity], at: now))
    }
    try checkWritable(guards[entity].owner)
    let old = GuardView(idle: guards[entity], at: now)
    publish(entity, .dismissed, reason: .replaced, of: old, at: now)
    _ = guards[entity].gate.check(check.action, for: check.ttl, at: now.boot)
    guards[entity].generation = newGeneration()
    setOwner(ofGuard: entity, check.owner)
    armGuard(entity)
    publish(entity, .pending, at: now)
    return (false, GateView(guards[entity], at: now))
  }

  /// The session is open, for good without a TTL. What was waiting for it is run, once.
  package func openGate(
    _ session: UnsafeRawBufferPointer, for ttl: Interval?, by client: Client, at now: Moment
  ) throws(EngineError) -> GateView {
    try checkWritable(.none)
    guard let entity = settledGuard(.gate, session, at: now) else {
      try checkLimits(client)
      let gate = Gate(openFor: ttl, at: now.boot)
      let entity = insertGuard(session, .gate(gate), owner: .none, by: client)
      publish(entity, .opened, at: now)
      return GateView(guards[entity], at: now)
    }
    let before = guards[entity].generation
    let action = guards[entity].gate.open(for: ttl, at: now.boot)
    guards[entity].generation = newGeneration()
    setOwner(ofGuard: entity, .none)
    armGuard(entity)
    publish(entity, .opened, at: now)
    let view = GateView(guards[entity], at: now)
    if let action {
      var running = view
      running.generation = before
      running.action = action.name
      running.payload = action.payload
      publish(entity, .run, before, of: .gate(running), at: now)
    }
    return view
  }

  /// Drops the action that waits; false if none does.
  package func cancelGate(
    _ session: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let entity = settledGuard(.gate, session, at: now), !guards[entity].gate.isOpen else {
      return false
    }
    return try cancelGuard(.gate, session, generation: generation, at: now)
  }

  /// Closes the session; false if it is not open.
  package func closeGate(
    _ session: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let entity = settledGuard(.gate, session, at: now), guards[entity].gate.isOpen else {
      return false
    }
    try check(generation, against: guards[entity].generation)
    try checkWritable(.none)
    close(entity, due: nil, at: now)
    return true
  }

  package func gate(_ session: UnsafeRawBufferPointer, at now: Moment) -> GateView? {
    settledGuard(.gate, session, at: now).map { GateView(guards[$0], at: now) }
  }

  package func listGates(_ query: ListQuery, at now: Moment) -> Page<GateView> {
    listGuards(.gate, query, at: now) { GateView($0, at: now) }
  }

  // MARK: Time

  func expireGate(_ entity: EntityRef, at now: Moment) {
    switch guards[entity].gate.expiry(at: now.boot) {
    case .dropped(_, let due):
      statistics.record(late: (now.boot - due).microseconds)
      let idle = GuardView(idle: guards[entity], at: now)
      publish(entity, .dismissed, due: due, reason: .expired, of: idle, at: now)
      removeGuard(entity)
    case .closed(let due):
      statistics.record(late: (now.boot - due).microseconds)
      close(entity, due: due, at: now)
    case nil:
      break
    }
  }

  private func close(_ entity: EntityRef, due: Instant?, at now: Moment) {
    let idle = GuardView(idle: guards[entity], at: now)
    publish(entity, .closed, due: due, reason: due == nil ? nil : .expired, of: idle, at: now)
    removeGuard(entity)
  }
}
