import Wire

/// The arguments of ONCE beyond the key.
private struct OnceRequest {
  var ttl: Interval?
  var owner = Owner.none
}

let onceCommands: [CommandSpec] = [
  once(nil, "Accept the first request; answer repetitions within TTL with its result."),
  once("BEGIN", "The same as ONCE, for keys that could be mistaken for a subcommand."),
  .change(
    OnceKind.self, "DONE", "!result", "Record the result; it is retained until TTL is over.",
    { call throws(CommandError) in try call.payload(call.arguments[3], "the result") },
    Engine.finishOnce, reply: { $0.reply($1, refusal: .duplicate) }),
  .change(
    OnceKind.self, "CANCEL",
    "Give up, so that the next request is accepted again.",
    Engine.cancelOnce, reply: Call.done),
  .get(OnceKind.self, "Read the status of a request, and its result."),
  .list(OnceKind.self, "List idempotency keys, page by page."),
]

private func once(_ subcommand: String?, _ summary: String) -> CommandSpec {
  CommandSpec(
    "ONCE", subcommand, "key",
    [
      .duration("TTL", { $0.ttl = $1 }, lasting: true, isRequired: true), .owner({ $0.owner = $1 }),
    ],
    group: .entities(.once), [.write, .fast], summary, into: OnceRequest()
  ) { call, request throws(CommandError) in
    guard let ttl = request.ttl else { throw call.problem("TTL is needed") }
    let key = try call.key()
    call.reply(
      try call.run { () throws(EngineError) in
        try call.engine.beginOnce(
          key, for: ttl, owner: request.owner, by: call.client, at: call.now)
      }, refusal: .duplicate)
  }
}
