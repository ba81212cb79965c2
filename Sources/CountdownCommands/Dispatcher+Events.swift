import CountdownEngine

/// From the engine's outbox to the sessions of those who listen.
extension Dispatcher {
  /// Takes events from the engine to those who listen.
  func deliver() {
    // What comes up while something is delivered is delivered after it.
    guard delivering.isEmpty else { return }
    while engine.hasOutbox {
      engine.exchangeOutbox(&delivering)
      delivering.forEach {
        deliver($0)
      } timed: { event, key, title, audience in
        line.begin()
        event.write(key: key, title: title, to: &line)
        send(Message(event, key: key, payload: line.finish()), to: audience)
      }
      delivering.removeAll()
    }
  }

  private func deliver(_ publication: Publication) {
    line.begin()
    publication.event.write(to: &line)
    let payload = line.finish()
    publication.key.withUnsafeBytes { key in
      let message = Message(
        publication, key: key, payload: payload,
        isUncertainSnapshot: isUncertainSnapshot(publication))
      send(message, to: publication.audience)
    }
  }

  private func send(_ message: Message, to audience: Audience) {
    if !audience.subscribers.isEmpty { send(message, to: audience.subscribers, pattern: nil) }
    for (pattern, subscribers) in audience.patterns {
      pattern.withUnsafeBytes { send(message, to: subscribers, pattern: $0) }
    }
  }

  private func send(
    _ message: Message, to connections: [UInt64], pattern: UnsafeRawBufferPointer?
  ) {
    frame.begin()
    for id in connections {
      guard let session = sessions[id], !session.isClosing else { continue }
      let bytes = frame.bytes(session.output.version, message, pattern: pattern)
      statistics.eventsSent += 1
      if session.isBackedUp, message.canBeMerged {
        let hasMerged = session.waitingTicks.put(
          Array(bytes), sequence: message.sequence, channel: message.channel,
          pattern: pattern.map { Array($0) } ?? [])
        if hasMerged { statistics.ticksMerged += 1 }
      } else {
        append(bytes, of: message, to: session, isByPattern: pattern != nil)
      }
      closeIfFull(session, "events")
    }
  }

  private func append(
    _ bytes: UnsafeRawBufferPointer, of message: Message, to session: Session, isByPattern: Bool
  ) {
    // What happens now makes a tick that still waits wrong.
    if !session.waitingTicks.isEmpty {
      statistics.ticksMerged += Int64(session.waitingTicks.drop(message.channel))
    }
    let start = session.output.bytes.count
    if start == 0 { session.makeRoom() }
    session.output.bytes.append(contentsOf: bytes)
    if message.isProvisional { session.noteProvisionalEvent(from: start) }
    if message.isUncertainSnapshot, !isByPattern {
      session.provisionalSnapshots.append(.channel(message.channel))
    }
    touch(session)
  }
}
