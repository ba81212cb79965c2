import CountdownClient
import Testing

/// Scopes, stacks and pages by the library, against the daemon itself.
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(5))) struct ScopeDaemonTests {
  @Test func ownedEntitiesEndWithTheirScope() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.scope.open("app", ttl: .seconds(30))
    let page = try await client.scope.open("page", parent: "app", owner: .connection)
    #expect(page.parent == "app" && page.depth == 2 && page.state == .open)
    let code = try await client.countdown.start("code", owner: .scope("page"))
    #expect(code.owner == .scope("page"))
    #expect(try await client.scope.get("page")?.owned == 1)
    #expect(try await client.scope.list(match: "p*").elements.map(\.key) == ["page"])
    var events = client.events(.scope("page")).makeAsyncIterator()
    #expect(try await events.next()?.scope?.owned == 1)
    _ = try await client.send("CLOCK", "ADVANCE", "29s")
    #expect(try await client.scope.touch("app").timeLeft == .seconds(30))
    #expect(try await client.scope.close("app"))
    let closed = try #require(try await events.next())
    #expect(closed.name == .closed && closed.scope?.state == .closed)
    #expect(closed.reason == .parentClosed)
    #expect(try await client.countdown.get("code") == nil)
    #expect(try await client.scope.close("app") == false)
    await #expect {
      try await client.countdown.start("code", owner: .scope("page"))
    } throws: { error in
      guard case CountdownClientError.server(.notFound, _) = error else { return false }
      return true
    }
  }

  @Test func emittedEventsReachTheirHandlers() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.scope.open("controller")
    try await client.scope.open("cell", parent: "controller")
    let events = client.handle("tap", at: "controller")
    let first = Task { () -> CountdownEvent? in
      for try await event in events where event.name == .emitted { return event }
      return nil
    }
    try await eventually {
      try await client.scope.emit("cell", event: "tap", payload: [0x37]) == "controller"
    }
    let event = try #require(try await first.value)
    #expect(event.key == "controller" && event.scope == nil)
    #expect(event.emission?.target == "cell" && event.emission?.phase == "bubble")
    #expect(event.emission?.payload == [0x37])
    #expect(try await client.scope.emit("cell", event: "swipe") == nil)
    var refused = client.handle("tap", at: "none").makeAsyncIterator()
    await #expect(throws: CountdownClientError.self) { try await refused.next() }
  }

  @Test func swipesAndPageLoadsAreReported() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.nav.push("main", page: "home", bar: .hidden)
    let pushed = try await client.nav.push("main", page: "orders", edge: 20)
    #expect(pushed.pages == ["home", "orders"] && pushed.decision == .accepted)
    #expect(try await client.nav.swipe("main", x: 30, dx: 2).reason == .outsideEdge)
    let swipe = try await client.nav.swipe("main", x: 3, dx: 2, timeout: .seconds(1))
    #expect(swipe.decision == .accepted && swipe.state == .transitioning)
    #expect(try await client.nav.progress("main", fraction: 0.5).fraction == 0.5)
    #expect(try await client.nav.cancel("main").state == .settled)
    #expect(try await client.nav.finish("main").reason == .notTransitioning)

    let set = try await client.nav.set("main", page: "home", edge: 5, pop: true, bar: .any)
    #expect(set.decision == .accepted)
    #expect(try await client.nav.set("main", page: "none", bar: .shown).reason == .noPage)
    let modal = try await client.nav.present("main", page: "modal", duration: .untilFinished)
    #expect(modal.state == .transitioning && modal.transition == .present)
    let swiped = try await client.nav.swipe("main", x: 1, dx: 1)
    #expect(swiped.reason == .transitioning)
    let shown = try await client.nav.finish("main", generation: modal.generation)
    #expect(shown.state == .settled && shown.page == "modal")
    #expect(try await client.nav.swipe("main", x: 1, dx: 1).reason == .presented)
    let popped = try await client.nav.pop("main", duration: .lasting(.seconds(60)))
    #expect(popped.transition == .pop && popped.timeLeft != nil)
    try await client.nav.finish("main")
    try await client.nav.push("main", page: "detail", loads: true, timeout: .seconds(5))
    #expect(try await client.page.get("detail")?.owner == .scope("detail"))
    try await client.nav.present("main", page: "help", loads: true, refresh: .every)
    #expect(try await client.page.get("detail")?.isVisible == false)
    try await client.nav.pop("main")
    #expect(try await client.page.get("detail")?.isVisible == true)
    try await client.nav.pop("main")
    #expect(try await client.page.get("detail") == nil)
    let page = try await client.page.appear(
      "orders", timeout: .seconds(5), owner: .scope("orders"))
    #expect(page.state == .loading && page.isAnimated)
    #expect(try await client.page.failed("orders", message: "offline").state == .error)
    let retried = try await client.page.retry("orders")
    #expect(retried.generation > page.generation)
    let empty = try await client.page.loaded("orders", items: 0, message: "none yet")
    #expect(empty.state == .empty && empty.message == "none yet")
    #expect(try await client.page.retry("orders").state == .loading)
    #expect(try await client.page.retry("orders").reason == .notFailed)
    #expect(try await client.page.refresh("orders").reason == .loading)
    #expect(try await client.page.loaded("orders").state == .content)
    #expect(try await client.page.refresh("orders").state == .refreshing)
    #expect(try await client.page.loaded("orders").decision == .accepted)
    #expect(try await client.page.disappear("orders").isVisible == false)
    #expect(try await client.page.appear("orders", refresh: .every).state == .refreshing)
    #expect(try await client.nav.pop("main").pages == ["home"])
    #expect(try await client.page.get("orders") == nil)
    #expect(try await client.nav.dismiss("main"))
    #expect(try await client.nav.get("main") == nil)
  }
}
