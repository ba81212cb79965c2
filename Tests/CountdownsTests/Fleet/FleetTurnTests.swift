import Countdowns
import Testing
import Wire

/// Changes of one limit that are made at once, and the turns that hosts take.
@Suite struct FleetTurnTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private let b: FleetCounter

  init() throws {
    var all = LimitRules.Rules()
    all.rate = Throttle.Rate(burst: 5, count: 1, period: .days(1))
    all.isGlobal = true
    var ip = LimitRules.Rules()
    ip.windows = [.init(limit: 2, length: .days(1))]
    var settings = EngineSettings()
    settings.throttles = ["all": try LimitRules(all), "ip": try LimitRules(ip)]
    a = FleetCounter(servers, daemon: 1, engine: settings)
    b = FleetCounter(servers, daemon: 2, engine: settings)
  }

  private func run(_ lines: String..., on daemon: FleetCounter) {
    for line in lines { daemon.counter.run(line.split(separator: " ").map(String.init)) }
  }

  /// The first is under way while the others come.
  @Test func changesOfALimitThatWaitAreMadeAtOnceAndEachHasItsOwnAnswer() throws {
    run(
      "THROTTLE TAKE all:", "THROTTLE TAKE all: COST 3", "THROTTLE TAKE all: ip:1",
      "THROTTLE TAKE all:", "THROTTLE REFUND all: 2", "THROTTLE TAKE all: COST 9",
      "THROTTLE GET all:", on: a)
    a.settle()
    let replies = try a.counter.take()
    try #require(replies.count == 7)
    #expect(replies[0]["accepted"] == .integer(1))
    #expect(replies[1]["accepted"] == .integer(1))
    #expect(replies[2]["accepted"] == .integer(1) && replies[2]["views"]!.elements.count == 2)
    // Refused alone: it has changed nothing for the others.
    #expect(replies[3]["accepted"] == .integer(0) && replies[3]["refused_by"] == .bulk("all:"))
    #expect(replies[4]["remaining"] == .integer(2))
    #expect("\(replies[5])".contains("COST is more than 5"))
    #expect(replies[6]["remaining"] == .integer(2))
    // Two changes of `all:`, and one of `ip:1`.
    #expect(servers.entries.count == 3)
    #expect(try b.say("THROTTLE GET ip:1")["remaining"] == .integer(1))
  }

  @Test func allThatWasChangedAtOnceIsUnsureIfNoAnswerComes() throws {
    try a.say("THROTTLE TAKE all:")
    servers.changesLeft = 1
    run("THROTTLE TAKE all:", on: a)
    run("THROTTLE TAKE all:", "THROTTLE TAKE all: ip:1", "THROTTLE GET all:", on: a)
    a.settle()
    a.counter.pass(251)
    let replies = try a.counter.take().map { "\($0)" }
    try #require(replies.count == 4)
    #expect(replies[1].contains("UNSURE") && replies[2].contains("may have been charged"))
    #expect(replies[3].contains("UNAVAILABLE"))
    // The server made the change. What was taken for the second is given back, as nobody knows it.
    (servers.isSilent, servers.changesLeft) = (false, .max)
    servers.time += 251_000
    a.settle()
    b.read()
    #expect(try b.say("THROTTLE GET all:")["remaining"] == .integer(2))
  }

  @Test func aHostThatHasChangedALimitLetsTheOthersDoSoFirst() throws {
    for daemon in [a, b] {
      daemon.fleet.turns.length = 25_000
      daemon.read()
      try daemon.say("THROTTLE TAKE all:")
    }
    a.read()
    // It is the turn of `a`.
    run("THROTTLE TAKE all:", on: b)
    b.settle()
    #expect(try b.counter.take().isEmpty)
    try a.say("THROTTLE TAKE all:")
    b.settle()
    #expect(try b.counter.take().first?["accepted"] == .integer(1))
    a.read()
    // `a` does not need its turn, so `b` waits for it once.
    run("THROTTLE TAKE all:", on: b)
    b.settle()
    #expect(try b.counter.take().isEmpty)
    pass(25, servers, a, b)
    #expect(try b.counter.take().first?["accepted"] == .integer(1))
    #expect(a.fleet.statistics.conflicts + b.fleet.statistics.conflicts == 0)
    // After a while `b` is alone.
    pass(501, servers, a, b)
    #expect(try b.say("THROTTLE TAKE all:")["accepted"] == .integer(0))
  }
}
