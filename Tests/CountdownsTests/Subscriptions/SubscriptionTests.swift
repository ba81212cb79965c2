import Countdowns
import SeededRandom
import Simulation
import Testing

/// Which subscribers receive which events, and from which moment.
@Suite struct SubscriptionTests {
  let desk = Desk()

  @Test func aLateSubscriberGetsASnapshotFirstThenTheTicksFromThereOn() throws {
    try desk.start("a", count: 4)
    desk.at(1_500)
    desk.subscribe(1, "countdown:a")
    desk.at(4_000).hears(
      1, "1500 a snapshot 3", "2000 a tick 2", "3000 a tick 1", "4000 a ready 0")
  }

  @Test func anEarlySubscriberGetsIdleFirstThenStartedAndTheTicks() throws {
    desk.subscribe(1, "countdown:a")
    try desk.at(100).start("a", count: 2)
    desk.at(9_000).hears(
      1, "0 a snapshot idle", "100 a started 2", "1100 a tick 1", "2100 a ready 0")
  }

  @Test func theSnapshotComesFirstEvenIfSomethingUnnoticedWasDue() throws {
    try desk.start("a", count: 1)
    try desk.start("b", count: 2)
    try desk.set("t", 1_000, every: 1_000)
    desk.unnoticed(at: 1_500)
    desk.subscribe(1, "countdown:a")
    desk.subscribe(1, "countdown:b")
    desk.subscribe(1, "timer:t")
    desk.hears(1, "1500 a snapshot 0", "1500 b snapshot 1", "1500 t snapshot")
  }

  @Test func unwatchedACountdownHasOneArmedTimerAndNoTicks() throws {
    try desk.start("a", count: 1_000_000)
    #expect(desk.engine.nextDeadline.boot == Instant(microseconds: 1_000_000_000_000))
    #expect(desk.engine.armedCount == 1)
    desk.subscribe(1, "countdown:a")
    #expect(desk.engine.nextDeadline.boot == Instant(microseconds: 1_000_000))
    #expect(desk.engine.armedCount == 1)
    desk.at(1_000)
    desk.unsubscribe(1, "countdown:a")
    desk.at(2_000)
    #expect(desk.engine.nextDeadline.boot == Instant(microseconds: 1_000_000_000_000))
    desk.hears(1, "0 a snapshot 1000000", "1000 a tick 999999")
  }

  @Test func subscribingAgainSendsTheSnapshotAgainAndEachEventOnce() throws {
    try desk.start("a", count: 2)
    desk.subscribe(1, "countdown:a")
    desk.subscribe(1, "countdown:a")
    desk.at(1_000).hears(1, "0 a snapshot 2", "0 a snapshot 2", "1000 a tick 1")
    #expect(desk.engine.subscriptionCount(of: 1) == 1)
  }

  @Test func aChannelAndAMatchingPatternEachDeliverTheEvent() throws {
    desk.subscribe(1, "countdown:a")
    desk.subscribe(1, pattern: "countdown:*")
    try desk.start("a", count: 1)
    desk.at(1_000).hears(
      1, "0 a snapshot idle", "0 a started 1", "0 a started 1", "1000 a ready 0", "1000 a ready 0")
  }

  @Test func channelsOfDifferentKindsAreSeparateUnknownOnesAreAboutNothing() throws {
    for channel in ["hud:a", "timer:a", "other", "countdown:", "countdown"] {
      desk.subscribe(1, channel)
    }
    desk.hears(1, "0 a snapshot hidden", "0 a snapshot idle")
    try desk.start("a", count: 1)
    desk.at(1_000).hears(1)
    #expect(desk.engine.channelCount == 5)
    #expect(desk.engine.subscriberCount(of: Array("other".utf8)) == 1)
  }

  @Test func eachLevelOfAScreenHasItsSnapshot() throws {
    var settings = EngineSettings()
    settings.maximumLevel = .alert
    let desk = Desk(settings)
    try desk.show("s", level: .alert)
    try desk.show("s", level: .normal)
    desk.subscribe(1, "hud:s")
    desk.hears(1, "0 s snapshot", "0 s snapshot")
    #expect(desk.hud("s")?.level == .alert)
    try desk.dismiss("s")
    #expect(desk.hud("s")?.level == .normal)
    #expect(throws: EngineError.levelNotAllowed(.alert, maximum: .normal)) {
      try Desk().show("s", level: .alert)
    }
  }

  // MARK: Patterns

  @Test func eachEventReachesThePatternsThatMatchItAtThatMoment() throws {
    for connection in 2...4 as ClosedRange<UInt64> { desk.connect(connection) }
    for (connection, pattern) in [(1, "countdown:a*"), (2, "countdown:?b"), (3, "countdown:a*")] {
      desk.subscribe(UInt64(connection), pattern: pattern)
    }
    func ready(_ key: String) throws -> [UInt64] {
      try desk.start(key, count: 1)
      desk.at(desk.now.boot.microseconds / 1_000 + 1_000)
      return (1...4).filter { desk.takeHeard($0).contains { $0.hasSuffix("\(key) ready 0") } }
    }
    #expect(try ready("aa") == [1, 3])
    #expect(try ready("ac") == [1, 3])
    #expect(try ready("ab") == [1, 2, 3])
    #expect(try ready("cb") == [2])
    #expect(try ready("cc") == [])
    #expect(try ready("ad") == [1, 3])
    _ = desk.engine.unsubscribe(1, fromPattern: Array("countdown:a*".utf8))
    #expect(try ready("ae") == [3])
    desk.subscribe(4, pattern: "*")
    #expect(try ready("af") == [3, 4])
    desk.subscribe(2, "countdown:ag")
    #expect(try ready("ag") == [2, 3, 4])
    #expect(try ready("ah") == [3, 4])
    desk.disconnect(3)
    // Advancing the engine cleans up connection 3.
    desk.at(desk.now.boot.microseconds / 1_000)
    #expect(try ready("ai") == [4])
  }

  @Test func aPatternsSnapshotsContainEachLastingEntityExactlyOnceInSmallSteps() throws {
    for index in 0..<100 { try desk.start("keep\(index)") }
    for index in 0..<100 { try desk.start("go\(index)") }
    for index in 0..<50 { try desk.set("keep\(index)", 1_000_000) }
    for index in 0..<50 { try desk.show("keep\(index)") }
    desk.subscribe(1, pattern: "*keep*", walk: false)
    var generator = SeededGenerator(seed: 7)
    var round = 0
    while !desk.engine.connectionsAwaitingSnapshots.isEmpty {
      desk.continueSnapshots(1, budget: 3)
      _ = try? desk.cancel("go\(Int.random(in: 0..<100, using: &generator))")
      try desk.start("come\(round)")
      round += 1
    }
    let heard = desk.takeHeard(1).map { $0.split(separator: " ")[1...2].joined(separator: " ") }
    let expected = (0..<100).map { "keep\($0) snapshot" }
    let counts = Dictionary(grouping: heard, by: \.self).mapValues(\.count)
    for (index, line) in expected.enumerated() {
      #expect(counts[line] == (index < 50 ? 3 : 1))
    }
    #expect(heard.count == 200)
  }

  @Test func aPatternsSnapshotsShowThePresentAndNothingOfClosedOwners() throws {
    desk.connect(2)
    try desk.start("a", count: 1)
    try desk.start("b", owner: .connection(2), by: 2)
    desk.disconnect(2)
    desk.unnoticed(at: 1_000)
    desk.subscribe(1, pattern: "countdown:*")
    let snapshots = desk.takeHeard(1).filter { $0.contains("snapshot") }
    #expect(snapshots == ["1000 a snapshot 0"])
  }

  @Test func unsubscribingOrDisconnectingEndsTheSnapshots() throws {
    for index in 0..<100 { try desk.start("\(index)") }
    desk.subscribe(1, pattern: "countdown:*", walk: false)
    // The first step only takes up the pattern.
    desk.continueSnapshots(1, budget: 11)
    #expect(desk.takeHeard(1).count == 10)
    _ = desk.engine.unsubscribe(1, fromPattern: Array("countdown:*".utf8))
    #expect(desk.engine.connectionsAwaitingSnapshots.isEmpty)
    desk.continueSnapshots(1, budget: 1_000)
    desk.hears(1)
    desk.connect(2)
    desk.subscribe(2, pattern: "countdown:*", walk: false)
    desk.disconnect(2)
    desk.advance()
    #expect(desk.engine.connectionsAwaitingSnapshots.isEmpty)
    #expect(desk.engine.patternCount == 0)
  }

  @Test func aSnapshotMakesTicksStartForThePatternsSubscriber() throws {
    try desk.start("a", count: 3)
    desk.at(500)
    desk.subscribe(1, pattern: "countdown:?")
    desk.at(3_000).hears(1, "500 a snapshot 3", "1000 a tick 2", "2000 a tick 1", "3000 a ready 0")
  }

  @Test func theLimitOfSubscriptionsCountsOnlyNewOnesAndIsCheckedFirst() throws {
    var settings = EngineSettings()
    settings.limits.subscriptions = 3
    let desk = Desk(settings)
    func names(_ names: String...) -> [[UInt8]] { names.map { Array($0.utf8) } }
    let client = desk.client(1)
    try desk.engine.checkLimits(client, channels: names("a", "b", "c"))
    try desk.engine.checkLimits(client, channels: names("a", "a", "a", "a"))
    #expect(throws: EngineError.limit(name: "max-subscriptions", value: 3)) {
      try desk.engine.checkLimits(client, channels: names("a", "b", "c", "d"))
    }
    desk.subscribe(1, "a")
    desk.subscribe(1, "b")
    desk.subscribe(1, pattern: "c")
    try desk.engine.checkLimits(client, channels: names("a"), patterns: names("c"))
    #expect(throws: EngineError.limit(name: "max-subscriptions", value: 3)) {
      try desk.engine.checkLimits(client, patterns: names("d"))
    }
  }

  @Test func patternsAreLimitedForAllConnectionsOfAUser() throws {
    var settings = EngineSettings()
    settings.limits.patternsPerUser = 2
    let desk = Desk(settings)
    func names(_ names: String...) -> [[UInt8]] { names.map { Array($0.utf8) } }
    let (one, two) = (Client(connection: 1, uid: 5), Client(connection: 2, uid: 5))
    desk.connect(1)
    desk.connect(2)
    _ = desk.engine.subscribe(one, toPattern: names("a")[0])
    _ = desk.engine.subscribe(one, toPattern: names("b")[0])
    try desk.engine.checkLimits(one, patterns: names("a", "b"))
    try desk.engine.checkLimits(two, channels: names("c", "d", "e"))
    let limit = EngineError.limit(name: "max-patterns-per-uid", value: 2)
    #expect(throws: limit) { try desk.engine.checkLimits(two, patterns: names("a")) }
    try desk.engine.checkLimits(Client(connection: 3, uid: 6), patterns: names("a", "b"))
    _ = desk.engine.unsubscribe(1, fromPattern: names("b")[0])
    try desk.engine.checkLimits(two, patterns: names("a"))
    // Patterns of a closed connection count until they are cleaned up.
    _ = desk.engine.subscribe(one, toPattern: names("b")[0])
    desk.engine.disconnect(1)
    #expect(throws: limit) { try desk.engine.checkLimits(two, patterns: names("a")) }
    while !desk.engine.advance(to: desk.now, budget: 100) {}
    try desk.engine.checkLimits(two, patterns: names("a", "b"))
  }

  // MARK: Listing

  @Test func aPageIsShorterWhereComparingTakesLong() throws {
    for index in 0..<50 { try desk.start("\(index)" + String(repeating: "a", count: 500)) }
    var query = ListQuery()
    query.pattern = Array(("*" + String(repeating: "?", count: 400) + "*").utf8)
    query.limit = 50
    var (pages, seen) = (0, 0)
    repeat {
      let page = desk.engine.list(.countdown, query, at: desk.now)
      pages += 1
      seen += page.views.count
      query.cursor = page.cursor
    } while query.cursor != 0
    #expect(seen == 50)
    #expect(pages > 3)
  }

  @Test(arguments: 0..<5)
  func listIsCompleteAndFreeOfDuplicatesWhileEntitiesComeAndGo(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    for index in 0..<300 { try desk.start(index.isMultiple(of: 3) ? "keep\(index)" : "go\(index)") }
    var query = ListQuery()
    query.limit = 7
    var seen: [String] = []
    repeat {
      let page = desk.engine.list(.countdown, query, at: desk.now)
      #expect(page.views.count <= 7)
      seen += page.views.map { String(decoding: $0.key, as: UTF8.self) }
      query.cursor = page.cursor
      _ = try? desk.cancel("go\(Int.random(in: 0..<300, using: &generator))")
      try desk.start("come\(Int.random(in: 0..<1_000, using: &generator))")
    } while query.cursor != 0
    let kept = seen.filter { $0.hasPrefix("keep") }
    #expect(kept.count == 100)
    #expect(Set(kept).count == 100)
    #expect(
      Set(seen.filter { $0.hasPrefix("go") }).count == seen.filter { $0.hasPrefix("go") }.count)
  }

  @Test func listByPatternAndOwnerACursorBeyondTheEndIsTheEnd() throws {
    desk.connect(2)
    try desk.start("a1", owner: .connection(2))
    try desk.start("a2")
    try desk.start("b1")
    var query = ListQuery()
    query.pattern = Array("a*".utf8)
    #expect(desk.engine.list(.countdown, query, at: desk.now).views.count == 2)
    query.owner = .connection(2)
    #expect(
      desk.engine.list(.countdown, query, at: desk.now).views.map(\.key) == [Array("a1".utf8)])
    query.cursor = Int(UInt32.max)
    query.limit = 1_000
    let page = desk.engine.list(.countdown, query, at: desk.now)
    #expect(page.views.isEmpty)
    #expect(page.cursor == 0)
  }
}
