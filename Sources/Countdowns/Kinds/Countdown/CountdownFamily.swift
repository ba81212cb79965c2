import Wire

enum TextLimits {
  static let title = Title.mostBytes
  static let status = 4_096
  static let meta = 4_096
  static let payload = 4_096
  static let token = 64
  static let action = 512
  static let url = 8_192
  static let clientName = 256
}

let countdownCommands: [CommandSpec] = [
  CommandSpec(
    "COUNTDOWN", "START",
    "key [POLICY p] [COUNT n] [EVERY d] [FIRE] [TITLE fmt] [READYTITLE s] "
      + "[OWNER none|connection|scope:ID] [META !bytes] [TOKEN !t] [BRIEF]",
    group: .countdown, [.write, .fast],
    "Asks whether a code may be sent now, and if so starts the countdown to the next."
  ) { call throws(CommandError) in
    var count: UInt32?
    var every: Interval?
    var fire = false
    var isBrief = false
    var start = CountdownStart(call.dispatcher.engine.defaultPlan)
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "POLICY": start.policy = try call.policy(try options.value())
      case "COUNT": count = UInt32(try options.integer(in: 1...Int64(Int32.max)))
      case "EVERY": every = try options.duration()
      case "FIRE": fire = true
      case "TITLE": start.title = try call.title(try options.value())
      case "READYTITLE": start.readyTitle = try options.text(atMost: TextLimits.title)
      case "OWNER": start.owner = try call.owner(try options.value())
      case "META": start.meta = try options.text(atMost: TextLimits.meta)
      case "TOKEN": start.token = try call.token(try options.value())
      case "BRIEF": isBrief = true
      default: throw options.unknown()
      }
    }
    if start.policy != nil, count != nil || every != nil {
      throw call.problem("POLICY says how long it counts; leave COUNT and EVERY out")
    }
    guard
      let plan = Countdown.Plan(
        count: count ?? start.plan.count, every: every ?? start.plan.every, firesAtOnce: fire)
    else { throw call.problem("EVERY is at least 1ms, and COUNT times EVERY at most 3650d") }
    start.plan = plan
    let key = try call.key()
    let (decision, view) = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.startCountdown(
        key, start, by: call.session.client, at: call.now)
    }
    call.reply(decision, view, isBrief: isBrief)
  },

  CommandSpec(
    "COUNTDOWN", "RESEND", "key [TOKEN !t] [BRIEF]", group: .countdown, [.write, .fast],
    "Starts a ready countdown again with what it was started with last."
  ) { call throws(CommandError) in
    var token: [UInt8]?
    var isBrief = false
    var options = call.options(from: 3)
    while let option = try options.next() {
      switch option {
      case "TOKEN": token = try call.token(try options.value())
      case "BRIEF": isBrief = true
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    let (decision, view) = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.resendCountdown(
        key, token: token, by: call.session.client, at: call.now)
    }
    call.reply(decision, view, isBrief: isBrief)
  },

  CommandSpec(
    "COUNTDOWN", "GET", "key", group: .countdown, [.readOnly, .fast],
    "How a countdown is; null if there is none."
  ) { call throws(CommandError) in
    guard let view = call.dispatcher.engine.countdown(try call.key(), at: call.now) else {
      return call.session.output.null()
    }
    call.session.output.view(view)
  },

  CommandSpec(
    "COUNTDOWN", "LIST", listSyntax, group: .countdown, [.readOnly],
    complexity: "O(LIMIT)", "A page of countdowns."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listCountdowns(query, at: call.now)) { $0.view($1) }
  },

  CommandSpec(
    "COUNTDOWN", "CANCEL", "key [GENERATION g]", group: .countdown, [.write, .fast],
    "Ends a countdown: 1, or 0 if there was none. A policy remembers what was sent."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.cancelCountdown(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "COUNTDOWN", "PAUSE", "key [GENERATION g]", group: .countdown, [.write, .fast],
    "Stops the time of a countdown."
  ) { call throws(CommandError) in
    call.session.output.view(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.pauseCountdown(
          key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "COUNTDOWN", "RESUME", "key [GENERATION g]", group: .countdown, [.write, .fast],
    "Lets a paused countdown go on with the time it had left."
  ) { call throws(CommandError) in
    call.session.output.view(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.resumeCountdown(
          key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "COUNTDOWN", "RETIME", "key d [GENERATION g]", group: .countdown, [.write, .fast],
    "Makes a countdown end in that time from now."
  ) { call throws(CommandError) in
    let left = try call.duration(call.arguments[3], "the time")
    call.session.output.view(
      try call.change(from: 4) { key, generation throws(EngineError) in
        try call.dispatcher.engine.retimeCountdown(
          key, to: left, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "COUNTDOWN", "REFUND", "key GENERATION g", group: .countdown, [.write, .fast],
    "The provider failed: gives that send back, its cooldown and its place in the windows."
  ) { call throws(CommandError) in
    guard let generation = try call.generationOption(from: 3) else {
      throw call.problem("GENERATION says which send failed")
    }
    let key = try call.key()
    let (isFirst, view) = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.refundCountdown(key, generation: generation, at: call.now)
    }
    call.session.output.view(view, Answer(isFirst: isFirst))
  },

  CommandSpec(
    "COUNTDOWN", "ATTEMPT", "key [GENERATION g]", group: .countdown, [.write, .fast],
    "Asks whether a code may be tried, and counts the attempt."
  ) { call throws(CommandError) in
    let (attempt, view) = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.attemptCountdown(key, generation: generation, at: call.now)
    }
    call.session.output.view(view, Answer(attempt))
  },

  CommandSpec(
    "COUNTDOWN", "PASS", "key [GENERATION g]", group: .countdown, [.write, .fast],
    "Marks the code as used, if it is good. The send still counts towards the limits."
  ) { call throws(CommandError) in
    let (pass, view) = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.passCountdown(key, generation: generation, at: call.now)
    }
    call.session.output.view(view, Answer(pass))
  },
]

let listSyntax = "[MATCH glob] [OWNER none|connection|connection:ID|scope:ID] [CURSOR c] [LIMIT n]"

extension Call {
  /// Does what most changes are: something to a key, of a generation if one is given from `index` on.
  func change<R>(
    from index: Int,
    _ body: (UnsafeRawBufferPointer, Generation?) throws(EngineError) -> R
  ) throws(CommandError) -> R {
    let generation = try generationOption(from: index)
    let key = try key()
    return try run { () throws(EngineError) in try body(key, generation) }
  }

  /// The whole view; or what has to be known before a code is sent, for a client that asks often.
  func reply(_ decision: StartDecision, _ view: CountdownView, isBrief: Bool) {
    guard isBrief else { return session.output.view(view, Answer(decision)) }
    let accepted: Int64 =
      switch decision {
      case .refused: 0
      case .accepted: 1
      case .acceptedBefore: 2
      }
    session.output.integers(accepted, view.generation.value, view.retryAfterMS)
  }

  /// The one option of most commands.
  func generationOption(from index: Int) throws(CommandError) -> Generation? {
    var generation: Generation?
    var options = options(from: index)
    while let option = try options.next() {
      guard option == "GENERATION" else { throw options.unknown() }
      generation = try options.generation()
    }
    return generation
  }

  func token(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> [UInt8] {
    guard !bytes.isEmpty else { throw problem("TOKEN is empty") }
    return try text(bytes, "TOKEN", atMost: TextLimits.token)
  }

  /// A title with the fields that one can have.
  func title(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> [UInt8] {
    let title = try text(bytes, "TITLE", atMost: TextLimits.title)
    if let text = Title.problem(title) { throw problem("TITLE '\(quoted(bytes))': \(text)") }
    return title
  }

  /// One of the policies of the configuration.
  func policy(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> SendPolicy {
    let policies = dispatcher.engine.settings.policies
    if let policy = policies[String(decoding: bytes, as: UTF8.self)] { return policy }
    let most = 20
    let names = policies.keys.sorted()
    let known =
      names.isEmpty
      ? "the configuration has none; docs/policies.md shows how to write one"
      : "known: " + names.prefix(most).joined(separator: ", ") + (names.count > most ? ", …" : "")
    throw CommandError("ERR no policy '\(quoted(bytes))'; \(known)")
  }

  func listQuery(byOwner: Bool = true) throws(CommandError) -> ListQuery {
    var query = ListQuery()
    var options = options(from: first)
    while let option = try options.next() {
      switch option {
      case "MATCH": query.pattern = try options.text(atMost: 1_024)
      case "OWNER" where byOwner: query.owner = try listedOwner(try options.value())
      case "CURSOR": query.cursor = Int(try options.integer(in: 0...Int64(UInt32.max)))
      case "LIMIT": query.limit = Int(try options.integer(in: 1...1_000))
      default: throw options.unknown()
      }
    }
    return query
  }

  private func listedOwner(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> Owner {
    let text = String(decoding: bytes, as: UTF8.self).lowercased()
    let prefix = "connection:"
    if text.hasPrefix(prefix), let id = UInt64(text.dropFirst(prefix.count)) {
      return .connection(id)
    }
    guard !text.hasPrefix(prefix) else {
      throw problem(
        "OWNER '\(quoted(bytes))' is not one of none, connection, connection:ID, scope:ID")
    }
    return try owner(bytes)
  }

  func reply<View>(_ page: Page<View>, _ write: (inout RESPEncoder, View) -> Void) {
    session.output.array(2)
    session.output.bulk(String(page.cursor))
    session.output.array(page.views.count)
    for view in page.views { write(&session.output, view) }
  }
}
