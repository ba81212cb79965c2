import Wire

let eventCommands: [CommandSpec] = [
  CommandSpec(
    "EVENTS", "SINCE",
    [
      Parameter(
        "cursor", .text(),
        "From EVENTS CURSOR or SINCE; or the `seq` of the newest event you have.")
    ],
    [
      Option(
        "MATCH", "pattern", .text(atMost: 1_024), "Only channels that match; up to 16 times.",
        repeats: true
      ) { filter, reader, call throws(CommandError) in
        guard filter.patterns.count < EventFilter.maximumPatterns else {
          throw call.problem("MATCH is given at most \(EventFilter.maximumPatterns) times")
        }
        filter.patterns.append(try reader.text(atMost: 1_024))
      },
      .flag("SUBSCRIBED", "Only what this connection is subscribed to.", { $0.isOwn = $1 }),
      .integer(
        "LIMIT", "The most events.", default: "1000", { $0.limit = Int($1) }, in: 1...10_000),
    ],
    group: .pubsub, [.readOnly, .pubsub, .afterLoading],
    complexity: "O(log events), and O(1) for each that is looked at",
    "Read the events after a cursor, or after the event with a number.",
    .value(.record("events", eventPage)), request: EventFilter.init
  ) { call, filter throws(CommandError) in
    try readEvents(call, filter)
  },

  CommandSpec(
    "EVENTS", "CURSOR", group: .pubsub, [.readOnly, .fast, .pubsub, .afterLoading],
    "Return a cursor after the newest event, for any host of the fleet.", .value(.text())
  ) { call throws(CommandError) in
    let (fleet, last) = (call.dispatcher.fleet, call.dispatcher.engine.lastSequence)
    call.session.output.bulk((fleet?.cursor ?? EventCursor(after: last)).text)
  },

  CommandSpec(
    "EVENTS", "LAST", group: .pubsub, [.readOnly, .fast, .pubsub, .afterLoading],
    "Return the sequence number of the newest event.", .value(.count)
  ) { call throws(CommandError) in
    call.session.output.integer(call.dispatcher.engine.lastSequence)
  },
]

private let eventPage = [
  Field("last_seq", .count, "The same as a number, for this daemon only."),
  Field(
    "complete", .boolean,
    "False if events may be missing, or the cursor is ahead: read the current state."
  ),
  Field("more", .boolean, "Ask again from `cursor`; the reply can be empty."),
  Field(
    "events", .list(.list(.text())), "Pairs of channel and line, as published, oldest first."),
  Field("cursor", .text(), "Continue from here, on any host of the fleet."),
]

/// Which events a client asks for.
struct EventFilter {
  fileprivate static let maximumPatterns = 16

  private let session: Session
  private let engine: Engine
  fileprivate var patterns: [[UInt8]] = []
  /// Whether only what the connection is subscribed to counts.
  fileprivate var isOwn = false
  fileprivate(set) var limit = 1_000

  init(_ call: Call) {
    session = call.session
    engine = call.dispatcher.engine
  }

  /// - Parameter budget: what matching costs is subtracted from it.
  func matches(_ kind: EntityKind, _ key: [UInt8], budget: inout Int) -> Bool {
    let isMatch = patterns.contains { pattern in
      budget -= Glob.cost(pattern, kind.channelPrefix.count + key.count)
      return Glob.matches(pattern, kind.channelPrefix + key)
    }
    guard isMatch || patterns.isEmpty else { return false }
    if let rights = session.rights, !rights.mayRead(kind, key, budget: &budget) { return false }
    return !isOwn
      || engine.isSubscribed(session.client.connection, to: kind, key, budget: &budget)
  }

  /// Returns whether only entities of some kinds can match.
  func isOnly(about kinds: KindSet) -> Bool {
    func isAbout(_ channel: [UInt8]) -> Bool {
      Subscriptions.parse(channel).map { kinds.contains($0.0) } ?? false
    }
    if !patterns.isEmpty, patterns.allSatisfy(isAbout) { return true }
    guard isOwn, let own = engine.subscriptions.own(session.client.connection) else { return isOwn }
    return own.channels.allSatisfy(isAbout) && own.patterns.allSatisfy(isAbout)
  }

  /// The entities that alone can match; nil if a pattern can match others.
  var entities: [FleetKey]? {
    var channels = patterns.compactMap(Glob.onlyMatch)
    if isOwn {
      guard let own = engine.subscriptions.own(session.client.connection) else { return [] }
      guard own.patterns.isEmpty else { return nil }
      channels = Array(own.channels)
    } else if patterns.isEmpty || channels.count < patterns.count {
      return nil
    }
    return channels.compactMap { Subscriptions.parse($0).map { FleetKey($0.0, $0.key) } }
  }

  /// Reads the daemon's own event log until the page is full.
  ///
  /// - Parameter others: kinds to leave out.
  func read(
    after sequence: Int64, into page: inout EventPage, except others: KindSet = KindSet([])
  ) -> EventLog.Reading {
    engine.eventLog.read(
      after: sequence, newest: engine.lastSequence, limit: max(limit - page.count, 1)
    ) { kind, key, budget in
      !others.contains(kind) && matches(kind, key, budget: &budget)
    } _: { event in
      if let line = event.encoded() { page.append(event, line) }
      return page.hasRoom
    }
  }
}

/// Events for one reply.
struct EventPage {
  private var events: ReplyPage
  var count: Int { events.count }

  /// What the reader may do; nil for everything.
  private let rights: Rights?

  init(_ session: Session) {
    events = ReplyPage(session.output.version)
    rights = session.rights
  }

  var hasRoom: Bool { events.hasRoom }

  mutating func append(_ event: LoggedEvent, _ line: [UInt8]) {
    var keys: [NamedKey]?
    let line = rights?.masked(line.span, of: event.kind, &keys) ?? line
    _ = events.append {
      $0.array(2)
      $0.bulk(event.kind.channelPrefix + event.key)
      $0.bulk(line)
    }
  }

  /// Writes the reply.
  func write(
    to output: inout RESPEncoder, _ cursor: EventCursor, isComplete: Bool, hasMore: Bool
  ) {
    output.map(5)
    output.pair("last_seq", cursor.sequence)
    output.bulk("complete" as StaticString)
    output.boolean(isComplete)
    output.bulk("more" as StaticString)
    output.boolean(hasMore)
    output.bulk("events" as StaticString)
    output.array(count)
    output.bytes += events.encoder.bytes
    output.pair("cursor", cursor.text)
  }
}

private func readEvents(_ call: Call, _ filter: EventFilter) throws(CommandError) {
  let text = try call.spec.text(call.arguments[2], "cursor", atMost: EventCursor.longest)
  guard var cursor = EventCursor(text) else {
    throw call.problem("the cursor is neither a number nor from EVENTS CURSOR")
  }
  let fleet = call.dispatcher.fleet
  if let fleet, cursor.log != nil { return fleet.readEvents(call, after: cursor, filter) }
  var page = EventPage(call.session)
  let reading = filter.read(after: cursor.sequence, into: &page)
  // A cursor of a fleet says nothing about a daemon alone.
  let isComplete =
    reading.isComplete && cursor.log == nil
    && cursor.sequence >= call.engine.context.copies?.unloggedThrough ?? 0
  cursor = EventCursor(after: reading.lastSequence)
  if let fleet, !reading.hasMore { cursor = fleet.cursor }
  page.write(
    to: &call.session.output, cursor, isComplete: isComplete, hasMore: reading.hasMore)
}
