import Wire

/// From the engine's outbox to the sessions of those who listen.
extension Dispatcher {
  /// Takes events from the engine to those who listen.
  func deliver() {
    // Most often there is nothing. What comes up while something is delivered is delivered after
    // it.
    guard engine.hasOutbox, delivering.isEmpty else { return }
    while engine.hasOutbox {
      engine.exchangeOutbox(&delivering)
      delivering.forEach {
        deliver($0)
      } timed: { event, key, title, audience in
        guard findTargets(audience) else { return }
        line.begin()
        event.write(key: key, title: title, to: &line)
        line.finish { send(Message(event, key: key, payload: $0)) }
      } written: { event in
        guard findTargets(event.audience) else { return }
        send(Message(event, key: event.key.span, payload: event.line.span))
      }
      delivering.removeAll()
      targets = Targets()
    }
  }

  /// Continues the snapshots of a session that can take more; returns whether there are more.
  package func continueSnapshots(for session: Session, budget: Int, at now: Moment) -> Bool {
    engine.continueSnapshots(to: session.client.connection, budget: budget, at: now)
    deliver()
    return engine.isSnapshotAwaited(by: session.client.connection)
  }

  private func deliver(_ publication: Publication) {
    guard findTargets(publication.audience) else { return }
    line.begin()
    publication.event.write(to: &line)
    line.finish { payload in
      send(Message(publication, key: publication.key.span, payload: payload))
    }
  }

  /// Looks up who is to get what comes next; false if nobody is, so that nothing need be written.
  private func findTargets(_ audience: Audience) -> Bool {
    if audience !== targets.audience { targets = Targets(audience, sessions) }
    return targets.all.contains { !$0.session.isClosing }
  }

  private func send(_ message: Message) {
    var place = -1
    for target in targets.all where !target.session.isClosing {
      // One frame does for all who get it by the same pattern.
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
    // What happens now makes a tick that still waits wrong.
    if !session.waitingTicks.isEmpty {
      statistics.ticksMerged += Int64(session.waitingTicks.drop(message.channel))
    }
    if session.output.bytes.isEmpty { session.makeRoom() }
    session.output.bytes.append(contentsOf: bytes)
    touch(session)
  }
}

/// The sessions of an audience, looked up once for all events in a row that it gets.
struct Targets {
  struct Target {
    let session: Session
    /// What it gets them by; nil for the channel itself.
    let pattern: [UInt8]?
    /// The same for all who get them by the same.
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
