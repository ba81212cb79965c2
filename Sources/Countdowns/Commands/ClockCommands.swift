/// CLOCK: advances virtual time, and simulates other events of clocks and machines.
let clockCommands: [CommandSpec] = [
  .clock(
    "ADVANCE", Parameter("d", .duration(), "How far to advance."), "advance time, event by event."
  ) {
    call, clock throws(CommandError) in
    let end = try call.moment(call.arguments[2], of: clock)
    guard call.dispatcher.advance(clock, to: end) else {
      throw CommandError(
        "LIMIT CLOCK ADVANCE stopped at \(clock.now.unixMilliseconds) after "
          + "\(Dispatcher.maximumVirtualSteps) moments with something due; advance again")
    }
  },
  .clock(
    "SET",
    Parameter("time", .text(), "Milliseconds since 1970, or a duration with `+` or `-`."),
    "set the wall clock, as an administrator does."
  ) {
    call, clock throws(CommandError) in
    clock.setWall(try call.wall(call.arguments[2], clock))
    call.dispatcher.catchUp(clock)
  },
  .clock(
    "SUSPEND", Parameter("d", .duration(), "How long the machine is suspended."),
    "suspend the machine for that time: what falls due is late."
  ) {
    call, clock throws(CommandError) in
    let end = try call.moment(call.arguments[2], of: clock)
    let start = clock.now.boot
    clock.advance(by: (end - start).microseconds)
    call.engine.noteSuspension(from: start, until: end)
    call.dispatcher.catchUp(clock)
  },
  .clock(
    "RESTART",
    Parameter("d", .duration(), "How long the daemon is away.", default: "0").optional,
    "restart the daemon, which is away for that time.", isAnswered: true
  ) {
    call, clock throws(CommandError) in
    try call.restart(clock, inNextBoot: false)
  },
  .clock(
    "REBOOT",
    Parameter("d", .duration(), "How long the machine is off.", default: "0").optional,
    "reboot the machine, which is off for that time.", isAnswered: true
  ) {
    call, clock throws(CommandError) in
    try call.restart(clock, inNextBoot: true)
  },
]

extension CommandSpec {
  /// Makes a command that replies with the time of the wall clock afterwards.
  ///
  /// - Parameter isAnswered: whether somebody else replies.
  fileprivate static func clock(
    _ name: String, _ parameter: Parameter, _ summary: String, isAnswered: Bool = false,
    _ body: @escaping @Sendable (Call, VirtualClock) throws(CommandError) -> Void
  ) -> CommandSpec {
    CommandSpec(
      "CLOCK", name, [parameter], group: .server, [.admin, .afterLoading],
      complexity: "O(what falls due)", "With --virtual-time: " + summary,
      isAnswered ? .ok : .value(.moment)
    ) { call throws(CommandError) in
      guard let clock = call.dispatcher.host.virtualClock else {
        throw CommandError(
          "ERR the clock is real; start countdownd with --virtual-time to use CLOCK \(name)")
      }
      try body(call, clock)
      if !isAnswered { call.session.output.integer(clock.now.unixMilliseconds) }
    }
  }
}

extension Call {
  /// Returns the moment after the given duration, on the boot clock.
  fileprivate func moment(
    _ bytes: Span<UInt8>, of clock: VirtualClock
  ) throws(CommandError) -> Instant {
    let step = try spec.duration(bytes, "the time")
    guard step <= clock.left else {
      throw CommandError(
        "ERR virtual time ends with the year 9999; that is at most "
          + "\(clock.left.microseconds / 1_000)ms from now")
    }
    return clock.now.boot + step
  }

  /// Parses a time of the wall clock: milliseconds since 1970, or relative to now with `+` or `-`.
  fileprivate func wall(
    _ bytes: Span<UInt8>, _ clock: VirtualClock
  ) throws(CommandError) -> Instant {
    let wall: Instant
    switch bytes.count > 1 ? bytes[0] : 0 {
    case UInt8(ascii: "+"):
      wall = clock.now.wall + (try spec.duration(bytes.extracting(1...), "the time"))
    case UInt8(ascii: "-"):
      wall = clock.now.wall + (try spec.duration(bytes.extracting(1...), "the time")) * -1
    default:
      let last = Instant.end.microseconds / 1_000
      wall = Instant(
        microseconds: try spec.integer(bytes, "the time in milliseconds since 1970", in: 0...last)
          * 1_000)
    }
    guard wall >= .zero, wall <= .end else {
      throw problem("the wall clock is set to a time from 1970 to the year 9999")
    }
    return wall
  }

  fileprivate func restart(
    _ clock: VirtualClock, inNextBoot isReboot: Bool
  ) throws(CommandError) {
    var pause = Interval.zero
    if arguments.count > 2 { pause = try moment(arguments[2], of: clock) - clock.now.boot }
    let isRestarted = dispatcher.host.restart(
      after: pause, inNextBoot: isReboot, answering: session.client.connection)
    guard isRestarted else {
      throw CommandError(
        "ERR the socket was passed by systemd, so only systemd can start the daemon again; use "
          + "a daemon with --socket")
    }
  }
}

extension Dispatcher {
  static let maximumVirtualSteps = 1_000_000

  /// Advances virtual time, stopping at each moment at which something is due. Returns false if
  /// there are too many of them for one command.
  fileprivate func advance(_ clock: VirtualClock, to end: Instant) -> Bool {
    for _ in 0..<Self.maximumVirtualSteps {
      catchUp(clock)
      let now = clock.now
      let (boot, wall) = engine.nextDeadline
      // Both clocks move together, so a moment of one is a moment of the other.
      let next = [boot, wall.map { now.boot + ($0 - now.wall) }].compactMap { $0 }.min()
      guard let next, next <= end else {
        clock.advance(by: (end - now.boot).microseconds)
        catchUp(clock)
        return true
      }
      clock.advance(by: max((next - now.boot).microseconds, 0))
    }
    return false
  }

  /// Runs everything that is due.
  fileprivate func catchUp(_ clock: VirtualClock) {
    while !engine.advance(to: clock.now, budget: 10_000) {}
    deliversAtOnce = true
  }
}
