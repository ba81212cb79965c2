import Testing
import Wire

@testable import Countdowns

/// What MONITOR and SLOWLOG show, and what they must hide.
@Suite struct LogTests {
  let counter = DispatcherHarness()

  private func monitored(_ words: [String]) throws -> String {
    let monitor = counter.open()
    counter.run(["MONITOR"], by: monitor)
    _ = try counter.take(monitor)
    counter.run(words)
    defer { counter.dispatcher.close(monitor) }
    return try counter.take(monitor).map(\.text).joined()
  }

  @Test func monitorShowsCommandsAsRedisDoesQuoted() throws {
    counter.host.now.wall.microseconds = 1_790_000_000_000_042
    #expect(
      try monitored(["ECHO", "a \"b\"\\\r\n\u{1}重"])
        == "1790000000.000042 [0 /sock:1] \"ECHO\" \"a \\\"b\\\"\\\\\\r\\n\\x01\\xe9\\x87\\x8d\"")
  }

  @Test func monitorHidesMETAPAYLOADAndTOKENInAnyCase() throws {
    let line = try monitored(
      ["COUNTDOWN", "START", "k", "meta", "hush1", "COUNT", "3", "TOKEN", "hush2"])
    #expect(line.hasSuffix("\"meta\" \"(redacted)\" \"COUNT\" \"3\" \"TOKEN\" \"(redacted)\""))
    #expect(!(try monitored(["TIMER", "SET", "t", "1s", "PAYLOAD", "hush3"]).contains("hush")))
    #expect(!(try monitored(["COUNTDOWN", "RESEND", "k", "ToKeN", "hush4"]).contains("hush")))
  }

  @Test func monitorShowsAKeyOrValueCalledMETAAndHidesWhatTheOptionMETANames() throws {
    #expect(try monitored(["COUNTDOWN", "START", "meta", "COUNT", "3"]).hasSuffix("\"3\""))
    let line = try monitored(["COUNTDOWN", "START", "k", "TITLE", "META", "META", "hush"])
    #expect(line.hasSuffix("\"TITLE\" \"META\" \"META\" \"(redacted)\""))
    #expect(
      !(try monitored(["COUNTDOWN", "START", "k", "META", "TOKEN", "TOKEN", "hush"]).contains(
        "hush")))
  }

  @Test(arguments: [
    "SCOPE EMIT s tap hush", "ONCE DONE k hush", "ONCE DONE done hush",
    "GATE CHECK s buy REQUIRED off PAYLOAD hush", "DEBOUNCE CALL k 5s payload hush LEADING",
    "DEBOUNCE CALL get 5s PAYLOAD hush", "TIMER SET payload 1s EVERY 1s PAYLOAD hush",
    "HELLO 3 AUTH hush hush SETNAME n",
  ])
  func everyPayloadResultAndPasswordIsHiddenByPositionOrByName(_ line: String) throws {
    let words = line.split(separator: " ").map(String.init)
    let shown = words.map { $0 == "hush" ? "\"(redacted)\"" : "\"\($0)\"" }
    #expect(try monitored(words).hasSuffix("] " + shown.joined(separator: " ")))
  }

  @Test func afterAMisspeltOptionMONITORHidesTheRestOfACommandThatHasSecrets() throws {
    #expect(
      try monitored(["COUNTDOWN", "START", "k", "COUNT", "3", "MTEA", "hush", "FIRE"])
        .hasSuffix("\"3\" \"(redacted)\" \"(redacted)\" \"(redacted)\""))
    #expect(try monitored(["COUNTDOWN", "GET", "k"]).hasSuffix("\"GET\" \"k\""))
    #expect(
      try monitored(["CLIENT", "LIST", "NONSENSE", "shown"]).hasSuffix("\"NONSENSE\" \"shown\""))
  }

  @Test func monitorShowsAllKeysOfLimitsAndHidesAMisspeltOptionAmongThem() throws {
    let line = try monitored(
      "COUNTDOWN START k LIMIT ip:1 user:2 TOKEN hush".split(separator: " ").map(String.init))
    #expect(line.hasSuffix("\"LIMIT\" \"ip:1\" \"user:2\" \"TOKEN\" \"(redacted)\""))
    let other = try monitored(["THROTTLE", "TAKE", "ip:1", "user:2", "TOKNE", "a:hush"])
    #expect(other.hasSuffix("\"ip:1\" \"user:2\" \"(redacted)\" \"(redacted)\""))
  }

  @Test func monitorShowsNeitherAUTHNorUnknownCommands() throws {
    #expect(try monitored(["AUTH", "secret"]) == "")
    #expect(try monitored(["NOSUCH", "secret"]) == "")
  }

  @Test func slowlogKeepsTheNewestSlowCommandsShortenedAndRedacted() throws {
    var settings = Dispatcher.Settings()
    settings.slowLogLength = 3
    let counter = DispatcherHarness(settings)
    counter.host.cost = 9_999
    _ = try counter.say("SCOPE OPEN k")
    #expect(try counter.say("SLOWLOG LEN") == .integer(0))
    counter.host.cost = 10_000
    counter.run(["ECHO", String(repeating: "x", count: 200)])
    counter.run(["SCOPE", "EMIT", "k", "tap", "hush"])
    counter.run(["PUBSUB", "NUMSUB"] + (0..<60).map { "c\($0)" })
    counter.run(["ECHO", "last"])
    _ = try counter.take()
    let entries = try counter.say("SLOWLOG GET").elements
    #expect(entries.count == 3)
    #expect(entries.map { $0.elements[0] } == [.integer(3), .integer(2), .integer(1)])
    #expect(entries.allSatisfy { $0.elements.count == 6 })
    #expect(entries[0].elements[3] == .array([.bulk("ECHO"), .bulk("last")]))
    #expect(entries[1].elements[3].elements.count == 32)
    #expect(entries[1].elements[3].elements[31] == .bulk("... (31 more arguments)"))
    #expect(entries[2].elements[3].elements[4] == .bulk("(redacted)"))
    #expect(try counter.say("SLOWLOG GET 1").elements.count == 1)
    #expect(try counter.say("SLOWLOG RESET") == .simple("OK"))
  }

  @Test func shutdownEndsTheDaemonQUITTheConnection() throws {
    #expect(try counter.frames(["SHUTDOWN", "NOSAVE"]).isEmpty)
    #expect(counter.host.isShutDown)
    let other = counter.open()
    #expect(try counter.say("QUIT", by: other) == .simple("OK"))
    #expect(other.isClosing)
  }

  @Test func aProtocolErrorIsAnsweredAndClosesTheConnection() throws {
    var decoder = RequestDecoder()
    decoder.append(Array("*x\r\n".utf8).span.bytes)
    do throws(RESPProtocolError) { _ = try decoder.next() } catch {
      counter.dispatcher.refuse(counter.session, error)
    }
    #expect(try counter.take() == [.error("ERR Protocol error: invalid multibulk length")])
    #expect(counter.session.isClosing)
  }

  @Test func clockADVANCERunsDueTimersOneByOneAndIsRefusedInRealTime() throws {
    try counter.expectError("CLOCK ADVANCE 1s", "start countdownd with --virtual-time")
    let clock = VirtualClock(counter.host.now)
    counter.host.virtualClock = clock
    _ = counter.session
    counter.session.output.version = .resp3
    counter.run(["SUBSCRIBE", "countdown:k"])
    counter.run(["COUNTDOWN", "START", "k", "COUNT", "3"])
    _ = try counter.take()
    let frames = try counter.frames(["CLOCK", "ADVANCE", "1m"])
    #expect(frames.first == .integer(1_790_000_060_000))
    #expect(frames.count == 4)
    #expect(
      frames.allSatisfy { !$0.text.contains("\"late_us\":") || $0.text.contains("\"late_us\":0,") })
  }

  @Test func clockADVANCEBeyondTheYear9999IsRefusedAndMovesNothing() throws {
    let clock = VirtualClock(counter.host.now)
    counter.host.virtualClock = clock
    counter.run(["TIMER", "SET", "t", "3650d", "EVERY", "3650d"])
    counter.run(["COUNTDOWN", "START", "k", "COUNT", "1", "EVERY", "3650d"])
    for _ in 0..<797 { counter.run(["CLOCK", "ADVANCE", "3650d"]) }
    _ = try counter.take()
    let last = clock.now
    try counter.expectError("CLOCK ADVANCE 3650d", "virtual time ends with the year 9999")
    #expect(clock.now == last)
    #expect(try counter.frames(["CLOCK", "ADVANCE", "1d"]).count == 1)
    #expect(clock.now.boot.microseconds == last.boot.microseconds + 86_400_000_000)
  }
}
