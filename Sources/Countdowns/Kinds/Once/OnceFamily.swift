import Wire

private let beginSyntax = "key TTL d [OWNER none|connection|scope:ID]"

let onceCommands: [CommandSpec] = [
  CommandSpec(
    "ONCE", nil, beginSyntax, group: .once, [.write, .fast],
    "Is accepted the first time, and for TTL answers others with the first one's result."
  ) { call throws(CommandError) in
    try begin(call)
  },

  CommandSpec(
    "ONCE", "BEGIN", beginSyntax, group: .once, [.write, .fast],
    "As ONCE, for keys that might be called like one of its other commands."
  ) { call throws(CommandError) in
    try begin(call)
  },

  CommandSpec(
    "ONCE", "DONE", "key !result [GENERATION g]", group: .once, [.write, .fast],
    "It was done, with that result: kept until TTL is over."
  ) { call throws(CommandError) in
    let result = try call.payload(call.arguments[3], "the result")
    let answer = try call.change(from: 4) { key, generation throws(EngineError) in
      try call.dispatcher.engine.finishOnce(key, result, generation: generation, at: call.now)
    }
    call.reply(answer, refusal: .duplicate)
  },

  CommandSpec(
    "ONCE", "CANCEL", "key [GENERATION g]", group: .once, [.write, .fast],
    "It did not come about, and may be tried again: 1, or 0 if there was nothing."
  ) { call throws(CommandError) in
    let done = try call.change(from: 3) { key, generation throws(EngineError) in
      try call.dispatcher.engine.cancelOnce(key, generation: generation, at: call.now)
    }
    call.session.output.integer(done ? 1 : 0)
  },

  CommandSpec(
    "ONCE", "GET", "key", group: .once, [.readOnly, .fast],
    "How far it is, and its result; null if it is not known."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.once(try call.key(), at: call.now))
  },

  CommandSpec(
    "ONCE", "LIST", listSyntax, group: .once, [.readOnly], complexity: "O(LIMIT)",
    "A page of what is done once."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listOnces(query, at: call.now)) { $0.view($1) }
  },
]

private func begin(_ call: Call) throws(CommandError) {
  var ttl: Interval?
  var owner = Owner.none
  var options = call.options(from: call.first + 1)
  while let option = try options.next() {
    switch option {
    case "TTL": ttl = try call.lasting(try options.duration(), "TTL")
    case "OWNER": owner = try call.owner(try options.value())
    default: throw options.unknown()
    }
  }
  guard let ttl else { throw call.problem("TTL is needed") }
  let key = try call.key()
  let answer = try call.run { () throws(EngineError) in
    try call.dispatcher.engine.beginOnce(
      key, for: ttl, owner: owner, by: call.session.client, at: call.now)
  }
  call.reply(answer, refusal: .duplicate)
}
