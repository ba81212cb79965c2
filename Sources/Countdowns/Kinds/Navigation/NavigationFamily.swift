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
      .switched("POP", \.pops), .choice("BAR", \.bar), .key("PARENT", "scope", \.opening.parent),
      .owner(\.opening.owner),
    ],
    group: .entities(.nav), [.write],
    "Pushes a page, which is a scope; the first one makes the stack.",
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
    NavigationKind.self, "POP", "Pops the page on top; its scope closes.", Engine.popPage,
    flags: [.write], reply: answer),
  .change(
    NavigationKind.self, "ROOT", "Pops all pages but the first.", Engine.popToRoot,
    flags: [.write], complexity: "O(pages)", reply: answer),
  .change(
    NavigationKind.self, "DISMISS",
    "Takes the whole stack down, to its root first: 1, or 0 if there was none.",
    Engine.dismissStack, flags: [.write], complexity: "O(pages)", reply: Call.done),

  CommandSpec(
    "NAV", "SWIPE", "stack",
    [
      .points("X", \.x), .points("DX", \.dx), .duration("TIMEOUT", \.timeout, lasting: true),
    ],
    group: .entities(.nav), [.write, .fast], "May a swipe back begin? If so it has.",
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
    NavigationKind.self, "PROGRESS", "fraction", "Tells how far a swipe is, from 0 to 1.",
    { call throws(CommandError) in try call.fraction(call.arguments[3]) }, Engine.progressSwipe,
    reply: answer),
  .change(
    NavigationKind.self, "FINISH",
    "The swipe went through: the page on top is gone, and its scope closes.", Engine.finishSwipe,
    flags: [.write], reply: answer),
  .change(
    NavigationKind.self, "CANCEL", "Cancels a swipe: the page on top stays as it was.",
    Engine.cancelSwipe, flags: [.write], reply: answer),
  .get(NavigationKind.self, "How a stack is; null if there is none."),
  .list(NavigationKind.self, "A page of navigation stacks."),
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
  fileprivate static func points(_ name: String, _ path: Path<Double?>) -> Option {
    Option(name, "pts", isRequired: true) { request, reader, call throws(CommandError) in
      request[keyPath: path] = try call.points(try reader.value(), name)
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
