import Countdowns
import Testing

@Suite struct OnceCommandTests {
  @Test func aResultHasALimitWhichTheErrorNamesAndTheLogHidesIt() throws {
    var settings = EngineSettings()
    settings.limits.resultLength = 4
    let counter = DispatcherHarness(engine: settings)
    let monitor = counter.open()
    _ = try counter.say("ONCE BEGIN k TTL 5s")
    _ = try counter.frames(["MONITOR"], by: monitor)
    try counter.expectError(
      "ONCE DONE k 12345", "LIMIT max-result-length is 4, and the result has 5 bytes",
      "record where it is, or raise limits.max-result-length")
    #expect(try counter.say("ONCE GET k")["state"] == .bulk("running"))
    #expect(try counter.say("ONCE DONE k 1234")["accepted"] == .integer(1))
    let shown = try counter.take(monitor).map(\.text)
    #expect(shown.contains { $0.hasSuffix(#""ONCE" "DONE" "k" "(redacted)""#) })
    #expect(!shown.contains { $0.contains("1234") })
  }
}

@Suite struct GateCommandTests {
  @Test func requiredOffNeedsNoSessionASnapshotOfNothingIsClosed() throws {
    let counter = DispatcherHarness()
    let view = try counter.say("GATE CHECK s look REQUIRED off")
    #expect(view["accepted"] == .integer(1) && view["state"] == .bulk("closed"))
    #expect(try counter.say("DBSIZE") == .integer(0))
    let frames = try counter.frames(["SUBSCRIBE", "gate:s"])
    #expect(frames.last?.elements.last?.text.contains(#""state":"closed""#) == true)
  }
}
