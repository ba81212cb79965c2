import Wire

let pageCommands: [CommandSpec] = [
  CommandSpec(
    "PAGE", "APPEAR",
    "page [REFRESH always|never] [TIMEOUT d] [SCREEN s] [GRACE d] [MIN d] "
      + "[OWNER none|connection|scope:ID]",
    group: .page, [.write],
    "A page is on the screen: the first time it loads, later it refreshes silently."
  ) { call throws(CommandError) in
    var appearance = PageAppearance()
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "REFRESH": appearance.refresh = try options.choice() as PageLoad.Refresh
      case "TIMEOUT": appearance.timeout = try options.duration()
      case "SCREEN": appearance.screen = Array(try call.key(try options.value(), "SCREEN"))
      case "GRACE": appearance.grace = try options.duration()
      case "MIN": appearance.minimum = try options.duration()
      case "OWNER": appearance.owner = try call.owner(try options.value())
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.appearPage(
          key, appearance, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "DISAPPEAR", "page", group: .page, [.write, .fast],
    "A page is not on the screen any more. What it loads goes on."
  ) { call throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.disappearPage(key, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "LOADED", "page [ITEMS n] [GENERATION g]", group: .page, [.write, .fast],
    "What a page asked for has come; no items are the no-data view."
  ) { call throws(CommandError) in
    var items: Int64?
    var generation: Generation?
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "ITEMS": items = try options.integer(in: 0...Int64.max)
      case "GENERATION": generation = try options.generation()
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.answer(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.pageLoaded(
          key, items: items, generation: generation, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "FAILED", "page [MESSAGE m] [GENERATION g]", group: .page, [.write, .fast],
    "What a page asked for does not come: the error page, if the load was animated."
  ) { call throws(CommandError) in
    var message: [UInt8]?
    var generation: Generation?
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "MESSAGE": message = try options.text(atMost: TextLimits.status)
      case "GENERATION": generation = try options.generation()
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.answer(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.pageFailed(
          key, message: message, generation: generation, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "RETRY", "page [GENERATION g]", group: .page, [.write, .fast],
    "The error page is tapped: it loads again."
  ) { call throws(CommandError) in
    call.answer(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.retryPage(
          key, generation: generation, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "PAGE", "CLOSE", "page [GENERATION g]", group: .page, [.write, .fast],
    "Forgets a page: 1, or 0 if there was none."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.closePage(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "PAGE", "GET", "page", group: .page, [.readOnly, .fast],
    "How a page is; null if it never appeared."
  ) { call throws(CommandError) in
    guard let view = call.dispatcher.engine.page(try call.key(), at: call.now) else {
      return call.session.output.null()
    }
    call.session.output.view(view)
  },

  CommandSpec(
    "PAGE", "LIST", listSyntax, group: .page, [.readOnly], complexity: "O(LIMIT)",
    "A page of pages."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listPages(query, at: call.now)) { $0.view($1) }
  },
]

extension Call {
  fileprivate func answer(_ answer: Engine.PageAnswer) {
    session.output.view(answer.view, Answer(answer.refusal))
  }
}
