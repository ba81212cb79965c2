import Testing

@testable import Countdowns

/// Replies of HUD commands: holds, masks and reasons.
@Suite final class HUDCommandTests {
  let counter: DispatcherHarness
  /// The reasons that WHY has returned.
  private var reasons: Set<String> = []
  private var states: Set<String> = []

  init() {
    var settings = EngineSettings()
    settings.maximumLevel = .alert
    settings.presentation.fadeIn = .zero
    settings.presentation.fadeOut = .zero
    settings.blocking = BlockingRules(paths: ["/api/pay"], verbs: ["Submit"], mask: .black)
    counter = DispatcherHarness(engine: settings)
  }

  // MARK: Holds

  @Test func repliesListTheHoldsOldestFirstWithWhatEachAskedFor() throws {
    try counter.say("HUD SHOW s REQUEST https://host/api/Order/Submit?token=1 GRACE 1ms MAX 9s")
    let reply = try counter.say("HUD SHOW s KIND progress STATUS list OWNER connection")
    let holds = reply["holds"]!.elements
    #expect(reply["leases"] == .integer(2))
    func texts(_ name: String) -> [String] { holds.map { $0[name]!.text } }
    #expect(texts("kind") == ["loading", "progress"])
    #expect(texts("mask") == ["black", "none"])
    #expect(texts("request") == ["/api/Order/Submit", "null"])
    #expect(texts("status") == ["null", "list"])
    #expect(texts("grace_ms") == ["1", "0"])
    #expect(texts("max_ms") == ["9000", "null"])
    #expect(texts("owner") == ["none", "connection:1"])
    #expect(texts("durable") == ["0", "0"])
    #expect(reply["mask"] == .bulk("black"))
    #expect(texts("generation").last == reply["generation"]!.text)
    let popped = try counter.say("HUD POP s REQUEST /api/Order/Submit/")
    #expect(popped["holds"]!.elements.map { $0["kind"]!.text } == ["progress"])
    #expect(popped["mask"] == .bulk("none"))
  }

  @Test func popSTATUSAndPROGRESSFindAHoldByItsGenerationOthersOnlyTheNewestSHOW() throws {
    let first = try counter.say("HUD SHOW s")["generation"]!.text
    let second = try counter.say("HUD SHOW s")["generation"]!.text
    try counter.say("HUD STATUS s one GENERATION \(first)")
    try counter.say("HUD PROGRESS s 0.5 GENERATION \(first)")
    for command in ["DISMISS s", "TAP s", "PAUSE s", "RESUME s"] {
      try counter.expectError("HUD \(command) GENERATION \(first)", "STALE")
    }
    let popped = try counter.say("HUD POP s GENERATION \(second)")
    #expect(popped["status"] == .bulk("one"))
    #expect(popped["leases"] == .integer(1))
    try counter.expectError(
      "HUD POP s GENERATION \(second)", "STALE 's' has generation \(first) now")
  }

  @Test func popFindsTheLevelOfAHoldByItsRequest() throws {
    try counter.say("HUD SHOW s REQUEST /api/a")
    try counter.say("HUD SHOW s LEVEL alert REQUEST /api/b")
    #expect(try counter.say("HUD POP s REQUEST /api/a")["level"] == .bulk("normal"))
    #expect(try counter.say("HUD GET s")["level"] == .bulk("alert"))
  }

  @Test func oneHUDHas64HoldsAtMostAndTheRefusalSaysWhatToDo() throws {
    for _ in 0..<64 { try counter.say("HUD SHOW s") }
    try counter.expectError("HUD SHOW s", "LIMIT 's' has 64 holds", "HUD POP or HUD DISMISS")
    #expect(try counter.say("HUD GET s")["leases"] == .integer(64))
    // A message drops all holds.
    #expect(try counter.say("HUD SHOW s KIND info")["leases"] == .integer(0))
  }

  // MARK: MASK

  @Test func hudMASKNamesTheMaskAndTheRuleAndShowsNothing() throws {
    func verdict(_ url: String) throws -> [String] {
      let reply = try counter.say("HUD MASK \(url)")
      return ["request", "mask", "rule"].map { reply[$0]!.text }
    }
    #expect(try verdict("https://host/api/v1/api/pay/?x=1") == ["/api/pay", "black", "/api/pay"])
    #expect(try verdict(String(repeating: "/", count: 8_192)) == ["/", "none", "null"])
    #expect(try verdict("/api/é//") == ["/api/é", "none", "null"])
    #expect(try verdict("/api/Order/Submit") == ["/api/Order/Submit", "black", "Submit"])
    #expect(try verdict("/api/Order/List") == ["/api/Order/List", "none", "null"])
    #expect(counter.dispatcher.engine.entityCount == 0)
  }

  // MARK: WHY

  private func why(_ screen: String = "s", level: String? = nil) throws -> String {
    let reply = try counter.say("HUD WHY \(screen)" + (level.map { " LEVEL \($0)" } ?? ""))
    reasons.formUnion(reply["reasons"]!.elements.map(\.text))
    states.insert(reply["state"]!.text)
    return reply["why"]!.text
  }

  @Test func whyHasASentenceForEachStateAndEachReason() throws {
    #expect(try why() == "hidden: nothing is shown; SHOW shows a HUD")
    try counter.say(
      "HUD SHOW s GRACE 500ms MIN 1s FADEIN 100ms FADEOUT 200ms REQUEST /api/pay MAX 1m")
    counter.pass(200)
    #expect(
      try why() == "waiting: 300 ms of GRACE left; held by no owner; mask black for /api/pay")
    counter.pass(300)
    #expect(
      try why() == "appearing: 100 ms of FADEIN left; 1.1 s of MIN left; held by no owner; "
        + "mask black for /api/pay")
    counter.pass(100)
    try counter.say("HUD SHOW s OWNER connection MIN 1s FADEOUT 200ms")
    try counter.say("HUD SHOW s OWNER connection MIN 1s FADEOUT 200ms")
    counter.pass(570)
    #expect(
      try why() == "visible: 430 ms of MIN left; held by no owner, connection 1 (2); "
        + "mask black for /api/pay")
    try counter.say("HUD PAUSE s")
    #expect(
      try why() == "visible: paused until RESUME; 430 ms of MIN left; "
        + "held by no owner, connection 1 (2); mask black for /api/pay")
    try counter.say("HUD RESUME s")
    try counter.say("HUD DISMISS s DELAY 100ms")
    #expect(try why() == "visible: dismissed in 100 ms; 430 ms of MIN left; mask black")
    try counter.say("HUD DISMISS s")
    #expect(try why() == "visible: 430 ms of MIN left; dismissed; mask black")
    counter.pass(430)
    #expect(
      try why() == "disappearing: 200 ms of FADEOUT left, dismissed; mask black")
    counter.pass(200)
    #expect(try why() == "hidden: nothing is shown; SHOW shows a HUD")

    try counter.say("HUD SHOW s MAX 3s")
    #expect(try why() == "visible: 3 s of MAX left; held by no owner")
    try counter.say("HUD SHOW s LEVEL alert KIND info MIN 2s")
    counter.pass(500)
    #expect(try why() == "visible: 1.5 s of MIN left; 1.5 s left to read it")
    #expect(try why(level: "normal") == "visible: 2.5 s of MAX left; held by no owner")
    try counter.say("HUD SHOW p OWNER connection MIN 1s")
    try counter.say("HUD TAP p")
    #expect(try why("p") == "visible: 1 s of MIN left; dismissed as tapped")
    #expect(reasons == Set(HUDExplanation.Reason.allCases.map(\.rawValue)))
    #expect(states == ["hidden", "waiting", "appearing", "visible", "disappearing"])
  }

  @Test func whyNamesPagesAndScopesThatHoldAHUD() throws {
    try counter.say("PAGE APPEAR orders SCREEN s")
    try counter.say("SCOPE OPEN checkout")
    try counter.say("HUD SHOW s OWNER scope:checkout")
    let reply = try counter.say("HUD WHY s")
    #expect(reply["why"] == .bulk("visible: held by page:orders, scope:checkout"))
    #expect(reply["holders"]!.elements.map(\.text) == ["page:orders", "scope:checkout"])
    #expect(reply["blocked_by"] == .null)
  }
}
