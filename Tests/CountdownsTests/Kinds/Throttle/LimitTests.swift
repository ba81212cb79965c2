import Testing

@testable import Countdowns

/// Named limits on the wire: TAKE of several, START and RESEND under a policy with limits.
@Suite struct LimitTests {
  let counter: DispatcherHarness

  private static func settings() throws -> EngineSettings {
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(60))
    var range = LimitRules.Rules()
    range.windows = [.init(limit: 3, length: .seconds(600))]
    range.droppedSuffixLength = 2
    range.passed = .init(least: 50, of: 2, within: .seconds(3_600), block: .seconds(1_800))
    var all = LimitRules.Rules()
    all.rate = Throttle.Rate(burst: 5, count: 5, period: .days(1))
    all.isGlobal = true
    var phone = SendPolicy.Rules()
    phone.ladder = [.seconds(30)]
    phone.validity = .seconds(300)
    phone.attempts = 2
    phone.lockout = [.seconds(300), .seconds(1_200)]
    phone.limits = ["ip", "range", "all"]
    var settings = EngineSettings()
    settings.throttles = [
      "ip": try LimitRules(ip), "range": try LimitRules(range), "all": try LimitRules(all),
    ]
    settings.policies = ["phone": try SendPolicy(name: "phone", phone)]
    return settings
  }

  init() throws { counter = DispatcherHarness(engine: try Self.settings()) }

  private func start(_ key: String, _ ip: String = "1") throws -> Reply {
    try counter.say("COUNTDOWN START \(key) POLICY phone LIMIT ip:\(ip)")
  }

  /// Returns the answer as a line: `accepted`, `limit ip:1 60000`.
  private func line(_ reply: Reply) -> String {
    guard reply["accepted"] == .integer(0) else { return "accepted" }
    return "\(reply["reason"]!.text) \(reply["limit"]!.text) \(reply["retry_after_ms"]!.text)"
  }

  private func left(_ key: String) throws -> String {
    try counter.say("THROTTLE GET \(key)")["remaining"]?.text ?? "unused"
  }

  // MARK: TAKE

  @Test func takesFromAllLimitsOrFromNone() throws {
    let taken = try counter.say("THROTTLE TAKE ip:1 all: COST 2")
    #expect(taken["accepted"] == .integer(1) && taken["reason"] == .null)
    #expect(taken["refused_by"] == .null && taken["retry_after_ms"] == .integer(0))
    #expect(taken["views"]!.elements.map { $0["key"]!.text } == ["ip:1", "all:"])
    #expect(taken["views"]!.elements.map { $0["remaining"]!.text } == ["0", "3"])
    let refused = try counter.say("THROTTLE TAKE all: ip:1")
    #expect(refused["accepted"] == .integer(0) && refused["reason"] == .bulk("limit"))
    #expect(refused["refused_by"] == .bulk("ip:1"))
    #expect(refused["retry_after_ms"] == .integer(60_000))
    #expect(try left("all:") == "3")
    counter.pass(60_000)
    #expect(try counter.say("THROTTLE TAKE all: ip:1 PEEK")["accepted"] == .integer(1))
    #expect(try counter.say("THROTTLE TAKE all: ip:1")["accepted"] == .integer(1))
  }

  @Test func aRepetitionWithItsTokenTakesNothing() throws {
    _ = try counter.say("THROTTLE TAKE ip:1 all: TOKEN t")
    let again = try counter.say("THROTTLE TAKE ip:1 all: TOKEN t")
    #expect(again["accepted"] == .integer(1) && again["reason"] == .bulk("repeated"))
    #expect(try left("ip:1") == "1" && left("all:") == "4")
  }

  @Test func aTokenBelongsToItsWholeRequest() throws {
    let first = try counter.say("THROTTLE TAKE ip:1 TOKEN t")
    for other in ["ip:1 all: TOKEN t", "all: ip:1 TOKEN t", "ip:1 COST 2 TOKEN t"] {
      try counter.expectError("THROTTLE TAKE \(other)", "another request", "a token of its own")
    }
    #expect(try left("all:") == "unused" && left("ip:1") == "1")
    // Of each command and key, it is another token.
    #expect(try counter.say("THROTTLE TAKE all: TOKEN t")["reason"] == .null)
    #expect(try counter.say("THROTTLE REFUND ip:1 1 TOKEN t")["reason"] == .null)
    try counter.expectError("THROTTLE REFUND ip:1 2 TOKEN t", "another COST or amount")
    #expect(try counter.say("THROTTLE REFUND ip:1 1 TOKEN t")["reason"] == .bulk("repeated"))
    // The first time is over, and another one has begun.
    let second = try counter.say("THROTTLE TAKE ip:1")["views"]!.elements[0]["generation"]!
    let again = try counter.say("THROTTLE TAKE ip:1 TOKEN t")
    #expect(again["reason"] == .bulk("repeated"))
    #expect(again["views"]!.elements[0]["generation"] != second)
    #expect(
      again["views"]!.elements[0]["generation"] == first["views"]!.elements[0]["generation"])
    // A limit without a name does the same.
    _ = try counter.say("THROTTLE TAKE k BURST 5 RATE 1/1s TOKEN t")
    try counter.expectError("THROTTLE TAKE k BURST 5 RATE 1/1s COST 2 TOKEN t", "another request")
  }

  @Test func theOrderOfLimitsIsNoOtherRequest() throws {
    _ = try counter.say("THROTTLE TAKE ip:1 all: TOKEN t")
    #expect(try counter.say("THROTTLE TAKE all: ip:1 TOKEN t")["reason"] == .bulk("repeated"))
    #expect(try left("ip:1") == "1" && left("all:") == "4")
  }

  // MARK: REFUND by an id

  /// Returns a daemon whose limit `w` has these windows.
  private func counter(windows: [SendPolicy.Window], rate: Throttle.Rate? = nil) throws
    -> DispatcherHarness
  {
    var rules = LimitRules.Rules()
    (rules.windows, rules.rate) = (windows, rate)
    var settings = try Self.settings()
    settings.throttles["w"] = try LimitRules(rules)
    return DispatcherHarness(engine: settings)
  }

  /// Takes from `w:1`, and returns the id.
  private func take(_ counter: DispatcherHarness, _ cost: Int = 1) throws -> String {
    let taken = try counter.say("THROTTLE TAKE w:1 COST \(cost)")
    #expect(taken["accepted"] == .integer(1))
    return try #require(taken["views"]!.elements[0]["id"]).text
  }

  /// express-rate-limit-647: what was given back late made room in a window that it had left
  @Test func aRefundNamesItsTake() throws {
    let counter = try counter(windows: [.init(limit: 2, length: .seconds(10))])
    let first = try take(counter)
    counter.pass(9_000)
    _ = try take(counter)
    counter.pass(1_500)
    let refund = try counter.say("THROTTLE REFUND w:1 1 ID \(first)")
    #expect(refund["accepted"] == .integer(1) && refund["reason"] == .bulk("repeated"))
    #expect(refund["remaining"] == .integer(1))
    _ = try take(counter)
    #expect(try counter.say("THROTTLE TAKE w:1")["accepted"] == .integer(0))
    // Without an id it is the newest.
    #expect(try counter.say("THROTTLE REFUND w:1 1")["reason"] == .null)
    _ = try take(counter)
  }

  @Test func eachWindowGivesBackWhatHasNotLeftIt() throws {
    let counter = try counter(windows: [
      .init(limit: 2, length: .seconds(10)), .init(limit: 3, length: .seconds(3_600)),
    ])
    let first = try take(counter)
    counter.pass(9_000)
    _ = try take(counter)
    counter.pass(1_500)
    _ = try take(counter)
    func limits() throws -> [String] {
      try counter.say("THROTTLE WHY w:1")["limits"]!.elements.map { String($0.text.prefix(6)) }
    }
    #expect(try limits() == ["2 of 2", "3 of 3"])
    #expect(try counter.say("THROTTLE REFUND w:1 1 ID \(first)")["reason"] == .null)
    #expect(try limits() == ["2 of 2", "2 of 3"])
  }

  @Test func whatARateHasBackIsNotGivenBackAgain() throws {
    let counter = try counter(
      windows: [.init(limit: 9, length: .days(1))],
      rate: Throttle.Rate(burst: 4, count: 1, period: .seconds(10)))
    let first = try take(counter, 2)
    counter.pass(15_000)
    _ = try take(counter, 2)
    // Half of one is left of the first, and as much of the second is back.
    let refund = try counter.say("THROTTLE REFUND w:1 2 ID \(first)")
    #expect(refund["reset_after_ms"] == .integer(86_400_000))
    #expect(try counter.say("THROTTLE WHY w:1")["limits"]!.elements[0].text.hasPrefix("2 of 4"))
    #expect(try counter.say("THROTTLE WHY w:1")["limits"]!.elements[1].text.hasPrefix("2 of 9"))
  }

  @Test func aRefundOfAnIdIsAboutAllOfItHoweverOftenItIsAsked() throws {
    let windows = [SendPolicy.Window(limit: 10, length: .seconds(3_600))]
    var counter = try counter(windows: windows)
    let id = try take(counter, 5)
    _ = try take(counter, 2)
    func refund(_ n: Int, _ more: String = "") throws -> String {
      let reply = try counter.say("THROTTLE REFUND w:1 \(n) ID \(id)\(more)")
      return "\(reply["reason"]!.text) \(reply["remaining"]!.text)"
    }
    #expect(try refund(2, " TOKEN t") == "null 5")
    #expect(try refund(2, " TOKEN t") == "repeated 5" && refund(2) == "repeated 5")
    #expect(try refund(1) == "repeated 5")
    #expect(try refund(3) == "null 6")
    // It is stored with the sends.
    let engine = counter.dispatcher.engine
    let state = try #require(WholeState(bytes: engine.wholeState().bytes(offset: 3), offset: 3))
    let restarted = try self.counter(windows: windows)
    restarted.host.now = counter.host.now
    #expect(restarted.dispatcher.engine.restore(state, at: counter.host.now)?.isEmpty == true)
    counter = restarted
    #expect(try refund(3) == "repeated 6")
    #expect(try refund(100) == "null 8" && refund(100) == "repeated 8")
    try counter.expectError("THROTTLE REFUND w:1 2 ID 999 TOKEN t", "another request")
  }

  @Test func withoutARecordOfEachTakeThereIsNothingToName() throws {
    let views = try counter.say("THROTTLE TAKE ip:1 range:4 TOKEN t")["views"]!.elements
    #expect(views[0]["id"] == nil && views[1]["id"] != nil)
    let again = try counter.say("THROTTLE TAKE ip:1 range:4 TOKEN t")["views"]!.elements
    #expect(again[0]["id"] == nil && again[1]["id"] == views[1]["id"])
    #expect(try counter.say("THROTTLE TAKE range:4 PEEK")["views"]!.elements[0]["id"] == nil)
    #expect(try counter.say("THROTTLE GET range:4")["id"] == nil)
    _ = try counter.say("THROTTLE TAKE k BURST 5 RATE 1/1s")
    for key in ["ip:1", "k", "nothing"] {
      try counter.expectError("THROTTLE REFUND \(key) 1 ID 7", "'\(key)' has no windows", "TOKEN")
    }
    #expect(try counter.say("THROTTLE REFUND range:5 1 ID 7") == .null)
  }

  // MARK: One key

  @Test func aGlobalLimitHasOneKey() throws {
    for other in ["all:x", "all::", "ip:1 all:x", "all:x BURST 5 RATE 1/1s PEEK"] {
      let problem = other.contains("BURST") ? "leave them out" : "one key for all, 'all:', so not"
      try counter.expectError("THROTTLE TAKE \(other)", problem)
    }
    #expect(try counter.say("THROTTLE WHY all:x") == .null)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func storedLimitsWithOtherKeysOfAGlobalOneAreDropped() throws {
    var keyed = LimitRules.Rules()
    keyed.windows = [.init(limit: 3, length: .seconds(600))]
    var settings = try Self.settings()
    settings.throttles["all"] = try LimitRules(keyed)
    let old = DispatcherHarness(engine: settings)
    for key in ["all:", "all:x", "all:y", "ip:1"] { _ = try old.say("THROTTLE TAKE \(key)") }
    let batch = old.dispatcher.engine.wholeState()
    let now = counter.host.now
    counter.dispatcher.engine.noteChanges()
    #expect(counter.dispatcher.engine.restore(batch, at: now)?.isEmpty == true)
    #expect(try counter.say("DBSIZE") == .integer(2))
    #expect(counter.host.notices == ["dropped all 2"])
    // They are removed from the store, too: two limits, each with a page of sends.
    let changes = ChangeWriter(offset: 0)
    counter.dispatcher.engine.takeChanges(into: changes)
    var gone = 0
    _ = ChangeEntry.forEach(of: changes.bytes[...]) { entry in
      if case .gone(.throttle, _) = entry { gone += 1 }
    }
    #expect(gone == 4)
  }

  // MARK: Other rules

  @Test(arguments: [(1_000, 3_600_000), (3_600_000, 1_000)])
  func afterAReloadWhatWasUsedComesBackAtTheNewRate(before: Int64, after: Int64) throws {
    func settings(_ period: Int64) throws -> EngineSettings {
      var rules = LimitRules.Rules()
      rules.rate = Throttle.Rate(burst: 5, count: 5, period: .milliseconds(period))
      var settings = try Self.settings()
      settings.throttles["ip"] = try LimitRules(rules)
      return settings
    }
    let counter = DispatcherHarness(engine: try settings(before))
    func wait(_ command: String) throws -> Int64? {
      let reply = try counter.say("THROTTLE \(command) ip:1")
      guard case .integer(let wait)? = reply["retry_after_ms"] else { return nil }
      return wait
    }
    _ = try counter.say("THROTTLE TAKE ip:1 COST 5")
    counter.dispatcher.engine.reload(try settings(after), at: counter.host.now)
    let one = after / 5
    #expect(try wait("GET") == one && wait("TAKE") == one && wait("WHY") == one)
    counter.pass(one / 2)
    #expect(try wait("GET") == one - one / 2 && wait("TAKE") == one - one / 2)
    counter.pass(one - one / 2 - 1)
    #expect(try wait("TAKE") == 1)
    counter.pass(1)
    #expect(try counter.say("THROTTLE TAKE ip:1")["accepted"] == .integer(1))
    // The rules may have changed while no daemon ran.
    let next = DispatcherHarness(engine: try settings(before))
    next.host.now = counter.host.now
    _ = next.dispatcher.engine.restore(
      counter.dispatcher.engine.wholeState(), at: counter.host.now)
    let full = try next.say("THROTTLE TAKE ip:1")
    #expect(full["retry_after_ms"] == .integer(before / 5))
    next.pass(before / 5)
    #expect(try next.say("THROTTLE TAKE ip:1")["accepted"] == .integer(1))
  }

  @Test func aReloadReachesLimitsThatNobodyAsks() throws {
    var settings = try Self.settings()
    _ = try counter.say("THROTTLE TAKE ip:1 COST 2")
    _ = try counter.say("THROTTLE TAKE ip:2 COST 2")
    var rules = LimitRules.Rules()
    rules.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(1))
    settings.throttles["ip"] = try LimitRules(rules)
    counter.dispatcher.engine.reload(settings, at: counter.host.now)
    var slices = 1
    while !counter.dispatcher.engine.advance(to: counter.host.now, budget: 1) { slices += 1 }
    #expect(slices > 1)
    counter.pass(2_000)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func aViewOfACountdownKnowsTheRulesOfAReload() throws {
    _ = try start("4511")
    _ = try start("4512")
    var rules = LimitRules.Rules()
    rules.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(200))
    var settings = try Self.settings()
    settings.throttles["ip"] = try LimitRules(rules)
    counter.dispatcher.engine.reload(settings, at: counter.host.now)
    // Before any slice of the reload.
    let now = counter.host.now
    counter.host.now = Moment(boot: now.boot + .seconds(1), wall: now.wall + .seconds(1))
    #expect(try counter.say("COUNTDOWN GET 4511")["retry_after_ms"] == .integer(199_000))
  }

  @Test func badRequestsSayWhatToDoAndChangeNothing() throws {
    try counter.expectError("THROTTLE TAKE ipp:1", "no limit for 'ipp:1'", "did you mean 'ip'?")
    try counter.expectError("THROTTLE TAKE k", "no limit for 'k'", "needs BURST and RATE")
    try counter.expectError("THROTTLE TAKE ip:1 ip:1", "'ip:1' is given twice")
    try counter.expectError("THROTTLE TAKE ip:1 BURST 9 RATE 1/1s", "leave them out")
    try counter.expectError("THROTTLE TAKE ip:1 range:4 COST 4", "COST is more than 2", "'ip'")
    try counter.expectError("THROTTLE TAKE ip:1 PEEK TOKEN t", "leave out TOKEN")
    let long = String(repeating: "x", count: 600)
    try counter.expectError("THROTTLE TAKE ip:\(long)", "1 to 512 bytes")
    try counter.expectError("COUNTDOWN START k LIMIT ip:1", "LIMIT needs a POLICY")
    try counter.expectError("COUNTDOWN START k POLICY phone", "needs a key", "LIMIT ip:KEY")
    try counter.expectError(
      "COUNTDOWN START k POLICY phone LIMIT ip:1 ip:2", "the limit 'ip' is given twice")
    try counter.expectError(
      "COUNTDOWN START k POLICY phone LIMIT ip:1 LIMIT user:1", "has no limit for 'user:1'")
    try counter.expectError(
      "COUNTDOWN START k POLICY phone LIMIT ip:1 range:4", "takes its key from the countdown's")
    try counter.expectError(
      "COUNTDOWN START k POLICY phone LIMIT ip:1 all:", "has one key for all")
    try counter.expectError(
      "COUNTDOWN START k POLICY phone LIMIT ip:\(long)", "key of a limit has 1 to 512 bytes")
    let key = String(repeating: "k", count: 512)
    try counter.expectError(
      "COUNTDOWN START \(key) POLICY phone LIMIT ip:1", "'range' has 1 to 512 bytes, this one 516")
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func whyNamesEachLimitAndWhenItHasRoom() throws {
    _ = try counter.say("THROTTLE TAKE ip:1 COST 2")
    let why = try counter.say("THROTTLE WHY ip:1")
    #expect(why["why"] == .bulk("refused: full; room in 60 s"))
    #expect(why["reason"] == .bulk("limit") && why["state"] == .bulk("exhausted"))
    let limits = why["limits"]!.elements.map(\.text)
    #expect(limits == ["2 of 2 used; 1 come back in 60 s; room in 60 s"])
    #expect(try counter.say("THROTTLE WHY ip:2")["why"] == .bulk("idle: nothing is used"))
    #expect(try counter.say("THROTTLE WHY nothing") == .null)
    _ = try counter.say("THROTTLE TAKE plain BURST 1 RATE 1/1s")
    #expect(
      try counter.say("THROTTLE WHY plain")["why"]
        == .bulk("refused: exhausted; one comes back in 1 s"))
  }

  // MARK: START

  @Test func startIsAcceptedOnlyIfItsPolicyAndAllLimitsAccept() throws {
    #expect(line(try start("4511")) == "accepted")
    #expect(line(try start("4512")) == "accepted")
    // The address is full, and nothing of the others is charged.
    #expect(line(try start("4513")) == "limit ip:1 60000")
    #expect(try left("range:45") == "1" && left("all:") == "3")
    #expect(try counter.say("COUNTDOWN GET 4513") == .null)
    #expect(line(try start("4513", "2")) == "accepted")
    #expect(line(try start("4514", "2")) == "limit range:45 600000")
    // The cooldown ends before the limits do.
    #expect(line(try start("4511", "2")) == "limit range:45 600000")
    let why = try counter.say("COUNTDOWN WHY 4511")
    #expect(why["limits"]!.elements.map(\.text).contains("range:45: 3 of 3 in 10 m; room in 10 m"))
    #expect(why["reason"] == .bulk("limit"))
  }

  @Test func aRefundGivesBackEverywhereACancelNowhere() throws {
    let first = try start("4511")["generation"]!.text
    _ = try counter.say("COUNTDOWN REFUND 4511 GENERATION \(first)")
    #expect(try left("ip:1") == "unused" && left("range:45") == "unused")
    _ = try start("4511")
    _ = try counter.say("COUNTDOWN CANCEL 4511")
    #expect(try left("ip:1") == "1" && left("range:45") == "2" && left("all:") == "4")
  }

  @Test func aRepeatedStartChargesNothing() throws {
    for reason in [Reply.null, .bulk("repeated")] {
      let view = try counter.say("COUNTDOWN START 4511 POLICY phone LIMIT ip:1 TOKEN t")
      #expect(view["accepted"] == .integer(1) && view["reason"] == reason)
    }
    #expect(try left("ip:1") == "1")
  }

  @Test func resendUsesTheLimitsOfTheLastStartOrItsOwn() throws {
    _ = try start("4511")
    counter.pass(30_000)
    #expect(line(try counter.say("COUNTDOWN RESEND 4511")) == "accepted")
    #expect(try left("ip:1") == "0")
    counter.pass(30_000)
    #expect(line(try counter.say("COUNTDOWN RESEND 4511 LIMIT ip:9")) == "accepted")
    #expect(try left("ip:9") == "1")
    try counter.expectError("COUNTDOWN RESEND 4511 LIMIT user:9", "has no limit for 'user:9'")
  }

  @Test func aCountdownIsReadyOnlyWhenItsLimitsHaveRoom() throws {
    let listener = counter.open()
    counter.run(["PSUBSCRIBE", "countdown:*"], by: listener)
    _ = try start("4511")
    counter.pass(10_000)
    _ = try start("4512")
    _ = try counter.take(listener)
    // The first is due after 30 s. The address has room after 60 s, for which the second waits,
    // and again after 120 s.
    counter.pass(20_000)
    let text =
      try counter.take(listener).map { $0.elements.last?.text ?? "" }
      .first { $0.contains("retimed") } ?? ""
    #expect(text.contains(#""reason":"limit""#) && text.contains(#""limit":"ip:1""#))
    #expect(try counter.say("COUNTDOWN GET 4511")["remaining_ms"] == .integer(90_000))
    #expect(try counter.say("COUNTDOWN GET 4511")["retry_after_ms"] == .integer(30_000))
    counter.pass(30_000)
    #expect(try counter.say("COUNTDOWN GET 4512")["state"] == .bulk("ready"))
    #expect(line(try counter.say("COUNTDOWN RESEND 4512")) == "accepted")
  }

  /// Makes a key wait for its address, whose cooldown is over after 30 s. There is room after 60 s.
  /// Returns the send that took the room.
  private func wait() throws -> String {
    let other = try start("4512")
    _ = try start("4511")
    counter.pass(20_000)
    return "COUNTDOWN REFUND 4512 GENERATION \(other["generation"]!.text)"
  }

  @Test(arguments: [["RESUME"], ["PAUSE", "RESUME"], ["PAUSE", "PAUSE", "RESUME", "RESUME"]])
  func resumeMakesNoCooldownOfTheWaitForALimit(_ commands: [String]) throws {
    let refund = try wait()
    for command in commands {
      let view = try counter.say("COUNTDOWN \(command) 4511")
      #expect(
        view["remaining_ms"] == .integer(40_000) && view["retry_after_ms"] == .integer(40_000))
    }
    // The cooldown has 10 s left, and there is room again.
    _ = try counter.say(refund)
    let refused = try counter.say("COUNTDOWN RESEND 4511")
    #expect(refused["reason"] == .bulk("cooldown"))
    #expect(refused["retry_after_ms"] == .integer(10_000))
    #expect(
      try counter.say("COUNTDOWN WHY 4511")["why"]
        == .bulk("refused: in cooldown after send 1; 10 s of 30 s left"))
    counter.pass(10_000)
    #expect(
      try counter.say("COUNTDOWN WHY 4511")["why"]
        == .bulk("counting: its limits have room again; START is accepted"))
    #expect(line(try counter.say("COUNTDOWN RESEND 4511")) == "accepted")
  }

  @Test func aPauseStopsTheCooldownButNotTheTimeOfLimits() throws {
    _ = try wait()
    _ = try counter.say("COUNTDOWN PAUSE 4511")
    let engine = counter.dispatcher.engine
    let state = try #require(WholeState(bytes: engine.wholeState().bytes(offset: 5), offset: 5))
    let restarted = DispatcherHarness(engine: try Self.settings())
    restarted.host.now = counter.host.now
    #expect(restarted.dispatcher.engine.restore(state, at: counter.host.now)?.isEmpty == true)
    for counter in [counter, restarted] {
      counter.pass(35_000)
      let refused = try counter.say("COUNTDOWN RESEND 4511")
      #expect(refused["reason"] == .bulk("cooldown") && refused["state"] == .bulk("paused"))
      #expect(refused["retry_after_ms"] == .integer(10_000))
      #expect(refused["remaining_ms"] == .integer(40_000))
      // One place has come back after 60 s, so only the cooldown is left.
      #expect(try counter.say("COUNTDOWN RESUME 4511")["remaining_ms"] == .integer(10_000))
      counter.pass(10_000)
      #expect(try counter.say("COUNTDOWN GET 4511")["state"] == .bulk("ready"))
    }
  }

  @Test func resumeOfACancelledCountdownThatHadWaitedIsRefused() throws {
    _ = try wait()
    _ = try counter.say("COUNTDOWN PAUSE 4511")
    _ = try counter.say("COUNTDOWN CANCEL 4511")
    try counter.expectError("COUNTDOWN RESUME 4511", "not counting")
    #expect(try counter.say("COUNTDOWN GET 4511")["state"] == .bulk("idle"))
  }

  /// Nothing is kept once it is ready, and it is ready at once.
  @Test func resumeOfWhatIsForgottenAtOnceIsAnswered() throws {
    var settings = try Self.settings()
    settings.keepReady = .zero
    let counter = DispatcherHarness(engine: settings)
    for key in ["4512", "4511"] {
      _ = try counter.say("COUNTDOWN START \(key) POLICY phone LIMIT ip:1")
    }
    counter.pass(35_000)
    _ = try counter.say("COUNTDOWN PAUSE 4511")
    counter.pass(172_800_000)
    #expect(try counter.say("COUNTDOWN RESUME 4511")["key"] == .bulk("4511"))
    #expect(try counter.say("COUNTDOWN GET 4511") == .null)
  }

  @Test func thoseWhoWaitForOneLimitAreReadyOneAfterTheOther() throws {
    let counter = DispatcherHarness(engine: try Self.settings())
    // Five keys of five ranges; then all is used by somebody else.
    for key in 0..<5 {
      _ = try counter.say("COUNTDOWN START \(key)00 POLICY phone LIMIT ip:\(key)")
    }
    counter.pass(30_000)
    let waits = try (0..<5).map {
      Int(try counter.say("COUNTDOWN GET \($0)00")["remaining_ms"]!.text)!
    }
    // One comes back each 4.8 hours, the fifth when nothing is used any more.
    let room = 86_400_000 / 5
    #expect(waits.sorted() == (1...5).map { $0 * room - 30_000 })
    // That spreads `ready` only: whoever asks first gets the first room.
    counter.pass(Int64(room) - 30_000)
    let last = waits.firstIndex(of: waits.max()!)!
    #expect(line(try counter.say("COUNTDOWN RESEND \(last)00")) == "accepted")
  }

  // MARK: passed

  @Test func aRangeWhoseCodesNobodyEntersIsBlockedForAWhile() throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "throttle:range:45"], by: listener)
    _ = try start("4511", "1")
    _ = try start("4512", "2")
    _ = try counter.take(listener)
    counter.pass(300_000)
    let events = try counter.take(listener).map { $0.elements.last?.text ?? "" }
    #expect(events.contains { $0.contains(#""event":"blocked""#) && $0.contains("\"passed\"") })
    #expect(line(try start("4513", "3")) == "blocked range:45 1800000")
    #expect(line(try start("4611", "3")) == "accepted")
    #expect(counter.host.notices == ["blocked range:45 0 of 2"])
    counter.pass(1_800_000)
    #expect(line(try start("4513", "4")) == "accepted")
    // Counting starts over: one that is not entered is too few to judge.
    counter.pass(300_000)
    #expect(line(try start("4514", "5")) == "accepted")
  }

  @Test func enteredCodesKeepARangeOpenAndUnblockOpensIt() throws {
    for key in ["4511", "4512"] {
      _ = try start(key, key)
      _ = try counter.say("COUNTDOWN PASS \(key)")
    }
    #expect(line(try start("4513", "3")) == "accepted")
    counter.pass(600_000)
    for key in ["4611", "4612"] { _ = try start(key, key) }
    counter.pass(300_000)
    let peeked = try counter.say("THROTTLE TAKE range:46 PEEK")
    #expect(peeked["reason"] == .bulk("blocked") && peeked["refused_by"] == .bulk("range:46"))
    #expect(peeked["retry_after_ms"] == .integer(1_800_000))
    #expect(try counter.say("THROTTLE GET range:46")["state"] == .bulk("blocked"))
    let view = try counter.say("THROTTLE UNBLOCK range:46")
    #expect(view["accepted"] == .integer(1) && view["state"] == .bulk("available"))
    #expect(try counter.say("THROTTLE UNBLOCK range:46")["reason"] == .bulk("repeated"))
    #expect(try counter.say("THROTTLE UNBLOCK range:99") == .null)
  }

  /// Returns a policy whose limit `strict` looks at the newest code only.
  private static func strict(_ onResend: SendPolicy.OnResend) throws -> EngineSettings {
    var settings = try settings()
    var strict = LimitRules.Rules()
    strict.windows = [.init(limit: 9, length: .seconds(600))]
    strict.isGlobal = true
    strict.passed = .init(least: 100, of: 1, within: .seconds(600), block: .seconds(1_800))
    settings.throttles["strict"] = try LimitRules(strict)
    var rules = settings.policies["phone"]!.rules
    (rules.limits, rules.onResend) = (["strict"], onResend)
    settings.policies["phone"] = try SendPolicy(name: "phone", rules)
    return settings
  }

  @Test func anEnteredCodeCountsBeforeThoseThatItReplaces() throws {
    let counter = DispatcherHarness(engine: try Self.strict(.keep))
    for _ in 0..<3 {
      _ = try counter.say("COUNTDOWN START 4511 POLICY phone")
      counter.pass(30_000)
    }
    #expect(try counter.say("COUNTDOWN PASS 4511")["reason"] == .null)
    #expect(counter.host.notices == [])
    #expect(line(try counter.say("COUNTDOWN START 4511 POLICY phone")) == "accepted")
  }

  @Test func aStartThatBlocksItsLimitSaysHowLong() throws {
    let counter = DispatcherHarness(engine: try Self.strict(.replace))
    _ = try counter.say("COUNTDOWN START 4511 POLICY phone")
    counter.pass(30_000)
    let second = try counter.say("COUNTDOWN START 4511 POLICY phone")
    #expect(second["accepted"] == .integer(1))
    #expect(counter.host.notices == ["blocked strict: 0 of 1"])
    #expect(second["retry_after_ms"] == .integer(1_800_000))
    #expect(second["remaining_ms"] == .integer(1_800_000))
  }

  @Test func cancelledAndRefundedSendsDoNotCountForPassed() throws {
    let first = try start("4511", "1")["generation"]!.text
    _ = try counter.say("COUNTDOWN REFUND 4511 GENERATION \(first)")
    _ = try start("4512", "2")
    _ = try counter.say("COUNTDOWN CANCEL 4512")
    _ = try start("4513", "3")
    counter.pass(300_000)
    #expect(line(try start("4514", "4")) == "accepted")
  }

  // MARK: Attempts

  /// Returns a counter with a policy whose attempts are limited for each address.
  private func counterOfAttempts(
    _ change: (inout SendPolicy.Rules) -> Void = { _ in }
  ) throws -> DispatcherHarness {
    var settings = try Self.settings()
    var login = SendPolicy.Rules()
    login.ladder = [.seconds(30)]
    login.validity = .seconds(300)
    login.attempts = 3
    login.attemptLimits = ["ip"]
    change(&login)
    settings.policies["login"] = try SendPolicy(name: "login", login)
    return DispatcherHarness(engine: settings)
  }

  /// devlaner-386: whoever knew an address locked its owner out
  @Test func theSourceOfAttemptsIsAskedBeforeTheAttemptsOfTheKey() throws {
    let counter = try counterOfAttempts()
    _ = try counter.say("COUNTDOWN START k POLICY login")
    for left in ["2", "1"] {
      let view = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")
      #expect(view["accepted"] == .integer(1) && view["attempts_left"]!.text == left)
    }
    let refused = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")
    #expect(line(refused) == "limit ip:1 60000" && refused["attempts_left"]!.text == "1")
    #expect(try counter.say("THROTTLE GET ip:1")["remaining"] == .integer(0))
    // Its owner, elsewhere, still has an attempt.
    #expect(try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:2")["attempts_left"]!.text == "0")
    // A refusal by the code charges the source nothing.
    #expect(try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:2")["reason"] == .bulk("locked"))
    #expect(try counter.say("THROTTLE GET ip:2")["remaining"] == .integer(1))
    counter.pass(60_000)
    #expect(try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")["reason"] == .bulk("locked"))
    // START is not charged to it.
    #expect(try counter.say("COUNTDOWN START k POLICY login")["limit"] == .null)
    #expect(try counter.say("THROTTLE GET ip:1")["remaining"] == .integer(1))
  }

  @Test func anAttemptWithoutItsLimitOrWithAnotherIsAnErrorThatSaysSo() throws {
    let counter = try counterOfAttempts()
    _ = try counter.say("COUNTDOWN START k POLICY login")
    try counter.expectError(
      "COUNTDOWN ATTEMPT k", "policy 'login' needs a key for its limit 'ip': LIMIT ip:KEY")
    try counter.expectError(
      "COUNTDOWN ATTEMPT k LIMIT ip:1 ap:2",
      "'login' has no limit for 'ap:2' in its attempt-limits",
      "did you mean 'ip'?")
    try counter.expectError("COUNTDOWN ATTEMPT k LIMIT ip:1 ip:2", "'ip' is given twice")
    #expect(try counter.say("COUNTDOWN GET k")["attempts_left"]!.text == "3")
    #expect(try counter.say("THROTTLE GET ip:1") == .null)
    // Limits of sends are no limits of attempts.
    _ = try counter.say("COUNTDOWN START 4511 POLICY phone LIMIT ip:3")
    try counter.expectError("COUNTDOWN ATTEMPT 4511 LIMIT ip:3", "it names none")
    #expect(try counter.say("COUNTDOWN ATTEMPT 4511")["accepted"] == .integer(1))
  }

  @Test func aRepeatedAttemptIsChargedOnceAndAnAttemptAtAllCodesTakesOne() throws {
    let counter = try counterOfAttempts()
    for _ in 0..<2 {
      _ = try counter.say("COUNTDOWN START k POLICY login")
      counter.pass(30_000)
    }
    for reason in [Reply.null, .bulk("repeated")] {
      let view = try counter.say("COUNTDOWN ATTEMPT k ANY LIMIT ip:1 TOKEN t")
      #expect(view["reason"] == reason && view["codes"]!.elements.count == 2)
      #expect(try counter.say("THROTTLE GET ip:1")["remaining"] == .integer(1))
    }
  }

  @Test func ofALimitAndTheGuessesWhatEndsLastRefuses() throws {
    let counter = try counterOfAttempts { $0.guesses = .init(limit: 2, length: .seconds(90)) }
    _ = try counter.say("COUNTDOWN START k POLICY login")
    for _ in 0..<2 { _ = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1") }
    let refused = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")
    #expect(refused["reason"] == .bulk("guesses"))
    #expect(refused["retry_after_ms"] == .integer(90_000))
    counter.pass(45_000)
    for _ in 0..<2 { _ = try counter.say("THROTTLE TAKE ip:2") }
    let other = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:2")
    #expect(line(other) == "limit ip:2 60000")
  }

  @Test func aKeyKeepsItsAttemptLimitsOverAReload() throws {
    let counter = try counterOfAttempts { $0.attemptLimits = [] }
    _ = try counter.say("COUNTDOWN START k POLICY login")
    var settings = counter.dispatcher.engine.settings
    var rules = settings.policies["login"]!.rules
    rules.attemptLimits = ["ip"]
    settings.policies["login"] = try SendPolicy(name: "login", rules)
    counter.dispatcher.engine.reload(settings, at: counter.host.now)
    // The service may name the limit already.
    #expect(try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")["accepted"] == .integer(1))
    #expect(try counter.say("COUNTDOWN ATTEMPT k")["accepted"] == .integer(1))
    #expect(try counter.say("THROTTLE GET ip:1") == .null)
    counter.pass(30_000)
    _ = try counter.say("COUNTDOWN START k POLICY login")
    try counter.expectError("COUNTDOWN ATTEMPT k", "LIMIT ip:KEY")
  }

  @Test func aShadowLearnsOfTheAttemptsAndOfTheirLimits() throws {
    let counter = try counterOfAttempts()
    var settings = counter.dispatcher.engine.settings
    var strict = settings.policies["login"]!.rules
    strict.guesses = .init(limit: 1, length: .days(1))
    settings.policies["strict"] = try SendPolicy(name: "strict", strict)
    settings.policies["login"] = try SendPolicy(
      name: "login", settings.policies["login"]!.rules, shadow: "strict")
    counter.dispatcher.engine.reload(settings, at: counter.host.now)
    _ = try counter.say("COUNTDOWN START k POLICY login")
    _ = try counter.say("COUNTDOWN ATTEMPT k LIMIT ip:1")
    counter.pass(30_000)
    _ = try counter.say("COUNTDOWN START k POLICY login")
    let shadow = try #require(counter.dispatcher.engine.shadow)
    #expect(shadow.counts["login"]?.onlyPolicy == 1)
    #expect(shadow.engine.throttle("ip:1".utf8.span, at: counter.host.now)?.remaining == 1)
  }

  // MARK: Lockout and FORGIVE

  private func lock(_ key: String) throws {
    for _ in 0..<2 { _ = try counter.say("COUNTDOWN ATTEMPT \(key)") }
  }

  @Test func eachLockedCodeIsFollowedByALongerLockout() throws {
    _ = try start("4511")
    try lock("4511")
    let refused = try counter.say("COUNTDOWN RESEND 4511")
    #expect(refused["reason"] == .bulk("locked") && refused["retry_after_ms"] == .integer(300_000))
    #expect(try counter.say("COUNTDOWN GET 4511")["remaining_ms"] == .integer(300_000))
    #expect(
      try counter.say("COUNTDOWN WHY 4511")["why"]
        == .bulk("refused: locked, as a code was tried too often; 5 m left"))
    counter.pass(300_000)
    #expect(line(try counter.say("COUNTDOWN RESEND 4511 LIMIT ip:2")) == "accepted")
    try lock("4511")
    #expect(
      try counter.say("COUNTDOWN RESEND 4511")["retry_after_ms"] == .integer(1_200_000))
    // The last attempt was right after all: only the cooldown is left.
    _ = try counter.say("COUNTDOWN PASS 4511")
    #expect(try counter.say("COUNTDOWN GET 4511")["remaining_ms"] == .integer(30_000))
    counter.pass(30_000)
    _ = try counter.say("COUNTDOWN RESEND 4511 LIMIT ip:3")
    try lock("4511")
    #expect(try counter.say("COUNTDOWN RESEND 4511")["retry_after_ms"] == .integer(300_000))
  }

  @Test func aReadyKeyGoesOnCountingWhenItsCodeIsLocked() throws {
    let listener = counter.open()
    _ = try start("4511")
    counter.pass(30_000)
    counter.run(["SUBSCRIBE", "countdown:4511"], by: listener)
    _ = try counter.take(listener)
    try lock("4511")
    let events = try counter.take(listener).map { $0.elements.last?.text ?? "" }
    #expect(events.count == 2 && events[0].contains(#""event":"locked""#))
    #expect(events[1].contains(#""event":"retimed""#) && events[1].contains("300000"))
    counter.pass(300_000)
    #expect(try counter.say("COUNTDOWN GET 4511")["state"] == .bulk("ready"))
  }

  @Test func forgiveEndsEverythingThatWaitsAndWithLimitsGivesBack() throws {
    _ = try start("4511")
    try lock("4511")
    let forgiven = try counter.say("COUNTDOWN FORGIVE 4511")
    #expect(forgiven["state"] == .bulk("ready") && forgiven["sends"] == .integer(0))
    #expect(try left("ip:1") == "1")
    try counter.expectError("COUNTDOWN FORGIVE 99", "NOTFOUND")
    #expect(line(try start("4511")) == "accepted")
    // Also what was forgiven without its limits.
    _ = try counter.say("COUNTDOWN FORGIVE 4511 LIMITS")
    #expect(try left("ip:1") == "unused" && left("range:45") == "unused")
    let notices = ["false", "true"].map { "forgiven 4511 \($0) uid 1000" }
    #expect(counter.host.notices == notices)
    let stranger = counter.open(as: Peer(uid: 4_711))
    for command in ["COUNTDOWN FORGIVE 4511", "THROTTLE UNBLOCK range:45"] {
      guard case .error(let text) = try counter.say(command, by: stranger) else {
        Issue.record("\(command) is no error")
        continue
      }
      #expect(text.hasPrefix("NOPERM"))
    }
  }

  /// The policy has no windows, so it forgets a key after `keep-ready`. `all` counts for a day.
  @Test func forgiveGivesBackWhatOnlyLimitsStillCount() throws {
    for (ip, seconds, sends) in [(1, 0, 1), (2, 400, 2), (1, 700, 1)] as [(Int, Int64, Int64)] {
      counter.pass(seconds * 1_000)
      let started = try start("4511", "\(ip)")
      #expect(started["accepted"] == .integer(1) && started["sends"] == .integer(sends))
      _ = try counter.say("COUNTDOWN PASS 4511")
    }
    #expect(line(try start("4599", "9")) == "accepted")
    counter.pass(700_000)
    let view = try counter.say("COUNTDOWN GET 4511")
    #expect(view["state"] == .bulk("idle") && view["sends"] == .integer(0))
    #expect(try counter.say("COUNTDOWN ATTEMPT 4511")["reason"] == .bulk("expired"))
    #expect(
      try counter.say("COUNTDOWN WHY 4511")["why"]
        == .bulk("idle: only limits count what was sent; START is accepted"))
    let engine = counter.dispatcher.engine
    let state = try #require(WholeState(bytes: engine.wholeState().bytes(offset: 3), offset: 3))
    let restarted = DispatcherHarness(engine: try Self.settings())
    restarted.host.now = counter.host.now
    #expect(restarted.dispatcher.engine.restore(state, at: counter.host.now)?.isEmpty == true)
    for counter in [counter, restarted] {
      #expect(try counter.say("THROTTLE GET all:")["remaining"] == .integer(1))
      _ = try counter.say("COUNTDOWN FORGIVE 4511 LIMITS")
      #expect(try counter.say("THROTTLE GET all:")["remaining"] == .integer(4))
      #expect(try counter.say("COUNTDOWN GET 4511") == .null)
      try counter.expectError("COUNTDOWN FORGIVE 4511 LIMITS", "NOTFOUND")
    }
  }

  @Test func aForgottenKeyIsIdleForAsLongAsItsLimitsCountIt() throws {
    _ = try start("4511")
    counter.pass(86_400_000 - 1)
    #expect(try counter.say("COUNTDOWN GET 4511")["state"] == .bulk("idle"))
    counter.pass(1)
    #expect(try counter.say("COUNTDOWN GET 4511") == .null)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func aSendThatOnlyLimitsCountCanBeRefunded() throws {
    let sent = try start("4511")["generation"]!.text
    counter.pass(700_000)
    #expect(try left("all:") == "4")
    #expect(try counter.say("COUNTDOWN REFUND 4511 GENERATION \(sent)")["reason"] == .null)
    #expect(try left("all:") == "unused")
    try counter.expectError("COUNTDOWN REFUND 4511 GENERATION \(sent)", "NOTFOUND")
  }

  @Test(arguments: ["LIMIT ip:1 ip:1", "LIMIT ip:1 LIMIT ip:1", "LIMIT ip:1 LIMIT ip:2"])
  func aLimitThatIsGivenTwiceIsAnError(limits: String) throws {
    try counter.expectError("COUNTDOWN START 4511 POLICY phone \(limits)", "'ip' is given twice")
    try counter.expectError("THROTTLE TAKE ip:1 all: ip:1", "'ip:1' is given twice")
    #expect(try counter.say("THROTTLE TAKE ip:1 ip:2")["accepted"] == .integer(1))
  }

  // MARK: Shadow

  @Test func aShadowDecidesBesideThePolicyAndIsOnlyCounted() throws {
    var settings = try Self.settings()
    var strict = settings.policies["phone"]!.rules
    strict.ladder = [.seconds(90)]
    strict.limits = ["ip"]
    settings.policies["strict"] = try SendPolicy(name: "strict", strict)
    settings.policies["phone"] = try SendPolicy(
      name: "phone", settings.policies["phone"]!.rules, shadow: "strict")
    let counter = DispatcherHarness(engine: settings)
    func info() throws -> String {
      let text = try counter.say("INFO stats").text
      return text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("shadow_phone:") }
        .map { String($0.dropFirst(13)) } ?? ""
    }
    func start(_ key: String, _ ip: String = "1") throws -> Bool {
      try counter.say("COUNTDOWN START \(key) POLICY phone LIMIT ip:\(ip)")["accepted"]
        == .integer(1)
    }
    #expect(try start("4511"))
    #expect(try !start("4511"))
    counter.pass(30_000)
    // Its cooldown is longer, so it refuses this one.
    #expect(try start("4511"))
    #expect(
      try info() == "shadow=strict,both=1,only_policy=1,only_shadow=0,none=1,undecided=0")
    // The address has room for it that is used in force.
    #expect(try !start("4712"))
    #expect(
      try info() == "shadow=strict,both=1,only_policy=1,only_shadow=1,none=1,undecided=0")
    let limits = try counter.say("COUNTDOWN WHY 4511")["limits"]!.elements.map(\.text)
    #expect(
      limits.last
        == "shadow strict: START would be refused for 60 s; 1 accepted by both, 1 only by phone, "
        + "1 only by strict")
    // A refund is learned as well.
    let sent = try counter.say("COUNTDOWN START 4813 POLICY phone LIMIT ip:3")
    _ = try counter.say("COUNTDOWN REFUND 4813 GENERATION \(sent["generation"]!.text)")
    #expect(try start("4813", "3"))
    #expect(
      try info() == "shadow=strict,both=3,only_policy=1,only_shadow=1,none=1,undecided=0")
    // Nothing of it is an entity.
    #expect(try counter.say("COUNTDOWN GET 4712") == .null)
  }

  // MARK: Quotas

  @Test func limitsCountAsEntitiesAndAllOrNothingOfThemIsMade() throws {
    var settings = try Self.settings()
    settings.limits.entities = 3
    let counter = DispatcherHarness(engine: settings)
    try counter.expectError(
      "COUNTDOWN START 4511 POLICY phone LIMIT ip:1", "LIMIT max-entities is 3")
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  /// A page of sends is stored like an entity, so it takes room like one.
  @Test(arguments: [\EngineSettings.Limits.entities, \.entitiesPerUser])
  func pagesOfSendsCountAsEntities(
    _ limit: WritableKeyPath<EngineSettings.Limits, Int> & Sendable
  ) throws {
    var settings = try Self.settings()
    settings.throttles["wide"] = try Self.wide()
    settings.limits[keyPath: limit] = 3
    let counter = DispatcherHarness(engine: settings)
    for _ in 0..<8 {
      #expect(try counter.say("THROTTLE TAKE wide:1")["accepted"] == .integer(1))
    }
    // The limit and two pages of four sends are there.
    for command in ["THROTTLE TAKE wide:1", "TIMER SET t 1000"] {
      try counter.expectError(
        command, limit == \.entities ? "LIMIT max-entities is 3" : "LIMIT max-entities-per-uid is 3"
      )
    }
    #expect(try counter.say("DBSIZE") == .integer(1))
    counter.pass(86_400_000)
    #expect(try counter.say("THROTTLE GET wide:1") == .null)
    for number in 0..<3 { _ = try counter.say("TIMER SET t\(number) 1000") }
    #expect(try counter.say("DBSIZE") == .integer(3))
  }

  private static func wide() throws -> LimitRules {
    var wide = LimitRules.Rules()
    wide.windows = [.init(limit: LimitRules.maximumInWindow, length: .days(1))]
    return try LimitRules(wide)
  }

  // MARK: Storing

  @Test func aTakeIsOneSendWhateverItsCost() throws {
    var settings = try Self.settings()
    settings.throttles["wide"] = try Self.wide()
    let counter = DispatcherHarness(engine: settings)
    let engine = counter.dispatcher.engine
    engine.noteChanges()
    _ = try counter.say("THROTTLE TAKE wide:1 COST 9998")
    #expect(engine.takenChanges().sorted() == ["throttle 0 wide:1", "throttle 1 wide:1"])
    counter.pass(1_000)
    _ = try counter.say("THROTTLE TAKE wide:1 COST 2")
    let refused = try counter.say("THROTTLE TAKE wide:1 COST 3")
    #expect(refused["retry_after_ms"] == .integer(86_399_000))
    _ = try counter.say("THROTTLE REFUND wide:1 3")
    #expect(try left("wide:1", of: counter) == "3")
    let restarted = DispatcherHarness(engine: settings)
    let state = try #require(WholeState(bytes: engine.wholeState().bytes(offset: 0), offset: 0))
    #expect(restarted.dispatcher.engine.restore(state, at: counter.host.now)?.isEmpty == true)
    restarted.host.now = counter.host.now
    #expect(try left("wide:1", of: restarted) == "3")
  }

  private func left(_ key: String, of counter: DispatcherHarness) throws -> String? {
    try counter.say("THROTTLE GET \(key)")["remaining"]?.text
  }

  /// Earlier releases have stored a TAKE as a send for each unit.
  @Test func sendsOfOneUnitEachAreReadAndGivenBack() throws {
    var sends = LimitSends()
    let old = (0..<4).map { _ in LimitSends.Send(at: .zero, id: 7, .ignored) }
    var writer = StateWriter(offset: 0)
    writer.page(of: [1], old)
    #expect(writer.bytes[0] == EntityRecord.sends)
    for place in [0, 1] as [UInt32] {
      let isAttached = sends.attach(old, at: place)
      #expect(isAttached)
    }
    sends.append(.init(at: .zero, id: 9, count: 5, .ignored))
    #expect(sends.count == 13)
    let refunds: [(units: UInt32, id: Int64, isOnRecord: Bool, left: Int)] = [
      (6, 7, true, 7), (.max, 9, true, 2), (1, 9, false, 2), (1, 8, false, 2),
      (1_000_000_000, 7, true, 0),
    ]
    for refund in refunds {
      let isOnRecord = sends.remove(refund.units, of: refund.id)
      #expect(isOnRecord == refund.isOnRecord && sends.count == refund.left)
    }
  }

  /// With what a frame of the log has besides: 24 bytes, and up to 7 to a multiple of 8.
  @Test func aStartWithThreeLimitsTakesAtMostAKilobyteOfTheLog() throws {
    var settings = try Self.settings()
    var all = LimitRules.Rules()
    all.windows = [.init(limit: LimitRules.maximumInWindow, length: .days(1))]
    all.isGlobal = true
    var range = all
    (range.isGlobal, range.droppedSuffixLength) = (false, 4)
    range.passed = .init(least: 1, of: 50, within: .seconds(3_600), block: .seconds(3_600))
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 1_000, count: 1_000, period: .seconds(3_600))
    settings.throttles = [
      "ip": try LimitRules(ip), "range": try LimitRules(range), "all": try LimitRules(all),
    ]
    let counter = DispatcherHarness(engine: settings)
    counter.dispatcher.engine.noteChanges()
    let batch = ChangeWriter(offset: 0)
    var maximum = 0
    for number in 1_000..<1_100 {
      batch.removeAll()
      let started = try counter.say(
        "COUNTDOWN START key:00000000\(number) POLICY phone LIMIT ip:10.0.0.7")
      #expect(started["accepted"] == .integer(1))
      counter.dispatcher.engine.takeChanges(into: batch)
      maximum = max(maximum, batch.bytes.count)
    }
    #expect((500...1_000 - 31).contains(maximum), "\(maximum)")
  }
}
