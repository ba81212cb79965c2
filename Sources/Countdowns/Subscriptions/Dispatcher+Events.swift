import Wire

/// Delivers events from the engine's outbox to the sessions of subscribers.
extension Dispatcher {
  /// What one delivery may cost: 1 for each event, each receiver, and each short comparison with a
  /// pattern.
  private static let maximumPerDelivery = 2_048

  /// What the patterns of a connection may cost to compare, without being the cause of a delay.
  private static let maximumOrdinaryCost = 128

  /// With more bytes of undelivered events, whoever causes another has a part of them delivered.
  private static let maximumWaiting = 1 << 20

  var undeliveredLength: Int { engine.undeliveredLength + delivering.length }

  /// Whether events happen faster than they are delivered.
  var isBehind: Bool { undeliveredLength > Self.maximumWaiting }

  /// Whether no event waits to be delivered.
  var hasDeliveredAll: Bool { delivering.isEmpty && !engine.hasOutbox }

  /// Delivers the events in the outbox. Unless there are many or they are costly, this is all of
  /// them; `advance` delivers the others, in their order.
  func deliver() {
    // Most often there is nothing. Events that come during a delivery are delivered after it.
    guard delivering.isEmpty || deliversAtOnce || isBehind else { return }
    goOnDelivering()
  }

  func goOnDelivering() {
    guard !isDelivering else { return }
    isDelivering = true
    defer { isDelivering = false }
    var budget = deliversAtOnce ? Int.max : Self.maximumPerDelivery
    deliversAtOnce = false
    while budget > 0 {
      if delivering.isEmpty {
        guard engine.hasOutbox else { return }
        engine.exchangeOutbox(&delivering)
      }
      delivered = delivering.lendEach(from: delivered) { message, audience in
        guard budget > 0,
          let audience = audience === Audience.later
            ? findAudience(of: message, budget: &budget) : audience
        else { return false }
        budget -= 1
        if findTargets(audience) {
          budget -= targets.all.count
          send(message)
        }
        return true
      }
      targets = Targets()
      guard delivered == delivering.count else { break }
      delivering.removeAll()
      delivered = 0
    }
    limitUndelivered()
  }

  /// Continues looking for those who receive an event. Returns nil if the budget ran out first.
  private func findAudience(of message: Message, budget: inout Int) -> Audience? {
    var matching = self.matching ?? engine.subscriptions.beginMatching()
    self.matching = nil
    if let found = engine.subscriptions.audience(
      &matching, message.kind, message.key, budget: &budget)
    {
      return found
    }
    self.matching = matching
    return nil
  }

  /// Closes the connection whose patterns take the longest to compare, if events wait for them that
  /// take too much memory.
  private func limitUndelivered() {
    let length = undeliveredLength
    guard length > settings.maxOutput else { return }
    let costs = sessions.values.filter { !$0.isClosing }.map { session in
      (session, engine.subscriptions.matchingCost(of: session.client.connection))
    }
    guard let (slowest, cost) = costs.max(by: { $0.1 < $1.1 }), cost > Self.maximumOrdinaryCost
    else {
      return
    }
    drop(
      slowest,
      "its patterns take so long to compare that \(length) bytes of events wait for it, max-output "
        + "is \(settings.maxOutput)")
  }

  /// Sends more snapshots to a session that can take them. Returns whether there are more.
  package func continueSnapshots(for session: Session, budget: Int, at now: Moment) -> Bool {
    engine.continueSnapshots(to: session.client.connection, budget: budget, at: now)
    deliver()
    return engine.isSnapshotAwaited(by: session.client.connection)
  }

  /// Looks up the sessions of an audience. Returns false if none is open.
  private func findTargets(_ audience: Audience) -> Bool {
    if audience !== targets.audience { targets = Targets(audience, sessions) }
    return targets.all.contains { !$0.session.isClosing }
  }

  private func send(_ message: Message) {
    var place = -1
    var keys: [NamedKey]?
    for target in targets.all where !target.session.isClosing {
      if let rights = target.session.rights {
        guard rights.mayRead(message.kind, message.key) else { continue }
        if let line = rights.masked(message.line, of: message.kind, &keys) {
          frame.begin()
          place = -1
          send(message.with(line.span), pattern: target.pattern, to: target.session)
          continue
        }
      }
      // All who receive it by the same pattern share one frame.
      if target.place != place {
        frame.begin()
        place = target.place
      }
      send(message, pattern: target.pattern, to: target.session)
    }
  }

  private func send(_ message: Message, pattern: [UInt8]?, to session: Session) {
    statistics.eventsSent += 1
    frame.withBytes(session.output.version, message, pattern: pattern) { bytes in
      guard session.isBackedUp, message.canBeMerged else {
        return append(bytes, of: message, to: session)
      }
      let hasMerged = session.waitingTicks.put(
        Array(bytes), sequence: message.sequence, channel: message.channel,
        pattern: pattern ?? [])
      if hasMerged { statistics.ticksMerged += 1 }
    }
    closeIfFull(session, "events")
  }

  private func append(
    _ bytes: Span<UInt8>, of message: Message, to session: Session
  ) {
    // The event makes a tick that still waits wrong.
    if !session.waitingTicks.isEmpty {
      statistics.ticksMerged += Int64(session.waitingTicks.drop(message.channel))
    }
    if session.output.bytes.isEmpty { session.makeRoom() }
    session.output.bytes.append(contentsOf: bytes)
    touch(session)
  }
}

/// The sessions of an audience, looked up once for all successive events that they receive.
struct Targets {
  struct Target {
    let session: Session
    /// The pattern by which it receives events; nil for the channel itself.
    let pattern: [UInt8]?
    /// A number that is the same for all targets with the same pattern.
    let place: Int
  }

  private(set) var audience: Audience?
  private(set) var all: [Target] = []

  init() {}

  init(_ audience: Audience, _ sessions: [UInt64: Session]) {
    self.audience = audience
    for id in audience.subscribers {
      if let session = sessions[id] {
        all.append(Target(session: session, pattern: nil, place: 0))
      }
    }
    for (place, (pattern, subscribers)) in audience.patterns.enumerated() {
      for id in subscribers {
        if let session = sessions[id] {
          all.append(Target(session: session, pattern: pattern, place: place + 1))
        }
      }
    }
  }
}
