import Testing
import Wire

@testable import Countdowns

/// Keys that a command uses besides its own: which of them take the user's right.
@Suite struct KeyUseTests {
  private static let shop = Peer(uid: 5)

  /// A user who may use `shop:*` of all kinds, and everything of some kinds.
  private func harness(_ kinds: [EntityKind] = []) throws -> (DispatcherHarness, shop: Session) {
    let who = Principals(users: [5])
    var settings = Dispatcher.Settings()
    settings.access.keys = [KeyRule("shop", who: who, keys: [Array("*shop:*".utf8)])]
    if !kinds.isEmpty {
      settings.access.keys.append(
        KeyRule("kinds", who: who, kinds: kinds, keys: [Array("*".utf8)]))
    }
    let counter = DispatcherHarness(settings, engine: try Self.engine())
    return (counter, counter.open(.resp3, as: Self.shop))
  }

  /// The policy `login` with a limit that START names, and one that is derived.
  private static func engine() throws -> EngineSettings {
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(60))
    var all = LimitRules.Rules()
    all.rate = Throttle.Rate(burst: 50, count: 50, period: .days(1))
    all.isGlobal = true
    var login = SendPolicy.Rules()
    login.ladder = [.seconds(10)]
    login.limits = ["ip", "all"]
    var settings = EngineSettings()
    settings.throttles = ["ip": try LimitRules(ip), "all": try LimitRules(all)]
    settings.policies = ["login": try SendPolicy(name: "login", login)]
    return settings
  }

  private func refusal(_ reply: Reply) -> String? {
    guard case .error(let text) = reply, text.hasPrefix("NOPERM") else { return nil }
    return text
  }

  // MARK: HUDs of pages

  @Test(arguments: [
    "PAGE APPEAR main", "NAV PUSH stack main PAGE", "NAV PRESENT stack main PAGE",
    "PAGE APPEAR main SCREEN main", "NAV PUSH stack shop:1 PAGE SCREEN main",
  ])
  func aPageShowsAHUDOnlyWithTheRightToItsScreen(line: String) throws {
    let (counter, shop) = try harness([.page, .nav, .scope])
    #expect(refusal(try counter.say(line, by: shop))?.contains("change hud 'main'") == true)
    #expect(try counter.say("HUD GET main") == .null)
    #expect(try counter.say("PAGE GET main") == .null)
  }

  @Test func aPageShowsTheHUDOfItsOwnKeyToAUserOfBoth() throws {
    let (counter, shop) = try harness()
    #expect(try counter.say("PAGE APPEAR shop:1", by: shop)["screen"] == .bulk("shop:1"))
    #expect(try counter.say("NAV PUSH shop:2 shop:3 PAGE", by: shop)["accepted"] == .boolean(true))
    #expect(try counter.say("HUD GET shop:3")["owner"] == .bulk("page:shop:3"))
  }

  @Test func theScreenThatAPageHasStoredTakesTheRightToIt() throws {
    let (counter, shop) = try harness()
    try counter.say("PAGE APPEAR shop:1 SCREEN main")
    #expect(refusal(try counter.say("PAGE APPEAR shop:1", by: shop)) != nil)
    #expect(try counter.say("PAGE FAILED shop:1", by: shop)["accepted"] == .boolean(true))
    #expect(refusal(try counter.say("PAGE RETRY shop:1", by: shop)) != nil)
    #expect(try counter.say("HUD GET main") == .null)
    try counter.say("PAGE APPEAR shop:1 SCREEN shop:1", by: shop)
    #expect(try counter.say("PAGE RETRY shop:1", by: shop)["accepted"] == .boolean(true))
  }

  @Test func aPageOfAStackTakesTheRightToItsScope() throws {
    let (counter, shop) = try harness([.nav])
    let before = try counter.say("NAV PUSH stack main")["bar"]
    #expect(refusal(try counter.say("NAV SET stack main BAR hidden", by: shop)) != nil)
    #expect(try counter.say("NAV GET stack")["bar"] == before)
  }

  // MARK: Limits

  @Test func resendAndRefundTakeTheRightToTheLimitsOfTheStart() throws {
    let (counter, shop) = try harness()
    let sent = try counter.say("COUNTDOWN START shop:1 POLICY login LIMIT ip:1")["generation"]!
    let refund = "COUNTDOWN REFUND shop:1 GENERATION \(sent.text)"
    #expect(refusal(try counter.say(refund, by: shop))?.contains("change throttle 'ip:1'") == true)
    counter.pass(60_000)
    #expect(refusal(try counter.say("COUNTDOWN RESEND shop:1", by: shop)) != nil)
    #expect(refusal(try counter.say("COUNTDOWN RESEND shop:1 LIMIT ip:1", by: shop)) != nil)
    #expect(try counter.say("THROTTLE GET ip:1") == .null, "all of it came back meanwhile")
  }

  @Test func derivedLimitsAreChargedWithoutARight() throws {
    let (counter, shop) = try harness()
    #expect(
      try counter.say("COUNTDOWN START shop:1 POLICY login LIMIT ip:shop:", by: shop)["accepted"]
        == .boolean(true))
    counter.pass(10_000)
    let sent = try counter.say("COUNTDOWN RESEND shop:1", by: shop)
    #expect(sent["accepted"] == .boolean(true))
    #expect(try counter.say("THROTTLE GET all:")["remaining"] == .integer(48))
    let refund = "COUNTDOWN REFUND shop:1 GENERATION \(sent["generation"]!.text)"
    #expect(try counter.say(refund, by: shop)["accepted"] == .boolean(true))
    #expect(try counter.say("THROTTLE GET all:")["remaining"] == .integer(49))
  }

  @Test func whyLeavesOutLimitsThatTheUserMayNotRead() throws {
    let (counter, shop) = try harness()
    for _ in 0..<2 {
      try counter.say("COUNTDOWN START shop:1 POLICY login LIMIT ip:1")
      counter.pass(10_000)
    }
    let all = try counter.say("COUNTDOWN WHY shop:1")
    #expect(all["limits"]!.elements.count == 2)
    #expect(all["why"]!.text.hasPrefix("refused: the limit ip:1 is full; "))
    let some = try counter.say("COUNTDOWN WHY shop:1", by: shop)
    #expect(some["limits"] == .array([]))
    #expect(some["why"]!.text.hasPrefix("refused: a limit is full; "))
    #expect(some["retry_after_ms"] == all["retry_after_ms"])
  }

  // MARK: Scopes

  @Test func anOwnerIsAScopeOnlyWithItsColon() throws {
    let (counter, _) = try harness()
    try counter.say("SCOPE OPEN s")
    for word in ["scope\u{1A}s", "scope s", "scopes", "scope:", "scop\u{1B}:s"] {
      let reply = try counter.frames(["TIMER", "SET", "t", "1h", "OWNER", word])
      #expect("\(reply)".contains("is not one of none, connection, scope:ID"), "\(word)")
    }
    for word in ["scope:s", "SCOPE:s"] {
      #expect(try counter.say("TIMER SET t 1h OWNER \(word)")["owner"] == .bulk("scope:s"))
    }
  }

  @Test func aHandlerWhoseRightAReloadHasRevokedIsSkipped() throws {
    let (counter, shop) = try harness()
    try counter.say("SCOPE OPEN shop:1")
    try counter.say("SCOPE HANDLE shop:1 tap", by: shop)
    #expect(try counter.say("SCOPE EMIT shop:1 tap") == .bulk("shop:1"))
    #expect(try counter.take(shop).count == 1)
    var settings = counter.dispatcher.settings
    settings.access.keys[0].role = .readOnly
    counter.dispatcher.reload(settings)
    #expect(try counter.say("SCOPE EMIT shop:1 tap") == .null)
    let other = counter.open(.resp3)
    try counter.say("SCOPE HANDLE shop:1 tap", by: other)
    #expect(try counter.say("SCOPE EMIT shop:1 tap") == .bulk("shop:1"))
    #expect(try counter.take(other).count == 1)
    #expect(try counter.take(shop) == [])
  }
}
