import Countdowns
import Testing

/// TOKEN of rate limits, idempotency keys and debouncers: what a retry does.
@Suite struct TokenCommandTests {
  let counter = DispatcherHarness()

  /// The commands with TOKEN, without it, and what accepts the first one.
  static let commands = [
    "ONCE BEGIN k TTL 1s", "THROTTLE TAKE k BURST 3 RATE 3/3s", "THROTTLE REFUND k 1",
    "DEBOUNCE CALL k 1s",
  ]

  private func family(_ command: String) -> String {
    String(command.prefix { $0 != " " })
  }

  /// Accepts a command, after what it needs.
  private func accept(_ command: String, token: String) throws -> Reply {
    if command.contains("REFUND") {
      _ = try counter.say("THROTTLE TAKE k BURST 3 RATE 3/3s COST 3")
    }
    let reply = try counter.say("\(command) TOKEN \(token)")
    #expect(reply["accepted"] == .integer(1) && reply["reason"] == .null, "\(command)")
    return reply
  }

  private func expectRepeated(_ command: String, token: String, _ first: Reply) throws {
    let again = try counter.say("\(command) TOKEN \(token)")
    #expect(again["accepted"] == .integer(1), "\(command)")
    #expect(again["reason"] == .bulk("repeated"), "\(command)")
    #expect(again["generation"] == first["generation"], "\(command)")
  }

  @Test(arguments: commands)
  func anAcceptedCommandThatIsRepeatedWithItsTokenChangesNothing(command: String) throws {
    let first = try accept(command, token: "t")
    let listener = counter.open()
    _ = try counter.frames(["PSUBSCRIBE", "*"], by: listener)
    _ = try counter.take(listener)
    let before = try counter.say("\(family(command)) GET k")
    try expectRepeated(command, token: "t", first)
    #expect(try counter.say("\(family(command)) GET k") == before)
    #expect(try counter.take(listener).isEmpty)
    #expect(counter.dispatcher.engine.statistics.decisions.repeated == 1)
  }

  @Test(arguments: commands)
  func aKeyRemembersItsTokensFor10MinutesAlsoOnceItIsIdle(command: String) throws {
    let first = try accept(command, token: "t")
    counter.pass(599_999)
    #expect(try counter.say("\(family(command)) GET k") == .null)
    #expect(try counter.say("\(family(command)) LIST").elements[1].elements.isEmpty)
    let frames = try counter.frames(["SUBSCRIBE", "\(family(command).lowercased()):k"])
    #expect(frames[1].elements.last?.text.contains(#""state":"idle""#) == true)
    _ = try counter.frames(["UNSUBSCRIBE"])
    try expectRepeated(command, token: "t", first)
    counter.pass(1)
    #expect(try counter.say("DBSIZE") == .integer(0), "nothing is left")
    #expect(try accept(command, token: "t")["generation"] != first["generation"])
  }

  @Test(arguments: commands)
  func aKeyThatIsIdleAcceptsAnotherCallAndStillKnowsTheToken(command: String) throws {
    let first = try accept(command, token: "old")
    counter.pass(5_000)
    let second = try accept(command, token: "new")
    #expect(second["generation"] != first["generation"])
    try expectRepeated(command, token: "old", first)
    try expectRepeated(command, token: "new", second)
    #expect(try counter.say("DBSIZE") == .integer(1))
    counter.pass(700_000)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func aRefusedCallUsesUpNoToken() throws {
    _ = try counter.say("ONCE BEGIN k TTL 1s")
    #expect(try counter.say("ONCE BEGIN k TTL 1s TOKEN t")["reason"] == .bulk("duplicate"))
    _ = try counter.say("ONCE CANCEL k")
    #expect(try counter.say("ONCE BEGIN k TTL 1s TOKEN t")["reason"] == .null)
    _ = try counter.say("THROTTLE TAKE k BURST 1 RATE 1/1s")
    #expect(try counter.say("THROTTLE TAKE k BURST 1 RATE 1/1s TOKEN t")["reason"] == .bulk("rate"))
    counter.pass(1_000)
    #expect(try counter.say("THROTTLE TAKE k BURST 1 RATE 1/1s TOKEN t")["reason"] == .null)
    #expect(try counter.say("THROTTLE REFUND other 1 TOKEN t") == .null)
  }

  @Test func aKeyRemembers16TokensTheOldestIsForgottenFirst() throws {
    for number in 0...Tokens.maximum {
      _ = try counter.say("DEBOUNCE CALL k 1s TOKEN t\(number)")
    }
    #expect(try counter.say("DEBOUNCE CALL k 1s TOKEN t1")["reason"] == .bulk("repeated"))
    #expect(try counter.say("DEBOUNCE CALL k 1s TOKEN t0")["reason"] == .null)
  }

  @Test func withAnotherCommandTheSameTokenIsAnotherOne() throws {
    let take = "THROTTLE TAKE k BURST 3 RATE 3/3s TOKEN t"
    #expect(try counter.say(take)["remaining"] == .integer(2))
    #expect(try counter.say("THROTTLE REFUND k 1 TOKEN t")["reason"] == .null)
    #expect(try counter.say(take)["reason"] == .bulk("repeated"))
    #expect(try counter.say("THROTTLE REFUND k 1 TOKEN t")["reason"] == .bulk("repeated"))
  }

  @Test func cancelForgetsTheKeyAndItsTokensFLUSHAndTTLDoNot() throws {
    for (call, end) in [
      ("ONCE BEGIN k TTL 1h TOKEN t", "ONCE CANCEL k"),
      ("DEBOUNCE CALL k 1h TOKEN t", "DEBOUNCE CANCEL k"),
    ] {
      _ = try counter.say(call)
      #expect(try counter.say(end) == .integer(1))
      #expect(try counter.say(call)["reason"] == .null)
    }
    #expect(try counter.say("DEBOUNCE FLUSH k") == .integer(1))
    #expect(try counter.say("DEBOUNCE FLUSH k") == .integer(0))
    let again = try counter.say("DEBOUNCE CALL k 1h TOKEN t")
    #expect(again["reason"] == .bulk("repeated") && again["state"] == .bulk("idle"))
  }

  @Test func aResultThatWasRecordedComesWithARepetition() throws {
    let first = try accept("ONCE BEGIN k TTL 1h", token: "t")
    _ = try counter.say("ONCE DONE k paid")
    let again = try counter.say("ONCE BEGIN k TTL 1h TOKEN t")
    #expect(again["result"] == .bulk("paid") && again["generation"] == first["generation"])
    #expect(try counter.say("ONCE BEGIN k TTL 1h TOKEN x")["reason"] == .bulk("duplicate"))
  }

  @Test func wrongTokensAreErrorsThatChangeNothing() throws {
    let long = String(repeating: "t", count: 65)
    try counter.expectError("ONCE BEGIN k TTL 1s TOKEN \(long)", "TOKEN has 65 bytes")
    try counter.expectError("THROTTLE TAKE k BURST 1 RATE 1/1s PEEK TOKEN t", "leave out TOKEN")
    let frames = try counter.frames(["DEBOUNCE", "CALL", "k", "1s", "TOKEN", ""])
    #expect(frames.first?.text.contains("TOKEN is empty") == true)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }
}
