import Wire

let eventCommands: [CommandSpec] = [
  CommandSpec(
    "EVENTS", "SINCE", "seq [MATCH pattern ...] [SUBSCRIBED] [LIMIT n]", group: .pubsub,
    [.readOnly, .pubsub, .afterLoading],
    complexity: "O(log events), and O(1) for each that is looked at",
    "Read the events after an event from the event log.",
    .value(.record("events", eventPage))
  ) { call throws(CommandError) in
    try eventsSince(call)
  },

  CommandSpec(
    "EVENTS", "LAST", group: .pubsub, [.readOnly, .fast, .pubsub, .afterLoading],
    "Return the sequence number of the newest event.", .value(.count)
  ) { call throws(CommandError) in
    call.session.output.integer(call.dispatcher.engine.lastSequence)
  },
]

private let eventPage = [
  Field("last_seq", .count, "Continue from here, even if it is less than the given number."),
  Field(
    "complete", .boolean,
    "False if events may be missing, or the number is ahead: read the current state."
  ),
  Field("more", .boolean, "Ask again from `last_seq`; the reply can be empty."),
  Field(
    "events", .list(.list(.text())), "Pairs of channel and line, as published, oldest first."),
]

private let mostPatterns = 16

/// The length in bytes from which a page ends, so that other clients need not wait long for it.
private let pageLength = 1 << 20

private func eventsSince(_ call: Call) throws(CommandError) {
  let sequence = try call.integer(call.arguments[2], "seq", in: 0...Int64.max)
  var patterns: [[UInt8]] = []
  var isOwn = false
  var limit = 1_000
  var options = call.options(from: 3)
  while let option = try options.next(repeating: "MATCH") {
    switch option {
    case "MATCH":
      guard patterns.count < mostPatterns else {
        throw call.problem("MATCH is given at most \(mostPatterns) times")
      }
      patterns.append(try options.text(atMost: 1_024))
    case "SUBSCRIBED": isOwn = true
    case "LIMIT": limit = Int(try options.integer(in: 1...10_000))
    default: throw options.unknown()
    }
  }
  let dispatcher = call.dispatcher
  let rights = call.session.rights
  let connection = call.session.client.connection
  var events = RESPEncoder(call.session.output.version)
  var count = 0
  let reading = dispatcher.engine.eventLog.read(
    after: sequence, newest: dispatcher.engine.lastSequence, limit: limit
  ) { kind, key, budget in
    let isMatch = patterns.contains { pattern in
      budget -= Glob.cost(pattern, kind.channelPrefix.count + key.count)
      return Glob.matches(pattern, kind.channelPrefix + key)
    }
    guard isMatch || patterns.isEmpty else { return false }
    if let rights, !rights.mayRead(kind, key, budget: &budget) { return false }
    return !isOwn
      || dispatcher.engine.isSubscribed(connection, to: kind, key, budget: &budget)
  } _: { event in
    guard let line = event.encoded() else { return true }
    events.array(2)
    events.bulk(event.kind.channelPrefix + event.key)
    events.bulk(line)
    count += 1
    return events.bytes.count < pageLength
  }
  call.session.output.map(4)
  call.session.output.field("last_seq", reading.lastSequence)
  call.session.output.field("complete", reading.isComplete)
  call.session.output.field("more", reading.hasMore)
  call.session.output.bulk("events" as StaticString)
  call.session.output.array(count)
  call.session.output.bytes += events.bytes
}
