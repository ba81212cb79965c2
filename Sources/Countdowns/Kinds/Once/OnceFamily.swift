import Wire

/// What ONCE says, beyond the key.
private struct OnceRequest {
  var ttl: Interval?
  var owner = Owner.none
}

let onceCommands: [CommandSpec] = [
  once(nil, "Is accepted the first time, and for TTL answers others with the first one's result."),
  once("BEGIN", "As ONCE, for keys that might be called like one of its other commands."),
  .change(
    OnceKind.self, "DONE", "!result", "It was done, with that result: kept until TTL is over.",
    { call throws(CommandError) in try call.payload(call.arguments[3], "the result") },
    Engine.finishOnce, reply: { $0.reply($1, refusal: .duplicate) }),
  .change(
    OnceKind.self, "CANCEL",
    "It did not come about, and may be tried again: 1, or 0 if there was nothing.",
    Engine.cancelOnce, reply: Call.done),
  .get(OnceKind.self, "How far it is, and its result; null if it is not known."),
  .list(OnceKind.self, "A page of what is done once."),
]

private func once(_ subcommand: String?, _ summary: String) -> CommandSpec {
  CommandSpec(
    "ONCE", subcommand, "key",
    [.duration("TTL", \.ttl, lasting: true, isRequired: true), .owner(\.owner)],
    group: .entities(.once), [.write, .fast], summary, into: OnceRequest()
  ) { call, request throws(CommandError) in
    guard let ttl = request.ttl else { throw call.problem("TTL is needed") }
    let key = try call.key()
    call.reply(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.beginOnce(
          key, for: ttl, owner: request.owner, by: call.session.client, at: call.now)
      }, refusal: .duplicate)
  }
}
