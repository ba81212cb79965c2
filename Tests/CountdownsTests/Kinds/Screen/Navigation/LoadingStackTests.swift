import Countdowns
import Simulation
import Testing

/// `NAV PUSH … PAGE`: pages that appear, load and disappear with their stack. The key in a line is
/// `nav` for the stack, and the page's name for a page or HUD.
@Suite struct LoadingStackTests {
  let desk: Desk

  init() {
    var settings = EngineSettings()
    settings.presentation = .plain
    desk = Desk(settings)
    desk.connect(2)
  }

  /// Pushes pages and loads content into each; the last page is on top.
  private func loaded(_ names: String..., refresh: PageLoad.Refresh? = nil) throws {
    for name in names {
      try push(name, refresh: refresh)
      _ = try desk.loaded(name, items: 1)
    }
    desk.subscribe(1, pattern: "page:*")
    _ = desk.takeHeard(1)
  }

  @discardableResult
  private func push(
    _ name: String, _ pace: NavigationStack.Pace = .atOnce, refresh: PageLoad.Refresh? = nil,
    screen: String? = nil
  ) throws -> Reason? {
    var loading = PageAppearance()
    loading.refresh = refresh
    loading.screen = screen.map { Array($0.utf8) }
    return try desk.push("nav", name, pace, loading: loading)
  }

  private func isVisible(_ page: String) -> Bool? { desk.page(page)?.isVisible }

  @Test func pushOpensTheScopeLoadsThePageAndShowsItsHUDPOPEndsAllOfThem() throws {
    try desk.push("nav", "home")
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    #expect(try push("a") == nil)
    desk.hears(
      1, "0 a opened", "0 a did-appear loading", "0 a loading loading", "0 a will-appear",
      "0 a did-appear", "0 nav will-disappear home", "0 nav will-appear a first",
      "0 nav did-disappear home", "0 nav did-appear a first")
    #expect(desk.page("a")?.owner == (try desk.scoped("a")))
    #expect(desk.scope("a")?.owned == 1)
    try desk.pop("nav")
    desk.hears(
      1, "0 nav will-disappear a last", "0 nav will-appear home", "0 nav did-disappear a last",
      "0 a did-disappear loading", "0 a will-disappear dismissed", "0 a did-disappear dismissed",
      "0 nav did-appear home", "0 a closed loading owner-gone", "0 a closed closed")
    #expect(desk.page("a") == nil)
    try desk.dismissed("nav")
    desk.expectEmpty()
  }

  @Test func aPushedPageCoversTheOneBelowWhichDisappearsPoppedItAppearsAndRefreshes() throws {
    try loaded("a")
    try push("b")
    desk.hears(1, "0 b did-appear loading", "0 b loading loading", "0 a did-disappear content")
    desk.at(1_000)
    try desk.pop("nav")
    desk.hears(
      1, "1000 b did-disappear loading", "1000 a did-appear refreshing",
      "1000 a loading refreshing", "1000 b closed loading owner-gone")
    #expect(desk.page("a")?.remainingMS == 30_000)
  }

  @Test func withREFRESHNeverAPageThatIsRevealedShowsItsContentWithEveryAnErrorLoads() throws {
    try loaded("a", refresh: .never)
    try desk.push("nav", "b")
    try desk.pop("nav")
    desk.hears(1, "0 a did-disappear content", "0 a did-appear content")
    try push("c", refresh: .every)
    _ = try desk.failed("c")
    try desk.push("nav", "d")
    try desk.pop("nav")
    #expect(desk.page("c")?.state == .loading)
    #expect(desk.hud("c")?.state == .visible)
  }

  @Test func withDURATIONAPushedPageLoadsAtOnceAndTheCoveredOneDisappearsAtTheEnd() throws {
    try loaded("a")
    try push("b", .lasting(.milliseconds(350)))
    desk.hears(1, "0 b did-appear loading", "0 b loading loading")
    #expect(isVisible("a") == true)
    desk.at(350).hears(1, "350 a did-disappear content")
    // The next call settles a push that is over but not noticed yet.
    try push("c", .lasting(.milliseconds(350)))
    desk.unnoticed(at: 700)
    #expect(isVisible("b") == false)
    #expect(desk.hud("b") == nil)
    try push("d", .lasting(.milliseconds(350)))
    desk.unnoticed(at: 1_050)
    #expect(desk.hud("c") == nil)
  }

  @Test func aPushThatIsCancelledEndsTheLoadThePageBelowHasNeverDisappeared() throws {
    try loaded("a", refresh: .every)
    try push("b", .untilFinished)
    _ = desk.takeHeard(1)
    try desk.cancelTransition("nav")
    desk.hears(1, "0 b did-disappear loading", "0 b closed loading owner-gone")
    #expect(desk.page("a")?.state == .content)
    #expect(isVisible("a") == true)
  }

  @Test func aPopThatTakesTimeThePageBelowRefreshesAtTheEndNotIfItIsCancelled() throws {
    try loaded("a", "b")
    try desk.pop("nav", .untilFinished)
    try desk.cancelTransition("nav")
    desk.hears(1)
    #expect(isVisible("a") == false)
    try desk.pop("nav", .lasting(.milliseconds(350)))
    desk.hears(1)
    desk.at(350).hears(
      1, "350 b did-disappear content", "350 a did-appear refreshing", "350 a loading refreshing",
      "350 b closed content owner-gone")
  }

  @Test func aSwipeThatIsCancelledLoadsNothingOneThatIsFinishedRevealsThePageBelow() throws {
    try loaded("a", "b", refresh: .every)
    try desk.swipe("nav", timeout: 1_000)
    try desk.cancelTransition("nav")
    try desk.swipe("nav", timeout: 1_000)
    desk.at(1_000).hears(1)
    try desk.swipe("nav", timeout: 1_000)
    try desk.finish("nav")
    desk.hears(
      1, "1000 b did-disappear content", "1000 a did-appear refreshing",
      "1000 a loading refreshing", "1000 b closed content owner-gone")
  }

  @Test func aPresentedPageCoversAsAPushedOneDoes() throws {
    try loaded("a")
    try desk.push("nav", "m", style: .presented, loading: PageAppearance())
    #expect(isVisible("a") == false)
    try desk.pop("nav")
    #expect(isVisible("a") == true)
    #expect(desk.page("m") == nil)
  }

  @Test func rootRevealsTheFirstPageThoseBetweenEndUnseenDISMISSEndsAll() throws {
    try loaded("a", "b", "c")
    _ = try desk.nav("nav") { try $0.popToRoot($1, generation: nil, at: desk.now) }
    desk.hears(
      1, "0 c did-disappear content", "0 a did-appear refreshing", "0 a loading refreshing",
      "0 c closed content owner-gone", "0 b closed content owner-gone")
    try push("d", .untilFinished)
    try desk.dismissed("nav")
    #expect(desk.page("a") == nil && desk.page("d") == nil)
    desk.unsubscribe(1, "page:*")
    #expect(desk.engine.entityCount == 0 && desk.engine.armedCount == 0)
  }

  @Test func whenTheScopeOfThePageOnTopClosesThePageBelowAppears() throws {
    try loaded("a", "b")
    try desk.close("b")
    desk.hears(
      1, "0 b did-disappear content", "0 a did-appear refreshing", "0 a loading refreshing",
      "0 b closed content owner-gone")
    try desk.close("a")
    #expect(desk.page("a") == nil)
    #expect(desk.engine.entityCount == 0)
  }

  @Test func aStackOfAClientThatDisconnectsEndsWithItsPagesAndHUDs() throws {
    try desk.push("nav", "a", owner: .connection(2), loading: PageAppearance())
    try push("b")
    desk.disconnect(2)
    #expect(desk.page("b") == nil)
    #expect(desk.hud("b") == nil)
    desk.advance()
    desk.expectEmpty()
  }

  @Test func theHUDHidesWhileALoadingPageIsCoveredAndShowsAgainWhenItIsRevealed() throws {
    try push("a")
    #expect(desk.hud("a")?.state == .visible)
    try desk.push("nav", "b")
    #expect(desk.hud("a") == nil)
    #expect(desk.page("a")?.state == .loading)
    try desk.pop("nav")
    #expect(desk.hud("a")?.state == .visible)
    _ = try desk.loaded("a")
    #expect(desk.hud("a") == nil)
  }

  @Test func pagesThatShareAScreenHandItsHUDOnWithoutAFlicker() throws {
    try push("a", screen: "window")
    desk.subscribe(1, "hud:window")
    _ = desk.takeHeard(1)
    try push("b", screen: "window")
    #expect(desk.hud("window")?.leases == 1)
    #expect(desk.takeHeard(1).allSatisfy { $0.hasPrefix("0 window updated") })
    _ = try desk.loaded("b")
    desk.hears(1, "0 window will-disappear dismissed", "0 window did-disappear dismissed")
  }

  @Test func aPageCanBeClosedOrChangedByCommandsTheStackGoesOnWithoutIt() throws {
    try loaded("a", "b")
    try desk.closePage("b")
    try desk.disappear("a")
    desk.hears(1, "0 b closed content closed")
    try desk.pop("nav")
    desk.hears(1, "0 a did-appear refreshing", "0 a loading refreshing")
  }

  @Test func aPageThatExistsIsNotPushedWithALoadThenNothingChanges() throws {
    try desk.appear("a", screen: "x")
    #expect(throws: EngineError.scope(.pageExists(Array("a".utf8)))) { try push("a") }
    #expect(desk.stack("nav") == nil && desk.scope("a") == nil)
    try desk.push("nav", "a")
    #expect(desk.stack("nav")?.pages.count == 1)
    // The existing page only has the same name; it does not follow the stack.
    try desk.push("nav", "b")
    #expect(isVisible("a") == true)
    #expect(throws: EngineError.scope(.exists(Array("b".utf8)))) { try push("b") }
  }

  @Test func aPageWithItsScopeAndHUDCountsAsThreeWithoutRoomNothingChanges() throws {
    var settings = EngineSettings()
    settings.presentation = .plain
    settings.limits.entities = 5
    let desk = Desk(settings)
    try desk.set("t", 60_000)
    try desk.set("u", 60_000)
    let limit = EngineError.limit(name: "max-entities", value: 5)
    #expect(throws: limit) { try desk.push("nav", "a", loading: PageAppearance()) }
    #expect(desk.engine.entityCount == 2)
    try desk.delete("t")
    try desk.delete("u")
    try desk.push("nav", "a", loading: PageAppearance())
    #expect(desk.engine.entityCount == 4)
    try desk.push("nav", "b")
    try desk.set("t", 60_000)
    // Without room for a HUD, a page that comes back loads without one.
    try desk.pop("nav")
    #expect(desk.page("a")?.state == .loading)
    #expect(desk.page("a")?.isVisible == true)
    #expect(desk.hud("a") == nil)
  }
}
