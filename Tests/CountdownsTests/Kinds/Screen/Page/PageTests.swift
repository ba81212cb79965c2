import Countdowns
import Simulation
import Testing

/// Pages, their HUDs and their owners.
@Suite struct PageTests {
  let desk: Desk

  init() {
    var settings = EngineSettings()
    settings.presentation = .plain
    desk = Desk(settings)
    desk.connect(2)
  }

  private var hud: HUDView.State? { desk.hud("p")?.state }

  @Test func theHUDOfTheScreenShowsDuringTheFirstLoadAndHidesOnSuccess() throws {
    desk.subscribe(1, pattern: "*")
    try desk.appear("p")
    #expect(hud == .visible)
    #expect(desk.hud("p")?.leases == 1)
    #expect(try desk.loaded("p", items: 3) == nil)
    #expect(hud == nil)
    desk.hears(
      1, "0 p did-appear loading", "0 p loading loading", "0 p will-appear", "0 p did-appear",
      "0 p loaded content", "0 p will-disappear dismissed", "0 p did-disappear dismissed")
    try desk.closePage("p")
    desk.expectEmpty()
  }

  @Test func thePagesGRACEAndMINApplyAQuickLoadShowsNothingAShownHUDStaysForMIN() throws {
    desk.subscribe(1, "hud:p")
    try desk.appear("p", grace: 200, minimum: 500)
    desk.at(100)
    _ = try desk.loaded("p")
    desk.hears(1, "0 p snapshot hidden", "100 p did-disappear never-shown")
    try desk.closePage("p")
    try desk.appear("p", grace: 200, minimum: 500)
    desk.at(310)
    _ = try desk.loaded("p")
    desk.at(2_000).hears(
      1, "300 p will-appear", "300 p did-appear", "800 p will-disappear dismissed",
      "800 p did-disappear dismissed")
  }

  @Test func timeoutFailsTheLoadOnTimeAndHidesTheHUD() throws {
    try desk.appear("p", timeout: 1_000)
    #expect(desk.engine.armedCount == 1)
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    desk.at(2_000).hears(
      1, "1000 p failed error timed-out", "1000 p will-disappear dismissed",
      "1000 p did-disappear dismissed")
    #expect(try desk.loaded("p") == .notLoading)
    _ = try desk.retry("p")
    desk.unnoticed(at: 3_000)
    #expect(desk.page("p")?.state == .error)
    #expect(hud == nil)
  }

  @Test func theDefaultTimeoutIs30STIMEOUT0WaitsForever() throws {
    try desk.appear("p")
    #expect(desk.page("p")?.remainingMS == 30_000)
    try desk.appear("q", timeout: 0)
    #expect(desk.page("q")?.remainingMS == nil)
  }

  @Test func theResultOfAnEarlierLoadIsStaleOneWithoutALoadIsRefused() throws {
    let first = try desk.appear("p").generation
    _ = try desk.failed("p")
    _ = try desk.retry("p")
    let second = try #require(desk.page("p")?.generation)
    #expect(second > first)
    #expect(throws: EngineError.stale(now: second)) { try desk.loaded("p", generation: first) }
    #expect(throws: EngineError.stale(now: second)) { try desk.failed("p", generation: first) }
    #expect(desk.page("p")?.state == .loading)
    #expect(try desk.loaded("p", generation: second) == nil)
    #expect(try desk.loaded("p", generation: second) == .notLoading)
    #expect(try desk.retry("p") == .notFailed)
    #expect(throws: EngineError.notFound) { try desk.loaded("none") }
    #expect(throws: EngineError.notFound) { try desk.disappear("none") }
  }

  @Test func theStoryOfAListEmptyRetriedPulledFailedEveryAppearance() throws {
    desk.subscribe(1, pattern: "*")
    let first = try desk.appear("p", refresh: .every, timeout: 5_000, minimum: 0).generation
    _ = try desk.loaded("p", items: 0, message: "no orders yet")
    #expect(desk.page("p")?.message == Array("no orders yet".utf8))
    desk.at(1_000)
    _ = try desk.retry("p")
    let second = try #require(desk.page("p")?.generation)
    #expect(second > first)
    #expect(hud == .visible)
    _ = try desk.loaded("p", items: 2)
    desk.at(2_000)
    _ = try desk.refresh("p")
    #expect(hud == nil)
    #expect(throws: EngineError.stale(now: desk.page("p")!.generation)) {
      try desk.loaded("p", generation: second)
    }
    #expect(try desk.refresh("p") == .loading)
    desk.at(7_000)
    #expect(desk.page("p")?.items == 2)
    try desk.appear("p")
    _ = try desk.failed("p", message: "offline")
    #expect(desk.page("p")?.message == Array("offline".utf8))
    desk.hears(
      1, "0 p did-appear loading", "0 p loading loading", "0 p will-appear", "0 p did-appear",
      "0 p loaded empty", "0 p will-disappear dismissed", "0 p did-disappear dismissed",
      "1000 p loading loading", "1000 p will-appear", "1000 p did-appear", "1000 p loaded content",
      "1000 p will-disappear dismissed", "1000 p did-disappear dismissed",
      "2000 p loading refreshing", "7000 p failed content timed-out", "7000 p loading refreshing",
      "7000 p failed content")
  }

  @Test func aFailedPageThatLoadsWithEachAppearanceShowsItsHUDAgainFullItStays() throws {
    var settings = EngineSettings()
    settings.presentation = .plain
    settings.limits.entities = 2
    let desk = Desk(settings)
    try desk.appear("p", refresh: .every)
    _ = try desk.failed("p")
    try desk.set("t", 60_000)
    #expect(throws: EngineError.limit(name: "max-entities", value: 2)) { try desk.appear("p") }
    #expect(desk.page("p")?.state == .error)
    try desk.delete("t")
    #expect(try desk.appear("p").state == .loading)
    #expect(desk.hud("p")?.state == .visible)
  }

  @Test func aPageOffTheScreenShowsNoHUDBackWhileLoadingItDoesAgain() throws {
    try desk.appear("p")
    try desk.disappear("p")
    #expect(hud == nil)
    #expect(desk.page("p")?.state == .loading)
    try desk.appear("p")
    #expect(hud == .visible)
    try desk.appear("p", screen: "other")
    #expect(hud == nil)
    #expect(desk.hud("other")?.state == .visible)
  }

  @Test func anotherOwnersHUDOnTheScreenStaysWhenThePageHasLoaded() throws {
    try desk.show("p")
    try desk.appear("p")
    #expect(desk.hud("p")?.leases == 2)
    _ = try desk.loaded("p")
    #expect(desk.hud("p")?.leases == 1)
    // A hold that DISMISS dropped is not released again.
    try desk.closePage("p")
    try desk.appear("p")
    try desk.dismiss("p")
    try desk.show("p")
    _ = try desk.loaded("p")
    #expect(desk.hud("p")?.leases == 1)
  }

  @Test func aPageAndItsHUDEndWithTheOwnerAtOnce() throws {
    try desk.open("scope")
    try desk.appear("p", owner: try desk.scoped("scope"))
    #expect(desk.scope("scope")?.owned == 1)
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    try desk.close("scope")
    desk.hears(
      1, "0 p will-disappear owner-gone", "0 p did-disappear owner-gone",
      "0 p closed loading owner-gone", "0 scope closed closed")
    desk.expectEmpty()
    try desk.appear("p", owner: .connection(2))
    desk.disconnect(2)
    #expect(hud == nil)
    #expect(desk.page("p") == nil)
    desk.advance()
    desk.expectEmpty()
  }

  @Test func ownerOfALaterAPPEARAppliesFromThenOn() throws {
    try desk.appear("p", owner: .connection(2))
    try desk.appear("p", owner: Owner.none)
    desk.disconnect(2)
    desk.advance()
    #expect(desk.page("p") != nil)
  }

  @Test func whileReadOnlyAPPEARIsRefusedIfItsHUDHadToBePersisted() throws {
    var request = Presentation.Request.plain
    request.isDurable = true
    try desk.show("p", request)
    desk.engine.isReadOnly = true
    #expect(throws: EngineError.readOnly) { try desk.appear("p") }
    #expect(desk.page("p") == nil)
    // The other screen has no stored HUD.
    try desk.appear("p", screen: "other")
    #expect(desk.hud("other")?.state == .visible)
  }

  @Test func whileReadOnlyAPersistedHUDsHoldIsNotReleasedByCommandsButByTimeAndOwners() throws {
    let readOnly = EngineError.readOnly
    var durable = Presentation.Request.plain
    durable.isDurable = true
    try desk.open("scope")
    try desk.appear("p", timeout: 1_000, owner: desk.scoped("scope"))
    try desk.show("p", durable)
    desk.engine.isReadOnly = true
    #expect(throws: readOnly) { try desk.loaded("p") }
    #expect(throws: readOnly) { try desk.failed("p") }
    #expect(throws: readOnly) { try desk.disappear("p") }
    #expect(throws: readOnly) { try desk.appear("p", screen: "other") }
    #expect(throws: readOnly) { try desk.closePage("p") }
    #expect(desk.page("p")?.state == .loading)
    #expect(desk.page("p")?.isVisible == true)
    #expect(desk.page("p")?.screen == Array("p".utf8))
    #expect(desk.hud("p")?.leases == 2)
    // A page on another screen does not change the stored HUD.
    try desk.appear("q", screen: "q")
    #expect(try desk.loaded("q") == nil)
    desk.unnoticed(at: 1_000)
    #expect(desk.hud("p")?.leases == 1)
    #expect(desk.page("p")?.state == .error)
    try desk.disappear("p")
    desk.engine.isReadOnly = false
    _ = try desk.appear("p")
    _ = try desk.retry("p")
    try desk.show("p", durable)
    desk.engine.isReadOnly = true
    #expect(desk.hud("p")?.leases == 3)
    try desk.close("scope")
    #expect(desk.page("p") == nil)
    #expect(desk.hud("p")?.leases == 2)
  }

  @Test func afterAnUnnoticedTimeoutTheHUDIsGoneForEveryCommand() throws {
    func begin() throws {
      try desk.closePage("p")
      try desk.appear("p", timeout: 1_000)
      #expect(hud == .visible)
    }
    try begin()
    desk.unnoticed(at: 1_000)
    #expect(hud == nil)
    try begin()
    desk.unnoticed(at: 2_000)
    #expect(desk.engine.list(.hud, ListQuery(), at: desk.now).views.isEmpty)
    try begin()
    desk.unnoticed(at: 3_000)
    desk.subscribe(1, "hud:p")
    desk.hears(1, "3000 p snapshot hidden")
    try begin()
    desk.unnoticed(at: 4_000)
    #expect(try desk.dismiss("p") == nil)
    try begin()
    desk.unnoticed(at: 5_000)
    // SHOW makes a new HUD, without the hold of the failed page.
    #expect(try desk.show("p").leases == 1)
  }

  @Test func unnoticedTimeoutsOfPagesHappenBeforeLaterEventsOfTheirHUD() throws {
    try desk.appear("p", timeout: 1_000, grace: 2_000)
    desk.subscribe(1, "hud:p")
    _ = desk.takeHeard(1)
    desk.unnoticed(at: 5_000)
    #expect(hud == nil)
    desk.hears(1, "5000 p did-disappear never-shown")
    // One page fails before the HUD's grace is over, the other one after it.
    try desk.appear("q", timeout: 1_000, screen: "p", grace: 2_000, minimum: 500)
    try desk.appear("r", timeout: 3_000, screen: "p", grace: 2_000, minimum: 500)
    desk.unnoticed(at: 9_000)
    #expect(try desk.loaded("r") == .notLoading)
    #expect(hud == .visible)
    #expect(desk.page("q")?.state == .error)
    desk.at(9_500)
    #expect(hud == nil)
    desk.hears(
      1, "5000 p updated", "9000 p will-appear", "9000 p updated", "9000 p did-appear",
      "9500 p will-disappear dismissed", "9500 p did-disappear dismissed")
  }

  @Test func aPageAndItsHUDCountAsTwoWithoutRoomForBothNothingChanges() throws {
    var settings = EngineSettings()
    settings.presentation = .plain
    settings.limits.entities = 2
    let desk = Desk(settings)
    try desk.appear("p")
    _ = try desk.failed("p")
    try desk.set("t", 60_000)
    #expect(throws: EngineError.limit(name: "max-entities", value: 2)) { try desk.retry("p") }
    #expect(desk.page("p")?.state == .error)
    #expect(throws: EngineError.limit(name: "max-entities", value: 2)) { try desk.appear("q") }
    try desk.delete("t")
    #expect(throws: EngineError.limit(name: "max-entities", value: 2)) { try desk.appear("q") }
    #expect(try desk.retry("p") == nil)
  }

  @Test(arguments: [1, 2, 3])
  func aHUDThatIsDueToEndIsEndedBeforeTheLimitsAreChecked(how: Int) throws {
    var settings = EngineSettings()
    settings.presentation = Presentation.Request(fadeIn: .zero)
    settings.limits.entitiesPerUser = 1
    let desk = Desk(settings)
    let limit = EngineError.limit(name: "max-entities-per-uid", value: 1)
    // While another user's HUD exists, the page shares it and needs no new one.
    try desk.show("p")
    try desk.appear("p", uid: 2)
    if how == 1 { _ = try desk.failed("p") } else { try desk.disappear("p") }
    try desk.dismiss("p")
    if how == 3 { desk.late(at: 1_000) } else { desk.unnoticed(at: 1_000) }
    let before = desk.page("p")
    switch how {
    case 1: #expect(throws: limit) { try desk.retry("p", uid: 2) }
    case 2: #expect(throws: limit) { try desk.appear("p", uid: 2) }
    default:
      try desk.show("s")
      try desk.dismiss("s")
      desk.unnoticed(at: 2_000)
      #expect(throws: limit) { try desk.appear("p", screen: "s", uid: 2) }
    }
    #expect(desk.page("p")?.generation == before?.generation)
    #expect(desk.page("p")?.state == before?.state)
    #expect(desk.page("p")?.isVisible == before?.isVisible)
  }

  @Test func roomThatAnEndedHUDFreesIsAvailableToThePage() throws {
    var settings = EngineSettings()
    settings.presentation = Presentation.Request(fadeIn: .zero)
    settings.limits.entities = 2
    let desk = Desk(settings)
    try desk.show("p")
    try desk.dismiss("p")
    try desk.set("t", 60_000)
    desk.unnoticed(at: 1_000)
    // The page and its HUD are two entities, and the timer is one.
    #expect(throws: EngineError.limit(name: "max-entities", value: 2)) { try desk.appear("p") }
    try desk.delete("t")
    try desk.appear("p")
    #expect(desk.engine.entityCount == 2)
  }

  @Test func aReturnThatStartsALoadReportsItFromItsFirstEventOn() throws {
    try desk.appear("p")
    _ = try desk.loaded("p", items: 3)
    try desk.disappear("p")
    desk.subscribe(1, "page:p")
    _ = desk.takeEvents(1)
    let generation = try desk.appear("p").generation
    let events = desk.takeEvents(1)
    #expect(events.map(\.name) == [.didAppear, .loading])
    for event in events {
      guard let view = event.subject as? PageView else { continue }
      #expect(event.generation == generation)
      #expect(view.generation == generation)
      #expect(view.state == .refreshing)
    }
  }
}
