import CountdownCore

/// A pattern's new subscriber being told how everything that matches it is, bit by bit.
struct SnapshotWalk {
  let connection: UInt64
  let pattern: [UInt8]
  var kind: EntityKind
  var index: Int
}

extension Engine {
  // MARK: Channels

  /// The number of channels and patterns the connection is subscribed to afterwards.
  package mutating func subscribe(
    _ client: Client, to channel: [UInt8], at now: Moment
  ) throws(EngineError) -> Int {
    let isNew = !subscriptions.own(client.connection).channels.contains(channel)
    if isNew { try checkSubscriptions(of: client.connection) }
    _ = subscriptions.subscribe(client.connection, to: channel)
    return subscriptions.own(client.connection).count
  }

  package mutating func subscribe(
    _ client: Client, toPattern pattern: [UInt8]
  ) throws(EngineError) -> Int {
    let isNew = !subscriptions.own(client.connection).patterns.contains(pattern)
    if isNew {
      try checkSubscriptions(of: client.connection)
      _ = subscriptions.subscribe(client.connection, toPattern: pattern)
    }
    snapshotWalks.removeAll { $0.connection == client.connection && $0.pattern == pattern }
    snapshotWalks.append(
      SnapshotWalk(connection: client.connection, pattern: pattern, kind: .countdown, index: 0))
    return subscriptions.own(client.connection).count
  }

  package mutating func unsubscribe(_ connection: UInt64, from channel: [UInt8]) -> Int {
    subscriptions.unsubscribe(connection, from: channel)
    return subscriptions.own(connection).count
  }

  package mutating func unsubscribe(_ connection: UInt64, fromPattern pattern: [UInt8]) -> Int {
    subscriptions.unsubscribe(connection, fromPattern: pattern)
    snapshotWalks.removeAll { $0.connection == connection && $0.pattern == pattern }
    return subscriptions.own(connection).count
  }

  package func subscriptions(
    of connection: UInt64
  ) -> (channels: [[UInt8]], patterns: [[UInt8]]) {
    let own = subscriptions.own(connection)
    return (
      own.channels.sorted { $0.lexicographicallyPrecedes($1) },
      own.patterns.sorted { $0.lexicographicallyPrecedes($1) }
    )
  }

  package func subscriptionCount(of connection: UInt64) -> Int {
    subscriptions.own(connection).count
  }

  package func subscriberCount(of channel: [UInt8]) -> Int {
    subscriptions.subscriberCount(of: channel)
  }

  package var patternCount: Int { subscriptions.patternCount }
  package var channelCount: Int { subscriptions.channelCount }

  package func channelNames(matching pattern: [UInt8]?) -> [[UInt8]] {
    subscriptions.channelNames(matching: pattern)
  }

  private func checkSubscriptions(of connection: UInt64) throws(EngineError) {
    guard subscriptions.own(connection).count < settings.limits.subscriptions else {
      throw .limit(name: "max-subscriptions", value: settings.limits.subscriptions)
    }
  }

  // MARK: Snapshots

  /// Tells a new subscriber of a channel how things are, before anything else happens to them;
  /// from now on its ticks count. Nothing for a channel that is about no entity.
  package mutating func snapshot(
    of channel: [UInt8], to connection: UInt64, at now: Moment
  ) {
    guard let (kind, key) = Subscriptions.parse(channel) else { return }
    let found = key.withUnsafeBytes { sendSnapshot(kind, $0, to: connection, at: now) }
    guard !found else { return }
    sendSnapshot(
      .nothing(kind, key: key, nowUnixMS: now.wall.microseconds / 1_000), Generation(0), kind,
      key, to: connection, pattern: nil)
  }

  private mutating func sendSnapshot(
    _ kind: EntityKind, _ key: UnsafeRawBufferPointer, to connection: UInt64, at now: Moment
  ) -> Bool {
    // Asking for the view makes happen what is due.
    let index: UInt32?
    switch kind {
    case .countdown: index = countdown(key, at: now) == nil ? nil : countdowns.find(key)
    case .hud: index = hud(key, level: nil, at: now) == nil ? nil : huds.find(key)
    case .timer: index = timer(key, at: now) == nil ? nil : timers.find(key)
    }
    guard let index else { return false }
    sendSnapshot(EntityRef(kind, index), to: connection, pattern: nil, at: now)
    return true
  }

  private mutating func sendSnapshot(
    _ entity: EntityRef, to connection: UInt64, pattern: [UInt8]?, at now: Moment
  ) {
    switch entity.kind {
    case .countdown:
      armCountdown(entity.index, at: now)
      let view = CountdownView(countdowns[entity.index], at: now)
      sendSnapshot(
        .countdown(view), view.generation, .countdown, view.key, to: connection, pattern: pattern)
    case .hud:
      for (level, machine) in huds[entity.index].presentations {
        let view = HUDView(huds[entity.index].key, level, machine, at: now)
        sendSnapshot(
          .hud(view), view.generation, .hud, view.key, to: connection, pattern: pattern)
      }
    case .timer:
      let view = TimerView(timers[entity.index], at: now)
      sendSnapshot(
        .timer(view), view.generation, .timer, view.key, to: connection, pattern: pattern)
    }
  }

  /// Connections that have patterns whose snapshots are not complete.
  package var connectionsAwaitingSnapshots: [UInt64] { snapshotWalks.map(\.connection) }

  /// Goes on telling a connection about what matches its new patterns. O(budget).
  package mutating func continueSnapshots(
    to connection: UInt64, budget: Int, at now: Moment
  ) {
    guard let position = snapshotWalks.firstIndex(where: { $0.connection == connection })
    else { return }
    for _ in 0..<budget {
      let walk = snapshotWalks[position]
      guard walk.index < indexEnd(walk.kind) else {
        guard let next = EntityKind(rawValue: walk.kind.rawValue + 1) else {
          snapshotWalks.remove(at: position)
          return
        }
        snapshotWalks[position].kind = next
        snapshotWalks[position].index = 0
        continue
      }
      snapshotWalks[position].index += 1
      guard let key = key(walk.kind, at: walk.index),
        Glob.matches(walk.pattern, walk.kind.channelPrefix + key)
      else { continue }
      sendSnapshot(
        EntityRef(walk.kind, UInt32(walk.index)), to: connection, pattern: walk.pattern, at: now)
    }
  }

  private func indexEnd(_ kind: EntityKind) -> Int {
    switch kind {
    case .countdown: countdowns.indexEnd
    case .hud: huds.indexEnd
    case .timer: timers.indexEnd
    }
  }

  private func key(_ kind: EntityKind, at index: Int) -> [UInt8]? {
    switch kind {
    case .countdown: countdowns.entity(at: index)?.key
    case .hud: huds.entity(at: index)?.key
    case .timer: timers.entity(at: index)?.key
    }
  }
}
