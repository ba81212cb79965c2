import Wire

/// The arguments of DEBOUNCE beyond the key and the quiet time.
private struct DebounceRequest {
  var payload: [UInt8]?
  var edges: Debounce.Edges?
  var isLeading = false
  var longest: Interval?
  var spacing: Interval?
  var owner = Owner.none
  var token: [UInt8]?
}

let debounceCommands: [CommandSpec] = [
  callDebounce,
  .change(
    DebounceKind.self, "CANCEL", "Cancel a burst: nothing fires.",
    Engine.cancelDebounce, reply: .done),
  .change(
    DebounceKind.self, "FLUSH", "Fire the pending event now.",
    Engine.flushDebounce, reply: .done),
  .get(DebounceKind.self, "Read a debouncer."),
  .list(DebounceKind.self, "List debouncers, page by page."),
]

private let callDebounce = CommandSpec(
  "DEBOUNCE", "CALL",
  [.key, Parameter("d", .duration(atLeast: 1), "The quiet time after the last call.")],
  [
    .payload("Data for the event.", { $0.payload = $1 }),
    .flag(
      "LEADING",
      "The same as EDGES both.",
      { $0.isLeading = $1 }),
    .choice(
      "EDGES",
      "`trailing` fires once after the quiet time; `leading` fires the first call of a burst at "
        + "once and drops later ones; `both` fires the first call at once, and later ones once "
        + "after the quiet time. A firing by MAXWAIT does not end the burst.",
      default: "trailing", { $0.edges = $1 }),
    .duration(
      "MAXWAIT",
      "Fires at the latest this long after the first pending call; at least the quiet time. With "
        + "EDGES leading, the burst is over at the latest then. Default: SPACING, if given.",
      { $0.longest = $1 }),
    .duration(
      "SPACING",
      "The least time between two firings, also of different bursts. Calls within it fire together "
        + "once it is over, so it is a throttle.",
      { $0.spacing = $1 }, lasting: true),
    .owner({ $0.owner = $1 }), .token({ $0.token = $1 }),
  ],
  group: .entities(.debounce), [.write, .fast],
  "Call a debouncer: one event follows once no call came for that time.", .answer,
  into: DebounceRequest()
) { call, request throws(CommandError) in
  let quiet = try call.lasting(
    try call.spec.duration(call.arguments[3], "the quiet time"), "the quiet time")
  guard !request.isLeading || request.edges ?? .both == .both else {
    throw call.problem("LEADING is EDGES both; give one of them")
  }
  guard
    let rule = Debounce.Rule(
      quiet: quiet, maximumWait: request.longest,
      edges: request.edges ?? (request.isLeading ? .both : .trailing), spacing: request.spacing)
  else { throw call.problem("MAXWAIT is at least the quiet time") }
  let key = try call.key()
  guard try !call.isRepeated(DebounceKind.self, key, request.token, .call) else { return }
  call.session.output.view(
    try call.run { () throws(EngineError) in
      try call.engine.callDebounce(
        key, rule, payload: request.payload, owner: request.owner, token: request.token,
        by: call.client, at: call.now)
    }, Answer(isAccepted: true), for: call.session.rights)
}
