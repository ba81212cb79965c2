import Wire

let pubSubCommands: [CommandSpec] = [
  CommandSpec(
    "SUBSCRIBE", nil, [.channel, .channel.repeated], group: .pubsub,
    [.pubsub, .whileSubscribed, .afterLoading, .ofConnection], complexity: "O(channels)",
    "Subscribe to channels; each begins with a snapshot."
  ) { call throws(CommandError) in
    let client = call.session.client
    let channels = try call.channelNames()
    for channel in channels { try call.authorize(channel) }
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.checkLimits(client, channels: channels)
    }
    let (dispatcher, session) = (call.dispatcher, call.session)
    let subscribe = { (channel: [UInt8], now: Moment) in
      let count = dispatcher.engine.subscribe(client, to: channel, at: now)
      session.confirm("subscribe", channel, count)
      dispatcher.engine.snapshot(of: channel, to: client.connection, at: now)
    }
    // What a fleet shares may have to be read first, for the snapshots.
    guard let fleet = dispatcher.fleet, let keys = fleet.keysToFetch(for: channels) else {
      return try call.forEach(channels, subscribe)
    }
    let slot = session.awaitReply()
    fleet.fetch(keys) { problem in
      if let problem { return dispatcher.fill(slot) { $0.bytes = problem } }
      dispatcher.goOn(slot, ReplySlot.parts(channels, subscribe))
    }
  },

  CommandSpec(
    "PSUBSCRIBE", nil, [.pattern, .pattern.repeated], group: .pubsub,
    [.pubsub, .whileSubscribed, .afterLoading, .ofConnection],
    complexity: "O(patterns); then O(entities), bit by bit",
    "Subscribe to all channels that match; each begins with its snapshots."
  ) { call throws(CommandError) in
    let client = call.session.client
    let patterns = try call.channelNames()
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.checkLimits(client, patterns: patterns)
    }
    for pattern in patterns {
      let count = call.dispatcher.engine.subscribe(client, toPattern: pattern)
      call.session.confirm("psubscribe", pattern, count)
    }
  },

  CommandSpec(
    "UNSUBSCRIBE", nil, [.channel.repeated], group: .pubsub,
    [.pubsub, .whileSubscribed, .makesRoom, .ofConnection],
    complexity: "O(channels)", "Unsubscribe from these channels, or from all."
  ) { call throws(CommandError) in
    let (engine, id) = (call.dispatcher.engine, call.session.client.connection)
    try call.unsubscribe("unsubscribe", all: engine.channels(of: id)) {
      engine.unsubscribe(id, from: $0)
    }
  },

  CommandSpec(
    "PUNSUBSCRIBE", nil, [.pattern.repeated], group: .pubsub,
    [.pubsub, .whileSubscribed, .makesRoom, .ofConnection],
    complexity: "O(patterns)", "Unsubscribe from these patterns, or from all."
  ) { call throws(CommandError) in
    let (engine, id) = (call.dispatcher.engine, call.session.client.connection)
    try call.unsubscribe("punsubscribe", all: engine.patterns(of: id)) {
      engine.unsubscribe(id, fromPattern: $0)
    }
  },

  CommandSpec(
    "PUBSUB", "CHANNELS", [.pattern.optional], group: .pubsub, [.pubsub],
    complexity: "O(channels)", "List the channels that have subscribers.", .value(.list(.text()))
  ) { call throws(CommandError) in
    try listChannels(call)
  },

  CommandSpec(
    "PUBSUB", "NUMSUB", [.channel.repeated], group: .pubsub, [.pubsub],
    complexity: "O(channels)", "Count the subscribers of channels."
  ) { call throws(CommandError) in
    // Redis replies with an array in RESP3, too, and its libraries read nothing else.
    for index in 2..<call.arguments.count { try call.authorize(call.bytes(index)) }
    call.session.output.array((call.arguments.count - 2) * 2)
    for index in 2..<call.arguments.count {
      call.session.output.bulk(call.arguments[index])
      call.session.output.integer(
        Int64(call.dispatcher.engine.subscriberCount(of: call.bytes(index))))
    }
  },

  CommandSpec(
    "PUBSUB", "NUMPAT", group: .pubsub, [.pubsub], "Count the subscribed patterns.", .value(.count)
  ) {
    call throws(CommandError) in
    call.session.output.integer(Int64(call.dispatcher.engine.patternCount))
  },
]

/// Visits the connections one by one. Reports each channel once, with its first subscriber.
private func listChannels(_ call: Call) throws(CommandError) {
  let (dispatcher, session) = (call.dispatcher, call.session)
  let pattern =
    call.arguments.count > 2
    ? try call.spec.text(call.arguments[2], "a pattern", atMost: 1_024) : nil
  let channels = dispatcher.sessions.keys.lazy.flatMap { id in
    dispatcher.engine.channels(of: id).lazy.map { (id, $0) }
  }
  let slot = ReplySlot(for: session)
  var count = 0
  try call.forEach(channels, in: slot) { [unowned slot] channel, _ throws(CommandError) in
    let (id, name) = channel
    guard dispatcher.engine.isFirst(id, of: name) else { return }
    if let pattern, !Glob.matches(pattern, name) { return }
    if let rights = session.rights, let (kind, key) = Subscriptions.parse(name),
      !rights.mayRead(kind, key.span)
    {
      return
    }
    count += 1
    slot.reply.bulk(name)
    try dispatcher.checkLength(
      of: slot.reply.bytes.count, "use a pattern to list fewer channels")
  } finally: { [unowned slot] in
    session.output.array(count)
    session.output.bytes += slot.reply.bytes
  }
}

extension Dispatcher {
  /// Refuses a reply that has no cursor to continue from, and is too long.
  func checkLength(of reply: Int, _ advice: String) throws(CommandError) {
    guard reply <= settings.maxOutput else {
      throw CommandError("LIMIT max-output is \(settings.maxOutput) and reached; \(advice)")
    }
  }
}

extension Call {
  /// Refuses a channel whose entity the rules do not let the client read.
  fileprivate func authorize(_ channel: [UInt8]) throws(CommandError) {
    guard session.rights != nil, let (kind, key) = Subscriptions.parse(channel) else { return }
    try authorize(kind, key.span, isChange: false)
  }

  /// Ends the subscriptions that the arguments name, or all of them.
  ///
  /// - Parameter end: ends one; returns how many are left.
  fileprivate func unsubscribe(
    _ word: StaticString, all: @autoclosure () -> some Sequence<[UInt8]>,
    _ end: @escaping ([UInt8]) -> Int
  ) throws(CommandError) {
    let session = session
    let given = (1..<arguments.count).map { bytes($0) }
    let names = given.isEmpty ? Array(all()) : given
    if names.isEmpty {
      let count = dispatcher.engine.subscriptionCount(of: session.client.connection)
      session.confirm(word, nil, count)
    }
    try forEach(names) { name, _ in session.confirm(word, name, end(name)) }
  }

  fileprivate func channelNames() throws(CommandError) -> [[UInt8]] {
    var names: [[UInt8]] = []
    for index in 1..<arguments.count {
      names.append(try spec.text(arguments[index], "a channel", atMost: 1_024))
    }
    return names
  }
}

extension Session {
  fileprivate func confirm(_ word: StaticString, _ name: [UInt8]?, _ count: Int) {
    output.push(3)
    output.bulk(word)
    if let name { output.bulk(name) } else { output.null() }
    output.integer(Int64(count))
  }
}
