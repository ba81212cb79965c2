import Wire

let navigationCommands: [CommandSpec] = [
  CommandSpec(
    "NAV", "PUSH",
    "stack page [EDGE pts] [POP on|off] [BAR shown|hidden] [PARENT scope] "
      + "[OWNER none|connection|scope:ID]",
    group: .nav, [.write],
    "Pushes a page, which is a scope; the first one makes the stack."
  ) { call throws(CommandError) in
    var push = PagePush(page: Array(try call.key(call.arguments[3], "a page")))
    var options = call.options(from: 4)
    while let option = try options.next() {
      switch option {
      case "EDGE":
        push.edge = try call.points(try options.value(), "EDGE")
        guard push.edge >= 0 else { throw call.problem("EDGE is not negative; 0 is anywhere") }
      case "POP": push.pops = try options.choice() as Switch == .on
      case "BAR": push.bar = try options.choice()
      case "PARENT": push.opening.parent = Array(try call.key(try options.value(), "PARENT"))
      case "OWNER": push.opening.owner = try call.owner(try options.value())
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.answer(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.pushPage(key, push, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "POP", "stack [GENERATION g]", group: .nav, [.write],
    "Pops the page on top; its scope closes."
  ) { call throws(CommandError) in
    call.answer(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.popPage(key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "ROOT", "stack [GENERATION g]", group: .nav, [.write], complexity: "O(pages)",
    "Pops all pages but the first."
  ) { call throws(CommandError) in
    call.answer(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.popToRoot(key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "DISMISS", "stack [GENERATION g]", group: .nav, [.write], complexity: "O(pages)",
    "Takes the whole stack down, to its root first: 1, or 0 if there was none."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.dismissStack(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "NAV", "SWIPE", "stack X pts DX pts [TIMEOUT d]", group: .nav, [.write, .fast],
    "May a swipe back begin? If so it has."
  ) { call throws(CommandError) in
    var x: Double?
    var dx: Double?
    var timeout: Interval?
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "X": x = try call.points(try options.value(), "X")
      case "DX": dx = try call.points(try options.value(), "DX")
      case "TIMEOUT":
        timeout = try options.duration()
        if timeout == .zero { throw call.problem("TIMEOUT is at least 1ms") }
      default: throw options.unknown()
      }
    }
    guard let x, let dx else { throw call.problem("X and DX are both needed") }
    let key = try call.key()
    call.answer(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.swipe(key, x: x, dx: dx, timeout: timeout, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "PROGRESS", "stack fraction [GENERATION g]", group: .nav, [.write, .fast],
    "Tells how far a swipe is, from 0 to 1."
  ) { call throws(CommandError) in
    let fraction = try call.fraction(call.arguments[3])
    call.answer(
      try call.change(from: 4) { key, generation throws(EngineError) in
        try call.dispatcher.engine.progressSwipe(
          key, fraction, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "FINISH", "stack [GENERATION g]", group: .nav, [.write],
    "The swipe went through: the page on top is gone, and its scope closes."
  ) { call throws(CommandError) in
    call.answer(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.finishSwipe(key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "CANCEL", "stack [GENERATION g]", group: .nav, [.write],
    "The swipe is taken back: the page on top stays as it was."
  ) { call throws(CommandError) in
    call.answer(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.cancelSwipe(key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "NAV", "GET", "stack", group: .nav, [.readOnly, .fast],
    "How a stack is; null if there is none."
  ) { call throws(CommandError) in
    guard let view = call.dispatcher.engine.stack(try call.key(), at: call.now) else {
      return call.session.output.null()
    }
    call.session.output.view(view)
  },

  CommandSpec(
    "NAV", "LIST", "[MATCH glob] [CURSOR c] [LIMIT n]", group: .nav, [.readOnly],
    complexity: "O(LIMIT)", "A page of navigation stacks."
  ) { call throws(CommandError) in
    let query = try call.listQuery(byOwner: false)
    call.reply(call.dispatcher.engine.listStacks(query, at: call.now)) { $0.view($1) }
  },
]

extension Call {
  fileprivate func answer(_ answer: Engine.StackAnswer) {
    session.output.view(answer.view, Answer(answer.refusal))
  }

  /// A place or a distance on a screen, in points.
  fileprivate func points(
    _ bytes: UnsafeRawBufferPointer, _ what: String
  ) throws(CommandError) -> Double {
    guard let value = decimal(bytes), abs(value) <= 1_000_000 else {
      throw problem("\(what) '\(quoted(bytes))' is not a number from -1000000 to 1000000")
    }
    return value
  }

  func fraction(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> Double {
    guard let value = decimal(bytes), (0...1).contains(value) else {
      throw problem("'\(quoted(bytes))' is not a number from 0 to 1")
    }
    return value
  }

  private func decimal(_ bytes: UnsafeRawBufferPointer) -> Double? {
    let text = String(decoding: bytes, as: UTF8.self)
    // Double reads hexadecimal, infinity and nan as well.
    guard text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || "+-.eE".utf8.contains($0) }) else {
      return nil
    }
    return Double(text)
  }
}
