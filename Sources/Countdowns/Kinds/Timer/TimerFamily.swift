import Wire

let timerCommands: [CommandSpec] = [
  CommandSpec(
    "TIMER", "SET",
    "key d [EVERY d] [PAYLOAD !bytes] [OWNER none|connection|scope:ID] [LATE fire|skip|coalesce] "
      + "[CLOCK boot|wall]",
    group: .timer, [.write, .fast],
    "Arms a timer, once or again and again; one of that name is replaced."
  ) { call throws(CommandError) in
    var set = TimerSet(after: try call.duration(call.arguments[3], "the time"))
    var options = call.options(from: 4)
    while let option = try options.next() {
      switch option {
      case "EVERY":
        let every = try options.duration()
        guard every >= .milliseconds(1) else { throw call.problem("EVERY is at least 1ms") }
        set.every = every
      case "PAYLOAD": set.payload = try options.text(atMost: TextLimits.payload)
      case "OWNER": set.owner = try call.owner(try options.value())
      case "LATE": set.late = try options.choice()
      case "CLOCK": set.clock = try options.choice()
      default: throw options.unknown()
      }
    }
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.setTimer(key, set, by: call.session.client, at: call.now)
      })
  },

  CommandSpec(
    "TIMER", "GET", "key", group: .timer, [.readOnly, .fast],
    "How a timer is; null if there is none."
  ) { call throws(CommandError) in
    guard let view = call.dispatcher.engine.timer(try call.key(), at: call.now) else {
      return call.session.output.null()
    }
    call.session.output.view(view)
  },

  CommandSpec(
    "TIMER", "PAUSE", "key [GENERATION g]", group: .timer, [.write, .fast],
    "Stops the time of a timer."
  ) { call throws(CommandError) in
    call.session.output.view(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.pauseTimer(
          key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "TIMER", "RESUME", "key [GENERATION g]", group: .timer, [.write, .fast],
    "Lets a paused timer go on with the time it had left."
  ) { call throws(CommandError) in
    call.session.output.view(
      try call.change(from: 3) { key, generation throws(EngineError) in
        try call.dispatcher.engine.resumeTimer(
          key, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "TIMER", "RETIME", "key d [GENERATION g]", group: .timer, [.write, .fast],
    "Makes a timer due in that time from now."
  ) { call throws(CommandError) in
    let left = try call.duration(call.arguments[3], "the time")
    call.session.output.view(
      try call.change(from: 4) { key, generation throws(EngineError) in
        try call.dispatcher.engine.retimeTimer(
          key, to: left, generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "TIMER", "DEL", "key [GENERATION g]", group: .timer, [.write, .fast],
    "Disarms a timer: 1, or 0 if there was none."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.deleteTimer(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "TIMER", "LIST", listSyntax, group: .timer, [.readOnly], complexity: "O(LIMIT)",
    "A page of timers."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listTimers(query, at: call.now)) { $0.view($1) }
  },
]
