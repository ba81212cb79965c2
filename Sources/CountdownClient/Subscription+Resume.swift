import Wire

/// What was missed while there was no connection is read from the daemon's tail of events: the
/// subscriptions come first, then the question, so that nothing falls between; what comes twice is
/// known by its number. All of it on the event loop, in the order of what the daemon says.
extension Subscription {
  /// Asks for what has happened since the last event that was handed on; the first time, from where
  /// to ask later.
  func resume(_ connection: Connection) {
    let position = state.withLock { $0.position }
    let question =
      position.map { ["EVENTS", "SINCE", String($0), "SUBSCRIBED"] } ?? ["EVENTS", "LAST"]
    // Where the connection breaks before the answer comes, the next one asks again.
    connection.pipeline([question])[0].whenSuccess { [weak self] reply in
      self?.resume(connection, reply)
    }
  }

  private func resume(_ connection: Connection, _ reply: RESPValue) {
    switch reply {
    case .integer(let last):
      state.withLock { $0.position = max($0.position ?? 0, last) }
      becomeLive()
    case .error(let text) where !text.contains("unknown command"):
      refused(text)
      // The answer to what was asked is still to come, to nobody: a new connection asks again.
      return abandon()
    case .error:
      // A daemon without a tail.
      let isBack = state.withLock { $0.held != nil }
      becomeLive()
      if isBack { put(CountdownEvent(connection: .gap)) }
    default:
      do {
        let page = try MissedEvents(reply)
        becomeLive()
        if !page.isComplete { put(CountdownEvent(connection: .gap)) }
        replay(page)
        if page.hasMore { return resume(connection) }
      } catch {
        return finish(throwing: error)
      }
    }
    release()
  }

  private func becomeLive() {
    let isBack = state.withLock { state in
      let isBack = state.hasBeenLive && !state.isLive
      state.isLive = true
      state.hasBeenLive = true
      return isBack
    }
    if isBack { put(CountdownEvent(connection: .resubscribed)) }
  }

  private func replay(_ page: MissedEvents) {
    let (held, fresh) = state.withLock { state in
      (Set((state.held ?? []).filter { $0.name != .snapshot }.compactMap(\.seq)), state.fresh)
    }
    for event in page.events {
      if let number = event.seq, held.contains(number) { continue }
      if !fresh.contains(event.channel) { put(event) }
    }
    state.withLock { state in
      // Where the numbers have begun anew, lower than those of before, they count from now on.
      let known = page.isComplete ? state.position ?? 0 : 0
      state.position = max(known, page.lastSequence)
    }
  }

  /// Hands on what has come meanwhile, and from then on what comes.
  private func release() {
    while true {
      let events = state.withLock { state in
        defer { state.held = state.held?.isEmpty == false ? [] : nil }
        state.fresh = []
        for event in state.held ?? [] {
          if let number = event.seq { state.position = max(state.position ?? 0, number) }
        }
        return state.held ?? []
      }
      if events.isEmpty { return }
      for event in events { put(event) }
    }
  }
}

/// What `EVENTS SINCE` answers.
struct MissedEvents {
  let lastSequence: Int
  let isComplete: Bool
  let hasMore: Bool
  let events: [CountdownEvent]

  init(_ reply: RESPValue) throws(CountdownClientError) {
    let shape = CountdownClientError.protocolViolation("an answer to EVENTS SINCE of another shape")
    guard let last = reply["last_seq"]?.int, let complete = reply["complete"]?.bool,
      let more = reply["more"]?.bool, let entries = reply["events"]?.elements
    else { throw shape }
    lastSequence = last
    isComplete = complete
    hasMore = more
    var events: [CountdownEvent] = []
    for entry in entries {
      guard let pair = entry.elements, pair.count == 2, let channel = pair[0].string,
        let line = pair[1].bytes
      else { throw shape }
      events.append(try CountdownEvent(channel: channel, message: line))
    }
    self.events = events
  }
}
