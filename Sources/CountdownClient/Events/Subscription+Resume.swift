import Wire

/// Where a subscription has read the events: a cursor of the daemon, and the newest event of each
/// log since then. In a fleet an event's position begins with its log.
struct EventPlace {
  private let cursor: String
  private var newest: [Substring: String] = [:]

  init(_ cursor: String) { self.cursor = cursor }

  var text: String { ([cursor] + newest.values).joined(separator: "-") }

  mutating func pass(_ event: CountdownEvent) {
    guard event.name != .snapshot, let position = event.position else { return }
    newest[position.contains(".") ? position.prefix { $0 != "." } : ""] = position
  }
}

/// Catches up after a reconnection, from the event log of the daemon or its fleet. The
/// subscriptions are sent before `EVENTS SINCE`, so that no event is lost in between; positions
/// identify duplicates. Everything runs on the event loop, in the order of the daemon's output.
extension Subscription {
  /// Requests the events since the last one yielded or, the first time, a cursor.
  func resume(_ connection: Connection) {
    resume(connection, after: state.withLockedValue { $0.place?.text })
  }

  private func resume(_ connection: Connection, after cursor: String?) {
    let question = cursor.map { ["EVENTS", "SINCE", $0, "SUBSCRIBED"] } ?? ["EVENTS", "CURSOR"]
    // If the connection is lost before the reply, the next connection asks again.
    connection.pipeline([question])[0].whenSuccess { [weak self] reply in
      self?.resume(connection, reply)
    }
  }

  private func resume(_ connection: Connection, _ reply: RESPValue) {
    switch reply {
    case .bulkString:
      becomeLive(hasGap: true)
      release(after: reply.string)
    case .error(let text) where !text.contains("unknown command"):
      let error = CountdownClientError(reply: text)
      // A new connection asks again.
      if mayPass(error) { abandon() } else { finish(throwing: error) }
    case .error:
      // The daemon has no event log.
      becomeLive(hasGap: true)
      release(after: nil)
    default:
      do throws(CountdownClientError) {
        let page = try MissedEvents(reply)
        becomeLive(hasGap: !page.isComplete)
        replay(page)
        // Some events of this page were held, and then dropped: read on after those yielded.
        if startOver(connection) { return resume(connection) }
        if page.hasMore { return resume(connection, after: page.cursor) }
        release(after: page.cursor)
      } catch {
        finish(throwing: error)
      }
    }
  }

  private func becomeLive(hasGap: Bool) {
    let (isBack, isResumed) = state.withLockedValue { state in
      let isBack = state.hasBeenLive && !state.isLive
      state.isLive = true
      state.hasBeenLive = true
      return (isBack, state.held != nil)
    }
    if isBack { put(CountdownEvent(connection: .resubscribed)) }
    if hasGap, isResumed { put(CountdownEvent(connection: .gap)) }
  }

  private func replay(_ page: MissedEvents) {
    let (held, fresh) = state.withLockedValue { state in
      let held = (state.held ?? []).filter { $0.name != .snapshot }
      return (Set(held.compactMap(\.position)), state.fresh)
    }
    for event in page.events where !held.contains(event.position ?? "") {
      state.withLockedValue { $0.place?.pass(event) }
      if !fresh.contains(event.channel) { put(event) }
    }
  }

  /// Continues from a cursor, yields the held events, and stops holding further ones.
  private func release(after cursor: String?) {
    state.withLockedValue { $0.place = cursor.map(EventPlace.init) }
    while true {
      let events = state.withLockedValue { state in
        defer { state.held = state.held?.isEmpty == false ? [] : nil }
        state.fresh = []
        for event in state.held ?? [] { state.place?.pass(event) }
        return state.held ?? []
      }
      if events.isEmpty { return }
      for event in events { put(event) }
    }
  }
}

/// The reply to `EVENTS SINCE`.
struct MissedEvents {
  let cursor: String
  let isComplete: Bool
  let hasMore: Bool
  let events: [CountdownEvent]

  init(_ reply: RESPValue) throws(CountdownClientError) {
    let shape = CountdownClientError.protocolViolation("a reply that does not fit EVENTS SINCE")
    guard let cursor = reply["cursor"]?.string, let complete = reply["complete"]?.bool,
      let more = reply["more"]?.bool, let entries = reply["events"]?.elements
    else { throw shape }
    self.cursor = cursor
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
