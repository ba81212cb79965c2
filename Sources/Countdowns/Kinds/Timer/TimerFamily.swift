import Wire

let timerCommands: [CommandSpec] = [
  CommandSpec(
    "TIMER", "SET", "key d",
    [
      .duration("EVERY", \.every, lasting: true),
      .text("PAYLOAD", "!bytes", \.payload, atMost: TextLimits.payload),
      .owner(\.owner), .choice("LATE", \.late), .choice("CLOCK", \.clock),
    ],
    group: .entities(.timer), [.write, .fast],
    "Arms a timer, once or again and again; one of that name is replaced.",
    request: TimerSet.init
  ) { call, set throws(CommandError) in
    let key = try call.key()
    call.session.output.view(
      try call.run { () throws(EngineError) in
        try call.dispatcher.engine.setTimer(key, set, by: call.session.client, at: call.now)
      })
  },
  .get(TimerKind.self, "How a timer is; null if there is none."),
  .change(
    TimerKind.self, "PAUSE", "Stops the time of a timer.", Engine.pauseTimer, reply: Call.view),
  .change(
    TimerKind.self, "RESUME", "Lets a paused timer go on with the time it had left.",
    Engine.resumeTimer, reply: Call.view),
  .change(
    TimerKind.self, "RETIME", "d", "Makes a timer due in that time from now.", Call.time,
    Engine.retimeTimer, reply: Call.view),
  .change(
    TimerKind.self, "DEL", "Disarms a timer: 1, or 0 if there was none.", Engine.deleteTimer,
    reply: Call.done),
  .list(TimerKind.self, "A page of timers."),
]

extension TimerSet {
  fileprivate init(_ call: Call) throws(CommandError) { self.init(after: try Call.time(call)) }
}

extension Call {
  /// What SET and RETIME say.
  static func time(_ call: Call) throws(CommandError) -> Interval {
    try call.duration(call.arguments[3], "the time")
  }
}
