import Wire

/// How a load has ended.
private struct LoadEnd {
  var items: Int64?
  var message: [UInt8]?
  var generation: Generation?
}

let pageCommands: [CommandSpec] = [
  CommandSpec(
    "PAGE", "APPEAR", "page", loadOptions { $1(&$0) } + [.owner({ $0.owner = $1 })],
    group: .entities(.page), [.write],
    "Report that a page appeared: it loads the first time, and later refreshes silently.",
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
    "Report that a page disappeared; a load in progress continues."
  ) { call throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.disappearPage(key, by: call.session.client, at: call.now)
      })
  },

  load(
    "LOADED", [.integer("ITEMS", { $0.items = $1 }, in: 0...Int64.max), message],
    "Report that a load succeeded; 0 items shows the no-data view."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.pageLoaded(
      key, items: end.items, message: end.message, generation: end.generation, by: client, at: now)
  },

  load(
    "FAILED", [message],
    "Report that a load failed; an animated load shows the error page."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.pageFailed(
      key, message: end.message, generation: end.generation, by: client, at: now)
  },

  load(
    "RETRY", [], "Load again after a failure, or where there was nothing, animated."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.retryPage(key, generation: end.generation, by: client, at: now)
  },

  load(
    "REFRESH", [], "Load again and keep what is shown until then: pull to refresh."
  ) { engine, key, end, client, now throws(EngineError) in
    try engine.refreshPage(key, generation: end.generation, by: client, at: now)
  },

  .change(
    PageKind.self, "CLOSE", "Forget a page.", Engine.closePage,
    reply: Call.done),

  CommandSpec(
    "PAGE", "GET", "page", group: .entities(.page), [.readOnly, .fast],
    "Read a page."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.page(try call.key(), at: call.now))
  },
  .list(PageKind.self, "List pages, page by page."),
]

/// Returns the load options of PAGE APPEAR, NAV PUSH and NAV PRESENT.
func loadOptions<Request>(
  _ change: @escaping @Sendable (inout Request, (inout PageAppearance) -> Void) -> Void
) -> [Option<Request>] {
  [
    .choice("REFRESH") { (request: inout Request, refresh: PageLoad.Refresh) in
      change(&request) { $0.refresh = refresh }
    },
    .duration("TIMEOUT", { request, timeout in change(&request) { $0.timeout = timeout } }),
    .key("SCREEN", "s") { request, screen in change(&request) { $0.screen = screen } },
    .duration("GRACE", { request, grace in change(&request) { $0.grace = grace } }),
    .duration("MIN", { request, minimum in change(&request) { $0.minimum = minimum } }),
  ]
}

private let message = Option<LoadEnd>.text(
  "MESSAGE", "m", { $0.message = $1 }, atMost: TextLimits.status)

/// Returns a command that ends a load or begins another one.
private func load(
  _ name: String, _ options: [Option<LoadEnd>], _ summary: String,
  _ body:
    @escaping @Sendable (
      Engine, Span<UInt8>, LoadEnd, Client, Moment
    ) throws(EngineError) -> Engine.PageAnswer
) -> CommandSpec {
  CommandSpec(
    "PAGE", name, "page", options + [.generation({ $0.generation = $1 })], group: .entities(.page),
    [.write, .fast], summary, into: LoadEnd()
  ) { call, end throws(CommandError) in
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try body(call.dispatcher.engine, key, end, call.session.client, call.now)
    }
    call.session.output.view(answer.view, Answer(answer.refusal))
  }
}
