import Wire

let timerCommands: [CommandSpec] = [
  .call(
    TimerKind.self, "SET", [timeToFire],
    [
      .duration(
        "EVERY", "Repeats, in phase with the first deadline, without drift.",
        { $0.every = $1 }, lasting: true),
      .bytes(
        "PAYLOAD", "Data that comes back with each `fired`.",
        { $0.payload = $1 }, atMost: TextLimits.payload),
      .owner({ $0.owner = $1 }),
      .choice(
        "LATE",
        "What to do about missed periods (the machine slept or was busy). `fire` fires once "
          + "at once with the `due_unix_ms` of the first missed period, `coalesce` the same "
          + "with the newest, `skip` waits for the next period. `missed` counts them; they are "
          + "never replayed.",
        default: "fire", { $0.late = $1 }),
      .choice(
        "CLOCK",
        "`boot` runs during suspend and ignores changes of the wall clock; `wall` follows "
          + "the wall clock.", default: "boot",
        { $0.clock = $1 }),
    ],
    "Set a timer that fires once or repeatedly; replaces one of the same key.",
    request: TimerSet.init,
    { call, key, set throws(EngineError) in
      try call.engine.setTimer(key, set, by: call.client, at: call.now)
    }, reply: .view),
  .get(TimerKind.self, "Read a timer."),
  .change(
    TimerKind.self, "PAUSE", "Pause a timer and keep its remaining time.", Engine.pauseTimer,
    reply: .view),
  .change(
    TimerKind.self, "RESUME", "Resume a paused timer with its remaining time.",
    Engine.resumeTimer, reply: .view),
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

extension TimerSet {
  fileprivate init(_ call: Call) throws(CommandError) { self.init(after: try Call.time(call)) }
}

extension Call {
  /// Returns the duration argument of SET and RETIME.
  static func time(_ call: Call) throws(CommandError) -> Interval {
    try call.spec.duration(call.arguments[3], "the time")
  }
}
