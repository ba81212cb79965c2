import Wire

/// Catches up from the daemon's event log after a reconnection. The subscriptions are sent before
/// `EVENTS SINCE`, so that no event is lost in between; sequence numbers identify duplicates.
/// Everything runs on the event loop, in the order of the daemon's output.
extension Subscription {
  /// Requests the events since the last one yielded or, the first time, the newest number.
  func resume(_ connection: Connection) {
    let position = state.withLockedValue { $0.position }
    let question =
      position.map { ["EVENTS", "SINCE", String($0), "SUBSCRIBED"] } ?? ["EVENTS", "LAST"]
    // If the connection is lost before the reply, the next connection asks again.
    connection.pipeline([question])[0].whenSuccess { [weak self] reply in
      self?.resume(connection, reply)
    }
  }

  private func resume(_ connection: Connection, _ reply: RESPValue) {
    switch reply {
    case .integer(let last):
      state.withLockedValue { $0.position = max($0.position ?? 0, last) }
      becomeLive()
    case .error(let text) where !text.contains("unknown command"):
      refused(text)
      // A new connection asks again.
      return abandon()
    case .error:
      // The daemon has no event log.
      let isBack = state.withLockedValue { $0.held != nil }
      becomeLive()
      if isBack { put(CountdownEvent(connection: .gap)) }
    default:
      do throws(CountdownClientError) {
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
    let isBack = state.withLockedValue { state in
      let isBack = state.hasBeenLive && !state.isLive
      state.isLive = true
      state.hasBeenLive = true
      return isBack
    }
    if isBack { put(CountdownEvent(connection: .resubscribed)) }
  }

  private func replay(_ page: MissedEvents) {
    let (held, fresh) = state.withLockedValue { state in
      (Set((state.held ?? []).filter { $0.name != .snapshot }.compactMap(\.seq)), state.fresh)
    }
    for event in page.events {
      if let number = event.seq, held.contains(number) { continue }
      if !fresh.contains(event.channel) { put(event) }
    }
    state.withLockedValue { state in
      // An incomplete page can mean that the daemon's numbers have restarted below the position.
      let known = page.isComplete ? state.position ?? 0 : 0
      state.position = max(known, page.lastSequence)
    }
  }

  /// Yields the held events and stops holding further ones.
  private func release() {
    while true {
      let events = state.withLockedValue { state in
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

/// The reply to `EVENTS SINCE`.
struct MissedEvents {
  let lastSequence: Int
  let isComplete: Bool
  let hasMore: Bool
  let events: [CountdownEvent]

  init(_ reply: RESPValue) throws(CountdownClientError) {
    let shape = CountdownClientError.protocolViolation("a reply that does not fit EVENTS SINCE")
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
      if let event = try CountdownEvent(from: channel, line) { events.append(event) }
    }
    self.events = events
  }
}
