import Foundation
import Testing

@testable import Countdowns

/// Policies on the wire: options, fields, errors, events.
@Suite struct PolicyCommandTests {
  let counter: DispatcherHarness

  init() throws {
    var rules = SendPolicy.Rules()
    rules.ladder = [.seconds(60), .seconds(120)]
    rules.windows = [.init(limit: 3, length: .seconds(600))]
    rules.channels = ["sms", "sms", "call"]
    rules.validity = .seconds(300)
    rules.attempts = 2
    rules.title = Array("%ds".utf8)
    var plain = SendPolicy.Rules()
    plain.count = 5
    var settings = EngineSettings()
    settings.policies = [
      "login": try SendPolicy(name: "login", rules), "plain": try SendPolicy(name: "plain", plain),
    ]
    counter = DispatcherHarness(engine: settings)
  }

  @Test func anAttemptThatIsRepeatedWithItsTokenIsNotCountedAgain() throws {
    let start = try counter.say("COUNTDOWN START k POLICY login TOKEN t")
    let listener = counter.open()
    _ = try counter.frames(["PSUBSCRIBE", "*"], by: listener)
    _ = try counter.take(listener)
    for reason in [Reply.null, .bulk("repeated"), .bulk("repeated")] {
      let view = try counter.say("COUNTDOWN ATTEMPT k TOKEN t")
      #expect(view["accepted"] == .integer(1) && view["reason"] == reason)
      #expect(view["attempts_left"] == .integer(1))
      #expect(view["generation"] == start["generation"])
    }
    #expect(try counter.take(listener).isEmpty)
    #expect(try counter.say("COUNTDOWN ATTEMPT k TOKEN u")["attempts_left"] == .integer(0))
    #expect(try counter.say("COUNTDOWN ATTEMPT k TOKEN v")["reason"] == .bulk("locked"))
    // A refused attempt has not used up its token.
    counter.pass(60_000)
    _ = try counter.say("COUNTDOWN RESEND k TOKEN v")
    #expect(try counter.say("COUNTDOWN ATTEMPT k TOKEN v")["reason"] == .null)
    #expect(try counter.say("COUNTDOWN ATTEMPT k TOKEN t")["generation"] == start["generation"])
  }

  @Test func aRepeatedAttemptAtAllCodesListsThemAgain() throws {
    try counter.expectError(
      "COUNTDOWN ATTEMPT k ANY GENERATION 1", "ANY is about all valid codes; leave out GENERATION")
    _ = try counter.say("COUNTDOWN START k POLICY login")
    counter.pass(60_000)
    _ = try counter.say("COUNTDOWN START k POLICY login")
    func codes(_ options: String) throws -> [String] {
      try counter.say("COUNTDOWN ATTEMPT k ANY \(options)")["codes"]!.elements.map {
        "\($0["generation"]!.text) \($0["attempts_left"]!.text) \($0["expires_in_ms"]!.text)"
      }
    }
    let once = ["1 1 240000", "2 1 300000"]
    #expect(try codes("TOKEN t") == once && codes("TOKEN t") == once)
    // After a restart as well.
    let state = try #require(
      WholeState(bytes: counter.dispatcher.engine.wholeState().bytes(offset: 5), offset: 5))
    let restarted = DispatcherHarness(engine: counter.dispatcher.engine.settings)
    restarted.host.now = counter.host.now
    #expect(restarted.dispatcher.engine.restore(state, at: counter.host.now)?.isEmpty == true)
    let again = try restarted.say("COUNTDOWN ATTEMPT k ANY TOKEN t")
    #expect(again["reason"] == .bulk("repeated") && again["codes"]!.elements.count == 2)
    try restarted.expectError("COUNTDOWN PASS k", "with ATTEMPT ANY; give PASS the GENERATION")
    #expect(try codes("TOKEN u") == ["1 0 240000", "2 0 300000"])
    #expect(try codes("TOKEN u") == ["1 0 240000", "2 0 300000"])
    #expect(try counter.say("COUNTDOWN ATTEMPT k ANY")["reason"] == .bulk("locked"))
    #expect(try counter.say("COUNTDOWN PASS k GENERATION 1")["reason"] == .null)
    // Without ANY there is no list.
    #expect(try counter.say("COUNTDOWN ATTEMPT k")["codes"] == nil)
  }

  @Test func aKeyThatIsReadyRemembersItsTokensFor10MinutesAfterTheNewest() throws {
    var settings = EngineSettings()
    settings.keepReady = .seconds(1)
    var rules = SendPolicy.Rules()
    rules.count = 5
    rules.validity = .seconds(300)
    settings.policies = ["login": try SendPolicy(name: "login", rules)]
    let counter = DispatcherHarness(engine: settings)
    _ = try counter.say("COUNTDOWN START k POLICY login TOKEN t")
    counter.pass(200_000)
    _ = try counter.say("COUNTDOWN ATTEMPT k TOKEN t")
    counter.pass(599_999)
    #expect(try counter.say("COUNTDOWN ATTEMPT k TOKEN t")["reason"] == .bulk("repeated"))
    #expect(
      try counter.say("COUNTDOWN START k POLICY login TOKEN t")["reason"] == .bulk("repeated"))
    counter.pass(1)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func eventsOfPoliciesCarryTheGenerationOfTheSendAndTheReason() throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "countdown:k"], by: listener)
    _ = try counter.say("COUNTDOWN START k POLICY login")
    _ = try counter.say("COUNTDOWN START k POLICY login")
    _ = try counter.say("COUNTDOWN ATTEMPT k")
    _ = try counter.say("COUNTDOWN ATTEMPT k")
    counter.pass(60_000)
    let second = try counter.say("COUNTDOWN START k POLICY login")["generation"]
    _ = try counter.say("COUNTDOWN REFUND k GENERATION \(second?.text ?? "")")
    counter.pass(240_000)
    let heard = try counter.take(listener).compactMap { frame -> [String: Any]? in
      guard frame.elements.first?.text == "message" else { return nil }
      return try JSONSerialization.jsonObject(
        with: Data(frame.elements[2].text.utf8)) as? [String: Any]
    }.filter { $0["event"] as? String != "tick" }
    #expect(
      heard.map { $0["event"] as? String } == [
        "snapshot", "started", "refused", "locked", "ready", "started", "refunded", "ready",
        "expired",
      ])
    #expect(heard[1]["policy"] as? String == "login" && heard[1]["sends_left"] as? Int == 2)
    #expect(heard[2]["reason"] as? String == "cooldown")
    #expect(heard[2]["retry_after_ms"] as? Int == 60_000)
    #expect(heard[3]["attempts_left"] as? Int == 0)
    #expect(heard[6]["sends"] as? Int == 1 && heard[6]["sends_left"] as? Int == 2)
    #expect(heard[8]["generation"] as? Int == 1 && heard[8]["late_us"] as? Int == 0)
    #expect(heard[8]["due_unix_ms"] as? Int == 1_790_000_300_000)
  }
}
