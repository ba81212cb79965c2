import Wire

let gateCommands: [CommandSpec] = [
  CommandSpec(
    "GATE", "CHECK", "session action",
    [
      .payload({ $0.action.payload = $1 }), .switched("REQUIRED", { $0.isRequired = $1 }),
      .duration("TTL", { $0.ttl = $1 }, lasting: true), .owner({ $0.owner = $1 }),
    ],
    group: .entities(.gate), [.write, .fast],
    "Ask whether an action may run now; if not, hold it until the session opens.",
    request: GateCheck.init
  ) { call, check throws(CommandError) in
    let key = try call.key()
    call.reply(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.checkGate(key, check, by: call.session.client, at: call.now)
      }, refusal: .login)
  },

  CommandSpec(
    "GATE", "OPEN", "session", [.duration("TTL", { $0 = $1 }, lasting: true)],
    group: .entities(.gate), [.write, .fast],
    "Open a session, for TTL or until CLOSE; the pending action runs, once.",
    into: nil as Interval?
  ) { call, ttl throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.openGate(key, for: ttl, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "GATE", "TAKE", "session", [.generation({ $0 = $1 })], group: .entities(.gate),
    [.write, .fast],
    "Take the action of an open session, to run it on this connection only.",
    into: nil as Generation?
  ) { call, generation throws(CommandError) in
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.takeGate(
        key, generation: generation, by: call.session.client, at: call.now)
    }
    call.session.output.view(answer.view, Answer(answer.refusal))
  },

  CommandSpec(
    "GATE", "DONE", "session", [.generation({ $0 = $1 })], group: .entities(.gate),
    [.write, .fast], "Report that the action has run.", into: nil as Generation?
  ) { call, generation throws(CommandError) in
    let key = try call.key()
    Call.done(
      call,
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.finishGate(
          key, generation: generation, by: call.session.client, at: call.now)
      })
  },

  .change(
    GateKind.self, "CANCEL", "Drop the pending action.",
    Engine.cancelGate, reply: Call.done),
  .change(
    GateKind.self, "CLOSE", "Close a session.", Engine.closeGate,
    reply: Call.done),
  .get(GateKind.self, "Read a session."),
  .list(GateKind.self, "List sessions that are open or have a pending action, page by page."),
]

extension GateCheck {
  fileprivate init(_ call: Call) throws(CommandError) {
    let name = try call.text(call.arguments[3], "the action", atMost: TextLimits.action)
    guard !name.isEmpty else { throw call.problem("the action has no name") }
    self.init(Gate.Action(name: name), ttl: call.dispatcher.engine.settings.keepPending)
  }
}
