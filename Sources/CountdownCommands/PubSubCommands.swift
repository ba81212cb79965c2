import CountdownEngine
import RESP

let pubSubCommands: [CommandSpec] = [
  CommandSpec(
    "SUBSCRIBE", nil, "channel [channel ...]", group: .pubsub,
    [.pubsub, .whileSubscribed, .afterLoading], complexity: "O(channels)",
    "Listens to channels; first comes a snapshot of each."
  ) { call throws(CommandError) in
    let client = call.session.client
    let channels = try call.channelNames()
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.checkLimits(client, channels: channels)
    }
    for channel in channels {
      let count = call.dispatcher.engine.subscribe(client, to: channel, at: call.now)
      call.confirm("subscribe", channel, count)
      call.dispatcher.engine.snapshot(of: channel, to: client.connection, at: call.now)
    }
  },

  CommandSpec(
    "PSUBSCRIBE", nil, "pattern [pattern ...]", group: .pubsub,
    [.pubsub, .whileSubscribed, .afterLoading],
    complexity: "O(patterns); then O(entities), bit by bit",
    "Listens to channels that match; first comes a snapshot of each entity."
  ) { call throws(CommandError) in
    let client = call.session.client
    let patterns = try call.channelNames()
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.checkLimits(client, patterns: patterns)
    }
    for pattern in patterns {
      let count = call.dispatcher.engine.subscribe(client, toPattern: pattern)
      call.confirm("psubscribe", pattern, count)
    }
  },

  CommandSpec(
    "UNSUBSCRIBE", nil, "[channel ...]", group: .pubsub,
    [.pubsub, .whileSubscribed, .makesRoom],
    complexity: "O(channels)", "Listens no more: to these channels, or to any."
  ) { call throws(CommandError) in
    let id = call.session.client.connection
    let given = (1..<call.arguments.count).map(call.bytes)
    let channels = given.isEmpty ? call.dispatcher.engine.subscriptions(of: id).channels : given
    for channel in channels {
      let count = call.dispatcher.engine.unsubscribe(id, from: channel)
      call.confirm("unsubscribe", channel, count)
    }
    if channels.isEmpty { call.confirm("unsubscribe", nil) }
  },

  CommandSpec(
    "PUNSUBSCRIBE", nil, "[pattern ...]", group: .pubsub,
    [.pubsub, .whileSubscribed, .makesRoom],
    complexity: "O(patterns)", "Listens no more: to these patterns, or to any."
  ) { call throws(CommandError) in
    let id = call.session.client.connection
    let given = (1..<call.arguments.count).map(call.bytes)
    let patterns = given.isEmpty ? call.dispatcher.engine.subscriptions(of: id).patterns : given
    for pattern in patterns {
      let count = call.dispatcher.engine.unsubscribe(id, fromPattern: pattern)
      call.confirm("punsubscribe", pattern, count)
    }
    if patterns.isEmpty { call.confirm("punsubscribe", nil) }
  },

  CommandSpec(
    "PUBSUB", "CHANNELS", "[pattern]", group: .pubsub, [.pubsub],
    complexity: "O(channels)", "Channels that somebody listens to."
  ) { call throws(CommandError) in
    let pattern = call.arguments.count > 2 ? call.bytes(2) : nil
    let names = call.dispatcher.engine.channelNames(matching: pattern)
    call.session.output.array(names.count)
    for name in names { call.session.output.bulk(name) }
  },

  CommandSpec(
    "PUBSUB", "NUMSUB", "[channel ...]", group: .pubsub, [.pubsub],
    complexity: "O(channels)", "How many listen to each channel."
  ) { call throws(CommandError) in
    // Redis answers an array in RESP3 too, and its libraries read nothing else.
    call.session.output.array((call.arguments.count - 2) * 2)
    for index in 2..<call.arguments.count {
      call.session.output.bulk(call.arguments[index])
      call.session.output.integer(
        Int64(call.dispatcher.engine.subscriberCount(of: call.bytes(index))))
    }
  },

  CommandSpec("PUBSUB", "NUMPAT", group: .pubsub, [.pubsub], "How many patterns are listened to.") {
    call throws(CommandError) in
    call.session.output.integer(Int64(call.dispatcher.engine.patternCount))
  },
]

extension Call {
  fileprivate func channelNames() throws(CommandError) -> [[UInt8]] {
    var names: [[UInt8]] = []
    for index in 1..<arguments.count {
      names.append(try text(arguments[index], "a channel", atMost: 1_024))
    }
    return names
  }

  fileprivate func confirm(_ word: StaticString, _ name: [UInt8]?, _ count: Int? = nil) {
    session.output.push(3)
    session.output.bulk(word)
    if let name { session.output.bulk(name) } else { session.output.null() }
    session.output.integer(
      Int64(count ?? dispatcher.engine.subscriptionCount(of: session.client.connection)))
  }
}
