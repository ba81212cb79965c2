import Countdowns
import Testing

/// ONCE with LEASE: work that stops does not keep others out for the whole TTL.
@Suite struct OnceLeaseTests {
  let desk = Desk()

  private func begin(_ key: String = "k", ttl: Int64 = 86_400_000) throws -> Int64 {
    let (isAccepted, view) = try desk.begin(key, ttl: ttl, lease: 30_000)
    #expect(isAccepted)
    return view.generation.value
  }

  /// actor-ts-984, express-idempotency-32: a crash kept a key for as long as its result was to be.
  @Test func workThatStopsKeepsAKeyUntilItsLeaseIsOver() throws {
    desk.subscribe(1, "once:k")
    let first = try begin()
    desk.at(29_999)
    let refused = try desk.begin("k")
    #expect(!refused.isAccepted && refused.view.leaseMS == 1)
    desk.at(30_000)
    #expect(desk.once("k") == nil)
    let second = try begin()
    #expect(second > first)
    #expect(throws: EngineError.stale(now: Generation(second))) { try desk.done("k", "old", first) }
    #expect(throws: EngineError.stale(now: Generation(second))) { try desk.extend("k", first) }
    #expect(throws: EngineError.stale(now: Generation(second))) {
      try desk.cancel(once: "k", first)
    }
    #expect(try desk.done("k", "new", second).isAccepted)
    desk.hears(
      1, "0 k snapshot idle", "0 k started running", "29999 k refused running duplicate",
      "30000 k expired idle lease", "30000 k started running", "30000 k done done new")
  }

  /// actor-ts-984, express-idempotency-32: the result is kept for TTL, whatever the lease was.
  @Test func theResultLivesForTTLFromTheFirstRequest() throws {
    let first = try begin(ttl: 100_000)
    desk.at(20_000)
    #expect(try desk.done("k", "r", first).view.leaseMS == nil)
    desk.at(99_999)
    #expect(try desk.begin("k").view.result == Array("r".utf8))
    desk.at(100_000)
    desk.expectEmpty()
  }

  @Test func extendLetsTheLeaseBeginAgainAndMayChangeIt() throws {
    let first = try begin()
    desk.at(29_999)
    #expect(try desk.extend("k", first).view.leaseMS == 30_000)
    desk.at(59_998)
    #expect(try desk.extend("k", first, lease: 1_000).view.leaseMS == 1_000)
    #expect(try desk.extend("k", first).view.leaseMS == 1_000)
    desk.at(60_998)
    #expect(throws: EngineError.notFound) { try desk.extend("k", first) }
  }

  @Test func inTheMillisecondOfItsEndALeaseIsOver() throws {
    let first = try begin()
    desk.unnoticed(at: 30_000)
    #expect(throws: EngineError.notFound) { try desk.extend("k", first) }
    #expect(try desk.begin("k").isAccepted)
  }

  @Test func aLateResultIsAcceptedIfNobodyHasBegunAgain() throws {
    desk.subscribe(1, "once:k")
    let first = try begin(ttl: 100_000)
    desk.at(60_000)
    #expect(throws: EngineError.leaseNeedsGeneration) { try desk.done("k", "late") }
    #expect(throws: EngineError.stale(now: Generation(first))) {
      try desk.done("k", "late", first + 1)
    }
    #expect(try !desk.cancel(once: "k", first), "there is nothing to cancel")
    let done = try desk.done("k", "late", first)
    #expect(done.isAccepted && done.view.remainingMS == 40_000)
    #expect(try desk.begin("k").view.result == Array("late".utf8))
    desk.at(100_000)
    desk.expectEmpty()
    desk.hears(
      1, "0 k snapshot idle", "0 k started running", "30000 k expired idle lease",
      "60000 k done done late", "60000 k refused done late duplicate", "100000 k expired idle")
  }

  @Test func aLateResultIsRefusedOnceTTLIsOverOrTheSuccessorHasCancelled() throws {
    let first = try begin(ttl: 40_000)
    desk.at(39_999)
    let second = try begin(ttl: 40_000)
    #expect(try desk.cancel(once: "k", second))
    #expect(throws: EngineError.notFound) { try desk.done("k", "late", first) }
    _ = try begin(ttl: 40_000)
    desk.at(79_999)
    desk.expectEmpty()
    #expect(throws: EngineError.notFound) { try desk.done("k", "late", first) }
  }

  @Test func withALeaseDONEAndCANCELNeedTheGenerationAlsoAfterDONE() throws {
    let first = try begin()
    #expect(throws: EngineError.leaseNeedsGeneration) { try desk.done("k", "r") }
    #expect(throws: EngineError.leaseNeedsGeneration) { try desk.cancel(once: "k") }
    #expect(try desk.done("k", "r", first).isAccepted)
    #expect(throws: EngineError.leaseNeedsGeneration) { try desk.done("k", "r") }
    #expect(throws: EngineError.leaseNeedsGeneration) { try desk.cancel(once: "k") }
    #expect(try !desk.extend("k", first).isAccepted, "it is done")
    #expect(try desk.cancel(once: "k", first))
    desk.expectEmpty()
  }

  @Test func withoutALeaseNothingChangesAndThereIsNothingToExtend() throws {
    let first = try desk.begin("k", ttl: 60_000).view
    #expect(first.leaseMS == nil)
    #expect(throws: EngineError.noLease) { try desk.extend("k", first.generation.value) }
    #expect(throws: EngineError.notFound) { try desk.extend("other", 1) }
    desk.at(59_999)
    #expect(try !desk.begin("k").isAccepted)
    #expect(try desk.done("k", "r").isAccepted)
    #expect(try desk.cancel(once: "k"))
  }

  @Test func aLeaseIsOverWithTTLAtTheLatest() throws {
    desk.subscribe(1, "once:k")
    let first = try begin(ttl: 30_000)
    desk.at(10_000)
    try desk.extend("k", first)
    desk.at(30_000)
    desk.hears(1, "0 k snapshot idle", "0 k started running", "30000 k expired idle")
    desk.unsubscribe(1, "once:k")
    desk.expectEmpty()
  }

  @Test func afterASuspendALeaseThatIsOverIsReportedLateAndOnce() throws {
    desk.subscribe(1, "once:k")
    _ = try begin()
    desk.late(at: 8 * 3_600_000)
    let late = desk.takeEvents(1).last?.lateMicroseconds ?? 0
    let expected: Int64 = 28_770_000_000
    #expect(late == expected)
    _ = try begin("k")
    desk.unnoticed(at: 90 * 3_600_000)
    #expect(try desk.begin("k").isAccepted)
    desk.hears(
      1, "0 k snapshot idle", "0 k started running", "28800000 k expired idle lease",
      "28800000 k started running", "324000000 k expired idle lease",
      "324000000 k started running")
  }

  @Test func theOwnersEndComesBeforeTheLeaseAndItsWorkIsNotDoneLate() throws {
    desk.connect(2)
    let (_, view) = try desk.begin("k", lease: 30_000, owner: .connection(2))
    desk.disconnect(2)
    #expect(desk.once("k") == nil)
    #expect(throws: EngineError.notFound) { try desk.done("k", "r", view.generation.value) }
    desk.advance()
    desk.expectEmpty()
  }

  @Test(arguments: [10_000, 30_000, 45_000] as [Int64])
  func aLeaseSurvivesARestartWithItsTimesAndAlsoIfItIsOver(restart: Int64) throws {
    let first = try begin()
    let done = try begin("done")
    try desk.done("done", "r", done)
    desk.at(20_000)
    if restart < 20_000 { try desk.extend("k", first) }
    desk.at(max(restart, 20_000))
    let next = Desk()
    next.unnoticed(at: max(restart, 20_000))
    #expect(next.engine.restore(desk.engine.wholeState(), at: next.now)?.isEmpty == true)
    #expect(next.once("k") == desk.once("k"))
    #expect(throws: EngineError.leaseNeedsGeneration) { try next.cancel(once: "done") }
    next.unnoticed(at: 60_000)
    #expect(try next.done("k", "late", first).isAccepted)
    #expect(try next.begin("k").view.result == Array("late".utf8))
  }
}

/// ONCE with FINGERPRINT.
@Suite struct OnceFingerprintTests {
  let desk = Desk()
  let counter = DispatcherHarness()

  /// idempotency4j-12: another request with the same key got the first one's result.
  @Test func anotherRequestWithTheSameKeyIsAMismatchAlsoWhileTheFirstRuns() throws {
    desk.subscribe(1, "once:k")
    try desk.begin("k", about: "10 EUR")
    #expect(try !desk.begin("k", about: "20 EUR").isAccepted)
    #expect(try !desk.begin("k", about: "10 EUR").isAccepted)
    try desk.done("k", "paid")
    #expect(try desk.begin("k", about: "20 EUR").view.result == nil)
    #expect(try desk.begin("k", about: "10 EUR").view.result == Array("paid".utf8))
    desk.hears(
      1, "0 k snapshot idle", "0 k started running", "0 k refused running mismatch",
      "0 k refused running duplicate", "0 k done done paid", "0 k refused done paid mismatch",
      "0 k refused done paid duplicate")
    desk.at(60_000)
    #expect(try desk.begin("k", about: "20 EUR").isAccepted)
  }

  @Test func aRequestWithoutAFingerprintIsLikeAnyOther() throws {
    #expect(try counter.say("ONCE BEGIN a TTL 1m FINGERPRINT x")["accepted"] == .integer(1))
    #expect(try counter.say("ONCE BEGIN a TTL 1m")["reason"] == .bulk("duplicate"))
    #expect(try counter.say("ONCE BEGIN b TTL 1m")["accepted"] == .integer(1))
    #expect(try counter.say("ONCE BEGIN b TTL 1m FINGERPRINT x")["reason"] == .bulk("duplicate"))
    #expect(try counter.say("ONCE BEGIN c TTL 1m FINGERPRINT z")["accepted"] == .integer(1))
    #expect(try counter.say("ONCE BEGIN c TTL 1m FINGERPRINT x")["reason"] == .bulk("mismatch"))
  }

  @Test func theTokenOfAnotherRequestIsAMismatchThatOfAnEarlierOneIsRepeated() throws {
    let first = try counter.say("ONCE BEGIN k TTL 1m FINGERPRINT x TOKEN t")
    let other = try counter.say("ONCE BEGIN k TTL 1m FINGERPRINT y TOKEN t")
    #expect(other["reason"] == .bulk("mismatch"))
    #expect(try counter.say("ONCE BEGIN k TTL 1m TOKEN t")["reason"] == .bulk("repeated"))
    counter.pass(60_000)
    #expect(try counter.say("ONCE BEGIN k TTL 1m FINGERPRINT y")["reason"] == .null)
    let late = try counter.say("ONCE BEGIN k TTL 1m FINGERPRINT x TOKEN t")
    #expect(late["reason"] == .bulk("repeated") && late["generation"] == first["generation"])
  }

  @Test func afterALeaseATokenAndAnotherFingerprintBeginAgain() throws {
    let first = try counter.say("ONCE BEGIN k TTL 1h LEASE 1s FINGERPRINT x TOKEN t")
    counter.pass(1_000)
    let again = try counter.say("ONCE BEGIN k TTL 1h LEASE 1s FINGERPRINT x TOKEN t")
    #expect(again["reason"] == .null && again["generation"] != first["generation"])
    counter.pass(1_000)
    #expect(try counter.say("ONCE BEGIN k TTL 1h FINGERPRINT y")["reason"] == .null)
  }

  @Test func theOptionsSayWhatIsWrongWithThemAndLogsHideTheFingerprint() throws {
    let monitor = counter.open()
    _ = try counter.frames(["MONITOR"], by: monitor)
    try counter.expectError("ONCE BEGIN k TTL 1s LEASE 2s", "ERR LEASE is at most TTL", "usage:")
    try counter.expectError("ONCE BEGIN k TTL 1s LEASE 0", "ERR LEASE is at least 1ms", "usage:")
    try counter.expectError("ONCE EXTEND k LEASE 1s", "ERR GENERATION is needed", "usage:")
    #expect(try counter.say("ONCE BEGIN k TTL 1s FINGERPRINT secret")["accepted"] == .integer(1))
    guard case .integer(let number) = try counter.say("ONCE GET k")["generation"] else {
      Issue.record("no generation")
      return
    }
    try counter.expectError(
      "ONCE EXTEND k GENERATION \(number)", "ERR 'k' was begun without LEASE", "ONCE BEGIN it")
    let shown = try counter.take(monitor).map(\.text)
    #expect(!shown.contains { $0.contains("secret") })
  }
}
