import Countdowns
import Testing

/// THROTTLE on the wire: arguments, replies and errors.
@Suite struct ThrottleCommandTests {
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
