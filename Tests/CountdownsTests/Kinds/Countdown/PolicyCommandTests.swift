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

  @Test func startPOLICYRepliesWithAllFieldsAndThoseOfThePolicy() throws {
    let view = try counter.say("COUNTDOWN START k POLICY login")
    #expect(view["accepted"] == .integer(1) && view["reason"] == .null)
    #expect(view["policy"] == .bulk("login") && view["sends"] == .integer(1))
    #expect(view["channel"] == .bulk("sms") && view["next_channel"] == .bulk("sms"))
    #expect(view["sends_left"] == .integer(2) && view["expires_in_ms"] == .integer(300_000))
    #expect(view["attempts_left"] == .integer(2) && view["title"] == .bulk("60s"))
    let plain = try counter.say("COUNTDOWN START p POLICY plain")
    #expect(plain["sends_left"] == .null && plain["channel"] == .null)
    #expect(plain["expires_in_ms"] == .null && plain["attempts_left"] == .null)
    #expect(try counter.say("COUNTDOWN START q")["policy"] == nil)
  }

  @Test func policyExcludesCOUNTAndEVERYTheErrorForAnUnknownOneListsThePolicies() throws {
    for words in ["POLICY login COUNT 5", "EVERY 1s POLICY login"] {
      try counter.expectError(
        "COUNTDOWN START k \(words)", "POLICY sets the length; leave out COUNT and EVERY")
    }
    try counter.expectError(
      "COUNTDOWN START k POLICY logn", "ERR no policy 'logn'", "known: login, plain")
    try counter.expectError("COUNTDOWN START k POLICY", "POLICY needs a value")
    let none = DispatcherHarness()
    try none.expectError("COUNTDOWN START k POLICY login", "the configuration has none")
    #expect(try counter.say("DBSIZE") == .integer(0))
    #expect(
      try counter.say("COUNTDOWN START k POLICY login FIRE TITLE %m:%02s")["title"] == .bulk("0:59")
    )
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

  @Test func refusesATitleWithAnUnknownPlaceholderAndSaysWhatIsAllowed() throws {
    for title in ["50%", "%s", "%m"] {
      try counter.expectError("COUNTDOWN START k TITLE \(title)", "ERR TITLE '\(title)'", "%m")
    }
    #expect(try counter.say("COUNTDOWN GET k") == .null)
  }

  @Test func refundATTEMPTAndPASSReplyWithAcceptedAndTheReason() throws {
    func say(_ line: String) throws -> String {
      let view = try counter.say("COUNTDOWN \(line)")
      return "\(view["accepted"] == .integer(1)) \(view["reason"]?.text ?? "")"
    }
    #expect(try say("START k POLICY login") == "true null")
    #expect(try say("ATTEMPT k") == "true null")
    #expect(try say("ATTEMPT k GENERATION 1") == "true null")
    #expect(try say("ATTEMPT k") == "false locked")
    #expect(try say("PASS k") == "true null")
    #expect(try say("PASS k") == "true repeated")
    #expect(try say("ATTEMPT k") == "false passed")
    #expect(try say("REFUND k GENERATION 1") == "true null")
    #expect(try say("REFUND k GENERATION 1") == "true repeated")
    #expect(try say("START k POLICY login") == "true null")
    try counter.expectError("COUNTDOWN REFUND k GENERATION 1", "STALE 'k' has generation 2")
    try counter.expectError("COUNTDOWN ATTEMPT k GENERATION 1", "STALE")
    try counter.expectError("COUNTDOWN REFUND k", "wrong number of arguments", "key GENERATION g")
    try counter.expectError("COUNTDOWN REFUND k SINCE 1", "unknown option 'SINCE'")
    for command in ["REFUND none GENERATION 1", "ATTEMPT none", "PASS none"] {
      try counter.expectError("COUNTDOWN \(command)", "NOTFOUND no countdown 'none'")
    }
    _ = try counter.say("COUNTDOWN START p POLICY plain")
    _ = try counter.say("COUNTDOWN START q")
    try counter.expectError("COUNTDOWN ATTEMPT p", "ERR the policy 'plain' of 'p' has no validity")
    try counter.expectError("COUNTDOWN PASS q", "ERR 'q' was started without a policy")
  }

  @Test func refusalsByWindowsAndChannelsHaveAReasonAndATimeToWait() throws {
    for wait in [60_000, 120_000] as [Int64] {
      _ = try counter.say("COUNTDOWN START k POLICY login")
      counter.pass(wait)
    }
    let last = try counter.say("COUNTDOWN START k POLICY login")
    #expect(last["accepted"] == .integer(1) && last["next_channel"] == .null)
    #expect(last["retry_after_ms"] == .integer(600_000))
    let refused = try counter.say("COUNTDOWN RESEND k")
    #expect(refused["accepted"] == .integer(0) && refused["reason"] == .bulk("exhausted"))
    #expect(try counter.say("COUNTDOWN CANCEL k") == .integer(1))
    #expect(try counter.say("COUNTDOWN CANCEL k") == .integer(0))
    #expect(try counter.say("COUNTDOWN GET k")["state"] == .bulk("idle"))
    try counter.expectError("COUNTDOWN PAUSE k", "'k' is not counting")
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
