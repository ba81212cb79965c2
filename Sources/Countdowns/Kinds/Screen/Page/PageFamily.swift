import Wire

/// How a load has ended.
private struct LoadEnd {
  var items: Int64?
  var message: [UInt8]?
  var generation: Generation?
}

let pageCommands: [CommandSpec] = [
  .call(
    PageKind.self, "APPEAR", loadOptions { $1(&$0) } + [.owner({ $0.owner = $1 })],
    "Report that a page appeared: it loads, or later refreshes silently.",
    flags: [.write], uses: { [(.hud, $1.screen ?? $0.screen ?? $0.bytes($0.first))] },
    into: PageAppearance(),
    { call, key, appearance throws(EngineError) in
      try call.engine.appearPage(key, appearance, by: call.client, at: call.now)
    }, reply: .view),

  .call(
    PageKind.self, "DISAPPEAR", [],
    "Report that a page disappeared; a load in progress continues.", into: (),
    { call, key, _ throws(EngineError) in
      try call.engine.disappearPage(key, by: call.client, at: call.now)
    }, reply: .view),

  load(
    "LOADED",
    [
      .integer(
        "ITEMS", "How many items were loaded; 0 is `empty`, the no-data view.",
        { $0.items = $1 }, in: 0...Int64.max), message,
    ],
    "Report that a load succeeded; 0 items shows the no-data view."
  ) { call, key, end throws(EngineError) in
    try call.engine.pageLoaded(
      key, items: end.items, message: end.message, generation: end.generation, by: call.client,
      at: call.now)
  },

  load(
    "FAILED", [message],
    "Report that a load failed; an animated load shows the error page."
  ) { call, key, end throws(EngineError) in
    try call.engine.pageFailed(
      key, message: end.message, generation: end.generation, by: call.client, at: call.now)
  },

  load(
    "RETRY", [], showsHUD: true, "Load again after a failure, or where there was nothing, animated."
  ) { call, key, end throws(EngineError) in
    try call.engine.retryPage(key, generation: end.generation, by: call.client, at: call.now)
  },

  load(
    "REFRESH", [], "Load again and keep what is shown until then: pull to refresh."
  ) { call, key, end throws(EngineError) in
    try call.engine.refreshPage(key, generation: end.generation, by: call.client, at: call.now)
  },

  .change(
    PageKind.self, "CLOSE", "Forget a page.", Engine.closePage,
    reply: .done),

  CommandSpec(
    "PAGE", "GET", [PageKind.key], group: .entities(.page), [.readOnly, .fast],
    "Read a page.", .viewOrNull
  ) { call throws(CommandError) in
    call.reply(call.engine.page(try call.key(), at: call.now))
  },
  .list(PageKind.self, "List pages, page by page."),
]

/// Returns the load options of PAGE APPEAR, NAV PUSH and NAV PRESENT.
func loadOptions<Request>(
  _ change: @escaping @Sendable (inout Request, (inout PageAppearance) -> Void) -> Void
) -> [Option<Request>] {
  [
    .choice(
      "REFRESH",
      "Whether to load when the page appears again; `every`: also if it is visible or has failed.",
      default: "always"
    ) { (request: inout Request, refresh: PageLoad.Refresh) in
      change(&request) { $0.refresh = refresh }
    },
    .duration(
      "TIMEOUT", "A load that takes longer has failed; 0 for no limit.", default: "page.timeout",
      { request, timeout in change(&request) { $0.timeout = timeout } }),
    .key("SCREEN", "s", of: .hud, "The screen of the HUD. Default: the key of the page.") {
      request, screen in
      change(&request) { $0.screen = screen }
    },
    .duration(
      "GRACE", "Shows the HUD only if the load takes longer.", default: "hud.grace",
      { request, grace in change(&request) { $0.grace = grace } }),
    .duration(
      "MIN", "Shows the HUD at least this long.", default: "hud.min",
      { request, minimum in change(&request) { $0.minimum = minimum } }),
  ]
}

private let message = Option<LoadEnd>.text(
  "MESSAGE", "m", "Text to show, as on the error page or the no-data view.", { $0.message = $1 },
  atMost: TextLimits.status)

extension Call {
  /// The screen of the page that the command is about; nil if there is no page.
  fileprivate var screen: [UInt8]? { engine.page(arguments[first], at: now)?.screen }
}

/// Returns a command that ends a load or begins another one.
private func load(
  _ name: String, _ options: [Option<LoadEnd>], showsHUD: Bool = false, _ summary: String,
  _ body:
    @escaping @Sendable (Call, Span<UInt8>, LoadEnd) throws(EngineError) -> Engine.PageAnswer
) -> CommandSpec {
  .call(
    PageKind.self, name, options + [.generation({ $0.generation = $1 })], summary,
    uses: { call, _ in showsHUD ? call.screen.map { [(.hud, $0)] } ?? [] : [] }, into: LoadEnd(),
    body, reply: .answer())
}
