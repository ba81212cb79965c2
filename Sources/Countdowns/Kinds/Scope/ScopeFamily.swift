import Wire

/// The part of a tree that SCOPE TREE lists.
private struct TreeRequest {
  var cursor: Int64?
  var limit: Int64?
}

let scopeCommands: [CommandSpec] = [
  CommandSpec(
    "SCOPE", "OPEN", "scope",
    [
      .key("PARENT", "scope", { $0.parent = $1 }), .owner({ $0.owner = $1 }),
      .duration("TTL", { $0.ttl = $1 }, lasting: true),
    ],
    group: .entities(.scope), [.write, .fast],
    "Open a scope, or renew the lease of an open one.",
    into: ScopeOpening()
  ) { call, opening throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.openScope(key, opening, by: call.session.client, at: call.now)
      })
  },

  .change(
    ScopeKind.self, "CLOSE",
    "Close a scope and all scopes below it, children first.",
    Engine.closeScope, flags: [.write], complexity: "O(1); then all below it, bit by bit",
    reply: Call.done),

  CommandSpec(
    "SCOPE", "TOUCH", "scope",
    [.duration("TTL", { $0.ttl = $1 }, lasting: true), .generation({ $0.generation = $1 })],
    group: .entities(.scope), [.write, .fast], "Renew the lease of a scope.",
    into: (ttl: nil as Interval?, generation: nil as Generation?)
  ) { call, request throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.touchScope(
          key, ttl: request.ttl, generation: request.generation, at: call.now)
      })
  },

  .get(ScopeKind.self, "Read a scope."),
  .list(ScopeKind.self, "List scopes, page by page."),

  CommandSpec(
    "SCOPE", "TREE", "scope",
    [
      .integer("CURSOR", { $0.cursor = $1 }, in: 0...Int64.max, value: "c"),
      .integer("LIMIT", { $0.limit = $1 }, in: 1...1_000),
    ],
    group: .entities(.scope), [.readOnly], complexity: "O(LIMIT)",
    "List a scope and all scopes below it, parents first, page by page.", into: TreeRequest()
  ) { call, request throws(CommandError) in
    let key = try call.key()
    let page = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.scopeTree(
        key, cursor: request.cursor ?? 0, limit: Int(request.limit ?? 100), at: call.now)
    }
    call.reply(cursor: "\(page.cursor)", page.views)
  },

  CommandSpec(
    "SCOPE", "HANDLE", "scope event", [.flag("CAPTURE", { $0 = $1 })], group: .entities(.scope),
    [.write, .fast, .whileSubscribed],
    "Handle an event, or all events (*), at a scope on this connection.",
    into: false
  ) { call, captures throws(CommandError) in
    let event = try call.eventName(3)
    let key = try call.key()
    let isNew = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.handle(
        key, event, captures: captures, by: call.session.client, at: call.now)
    }
    call.confirm("handle", isNew)
  },

  CommandSpec(
    "SCOPE", "UNHANDLE", "scope event", group: .entities(.scope),
    [.write, .fast, .whileSubscribed],
    "Stop handling an event at a scope."
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    let done = call.dispatcher.engine.unhandle(
      try call.key(), event, by: call.session.client, at: call.now)
    call.confirm("unhandle", done)
  },

  CommandSpec(
    "SCOPE", "EMIT", "scope event [!payload]", group: .entities(.scope), [.write],
    complexity: "O(depth)",
    "Send an event down to a scope and up again; the first handler takes it."
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    guard !event.elementsEqual([UInt8(ascii: "*")]) else {
      throw call.problem("* matches all events; EMIT needs the name of one")
    }
    let payload =
      call.arguments.count > 4
      ? try call.text(call.arguments[4], "the payload", atMost: TextLimits.payload) : nil
    let key = try call.key()
    let sessions = call.dispatcher.sessions
    let taker = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.emit(event, payload: payload, for: key, at: call.now) { id in
        // A RESP2 connection can receive events only while subscribed, which the engine checks.
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

  /// Replies to HANDLE or UNHANDLE; while subscribed in RESP2, in the form of SUBSCRIBE replies.
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
