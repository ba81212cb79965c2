enum CountdownKind: SharedKind {
  static let kind = EntityKind.countdown
  static let name: StaticString = "countdown"
  static let stateOfNothing: StaticString = "idle"

  static func store(of engine: Engine) -> CountdownStore { engine.stores.countdowns }

  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> CountdownView {
    engine.countdownView(index, at: now)
  }

  /// Returns the view, and arms the next tick for the new subscriber.
  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [CountdownView] {
    engine.armCountdown(index, at: now)
    return [engine.countdownView(index, at: now)]
  }

  static func alarmFired(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.countdowns.timers[index] = nil
    engine.expireCountdown(index, due: due, at: now)
  }

  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    if engine.context.copiedKinds.contains(.countdown) { return engine.countdowns.contains(index) }
    return engine.runDue(countdown: index, at: now)
  }

  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment
  ) {
    if engine.countdowns.contains(index), engine.countdowns.owner(index) == owner {
      engine.cancelCountdown(index, reason: .ownerGone, at: now)
    }
  }

  // MARK: Sharing

  static func end(
    _ key: Span<UInt8>, in engine: Engine, at now: Moment
  ) throws(EngineError) -> Bool {
    try engine.cancelCountdown(key, generation: nil, at: now)
  }

  static func forget(_ index: UInt32, in engine: Engine) { engine.removeCountdown(index) }

  static func logs(_ event: Event.Name) -> Bool { event.changesState }

  static let canBlock = true
  static let askedKinds = [EntityKind.throttle]

  static func policy(_ index: UInt32, in engine: Engine) -> String? {
    engine.policyInForce(index)?.policy.name
  }

  static func blockedUntil(_ index: UInt32, in engine: Engine, at now: Moment) -> Instant? {
    now.boot + engine.countdowns.machine(index).remainingTime(at: now.boot)
  }

  /// Publishes a tick, as every host does by itself. Anything else happens once, for all hosts.
  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.countdowns.timers[index] = nil
    var machine = engine.countdowns.machine(index)
    let code = engine.countdowns.sending(index)?.record.nextCodeExpiry
    guard code.map({ $0 > now.boot }) ?? true,
      machine.expire(at: now.boot, kept: .longest) == .tick
    else { return engine.copyIsDue(fleetKey(index, in: engine)) }
    if engine.isWatched(countdown: index) {
      engine.statistics.record(late: (now.boot - due).microseconds)
      engine.publish(countdown: index, machine, due: due, at: now)
    }
    engine.armCountdown(index, at: now)
  }
}
