import Wire

/// The arguments of START and RESEND.
private struct StartRequest {
  var start: CountdownStart
  var count: Int64?
  var every: Interval?
  var isBrief = false

  static func of(_ call: Call) -> StartRequest {
    StartRequest(start: CountdownStart(call.engine.stores.countdowns.defaultPlan))
  }
}

/// The arguments of ATTEMPT, beyond the key.
private struct AttemptRequest {
  var generation: Generation?
  var atAny = false
  var limits: [[UInt8]] = []
  var token: [UInt8]?
}

/// The arguments of FORGIVE, beyond the key.
private struct ForgiveRequest {
  var withLimits = false
  var generation: Generation?
}

extension Option where Request == StartRequest {
  fileprivate static var brief: Option {
    Option(
      "BRIEF", "", .flag,
      "Replies `[accepted, generation, retry_after_ms]`, a tenth of the bytes. `accepted` "
        + "is 0 (refused), 1 (accepted) or 2 (`repeated`).", isDecisive: false
    ) { request, _, _ in request.isBrief = true }
  }

}

extension Option {
  /// The keys of limits. Each has a colon, which no option has.
  ///
  /// - Parameter add: adds keys to those of the request, and returns how many it has.
  fileprivate static func limits(
    _ add: @escaping @Sendable (inout Request, [[UInt8]]) -> Int
  ) -> Option {
    Option(
      "LIMIT", "limit", .text(atMost: EntityRecord.longestKey),
      "The key of a limit that the policy names, such as `ip:10.0.0.7`. Limits that are derived or "
        + "global need none. `LIMIT a:1 b:2` is the same as `LIMIT a:1 LIMIT b:2`; two keys of one "
        + "limit are an error, also if they are equal.",
      repeats: true, keyOf: .throttle, more: .limits
    ) { request, reader, call throws(CommandError) in
      var limits: [[UInt8]] = []
      repeat {
        let key = try call.key(of: .throttle, try reader.value(), "the key of a limit")
        limits.append(Array(key))
      } while reader.has(.limits)
      guard add(&request, limits) <= LimitRules.maximumAtOnce else {
        throw call.problem("at most \(LimitRules.maximumAtOnce) limits at once")
      }
    }
  }
}

let countdownCommands: [CommandSpec] = [
  CommandSpec(
    "COUNTDOWN", "START", [.key],
    [
      Option(
        "POLICY", "p", .text(atMost: 64),
        "A policy of the configuration; it sets the length, the limits and the validity."
      ) { request, reader, call throws(CommandError) in
        request.start.policy = try call.policy(try reader.value())
      },
      .limits({
        $0.start.limits += $1
        return $0.start.limits.count
      }),
      .integer(
        "COUNT", "The number of steps.", default: "countdown.count",
        { $0.count = $1 }, in: 1...Int64(Int32.max)),
      .duration(
        "EVERY", "The length of a step, at least 1ms; COUNT times EVERY is at most 3650d.",
        default: "countdown.every", { $0.every = $1 }),
      .flag(
        "FIRE", "Counts the first step at once: COUNT 5 EVERY 1s FIRE lasts 4 s.",
        { $0.start.plan.firesAtOnce = $1 }),
      Option(
        "TITLE", "fmt", .text(atMost: Title.maximumBytes),
        "The text while counting. `%d` is the steps left, `%m:%02s` minutes and seconds "
          + "rounded up, `%%` a percent sign; any other `%` is refused. Any language "
          + "(`%ds后重发`).", isDecisive: false
      ) { request, reader, call throws(CommandError) in
        request.start.title = try call.title(try reader.value())
      },
      .text(
        "READYTITLE", "s", "The text when ready.", { $0.start.readyTitle = $1 },
        atMost: Title.maximumBytes),
      .owner({ $0.start.owner = $1 }),
      .bytes(
        "META", "Data of your own; shown in views, never logged.",
        { $0.start.annotations.meta = $1 }, atMost: TextLimits.meta),
      .token({ $0.start.token = $1 }),
      .brief,
    ],
    group: .entities(.countdown), [.write, .fast],
    "Start a countdown, or refuse and report how long to wait.", .answer,
    request: StartRequest.of
  ) { call, request throws(CommandError) in
    if request.start.policy != nil, request.count != nil || request.every != nil {
      throw call.problem("POLICY sets the length; leave out COUNT and EVERY")
    }
    let plan = request.start.plan
    guard
      let plan = Countdown.Plan(
        count: request.count.map { UInt32($0) } ?? plan.count, every: request.every ?? plan.every,
        firesAtOnce: plan.firesAtOnce)
    else { throw call.problem("EVERY is at least 1ms, and COUNT times EVERY at most 3650d") }
    request.start.plan = plan
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.engine.start(
        key, &request.start, by: call.client, at: call.now)
    }
    call.reply(answer, isBrief: request.isBrief)
  },

  CommandSpec(
    "COUNTDOWN", "RESEND", [.key],
    [
      .limits({
        $0.start.limits += $1
        return $0.start.limits.count
      }),
      .token({ $0.start.token = $1 }),
      .brief,
    ],
    group: .entities(.countdown), [.write, .fast],
    "Start a ready countdown again with the options of its last START.", .answer,
    uses: limitsOfStart,
    request: StartRequest.of
  ) { call, request throws(CommandError) in
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.engine.resend(
        key, limits: request.start.limits, token: request.start.token, by: call.client, at: call.now
      )
    }
    call.reply(answer, isBrief: request.isBrief)
  },

  .get(CountdownKind.self, "Read a countdown."),
  .list(CountdownKind.self, "List countdowns, page by page."),

  CommandSpec(
    "COUNTDOWN", "WHY", [.key], group: .entities(.countdown), [.readOnly, .fast],
    "Explain why a countdown is as it is, and what would be refused.",
    .value(.record("countdown-why", CountdownExplanation.fields))
  ) { call throws(CommandError) in
    let explanation = call.engine.explainCountdown(
      try call.key(), for: call.session.rights, at: call.now)
    call.session.output.record(explanation, for: call.session.rights)
  },

  .change(
    CountdownKind.self, "CANCEL",
    "Cancel a countdown. Sends under a policy stay on record.",
    Engine.cancelCountdown, reply: .done),
  .change(
    CountdownKind.self, "PAUSE", "Pause a countdown and keep its remaining time.",
    Engine.pauseCountdown, flags: [.write, .fast, .harmlessAgain], reply: .view),
  .change(
    CountdownKind.self, "RESUME", "Resume a paused countdown with its remaining time.",
    Engine.resumeCountdown, flags: [.write, .fast, .harmlessAgain], reply: .view),
  .change(
    CountdownKind.self, "RETIME",
    Parameter("d", .duration(), "The time left; 0 makes it ready at once."),
    "Change when a countdown ends, counted from now.", Call.time, Engine.retimeCountdown,
    reply: .view),

  CommandSpec(
    "COUNTDOWN", "REFUND", [.key], [.generation({ $0 = $1 }, isRequired: true)],
    group: .entities(.countdown), [.write, .fast, .harmlessAgain],
    "Give a failed send back: its cooldown and its place in the windows.", .answer,
    uses: limitsOfSend,
    into: nil as Generation?
  ) { call, generation throws(CommandError) in
    guard let generation else {
      throw call.problem("REFUND needs the GENERATION of the send that failed")
    }
    let key = try call.key()
    let (refund, view) = try call.run { () throws(EngineError) in
      try call.engine.refundCountdown(key, generation: generation, at: call.now)
    }
    call.reply(view, Answer(refund))
  },

  .call(
    CountdownKind.self, "FORGIVE",
    [
      .flag(
        "LIMITS",
        "Also gives back all that the key used of its limits, for as long as they count it.",
        { $0.withLimits = $1 }),
      .generation({ $0.generation = $1 }),
    ],
    "Forget the sends and codes of a key, as if nothing had been sent or tried.",
    flags: [.write, .fast, .admin], into: ForgiveRequest(),
    { call, key, request throws(EngineError) in
      try call.engine.forgiveCountdown(
        key, withLimits: request.withLimits, generation: request.generation, by: call.client,
        at: call.now)
    }, reply: .view),

  CommandSpec(
    "COUNTDOWN", "ATTEMPT", [.key],
    [
      .generation({ $0.generation = $1 }),
      .flag(
        "ANY",
        "Counts one attempt at each valid code; `codes` says which may be checked. PASS then needs "
          + "GENERATION.", { $0.atAny = $1 }),
      .limits({
        $0.limits += $1
        return $0.limits.count
      }),
      .token({ $0.token = $1 }),
    ],
    group: .entities(.countdown), [.write, .fast],
    "Ask whether a code may be checked, and count the attempt.", .answer, into: AttemptRequest()
  ) { call, request throws(CommandError) in
    let (generation, atAny, token) = (request.generation, request.atAny, request.token)
    let limits = request.limits
    guard generation == nil || !atAny else {
      throw call.problem("ANY is about all valid codes; leave out GENERATION")
    }
    let key = try call.key()
    let repeated = call.engine.repeatedAttempt(
      key, generation: generation, atAny: atAny, token: token, at: call.now)
    if let repeated { return call.reply(repeated, Answer(isFirst: false)) }
    let (attempt, view) = try call.run { () throws(EngineError) in
      try call.engine.attemptCountdown(
        key, generation: generation, atAny: atAny, limits: limits, token: token, by: call.client,
        at: call.now)
    }
    call.reply(view, Answer(attempt))
  },
  .change(
    CountdownKind.self, "PASS",
    "Mark a valid code as used. The send still counts towards the limits.",
    Engine.passCountdown, flags: [.write, .fast, .harmlessAgain],
    reply: .init(.answer) { $0.reply($1.1, Answer($1.0)) }),
]

/// The limits that RESEND repeats, unless it gives others.
private let limitsOfStart: CommandSpec.UsedKeys<StartRequest> = { call, request in
  request.start.limits.isEmpty ? call.givenLimits { $0.limits } : []
}

/// The limits that REFUND gives a send back to.
private let limitsOfSend: CommandSpec.UsedKeys<Generation?> = { call, _ in
  call.givenLimits { $0.record.last?.limits ?? [] }
}

extension Call {
  /// Returns those limits of the countdown whose keys a START has given; the others are the
  /// policy's.
  fileprivate func givenLimits(
    _ limits: (Sending) -> [[UInt8]]
  ) -> [(kind: EntityKind, key: [UInt8])] {
    engine.limits(ofCountdown: arguments[first], limits, at: now)
      .filter { engine.rules(of: $0.span)?.needsKey ?? false }.map { (.throttle, $0) }
  }

  /// Replies with the whole view, or with three numbers to a client that asks for a `BRIEF` reply.
  fileprivate func reply(_ answer: StartAnswer, isBrief: Bool) {
    let engine = dispatcher.engine
    let (decision, limit) = (Answer(answer.decision), answer.refusal?.limit)
    guard isBrief else {
      reply(engine.view(of: answer, at: now), decision)
      engine.journal?.note(limit: limit)
      return
    }
    let accepted: UInt8 =
      switch answer.decision {
      case .refused: 0
      case .accepted: 1
      case .acceptedBefore: 2
      }
    let brief = engine.brief(of: answer, at: now)
    engine.journal?.note(
      decision, brief.generation, retryAfterMS: brief.retryAfterMS, limit: limit)
    session.output.integers(accepted, brief.generation.value, brief.retryAfterMS)
  }

  /// Returns a title whose length and placeholders are valid.
  fileprivate func title(_ bytes: Span<UInt8>) throws(CommandError) -> [UInt8] {
    let title = try spec.text(bytes, "TITLE", atMost: Title.maximumBytes)
    if let text = Title.problem(title) { throw problem("TITLE '\(quoted(bytes))': \(text)") }
    return title
  }

  /// Returns a policy of the configuration by its name.
  fileprivate func policy(_ bytes: Span<UInt8>) throws(CommandError) -> SendPolicy {
    let policies = dispatcher.engine.settings.policies
    if let policy = policies[String(decoding: bytes)] { return policy }
    let maximum = 20
    let names = policies.keys.sorted()
    let known =
      names.isEmpty
      ? "the configuration has none; docs/explanation/policies.md shows how to write one"
      : "known: " + names.prefix(maximum).joined(separator: ", ")
        + (names.count > maximum ? ", …" : "")
    throw CommandError("ERR no policy '\(quoted(bytes))'; \(known)")
  }
}

extension Dispatcher {
  /// Prefetches the countdown of a command that is executed soon, if it is like the last command.
  package func prepare(_ arguments: Arguments) {
    let index = table.lastPrefetched
    if index > 0, index < arguments.count { engine.countdowns.prepare(key: arguments[index]) }
  }
}

extension Answer {
  init(_ decision: StartDecision) {
    self.init(isAccepted: decision.isAccepted, reason: decision.reason)
  }

  init(_ attempt: SendRecord.Attempt) {
    switch attempt {
    case .accepted: self.init(isAccepted: true)
    case .expired: self.init(isAccepted: false, reason: .expired)
    case .locked: self.init(isAccepted: false, reason: .locked)
    case .passed: self.init(isAccepted: false, reason: .passed)
    case .refused(let reason): self.init(isAccepted: false, reason: reason)
    }
  }

  init(_ refund: SendRecord.Refund) {
    switch refund {
    case .accepted: self.init(isFirst: true)
    case .acceptedBefore: self.init(isFirst: false)
    case .refused: self.init(isAccepted: false, reason: .refunds)
    }
  }

  init(_ pass: SendRecord.Pass) {
    switch pass {
    case .accepted: self.init(isFirst: true)
    case .acceptedBefore: self.init(isFirst: false)
    case .expired: self.init(isAccepted: false, reason: .expired)
    }
  }
}

extension Engine {
  /// What INFO and METRICS report of starts, and of what limits them.
  var sendFigures: [Figure] {
    [
      .init("starts_accepted", "\(statistics.decisions.accepted)"),
      .init("starts_refused", "\(statistics.decisions.refused)"),
      .by(
        "result", "starts_total", .counter, "Requests to start a countdown.",
        [("accepted", statistics.decisions.accepted), ("refused", statistics.decisions.refused)]),
      .init(
        "starts_limited", statistics.decisions.limited, .counter, as: "limited_starts_total",
        "Starts refused because of a named limit."),
      .init(
        "limits_blocked", statistics.decisions.blocked, .counter,
        "How often a named limit was blocked because too few codes were entered."),
      .init(nil, blockedLimits, .gauge, as: "blocked_limits", "Named limits that are blocked now."),
      .init("sends_refunded", "\(statistics.decisions.refunded)"),
    ]
  }
}
