import Countdowns
import Simulation
import Testing
import Wire

/// Hosts that do not have copies of everything: `mirror: used`.
@Suite struct FleetMirrorTests {
  private let servers = ServersStandIn()
  private let keeper: FleetCounter
  private let user: FleetCounter

  init() {
    keeper = Self.host(1, servers)
    user = Self.host(2, servers)
  }

  private static func host(
    _ number: UInt64, _ servers: ServersStandIn, _ change: (inout FleetSettings) -> Void = { _ in }
  ) -> FleetCounter {
    var settings = FleetSettings()
    settings.mirror = .used
    change(&settings)
    return FleetCounter(servers, daemon: number, settings)
  }

  private func held(by host: FleetCounter) -> Int {
    host.counter.dispatcher.engine.count(.timer)
  }

  private func isKeeper(_ host: FleetCounter) -> Bool {
    host.info.contains("fleet_kept_partitions:1")
  }

  /// Lets time pass, as it does for hosts: half a second by half a second.
  private func pass(_ seconds: Double, _ hosts: FleetCounter...) {
    for _ in 0..<Int(seconds * 2) {
      servers.time += 500_000
      for host in hosts {
        host.counter.pass(500)
        host.settle()
      }
      for host in hosts { host.read() }
    }
  }

  @Test func aHostHoldsWhatItsClientsUseForAsLongAsTheyUseIt() throws {
    for number in 0..<20 { try keeper.say("TIMER SET t\(number) 1h PAYLOAD p\(number)") }
    user.read()
    #expect((held(by: keeper), held(by: user)) == (20, 0))
    #expect(user.fleet.statistics.entries == 20)
    #expect("\(try user.say("TIMER GET t3"))".contains("p3"))
    #expect(held(by: user) == 1)
    // What is held follows the stream.
    try keeper.say("TIMER SET t3 1h PAYLOAD new")
    user.read()
    let requests = user.fleet.statistics.requests
    #expect("\(try user.say("TIMER LIST"))".contains("new"))
    #expect(user.fleet.statistics.requests == requests)
    for _ in 0..<5 {
      pass(45, keeper, user)
      try user.say("TIMER GET t3")
    }
    #expect(held(by: user) == 1)
    pass(130, keeper, user)
    #expect((held(by: keeper), held(by: user)) == (20, 0))
    #expect("\(try user.say("TIMER GET t3"))".contains("new"))
  }

  @Test func aCommandAboutWhatIsNotHeldIsDecidedOnTheRecord() throws {
    try keeper.say("COUNTDOWN START k EVERY 1h BRIEF")
    user.read()
    #expect("\(try user.say("COUNTDOWN START k EVERY 1h"))".contains("cooldown"))
    try user.say("COUNTDOWN CANCEL k")
    #expect("\(try keeper.say("COUNTDOWN GET k"))".contains("null"))
  }

  @Test func localReadsAskTheServersForWhatIsNotHeld() throws {
    let local = Self.host(3, servers) { $0.reads = .local }
    try keeper.say("TIMER SET t 1h PAYLOAD p")
    local.read()
    #expect("\(try local.say("TIMER GET t"))".contains("\"p\""))
    let requests = local.fleet.statistics.requests
    try local.say("TIMER GET t")
    #expect(local.fleet.statistics.requests == requests)
  }

  // MARK: Subscriptions

  @Test func aSubscriptionBeginsWithWhatTheServersHave() throws {
    try keeper.say("TIMER SET a 1h PAYLOAD first")
    user.read()
    user.counter.run(["SUBSCRIBE", "timer:a", "timer:b", "hud:c"])
    #expect(try user.counter.take().isEmpty)
    user.settle()
    let messages = try user.counter.take().map { "\($0)" }
    #expect(messages.count == 6)
    #expect(messages[3].contains("first") && messages[4].contains("timer:b"))
    #expect(held(by: user) == 1)
    pass(300, keeper, user)
    #expect(held(by: user) == 1)
    try keeper.say("TIMER SET a 1h PAYLOAD second")
    try keeper.say("TIMER SET b 1h PAYLOAD third")
    user.read()
    let events = try user.counter.take().map { "\($0)" }
    #expect(events.contains { $0.contains("second") } && events.contains { $0.contains("third") })
    #expect(held(by: user) == 2)
    user.counter.run(["UNSUBSCRIBE"])
    pass(130, keeper, user)
    #expect(held(by: user) == 0)
  }

  @Test func aSubscriptionDuringTheFirstLoadingBeginsWithWhatTheServersHave() throws {
    for key in ["a", "b"] { try keeper.say("TIMER SET \(key) 1h PAYLOAD of-\(key)") }
    servers.isSilent = true
    let new = Self.host(3, servers)
    new.counter.run(["SUBSCRIBE", "timer:a"])
    let session = new.counter.open()
    new.whileLoading = { new.counter.run(["SUBSCRIBE", "timer:b"], by: session) }
    servers.isSilent = false
    new.settle()
    #expect(held(by: new) == 2)
    #expect(try new.counter.take().contains { "\($0)".contains("of-a") })
    #expect(try new.counter.take(session).contains { "\($0)".contains("of-b") })
  }

  @Test func aSubscriptionIsRefusedIfNobodyKnowsWhatItBeginsWith() throws {
    servers.isSilent = true
    user.counter.run(["SUBSCRIBE", "timer:a", "timer:b"])
    user.counter.pass(251)
    let replies = try user.counter.take().map { "\($0)" }
    #expect(replies.count == 1 && replies[0].contains("UNAVAILABLE"), "\(replies)")
    #expect(user.counter.dispatcher.engine.channelCount == 0)
  }

  /// The answer to a read can be older than what the stream has brought since.
  @Test func whatTheStreamHasBroughtIsNotReplacedByAnOlderAnswer() throws {
    try keeper.say("TIMER SET a 1h PAYLOAD old")
    user.read()
    user.onTheWay = { [keeper, user] in
      _ = try? keeper.say("TIMER SET a 1h PAYLOAD new")
      user.read()
    }
    user.counter.run(["SUBSCRIBE", "timer:a"])
    user.settle()
    #expect("\(try user.counter.take().last!)".contains("new"))
    // Of another key, while the rest of the command is awaited.
    var count = 0
    user.onTheWay = { [keeper, user] in
      count += 1
      if count == 1 {
        user.onTheWay = {
          _ = try? keeper.say("TIMER SET b 1h PAYLOAD late")
          _ = try? keeper.say("TIMER SET c 1h PAYLOAD late")
          user.read()
        }
      }
    }
    user.counter.run(["SUBSCRIBE", "timer:b", "timer:c"])
    user.settle()
    let snapshots = try user.counter.take().filter { "\($0)".contains("late") }
    #expect(snapshots.count == 2)
  }

  /// The answer can come after its command has timed out.
  @Test func whatTheStreamHasBroughtIsNotReplacedByALateAnswer() throws {
    let host = FleetCounter(servers, daemon: 3)
    host.onTheWay = { [self, host] in
      pass(1, keeper)
      host.counter.pass(1_000)
      _ = try? keeper.say("TIMER SET a 1h")
      host.read()
    }
    #expect("\(try host.say("TIMER GET a"))".contains("did not answer"))
    #expect(held(by: host) == 1)
    host.onTheWay = { [self, host] in
      pass(1, keeper)
      host.counter.pass(1_000)
      _ = try? keeper.say("TIMER DEL b")
      host.read()
    }
    #expect("\(try host.say("TIMER SET b 1h"))".contains("UNSURE"))
    #expect(servers.entries.count == 3)
    #expect(held(by: host) == 1)
  }

  @Test func anAnswerFromBeforeALoadingReplacesNothing() throws {
    let host = FleetCounter(servers, daemon: 3)
    host.onTheWay = { [keeper, servers, host] in
      keeper.read()
      _ = try? keeper.say("TIMER DEL a")
      host.read()
      _ = try? keeper.say("TIMER SET b 1h")
      _ = try? keeper.say("TIMER SET c 1h")
      servers.entries.remove(at: 2)
      host.read()
    }
    try host.say("TIMER SET a 1h")
    host.settle()
    #expect(host.loaded == 2)
    #expect(held(by: host) == 2)
  }

  @Test func whatTheStreamHasRemovedIsNotLoaded() throws {
    let host = FleetCounter(servers, daemon: 3)
    for name in ["a", "b", "c"] { try keeper.say("TIMER SET \(name) 1h") }
    servers.entries.removeFirst()
    host.whileLoading = { [keeper, host] in
      _ = try? keeper.say("TIMER DEL b")
      host.read()
    }
    host.settle()
    host.settle()
    #expect(host.loaded == 3)
    #expect(held(by: host) == 2)
    // It is removed for as long as nobody sets it again.
    try keeper.say("TIMER SET b 1h")
    host.read()
    #expect(held(by: host) == 3)
  }

  @Test func aPatternReceivesEventsOfWhatIsNotHeldToo() throws {
    try keeper.say("TIMER SET old 1h")
    try user.say("TIMER GET old")
    user.counter.run(["PSUBSCRIBE", "timer:*"])
    user.counter.pass(0)
    _ = try user.counter.take()
    try keeper.say("TIMER SET new 1s")
    pass(2, keeper, user)
    let events = try user.counter.take().map { "\($0)" }.filter { $0.contains("timer:new") }
    #expect(events.count == 2)
    #expect(held(by: user) == 1)
  }

  @Test func eventsOfWhatIsSharedAreReadFromTheServersOnly() throws {
    try user.say("HUD SHOW screen KIND info DURABLE")
    guard case .bulk(let cursor) = try user.say("EVENTS CURSOR"),
      case .integer(let last) = try user.say("EVENTS LAST")
    else { throw Unexpected() }
    #expect(try user.say("EVENTS SINCE \(last)")["complete"] == .integer(1))
    try keeper.say("TIMER SET t 1h PAYLOAD p")
    user.read()
    let own = try user.say("EVENTS SINCE \(last)")
    #expect(own["complete"] == .integer(0) && !"\(own)".contains("timer:t"))
    let shared = try user.say("EVENTS SINCE \(cursor)")
    #expect(shared["complete"] == .integer(1) && "\(shared)".contains("timer:t"))
    // A host with all copies has a log of its own.
    let all = FleetCounter(servers, daemon: 3)
    guard case .integer(let first) = try all.say("EVENTS LAST") else { throw Unexpected() }
    try keeper.say("TIMER SET t 1h PAYLOAD q")
    all.read()
    let logged = try all.say("EVENTS SINCE \(first)")
    #expect(logged["complete"] == .integer(1) && "\(logged)".contains("timer:t"))
  }

  private struct Unexpected: Error {}

  // MARK: What is due

  @Test func theKeeperDoesWhatIsDueThoughNobodyHoldsIt() throws {
    let writer = Self.host(3, servers)
    try writer.say("TIMER SET t 5m")
    pass(299, keeper, user, writer)
    #expect((held(by: keeper), held(by: user), held(by: writer)) == (1, 0, 0))
    #expect(servers.records.count == 1)
    pass(2, keeper, user, writer)
    #expect(servers.records.isEmpty)
    #expect(servers.entries.count == 2)
  }

  @Test(arguments: [true, false])
  func anotherHostKeepsThePartitionOnceItsKeeperHasEnded(isToldSo: Bool) throws {
    try keeper.say("TIMER SET t 3s")
    try user.say("PING")
    #expect(isKeeper(keeper) && !isKeeper(user))
    if isToldSo {
      keeper.fleet.end()
      keeper.settle()
      pass(1, user)
      #expect(isKeeper(user))
    }
    pass(5, user)
    #expect(isKeeper(user))
    #expect(servers.records.isEmpty)
    #expect(servers.entries.count == 2)
  }

  @Test func aKeeperThatHasPausedLetsGoOfThePartitionThatAnotherOneKeeps() throws {
    for number in 0..<10 { try keeper.say("TIMER SET t\(number) 1h") }
    try keeper.say("TIMER SET due 3s")
    pass(5, user)
    #expect(isKeeper(user))
    #expect(held(by: user) == 10)
    keeper.counter.pass(5_000)
    keeper.settle()
    keeper.read()
    #expect(!isKeeper(keeper))
    pass(1, keeper, user)
    #expect(held(by: keeper) == 0)
    #expect(servers.entries.count == 12)
    #expect("\(try keeper.say("TIMER GET t3"))".contains("t3"))
  }

  /// A host that holds a record tries, too, if the keeper is late.
  @Test func whoHoldsARecordDoesWhatIsDueWhileThereIsNoKeeper() throws {
    let writer = Self.host(3, servers)
    try writer.say("TIMER SET t 1s")
    try user.say("TIMER GET t")
    #expect(isKeeper(keeper))
    pass(2.5, user)
    #expect(!isKeeper(user))
    #expect(servers.records.isEmpty)
    #expect(servers.entries.count == 2)
  }

  @Test func whatAConnectionOwnsIsHeldAndEndsWithIt() throws {
    let session = user.counter.open()
    try user.say("TIMER SET t 1h OWNER connection", by: session)
    pass(200, keeper, user)
    #expect(held(by: user) == 1)
    user.counter.dispatcher.close(session)
    user.counter.pass(0)
    user.settle()
    #expect(servers.records.isEmpty)
  }

  /// Only the stream tells that the connection owns it.
  @Test func whatAConnectionOwnsEndsWithItThoughTheAnswerWasLost() throws {
    let session = user.counter.open()
    user.losesAnswer = true
    #expect("\(try user.say("TIMER SET t 1h OWNER connection", by: session))".contains("UNSURE"))
    user.fleet.disconnected([0])
    user.fleet.connected([0], at: user.boot)
    pass(2, keeper, user)
    #expect(servers.records.count == 1)
    user.counter.dispatcher.close(session)
    pass(10, keeper, user)
    #expect(servers.records.isEmpty)
  }

  @Test func whatAHostOwnedEndsThoughNobodyElseHoldsIt() throws {
    let owner = Self.host(3, servers)
    try owner.say("TIMER SET t 1h OWNER connection")
    pass(7, keeper, user)
    #expect(servers.records.isEmpty)
  }

  // MARK: Different hosts

  @Test func aHostWithAllCopiesIsTheKeeperOfThoseWithout() throws {
    let all = FleetCounter(servers, daemon: 3)
    for number in 0..<10 { try all.say("TIMER SET t\(number) 1h") }
    keeper.read()
    pass(3, keeper, user, all)
    #expect(isKeeper(all) && !isKeeper(keeper) && !isKeeper(user))
    #expect((held(by: all), held(by: keeper), held(by: user)) == (10, 0, 0))
    // Until it ends.
    pass(5, keeper, user)
    #expect(isKeeper(keeper) != isKeeper(user))
  }

  @Test func hostsWithAllCopiesNeedNoKeeper() throws {
    let servers = ServersStandIn()
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("TIMER SET t 1h")
    pass(10, a, b)
    #expect(servers.leases == ModelLeases())
  }

  // MARK: Trouble

  @Test func unreachableLocalDecidesAboutWhatIsHeldOnly() throws {
    let local = Self.host(3, servers) { $0.unreachable = .local }
    try keeper.say("TIMER SET known 1h")
    try keeper.say("TIMER SET other 1h")
    local.read()
    try local.say("TIMER GET known")
    servers.isSilent = true
    local.fleet.disconnected([0])
    local.counter.run(["TIMER", "SET", "known", "2h", "PAYLOAD", "local"])
    local.counter.run(["TIMER", "GET", "known"])
    local.counter.run(["TIMER", "SET", "other", "2h"])
    local.counter.run(["SUBSCRIBE", "timer:other"])
    local.counter.pass(251)
    local.counter.pass(251)
    let replies = try local.counter.take().map { "\($0)" }
    #expect(replies.count == 4)
    #expect(replies[1].contains("local"))
    #expect(replies[2].contains("UNAVAILABLE") && replies[3].contains("UNAVAILABLE"))
    // Then it has what the servers have.
    servers.isSilent = false
    local.fleet.connected([0], at: local.boot)
    local.settle()
    #expect(!"\(try local.say("TIMER LIST"))".contains("local"))
    #expect(local.loaded == 1)
  }

  @Test func afterAGapAHostReadsWhatItHoldsAndWhatIsSubscribedTo() throws {
    for number in 0..<10 { try keeper.say("TIMER SET t\(number) 1h PAYLOAD old") }
    user.read()
    try user.say("TIMER GET t1")
    try user.say("SUBSCRIBE timer:new")
    _ = try user.counter.take()
    for name in ["t0", "t1", "new"] { try keeper.say("TIMER SET \(name) 1h PAYLOAD fresh") }
    servers.entries.removeAll { $0.record != nil && $0.number <= servers.number - 1 }
    user.settle()
    user.settle()
    #expect(user.loaded == 2)
    #expect(held(by: user) == 2)
    #expect("\(try user.counter.take())".contains("fresh"))
  }

  @Test func aLimitCountsAnEntityThatIsThereAlreadyAsNoNewOne() throws {
    var engine = EngineSettings()
    engine.limits.entities = 1
    var settings = FleetSettings()
    settings.mirror = .used
    let host = FleetCounter(servers, daemon: 3, settings, engine: engine)
    try keeper.say("TIMER SET a 1h")
    try host.say("TIMER SET b 1h")
    #expect(!"\(try host.say("TIMER SET a 2h"))".contains("LIMIT"))
    #expect("\(try host.say("TIMER SET c 1h"))".contains("LIMIT"))
  }

  /// Though neither host holds the countdown, and one has not even seen it begin.
  @Test(arguments: [true, false])
  func whereTheServersHaveLostEverythingNothingIsAllowedUntilACooldownIsOver(
    isThereBefore: Bool
  ) throws {
    if !isThereBefore { try keeper.say("COUNTDOWN START k EVERY 1h COUNT 1") }
    pass(2, keeper, user)
    let host = Self.host(3, servers)
    if isThereBefore {
      try keeper.say("COUNTDOWN START k EVERY 1h COUNT 1")
      host.read()
    }
    (servers.records, servers.entries, servers.epoch) = ([:], [], nil)
    servers.leases = ModelLeases()
    #expect("\(try host.say("COUNTDOWN START k EVERY 1h"))".contains("UNAVAILABLE"))
  }
}
