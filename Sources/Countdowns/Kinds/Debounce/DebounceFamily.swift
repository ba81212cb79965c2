import Wire

private let callSyntax =
  "key d [PAYLOAD !bytes] [LEADING] [MAXWAIT d] [OWNER none|connection|scope:ID]"

let debounceCommands: [CommandSpec] = [
  CommandSpec(
    "DEBOUNCE", nil, callSyntax, group: .debounce, [.write, .fast],
    "One of many calls: one event tells of them all once they have been quiet for that time."
  ) { call throws(CommandError) in
    try debounce(call)
  },

  CommandSpec(
    "DEBOUNCE", "CALL", callSyntax, group: .debounce, [.write, .fast],
    "As DEBOUNCE, for keys that might be called like one of its other commands."
  ) { call throws(CommandError) in
    try debounce(call)
  },

  CommandSpec(
    "DEBOUNCE", "CANCEL", "key [GENERATION g]", group: .debounce, [.write, .fast],
    "Forgets what was called: 1, or 0 if nothing was."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.cancelDebounce(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "DEBOUNCE", "FLUSH", "key [GENERATION g]", group: .debounce, [.write, .fast],
    "Fires what waits, at once: 1, or 0 if nothing does."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.flushDebounce(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "DEBOUNCE", "GET", "key", group: .debounce, [.readOnly, .fast],
    "What waits for quiet; null if it is quiet."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.debounce(try call.key(), at: call.now))
  },

  CommandSpec(
    "DEBOUNCE", "LIST", listSyntax, group: .debounce, [.readOnly], complexity: "O(LIMIT)",
    "A page of what waits for quiet."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listDebounces(query, at: call.now)) { $0.view($1) }
  },
]

private func debounce(_ call: Call) throws(CommandError) {
  let quiet = try call.lasting(
    try call.duration(call.arguments[call.first + 1], "the quiet time"), "the quiet time")
  var payload: [UInt8]?
  var isLeading = false
  var longest: Interval?
  var owner = Owner.none
  var options = call.options(from: call.first + 2)
  while let option = try options.next() {
    switch option {
    case "PAYLOAD": payload = try call.payload(try options.value(), "PAYLOAD")
    case "LEADING": isLeading = true
    case "MAXWAIT": longest = try options.duration()
    case "OWNER": owner = try call.owner(try options.value())
    default: throw options.unknown()
    }
  }
  guard let rule = Debounce.Rule(quiet: quiet, maximumWait: longest, isLeading: isLeading) else {
    throw call.problem("MAXWAIT is at least the quiet time")
  }
  let key = try call.key()
  call.session.output.view(
    try call.run { () throws(EngineError) in
      try call.dispatcher.engine.callDebounce(
        key, rule, payload: payload, owner: owner, by: call.session.client, at: call.now)
    })
}
