import Wire

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
  CommandSpec(
    "ONCE", "EXTEND", [.key],
    [
      .duration("LEASE", "Changes the lease.", { $0.lease = $1 }, lasting: true),
      .generation({ $0.generation = $1 }, isRequired: true),
    ],
    group: .entities(.once), [.write, .fast, .harmlessAgain],
    "Renew the lease of running work, from now on; TTL stays as it is.", .answer,
    into: (lease: nil as Interval?, generation: nil as Generation?)
  ) { call, request throws(CommandError) in
    guard let generation = request.generation else { throw call.problem("GENERATION is needed") }
    let key = try call.key()
    call.reply(
      try call.run { () throws(EngineError) in
        try call.engine.extendOnce(
          key, lease: request.lease, generation: generation, at: call.now)
      }, refusal: .duplicate)
  },
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
      { $0.ttl = $1 }, lasting: true, isRequired: true),
    .duration(
      "LEASE",
      "How long the work may take without EXTEND. Then the next request is accepted, so work may "
        + "run twice. DONE, EXTEND and CANCEL need GENERATION. At most TTL; without it, work has "
        + "the whole TTL.",
      { $0.lease = $1 }, lasting: true),
    Option(
      "FINGERPRINT", "text", .bytes(atMost: TextLimits.fingerprint),
      "What the request is about, such as its body: another one is refused as a `mismatch`, also "
        + "while the first is running. The daemon keeps 16 bytes of it.",
      isSecret: true, isDecisive: false
    ) { request, reader, _ throws(CommandError) in
      let text = try reader.text(atMost: TextLimits.fingerprint)
      request.fingerprint = Fingerprint(of: text.span)
    },
    .owner({ $0.owner = $1 }),
    .token({ $0.token = $1 }),
  ],
  group: .entities(.once), [.write, .fast],
  "Accept the first request; answer repetitions within TTL with its result.", .answer,
  into: OnceRequest(ttl: .zero)
) { call, request throws(CommandError) in
  guard request.ttl > .zero else { throw call.problem("TTL is needed") }
  if let lease = request.lease, lease > request.ttl {
    throw call.problem("LEASE is at most TTL; work that takes longer needs a longer TTL")
  }
  let key = try call.key()
  if !call.engine.isMismatch(key, request, at: call.now) {
    guard try !call.isRepeated(OnceKind.self, key, request.token, .begin) else { return }
  }
  let (refusal, view) = try call.run { () throws(EngineError) in
    try call.engine.beginOnce(key, request, by: call.client, at: call.now)
  }
  call.reply(view, Answer(refusal))
}
