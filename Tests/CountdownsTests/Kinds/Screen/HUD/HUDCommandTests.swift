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

  @Test func oneHUDHas64HoldsAtMostAndTheRefusalSaysWhatToDo() throws {
    for _ in 0..<64 { try counter.say("HUD SHOW s") }
    try counter.expectError("HUD SHOW s", "LIMIT 's' has 64 holds", "HUD POP or HUD DISMISS")
    #expect(try counter.say("HUD GET s")["leases"] == .integer(64))
    // A message drops all holds.
    #expect(try counter.say("HUD SHOW s KIND info")["leases"] == .integer(0))
  }

  @Test func anOwnerIsForgottenWithItsLastHold() throws {
    try counter.say("HUD SHOW s")
    for _ in 0..<3 {
      let other = counter.open()
      for _ in 0..<2 { try counter.say("HUD SHOW s OWNER connection", by: other) }
      try counter.say("HUD POP s", by: other)
      #expect(counter.dispatcher.engine.huds[0].owners.count == 1)
      try counter.say("HUD POP s", by: other)
      #expect(counter.dispatcher.engine.huds[0].owners.isEmpty)
    }
    #expect(try counter.say("HUD GET s")["leases"] == .integer(1))
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
