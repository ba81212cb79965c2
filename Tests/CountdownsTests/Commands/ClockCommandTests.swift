import Testing

@testable import Countdowns

/// CLOCK on the wire, which needs virtual time.
@Suite struct ClockCommandTests {
  let counter = DispatcherHarness()
  let clock: VirtualClock

  init() {
    clock = VirtualClock(counter.host.now)
    counter.host.virtualClock = clock
  }

  private var wall: Int64 { clock.now.unixMilliseconds }

  @Test func setMovesTheClockOnTheWallToATimeOrByATimeAndTheBootClockNot() throws {
    let (boot, start) = (clock.now.boot, wall)
    #expect(try counter.say("CLOCK SET +90s") == .integer(start + 90_000))
    #expect(try counter.say("CLOCK SET -1h") == .integer(start + 90_000 - 3_600_000))
    #expect(try counter.say("CLOCK SET 1000") == .integer(1_000))
    #expect(try counter.say("CLOCK SET 0") == .integer(0))
    #expect(clock.now.boot == boot)
  }

  @Test func setToATimeThatIsNoneIsRefusedAndChangesNothing() throws {
    let before = clock.now
    try counter.expectError("CLOCK SET soon", "the time in milliseconds since 1970")
    try counter.expectError("CLOCK SET +soon", "the time")
    try counter.expectError("CLOCK SET 253402300800000", "the time in milliseconds since 1970")
    _ = try counter.say("CLOCK SET 5000")
    try counter.expectError("CLOCK SET -6s", "a time from 1970 to the year 9999")
    _ = try counter.say("CLOCK SET 253402300799999")
    try counter.expectError("CLOCK SET +1ms", "a time from 1970 to the year 9999")
    #expect(clock.now.boot == before.boot)
  }

  @Test func noClockPassesTheEndOfTime() throws {
    let last = Instant.end.microseconds
    for (boot, wall, ahead) in [(last, 0, 0), (0, last, 0), (0, 0, last)] as [(Int64, Int64, Int64)]
    {
      let start = Moment(boot: Instant(microseconds: boot), wall: Instant(microseconds: wall))
      counter.host.virtualClock = VirtualClock(start, ahead: Interval(microseconds: ahead))
      for name in ["ADVANCE", "SUSPEND", "RESTART", "REBOOT"] {
        try counter.expectError("CLOCK \(name) 1ms", "virtual time ends with the year 9999")
      }
    }
  }

  @Test func suspendMovesBothClocksAtOnceWhatFallsDueIsLateAndTicksAreMerged() throws {
    _ = try counter.frames(["SUBSCRIBE", "countdown:k"])
    let other = counter.open()
    _ = try counter.say("COUNTDOWN START k COUNT 3 EVERY 1s", by: other)
    let start = wall
    _ = try counter.take()
    #expect(try counter.say("CLOCK SUSPEND 2s", by: other) == .integer(start + 2_000))
    let ticks = try counter.take().map { $0.elements.last!.text }
    #expect(ticks.count == 1 && ticks[0].contains(#""remaining":1,"#))
    #expect(clock.now.boot.microseconds == 2_000_000)
  }

  @Test func restartAndREBOOTAskTheHostWithTheTimeThatTheyTakeAndLeaveTheClockToIt() throws {
    let before = clock.now
    for line in ["RESTART", "RESTART 5s", "REBOOT", "REBOOT 1500"] {
      // The next start answers.
      #expect(try counter.frames("CLOCK \(line)".split(separator: " ").map(String.init)) == [])
    }
    #expect(
      counter.host.restarts == ["RESTART 0", "RESTART 5000000", "REBOOT 0", "REBOOT 1500000"])
    #expect(clock.now == before)
  }

  @Test func inRealTimeEveryOneOfThemIsRefusedAndSaysHowToHaveVirtualTime() throws {
    counter.host.virtualClock = nil
    for line in ["ADVANCE 1s", "SET +1s", "SUSPEND 1s", "RESTART", "REBOOT"] {
      let name = line.split(separator: " ")[0]
      try counter.expectError(
        "CLOCK \(line)", "start countdownd with --virtual-time to use CLOCK \(name)")
    }
  }
}
