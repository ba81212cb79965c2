import Testing

@testable import Countdowns

/// COUNTDOWN WHY: a sentence for each state, and for each reason of a refusal.
@Suite struct WhyTests {
  let counter: DispatcherHarness

  init() throws {
    var rules = SendPolicy.Rules()
    rules.ladder = [.seconds(60), .seconds(120)]
    rules.windows = [
      .init(limit: 3, length: .seconds(600)), .init(limit: 9, length: .seconds(3_600)),
    ]
    rules.validity = .seconds(300)
    rules.attempts = 2
    var channels = SendPolicy.Rules()
    channels.count = 10
    channels.windows = [.init(limit: 5, length: .seconds(600))]
    channels.channels = ["sms", "call"]
    var guessed = SendPolicy.Rules()
    guessed.count = 10
    guessed.validity = .seconds(300)
    guessed.guesses = .init(limit: 2, length: .seconds(3_600))
    guessed.refunds = .init(limit: 1, length: .seconds(600))
    var settings = EngineSettings()
    settings.policies = [
      "login": try SendPolicy(name: "login", rules),
      "guessed": try SendPolicy(name: "guessed", guessed),
      "channels": try SendPolicy(name: "channels", channels),
    ]
    counter = DispatcherHarness(engine: settings)
  }

  @discardableResult
  private func say(_ line: String) throws -> Reply { try counter.say(line) }

  private func pass(_ seconds: Int64) {
    counter.host.now.boot = counter.host.now.boot + .seconds(seconds)
    counter.host.now.wall = counter.host.now.wall + .seconds(seconds)
  }

  private func why(_ key: String = "k") throws -> String {
    try say("COUNTDOWN WHY \(key)")["why"]!.text
  }

  private func limits(_ key: String = "k") throws -> [String] {
    try say("COUNTDOWN WHY \(key)")["limits"]!.elements.map(\.text)
  }

  private func code(_ key: String = "k") throws -> String {
    let reply = try say("COUNTDOWN WHY \(key)")
    return "\(reply["code"]!.text), \(reply["code_why"]!.text)"
  }

  // MARK: States

  @Test func eachStateHasASentenceWhichSaysWhatSTARTWouldDo() throws {
    var seen: Set<String> = []
    func expect(_ sentence: String) throws {
      let reply = try say("COUNTDOWN WHY k")
      #expect(reply["why"] == .bulk(sentence))
      seen.insert(reply["state"]!.text)
    }
    try expect("idle: there is no countdown; START is accepted")
    try say("COUNTDOWN START k COUNT 60")
    pass(19)
    try expect("refused: in cooldown; 41 s of 60 s left")
    try say("COUNTDOWN PAUSE k")
    try expect("refused: paused with 41 s left; RESUME or CANCEL it")
    try say("COUNTDOWN RESUME k")
    pass(41)
    try expect("ready: START is accepted")
    #expect(seen == Set(CountdownView.State.allCases.map { "\($0.text)" }))
  }

  @Test func aCountdownThatWasRetimedBeyondItsLengthSaysWhatIsLeftOnly() throws {
    try say("COUNTDOWN START k COUNT 60")
    try say("COUNTDOWN RETIME k 2m")
    #expect(try why() == "refused: in cooldown; 2 m left")
  }

  @Test func aCancelledCountdownWithSendsOnRecordAndARefundedOneSaySo() throws {
    let started = try say("COUNTDOWN START k POLICY login")
    try say("COUNTDOWN CANCEL k")
    #expect(try why() == "idle: it was cancelled; START is accepted")
    let second = try say("COUNTDOWN START k POLICY login")
    try say("COUNTDOWN REFUND k GENERATION \(second["generation"]!.text)")
    #expect(try why() == "ready: the last send was refunded; START is accepted")
    #expect(started["generation"] != second["generation"])
  }

  // MARK: Refusals

  @Test func eachReasonToRefuseSTARTHasASentenceWithTheSameReasonAndWaitAsSTART() throws {
    var seen: Set<String> = []
    func expect(_ sentence: String, _ key: String, policy: String) throws {
      let reply = try say("COUNTDOWN WHY \(key)")
      #expect(reply["why"] == .bulk(sentence))
      let refused = try say("COUNTDOWN START \(key) POLICY \(policy)")
      #expect(refused["accepted"] == .integer(0))
      #expect(reply["reason"] == refused["reason"])
      #expect(reply["retry_after_ms"] == refused["retry_after_ms"])
      seen.insert(reply["reason"]!.text)
    }
    try say("COUNTDOWN START k POLICY login")
    pass(60)
    try say("COUNTDOWN START k POLICY login")
    pass(20)
    try expect("refused: in cooldown after send 2; 100 s of 2 m left", "k", policy: "login")
    pass(100)
    try say("COUNTDOWN START k POLICY login")
    pass(379)
    try expect("refused: 3 of 3 in 10 m; the oldest leaves in 41 s", "k", policy: "login")
    #expect(
      try limits() == [
        "3 of 3 in 10 m; the oldest leaves in 41 s",
        "3 of 9 in 60 m; the oldest leaves in 50 m 41 s",
      ])

    try say("COUNTDOWN START c POLICY channels")
    #expect(try limits("c").last == "1 of 2 channels used; call is next")
    pass(10)
    try say("COUNTDOWN START c POLICY channels")
    pass(100)
    try expect(
      "refused: 2 of 2 channels used; they start over in 8 m 20 s", "c", policy: "channels")

    try say("COUNTDOWN START g POLICY guessed")
    try say("COUNTDOWN ATTEMPT g")
    #expect(
      try limits("g") == [
        "1 of 2 guesses in 60 m; the oldest leaves in 60 m", "0 of 1 refunds in 10 m",
      ])
    #expect(try code("g") == "valid, valid for 5 m")
    try say("COUNTDOWN ATTEMPT g")
    try expect(
      "refused: 2 of 2 guesses in 60 m; the oldest leaves in 60 m", "g", policy: "guessed")
    #expect(
      try code("g")
        == "valid, refused: 2 of 2 guesses in 60 m; the oldest leaves in 60 m")
    #expect(try say("COUNTDOWN ATTEMPT g")["reason"]!.text == "guesses")
    #expect(seen == ["cooldown", "window", "exhausted", "guesses"])
  }

  @Test func aFullWindowOutlastsAPauseAndTheSentenceHasBoth() throws {
    for wait in [60, 120, 1] {
      try say("COUNTDOWN START k POLICY login")
      pass(Int64(wait))
    }
    try say("COUNTDOWN RETIME k 30s")
    try say("COUNTDOWN PAUSE k")
    // The window is full for 419 s, so PAUSE kept 419 s.
    #expect(try why().hasPrefix("refused: 3 of 3 in 10 m; the oldest leaves in 6 m 59 s"))
    #expect(try why().hasSuffix("; also paused with 6 m 59 s left"))
  }

  @Test func withoutPOLICYTheLastSTARTIgnoresTheWindowsAndSoDoesTheSentence() throws {
    for wait in [60, 120, 0] {
      try say("COUNTDOWN START k POLICY login")
      pass(Int64(wait))
    }
    try say("COUNTDOWN CANCEL k")
    #expect(try why() == "refused: 3 of 3 in 10 m; the oldest leaves in 7 m")
    pass(420)
    try say("COUNTDOWN START k COUNT 5")
    #expect(try why() == "refused: in cooldown; 5 s of 5 s left")
    #expect(try limits() == [])
  }

  // MARK: Codes

  @Test func eachStatusOfACodeHasASentenceWithTheSameAnswerAsATTEMPT() throws {
    var seen: Set<String> = []
    func expect(_ sentence: String, _ key: String) throws {
      let reply = try say("COUNTDOWN WHY \(key)")
      #expect(reply["code_why"] == .bulk(sentence))
      let status = reply["code"]!.text
      seen.insert(status)
      let answer = try say("COUNTDOWN ATTEMPT \(key)")
      #expect(answer["reason"]!.text == (status == "valid" ? "null" : status))
    }
    try say("COUNTDOWN START k POLICY login")
    pass(60)
    try expect("valid for 4 m; 2 of 2 attempts left", "k")
    try expect("valid for 4 m; 1 of 2 attempts left", "k")
    try expect("refused: 2 of 2 attempts made", "k")
    pass(240)
    try expect("refused: the validity of 5 m is over", "k")
    try say("COUNTDOWN START p POLICY login")
    try say("COUNTDOWN PASS p")
    try expect("refused: PASS has used the code", "p")
    #expect(seen == Set(CountdownExplanation.Code.allCases.map(\.rawValue)))

    // A refund of the only send would forget the key, so it gets two sends.
    try say("COUNTDOWN START r POLICY login")
    pass(301)
    let second = try say("COUNTDOWN START r POLICY login")
    try say("COUNTDOWN REFUND r GENERATION \(second["generation"]!.text)")
    try expect("refused: the send was refunded", "r")
    try say("COUNTDOWN START plain")
    #expect(try code("plain") == "null, null")
  }

  @Test func askingChangesNothing() throws {
    try say("COUNTDOWN START k POLICY login")
    let before = try say("COUNTDOWN GET k")
    try say("COUNTDOWN WHY k")
    #expect(try say("COUNTDOWN GET k") == before)
  }
}
