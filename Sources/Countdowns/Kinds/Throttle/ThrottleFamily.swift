import Wire

private let takeSyntax = "key BURST n RATE n/d [COST n] [PEEK]"

let throttleCommands: [CommandSpec] = [
  CommandSpec(
    "THROTTLE", nil, takeSyntax, group: .throttle, [.write, .fast],
    "Asks whether something may be done now, BURST times at once and RATE in the long run."
  ) { call throws(CommandError) in
    try take(call)
  },

  CommandSpec(
    "THROTTLE", "TAKE", takeSyntax, group: .throttle, [.write, .fast],
    "As THROTTLE, for keys that might be called like one of its other commands."
  ) { call throws(CommandError) in
    try take(call)
  },

  CommandSpec(
    "THROTTLE", "REFUND", "key n [GENERATION g]", group: .throttle, [.write, .fast],
    "Gives back what was not used after all; null if nothing of the key is used."
  ) { call throws(CommandError) in
    let cost = try call.integer(call.arguments[3], "n", in: 1...Throttle.Rate.most)
    call.reply(
      try call.change(from: 4) { key, generation throws(EngineError) in
        try call.dispatcher.engine.refundThrottle(
          key, cost: UInt32(cost), generation: generation, at: call.now)
      })
  },

  CommandSpec(
    "THROTTLE", "GET", "key", group: .throttle, [.readOnly, .fast],
    "How a rate limit is; null if nothing of it is used."
  ) { call throws(CommandError) in
    call.reply(call.dispatcher.engine.throttle(try call.key(), at: call.now))
  },

  CommandSpec(
    "THROTTLE", "LIST", listSyntax, group: .throttle, [.readOnly], complexity: "O(LIMIT)",
    "A page of rate limits."
  ) { call throws(CommandError) in
    let query = try call.listQuery()
    call.reply(call.dispatcher.engine.listThrottles(query, at: call.now)) { $0.view($1) }
  },
]

private func take(_ call: Call) throws(CommandError) {
  var burst: Int64?
  var count: Int64?
  var period = Interval.zero
  var cost: Int64 = 1
  var isPeek = false
  var options = call.options(from: call.first + 1)
  while let option = try options.next() {
    switch option {
    case "BURST": burst = try options.integer(in: 1...Throttle.Rate.most)
    case "RATE": (count, period) = try call.rate(try options.value())
    case "COST": cost = try options.integer(in: 1...Throttle.Rate.most)
    case "PEEK": isPeek = true
    default: throw options.unknown()
    }
  }
  guard let burst, let count else { throw call.problem("BURST and RATE are needed") }
  guard cost <= burst else {
    throw call.problem(
      "COST \(cost) is more than BURST \(burst), so it would never be accepted")
  }
  guard let rate = Throttle.Rate(burst: burst, count: count, period: period) else {
    throw call.problem(
      "BURST \(burst) would take more than 3650d to come back at this RATE; lower BURST or "
        + "raise RATE")
  }
  let key = try call.key()
  let answer = try call.run { () throws(EngineError) in
    try call.dispatcher.engine.takeThrottle(
      key, rate, cost: UInt32(cost), isPeek: isPeek, by: call.session.client, at: call.now)
  }
  call.reply(answer, refusal: .rate)
}

extension Call {
  /// `5/10m`: so many in so long.
  fileprivate func rate(
    _ bytes: UnsafeRawBufferPointer
  ) throws(CommandError) -> (count: Int64, period: Interval) {
    if let slash = bytes.firstIndex(of: UInt8(ascii: "/")) {
      let count = Int64(String(decoding: bytes[..<slash], as: UTF8.self))
      let period = DurationText.parse(UnsafeRawBufferPointer(rebasing: bytes[(slash + 1)...]))
      if let count, (1...Throttle.Rate.most).contains(count), let period,
        period >= .milliseconds(1)
      {
        return (count, period)
      }
    }
    throw problem(
      "RATE '\(quoted(bytes))' is not a rate: like 5/10m, 1 to \(Throttle.Rate.most) in a "
        + "duration of 1ms to 3650d")
  }
}
