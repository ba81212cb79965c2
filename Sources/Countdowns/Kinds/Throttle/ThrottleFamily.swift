import Wire

/// The arguments of THROTTLE, beyond the key.
private struct TakeRequest {
  var burst: Int64?
  var rate: (count: Int64, period: Interval)?
  var cost: Int64?
  var isPeek = false
  var token: [UInt8]?
}

/// The arguments of THROTTLE REFUND, beyond the key.
private struct RefundRequest {
  var cost: UInt32
  var id: Int64?
  var generation: Generation?
  var token: [UInt8]?
}

let throttleCommands: [CommandSpec] = [
  takeThrottle,
  refundThrottle,
  CommandSpec(
    "THROTTLE", "UNBLOCK", [.key], [.generation({ $0 = $1 })], group: .entities(.throttle),
    [.write, .fast, .admin],
    "End the block of a limit of which too few codes were entered.",
    .answerOrNull, into: nil as Generation?
  ) { call, generation throws(CommandError) in
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.engine.unblockThrottle(key, generation: generation, at: call.now)
    }
    guard let answer else { return call.session.output.null() }
    call.reply(answer.view, Answer(isFirst: answer.isFirst))
  },
  CommandSpec(
    "THROTTLE", "WHY", [.key], group: .entities(.throttle), [.readOnly, .fast],
    "Explain in words how full a rate limit is, and when it has room.",
    .value(.optional(.record("throttle-why", ThrottleExplanation.fields)))
  ) { call throws(CommandError) in
    let explanation = call.engine.explainThrottle(try call.key(), at: call.now)
    guard let explanation else { return call.session.output.null() }
    call.session.output.record(explanation, for: call.session.rights)
  },
  .get(ThrottleKind.self, "Read a rate limit."),
  .list(ThrottleKind.self, "List rate limits, page by page."),
]

private let takeThrottle = CommandSpec(
  "THROTTLE", "TAKE",
  [
    .key,
    .key(
      "limit", of: .throttle,
      "The keys of more named limits, each given once: all have room, or none is taken."
    ).repeated,
  ],
  [
    .integer(
      "BURST",
      "What may be used at once; it comes back within 3650d. Named limits have their own.",
      { $0.burst = $1 }, in: 1...Throttle.Rate.maximum),
    Option(
      "RATE", "n/d", .rate,
      "`5/10m`: 5 come back in each 10 minutes, one every 2 minutes; the unit is needed."
    ) { request, reader, call throws(CommandError) in
      request.rate = try call.rate(try reader.value())
    },
    .integer(
      "COST", "How much this request uses, at most BURST.", default: "1",
      { $0.cost = $1 }, in: 1...Throttle.Rate.maximum),
    .flag("PEEK", "Replies as if asked, and changes nothing.", { $0.isPeek = $1 }),
    .token({ $0.token = $1 }),
  ],
  group: .entities(.throttle), [.write, .fast],
  "Take from a rate limit, or from several named limits, all or none.",
  .answerOfSeveral(LimitsReply.ownFields),
  optionsStart: startAfterLimits, into: TakeRequest()
) { call, request throws(CommandError) in
  let isNamed = call.engine.rulesOfName(of: call.arguments[2]) != nil
  guard let burst = request.burst, let (count, period) = request.rate, !isNamed,
    LimitRules.endOfKeys(call.arguments, from: 3) == 3
  else { return try takeLimits(call, request, isNamed: isNamed) }
  let cost = request.cost ?? 1
  guard cost <= burst else {
    throw call.problem(
      "COST \(cost) is more than BURST \(burst), so it would never be accepted")
  }
  guard let rate = Throttle.Rate(burst: burst, count: count, period: period) else {
    throw call.problem(
      "BURST \(burst) would take more than 3650d to come back at this RATE; lower BURST or "
        + "raise RATE")
  }
  guard request.token == nil || !request.isPeek else {
    throw call.problem("PEEK changes nothing; leave out TOKEN")
  }
  let key = try call.key()
  let digest = request.token == nil ? 0 : Tokens.digest([Array(key)], UInt32(cost))
  guard try !call.isRepeated(ThrottleKind.self, key, request.token, .take, digest: digest) else {
    return
  }
  call.reply(
    try call.run { () throws(EngineError) in
      try call.engine.takeThrottle(
        key, rate, cost: UInt32(cost), isPeek: request.isPeek, token: request.token,
        digest: digest, by: call.client, at: call.now)
    }, refusal: .rate)
}

private let startAfterLimits: CommandSpec.OptionsStart = { LimitRules.endOfKeys($0, from: 3) }

/// Takes from named limits.
private func takeLimits(
  _ call: Call, _ request: TakeRequest, isNamed: Bool
) throws(CommandError) {
  let end = LimitRules.endOfKeys(call.arguments, from: 3)
  if request.burst != nil || request.rate != nil {
    guard isNamed || end > 3 else { throw call.problem("BURST and RATE need each other") }
    throw call.problem(
      "named limits have their BURST and RATE in the configuration; leave them out")
  }
  var keys: [[UInt8]] = []
  for index in 2..<end {
    let key = Array(try call.key(call.arguments[index], "a key"))
    guard !keys.contains(key) else {
      throw call.problem("the limit '\(quoted(key.span))' is given twice")
    }
    keys.append(key)
  }
  guard keys.count <= LimitRules.maximumAtOnce else {
    throw call.problem("at most \(LimitRules.maximumAtOnce) limits at once")
  }
  guard request.token == nil || !request.isPeek else {
    throw call.problem("PEEK changes nothing; leave out TOKEN")
  }
  let limits = LimitsRequest(
    keys: keys, cost: UInt32(request.cost ?? 1), isPeek: request.isPeek, token: request.token)
  if let fleet = call.dispatcher.fleet, fleet.shares(.throttle) {
    return try fleet.take(limits, call)
  }
  let answer = try call.run { () throws(EngineError) in
    try call.engine.takeLimits(limits, by: call.client, at: call.now)
  }
  call.engine.journal?.note(
    answer.answer, Generation(answer.id), retryAfterMS: answer.retryAfterMS(at: call.now),
    limit: answer.refusal?.limit)
  call.session.output.record(answer.reply(at: call.now), for: call.session.rights)
}

extension LimitsAnswer {
  fileprivate var answer: Answer {
    Answer(isAccepted: refusal == nil, reason: isRepeated ? .repeated : refusal?.reason)
  }

  fileprivate func retryAfterMS(at now: Moment) -> Int64 {
    ((refusal?.until ?? now.boot) - now.boot).millisecondsRoundedUp
  }

  func reply(at now: Moment) -> LimitsReply {
    LimitsReply(
      answer: answer, refusedBy: refusal?.limit, retryAfterMS: retryAfterMS(at: now), views: views)
  }
}

/// The reply to TAKE about several limits.
struct LimitsReply: FieldRecord {
  let answer: Answer
  let refusedBy: [UInt8]?
  let retryAfterMS: Int64
  let views: [ThrottleView]

  static var blank: LimitsReply {
    LimitsReply(answer: Answer(isAccepted: true), refusedBy: nil, retryAfterMS: 0, views: [])
  }

  /// What only this reply has.
  static var ownFields: [Field] { fields.filter { ["refused_by", "views"].contains($0.name) } }

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.answer(answer, [])
    writer.field(
      "refused_by", bytes: refusedBy, .key.orNull,
      "Of named limits: the key of the one that has room last; null if accepted.")
    writer.field("retry_after_ms", retryAfterMS)
    writer.field(
      "views", records: views, .view, "Of named limits: each, in the order of the request.")
  }
}

private let refundThrottle = CommandSpec(
  "THROTTLE", "REFUND",
  [.key, Parameter("n", .integer(1...Throttle.Rate.maximum), "How much to give back.")],
  [
    .integer(
      "ID",
      "The `id` of a TAKE: gives back until `n` of it is given back in all. What has left a window "
        + "gives nothing back there.", { $0.id = $1 }, in: 1...Int64.max, value: "id"),
    .generation({ $0.generation = $1 }), .token({ $0.token = $1 }),
  ],
  group: .entities(.throttle), [.write, .fast], "Give back what was taken but not used.",
  .answerOrNull,
  request: { call throws(CommandError) in
    RefundRequest(
      cost: UInt32(try call.spec.integer(call.arguments[3], "n", in: 1...Throttle.Rate.maximum)))
  },
  handler: { call, request throws(CommandError) in
    let key = try call.key()
    let digest =
      request.token == nil ? 0 : Tokens.digest([Array(key)], request.cost, id: request.id ?? 0)
    guard try !call.isRepeated(ThrottleKind.self, key, request.token, .refund, digest: digest)
    else { return }
    let answer = try call.run { () throws(EngineError) in
      try call.engine.refundThrottle(
        key, cost: request.cost, id: request.id, generation: request.generation,
        token: request.token, digest: digest, at: call.now)
    }
    guard let answer else { return call.session.output.null() }
    call.reply(answer.view, Answer(isFirst: answer.isFirst))
  })

extension LimitRules {
  /// Returns where the keys of named limits end that begin at an argument: each has a colon, which
  /// no option has.
  static func endOfKeys(_ arguments: Arguments, from index: Int) -> Int {
    var end = index
    while end < arguments.count, Parameter.More.limits.contains(arguments[end]) { end += 1 }
    return end
  }
}

extension Call {
  /// Parses a rate such as `5/10m`: a count and a period.
  fileprivate func rate(
    _ bytes: Span<UInt8>
  ) throws(CommandError) -> (count: Int64, period: Interval) {
    if let slash = bytes.firstIndex(of: UInt8(ascii: "/")) {
      let count = Int64(String(decoding: bytes.extracting(..<slash)))
      let text = bytes.extracting((slash + 1)...)
      if let count, (1...Throttle.Rate.maximum).contains(count),
        let period = DurationText.parse(text), period >= .milliseconds(1)
      {
        // Milliseconds, as elsewhere, would be a thousand times what most people mean.
        guard !DurationText.isBareNumber(String(decoding: text)) else {
          throw problem("RATE '\(quoted(bytes))' has no unit: for seconds, write \(quoted(bytes))s")
        }
        return (count, period)
      }
    }
    throw problem(
      "RATE '\(quoted(bytes))' is not a rate: like 5/10m, 1 to \(Throttle.Rate.maximum) in a "
        + "duration of 1ms to 3650d")
  }
}
