import Wire

/// What NAV SWIPE says, beyond the stack.
private struct SwipeRequest {
  var x: Double?
  var dx: Double?
  var timeout: Interval?
}

let navigationCommands: [CommandSpec] = [
  CommandSpec(
    "NAV", "PUSH", "stack page",
    [
      Option("EDGE", "pts") { push, reader, call throws(CommandError) in
        push.edge = try call.points(try reader.value(), "EDGE")
        guard push.edge >= 0 else { throw call.problem("EDGE is not negative; 0 is anywhere") }
      },
      .switched("POP", { $0.pops = $1 }), .choice("BAR", { $0.bar = $1 }),
      .key("PARENT", "scope", { $0.opening.parent = $1 }),
      .owner({ $0.opening.owner = $1 }),
    ],
    group: .entities(.nav), [.write],
    "Push a page, which is a scope; the first page creates the stack.",
    request: PagePush.init
  ) { call, push throws(CommandError) in
    let key = try call.key()
    answer(
      call,
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.pushPage(key, push, by: call.session.client, at: call.now)
      })
  },

  .change(
    NavigationKind.self, "POP", "Pop the top page and close its scope.", Engine.popPage,
    flags: [.write], reply: answer),
  .change(
    NavigationKind.self, "ROOT", "Pop all pages but the first.", Engine.popToRoot,
    flags: [.write], complexity: "O(pages)", reply: answer),
  .change(
    NavigationKind.self, "DISMISS",
    "Remove the whole stack.",
    Engine.dismissStack, flags: [.write], complexity: "O(pages)", reply: Call.done),

  CommandSpec(
    "NAV", "SWIPE", "stack",
    [
      .points("X", { $0.x = $1 }), .points("DX", { $0.dx = $1 }),
      .duration("TIMEOUT", { $0.timeout = $1 }, lasting: true),
    ],
    group: .entities(.nav), [.write, .fast], "Ask whether a swipe back may begin, and begin it.",
    into: SwipeRequest()
  ) { call, swipe throws(CommandError) in
    guard let x = swipe.x, let dx = swipe.dx else {
      throw call.problem("X and DX are both needed")
    }
    let key = try call.key()
    answer(
      call,
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.swipe(key, x: x, dx: dx, timeout: swipe.timeout, at: call.now)
      })
  },

  .change(
    NavigationKind.self, "PROGRESS", "fraction", "Set the progress of a swipe, from 0 to 1.",
    { call throws(CommandError) in try call.fraction(call.arguments[3]) }, Engine.progressSwipe,
    reply: answer),
  .change(
    NavigationKind.self, "FINISH",
    "Finish a swipe: the top page is popped and its scope closes.", Engine.finishSwipe,
    flags: [.write], reply: answer),
  .change(
    NavigationKind.self, "CANCEL", "Cancel a swipe: the top page stays.",
    Engine.cancelSwipe, flags: [.write], reply: answer),
  .get(NavigationKind.self, "Read a navigation stack."),
  .list(NavigationKind.self, "List navigation stacks, page by page."),
]

private func answer(_ call: Call, _ answer: Engine.StackAnswer) {
  call.session.output.view(answer.view, Answer(answer.refusal))
}

extension PagePush {
  fileprivate init(_ call: Call) throws(CommandError) {
    self.init(page: Array(try call.key(call.arguments[3], "a page")))
  }
}

extension Option<SwipeRequest> {
  fileprivate static func points(_ name: String, _ put: @escaping Put<Double>) -> Option {
    Option(name, "pts", isRequired: true) { request, reader, call throws(CommandError) in
      put(&request, try call.points(try reader.value(), name))
    }
  }
}

extension Call {
  /// A place or a distance on a screen, in points.
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
    // Double reads hexadecimal, infinity and nan as well.
    guard text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || "+-.eE".utf8.contains($0) }) else {
      return nil
    }
    return Double(text)
  }
}
