import Countdowns
import Testing

/// ONCE on the wire.
@Suite struct OnceCommandTests {
  @Test("The first is accepted, a repetition is answered with its result")
  func life() throws {
    let counter = Counter()
    let first = try counter.say("ONCE k TTL 10s")
    #expect(first["accepted"] == .integer(1) && first["state"] == .bulk("running"))
    #expect(first["result"] == .null && first["remaining_ms"] == .integer(10_000))
    let again = try counter.say("ONCE k TTL 10s")
    #expect(again["accepted"] == .integer(0) && again["reason"] == .bulk("duplicate"))
    #expect(try counter.say("ONCE DONE k paid")["accepted"] == .integer(1))
    let later = try counter.say("ONCE BEGIN k TTL 10s")
    #expect(later["accepted"] == .integer(0) && later["result"] == .bulk("paid"))
    let twice = try counter.say("ONCE DONE k other")
    #expect(twice["accepted"] == .integer(0) && twice["result"] == .bulk("paid"))
    counter.pass(10_000)
    #expect(try counter.say("ONCE GET k") == .null)
    try counter.expectError("ONCE DONE k late", "NOTFOUND no once 'k'")
  }

  @Test("What is wrong is said, and changes nothing")
  func errors() throws {
    let counter = Counter()
    try counter.expectError("ONCE", "wrong number of arguments", "key TTL d")
    try counter.expectError("ONCE k OWNER none", "TTL is needed")
    try counter.expectError("ONCE k TTL 0", "TTL is at least 1ms")
    try counter.expectError("ONCE k TTL soon", "'soon' is not a duration")
    try counter.expectError("ONCE k TTL 5s OWNER me", "OWNER 'me'")
    try counter.expectError("ONCE GET TTL 5s", "wrong number of arguments")
    #expect(try counter.say("DBSIZE") == .integer(0))
    let generation = try counter.say("ONCE k TTL 5s")["generation"]
    try counter.expectError("ONCE DONE k r GENERATION 999", "STALE 'k'")
    try counter.expectError("ONCE CANCEL k GENERATION 999", "STALE 'k'")
    #expect(try counter.say("ONCE GET k")["generation"] == generation)
  }

  @Test("A result has a limit, which is named, and the log does not show it")
  func result() throws {
    var settings = EngineSettings()
    settings.limits.payloadLength = 4
    let counter = Counter(engine: settings)
    let monitor = counter.open()
    _ = try counter.say("ONCE k TTL 5s")
    _ = try counter.frames(["MONITOR"], by: monitor)
    try counter.expectError(
      "ONCE DONE k 12345", "LIMIT max-payload-length is 4", "the result has 5 bytes")
    #expect(try counter.say("ONCE GET k")["state"] == .bulk("running"))
    #expect(try counter.say("ONCE DONE k 1234")["accepted"] == .integer(1))
    let shown = try counter.take(monitor).map(\.text)
    #expect(shown.contains { $0.hasSuffix(#""ONCE" "DONE" "k" "(redacted)""#) })
    #expect(!shown.contains { $0.contains("1234") })
  }
}

/// GATE on the wire.
@Suite struct GateCommandTests {
  @Test("CHECK keeps the action, OPEN runs it, once")
  func life() throws {
    let counter = Counter()
    let listener = counter.open()
    _ = try counter.frames(["SUBSCRIBE", "gate:s"], by: listener)
    let asked = try counter.say("GATE CHECK s buy PAYLOAD 42")
    #expect(asked["accepted"] == .integer(0) && asked["reason"] == .bulk("login"))
    #expect(asked["state"] == .bulk("pending") && asked["action"] == .bulk("buy"))
    #expect(asked["remaining_ms"] == .integer(600_000))
    let open = try counter.say("GATE OPEN s TTL 30m")
    #expect(open["state"] == .bulk("open") && open["action"] == .null)
    #expect(open["remaining_ms"] == .integer(1_800_000))
    #expect(try counter.say("GATE CHECK s sell")["accepted"] == .integer(1))
    #expect(try counter.say("GATE CLOSE s") == .integer(1))
    #expect(try counter.say("GATE CLOSE s") == .integer(0))
    let lines = try counter.take(listener).map { $0.elements.last?.text ?? "" }
    #expect(lines.map { $0.contains(#""event":"run""#) } == [false, false, true, false])
    #expect(lines[2].contains(#""state":"open","action":"buy","payload":"42""#))
    #expect(lines[3].contains(#""event":"closed""#) && lines[3].contains(#""state":"closed""#))
  }

  @Test("REQUIRED off needs no session; a snapshot of nothing is closed")
  func notRequired() throws {
    let counter = Counter()
    let view = try counter.say("GATE CHECK s look REQUIRED off")
    #expect(view["accepted"] == .integer(1) && view["state"] == .bulk("closed"))
    #expect(try counter.say("DBSIZE") == .integer(0))
    let frames = try counter.frames(["SUBSCRIBE", "gate:s"])
    #expect(frames.last?.elements.last?.text.contains(#""state":"closed""#) == true)
  }

  @Test("What is wrong is said, and changes nothing")
  func errors() throws {
    var settings = EngineSettings()
    settings.limits.payloadLength = 2
    let counter = Counter(engine: settings)
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

/// DEBOUNCE on the wire.
@Suite struct DebounceCommandTests {
  @Test("One event for many calls")
  func life() throws {
    let counter = Counter()
    let listener = counter.open()
    _ = try counter.frames(["SUBSCRIBE", "debounce:k"], by: listener)
    let first = try counter.say("DEBOUNCE k 1s PAYLOAD a MAXWAIT 5s")
    #expect(first["state"] == .bulk("waiting") && first["calls"] == .integer(1))
    #expect(first["quiet_ms"] == .integer(1_000) && first["max_wait_ms"] == .integer(5_000))
    counter.pass(400)
    let second = try counter.say("debounce call k 1s payload b")
    #expect(second["calls"] == .integer(2) && second["payload"] == .bulk("b"))
    #expect(second["generation"] == first["generation"])
    counter.pass(1_000)
    #expect(try counter.say("DEBOUNCE GET k") == .null)
    _ = try counter.say("DEBOUNCE k 1s LEADING")
    #expect(try counter.say("DEBOUNCE FLUSH k") == .integer(0))
    #expect(try counter.say("DEBOUNCE CANCEL k") == .integer(1))
    let lines = try counter.take(listener).map { $0.elements.last?.text ?? "" }
    #expect(lines.count == 3)
    #expect(lines[0].contains(#""event":"fired""#) && lines[0].contains(#""reason":"quiet""#))
    #expect(lines[0].contains(#""calls":2"#) && lines[0].contains(#""payload":"b""#))
    #expect(lines[1].contains(#""reason":"leading""#) && lines[1].contains(#""state":"resting""#))
    #expect(lines[2].contains(#""event":"cancelled""#))
  }

  @Test("What is wrong is said, and changes nothing")
  func errors() throws {
    let counter = Counter()
    try counter.expectError("DEBOUNCE k", "wrong number of arguments", "key d")
    try counter.expectError("DEBOUNCE k 0", "the quiet time is at least 1ms")
    try counter.expectError("DEBOUNCE k soon", "'soon' is not a duration")
    try counter.expectError("DEBOUNCE k 2s MAXWAIT 1s", "MAXWAIT is at least the quiet time")
    try counter.expectError("DEBOUNCE k 2s LEADING LEADING", "given twice")
    try counter.expectError("DEBOUNCE k 2s TRAILING", "unknown option 'TRAILING'")
    #expect(try counter.say("DBSIZE") == .integer(0))
  }
}
