import Countdowns
import Testing

/// The rules of policies, one test each, as timelines.
@Suite struct PolicyTests {
  let desk = Desk()

  @Test func theNthSendHasTheNthCooldownOfTheLadderTheLastOneRepeats() throws {
    let policy = SendPolicy.test(ladder: [60_000, 120_000, 300_000])
    var at: Int64 = 0
    for cooldown in [60_000, 120_000, 300_000, 300_000] as [Int64] {
      desk.at(at)
      #expect(try desk.send("a", policy: policy) == "accepted \(cooldown)")
      desk.at(at + cooldown - 1)
      #expect(try desk.send("a", policy: policy) == "refused cooldown 1")
      at += cooldown
    }
    #expect(desk.at(at).get("a")?.state == .ready)
    #expect(desk.get("a")?.sends == 4)
  }

  @Test func withoutALadderTheCooldownIsCOUNTTimesEVERY60SByDefault() throws {
    #expect(try desk.send("a", policy: .test(count: 3, every: 500)) == "accepted 1500")
    #expect(try desk.send("b", policy: .test()) == "accepted 60000")
    #expect(desk.get("b")?.remaining == 60)
  }

  @Test func fireTakesTheFirstStepOfEachCooldownAtOnceRESENDDoesWhatSTARTDid() throws {
    let policy = SendPolicy.test(ladder: [3_000, 5_000])
    #expect(try desk.start("a", policy: policy, fire: true).view.remainingMS == 2_000)
    desk.at(2_000)
    let again = try desk.resend("a")
    #expect(again.decision == .accepted)
    #expect(again.view.remainingMS == 4_000)
    #expect(again.view.quota?.policy == "test")
  }

  @Test func aWindowSlidesTheWaitLastsUntilItsOldestSendLeaves() throws {
    let policy = SendPolicy.test(count: 1, windows: [(3, 10_000)])
    for at in [0, 4_000, 8_000] as [Int64] { try desk.at(at).start("a", policy: policy) }
    #expect(desk.get("a")?.retryAfterMS == 2_000)
    #expect(desk.at(9_999).get("a")?.state == .counting)
    #expect(try desk.send("a", policy: policy) == "refused window 1")
    #expect(desk.at(10_000).get("a")?.state == .ready)
    // The send at 4000 leaves next; a window that does not slide would be empty by now.
    #expect(try desk.send("a", policy: policy) == "accepted 4000")
    desk.at(13_999)
    #expect(try desk.send("a", policy: policy) == "refused window 1")
    desk.at(14_000)
    #expect(try desk.send("a", policy: policy) == "accepted 4000")
  }

  @Test func eachSendCountsInAllWindowsTheOneThatFreesLastDecides() throws {
    let policy = SendPolicy.test(count: 1, windows: [(2, 10_000), (3, 60_000)])
    #expect(try desk.at(0).send("a", policy: policy) == "accepted 1000")
    #expect(try desk.at(1_000).send("a", policy: policy) == "accepted 9000")
    #expect(try desk.at(5_000).send("a", policy: policy) == "refused window 5000")
    #expect(try desk.at(10_000).send("a", policy: policy) == "accepted 50000")
    #expect(desk.get("a")?.quota?.sendsLeft == 0)
    #expect(try desk.at(59_999).send("a", policy: policy) == "refused window 1")
    #expect(try desk.at(60_000).send("a", policy: policy) == "accepted 1000")
  }

  @Test func theReasonOfARefusalIsWhatEndsLastTheCooldownOrAWindow() throws {
    let policy = SendPolicy.test(ladder: [8_000, 1_000], windows: [(2, 10_000)])
    #expect(try desk.at(0).send("a", policy: policy) == "accepted 8000")
    #expect(try desk.at(1).send("a", policy: policy) == "refused cooldown 7999")
    #expect(try desk.at(8_000).send("a", policy: policy) == "accepted 2000")
    #expect(try desk.at(8_001).send("a", policy: policy) == "refused window 1999")
  }

  @Test func sendsAndTheLadderStartOverOnceTheLongestWindowIsEmpty() throws {
    let policy = SendPolicy.test(ladder: [1_000, 2_000, 5_000], windows: [(9, 10_000)])
    try desk.at(0).start("a", policy: policy)
    try desk.at(1_000).start("a", policy: policy)
    #expect(desk.at(10_999).get("a")?.sends == 2)
    #expect(try desk.send("a", policy: policy) == "accepted 5000")
    #expect(desk.at(20_998).get("a")?.sends == 3)
    #expect(desk.at(20_999).get("a")?.sends == 0)
    #expect(try desk.send("a", policy: policy) == "accepted 1000")
  }

  @Test func withoutWindowsSendsStartOverWhenTheKeyIsForgotten() throws {
    let policy = SendPolicy.test(ladder: [1_000, 2_000])
    try desk.at(0).start("a", policy: policy)
    #expect(try desk.at(600_999).send("a", policy: policy) == "accepted 2000")
    #expect(desk.at(1_202_999).get("a") == nil)
    #expect(try desk.send("a", policy: policy) == "accepted 1000")
  }

  @Test func theNthSendUsesTheNthChannelAfterTheLastOneSTARTIsRefusedAsExhausted() throws {
    let policy = SendPolicy.test(
      count: 1, windows: [(9, 60_000)], channels: ["sms", "sms", "call"])
    var quota = try #require(try desk.at(0).start("a", policy: policy).view.quota)
    #expect(quota.channel == "sms" && quota.nextChannel == "sms" && quota.sendsLeft == 2)
    quota = try #require(try desk.at(1_000).start("a", policy: policy).view.quota)
    #expect(quota.channel == "sms" && quota.nextChannel == "call" && quota.sendsLeft == 1)
    let last = try desk.at(2_000).start("a", policy: policy).view
    quota = try #require(last.quota)
    #expect(quota.channel == "call" && quota.nextChannel == nil && quota.sendsLeft == 0)
    #expect(last.retryAfterMS == 60_000)
    #expect(try desk.at(4_000).send("a", policy: policy) == "refused exhausted 58000")
    #expect(desk.at(61_999).get("a")?.state == .counting)
    let ready = try #require(desk.at(62_000).get("a"))
    #expect(ready.state == .ready && ready.quota?.nextChannel == "sms")
    #expect(ready.sends == 0 && ready.quota?.channel == nil)
    #expect(try desk.start("a", policy: policy).view.quota?.channel == "sms")
  }

  // MARK: Refunds

  @Test func refundGivesBackCooldownAndQuotaTheKeyIsReadyAtOnceWithAnEvent() throws {
    let policy = SendPolicy.test(
      ladder: [1_000, 5_000], windows: [(2, 60_000)], channels: ["sms", "call"])
    try desk.at(0).start("a", policy: policy)
    desk.at(1_000)
    desk.subscribe(1, "countdown:a")
    let second = try desk.start("a", policy: policy).view
    #expect(second.retryAfterMS == 60_000 && second.quota?.channel == "call")
    let (isFirst, view) = try desk.at(1_500).refund("a", second.generation)
    #expect(isFirst && view.state == .ready && view.sends == 1 && view.retryAfterMS == 0)
    #expect(view.quota?.channel == "sms" && view.quota?.nextChannel == "call")
    #expect(view.quota?.sendsLeft == 1)
    desk.hears(
      1, "1000 a snapshot 0", "1000 a started 60", "1500 a refunded 0", "1500 a ready 0")
    // The next send is the second one again.
    #expect(try desk.start("a", policy: policy).view.quota?.channel == "call")
  }

  @Test func refundIsIdempotent() throws {
    let policy = SendPolicy.test(count: 1, windows: [(5, 60_000)])
    try desk.at(0).start("a", policy: policy)
    let second = try desk.at(1_000).start("a", policy: policy).view.generation
    try desk.refund("a", second)
    let (isFirst, view) = try desk.refund("a", second)
    #expect(!isFirst && view.sends == 1 && view.quota?.sendsLeft == 4)
  }

  @Test func refundOfAnEarlierGenerationIsStaleEvenAfterTheNewerOneWasRefunded() throws {
    let policy = SendPolicy.test(count: 1, windows: [(5, 60_000)])
    let first = try desk.at(0).start("a", policy: policy).view.generation
    let second = try desk.at(1_000).start("a", policy: policy).view.generation
    #expect(throws: EngineError.stale(now: second)) { try desk.refund("a", first) }
    try desk.refund("a", second)
    #expect(throws: EngineError.stale(now: second)) { try desk.refund("a", first) }
    #expect(throws: EngineError.notFound) { try desk.refund("b", first) }
    #expect(desk.get("a")?.sends == 1)
  }

  @Test func refundOfAReadyOrCancelledCountdownGivesBackTheQuota() throws {
    let policy = SendPolicy.test(count: 1, windows: [(1, 60_000)])
    let sent = try desk.at(0).start("a", policy: policy).view.generation
    try desk.at(500).cancel("a")
    #expect(try desk.send("a", policy: policy) == "refused window 59500")
    let (isFirst, view) = try desk.refund("a", sent)
    #expect(isFirst && view.state == .idle && view.retryAfterMS == 0)
    // No send is left, so the key is forgotten.
    desk.expectEmpty()
    #expect(try desk.send("a", policy: policy) == "accepted 60000")
  }

  @Test func refundOfACountdownWithoutAPolicyEndsItsCooldown() throws {
    let generation = try desk.start("a", count: 60).view.generation
    let (isFirst, view) = try desk.refund("a", generation)
    #expect(isFirst && view.state == .ready && view.sends == 0)
    #expect(try desk.refund("a", generation).isFirst == false)
    #expect(try desk.start("a", count: 60).view.sends == 1)
  }

  @Test func afterAREFUNDTheSameTokenSendsAgain() throws {
    let policy = SendPolicy.test(count: 60)
    let first = try desk.start("a", policy: policy, token: "t").view.generation
    #expect(try desk.start("a", policy: policy, token: "t").decision == .acceptedBefore)
    try desk.refund("a", first)
    let again = try desk.start("a", policy: policy, token: "t")
    #expect(again.decision == .accepted && again.view.generation > first)
  }

  @Test func aRefusedRequestIsNotRememberedItsRetryIsCheckedAgain() throws {
    let policy = SendPolicy.test(count: 1)
    try desk.at(0).start("a", policy: policy, token: "t1")
    #expect(try desk.start("a", policy: policy, token: "t2").decision == .refused(.cooldown))
    #expect(try desk.at(1_000).start("a", policy: policy, token: "t2").decision == .accepted)
    #expect(try desk.start("a", policy: policy, token: "t2").decision == .acceptedBefore)
    #expect(try desk.resend("a", token: "t2").decision == .refused(.cooldown))
  }

  // MARK: Cancel, pause, retime

  @Test func cancelDoesNotFreeTheQuotaSendsStayInTheirWindows() throws {
    let policy = SendPolicy.test(ladder: [1_000, 2_000, 4_000], windows: [(2, 60_000)])
    desk.subscribe(1, "countdown:a")
    try desk.at(0).start("a", policy: policy, owner: .connection(1))
    #expect(try desk.at(100).cancel("a"))
    #expect(try desk.cancel("a") == false)
    let idle = try #require(desk.get("a"))
    #expect(idle.state == .idle && idle.remainingMS == 0 && idle.owner == .none)
    #expect(throws: EngineError.isReady) { try desk.pause("a") }
    // CANCEL ends the cooldown; the send still counts.
    #expect(try desk.at(200).send("a", policy: policy) == "accepted 59800")
    #expect(desk.get("a")?.sends == 2)
    try desk.at(300).cancel("a")
    #expect(try desk.at(400).send("a", policy: policy) == "refused window 59600")
    #expect(try desk.resend("a").decision == .refused(.window))
    desk.at(60_199)
    #expect(desk.get("a")?.state == .idle)
    desk.at(60_200)
    #expect(desk.get("a") == nil)
    desk.hears(
      1, "0 a snapshot idle", "0 a started 1", "100 a cancelled 1 cancelled", "200 a started 60",
      "300 a cancelled 60 cancelled", "400 a refused 0 window", "400 a refused 0 window")
    desk.expectEmpty()
  }

  @Test func cancelForgetsAKeyThatNoWindowHolds() throws {
    try desk.start("a", policy: .test())
    #expect(try desk.cancel("a"))
    desk.expectEmpty()
  }

  @Test func whenItsOwnerEndsTheCountdownIsCancelledAndTheQuotaStays() throws {
    let policy = SendPolicy.test(count: 1, windows: [(1, 60_000)], validity: 30_000)
    desk.connect(2)
    try desk.at(0).start("a", policy: policy, owner: .connection(2))
    desk.disconnect(2)
    desk.at(10)
    #expect(desk.get("a")?.state == .idle)
    #expect(try desk.send("a", policy: policy) == "refused window 59990")
    #expect(try desk.attempt("a").attempt == .accepted(isLast: false))
  }

  @Test func retimeAndRESUMEMoveTheCooldownNotTheWindows() throws {
    let policy = SendPolicy.test(count: 5, windows: [(1, 60_000)])
    try desk.at(0).start("a", policy: policy)
    #expect(try desk.retime("a", 0).remainingMS == 60_000)
    #expect(try desk.retime("a", 90_000).remainingMS == 90_000)
    #expect(try desk.start("a", policy: policy).decision == .refused(.cooldown))
    try desk.pause("a")
    #expect(try desk.at(1_000).retime("a", 1).remainingMS == 1)
    #expect(desk.get("a")?.retryAfterMS == 59_000)
    #expect(try desk.start("a", policy: policy).decision == .refused(.window))
    #expect(try desk.resume("a").remainingMS == 59_000)
    #expect(desk.at(60_000).get("a")?.state == .ready)
  }

  // MARK: Without a policy, and policies that change

  @Test func aRunningCountdownAndItsRESENDKeepThePolicyItWasStartedWith() throws {
    let old = SendPolicy.test(count: 1, windows: [(2, 60_000)])
    let new = SendPolicy.test(count: 2, windows: [(9, 60_000)])
    try desk.at(0).start("a", policy: old)
    #expect(try line(desk.at(1_000).resend("a")) == "accepted 59000")
    #expect(try line(desk.at(2_000).resend("a")) == "refused window 58000")
    // Once cancelled, the key accepts a policy that allows more.
    try desk.cancel("a")
    #expect(try desk.send("a", policy: new) == "accepted 2000")
    #expect(desk.get("a")?.quota?.sendsLeft == 6)
  }

  @Test func startWithoutPOLICYChecksOnlyTheCooldownAndLeavesTheWindowsUnchanged() throws {
    let policy = SendPolicy.test(count: 1, windows: [(1, 60_000)])
    try desk.at(0).start("a", policy: policy)
    try desk.cancel("a")
    let plain = try desk.at(100).start("a", count: 2)
    #expect(plain.decision == .accepted && plain.view.quota == nil)
    #expect(plain.view.remainingMS == 2_000 && plain.view.retryAfterMS == 2_000)
    desk.at(2_100)
    #expect(try desk.resend("a").decision == .accepted)
    desk.at(4_100)
    #expect(try desk.send("a", policy: policy) == "refused window 55900")
  }

  @Test func aPolicysKeyIsKeptUntilItsWindowsAreEmptyAndItsCodesExpired() throws {
    var settings = EngineSettings()
    settings.keepReady = .seconds(5)
    let desk = Desk(settings)
    try desk.at(0).start("a", policy: .test(count: 1, windows: [(9, 60_000)]))
    try desk.start("b", policy: .test(count: 1, validity: 30_000))
    try desk.start("c", policy: .test(count: 1))
    #expect(desk.at(5_999).get("c") != nil)
    #expect(desk.at(6_000).get("c") == nil)
    #expect(desk.at(29_999).get("b") != nil)
    #expect(desk.at(30_000).get("b") == nil)
    #expect(desk.at(59_999).get("a") != nil)
    desk.at(60_000).expectEmpty()
  }

  @Test func aCodeThatExpiredBeforeItsOwnerEndedIsReportedAsExpiredEvenIfNoticedLate() throws {
    desk.connect(2)
    desk.subscribe(1, "countdown:a")
    let policy = SendPolicy.test(count: 1, windows: [(9, 60_000)], validity: 5_000)
    try desk.at(0).start("a", policy: policy, owner: .connection(2))
    desk.disconnect(2)
    _ = desk.takeEvents(1)
    desk.unnoticed(at: 20_000)
    // The next command first does everything that is due.
    #expect(desk.get("a")?.state == .idle)
    #expect(desk.takeEvents(1).map { "\($0.name.text)" } == ["cancelled", "expired"])
    desk.at(60_000).expectEmpty()
  }

  @Test func aLaterPolicyFindsTheSameCodesWheneverTheirEndWasNoticed() throws {
    let old = SendPolicy.test(count: 1, windows: [(9, 10_000)], validity: 5_000)
    let new = SendPolicy.test(count: 1, windows: [(9, 60_000)])
    let late = Desk()
    for desk in [desk, late] {
      try desk.at(0).start("a", policy: old)
      try desk.at(3_000).start("a", policy: old)
    }
    desk.at(12_500)
    late.unnoticed(at: 12_500)
    for desk in [desk, late] {
      // The send at 0 has left the window of its policy; the one at 3000 has not.
      #expect(try desk.start("a", policy: new).view.quota?.sendsLeft == 7)
    }
  }

  @Test func aSendThatHasLeftAllWindowsOfItsPolicyDoesNotCountForTheNextPolicy() throws {
    let old = SendPolicy.test(ladder: [1_000, 2_000], windows: [(2, 10_000)], validity: 40_000)
    let new = SendPolicy.test(ladder: [1_000, 2_000, 3_000], windows: [(3, 60_000)])
    try desk.at(0).start("a", policy: old)
    try desk.at(1_000).start("a", policy: old)
    desk.at(11_000)
    #expect(desk.get("a")?.sends == 0)
    let (decision, view) = try desk.start("a", policy: new)
    #expect(decision == .accepted && view.sends == 1 && view.quota?.sendsLeft == 2)
    #expect(view.retryAfterMS == 1_000)
  }

  // MARK: Tokens

  @Test func eachOfSeveralTokensSendsOnceAndARepetitionGetsItsOwnGeneration() throws {
    let policy = SendPolicy.test(count: 1, windows: [(9, 600_000)], validity: 300_000, attempts: 5)
    for (key, policy) in [("with", policy), ("without", nil)] as [(String, SendPolicy?)] {
      func start(_ token: String) throws -> (decision: StartDecision, view: CountdownView) {
        guard let policy else { return try desk.start(key, count: 1, token: token) }
        return try desk.start(key, policy: policy, token: token)
      }
      let begin = desk.now.boot.microseconds / 1_000
      let x = try start("x").view
      let y = try desk.at(begin + 1_000).resend(key, token: "y").view
      desk.at(begin + 2_000)
      for (token, sent) in [("x", x), ("y", y), ("x", x)] {
        let again = try token == "y" ? desk.resend(key, token: "y") : start(token)
        #expect(again.decision == .acceptedBefore && again.view.generation == sent.generation)
        #expect(again.view.sends == 2)
      }
    }
  }

  @Test func refundForgetsTheTokenOfItsSendOnly() throws {
    let policy = SendPolicy.test(count: 1, windows: [(9, 60_000)])
    try desk.at(0).start("a", policy: policy, token: "x")
    let second = try desk.at(1_000).start("a", policy: policy).view.generation
    try desk.refund("a", second)
    #expect(try desk.start("a", policy: policy, token: "x").decision == .acceptedBefore)
    let third = try desk.start("a", policy: policy, token: "y").view.generation
    try desk.refund("a", third)
    #expect(try desk.start("a", policy: policy, token: "x").decision == .acceptedBefore)
    #expect(try desk.start("a", policy: policy, token: "y").decision == .accepted)
  }

  @Test func neitherCANCELNorTheEndOfTheOwnerForgetsTheTokensOfAPolicysKey() throws {
    let policy = SendPolicy.test(count: 1, windows: [(9, 60_000)])
    desk.connect(2)
    try desk.start("a", policy: policy, owner: .connection(2), token: "x")
    desk.disconnect(2)
    desk.at(10)
    #expect(try desk.start("a", policy: policy, token: "x").decision == .acceptedBefore)
    try desk.start("a", policy: policy, token: "y")
    try desk.cancel("a")
    #expect(try desk.start("a", policy: policy, token: "y").decision == .acceptedBefore)
    // Without a policy, CANCEL forgets the key and its tokens.
    try desk.start("b", token: "x")
    try desk.cancel("b")
    #expect(try desk.start("b", token: "x").decision == .accepted)
  }

  @Test func aKeyRemembersABoundedNumberOfTokensTheOldestIsForgottenFirst() throws {
    for number in 0...Tokens.maximum {
      try desk.at(Int64(number) * 1_000).start("a", count: 1, token: "t\(number)")
    }
    desk.at(Int64(Tokens.maximum + 1) * 1_000)
    #expect(try desk.start("a", count: 1, token: "t1").decision == .acceptedBefore)
    #expect(try desk.start("a", count: 1, token: "t0").decision == .accepted)
  }

  @Test func startUsesTheTitlesOfThePolicyUnlessItHasItsOwn() throws {
    var rules = SendPolicy.Rules()
    rules.count = 90
    rules.title = Array("%m:%02s to go".utf8)
    rules.readyTitle = Array("Send again".utf8)
    let policy = try SendPolicy(name: "titled", rules)
    func title(_ key: String) -> String? {
      desk.get(key)?.title.map { String(decoding: $0, as: UTF8.self) }
    }
    try desk.start("a", policy: policy)
    try desk.start("b", policy: policy, title: "%d")
    #expect(title("a") == "1:30 to go" && title("b") == "90")
    desk.at(29_500)
    #expect(title("a") == "1:01 to go" && title("b") == "61")
    desk.at(89_999)
    #expect(title("a") == "0:01 to go")
    desk.at(90_000)
    #expect(title("a") == "Send again" && title("b") == "Send again")
  }

  private func line(
    _ answer: (decision: StartDecision, view: CountdownView)
  ) -> String { desk.line(answer) }
}
