/// A kind that daemons can share. Each daemon has copies of all shared entities, for listings,
/// snapshots and ticks. A copy changes only with its record.
protocol SharedKind: Kind {
  /// Removes an entity without an event.
  static func forget(_ index: UInt32, in engine: Engine)
  /// Whether an event of a shared entity goes to the event log.
  static func logs(_ event: Event.Name) -> Bool
  /// Whether its events are read from the servers' streams, for `EVENTS SINCE`.
  static var isInHistory: Bool { get }
  /// Whether hosts change an entity in turns, as many clients use it at once.
  static var takesTurns: Bool { get }
  /// Whether the loss of a record matters for longer, as `blockedUntil` says.
  static var canBlock: Bool { get }
  /// The kinds that decisions about it look at copies of.
  static var askedKinds: [EntityKind] { get }
  /// Returns the name of the policy in force.
  static func policy(_ index: UInt32, in engine: Engine) -> String?
  /// Returns the newest number that an entity has from the engine: later ones must be higher.
  static func newestNumber(_ index: UInt32, in engine: Engine) -> Int64
  /// Adds what was stored besides an entity that joins a fleet. Returns false if it is not its own.
  static func adopt(
    _ pages: [ArraySlice<UInt8>], _ index: UInt32, offset: Int64, in engine: Engine
  ) -> Bool
  /// Returns the end of an entity's cooldown, or of the refill of its limit.
  static func blockedUntil(_ index: UInt32, in engine: Engine, at now: Moment) -> Instant?
  /// Handles the alarm of a copy.
  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment)
  /// Ends the entity of a key, as a user would. Returns whether there was one.
  static func end(
    _ key: Span<UInt8>, in engine: Engine, at now: Moment
  ) throws(EngineError) -> Bool
}

extension SharedKind {
  static var isInHistory: Bool { true }
  static var takesTurns: Bool { false }
  static var canBlock: Bool { false }
  static var askedKinds: [EntityKind] { [] }
  static func policy(_ index: UInt32, in engine: Engine) -> String? { nil }
  static func newestNumber(_ index: UInt32, in engine: Engine) -> Int64 {
    store(of: engine).generation(index)?.value ?? 0
  }
  static func adopt(
    _ pages: [ArraySlice<UInt8>], _ index: UInt32, offset: Int64, in engine: Engine
  ) -> Bool { false }
  static func blockedUntil(_ index: UInt32, in engine: Engine, at now: Moment) -> Instant? { nil }

  static func fleetKey(_ index: UInt32, in engine: Engine) -> FleetKey {
    FleetKey(kind, store(of: engine).key(index))
  }
}

extension ExpiringKind where Self: SharedKind {
  static func forget(_ index: UInt32, in engine: Engine) { engine.remove(Self.self, index) }

  static func expireCopy(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    table(of: engine)[index].alarm = nil
    engine.copyIsDue(fleetKey(index, in: engine))
  }
}

extension Engine {
  func copyIsDue(_ key: FleetKey) { context.copies?.isDue(key.kind, key.key) }

  func expireCopy(_ entity: EntityRef, due: Instant, at now: Moment) {
    entity.kind.shared?.expireCopy(entity.index, due: due, in: self, at: now)
  }

  /// Replaces a copy. Removes it if the record is nil or cannot be read; then returns false.
  ///
  /// - Parameter offset: how far the record's clock is ahead of the boot clock, in microseconds.
  func setCopy(_ key: FleetKey, _ record: [UInt8]?, offset: Int64, at now: Moment) -> Bool {
    guard let kind = key.kind.shared else { return true }
    let store = store(of: key.kind)
    let old = store.find(key.key.span)
    if let old { kind.forget(old, in: self) }
    guard let record else { return true }
    // At the index of the old copy, so that a listing under way has the entity once.
    let index = old ?? store.freeIndex
    // A record that cannot be read is reported to whoever asks for its key; see `Workbench`.
    do throws(EntityRecord.Problem) {
      try kind.restore(record[...], at: index, offset: offset, in: self, at: now)
      return true
    } catch {
      return false
    }
  }

  /// Returns until when an entity is blocked, on the boot clock; nil for kinds that are not.
  func blockedUntil(_ key: FleetKey, at now: Moment) -> Int64? {
    store(of: key.kind).find(key.key.span).flatMap {
      key.kind.shared?.blockedUntil($0, in: self, at: now)?.microseconds
    }
  }

  /// Publishes events of shared entities, as written by the daemon that caused them.
  ///
  /// - Parameter position: returns the position of an event, by its index in its stream's entry.
  func publishShared(_ events: [UInt8], position: (Int) -> String? = { _ in nil }) {
    var index = 0
    _ = EventCoding.forEach(events) { event in
      let sequence = newSequence()
      let audience = self.audience(event.kind, event.key.span)
      let place = audience == nil ? nil : position(index)
      index += 1
      guard let name = event.name, let line = event.encoded(as: sequence, position: place) else {
        return false
      }
      let isLogged = eventLog.isOn && event.kind.shared?.logs(name) ?? name.changesState
      if isLogged {
        if let copies = context.copies, !copies.areLogged {
          copies.unloggedThrough = sequence
        } else {
          eventLog.append(event, as: sequence)
        }
      }
      if let audience {
        statistics.publications += 1
        outbox.append(
          event.kind, event.key.span, sequence, canBeMerged: name.canBeMerged, to: audience
        ) { $0.fields(of: line.span) }
      }
      return true
    }
  }

  /// Sends new snapshots to all subscribers of shared kinds, as they may have missed events.
  func sendSnapshotsAgain(of kinds: KindSet, at now: Moment) {
    for (connection, own) in subscriptions.all {
      for channel in own.channels {
        guard let (kind, _) = Subscriptions.parse(channel), kinds.contains(kind) else { continue }
        snapshot(of: channel, to: connection, at: now)
      }
      for pattern in own.patterns {
        snapshotWalks[connection, default: SnapshotWalks()].begin(pattern)
      }
    }
  }
}
