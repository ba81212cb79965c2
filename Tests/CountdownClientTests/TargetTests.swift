import CountdownClient
import Dispatch
import Synchronization
import Testing

/// Closures and scopes that live as long as an object, against the daemon itself.
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(5))) struct TargetTests {
  final class Screen: Sendable {
    private let seen = Mutex<[String]>([])

    func note(_ text: String) { seen.withLock { $0.append(text) } }
    func see(_ event: CountdownEvent) { seen.withLock { $0.append("\(event.kind) \(event.name)") } }
    func count(of update: String) -> Int {
      seen.withLock { $0.count { $0.hasPrefix(update + " ") } }
    }
    func observers(of update: String) -> Int {
      Set(seen.withLock { $0.filter { $0.hasPrefix(update + " ") } }).count
    }
    func last(of number: Int) -> String? {
      seen.withLock { $0.last { $0.hasSuffix(" \(number)") } }
    }
    func has(seen event: String) -> Bool { seen.withLock { $0.contains(event) } }
  }

  @Test func eachKindOfEventReachesItsTarget() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let screen = Screen()
    let handles = [
      client.onEvent(of: CountdownView.self, "k", target: screen) { screen, event, view in
        #expect(view.key == "k")
        screen.see(event)
      },
      client.onEvent(of: HUDView.self, "k", target: screen) { screen, event, _ in
        screen.see(event)
      },
      client.onEvent(of: TimerView.self, "k", target: screen) { screen, event, _ in
        screen.see(event)
      },
      client.onEvent(of: PageView.self, "k", target: screen) { screen, event, _ in
        screen.see(event)
      },
      client.onEvent(of: GateView.self, "k", target: screen) { screen, event, _ in
        screen.see(event)
      },
    ]
    for kind in ["countdown", "hud", "timer", "page", "gate"] {
      try await eventually { screen.has(seen: "\(kind) snapshot") }
    }
    _ = try await client.countdown.start("k", count: 2)
    try await client.hud.show("k")
    try await client.timer.set("k", after: .seconds(1))
    _ = try await client.gate.check("k", action: "open")
    try await client.page.appear("k")
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    for event in [
      "countdown tick", "hud will-appear", "timer fired", "gate pending", "page loading",
    ] {
      try await eventually { screen.has(seen: event) }
    }
    // One who comes later begins with a snapshot, too.
    let late = Screen()
    let handle = client.onEvent(of: CountdownView.self, "k", target: late) { late, event, _ in
      late.see(event)
    }
    try await eventually { late.has(seen: "countdown snapshot") }
    handle.cancel()
    for handle in handles { handle.cancel() }
    #expect(!late.has(seen: "countdown tick"))
  }

  @Test func aHandleCanEndItsEntity() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let screen = Screen()
    try await client.timer.set("kept", after: .seconds(9))
    try await client.timer.set("ended", after: .seconds(9))
    var handles = ["kept", "ended"].map { key in
      client.onEvent(of: TimerView.self, key, target: screen, endsEntity: key == "ended") {
        $0.see($1)
        _ = $2
      }
    }
    #expect(handles.count == 2)
    handles = []
    try await eventually { try await client.timer.get("ended") == nil }
    #expect(try await client.timer.get("kept") != nil)
  }

  @Test func anEntityEndsAfterTheNextStartIfTheDaemonIsKilledMeanwhile() async throws {
    let daemon = Daemon(isDurable: true)
    let client = try await daemon.start()
    let screen = Screen()
    _ = try await client.countdown.start("ended", count: 600, every: .seconds(1))
    _ = try await client.countdown.start("kept", count: 600, every: .seconds(1))
    var handles = ["kept", "ended"].map { key in
      client.onEvent(of: CountdownView.self, key, target: screen, endsEntity: key == "ended") {
        screen, event, view in screen.note("\(event.name) \(view.key)")
      }
    }
    #expect(handles.count == 2)
    try await eventually {
      screen.has(seen: "snapshot ended") && screen.has(seen: "snapshot kept")
    }
    daemon.kill()
    handles = []
    let second = try await daemon.start()
    try await eventually { try await second.countdown.get("ended") == nil }
    #expect(try await second.countdown.get("kept") != nil)
  }

  /// What an observer received, and whether it ran on its queue.
  private static func text(_ update: EntityUpdate<CountdownView>) -> String {
    switch update {
    case .event(let event, _): "\(event.name)"
    case .disconnected: "disconnected"
    case .resubscribed: "resubscribed"
    case .gap: "gap"
    case .end: "end"
    }
  }

  @Test func aThousandObserversFollowTheDaemonThroughARestart() async throws {
    let daemon = Daemon(isDurable: true)
    let client = try await daemon.start()
    let screen = Screen()
    let queue = DispatchQueue(label: "observers")
    let handles = (0..<1_000).map { number in
      client.onUpdate(of: CountdownView.self, "k\(number)", target: screen, queue: queue) {
        screen, update in
        dispatchPrecondition(condition: .onQueue(queue))
        screen.note("\(Self.text(update)) \(number)")
      }
    }
    try await eventually { screen.count(of: "snapshot") == 1_000 }
    daemon.kill()
    try await eventually { screen.count(of: "disconnected") == 1_000 }
    _ = try await daemon.start()
    // Each has another snapshot after the restart.
    try await eventually { screen.count(of: "snapshot") == 2_000 }
    for update in ["snapshot", "disconnected", "resubscribed"] {
      #expect(screen.observers(of: update) == 1_000)
    }
    await client.close()
    try await eventually { screen.count(of: "end") == 1_000 }
    #expect(screen.last(of: 7) == "end 7")
    for handle in handles { handle.cancel() }
  }

  @Test @MainActor func updatesOnTheMainActorEndWithTheirTarget() async throws {
    final class View: Sendable { let seen = Mutex<[String]>([]) }
    let server = try await StandInServer { words, peer in
      guard words[0] == "SUBSCRIBE" else { return nil }
      peer.push(
        message("countdown:k", #"{"event":"snapshot","key":"k","state":"ready","seq":1}"#))
      return nil
    }
    let client = try await Client.connect(path: server.path)
    var view: View? = View()
    let log = Mutex(0)
    let handle = client.onUpdate(of: CountdownView.self, "k", mainActor: view!) { view, update in
      MainActor.assertIsolated()
      view.seen.withLock { $0.append(Self.text(update)) }
      log.withLock { $0 += 1 }
    }
    try await eventually { view?.seen.withLock { $0 } == ["snapshot"] }
    for peer in server.connections { peer.hangUp() }
    try await eventually { view?.seen.withLock { $0.contains("resubscribed") } == true }
    #expect(view?.seen.withLock { $0.prefix(2) } == ["snapshot", "disconnected"])
    view = nil
    let calls = log.withLock { $0 }
    await client.close()
    handle.cancel()
    #expect(log.withLock { $0 } == calls)
  }

  @Test func endingNamesTheGenerationThatWasSeen() async throws {
    let server = try await StandInServer { words, peer in
      guard words[0] == "SUBSCRIBE" else { return words[0] == "EVENTS" ? nil : ":1\r\n" }
      peer.push(
        message(
          "timer:k", #"{"event":"snapshot","key":"k","state":"running","generation":7,"seq":1}"#))
      return nil
    }
    let client = try await Client.connect(path: server.path)
    let screen = Screen()
    var handle: EventHandle? = client.onEvent(
      of: TimerView.self, "k", target: screen, endsEntity: true
    ) { screen, event, _ in screen.note("\(event.name)") }
    try await eventually { screen.has(seen: "snapshot") }
    #expect(handle != nil)
    handle = nil
    try await eventually { server.commands.contains(["TIMER", "DEL", "k", "GENERATION", "7"]) }
  }

  @Test func aScopeClosesWithItsObject() async throws {
    final class Controller: Sendable {
      let scope: ScopeHandle
      init(_ scope: ScopeHandle) { self.scope = scope }
    }
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.scope.open("app")
    var controller: Controller? = Controller(try await client.openScope(parent: "app"))
    let key = try #require(controller?.scope.key)
    try await client.timer.set("refresh", after: .seconds(30), owner: .scope(key))
    #expect(try await client.scope.get(key)?.parent == "app")
    controller = nil
    try await eventually { try await client.timer.get("refresh") == nil }
    #expect(try await client.scope.tree("app").elements.map(\.key) == ["app"])
  }

  @Test func aScopeIsOpenedAgainAfterARestartWhileItsObjectLives() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let app = try await client.openScope("app")
    var page: ScopeHandle? = try await client.openScope("page", parent: "app")
    let closed = try await client.openScope("closed", parent: "app")
    var released: ScopeHandle? = try await client.openScope("released")
    var events = client.events(.scope("closed")).makeAsyncIterator()
    #expect(try await events.next()?.name == .snapshot)
    #expect(try await client.scope.close("closed"))
    while try await events.next()?.name != .closed {}
    daemon.kill()
    #expect(released != nil)
    released = nil
    let second = try await daemon.start()
    // The scope above may come back later.
    try await eventually { try await second.scope.get("page")?.parent == "app" }
    #expect(try await second.scope.get("closed") == nil)
    #expect(try await second.scope.get("released") == nil)
    #expect(page?.key == "page")
    page = nil
    try await eventually { try await second.scope.get("page") == nil }
    #expect(try await second.scope.get("app") != nil)
    withExtendedLifetime((app, closed)) {}
  }

  @Test func timersHUDsAndListsHaveTheirCalls() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.timer.set("t", after: .seconds(9))
    #expect(try await client.timer.pause("t").state == .paused)
    #expect(try await client.timer.resume("t").state == .running)
    #expect(try await client.timer.retime("t", remaining: .seconds(3)).timeLeft == .seconds(3))
    try await client.hud.show("main")
    #expect(try await client.hud.pause("main")?.isPaused == true)
    #expect(try await client.hud.resume("main")?.isPaused == false)
    try await client.nav.push("main", page: "home")
    #expect(try await client.nav.list().elements.map(\.key) == ["main"])
    try await client.page.appear("home")
    #expect(try await client.page.list(match: "h*").elements.map(\.key) == ["home"])
  }
}
