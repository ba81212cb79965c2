/// A kind that daemons can share. Each has copies of all that is shared: for listings, snapshots
/// and ticks. Nothing changes a copy but what the servers say.
protocol SharedKind: DurableKind where Record: SharedRecord {
  /// Where a new one can be.
  static func freeIndex(in engine: Engine) -> UInt32
  /// Forgets it, without an event.
  static func forget(_ index: UInt32, in engine: Engine)
  /// Its alarm has gone off.
  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment)
}

protocol SharedRecord: StoredRecord {
  var generation: Generation { get }
}

extension DurableCountdown: SharedRecord {}
extension DurableTimer: SharedRecord {}
extension DurableGuard: SharedRecord {}

extension SharedKind {
  /// Puts a record there; false if it is none.
  static func restore(
    _ bytes: [UInt8], at index: UInt32, offset: Int64, in engine: Engine, at now: Moment
  ) -> Bool {
    guard let record = Record(bytes: bytes, offset: offset), record.kind == kind,
      find(record.key.span, in: engine) == nil
    else { return false }
    // Generations rise, also if the clock that they come from was set back.
    if engine.decidesForFleet { engine.raiseNumbers(to: record.generation.value) }
    return record.restore(in: engine, at: index, now: now)
  }

  static func key(_ index: UInt32, in engine: Engine, at now: Moment) -> FleetKey {
    FleetKey(kind, entry(at: index, in: engine, now: now)!.key)
  }
}

extension ExpiringKind where Self: SharedKind {
  static func freeIndex(in engine: Engine) -> UInt32 { table(of: engine).freeIndex }
  static func forget(_ index: UInt32, in engine: Engine) { engine.remove(Self.self, index) }

  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    table(of: engine)[index].alarm = nil
    engine.copyIsDue(key(index, in: engine, at: now))
  }
}

extension CountdownKind {
  static func freeIndex(in engine: Engine) -> UInt32 { engine.countdowns.freeIndex }
  static func forget(_ index: UInt32, in engine: Engine) { engine.removeCountdown(index) }

  /// Steps end everywhere by themselves; all else happens once, for all hosts.
  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.countdowns.timers[index] = nil
    var machine = engine.countdowns.machine(index)
    let code = engine.countdowns.sending(index)?.record.nextCodeExpiry
    guard code.map({ $0 > now.boot }) ?? true,
      machine.expire(at: now.boot, kept: .longest) == .tick
    else { return engine.copyIsDue(key(index, in: engine, at: now)) }
    if engine.isWatched(countdown: index) {
      engine.statistics.record(late: (now.boot - due).microseconds)
      engine.publish(countdown: index, machine, due: due, at: now)
    }
    engine.armCountdown(index, at: now)
  }
}

extension Engine {
  func expireCopy(_ entity: EntityRef, due: Instant, at now: Moment) {
    entity.kind.shared?.expireCopy(entity.index, due: due, in: self, at: now)
  }

  /// Replaces a copy; with nil, or with what is no record, there is none any more.
  ///
  /// - Parameter offset: the record's clock is this many microseconds ahead of the boot clock.
  func setCopy(_ key: FleetKey, _ record: [UInt8]?, offset: Int64, at now: Moment) {
    guard let kind = key.kind.shared else { return }
    let old = kind.find(key.key.span, in: self)
    if let old { kind.forget(old, in: self) }
    guard let record else { return }
    // In the place of the old one: a listing that is under way meets it once.
    let index = old ?? kind.freeIndex(in: self)
    _ = kind.restore(record, at: index, offset: offset, in: self, at: now)
  }

  /// What happened to something that is shared, as the daemon where it happened has written it.
  func publishShared(_ events: [UInt8]) {
    _ = EventCoding.forEach(events) { event in
      let sequence = newSequence()
      let audience = self.audience(event.kind, event.key.span)
      guard let name = event.name, let line = event.encoded(as: sequence) else { return false }
      let isLogged = eventLog.isOn && event.kind != .throttle && name.tellsOfChange
      if isLogged { eventLog.append(event, as: sequence) }
      if let audience {
        statistics.publications += 1
        outbox.append(
          WrittenEvent(
            kind: event.kind, key: event.key, sequence: sequence,
            canBeMerged: name.canBeMerged, line: line, audience: audience))
      }
      return true
    }
  }

  /// The state of what they listen to, for all who do: events between may be missing.
  func sendSnapshotsAgain(of kinds: KindSet, at now: Moment) {
    for (connection, channels, patterns) in subscriptions.all {
      for channel in channels {
        guard let (kind, _) = Subscriptions.parse(channel), kinds.contains(kind) else { continue }
        snapshot(of: channel, to: connection, at: now)
      }
      for pattern in patterns { snapshotWalks[connection, default: SnapshotWalks()].begin(pattern) }
    }
  }
}
