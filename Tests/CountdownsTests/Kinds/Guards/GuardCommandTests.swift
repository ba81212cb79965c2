import Countdowns
import Testing

@Suite struct OnceCommandTests {
  @Test func errorsSayWhatIsWrongAndChangeNothing() throws {
    let counter = DispatcherHarness()
    try counter.expectError("ONCE BEGIN", "wrong number of arguments", "key TTL d")
    try counter.expectError("ONCE BEGIN k OWNER none", "TTL is needed")
    try counter.expectError("ONCE BEGIN k TTL 0", "TTL is at least 1ms")
    try counter.expectError("ONCE BEGIN k TTL soon", "'soon' is not a duration")
    try counter.expectError("ONCE BEGIN k TTL 5s OWNER me", "OWNER 'me'")
    try counter.expectError("ONCE k TTL 5s", "unknown subcommand 'k' of ONCE", "BEGIN")
    #expect(try counter.say("DBSIZE") == .integer(0))
    let generation = try counter.say("ONCE BEGIN k TTL 5s")["generation"]
    try counter.expectError("ONCE DONE k r GENERATION 999", "STALE 'k'")
    try counter.expectError("ONCE CANCEL k GENERATION 999", "STALE 'k'")
    #expect(try counter.say("ONCE GET k")["generation"] == generation)
  }

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

  @Test func takeRepliesWithTheActionOrWithWhyNotDONEWith1Or0() throws {
    let counter = DispatcherHarness()
    let other = counter.open()
    let none = try counter.say("GATE TAKE s")
    #expect(none["accepted"] == .integer(0) && none["reason"] == .bulk("no-action"))
    let asked = try counter.say("GATE CHECK s buy PAYLOAD 42")
    #expect(try counter.say("GATE TAKE s")["reason"] == .bulk("login"))
    let open = try counter.say("GATE OPEN s")
    #expect(open["action"] == .bulk("buy") && open["payload"] == .bulk("42"))
    #expect(open["taken"] == .integer(0) && open["generation"] == asked["generation"])
    let taken = try counter.say("GATE TAKE s")
    #expect(taken["accepted"] == .integer(1) && taken["reason"] == .null)
    #expect(taken["action"] == .bulk("buy") && taken["taken"] == .integer(1))
    let refused = try counter.frames(["GATE", "TAKE", "s"], by: other)[0]
    #expect(refused["accepted"] == .integer(0) && refused["reason"] == .bulk("taken"))
    #expect(try counter.frames(["GATE", "DONE", "s"], by: other)[0] == .integer(0))
    try counter.expectError("GATE TAKE s GENERATION 999", "STALE 's'")
    try counter.expectError("GATE DONE s GENERATION 999", "STALE 's'")
    #expect(try counter.say("GATE DONE s") == .integer(1))
    #expect(try counter.say("GATE DONE s") == .integer(0))
  }

  @Test func errorsSayWhatIsWrongAndChangeNothing() throws {
    var settings = EngineSettings()
    settings.limits.payloadLength = 2
    let counter = DispatcherHarness(engine: settings)
    try counter.expectError("GATE", "GATE needs one of")
    try counter.expectError("GATE CHECK s", "wrong number of arguments")
    try counter.expectError("GATE CHECK s a REQUIRED maybe", "not one of on, off")
    try counter.expectError("GATE CHECK s a TTL 0", "TTL is at least 1ms")
    try counter.expectError("GATE CHECK s a PAYLOAD 123", "LIMIT max-payload-length is 2")
    let long = String(repeating: "a", count: 513)
    try counter.expectError("GATE CHECK s \(long)", "the action has 513 bytes")
    try counter.expectError("GATE OPEN s FOREVER", "unknown option")
    let frames = try counter.frames(["GATE", "CHECK", "s", ""])
    #expect(frames.first?.text.contains("the action has no name") == true)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }
}

@Suite struct DebounceCommandTests {
  @Test func errorsSayWhatIsWrongAndChangeNothing() throws {
    let counter = DispatcherHarness()
    try counter.expectError("DEBOUNCE CALL k", "wrong number of arguments", "key d")
    try counter.expectError("DEBOUNCE CALL k 0", "the quiet time is at least 1ms")
    try counter.expectError("DEBOUNCE CALL k soon", "'soon' is not a duration")
    try counter.expectError("DEBOUNCE CALL k 2s MAXWAIT 1s", "MAXWAIT is at least the quiet time")
    try counter.expectError("DEBOUNCE CALL k 2s LEADING LEADING", "given twice")
    try counter.expectError("DEBOUNCE CALL k 2s TRAILING", "unknown option 'TRAILING'")
    #expect(try counter.say("DBSIZE") == .integer(0))
  }
}
