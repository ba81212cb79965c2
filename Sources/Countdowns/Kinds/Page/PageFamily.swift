import Wire

/// How a load has ended.
private struct LoadEnd {
  var items: Int64?
  var message: [UInt8]?
  var generation: Generation?
}

let pageCommands: [CommandSpec] = [
  CommandSpec(
    "PAGE", "APPEAR", "page",
    [
      .choice("REFRESH", \.refresh), .duration("TIMEOUT", \.timeout),
      .key("SCREEN", "s", \.screen), .duration("GRACE", \.grace), .duration("MIN", \.minimum),
      .owner(\.owner),
    ],
    group: .entities(.page), [.write],
    "A page is on the screen: the first time it loads, later it refreshes silently.",
    into: PageAppearance()
  ) { call, appearance throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.appearPage(
          key, appearance, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "DISAPPEAR", "page", group: .entities(.page), [.write, .fast],
    "A page is not on the screen any more. What it loads goes on."
  ) { call throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.disappearPage(key, by: call.session.client, at: call.now)
      })
  },

  load(
    "LOADED", [.integer("ITEMS", \.items, in: 0...Int64.max)],
    "What a page asked for has come; no items are the no-data view."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.pageLoaded(key, items: end.items, generation: end.generation, by: client, at: now)
  },

  load(
    "FAILED", [.text("MESSAGE", "m", \.message, atMost: TextLimits.status)],
    "What a page asked for does not come: the error page, if the load was animated."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.pageFailed(
      key, message: end.message, generation: end.generation, by: client, at: now)
  },

  load(
    "RETRY", [], "The error page is tapped: it loads again."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.retryPage(key, generation: end.generation, by: client, at: now)
  },

  .change(
    PageKind.self, "CLOSE", "Forgets a page: 1, or 0 if there was none.", Engine.closePage,
    reply: Call.done),

  CommandSpec(
    "PAGE", "GET", "page", group: .entities(.page), [.readOnly, .fast],
    "How a page is; null if it never appeared."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.page(try call.key(), at: call.now))
  },
  .list(PageKind.self, "A page of pages."),
]

/// A command that says how a load has ended, or that it is tried again.
private func load(
  _ name: String, _ options: [Option<LoadEnd>], _ summary: String,
  _ body:
    @escaping @Sendable (
      Engine, Span<UInt8>, LoadEnd, Client, Moment
    ) throws(EngineError) -> Engine.PageAnswer
) -> CommandSpec {
  CommandSpec(
    "PAGE", name, "page", options + [.generation(\.generation)], group: .entities(.page),
    [.write, .fast], summary, into: LoadEnd()
  ) { call, end throws(CommandError) in
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try body(call.dispatcher.engine, key, end, call.session.client, call.now)
    }
    call.session.output.view(answer.view, Answer(answer.refusal))
  }
}
