import CountdownClient
import Testing

/// Scopes, stacks and pages by the library, against the daemon itself.
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(1))) struct ScopeDaemonTests {
  @Test func ownedEntitiesEndWithTheirScope() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.openScope("app", ttl: .seconds(30))
    let page = try await client.openScope("page", parent: "app", owner: .connection)
    #expect(page.parent == "app" && page.depth == 2 && page.state == .open)
    let code = try await client.startCountdown("code", owner: .scope("page"))
    #expect(code.owner == "scope:page")
    #expect(try await client.scope("page")?.owned == 1)
    #expect(try await client.scopes(matching: "p*").elements.map(\.key) == ["page"])
    var events = client.events(channels: ["scope:page"]).makeAsyncIterator()
    #expect(try await events.next()?.scope?.owned == 1)
    _ = try await client.send("CLOCK", "ADVANCE", "29s")
    #expect(try await client.touchScope("app").remainingTime == .seconds(30))
    #expect(try await client.closeScope("app"))
    let closed = try #require(try await events.next())
    #expect(closed.name == .closed && closed.scope?.state == .closed)
    #expect(closed.reason == "parent-closed")
    #expect(try await client.countdown("code") == nil)
    #expect(try await client.closeScope("app") == false)
    await #expect {
      try await client.startCountdown("code", owner: .scope("page"))
    } throws: { error in
      guard case CountdownClientError.server("NOTFOUND", _) = error else { return false }
      return true
    }
  }

  @Test func emittedEventsReachTheirHandlers() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.openScope("controller")
    try await client.openScope("cell", parent: "controller")
    let events = client.handle("tap", at: "controller")
    let first = Task { () -> CountdownEvent? in
      for try await event in events where event.name == .emitted { return event }
      return nil
    }
    try await eventually {
      try await client.emit("tap", to: "cell", payload: [0x37]) == "controller"
    }
    let event = try #require(try await first.value)
    #expect(event.key == "controller" && event.scope == nil)
    #expect(event.emission?.target == "cell" && event.emission?.phase == "bubble")
    #expect(event.emission?.payload == "7")
    #expect(try await client.emit("swipe", to: "cell") == nil)
    var refused = client.handle("tap", at: "none").makeAsyncIterator()
    await #expect(throws: CountdownClientError.self) { try await refused.next() }
  }

  @Test func swipesAndPageLoadsAreReported() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.pushPage("home", on: "main", bar: .hidden)
    let pushed = try await client.pushPage("orders", on: "main", edge: 20)
    #expect(pushed.pages == ["home", "orders"] && pushed.accepted == true)
    #expect(try await client.beginSwipe(on: "main", x: 30, dx: 2).reason == .outsideEdge)
    let swipe = try await client.beginSwipe(on: "main", x: 3, dx: 2, timeout: .seconds(1))
    #expect(swipe.accepted == true && swipe.state == .transitioning)
    #expect(try await client.setTransitionProgress(on: "main", fraction: 0.5).fraction == 0.5)
    #expect(try await client.cancelTransition(on: "main").state == .settled)
    #expect(try await client.finishTransition(on: "main").reason == .notTransitioning)

    let set = try await client.setPage(
      "home", on: "main", edge: 5, canBeSwipedAway: true, bar: .any)
    #expect(set.accepted == true)
    #expect(try await client.setPage("none", on: "main", bar: .shown).reason == .noPage)
    let modal = try await client.presentPage("modal", on: "main", duration: .untilFinished)
    #expect(modal.state == .transitioning && modal.transition == .present)
    let swiped = try await client.beginSwipe(on: "main", x: 1, dx: 1)
    #expect(swiped.reason == .transitioning)
    let shown = try await client.finishTransition(on: "main", generation: modal.generation)
    #expect(shown.state == .settled && shown.page == "modal")
    #expect(try await client.beginSwipe(on: "main", x: 1, dx: 1).reason == .presented)
    let popped = try await client.popPage(of: "main", duration: .lasting(.seconds(60)))
    #expect(popped.transition == .pop && popped.remainingTime != nil)
    try await client.finishTransition(on: "main")
    try await client.pushPage("detail", on: "main", load: .init(timeout: .seconds(5)))
    #expect(try await client.page("detail")?.owner == "scope:detail")
    try await client.presentPage("help", on: "main", load: .init(refresh: .every))
    #expect(try await client.page("detail")?.isVisible == false)
    try await client.popPage(of: "main")
    #expect(try await client.page("detail")?.isVisible == true)
    try await client.popPage(of: "main")
    #expect(try await client.page("detail") == nil)
    let page = try await client.pageAppeared(
      "orders", timeout: .seconds(5), owner: .scope("orders"))
    #expect(page.state == .loading && page.isAnimated)
    #expect(try await client.pageFailed("orders", message: "offline").state == .error)
    let retried = try await client.retryPage("orders")
    #expect(retried.generation > page.generation)
    let empty = try await client.pageLoaded("orders", items: 0, message: "none yet")
    #expect(empty.state == .empty && empty.message == "none yet")
    #expect(try await client.retryPage("orders").state == .loading)
    #expect(try await client.retryPage("orders").reason == "not-failed")
    #expect(try await client.refreshPage("orders").reason == "loading")
    #expect(try await client.pageLoaded("orders").state == .content)
    #expect(try await client.refreshPage("orders").state == .refreshing)
    #expect(try await client.pageLoaded("orders").accepted == true)
    #expect(try await client.pageDisappeared("orders").isVisible == false)
    #expect(try await client.pageAppeared("orders", refresh: .every).state == .refreshing)
    #expect(try await client.popPage(of: "main").pages == ["home"])
    #expect(try await client.page("orders") == nil)
    #expect(try await client.dismissStack("main"))
    #expect(try await client.stack("main") == nil)
  }
}
