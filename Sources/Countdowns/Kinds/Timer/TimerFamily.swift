import Wire

let timerCommands: [CommandSpec] = [
  setTimer,
  .get(TimerKind.self, "Read a timer."),
  .change(
    TimerKind.self, "PAUSE", "Pause a timer and keep its remaining time.", Engine.pauseTimer,
    flags: [.write, .fast, .harmlessAgain], reply: .view),
  .change(
    TimerKind.self, "RESUME", "Resume a paused timer with its remaining time.",
    Engine.resumeTimer, flags: [.write, .fast, .harmlessAgain], reply: .view),
  .change(
    TimerKind.self, "RETIME", timeToFire, "Change when a timer fires, counted from now.", Call.time,
    Engine.retimeTimer, reply: .view),
  .change(
    TimerKind.self, "DEL", "Delete a timer.", Engine.deleteTimer,
    reply: .done),
  .list(TimerKind.self, "List timers, page by page."),
]

private let timeToFire = Parameter(
  "d", .duration(), "The time until it fires; 0 fires at once.")

/// The arguments of TIMER SET beyond the key and the duration.
private struct SetRequest {
  var at: Instant?
  /// `time` is replaced.
  var set = TimerSet(after: .zero)
  var clock: TimerClock?
  var keeps = false
  var isForNew = false
}

private let setOptions: [Option<SetRequest>] = [
  .moment(
    "AT",
    "Instead of the duration: the time of the wall clock at which it fires, at most 3650 days from "
      + "now; one that has passed fires at once. CLOCK is `wall` then.",
    { $0.at = $1 }),
  .duration(
    "EVERY", "Repeats, in phase with the first deadline, without drift.",
    { $0.set.every = $1 }, lasting: true),
  .bytes(
    "PAYLOAD", "Data that comes back with each `fired`.",
    { $0.set.payload = $1 }, atMost: TextLimits.payload),
  .owner({ $0.set.owner = $1 }),
  .choice(
    "LATE",
    "What to do about missed periods (the machine slept or was busy): those noticed at least "
      + "EVERY or 1s late, whichever is shorter. `fire` fires once at once with the `due_unix_ms` "
      + "of the first missed period, `coalesce` the same with the newest, `skip` waits for the "
      + "next period. `missed` counts those for which it did not fire; they are never replayed.",
    default: "fire", { $0.set.late = $1 }),
  .choice(
    "CLOCK",
    "`boot` runs during suspend and ignores changes of the wall clock; `wall` follows "
      + "the wall clock.", default: "boot",
    { $0.clock = $1 }),
  .flag(
    "KEEP",
    "If the key has a timer with the same EVERY and CLOCK, its deadline stays, and the rest is "
      + "updated.", { $0.keeps = $1 }),
  .flag(
    "NX", "If the key has a timer, it stays as it is: refused with `exists`.",
    { $0.isForNew = $1 }),
]

private let setTimer = CommandSpec(
  "TIMER", "SET", [.key, timeToFire.or("AT")], setOptions, group: .entities(.timer),
  [.write, .fast], "Set a timer that fires once or repeatedly; replaces one of the same key.",
  .answer,
  optionsStart: { arguments in
    let begins = arguments.count <= 3 || Call.index(of: arguments[3], in: setOptions) != nil
    return begins ? 3 : 4
  },
  into: SetRequest(),
  handler: { call, request throws(CommandError) in
    let set = try call.timerSet(request)
    let key = try call.key()
    let answer = try call.run { () throws(EngineError) in
      try call.engine.setTimer(key, set, by: call.client, at: call.now)
    }
    call.reply(answer.view, Answer(answer.refusal))
  })

extension Call {
  fileprivate func timerSet(_ request: SetRequest) throws(CommandError) -> TimerSet {
    var set = request.set
    let hasDuration = spec.optionsStart?(arguments) == 4
    switch (hasDuration, request.at) {
    case (true, nil): set.time = .after(try Call.time(self))
    case (false, let moment?):
      guard request.clock ?? .wall == .wall else {
        throw problem("AT is a time of the wall clock; use CLOCK wall, or leave out CLOCK")
      }
      guard moment - now.wall <= .longest else {
        throw problem("AT is more than 3650d from now; it is in milliseconds since 1970")
      }
      set.time = .at(moment)
    case (true, _?): throw problem("give the duration or AT, not both")
    case (false, nil): throw problem("the time until it fires is missing; give it, or AT")
    }
    set.clock = request.clock ?? (hasDuration ? .boot : .wall)
    guard !request.keeps || !request.isForNew else {
      throw problem("KEEP updates a timer that NX leaves as it is; give one of them")
    }
    if request.keeps { set.existing = .keepPhase }
    if request.isForNew { set.existing = .refuse }
    return set
  }

  /// Returns the duration argument of SET and RETIME.
  static func time(_ call: Call) throws(CommandError) -> Interval {
    try call.spec.duration(call.arguments[3], "the time")
  }
}
