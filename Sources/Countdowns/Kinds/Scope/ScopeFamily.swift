import Wire

let scopeCommands: [CommandSpec] = [
  CommandSpec(
    "SCOPE", "OPEN", "scope [PARENT scope] [OWNER none|connection|scope:ID] [TTL d]",
    group: .scope, [.write, .fast],
    "Opens a scope, which can own timers and handle events; or renews its lease."
  ) { call throws(CommandError) in
    var opening = ScopeOpening()
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "PARENT": opening.parent = Array(try call.key(try options.value(), "PARENT"))
      case "OWNER": opening.owner = try call.owner(try options.value())
      case "TTL":
        let ttl = try options.duration()
        guard ttl > .zero else { throw call.problem("TTL is at least 1ms") }
        opening.ttl = ttl
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.openScope(key, opening, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "SCOPE", "CLOSE", "scope [GENERATION g]", group: .scope, [.write],
    complexity: "O(1); then all below it, bit by bit",
    "Closes a scope and all below it, children first: 1, or 0 if there was none."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.closeScope(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "SCOPE", "TOUCH", "scope [TTL d] [GENERATION g]", group: .scope, [.write, .fast],
    "Renews the lease of a scope."
  ) { call throws(CommandError) in
    var ttl: Interval?
    var generation: Generation?
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "TTL":
        ttl = try options.duration()
        if ttl == .zero { throw call.problem("TTL is at least 1ms") }
      case "GENERATION": generation = try options.generation()
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.touchScope(
          key, ttl: ttl, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "SCOPE", "GET", "scope", group: .scope, [.readOnly, .fast],
    "How a scope is; null if there is none."
  ) { call throws(CommandError) in
    guard let view = call.dispatcher.engine.scope(try call.key(), at: call.now) else {
      return call.session.output.null()
    }
    call.session.output.view(view)
  },

  CommandSpec(
    "SCOPE", "LIST", listSyntax, group: .scope, [.readOnly], complexity: "O(LIMIT)",
    "A page of scopes."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listScopes(query, at: call.now)) { $0.view($1) }
  },

  CommandSpec(
    "SCOPE", "TREE", "scope [CURSOR c] [LIMIT n]", group: .scope, [.readOnly],
    complexity: "O(LIMIT)", "A scope and all below it, parents first, page by page."
  ) { call throws(CommandError) in
    var cursor: Int64 = 0
    var limit = 100
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "CURSOR": cursor = try options.integer(in: 0...Int64.max)
      case "LIMIT": limit = Int(try options.integer(in: 1...1_000))
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    let page = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.scopeTree(key, cursor: cursor, limit: limit, at: call.now)
    }
    call.session.output.array(2)
    call.session.output.bulk(String(page.cursor))
    call.session.output.array(page.views.count)
    for view in page.views { call.session.output.view(view) }
  },

  CommandSpec(
    "SCOPE", "HANDLE", "scope event [CAPTURE]", group: .scope,
    [.write, .fast, .whileSubscribed],
    "This connection handles an event, or all (*), at a scope: 1, or 0 if it did before."
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    var captures = false
    var options = call.options(from: 4)
    while let option = try options.next() {
      guard option == "CAPTURE" else { throw options.unknown() }
      captures = true
    }
    let key = try call.key()
    let isNew = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.handle(
        key, event, captures: captures, by: call.session.client, at: call.now)
    }
    call.confirm("handle", isNew)
  },

  CommandSpec(
    "SCOPE", "UNHANDLE", "scope event", group: .scope, [.write, .fast, .whileSubscribed],
    "This connection handles an event at a scope no more: 1, or 0 if it did not."
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    let done = call.dispatcher.engine.unhandle(
      try call.key(), event, by: call.session.client, at: call.now)
    call.confirm("unhandle", done)
  },

  CommandSpec(
    "SCOPE", "EMIT", "scope event [!payload]", group: .scope, [.write],
    complexity: "O(depth)",
    "Sends an event down to a scope and up again; the scope that took it, or null."
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    guard !event.elementsEqual([UInt8(ascii: "*")]) else {
      throw call.problem("* stands for all events, and is none itself")
    }
    let payload =
      call.arguments.count > 4
      ? try call.text(call.arguments[4], "the payload", atMost: TextLimits.payload) : nil
    let key = try call.key()
    let sessions = call.dispatcher.sessions
    let taker = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.emit(event, payload: payload, for: key, at: call.now) { id in
        // What speaks RESP2 can be told something only while it is subscribed, which the engine knows.
        sessions[id]?.output.version == .resp3
      }
    }
    if let taker { call.session.output.bulk(taker) } else { call.session.output.null() }
  },
]

extension Call {
  fileprivate func eventName(_ index: Int) throws(CommandError) -> [UInt8] {
    let name = arguments[index]
    guard name.count >= 1, name.count <= 128 else {
      throw CommandError("ERR an event's name has 1 to 128 bytes, this one \(name.count)")
    }
    return Array(name)
  }

  /// In RESP2 a connection that is subscribed is told in the form that its library expects then.
  fileprivate func confirm(_ word: StaticString, _ isDone: Bool) {
    let isSubscribed = dispatcher.engine.subscriptionCount(of: session.client.connection) > 0
    if isSubscribed, session.output.version == .resp2 {
      session.output.array(3)
      session.output.bulk(word)
      session.output.bulk(EntityKind.scope.channelPrefix + Array(arguments[first]))
    }
    session.output.integer(isDone ? 1 : 0)
  }
}
