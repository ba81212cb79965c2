import Wire

/// The part of a tree that SCOPE TREE lists.
private struct TreeRequest {
  var cursor: Int64 = 0
  var limit: Int64 = 100
}

let scopeCommands: [CommandSpec] = [
  .call(
    ScopeKind.self, "OPEN",
    [
      .key(
        "PARENT", "scope", of: .scope,
        "The scope above: this one closes with it, and its events continue there.",
        { $0.parent = $1 }), .owner({ $0.owner = $1 }),
      .duration(
        "TTL", "A lease: the scope closes unless TOUCH renews it within this time.",
        { $0.ttl = $1 },
        lasting: true),
    ],
    "Open a scope, or renew the lease of an open one.", into: ScopeOpening(),
    { call, key, opening throws(EngineError) in
      try call.engine.openScope(key, opening, by: call.client, at: call.now)
    }, reply: .view),

  .change(
    ScopeKind.self, "CLOSE",
    "Close a scope and all scopes below it, children first.",
    Engine.closeScope, flags: [.write], complexity: "O(1); then all below it, bit by bit",
    reply: .done),

  .call(
    ScopeKind.self, "TOUCH",
    [
      .duration("TTL", "Changes the lease.", { $0.ttl = $1 }, lasting: true),
      .generation({ $0.generation = $1 }),
    ],
    "Renew the lease of a scope.", flags: [.write, .fast, .harmlessAgain],
    into: (ttl: nil as Interval?, generation: nil as Generation?),
    { call, key, lease throws(EngineError) in
      try call.engine.touchScope(
        key, ttl: lease.ttl, generation: lease.generation, at: call.now)
    }, reply: .view),

  .get(ScopeKind.self, "Read a scope."),
  .list(ScopeKind.self, "List scopes, page by page."),

  .call(
    ScopeKind.self, "TREE",
    [
      .integer(
        "CURSOR", "The cursor of the page before; 0 for the first page.", default: "0",
        { $0.cursor = $1 }, in: 0...Int64.max, value: "c"),
      .integer(
        "LIMIT", "The most scopes on a page.", default: "100", { $0.limit = $1 }, in: 1...1_000),
    ],
    "List a scope and all scopes below it, parents first, page by page.",
    flags: [.readOnly], complexity: "O(LIMIT)", into: TreeRequest(),
    { call, key, request throws(EngineError) in
      var page = ReplyPage(call.session.output.version)
      let cursor = try call.engine.scopeTree(
        key, cursor: request.cursor, limit: Int(request.limit), at: call.now
      ) { view in
        guard call.session.rights.mayRead(.scope, view.key.span) else { return true }
        return page.append { $0.view(view, for: call.session.rights) }
      }
      return (cursor: cursor, page: page)
    },
    reply: .init(.listing) { call, tree in call.reply(cursor: "\(tree.cursor)", tree.page) }),

  CommandSpec(
    "SCOPE", "HANDLE", [ScopeKind.key, event],
    [.flag("CAPTURE", "Takes events on their way down.", { $0 = $1 })], group: .entities(.scope),
    [.write, .fast, .whileSubscribed, .ofConnection],
    "Handle an event, or all events (*), at a scope on this connection.", .done,
    into: false
  ) { call, captures throws(CommandError) in
    let event = try call.eventName(3)
    let key = try call.key()
    let isNew = try call.run { () throws(EngineError) in
      try call.engine.handle(key, event, captures: captures, by: call.client, at: call.now)
    }
    call.confirm("handle", isNew)
  },

  CommandSpec(
    "SCOPE", "UNHANDLE", [ScopeKind.key, event], group: .entities(.scope),
    [.write, .fast, .whileSubscribed, .ofConnection],
    "Stop handling an event at a scope.", .done
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    let done = call.engine.unhandle(
      try call.key(), event, by: call.client, at: call.now)
    call.confirm("unhandle", done)
  },

  CommandSpec(
    "SCOPE", "EMIT",
    [
      ScopeKind.key, event,
      Parameter(
        "payload", .bytes(atMost: TextLimits.payload), "Data for the handler.", isSecret: true
      ).optional,
    ], group: .entities(.scope), [.write],
    complexity: "O(depth)",
    "Send an event down to a scope and up again; the first handler takes it.",
    .value(.key.orNull)
  ) { call throws(CommandError) in
    let event = try call.eventName(3)
    guard !event.elementsEqual([UInt8(ascii: "*")]) else {
      throw call.problem("* matches all events; EMIT needs the name of one")
    }
    let payload =
      call.arguments.count > 4
      ? try call.spec.text(call.arguments[4], "the payload", atMost: TextLimits.payload) : nil
    let key = try call.key()
    let sessions = call.dispatcher.sessions
    let taker = try call.run { () throws(EngineError) in
      try call.engine.emit(event, payload: payload, for: key, at: call.now) { id in
        // A RESP2 connection can receive events only while subscribed, which the engine checks.
        sessions[id]?.output.version == .resp3
      } mayHandle: { id, scope in
        // A reload may have revoked the right since HANDLE.
        sessions[id]?.rights?.permission(for: .scope, scope.span, isChange: true) != nil
          || sessions[id]?.rights == nil
      }
    }
    // Somebody took it, even if the user may not know at which scope.
    let scope = taker.map { call.session.rights.mayRead(.scope, $0.span) ? $0 : Array(key) }
    if let scope { call.session.output.bulk(scope) } else { call.session.output.null() }
  },
]

private let event = Parameter("event", .text(atMost: 128), "The name of the event.")

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
