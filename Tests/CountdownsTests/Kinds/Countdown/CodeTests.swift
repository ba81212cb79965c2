import Countdowns
import Testing

/// Codes: validity, attempts, and the effect of a resend on earlier codes.
@Suite struct CodeTests {
  let desk = Desk()

  @Test func attemptCountsAfterTheLastAttemptTheCodeIsLockedUntilTheNextSend() throws {
    let policy = SendPolicy.test(count: 1, validity: 60_000, attempts: 3)
    desk.subscribe(1, "countdown:a")
    try desk.at(0).start("a", policy: policy)
    for left in [2, 1, 0] as [Int64] {
      let (attempt, view) = try desk.attempt("a")
      #expect(attempt == .accepted(isLast: left == 0))
      #expect(view.quota?.attemptsLeft == left && view.quota?.expiresInMS == 60_000)
    }
    #expect(try desk.attempt("a").attempt == .locked)
    try desk.at(1_000).start("a", policy: policy)
    #expect(try desk.attempt("a").view.quota?.attemptsLeft == 2)
    desk.hears(
      1, "0 a snapshot idle", "0 a started 1", "0 a locked 1", "1000 a ready 0", "1000 a started 1")
  }

  /// keycloak-46634: after a quiet time as long as the longest step, the first one is next
  @Test func lockoutStepsStartOverAfterAQuietTimeAsLongAsTheLongest() throws {
    // The window has the key on record for longer.
    let policy = SendPolicy.test(
      count: 1, windows: [(9, 86_400_000)], validity: 60_000, attempts: 1,
      lockout: [10_000, 60_000])
    var waits: [Int64] = []
    // The lockouts end at 10, 70 and 189.999 s.
    for moment in [0, 10_000, 129_999, 249_999] as [Int64] {
      try desk.at(moment).start("a", policy: policy)
      waits.append(try desk.attempt("a").view.retryAfterMS)
    }
    #expect(waits == [10_000, 60_000, 60_000, 10_000])
  }

  @Test func aRefundEndsNoLockout() throws {
    let policy = SendPolicy.test(count: 1, validity: 60_000, attempts: 1, lockout: [10_000])
    let sent = try desk.at(0).start("a", policy: policy).view.generation
    try desk.attempt("a")
    let view = try desk.refund("a", sent).view
    #expect(view.state == .counting && view.retryAfterMS == 10_000)
    #expect(try desk.send("a", policy: policy) == "refused locked 10000")
    #expect(try desk.at(10_000).send("a", policy: policy) == "accepted 1000")
  }

  /// django-otp-110: three wrong guesses at three codes are three attempts, and one lockout
  @Test func aGuessAtAllCodesIsOneAttemptAtEachAndOneLockout() throws {
    let policy = SendPolicy.test(
      count: 1, validity: 60_000, attempts: 3, lockout: [10_000, 600_000])
    let sent = try [0, 1_000, 2_000].map {
      try desk.at($0).start("a", policy: policy).view.generation
    }
    desk.subscribe(1, "countdown:a")
    _ = desk.takeHeard(1)
    for left in [2, 1, 0] as [Int64] {
      let (attempt, view) = try desk.attemptAny("a")
      #expect(attempt == .accepted(isLast: left == 0))
      #expect(view.codes?.map(\.generation) == sent)
      #expect(view.codes?.map(\.attemptsLeft) == [left, left, left])
    }
    #expect(desk.takeEvents(1).filter { $0.name == .locked }.map(\.generation) == sent)
    #expect(desk.get("a")?.retryAfterMS == 10_000)
    let (attempt, view) = try desk.attemptAny("a")
    #expect(attempt == .locked && view.codes == [])
    // The last guess may have been right.
    #expect(throws: EngineError.needsGeneration) { try desk.pass("a") }
    #expect(try desk.pass("a", sent[1]).pass == .accepted)
    #expect(try desk.attemptAny("a").attempt == .passed)
    #expect(try desk.pass("a").pass == .acceptedBefore)
  }

  @Test func aGuessAtAllCodesListsThoseThatMayBeChecked() throws {
    let policy = SendPolicy.test(count: 1, validity: 5_000, attempts: 2)
    let sent = try [0, 1_000, 2_000].map {
      try desk.at($0).start("a", policy: policy).view.generation
    }
    // One is locked before, and one expires meanwhile.
    for _ in 0..<2 { try desk.attempt("a", sent[1]) }
    #expect(try desk.attemptAny("a").view.codes?.map(\.generation) == [sent[0], sent[2]])
    desk.at(5_000)
    let view = try desk.attemptAny("a").view
    #expect(view.codes?.map(\.generation) == [sent[2]] && view.codes?[0].expiresInMS == 2_000)
    #expect(throws: EngineError.needsGeneration) { try desk.pass("a") }
    // Once none of them is valid, PASS is about the newest again.
    desk.at(7_000)
    #expect(try desk.attemptAny("a").attempt == .expired)
    #expect(try desk.pass("a").pass == .expired)
    try desk.start("a", policy: policy)
    #expect(try desk.pass("a").pass == .accepted)
  }

  @Test func aCodeExpiresAtTheEndOfItsValidityWithAnEvent() throws {
    let policy = SendPolicy.test(count: 1, validity: 5_000, attempts: 3)
    desk.subscribe(1, "countdown:a")
    let sent = try desk.at(0).start("a", policy: policy).view.generation
    #expect(try desk.at(4_999).attempt("a").attempt == .accepted(isLast: false))
    #expect(desk.get("a")?.quota?.expiresInMS == 1)
    let (attempt, view) = try desk.at(5_000).attempt("a")
    #expect(attempt == .expired)
    #expect(view.quota?.expiresInMS == nil && view.quota?.attemptsLeft == nil)
    desk.hears(
      1, "0 a snapshot idle", "0 a started 1", "1000 a ready 0", "5000 a expired 0")
    let event = try #require(desk.takeEvents(1).last)
    #expect(event.generation == sent && event.lateMicroseconds == 0)
    #expect(event.dueUnixMS == Desk.wallStart / 1_000 + 5_000)
  }

  @Test func dueEventsThatAreNoticedLateComeInTheOrderOfTime() throws {
    desk.subscribe(1, "countdown:a")
    desk.subscribe(1, "countdown:b")
    try desk.at(0).start("a", policy: .test(count: 9, validity: 5_000))
    try desk.start("b", policy: .test(count: 2, validity: 5_000))
    _ = desk.takeHeard(1)
    desk.late(at: 20_000)
    let heard = desk.takeHeard(1)
    #expect(
      heard.filter { $0.contains(" a ") && !$0.contains("tick") } == [
        "20000 a expired 0", "20000 a ready 0",
      ])
    #expect(
      heard.filter { $0.contains(" b ") && !$0.contains("tick") } == [
        "20000 b ready 0", "20000 b expired 0",
      ])
  }

  /// keycloak-mfa-PR-444: with keep, a resend leaves the earlier code valid
  @Test func keeps() throws {
    let policy = SendPolicy.test(count: 2, validity: 5_000, attempts: 3, onResend: .keep)
    let first = try desk.at(0).start("a", policy: policy).view.generation
    let second = try desk.at(2_000).start("a", policy: policy).view.generation
    let (attempt, view) = try desk.attempt("a", first)
    #expect(attempt == .accepted(isLast: false))
    #expect(view.quota?.attemptsLeft == 2 && view.quota?.expiresInMS == 3_000)
    // Each code has its own attempts and its own expiry.
    #expect(try desk.attempt("a", second).view.quota?.attemptsLeft == 2)
    #expect(try desk.attempt("a").view.quota?.attemptsLeft == 1)
    desk.at(5_000)
    #expect(throws: EngineError.stale(now: second)) { try desk.attempt("a", first) }
    #expect(try desk.attempt("a", second).attempt == .accepted(isLast: true))
  }

  /// authy-ruby-63: with replace, a resend ends the earlier code
  @Test func replaces() throws {
    let policy = SendPolicy.test(count: 2, validity: 5_000, attempts: 3, onResend: .replace)
    desk.subscribe(1, "countdown:a")
    let first = try desk.at(0).start("a", policy: policy).view.generation
    let second = try desk.at(2_000).start("a", policy: policy).view.generation
    #expect(throws: EngineError.stale(now: second)) { try desk.attempt("a", first) }
    #expect(throws: EngineError.stale(now: second)) { try desk.pass("a", first) }
    #expect(try desk.attempt("a").attempt == .accepted(isLast: false))
    desk.at(9_000)
    // Only the newer code expires; the resend ended the earlier one.
    #expect(desk.takeHeard(1).filter { $0.contains("expired") } == ["7000 a expired 0"])
  }

  @Test func refundEndsItsCodeWithKeepTheEarlierCodeIsTheNewestAgain() throws {
    let keep = SendPolicy.test(count: 1, validity: 5_000, attempts: 2)
    let replace = SendPolicy.test(count: 1, validity: 5_000, attempts: 2, onResend: .replace)
    for (key, policy) in [("k", keep), ("r", replace)] {
      try desk.at(0).start(key, policy: policy)
      try desk.attempt(key)
    }
    desk.at(1_000)
    for (key, policy) in [("k", keep), ("r", replace)] {
      let second = try desk.start(key, policy: policy).view.generation
      try desk.refund(key, second)
      let attempt = try desk.attempt(key).attempt
      #expect(attempt == (key == "k" ? .accepted(isLast: true) : .expired))
      #expect(try desk.attempt(key, second).attempt == .expired)
    }
  }

  @Test func passEndsAttemptsUntilTheNextSendAndTheSendStillCounts() throws {
    let policy = SendPolicy.test(count: 1, windows: [(2, 60_000)], validity: 5_000, attempts: 1)
    desk.subscribe(1, "countdown:a")
    try desk.at(0).start("a", policy: policy)
    // The last attempt may be the right one, so PASS is accepted after it.
    #expect(try desk.attempt("a").attempt == .accepted(isLast: true))
    let (pass, view) = try desk.pass("a")
    #expect(pass == .accepted && view.quota?.sendsLeft == 1 && view.quota?.expiresInMS == nil)
    #expect(try desk.pass("a").pass == .acceptedBefore)
    #expect(try desk.attempt("a").attempt == .passed)
    desk.at(9_000)
    #expect(try desk.attempt("a").attempt == .passed)
    desk.hears(
      1, "0 a snapshot idle", "0 a started 1", "0 a locked 1", "0 a passed 1", "1000 a ready 0")
    try desk.start("a", policy: policy)
    #expect(try desk.attempt("a").attempt == .accepted(isLast: true))
  }

  @Test func passIsRefusedOnceTheCodeHasExpired() throws {
    let policy = SendPolicy.test(count: 1, windows: [(9, 60_000)], validity: 5_000)
    desk.subscribe(1, "countdown:old")
    let sent = try desk.at(0).start("old", policy: policy).view.generation
    let refunded = try desk.start("refunded", policy: policy).view.generation
    try desk.refund("refunded", refunded)
    for generation in [nil, refunded] {
      #expect(try desk.attempt("refunded", generation).attempt == .expired)
      #expect(try desk.pass("refunded", generation).pass == .expired)
    }
    desk.at(5_000)
    _ = desk.takeHeard(1)
    for generation in [nil, sent] {
      #expect(try desk.attempt("old", generation).attempt == .expired)
      #expect(try desk.pass("old", generation).pass == .expired)
    }
    // A refused PASS does not mark the code as used.
    #expect(try desk.attempt("old").attempt == .expired)
    desk.hears(1)
  }

  @Test func lockedAndPassedCarryTheGenerationOfTheSendWhoseCodeItWas() throws {
    let policy = SendPolicy.test(
      count: 1, windows: [(9, 60_000)], validity: 50_000, attempts: 1)
    let first = try desk.at(0).start("a", policy: policy).view.generation
    let second = try desk.at(1_000).resend("a").view.generation
    try desk.refund("a", second)
    desk.subscribe(1, "countdown:a")
    _ = desk.takeEvents(1)
    let attempt = try desk.attempt("a").view
    #expect(attempt.quota?.attemptsLeft == 0)
    try desk.pass("a")
    let events = desk.takeEvents(1)
    #expect(events.map { "\($0.name.text)" } == ["locked", "passed"])
    #expect(events.map(\.generation) == [first, first])
  }

  @Test func codesStayValidAfterCANCELAndKeepTheKey() throws {
    try desk.at(0).start("a", policy: .test(count: 60, validity: 5_000, attempts: 2))
    try desk.cancel("a")
    #expect(try desk.attempt("a").attempt == .accepted(isLast: false))
    try desk.pass("a")
    desk.expectEmpty()
    #expect(throws: EngineError.notFound) { try desk.attempt("a") }
  }

  @Test func withoutAPolicyOrWithoutValidityThereAreNoCodesToTry() throws {
    try desk.start("a")
    try desk.start("b", policy: .test())
    #expect(throws: EngineError.noPolicy) { try desk.attempt("a") }
    #expect(throws: EngineError.noPolicy) { try desk.pass("a") }
    #expect(throws: EngineError.noCodes(policy: "test")) { try desk.attempt("b") }
    #expect(throws: EngineError.notFound) { try desk.pass("c") }
  }

  @Test func withoutAttemptsInThePolicyAnyNumberMayBeMadeWhileTheCodeIsValid() throws {
    try desk.at(0).start("a", policy: .test(count: 1, validity: 5_000))
    for _ in 0..<100 { #expect(try desk.attempt("a").attempt == .accepted(isLast: false)) }
    #expect(desk.get("a")?.quota?.attemptsLeft == nil)
    #expect(try desk.at(5_000).attempt("a").attempt == .expired)
  }

  @Test func pauseStopsTheCountdownButNeitherValidityNorWindows() throws {
    try desk.at(0).start("a", policy: .test(count: 60, windows: [(1, 70_000)], validity: 5_000))
    try desk.pause("a")
    #expect(try desk.at(5_000).attempt("a").attempt == .expired)
    // PAUSE kept the full 70 s of the window.
    #expect(desk.at(69_000).get("a")?.retryAfterMS == 70_000)
    #expect(try desk.resume("a").remainingMS == 70_000)
  }
}
