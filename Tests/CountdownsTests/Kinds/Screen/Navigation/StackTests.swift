import Countdowns
import Testing

/// Navigation stacks and the scopes of their pages.
@Suite struct StackTests {
  let desk = Desk()

  init() { desk.connect(2) }

  private func three() throws {
    for page in ["a", "b", "c"] { try desk.push("nav", page) }
  }

  @Test func eachPageIsAScopeOwnedLikeThePageBelow() throws {
    try desk.open("window")
    try desk.push("nav", "a", below: "window")
    try desk.push("nav", "b")
    #expect(desk.scope("b")?.parent == Array("window".utf8))
    #expect(desk.engine.entityCount == 4)
    try desk.set("t", 60_000, owner: try desk.scoped("b"))
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    #expect(try desk.nav("nav") { try $0.popPage($1, generation: nil, at: desk.now) } == nil)
    desk.hears(
      1, "0 nav will-disappear b last", "0 nav will-appear a", "0 nav did-disappear b last",
      "0 nav did-appear a", "0 t cancelled owner-gone", "0 b closed closed")
    #expect(desk.engine.entityCount == 3)
  }

  @Test func dismissingPopsAllPagesTheTopFirstAndLeavesNothingBehind() throws {
    try three()
    for page in ["a", "b", "c"] { try desk.set(page, 60_000, owner: try desk.scoped(page)) }
    desk.subscribe(1, pattern: "scope:*")
    _ = desk.takeHeard(1)
    #expect(
      try desk.with("nav") { try desk.engine.dismissStack($0, generation: nil, at: desk.now) })
    desk.hears(1, "0 c closed closed", "0 b closed closed", "0 a closed closed")
    desk.expectEmpty()
    #expect(
      try !desk.with("nav") { try desk.engine.dismissStack($0, generation: nil, at: desk.now) })
  }

  @Test func eachEventOfADismissalReportsTheStackOfItsMoment() throws {
    try three()
    try desk.swipe("nav")
    desk.subscribe(1, "nav:nav")
    _ = desk.takeEvents(1)
    try desk.dismissed("nav")
    let reported = desk.takeEvents(1).compactMap { event -> (Event.Name, StackView)? in
      guard let view = event.subject as? StackView else { return nil }
      return (event.name, view)
    }
    #expect(
      reported.map { "\($0.0.text) \($0.1.pages.count) \($0.1.state)" } == [
        "cancelled 3 settled", "will-disappear 3 settled", "will-appear 3 settled",
        "did-disappear 3 settled", "did-appear 3 settled",
        "will-disappear 1 settled", "will-appear 1 settled", "did-disappear 1 settled",
        "did-appear 1 settled",
        "will-disappear 1 settled", "did-disappear 1 settled", "dismissed 0 empty",
      ])
  }

  @Test func aPagesEntitiesSurviveACancelledSwipeAndAreCancelledByAFinishedOne() throws {
    try three()
    try desk.start("code", count: 60, owner: try desk.scoped("c"))
    desk.at(1_000)
    #expect(try desk.swipe("nav") == nil)
    desk.at(2_000)
    #expect(
      try desk.nav("nav") { try $0.cancelTransition($1, generation: nil, at: desk.now) } == nil)
    #expect(desk.get("code")?.remaining == 58)
    #expect(try desk.swipe("nav") == nil)
    desk.subscribe(1, "countdown:code")
    #expect(
      try desk.nav("nav") { try $0.finishTransition($1, generation: nil, at: desk.now) } == nil)
    desk.hears(1, "2000 code snapshot 58", "2000 code cancelled 58 owner-gone")
    #expect(desk.scope("c") == nil)
    #expect(desk.stack("nav")?.pages == [Array("a".utf8), Array("b".utf8)])
  }

  @Test func aSwipeTimesOutOnTimeFinishingItAfterwardsIsRefused() throws {
    try three()
    desk.subscribe(1, "nav:nav")
    _ = desk.takeHeard(1)
    #expect(try desk.swipe("nav", timeout: 500) == nil)
    #expect(desk.engine.armedCount == 1)
    _ = desk.takeHeard(1)
    desk.at(500).hears(
      1, "500 nav cancelled c timed-out", "500 nav will-disappear b", "500 nav will-appear c",
      "500 nav did-disappear b", "500 nav did-appear c")
    #expect(
      try desk.nav("nav") { try $0.finishTransition($1, generation: nil, at: desk.now) }
        == .notTransitioning)
    // The next call settles a timeout that is over but not noticed yet.
    #expect(try desk.swipe("nav", timeout: 500) == nil)
    desk.unnoticed(at: 1_000)
    #expect(desk.stack("nav")?.state == .settled)
    #expect(desk.engine.armedCount == 0)
  }

  @Test func aPageThatIsBeingPoppedEndsOnTimeWithAllItOwnsEvenIfThatIsNoticedLater() throws {
    try three()
    try desk.set("t", 500, owner: try desk.scoped("c"))
    let pop = Engine.popPage(desk.engine)
    desk.subscribe(1, "timer:t")
    _ = desk.takeHeard(1)
    let before = try #require(desk.stack("nav")?.generation)
    #expect(
      try desk.nav("nav") { try pop($1, .lasting(.milliseconds(350)), before, desk.now) } == nil)
    #expect(try #require(desk.stack("nav")?.generation) > before)
    #expect(desk.scope("c")?.remainingMS == nil)
    desk.late(at: 1_000).hears(1, "1000 t cancelled owner-gone")
    #expect(desk.scope("c") == nil)
    #expect(desk.stack("nav")?.pages.count == 2)
    // The next call settles a pop that is over but not noticed yet.
    #expect(try desk.nav("nav") { try pop($1, .lasting(.milliseconds(350)), nil, desk.now) } == nil)
    desk.unnoticed(at: 2_000)
    #expect(throws: EngineError.scope(.noScope(Array("b".utf8)))) { try desk.scoped("b") }
    try desk.open("b")
    #expect(desk.stack("nav")?.pages == [Array("a".utf8)])
    try desk.close("b")
    // A page whose pop is cancelled stays.
    try desk.push("nav", "d")
    #expect(try desk.nav("nav") { try pop($1, .lasting(.milliseconds(350)), nil, desk.now) } == nil)
    _ = try desk.nav("nav") { try $0.cancelTransition($1, generation: nil, at: desk.now) }
    desk.at(9_000)
    #expect(desk.scope("d") != nil)
    #expect(desk.engine.armedCount == 0)
  }

  @Test func aGenerationOfAnEarlierSwipeIsStaleARefusedSwipeMakesNoNewOne() throws {
    try three()
    _ = try desk.swipe("nav")
    let first = try #require(desk.stack("nav")?.generation)
    #expect(try desk.swipe("nav") == .transitioning)
    #expect(desk.stack("nav")?.generation == first)
    _ = try desk.nav("nav") { try $0.cancelTransition($1, generation: first, at: desk.now) }
    _ = try desk.swipe("nav")
    let second = try #require(desk.stack("nav")?.generation)
    #expect(throws: EngineError.stale(now: second)) {
      try desk.nav("nav") { try $0.finishTransition($1, generation: first, at: desk.now) }
    }
    #expect(desk.stack("nav")?.pages.count == 3)
  }

  @Test func whenAPagesScopeClosesByItselfTheStackContinuesWithoutItAtOnce() throws {
    try three()
    desk.subscribe(1, "nav:nav")
    _ = desk.takeHeard(1)
    try desk.close("b")
    desk.hears(1)
    #expect(desk.stack("nav")?.pages.count == 2)
    try desk.close("c")
    desk.hears(
      1, "0 nav will-disappear c last", "0 nav will-appear a", "0 nav did-disappear c last",
      "0 nav did-appear a")
    try desk.close("a")
    desk.hears(
      1, "0 nav will-disappear a last", "0 nav did-disappear a last", "0 nav dismissed a")
    desk.expectEmpty()
  }

  @Test func whenAWindowClosesTheStackInItIsDismissedAtOnce() throws {
    try desk.open("window")
    try desk.push("nav", "a", below: "window")
    try desk.push("nav", "b")
    try desk.push("nav", "c")
    _ = try desk.swipe("nav")
    desk.subscribe(1, "nav:nav")
    _ = desk.takeHeard(1)
    try desk.close("window")
    #expect(desk.stack("nav") == nil)
    let heard = desk.takeHeard(1)
    #expect(heard.first == "0 nav cancelled c")
    #expect(heard.suffix(2) == ["0 nav did-disappear c last", "0 nav dismissed c"])
    desk.expectEmpty()
  }

  @Test func aClientsStackEndsWithTheClientEvenIfThatIsNoticedLate() throws {
    try desk.push("nav", "a", owner: .connection(2))
    try desk.push("nav", "b")
    #expect(desk.scope("b")?.owner == .connection(2))
    desk.disconnect(2)
    #expect(desk.stack("nav") == nil)
    desk.advance()
    desk.expectEmpty()
  }

  @Test func ifAPagesScopeCannotBeOpenedNothingChanges() throws {
    try desk.open("there")
    #expect(throws: EngineError.scope(.exists(Array("there".utf8)))) {
      try desk.push("nav", "there")
    }
    #expect(throws: EngineError.scope(.noScope(Array("none".utf8)))) {
      try desk.push("nav", "a", below: "none")
    }
    #expect(desk.stack("nav") == nil)
    try desk.push("nav", "a")
    #expect(throws: EngineError.scope(.exists(Array("a".utf8)))) { try desk.push("nav", "a") }
    #expect(desk.stack("nav")?.pages.count == 1)
    _ = try desk.push("nav", "b")
    _ = try desk.swipe("nav")
    #expect(try desk.push("nav", "c") == .transitioning)
    #expect(desk.scope("c") == nil)
    #expect(throws: EngineError.notFound) { try desk.swipe("none") }
  }

  @Test func pagesAndEntitiesHaveLimitsTheFirstPageTakesTwoEntities() throws {
    var settings = EngineSettings()
    settings.limits.stackPages = 2
    settings.limits.entities = 4
    let desk = Desk(settings)
    try desk.push("nav", "a")
    try desk.push("nav", "b")
    #expect(throws: EngineError.limit(name: "max-stack-pages", value: 2)) {
      try desk.push("nav", "c")
    }
    #expect(throws: EngineError.limit(name: "max-entities", value: 4)) {
      try desk.push("other", "d")
    }
    #expect(desk.engine.entityCount == 3)
  }
}
