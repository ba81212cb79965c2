import Wire

let gateCommands: [CommandSpec] = [
  CommandSpec(
    "GATE", "CHECK",
    "session action [PAYLOAD !bytes] [REQUIRED on|off] [TTL d] [OWNER none|connection|scope:ID]",
    group: .gate, [.write, .fast],
    "Asks whether an action may run now; if not, it is kept until the session opens."
  ) { call throws(CommandError) in
    let name = try call.text(call.arguments[3], "the action", atMost: TextLimits.action)
    guard !name.isEmpty else { throw call.problem("the action has no name") }
    var check = GateCheck(
      Gate.Action(name: name), ttl: call.dispatcher.engine.settings.keepPending)
    var options = call.options(from: 4)
    while let option = try options.next() {
      switch option {
      case "PAYLOAD": check.action.payload = try call.payload(try options.value(), "PAYLOAD")
      case "REQUIRED": check.isRequired = try options.choice() as Switch == .on
      case "TTL": check.ttl = try call.lasting(try options.duration(), "TTL")
      case "OWNER": check.owner = try call.owner(try options.value())
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.dispatcher.engine.checkGate(key, check, by: call.session.client, at: call.now)
    }
    call.reply(answer, refusal: .login)
  },

  CommandSpec(
    "GATE", "OPEN", "session [TTL d]", group: .gate, [.write, .fast],
    "Opens a session, for TTL or for good, and runs what waits for it, once."
  ) { call throws(CommandError) in
    var ttl: Interval?
    var options = call.options(from: 3)
    while let option = try options.next() {
      guard option == "TTL" else { throw options.unknown() }
      ttl = try call.lasting(try options.duration(), "TTL")
    }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.openGate(key, for: ttl, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "GATE", "CANCEL", "session [GENERATION g]", group: .gate, [.write, .fast],
    "Drops the action that waits: 1, or 0 if none does."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.cancelGate(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "GATE", "CLOSE", "session [GENERATION g]", group: .gate, [.write, .fast],
    "Closes a session: 1, or 0 if it is not open."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.closeGate(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "GATE", "GET", "session", group: .gate, [.readOnly, .fast],
    "How a session is; null if it is closed and nothing waits."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.gate(try call.key(), at: call.now))
  },

  CommandSpec(
    "GATE", "LIST", listSyntax, group: .gate, [.readOnly], complexity: "O(LIMIT)",
    "A page of sessions that are open, or for which something waits."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listGates(query, at: call.now)) { $0.view($1) }
  },
]
