import Wire

/// The arguments of NAV SWIPE, beyond the stack.
private struct SwipeRequest {
  var x: Double?
  var dx: Double?
  var timeout: Interval?
}

/// The values of BAR.
private enum BarWish: String, CaseIterable {
  case shown, hidden, any

  var bar: NavigationStack.Bar? { NavigationStack.Bar(rawValue: rawValue) }
}

let navigationCommands: [CommandSpec] = [
  push(
    "PUSH", .pushed,
    [
      .edge { $0.push.edge = $1 },
      .switched(
        "POP", "`off` forbids swiping this page away.", default: "on", { $0.push.pops = $1 }),
    ],
    "Push a page, which is a scope; the first page creates the stack."),
  push("PRESENT", .presented, [], "The same with a page that cannot be swiped away."),

  .call(
    NavigationKind.self, "SET", [page],
    [
      .edge { $0.change.edge = $1 },
      .switched(
        "POP", "`off` forbids swiping this page away.", default: "on", { $0.change.pops = $1 }),
      .choice(
        "BAR", "Whether the page wants the navigation bar; `any` leaves it as it is.",
        default: "any", { $0.change.bar = .some(($1 as BarWish).bar) }),
    ],
    "Change options of a page.", flags: [.write], complexity: "O(pages)",
    request: { call throws(CommandError) in
      (page: try call.page(), change: NavigationStack.Change())
    },
    { call, key, set throws(EngineError) in
      try call.engine.setPage(key, set.page, set.change, at: call.now)
    }, reply: .answer()),

  .call(
    NavigationKind.self, "POP",
    [.pace({ $0.pace = $1 }), .generation({ $0.generation = $1 })],
    "Pop the top page and close its scope.", flags: [.write],
    into: (pace: NavigationStack.Pace.atOnce, generation: nil as Generation?),
    { call, key, pop throws(EngineError) in
      try call.engine.popPage(key, pop.pace, generation: pop.generation, at: call.now)
    }, reply: .answer()),
  .change(
    NavigationKind.self, "ROOT", "Pop all pages but the first.", Engine.popToRoot,
    flags: [.write], complexity: "O(pages)", reply: .answer()),
  .change(
    NavigationKind.self, "DISMISS",
    "Remove the whole stack.",
    Engine.dismissStack, flags: [.write], complexity: "O(pages)", reply: .done),

  CommandSpec(
    "NAV", "SWIPE", [NavigationKind.key],
    [
      .points("X", "Where the swipe begins, from the edge.", { $0.x = $1 }),
      .points("DX", "How far it has moved; positive is back.", { $0.dx = $1 }),
      .duration(
        "TIMEOUT", "Cancels the swipe after this time without PROGRESS.",
        default: "nav.swipe-timeout", { $0.timeout = $1 }, lasting: true),
    ],
    group: .entities(.nav), [.write, .fast], "Ask whether a swipe back may begin, and begin it.",
    .answer,
    into: SwipeRequest()
  ) { call, swipe throws(CommandError) in
    guard let x = swipe.x, let dx = swipe.dx else {
      throw call.problem("X and DX are both needed")
    }
    let key = try call.key()
    CommandSpec.Reply.answer().write(
      call,
      try call.run { () throws(EngineError) in
        try call.engine.swipe(key, x: x, dx: dx, timeout: swipe.timeout, at: call.now)
      })
  },

  .change(
    NavigationKind.self, "PROGRESS", .fraction, "Set the progress of a transition, from 0 to 1.",
    { call throws(CommandError) in try call.fraction(call.arguments[3]) },
    Engine.progressTransition,
    reply: .answer()),
  .change(
    NavigationKind.self, "FINISH",
    "Finish a transition: the scope of a page that leaves closes.",
    Engine.finishTransition,
    flags: [.write], reply: .answer()),
  .change(
    NavigationKind.self, "CANCEL", "Cancel a transition: the stack is as it was before.",
    Engine.cancelTransition, flags: [.write], reply: .answer()),
  .get(NavigationKind.self, "Read a navigation stack."),
  .list(NavigationKind.self, "List navigation stacks, page by page."),
]

private func push(
  _ name: String, _ style: NavigationStack.Style, _ options: [Option<PushRequest>],
  _ summary: String
) -> CommandSpec {
  CommandSpec(
    "NAV", name, [NavigationKind.key, page],
    options + [
      .choice(
        "BAR", "Whether the page wants the navigation bar; `any` leaves it as it is.",
        default: "any", { $0.push.bar = ($1 as BarWish).bar }), .pace({ $0.push.pace = $1 }),
      .key(
        "PARENT", "scope", of: .scope, "The scope above the page's scope.",
        { $0.push.opening.parent = $1 }),
      .owner({ $0.push.opening.owner = $1 }),
      .flag(
        "PAGE", "The page loads, and appears and disappears with the stack.", { $0.loads = $1 }),
    ] + loadOptions { $1(&$0.appearance) },
    group: .entities(.nav), [.write], summary, .answer,
    uses: keysOfLoad,
    request: PushRequest.init
  ) { call, request throws(CommandError) in
    let key = try call.key()
    guard request.loads || request.appearance == PageAppearance() else {
      throw call.problem("REFRESH, TIMEOUT, SCREEN, GRACE and MIN are of a load; they need PAGE")
    }
    var push = request.push
    push.style = style
    push.appearance = request.loads ? request.appearance : nil
    CommandSpec.Reply.answer().write(
      call,
      try call.run { () throws(EngineError) in
        try call.engine.pushPage(key, push, by: call.client, at: call.now)
      })
  }
}

/// The page and the HUD of a push with PAGE.
private let keysOfLoad: CommandSpec.UsedKeys<PushRequest> = { _, request in
  guard request.loads else { return [] }
  let page = request.push.page
  return [(.page, page), (.hud, request.appearance.screen ?? page)]
}

/// The page of a stack, which is a scope.
private let page = Parameter.key(PageKind.keyName, of: .scope, PageKind.key.help)

/// The arguments of NAV PUSH and NAV PRESENT, beyond the stack.
private struct PushRequest {
  var push: PagePush
  var loads = false
  var appearance = PageAppearance()

  init(_ call: Call) throws(CommandError) {
    push = PagePush(page: try call.page())
  }
}

extension Option {
  fileprivate static func edge(_ put: @escaping Put<Double>) -> Option {
    Option(
      "EDGE", "pts", .number(0...1_000_000),
      "How far from the edge a swipe may begin; 0 for anywhere.", default: "0"
    ) { request, reader, call throws(CommandError) in
      let edge = try call.points(try reader.value(), "EDGE")
      guard edge >= 0 else { throw call.problem("EDGE is not negative; 0 is anywhere") }
      put(&request, edge)
    }
  }

  fileprivate static func pace(_ put: @escaping Put<NavigationStack.Pace>) -> Option {
    Option(
      "DURATION", "d|finish", .durationOr("finish"),
      "How long the transition takes; `finish`: until FINISH or CANCEL.", default: "0"
    ) { request, reader, call throws(CommandError) in
      let value = try reader.value()
      if String(decoding: value).lowercased() == "finish" { return put(&request, .untilFinished) }
      guard let duration = DurationText.parse(value) else {
        throw call.problem(
          "DURATION '\(quoted(value))' is neither a duration such as 350ms nor 'finish'")
      }
      put(&request, duration == .zero ? .atOnce : .lasting(duration))
    }
  }
}

extension Option<SwipeRequest> {
  fileprivate static func points(
    _ name: String, _ help: String, _ put: @escaping Put<Double>
  ) -> Option {
    Option(name, "pts", .points, help, isRequired: true) {
      request, reader, call throws(CommandError) in
      put(&request, try call.points(try reader.value(), name))
    }
  }
}

extension Call {
  /// Returns the page that NAV PUSH, PRESENT and SET name.
  fileprivate func page() throws(CommandError) -> [UInt8] {
    Array(try key(arguments[3], "a page"))
  }

  /// Parses a position or distance on a screen, in points.
  fileprivate func points(
    _ bytes: Span<UInt8>, _ what: String
  ) throws(CommandError) -> Double {
    guard let value = decimal(bytes), abs(value) <= 1_000_000 else {
      throw problem("\(what) '\(quoted(bytes))' is not a number from -1000000 to 1000000")
    }
    return value
  }

  func fraction(_ bytes: Span<UInt8>) throws(CommandError) -> Double {
    guard let value = decimal(bytes), (0...1).contains(value) else {
      throw problem("'\(quoted(bytes))' is not a number from 0 to 1")
    }
    return value
  }

  private func decimal(_ bytes: Span<UInt8>) -> Double? {
    let text = String(decoding: bytes)
    // `Double` also accepts hexadecimal, infinity and nan.
    guard text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || "+-.eE".utf8.contains($0) }) else {
      return nil
    }
    return Double(text)
  }
}
