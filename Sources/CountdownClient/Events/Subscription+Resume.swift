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

/// Begins where the log is, or catches up from the log of the daemon or its fleet. Then the
/// subscriptions are sent before `EVENTS SINCE`, so that no event is lost in between; positions
/// identify duplicates. Everything runs on the event loop, in the order of the daemon's output.
extension Subscription {
  /// Subscribes on a new connection, and requests the events since the last one yielded; the first
  /// time, the daemon's cursor comes before everything else.
  func begin(_ connection: Connection) {
    if state.withLockedValue({ $0.place }) != nil {
      subscribe(connection, holds: true)
      return resume(connection, within: timeout)
    }
    // If the connection is lost before the reply, the next connection asks again.
    connection.reply(to: ["EVENTS", "CURSOR"], within: timeout).whenSuccess { [weak self] reply in
      self?.begin(connection, at: reply)
    }
  }

  private func begin(_ connection: Connection, at reply: RESPValue) {
    if case .error(let text) = reply { return failed(text) }
    guard let cursor = reply.string else {
      return finish(throwing: .protocolViolation("a reply that does not fit EVENTS CURSOR"))
    }
    state.withLockedValue { $0.place = EventPlace(cursor) }
    subscribe(connection, holds: false)
  }

  /// - Parameter limit: until when a connection that does not answer is given up; nil: never. Only
  ///   the first answer has one: a slow reader of events keeps later ones waiting.
  private func resume(_ connection: Connection, within limit: Duration? = nil) {
    guard let place = state.withLockedValue({ $0.place }) else { return }
    resume(connection, after: place.text, within: limit)
  }

  private func resume(
    _ connection: Connection, after cursor: String, within limit: Duration? = nil
  ) {
    let question = ["EVENTS", "SINCE", cursor, "SUBSCRIBED"]
    connection.reply(to: question, within: limit).whenSuccess { [weak self] reply in
      self?.resume(connection, reply)
    }
  }

  private func resume(_ connection: Connection, _ reply: RESPValue) {
    if case .error(let text) = reply { return failed(text) }
    do throws(CountdownClientError) {
      let page = try MissedEvents(reply)
      becomeLive()
      if !page.isComplete { report(.gap) }
      replay(page)
      // Some events of this page were held, and then dropped: read on after those yielded.
      if startOver() { return resume(connection) }
      if page.hasMore { return resume(connection, after: page.cursor) }
      release(after: page.cursor)
    } catch {
      finish(throwing: error)
    }
  }

  /// Ends the sequence, or this connection: a new one asks again.
  private func failed(_ text: String) {
    let error = CountdownClientError(reply: text)
    if mayPass(error) { abandon() } else { finish(throwing: error) }
  }

  private func becomeLive() {
    let isBack = state.withLockedValue { state in
      let isBack = state.hasBeenLive && !state.isLive
      state.isLive = true
      state.hasBeenLive = true
      return isBack
    }
    if isBack { report(.resubscribed) }
  }

  private func replay(_ page: MissedEvents) {
    let (held, fresh) = state.withLockedValue { state in
      let held = (state.held ?? []).filter { $0.name != .snapshot }
      return (Set(held.compactMap(\.position)), state.fresh)
    }
    for event in page.events where !held.contains(event.position ?? "") {
      let event = state.withLockedValue { $0.stamped(event) }
      if !fresh.contains(event.channel) { put(event) }
    }
  }

  /// Continues from a cursor, yields the held events, and stops holding further ones.
  private func release(after cursor: String) {
    state.withLockedValue { $0.place = EventPlace(cursor) }
    while true {
      let events = state.withLockedValue { state in
        defer { state.held = state.held?.isEmpty == false ? [] : nil }
        state.fresh = []
        return (state.held ?? []).map { state.stamped($0) }
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
