import Countdowns
import Testing

/// Scopes: ownership, closing, leases and events.
@Suite struct ScopeTests {
  let desk = Desk()

  init() { desk.connect(2) }

  /// Opens `app`, `page` below `app`, and `cell` below `page`.
  private func openThree() throws {
    try desk.open("app")
    try desk.open("page", below: "app")
    try desk.open("cell", below: "page")
  }

  // MARK: Opening

  @Test func aScopeOpensBelowItsParentAndCountsAsAnEntity() throws {
    try openThree()
    let cell = try #require(desk.scope("cell"))
    #expect(cell.parent == Array("page".utf8))
    #expect(cell.depth == 3)
    #expect(desk.scope("app")?.children == 1)
    #expect(desk.engine.entityCount == 3)
    #expect(desk.engine.armedCount == 0)
  }

  @Test func openOfAnOpenScopeKeepsItAnotherParentOrOwnerIsAnError() throws {
    try openThree()
    let before = desk.scope("cell")
    #expect(try desk.open("cell") == before)
    #expect(try desk.open("cell", below: "page") == before)
    #expect(throws: EngineError.scope(.otherParent(Array("page".utf8)))) {
      try desk.open("cell", below: "app")
    }
    #expect(throws: EngineError.scope(.otherParent(nil))) { try desk.open("app", below: "none") }
    #expect(throws: EngineError.scope(.otherOwner(.none))) {
      try desk.open("cell", owner: .connection(2))
    }
    #expect(desk.scope("cell") == before)
  }

  @Test func aScopeCannotBeBelowItself() throws {
    try openThree()
    for below in ["app", "page", "cell"] {
      #expect(throws: EngineError.scope(.parentBelow(Array(below.utf8)))) {
        try desk.open("app", below: below)
      }
    }
    #expect(throws: EngineError.scope(.noScope(Array("new".utf8)))) {
      try desk.open("new", below: "new")
    }
  }

  @Test func depthFanOutAndEntitiesHaveLimits() throws {
    var settings = EngineSettings()
    settings.limits.scopeDepth = 2
    settings.limits.scopeChildren = 2
    settings.limits.entities = 4
    let desk = Desk(settings)
    try desk.open("1")
    try desk.open("2", below: "1")
    #expect(throws: EngineError.limit(name: "max-scope-depth", value: 2)) {
      try desk.open("3", below: "2")
    }
    try desk.open("3", below: "1")
    #expect(throws: EngineError.limit(name: "max-scope-children", value: 2)) {
      try desk.open("4", below: "1")
    }
    try desk.open("4")
    #expect(throws: EngineError.limit(name: "max-entities", value: 4)) { try desk.open("5") }
    try desk.close("1")
    #expect(desk.engine.entityCount == 1)
    try desk.open("5")
  }

  // MARK: Closing

  @Test func closingGoesChildrenFirstOwnedEntitiesEndAsOwnerGoneBeforeTheirOwner() throws {
    try openThree()
    try desk.open("other", below: "app")
    try desk.start("code", owner: try desk.scoped("page"))
    try desk.set("t", 60_000, owner: try desk.scoped("cell"))
    try desk.show("hud", owner: try desk.scoped("cell"))
    #expect(desk.scope("cell")?.owned == 2)
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    #expect(try desk.close("page"))
    let heard = desk.takeHeard(1)
    #expect(
      Set(heard[..<3]) == [
        "0 t cancelled owner-gone", "0 hud will-disappear owner-gone",
        "0 hud did-disappear owner-gone",
      ])
    #expect(
      heard[3...] == [
        "0 cell closed parent-closed", "0 code cancelled 60 owner-gone", "0 page closed closed",
      ])
    #expect(desk.engine.entityCount == 2)
    #expect(try !desk.close("page"))
    #expect(desk.scope("other") != nil)
    try desk.close("app")
    desk.expectEmpty()
  }

  @Test func aStaleGENERATIONClosesNothing() throws {
    let old = try desk.open("a").generation
    try desk.close("a")
    let new = try desk.open("a").generation
    #expect(new > old)
    #expect(throws: EngineError.stale(now: new)) { try desk.close("a", old.value) }
    #expect(desk.scope("a")?.generation == new)
    #expect(try desk.close("a", new.value))
  }

  @Test func everythingBelowAClosedScopeFallsSilentAtOnce() throws {
    try desk.open("app")
    try desk.open("a", below: "app")
    for index in 0..<5_000 { try desk.open("\(index)", below: "a") }
    let owner = try desk.scoped("4999")
    try desk.set("t", 1_000, owner: owner)
    try desk.start("code", count: 1, owner: owner)
    desk.subscribe(1, "timer:t")
    _ = desk.takeHeard(1)
    try desk.close("app")
    #expect(desk.engine.entityCount > 4_000)
    #expect(desk.scope("app") == nil)
    #expect(desk.scope("4999") == nil)
    #expect(desk.timer("t") == nil)
    desk.hears(1, "0 t cancelled owner-gone")
    #expect(throws: EngineError.scope(.noScope(Array("4999".utf8)))) { try desk.scoped("4999") }
    #expect(throws: EngineError.scope(.noScope(Array("app".utf8)))) {
      try desk.open("new", below: "app")
    }
    desk.unnoticed(at: 1_000)
    #expect(!desk.step(1))
    desk.advance()
    #expect(desk.get("code") == nil)
    desk.expectEmpty()
  }

  @Test func aScopeCannotBeOpenedAgainUntilItIsCompletelyClosed() throws {
    try desk.open("app")
    for index in 0..<5_000 { try desk.open("\(index)", below: "app") }
    try desk.close("app")
    #expect(throws: EngineError.scope(.isClosing(Array("app".utf8)))) { try desk.open("app") }
    desk.advance()
    try desk.open("app")
    // A few scopes are closed within the call.
    for index in 0..<10 { try desk.open("\(index)", below: "app") }
    try desk.close("app")
    try desk.open("app")
  }

  @Test func closingInsideOrAboveAScopeThatIsBeingClosedWorks() throws {
    try desk.open("top")
    try desk.open("a", below: "top")
    for index in 0..<2_000 { try desk.open("\(index)", below: "a") }
    for index in 0..<2_000 { try desk.set("\(index)", 60_000, owner: try desk.scoped("\(index)")) }
    desk.subscribe(1, pattern: "scope:*")
    _ = desk.takeHeard(1)
    try desk.close("a")
    _ = desk.step(7)
    try desk.close("top")
    #expect(try !desk.close("a"))
    _ = desk.step(7)
    desk.advance()
    desk.expectEmpty()
    let closed = desk.takeHeard(1)
    #expect(closed.count == 2_002)
    #expect(Set(closed).count == 2_002)
    #expect(closed.last == "0 top closed closed")
  }

  @Test func aScopeWithOWNERScopeIDClosesWithThatScopeButSendsItNoEvents() throws {
    try desk.open("owner")
    try desk.open("mine", owner: try desk.scoped("owner"))
    let view = try #require(desk.scope("mine"))
    #expect(view.parent == nil)
    try desk.handle("owner", "tap", by: 2)
    #expect(try desk.emit("tap", for: "mine") == nil)
    desk.subscribe(1, "scope:mine")
    try desk.close("owner")
    desk.hears(1, "0 mine snapshot open", "0 mine closed owner-gone")
    desk.expectEmpty()
  }

  @Test func parentAndOWNERScopeIDExcludeOneAnother() throws {
    try openThree()
    let owner = try desk.scoped("app")
    #expect(throws: EngineError.scope(.parentAndOwner)) {
      try desk.open("new", below: "page", owner: owner)
    }
  }

  @Test func aScopeInAReusedPlaceOwnsNothingOfItsPredecessor() throws {
    try desk.open("old")
    let owner = try desk.scoped("old")
    try desk.close("old")
    try desk.open("new")
    try desk.set("t", 1_000, owner: owner)
    desk.at(0)
    #expect(desk.timer("t") == nil)
    #expect(desk.scope("new")?.owned == 0)
  }

  // MARK: Leases and connections

  @Test func aScopeClosesWhenItsLeaseExpiresOnceAndNotEarlier() throws {
    desk.subscribe(1, "scope:a")
    try desk.open("a", ttl: 1_000)
    try desk.set("t", 60_000, owner: try desk.scoped("a"))
    #expect(desk.at(600).scope("a")?.remainingMS == 400)
    try desk.touch("a")
    desk.at(1_599)
    #expect(desk.scope("a")?.remainingMS == 1)
    desk.at(1_600)
    desk.hears(1, "0 a snapshot closed", "0 a opened", "1600 a closed expired")
    desk.expectEmpty()
  }

  @Test func touchAndOPENWithTTLChangeTheLengthOfTheLease() throws {
    try desk.open("a", ttl: 1_000)
    #expect(try desk.touch("a", ttl: 5_000).ttlMS == 5_000)
    desk.at(2_000)
    #expect(try desk.touch("a").remainingMS == 5_000)
    #expect(try desk.open("a", ttl: 100).remainingMS == 100)
    desk.at(2_100)
    desk.expectEmpty()
  }

  @Test func touchOfAScopeWithoutALeaseIsRefused() throws {
    try desk.open("a")
    #expect(throws: EngineError.scope(.noLease)) { try desk.touch("a") }
    #expect(throws: EngineError.scope(.noLease)) { try desk.open("a", ttl: 100) }
    #expect(throws: EngineError.notFound) { try desk.touch("b") }
  }

  @Test func anExpiredLeaseCountsAtOnceEvenIfUnnoticed() throws {
    try desk.open("a", ttl: 1_000)
    try desk.open("b", below: "a")
    try desk.set("t", 1_000, owner: try desk.scoped("b"))
    desk.unnoticed(at: 1_000)
    #expect(desk.scope("b") == nil)
    #expect(throws: EngineError.notFound) { try desk.touch("a") }
    // The keys of expired scopes are free.
    try desk.open("b")
    #expect(desk.scope("a") == nil)
    #expect(desk.timer("t") == nil)
    #expect(desk.engine.entityCount == 1)
  }

  @Test func ofTwoExpiredLeasesTheUpperOneIsTheReason() throws {
    try desk.open("a", ttl: 1_000)
    try desk.open("b", below: "a", ttl: 500)
    desk.subscribe(1, "scope:b")
    desk.late(at: 1_000).hears(1, "0 b snapshot open", "1000 b closed parent-closed")
    desk.expectEmpty()
  }

  @Test func aConnectionsScopesCloseWithItAndEverythingBelowThem() throws {
    try desk.open("a", owner: .connection(2), by: 2)
    try desk.open("b", below: "a")
    try desk.open("mine")
    desk.subscribe(1, pattern: "scope:*")
    _ = desk.takeHeard(1)
    desk.disconnect(2)
    #expect(desk.scope("b") == nil)
    desk.advance()
    desk.hears(1, "0 b closed parent-closed", "0 a closed owner-gone")
    #expect(desk.engine.entityCount == 1)
  }

  // MARK: Events

  @Test func anEventBubblesUpToTheFirstHandlerAndNoFurther() throws {
    try openThree()
    desk.connect(3)
    try desk.handle("app", "tap", by: 3)
    #expect(try desk.emit("tap", for: "cell") == "app")
    try desk.handle("page", "tap", by: 2)
    #expect(try desk.emit("tap", for: "cell") == "page")
    #expect(try desk.emit("swipe", for: "cell") == nil)
    #expect(try desk.emit("tap", for: "app") == "app")
    desk.hears(2, "0 page emitted tap for cell")
    desk.hears(3, "0 app emitted tap for cell", "0 app emitted tap for app")
  }

  @Test func capturingHandlersGetTheEventOnItsWayDownTheUppermostFirst() throws {
    try openThree()
    desk.connect(3)
    try desk.handle("cell", "tap", by: 2)
    try desk.handle("page", "tap", capture: true, by: 3)
    #expect(try desk.emit("tap", for: "cell") == "page")
    try desk.handle("app", "*", capture: true, by: 2)
    #expect(try desk.emit("tap", for: "cell") == "app")
    desk.hears(3, "0 page emitted tap for cell captured")
    desk.hears(2, "0 app emitted tap for cell captured")
    desk.unhandle("app", "*", by: 2)
    desk.unhandle("page", "tap", by: 3)
    #expect(try desk.emit("tap", for: "cell") == "cell")
  }

  @Test func handlersOfClosedConnectionsAreSkippedBeforeAndAfterTheCleanup() throws {
    try openThree()
    desk.connect(3)
    try desk.handle("cell", "tap", by: 2)
    try desk.handle("page", "tap", by: 3)
    desk.disconnect(2)
    #expect(try desk.emit("tap", for: "cell") == "page")
    #expect(desk.scope("cell")?.handlers == 1)
    desk.advance()
    #expect(desk.scope("cell")?.handlers == 0)
    #expect(try desk.emit("tap", for: "cell") == "page")
  }

  @Test func aRESP2HandlerThatIsNotSubscribedIsSkipped() throws {
    try openThree()
    try desk.handle("cell", "tap", by: 2)
    #expect(try desk.emit("tap", for: "cell", deaf: [2]) == nil)
    desk.subscribe(2, "timer:whatever")
    #expect(try desk.emit("tap", for: "cell", deaf: [2]) == "cell")
    desk.hears(2, "0 whatever snapshot idle", "0 cell emitted tap for cell")
  }

  @Test func subscribersOfAScopeReceiveItsStatusNotTheEmittedEvents() throws {
    try openThree()
    desk.subscribe(1, "scope:cell")
    try desk.handle("cell", "tap", by: 2)
    try desk.emit("tap", for: "cell")
    desk.hears(1, "0 cell snapshot open")
  }

  @Test func handlersAreLimitedHandlingTheSameEventTwiceCountsOnce() throws {
    var settings = EngineSettings()
    settings.limits.scopeHandlers = 1
    let desk = Desk(settings)
    try desk.open("a")
    #expect(try desk.handle("a", "tap", by: 1))
    #expect(try !desk.handle("a", "tap", by: 1))
    #expect(throws: EngineError.limit(name: "max-scope-handlers", value: 1)) {
      try desk.handle("a", "swipe", by: 1)
    }
    #expect(desk.unhandle("a", "tap", by: 1))
    #expect(!desk.unhandle("a", "tap", by: 1))
    #expect(try desk.handle("a", "swipe", by: 1))
    #expect(throws: EngineError.notFound) { try desk.handle("none", "tap", by: 1) }
    #expect(throws: EngineError.notFound) { try desk.emit("tap", for: "none") }
  }

  @Test func anOwnerThatStopsHandlingStillOwnsItsEntities() throws {
    try desk.open("a", owner: .connection(2), by: 2)
    try desk.open("b")
    try desk.handle("a", "tap", by: 2)
    try desk.handle("b", "tap", by: 2)
    desk.unhandle("a", "tap", by: 2)
    desk.disconnect(2)
    desk.advance()
    #expect(desk.scope("a") == nil)
    #expect(desk.scope("b")?.handlers == 0)
  }

  @Test func ownedEntitiesEndBeforeTheirScopeEvenIfAScopeAboveClosesMeanwhile() throws {
    try openThree()
    for number in 0..<600 { try desk.set("t\(number)", 60_000, owner: try desk.scoped("cell")) }
    desk.subscribe(1, pattern: "*")
    _ = desk.takeHeard(1)
    // The scope owns more entities than one call cancels.
    #expect(try desk.close("page"))
    #expect(try desk.close("app"))
    desk.at(1)
    let heard = desk.takeHeard(1)
    let closed = try #require(heard.firstIndex { $0.contains("cell closed") })
    #expect(heard[..<closed].count { $0.contains(" cancelled ") } == 600)
    #expect(heard[closed...].count == 3)
    desk.expectEmpty()
  }

  // MARK: Suspends

  /// mecatl-1333: a scope whose owner slept as well does not close, and its work is not done twice
  @Test func aLeaseHasAMomentAfterASuspend() throws {
    try desk.open("w", ttl: 30_000)
    let owner = try desk.scoped("w")
    var work = OnceRequest(ttl: .days(1))
    work.owner = owner
    let begin = { [desk, work] in
      try desk.with("job") {
        try desk.engine.beginOnce($0, work, by: desk.client(1), at: desk.now).refusal == nil
      }
    }
    #expect(try begin())
    desk.at(10_000).suspended(until: 8 * 3_600_000)
    #expect(desk.scope("w")?.remainingMS == 10_000)
    #expect(try !begin())
    desk.at(8 * 3_600_000 + 9_999)
    #expect(try desk.touch("w").remainingMS == 30_000)
    desk.at(8 * 3_600_000 + 39_998)
    #expect(desk.scope("w") != nil)
    desk.at(8 * 3_600_000 + 39_999)
    #expect(desk.scope("w") == nil)
  }

  @Test func aLeaseThatNobodyTouchesAfterASuspendEnds() throws {
    desk.subscribe(1, pattern: "scope:*")
    try desk.open("short", ttl: 500)
    try desk.open("long", ttl: 60_000)
    try desk.open("below", below: "short")
    desk.at(100).suspended(until: 50_000)
    #expect(desk.scope("short")?.remainingMS == 500)
    desk.late(at: 50_499)
    #expect(desk.scope("below") != nil)
    desk.late(at: 50_500)
    #expect(desk.scope("short") == nil)
    #expect(desk.scope("below") == nil)
    #expect(desk.scope("long")?.remainingMS == 9_500)
    desk.late(at: 60_000)
    #expect(desk.scope("long") == nil)
    desk.expectEmpty()
  }

  @Test func aLeaseThatWasOverBeforeTheSuspendStaysOver() throws {
    try desk.open("s", ttl: 500)
    desk.at(600).suspended(until: 50_000)
    #expect(desk.scope("s") == nil)
  }

  @Test func eachSuspendGivesAMoment() throws {
    try desk.open("s", ttl: 5_000)
    desk.at(1_000).suspended(until: 20_000)
    desk.at(24_000).suspended(until: 90_000)
    #expect(desk.scope("s")?.remainingMS == 5_000)
    desk.at(94_999)
    #expect(desk.scope("s") != nil)
    desk.at(95_000)
    #expect(desk.scope("s") == nil)
    desk.expectEmpty()
  }
}
