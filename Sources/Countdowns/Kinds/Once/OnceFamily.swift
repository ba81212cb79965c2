import Wire

/// The arguments of ONCE beyond the key.
private struct OnceRequest {
  var ttl: Interval?
  var owner = Owner.none
  var token: [UInt8]?
}

let onceCommands: [CommandSpec] = [
  beginOnce,
  .change(
    OnceKind.self, "DONE",
    Parameter(
      "result", .bytes(), "The result, at most `limits.max-result-length`.", isSecret: true),
    "Record the result; it is retained until TTL is over.",
    { call throws(CommandError) in
      let maximum = call.engine.settings.limits.resultLength
      let result = call.arguments[3]
      guard result.count <= maximum else {
        throw CommandError(
          "LIMIT max-result-length is \(maximum), and the result has \(result.count) bytes; store it "
            + "elsewhere and record where it is, or raise limits.max-result-length")
      }
      return Array(result)
    },
    Engine.finishOnce, flags: [.write, .fast, .harmlessAgain],
    reply: .init(.answer) { $0.reply($1, refusal: .duplicate) }),
  .change(
    OnceKind.self, "CANCEL",
    "Give up, so that the next request is accepted again.",
    Engine.cancelOnce, reply: .done),
  .get(OnceKind.self, "Read the status of a request, and its result."),
  .list(OnceKind.self, "List idempotency keys, page by page."),
]

private let beginOnce = CommandSpec(
  "ONCE", "BEGIN", [.key],
  [
    .duration(
      "TTL",
      "How long repetitions are recognized, from the first request; DONE does not extend it.",
      { $0.ttl = $1 }, lasting: true, isRequired: true), .owner({ $0.owner = $1 }),
    .token({ $0.token = $1 }),
  ],
  group: .entities(.once), [.write, .fast],
  "Accept the first request; answer repetitions within TTL with its result.", .answer,
  into: OnceRequest()
) { call, request throws(CommandError) in
  guard let ttl = request.ttl else { throw call.problem("TTL is needed") }
  let key = try call.key()
  guard try !call.isRepeated(OnceKind.self, key, request.token, .begin) else { return }
  call.reply(
    try call.run { () throws(EngineError) in
      try call.engine.beginOnce(
        key, for: ttl, owner: request.owner, token: request.token, by: call.client, at: call.now)
    }, refusal: .duplicate)
}
