import Countdowns
import Testing

/// HUDs of a screen with several levels and several clients.
@Suite struct HUDEngineTests {
  let desk: Desk

  init() {
    var settings = EngineSettings()
    settings.maximumLevel = .alert
    desk = Desk(settings)
    desk.connect(2)
  }

  private func target<R>(
    _ screen: String, _ generation: Generation? = nil, level: Level? = nil,
    _ body: (Span<UInt8>, HUDTarget) throws -> R
  ) throws -> R {
    try desk.with(screen) { try body($0, HUDTarget(level: level, generation: generation)) }
  }

  private func pop(_ screen: String, by connection: UInt64) throws -> HUDView? {
    try target(screen) {
      try desk.engine.popHUD($0, $1, by: desk.client(connection), at: desk.now)
    }
  }

  @Test func stepsThatAreLateComeInTheOrderOfTheirTimesOnWhicheverLevel() throws {
    var request = Presentation.Request.plain
    desk.subscribe(1, "hud:s")
    request.grace = .milliseconds(3_000)
    try desk.show("s", request)
    request.grace = .milliseconds(1_000)
    request.fadeIn = .milliseconds(500)
    try desk.show("s", request, level: .alert)
    request.grace = .milliseconds(2_000)
    try desk.show("s", request, level: .statusbar)
    var levels: [Level] = []
    desk.unnoticed(at: 10_000)
    desk.advance()
    for event in desk.events.values.joined() where event.name == .willAppear {
      if let view = event.subject as? HUDView { levels.append(view.level) }
    }
    #expect(levels == [.alert, .statusbar, .normal])
  }

  @Test func aHUDBehindAnAlertCanBeDismissedByItsGeneration() throws {
    let shown = try desk.show("s").generation
    try desk.show("s", level: .alert)
    let gone = try target("s", shown) {
      try desk.engine.dismissHUD($0, $1, delay: nil, at: desk.now)
    }
    #expect(gone?.level == .normal)
    #expect(gone?.state == .hidden)
    #expect(desk.hud("s")?.level == .alert)
    #expect(desk.hud("s", level: .normal) == nil)
    #expect(throws: EngineError.stale(now: desk.hud("s")!.generation)) {
      try target("s", shown) { try desk.engine.pauseHUD($0, $1, at: desk.now) }
    }
  }

  private func views(_ connection: UInt64) -> [(name: Event.Name, view: HUDView)] {
    desk.takeEvents(connection).compactMap { event in
      guard event.name != .snapshot, let view = event.subject as? HUDView else { return nil }
      return (event.name, view)
    }
  }

  @Test func didDisappearReportsTheHUDThatDisappearedNotItsSuccessor() throws {
    desk.subscribe(1, "hud:s")
    var black = Presentation.Request(
      status: Array("black".utf8), fadeIn: .zero, mask: .black)
    black.isDurable = true
    let first = try desk.show("s", black, owner: .connection(2)).generation
    try desk.dismiss("s")
    _ = views(1)
    let second = try desk.show(
      "s", .init(kind: .success, status: Array("sent".utf8), fadeIn: .zero)
    ).generation
    let reported = views(1)
    #expect(reported.map(\.name) == [.didDisappear, .willAppear, .didAppear])
    #expect(reported.map(\.view.generation) == [first, second, second])
    #expect(reported.map(\.view.content) == [.loading, .success, .success])
    #expect(
      reported.map { $0.view.status.map { String(decoding: $0, as: UTF8.self) } }
        == ["black", "sent", "sent"])
    #expect(reported.map(\.view.mask) == [.black, .none, .none])
    #expect(reported.map(\.view.owner) == [.connection(2), .none, .none])
    #expect(reported.map(\.view.isDurable) == [true, false, false])
    #expect(reported.map(\.view.state) == [.hidden, .appearing, .visible])
    #expect(reported.map(\.view.remainingMS) == [nil, nil, 5_000])
  }

  @Test func didDisappearDoesNotCountTheHoldsOfTheNextGeneration() throws {
    desk.subscribe(1, "hud:s")
    try desk.show("s", .init(fadeIn: .zero))
    try desk.dismiss("s")
    _ = views(1)
    try desk.show("s", .init(fadeIn: .zero))
    #expect(views(1).map(\.view.holds.count) == [0, 1, 1])
  }

  @Test func eventsThatAreNoticedTogetherEachReportTheirOwnMoment() throws {
    desk.subscribe(1, "hud:s")
    try desk.show(
      "s", .init(grace: .milliseconds(100), maximum: .zero, fadeIn: .zero, fadeOut: .zero))
    _ = views(1)
    desk.late(at: 200)
    let reported = views(1)
    #expect(reported.map(\.name) == [.willAppear, .didAppear, .willDisappear, .didDisappear])
    #expect(reported.map(\.view.holds.count) == [1, 1, 0, 0])
    #expect(reported.map(\.view.isDismissing) == [false, false, true, false])
    #expect(reported.map(\.view.remainingMS) == [nil, 0, nil, nil])
  }

  @Test func aGenerationIsStaleOnAnyLevelButItsOwn() throws {
    let shown = try desk.show("s").generation
    let alert = try desk.show("s", level: .alert).generation
    #expect(throws: EngineError.stale(now: alert)) {
      try target("s", shown, level: .alert) { try desk.engine.pauseHUD($0, $1, at: desk.now) }
    }
  }

  @Test func popReleasesOnesOwnHoldEvenBehindAnAlert() throws {
    try desk.show("s", owner: .connection(2))
    try desk.show("s", .init(kind: .info, fadeIn: .zero, fadeOut: .zero), level: .alert)
    let popped = try pop("s", by: 2)
    #expect(popped?.level == .normal)
    #expect(popped?.end == .dismissed)
    #expect(desk.hud("s")?.level == .alert)
    // Without a hold on any level, POP returns the front HUD unchanged.
    #expect(try pop("s", by: 2)?.level == .alert)
    #expect(desk.hud("s")?.state == .visible)
  }

  @Test func popReleasesOnesOwnHoldFirstThenNobodysThenTheFrontOne() throws {
    try desk.show("s", owner: .connection(2))
    try desk.show("s", level: .statusbar)
    try desk.show("s", level: .alert, owner: .connection(1))
    #expect(try pop("s", by: 2)?.level == .normal)
    #expect(try pop("s", by: 2)?.level == .statusbar)
    #expect(try pop("s", by: 2)?.level == .alert)
    desk.expectEmpty()
  }

  @Test func eachLevelHasItsOwnGenerationTimesAndEvents() throws {
    desk.subscribe(1, "hud:s")
    try desk.show("s", .init(maximum: .seconds(1), fadeIn: .zero, fadeOut: .zero))
    try desk.show("s", .init(maximum: .seconds(2), fadeIn: .zero, fadeOut: .zero), level: .alert)
    desk.at(9_000)
    let events = desk.takeEvents(1).compactMap { event -> String? in
      guard let view = event.subject as? HUDView else { return nil }
      return "\(event.name.text) \(view.level.rawValue) \(event.generation.value)"
    }
    #expect(
      events == [
        "will-appear normal 1", "did-appear normal 1", "will-appear alert 2",
        "did-appear alert 2", "will-disappear normal 1", "did-disappear normal 1",
        "will-disappear alert 2", "did-disappear alert 2",
      ])
    desk.expectEmpty()
  }

  @Test func anEventReportsTheStateItCausedEvenIfItsCommandWentOn() throws {
    desk.subscribe(1, "hud:s")
    try desk.show("s")
    _ = try target("s") { try desk.engine.tapHUD($0, $1, inside: false, at: desk.now) }
    let states = desk.takeEvents(1).compactMap { event -> String? in
      guard let view = event.subject as? HUDView else { return nil }
      return "\(event.name.text) \(view.state.rawValue) \(view.end?.rawValue ?? "-")"
    }
    #expect(
      states == [
        "will-appear appearing -", "did-appear visible -", "touched visible -",
        "will-disappear disappearing tapped", "did-disappear hidden tapped",
      ])
  }

  @Test func aLevelAboveTheScreensHighestIsRefusedAndNothingChanges() throws {
    var settings = EngineSettings()
    settings.maximumLevelOfScreen[Array("pay".utf8)] = .statusbar
    let desk = Desk(settings)
    #expect(throws: EngineError.levelNotAllowed(.statusbar, maximum: .normal)) {
      try desk.show("s", level: .statusbar)
    }
    #expect(throws: EngineError.levelNotAllowed(.alert, maximum: .statusbar)) {
      try desk.show("pay", level: .alert)
    }
    desk.expectEmpty()
    #expect(try desk.show("pay", level: .statusbar).level == .statusbar)
  }
}
