import Countdowns
import Testing

/// `hud.reorder`: a POP that overtakes the SHOW of another connection.
@Suite struct HUDReorderTests {
  let desk: Desk

  init() {
    var settings = EngineSettings()
    settings.hudReorder = .milliseconds(100)
    settings.maximumLevel = .alert
    desk = Desk(settings)
    desk.subscribe(1, "hud:s")
    _ = desk.takeHeard(1)
  }

  @discardableResult
  private func show(
    _ path: String = "r", on screen: String = "s", level: Level = .normal, uid: UInt32 = 1_000,
    _ kind: Presentation.Kind = .loading, maximum: Int64? = nil
  ) throws -> HUDView {
    var request = Presentation.Request.plain
    (request.kind, request.path) = (kind, Array(path.utf8))
    request.maximum = maximum.map { .milliseconds($0) }
    return try desk.with(screen) {
      try desk.engine.showHUD(
        $0, level: level, request, owner: .none, by: desk.client(1, uid: uid), at: desk.now)
    }
  }

  @discardableResult
  private func pop(
    _ path: String? = "r", on screen: String = "s", _ target: HUDTarget = HUDTarget(),
    uid: UInt32 = 1_000
  ) throws -> HUDView? {
    try desk.with(screen) {
      try desk.engine.popHUD(
        $0, target, path: path.map { Array($0.utf8) }, by: desk.client(1, uid: uid), at: desk.now)
    }
  }

  /// AlamofireNetworkActivityIndicator-14: a request that ended before it was reported to have begun
  /// left the indicator up.
  @Test func theSHOWOfARequestThatWasPoppedDoesNotAppear() throws {
    #expect(try pop() == nil)
    desk.at(99)
    let view = try show()
    #expect(view.state == .hidden && view.end == .neverShown && view.holds.isEmpty)
    #expect(desk.hud("s") == nil)
    desk.hears(1, "99 s did-disappear never-shown")
    // Once.
    #expect(try show().state == .visible)
    desk.hears(1, "99 s will-appear", "99 s did-appear")
  }

  @Test func withoutTheSettingItAppears() throws {
    desk.engine.reload(EngineSettings(), at: desk.now)
    try pop()
    #expect(try show().state == .visible)
  }

  @Test func afterThatTimeItAppears() throws {
    try pop()
    desk.at(100)
    #expect(try show().state == .visible)
  }

  @Test func severalPOPsOfARequestAreRememberedAsOne() throws {
    try pop()
    desk.at(90)
    try pop()
    desk.at(180)
    #expect(try show().state == .hidden, "the newest counts")
    #expect(try show().state == .visible)
    try pop()
    try pop()
    #expect(try show().state == .visible, "it had a hold a moment ago")
  }

  @Test func anotherUserAnotherScreenAnotherRequestAndAnotherLevelAreNotMeant() throws {
    try pop()
    #expect(try show(uid: 1_001).state == .visible)
    try pop(uid: 1_001)
    desk.at(1_000)
    try pop()
    #expect(try show(on: "t").state == .visible)
    #expect(try show("other").state == .visible)
    try pop("other")
    desk.at(2_000)
    try pop("r", HUDTarget(level: .alert))
    #expect(try show().state == .visible)
    #expect(try show(level: .alert).state == .hidden)
    #expect(desk.hud("s")?.level == .normal)
  }

  @Test func aHUDOfOtherRequestsStaysAsItIs() throws {
    let first = try show("other")
    try pop()
    _ = desk.takeHeard(1)
    let view = try show()
    #expect(view.generation == first.generation && view.holds.count == 1)
    desk.hears(1)
    try pop("other")
    #expect(desk.hud("s") == nil)
  }

  @Test func aPOPAfterMAXOrADismissalIsLateNotEarly() throws {
    try show(maximum: 500)
    desk.at(550)
    #expect(try pop() == nil)
    #expect(try show().state == .visible)
    try desk.dismiss("s")
    try pop()
    #expect(try show().state == .visible)
    try desk.dismiss("s")
    desk.at(650)
    try pop()
    #expect(try show().state == .hidden, "that was a while ago")
  }

  @Test func aPOPWithoutARequestOrWithAGenerationAndTheSHOWOfAMessageAreNotMeant() throws {
    try pop(nil)
    #expect(try show().state == .visible)
    try desk.dismiss("s")
    desk.at(1_000)
    try pop("r", HUDTarget(generation: Generation(1)))
    #expect(try show().state == .visible)
    try desk.dismiss("s")
    desk.at(2_000)
    try pop()
    #expect(try show("r", .info).state == .visible)
  }

  @Test func aUserIsRememberedFor64RequestsOfWhichTheNewestStay() throws {
    for number in 0...64 {
      try pop("\(number)")
      desk.unnoticed(microseconds: Int64(number + 1))
    }
    #expect(try show("0").state == .visible)
    #expect(try show("64", on: "s").holds.count == 1, "it did not appear")
    for number in 1..<64 { try pop("\(number)", uid: 1_001) }
    #expect(try show("63").holds.count == 1, "another user takes no room")
  }
}
