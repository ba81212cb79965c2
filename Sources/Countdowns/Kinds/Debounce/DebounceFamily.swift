import Wire

/// What DEBOUNCE says, beyond the key and the quiet time.
private struct DebounceRequest {
  var payload: [UInt8]?
  var isLeading = false
  var longest: Interval?
  var owner = Owner.none
}

let debounceCommands: [CommandSpec] = [
  debounce(
    nil, "One of many calls: one event tells of them all once they have been quiet for that time."),
  debounce("CALL", "As DEBOUNCE, for keys that might be called like one of its other commands."),
  .change(
    DebounceKind.self, "CANCEL", "Forgets what was called: 1, or 0 if nothing was.",
    Engine.cancelDebounce, reply: Call.done),
  .change(
    DebounceKind.self, "FLUSH", "Fires what waits, at once: 1, or 0 if nothing does.",
    Engine.flushDebounce, reply: Call.done),
  .get(DebounceKind.self, "What waits for quiet; null if it is quiet."),
  .list(DebounceKind.self, "A page of what waits for quiet."),
]

private func debounce(_ subcommand: String?, _ summary: String) -> CommandSpec {
  CommandSpec(
    "DEBOUNCE", subcommand, "key d",
    [
      .payload(\.payload), .flag("LEADING", \.isLeading), .duration("MAXWAIT", \.longest),
      .owner(\.owner),
    ],
    group: .entities(.debounce), [.write, .fast], summary, into: DebounceRequest()
  ) { call, request throws(CommandError) in
    let quiet = try call.lasting(
      try call.duration(call.arguments[call.first + 1], "the quiet time"), "the quiet time")
    guard
      let rule = Debounce.Rule(
        quiet: quiet, maximumWait: request.longest, isLeading: request.isLeading)
    else { throw call.problem("MAXWAIT is at least the quiet time") }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.callDebounce(
          key, rule, payload: request.payload, owner: request.owner, by: call.session.client,
          at: call.now)
      })
  }
}
