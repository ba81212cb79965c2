import Wire

extension GateKind {
  /// Closes a session that is open, or else drops the pending action.
  static func end(
    _ key: Span<UInt8>, in engine: Engine, at now: Moment
  ) throws(EngineError) -> Bool {
    if try engine.closeGate(key, generation: nil, at: now) { return true }
    return try engine.cancel(Self.self, key, generation: nil, at: now)
  }
}

let gateCommands: [CommandSpec] = [
  .call(
    GateKind.self, "CHECK",
    [Parameter("action", .text(atMost: TextLimits.action), "The name of the action.")],
    [
      .payload("Data of the action.", { $0.action.payload = $1 }),
      .switched(
        "REQUIRED", "`off`: the action needs no login and is accepted.", default: "on",
        { $0.isRequired = $1 }),
      .duration(
        "TTL", "How long the action is pending.", default: "gate.keep-pending",
        { $0.ttl = $1 }, lasting: true), .owner({ $0.owner = $1 }),
    ],
    "Ask whether an action may run now; if not, hold it until the session opens.",
    request: GateCheck.init,
    { call, key, check throws(EngineError) in
      try call.engine.checkGate(key, check, by: call.client, at: call.now)
    }, reply: .init(.answer) { $0.reply($1, refusal: .login) }),

  .call(
    GateKind.self, "OPEN",
    [
      .duration(
        "TTL", "How long the session is open. Default: until CLOSE.", { $0 = $1 }, lasting: true)
    ],
    "Open a session, for TTL or until CLOSE; the pending action runs, once.",
    into: nil as Interval?,
    { call, key, ttl throws(EngineError) in
      try call.engine.openGate(key, for: ttl, by: call.client, at: call.now)
    }, reply: .view),

  .call(
    GateKind.self, "TAKE", [.generation({ $0 = $1 })],
    "Take the action of an open session, to run it on this connection only.",
    flags: [.write, .fast, .ofConnection], into: nil as Generation?,
    { call, key, generation throws(EngineError) in
      try call.engine.takeGate(key, generation: generation, by: call.client, at: call.now)
    }, reply: .answer()),

  .call(
    GateKind.self, "DONE", [.generation({ $0 = $1 })], "Report that the action has run.",
    into: nil as Generation?,
    { call, key, generation throws(EngineError) in
      try call.engine.finishGate(key, generation: generation, by: call.client, at: call.now)
    }, reply: .done),

  .change(
    GateKind.self, "CANCEL", "Drop the pending action.",
    Engine.cancelGate, reply: .done),
  .change(
    GateKind.self, "CLOSE", "Close a session.", Engine.closeGate,
    reply: .done),
  .get(GateKind.self, "Read a session."),
  .list(GateKind.self, "List sessions that are open or have a pending action, page by page."),
]

extension GateCheck {
  fileprivate init(_ call: Call) throws(CommandError) {
    let name = try call.spec.text(call.arguments[3], "the action", atMost: TextLimits.action)
    guard !name.isEmpty else { throw call.problem("the action has no name") }
    self.init(Gate.Action(name: name), ttl: call.dispatcher.engine.settings.keepPending)
  }
}
