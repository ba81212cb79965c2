import Countdowns
import Testing

/// THROTTLE on the wire: arguments, replies and errors.
@Suite struct ThrottleCommandTests {
  @Test func aSecondWordIsASubcommandNeverAKeyAKeyCanHaveItsName() throws {
    let counter = DispatcherHarness()
    try counter.expectError(
      "THROTTLE k BURST 1 RATE 1/1s", "unknown subcommand 'k' of THROTTLE", "TAKE")
    #expect(try counter.say("DBSIZE") == .integer(0))
    for key in ["GET", "list", "Refund", "take"] {
      #expect(try counter.say("THROTTLE TAKE \(key) BURST 1 RATE 1/1s")["accepted"] == .integer(1))
      #expect(try counter.say("THROTTLE GET \(key)")["remaining"] == .integer(0))
    }
  }

  @Test func errorsSayWhatIsWrongAndChangeNothing() throws {
    let counter = DispatcherHarness()
    try counter.expectError("THROTTLE TAKE", "wrong number of arguments", "BURST n RATE n/d")
    try counter.expectError("THROTTLE TAKE k", "wrong number of arguments")
    try counter.expectError("THROTTLE TAKE k BURST 5 PEEK COST 1", "BURST and RATE are needed")
    try counter.expectError(
      "THROTTLE TAKE k BURST 5 RATE 5/1s COST 6", "COST 6 is more than BURST 5")
    try counter.expectError("THROTTLE TAKE k BURST 0 RATE 5/1s", "BURST '0'", "1 to 1000000000")
    try counter.expectError("THROTTLE TAKE k BURST 5 RATE 5/1s COST 0", "COST '0'")
    try counter.expectError("THROTTLE TAKE k BURST 366 RATE 1/3650d", "3650d to come back")
    for rate in [
      "5", "5/", "/1s", "0/1s", "-1/1s", "5/0", "x/10", "5/1x", "5/1s/2", "1000000001/1s", "x/1s",
    ] {
      try counter.expectError("THROTTLE TAKE k BURST 5 RATE \(rate)", "RATE '\(rate)'", "5/10m")
    }
    try counter.expectError("THROTTLE TAKE k BURST 5 RATE 5/10", "no unit", "write 5/10s")
    try counter.expectError("THROTTLE TAKE k BURST 5 RATE 5/1s RATE 5/1s", "given twice")
    try counter.expectError("THROTTLE TAKE k BURST 5 RATE 5/1s NOW x", "unknown option 'NOW'")
    try counter.expectError("THROTTLE REFUND k 0", "1 to 1000000000")
    #expect(try counter.say("DBSIZE") == .integer(0))
    _ = try counter.say("THROTTLE TAKE k BURST 5 RATE 5/1s")
    try counter.expectError("THROTTLE REFUND k 1 GENERATION 999", "STALE 'k'")
  }

  @Test func eventsCarryTheView() throws {
    let counter = DispatcherHarness()
    let listener = counter.open()
    _ = try counter.frames(["SUBSCRIBE", "throttle:k"], by: listener)
    _ = try counter.say("THROTTLE TAKE k BURST 1 RATE 1/10s")
    _ = try counter.say("THROTTLE TAKE k BURST 1 RATE 1/10s")
    counter.pass(10_000)
    let lines = try counter.take(listener).map { $0.elements.last?.text ?? "" }
    #expect(lines.count == 3)
    #expect(lines[0].contains(#""event":"accepted""#) && lines[0].contains(#""remaining":0"#))
    #expect(lines[1].contains(#""event":"refused""#) && lines[1].contains(#""reason":"rate""#))
    #expect(lines[1].contains(#""retry_after_ms":10000"#))
    #expect(lines[2].contains(#""event":"ready""#) && lines[2].contains(#""late_us":0"#))
    #expect(lines[2].contains(#""state":"idle","limit":1,"remaining":1"#))
  }
}
