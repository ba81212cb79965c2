/// Gates: an action runs now if the session is open, otherwise once it opens, on one connection.
enum GateKind: GuardKind {
  typealias Machine = Gate
  typealias View = GateView

  static let kind = EntityKind.gate
  static let name: StaticString = "gate"
  static let keyName = "session"
  static let stateOfNothing: StaticString = "closed"
  static let endEvent = Event.Name.dismissed

  static func store(of engine: Engine) -> EntityTable<GuardEntity<Gate>> { engine.gates }

  static func endedView(of entity: Entity, at now: Moment) -> GateView {
    var view = GateView(closed: entity.key, entity.generation, at: now)
    view.owner = entity.owner
    // The action that will not run.
    view.action = entity.machine.pending?.name
    view.payload = entity.machine.pending?.payload
    return view
  }

  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    while let expiry = engine.gates[index].machine.expiry(at: now.boot) {
      switch expiry {
      case .dropped(_, let due):
        engine.statistics.record(late: (now.boot - due).microseconds)
        engine.publish(Self.self, index, .dismissed, due: due, reason: .expired, at: now) {
          endedView(of: $0, at: now)
        }
        return engine.remove(Self.self, index)
      case .notTaken(_, let due):
        engine.statistics.record(late: (now.boot - due).microseconds)
        engine.publish(Self.self, index, .dismissed, due: due, reason: .expired, at: now)
        engine.gates[index].machine.endRun()
      case .closed(let due):
        engine.statistics.record(late: (now.boot - due).microseconds)
        return engine.close(index, due: due, at: now)
      }
    }
  }

  static func ownerGone(_ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment) {
    guard let entity = engine.gates.entity(at: index) else { return }
    if entity.owner == owner { return end(index, .ownerGone, in: engine, at: now) }
    if runDue(index, in: engine, at: now) { engine.arm(Self.self, index) }
  }

  /// Lets another connection take the action if the one that ran it has closed.
  static func releaseAbsent(_ index: UInt32, in engine: Engine, at now: Moment) {
    guard let run = engine.gates[index].machine.run, let taker = run.taker,
      !engine.connections.isAlive(connection: taker)
    else { return }
    engine.gates[index].machine.release()
    if run.until <= now.boot {
      engine.publish(Self.self, index, .dismissed, reason: .expired, at: now)
      engine.gates[index].machine.endRun()
    } else if engine.gates[index].machine.expiry(at: now.boot) == nil {
      engine.publish(Self.self, index, .run, at: now)
    }
    engine.arm(Self.self, index)
  }
}

/// The arguments of GATE CHECK beyond the session.
package struct GateCheck: Sendable {
  package var action: Gate.Action
  /// How long the action stays pending.
  package var ttl: Interval
  /// Whether the action needs a login; if not, it may always run.
  package var isRequired = true
  package var owner = Owner.none

  package init(_ action: Gate.Action, ttl: Interval) {
    self.action = action
    self.ttl = ttl
  }
}

extension Engine {
  // MARK: Commands

  /// Returns whether the action may run now; otherwise it is pending until the session opens.
  package func checkGate(
    _ session: Span<UInt8>, _ check: GateCheck, by client: Client, at now: Moment
  ) throws(EngineError) -> (isAccepted: Bool, view: GateView) {
    let found = current(GateKind.self, session, at: now)
    if let found, !check.isRequired || gates[found].machine.isOpen {
      return (true, GateView(gates[found], at: now))
    }
    guard check.isRequired else { return (true, GateView(closed: Array(session), at: now)) }
    try checkWritable(check.owner)
    guard let index = found else {
      try checkLimits(client)
      let gate = Gate(waitingFor: check.action, for: check.ttl, at: now.boot)
      let index = insertGuard(GateKind.self, session, gate, owner: check.owner, by: client)
      publish(GateKind.self, index, .pending, at: now)
      return (false, GateView(gates[index], at: now))
    }
    try checkWritable(gates[index].owner)
    publish(GateKind.self, index, .dismissed, reason: .replaced, at: now) {
      GateKind.endedView(of: $0, at: now)
    }
    _ = gates[index].machine.check(check.action, for: check.ttl, at: now.boot)
    gates[index].generation = newGeneration()
    setOwner(of: GateKind.self, index, check.owner)
    arm(GateKind.self, index)
    publish(GateKind.self, index, .pending, at: now)
    return (false, GateView(gates[index], at: now))
  }

  /// Opens the session for `ttl`, or until CLOSE if nil. The pending action is to run once; it
  /// keeps its generation.
  package func openGate(
    _ session: Span<UInt8>, for ttl: Interval?, by client: Client, at now: Moment
  ) throws(EngineError) -> GateView {
    try checkWritable(.none)
    guard let index = current(GateKind.self, session, at: now) else {
      try checkLimits(client)
      let gate = Gate(openFor: ttl, at: now.boot)
      let index = insertGuard(GateKind.self, session, gate, owner: .none, by: client)
      publish(GateKind.self, index, .opened, at: now)
      return GateView(gates[index], at: now)
    }
    let wasPending = gates[index].machine.open(for: ttl, at: now.boot) != nil
    if gates[index].machine.run == nil { gates[index].generation = newGeneration() }
    setOwner(of: GateKind.self, index, .none)
    arm(GateKind.self, index)
    publish(GateKind.self, index, .opened, at: now)
    if wasPending { publish(GateKind.self, index, .run, at: now) }
    return GateView(gates[index], at: now)
  }

  /// Gives the action of an open session to the connection that asks, until DONE or until that
  /// connection closes.
  package func takeGate(
    _ session: Span<UInt8>, generation: Generation?, by client: Client, at now: Moment
  ) throws(EngineError) -> (refusal: Reason?, view: GateView) {
    guard let index = current(GateKind.self, session, at: now) else {
      return (.noAction, GateView(closed: Array(session), at: now))
    }
    try check(generation, against: gates[index].generation)
    var gate = gates[index].machine
    let refusal = gate.take(by: client.connection)
    guard gate != gates[index].machine else { return (refusal, GateView(gates[index], at: now)) }
    try checkWritable(.none)
    gates[index].machine = gate
    connections.own(EntityRef(.gate, index), .connection(client.connection))
    arm(GateKind.self, index)
    publish(GateKind.self, index, .taken, at: now)
    return (nil, GateView(gates[index], at: now))
  }

  /// Marks the action as done. Returns false if there is none, or another connection runs it.
  package func finishGate(
    _ session: Span<UInt8>, generation: Generation?, by client: Client, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(GateKind.self, session, at: now),
      let run = gates[index].machine.run
    else { return false }
    try check(generation, against: gates[index].generation)
    guard run.taker == nil || run.taker == client.connection else { return false }
    try checkWritable(.none)
    publish(GateKind.self, index, .done, at: now)
    endRun(index)
    arm(GateKind.self, index)
    return true
  }

  private func endRun(_ index: UInt32) {
    if let taker = gates[index].machine.run?.taker {
      connections.disown(EntityRef(.gate, index), .connection(taker))
    }
    gates[index].machine.endRun()
  }

  /// Drops the pending action. Returns false if there is none.
  package func cancelGate(
    _ session: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(GateKind.self, session, at: now), !gates[index].machine.isOpen else {
      return false
    }
    return try cancel(GateKind.self, session, generation: generation, at: now)
  }

  /// Closes the session. Returns false if it is not open.
  package func closeGate(
    _ session: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(GateKind.self, session, at: now), gates[index].machine.isOpen else {
      return false
    }
    try check(generation, against: gates[index].generation)
    try checkWritable(.none)
    close(index, due: nil, at: now)
    return true
  }

  fileprivate func close(_ index: UInt32, due: Instant?, at now: Moment) {
    if let run = gates[index].machine.run {
      if run.taker == nil {
        publish(GateKind.self, index, .dismissed, due: due, reason: .closed, at: now)
      }
      endRun(index)
    }
    publish(
      GateKind.self, index, .closed, due: due, reason: due == nil ? nil : .expired, at: now
    ) { GateKind.endedView(of: $0, at: now) }
    remove(GateKind.self, index)
  }
}
