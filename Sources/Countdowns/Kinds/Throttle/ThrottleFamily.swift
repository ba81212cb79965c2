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
  var generation: Generation?
  var token: [UInt8]?
}

let throttleCommands: [CommandSpec] = [
  takeThrottle,
  refundThrottle,
  .get(ThrottleKind.self, "Read a rate limit."),
  .list(ThrottleKind.self, "List rate limits, page by page."),
]

private let takeThrottle = CommandSpec(
  "THROTTLE", "TAKE", "key",
  [
    .integer(
      "BURST", "What may be used at once; all of it must come back within 3650d.",
      { $0.burst = $1 }, in: 1...Throttle.Rate.most, isRequired: true),
    Option(
      "RATE", "n/d", .rate,
      "`5/10m`: 5 come back in each 10 minutes, one every 2 minutes; the unit is needed.",
      isRequired: true
    ) { request, reader, call throws(CommandError) in
      request.rate = try call.rate(try reader.value())
    },
    .integer(
      "COST", "How much this request uses, at most BURST.", default: "1",
      { $0.cost = $1 }, in: 1...Throttle.Rate.most),
    .flag("PEEK", "Replies as if asked, and changes nothing.", { $0.isPeek = $1 }),
    .token({ $0.token = $1 }),
  ],
  group: .entities(.throttle), [.write, .fast],
  "Take from a rate limit: up to BURST at once, RATE in the long run.", .answer,
  into: TakeRequest()
) { call, request throws(CommandError) in
  guard let burst = request.burst, let (count, period) = request.rate else {
    throw call.problem("BURST and RATE are needed")
  }
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
  guard !call.isRepeated(ThrottleKind.self, key, request.token, .take) else { return }
  call.reply(
    try call.run { () throws(EngineError) in
      try call.engine.takeThrottle(
        key, rate, cost: UInt32(cost), isPeek: request.isPeek, token: request.token,
        by: call.client, at: call.now)
    }, refusal: .rate)
}

private let refundThrottle = CommandSpec(
  "THROTTLE", "REFUND", "key n",
  [.generation({ $0.generation = $1 }), .token({ $0.token = $1 })],
  group: .entities(.throttle), [.write, .fast], "Give back what was taken but not used.",
  .answerOrNull,
  request: { call throws(CommandError) in
    RefundRequest(
      cost: UInt32(try call.integer(call.arguments[3], "n", in: 1...Throttle.Rate.most)))
  },
  handler: { call, request throws(CommandError) in
    let key = try call.key()
    guard !call.isRepeated(ThrottleKind.self, key, request.token, .refund) else { return }
    let view = try call.run { () throws(EngineError) in
      try call.engine.refundThrottle(
        key, cost: request.cost, generation: request.generation, token: request.token, at: call.now)
    }
    guard let view else { return call.session.output.null() }
    call.session.output.view(view, Answer(isAccepted: true))
  })

extension Call {
  /// Parses a rate such as `5/10m`: a count and a period.
  fileprivate func rate(
    _ bytes: Span<UInt8>
  ) throws(CommandError) -> (count: Int64, period: Interval) {
    if let slash = bytes.firstIndex(of: UInt8(ascii: "/")) {
      let count = Int64(String(decoding: bytes.extracting(..<slash)))
      let text = bytes.extracting((slash + 1)...)
      if let count, (1...Throttle.Rate.most).contains(count),
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
      "RATE '\(quoted(bytes))' is not a rate: like 5/10m, 1 to \(Throttle.Rate.most) in a "
        + "duration of 1ms to 3650d")
  }
}
