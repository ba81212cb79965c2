import Countdowns
import Testing
import Wire

@Suite struct FleetTests {
  private let servers = ServersStandIn()

  private func brief(_ reply: Reply) throws -> Int64 {
    guard case .array(let parts) = reply, case .integer(let accepted) = parts[0] else {
      Issue.record("\(reply)")
      return -1
    }
    return Int64(accepted)
  }

  @Test func whatOneDaemonAcceptsIsRefusedByAnotherUntilItsTimeIsOver() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    #expect(try brief(a.say("COUNTDOWN START k EVERY 1s COUNT 5 BRIEF")) == 1)
    #expect(try brief(b.say("COUNTDOWN START k EVERY 1s COUNT 5 BRIEF")) == 0)
    pass(5_100, servers, a, b)
    #expect(try brief(b.say("COUNTDOWN START k EVERY 1s COUNT 5 BRIEF")) == 1)
    #expect(try brief(a.say("COUNTDOWN START k EVERY 1s COUNT 5 BRIEF")) == 0)
  }

  @Test func aChangeFromAnotherHostReachesTheCopyBeforeTheNextDecision() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("COUNTDOWN START k BRIEF")
    try b.say("COUNTDOWN CANCEL k")
    // The stale copy would refuse, so `a` reads the record before it replies.
    #expect(try brief(a.say("COUNTDOWN START k BRIEF")) == 1)
    #expect(a.fleet.statistics.conflicts == 0)
  }

  /// Never as if it were absent: that would allow another send.
  @Test func aRecordOfAnotherReleaseIsUnavailable() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("COUNTDOWN START k BRIEF")
    let (key, record) = try #require(servers.records.first)
    let newer = EntityRecord.version + 1
    servers.records[key] = FleetRecord(record.version, [newer] + record.bytes.dropFirst())
    let b = FleetCounter(servers, daemon: 2)
    for command in ["START k BRIEF", "GET k", "CANCEL k"] {
      let reply = "\(try b.say("COUNTDOWN \(command)"))"
      #expect(
        reply.contains("UNAVAILABLE the servers have a countdown of that name in format \(newer)"))
    }
    #expect(servers.records[key]?.bytes.first == newer)
    servers.records[key] = FleetRecord(record.version, Array(record.bytes.dropLast()))
    let c = FleetCounter(servers, daemon: 3)
    #expect("\(try c.say("COUNTDOWN START k"))".contains("ERR the servers have something else"))
  }

  @Test func subscribersOnEveryHostReceiveEachEventOnce() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    for daemon in [a, b] {
      daemon.counter.run(["SUBSCRIBE", "countdown:k"])
      _ = try daemon.counter.take()
    }
    a.counter.run(["PING"])
    _ = try a.counter.take()
    let other = a.counter.open()
    try a.say("COUNTDOWN START k EVERY 1s COUNT 1 BRIEF", by: other)
    b.read()
    pass(1_100, servers, a, b)
    for daemon in [a, b] {
      let names = try daemon.counter.take().map { reply in
        "\(reply)".contains("started") ? "started" : "\(reply)".contains("ready") ? "ready" : "tick"
      }
      #expect(names.filter { $0 == "started" }.count == 1)
      #expect(names.filter { $0 == "ready" }.count == 1)
    }
    #expect(servers.entries.count == 2)
  }

  @Test func whatIsDueHappensAlthoughTheDaemonThatBeganItIsGone() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("TIMER SET t 1s")
    b.read()
    pass(1_000, servers, b)
    #expect(servers.records.count == 1)
    pass(200, servers, b)
    #expect(servers.records.isEmpty)
  }

  @Test func withoutAnAnswerInTimeNothingWasDoneOrNobodyKnows() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("COUNTDOWN START k BRIEF")
    servers.isSilent = true
    a.counter.run(["COUNTDOWN", "GET", "k"])
    a.counter.run(["COUNTDOWN", "START", "new", "BRIEF"])
    a.counter.run(["PING"])
    a.settle()
    #expect(try a.counter.take().isEmpty)
    a.counter.pass(251)
    let replies = try a.counter.take().map { "\($0)" }
    #expect(replies.count == 3)
    #expect(replies[0].contains("UNAVAILABLE"))
    #expect(replies[1].contains("UNSURE"))
    #expect(replies[2].contains("PONG"))
  }

  @Test func whatIsUnsureAfterTheTimeoutIsNotCountedAgainWhenItsConnectionCloses() throws {
    let a = FleetCounter(servers, daemon: 1)
    servers.isSilent = true
    a.counter.run(["COUNTDOWN", "START", "k", "BRIEF"])
    a.settle()
    a.counter.pass(251)
    #expect("\(try a.counter.take())".contains("UNSURE"))
    (servers.isSilent, a.losesAnswer) = (false, true)
    a.settle()
    #expect(a.info.contains("fleet_unsure:1\\r"))
  }

  @Test func aChangeThatTooFewReplicasHaveIsNotConfirmed() throws {
    let a = FleetCounter(servers, daemon: 1)
    servers.problem = "too few replicas have it"
    #expect("\(try a.say("COUNTDOWN START k BRIEF"))".contains("UNSURE"))
  }

  @Test func whereTheServersHaveLostEverythingNothingIsAllowedForTheLongestWindow() throws {
    var rules = SendPolicy.Rules()
    rules.windows = [.init(limit: 1, length: .seconds(3_600))]
    var settings = EngineSettings()
    settings.policies = ["sms": try SendPolicy(name: "sms", rules)]
    let a = FleetCounter(servers, daemon: 1, engine: settings)
    #expect(try brief(a.say("COUNTDOWN START k POLICY sms BRIEF")) == 1)
    servers.records = [:]
    servers.entries = []
    servers.epoch = nil
    #expect("\(try a.say("COUNTDOWN START k POLICY sms BRIEF"))".contains("UNAVAILABLE"))
    pass(3_700_000, servers, a)
    #expect(try brief(a.say("COUNTDOWN START k POLICY sms BRIEF")) == 1)
  }

  @Test func allThatIsSharedIsListedEverywhereAlsoWhatWasThereBeforeTheDaemon() throws {
    let a = FleetCounter(servers, daemon: 1)
    for key in ["a", "b", "c"] { try a.say("TIMER SET \(key) 1m") }
    let b = FleetCounter(servers, daemon: 2)
    let text = "\(try b.say("TIMER LIST"))"
    #expect(["a", "b", "c"].allSatisfy { text.contains("\"\($0)\"") || text.contains($0) })
    #expect(b.counter.dispatcher.engine.count(.timer) == 3)
    try b.say("TIMER DEL b")
    a.read()
    #expect(a.counter.dispatcher.engine.count(.timer) == 2)
  }

  @Test func aGapInTheStreamMakesTheDaemonLoadAllRecordsAgain() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("TIMER SET x 1m")
    try a.say("TIMER SET y 1m")
    servers.entries.removeFirst()
    b.settle()
    b.settle()
    #expect(b.counter.dispatcher.engine.count(.timer) == 2)
    #expect(b.fleet.statistics.loadings == 2)
  }

  @Test func unreachableLocalDecidesAloneSaysSoAndGivesInAfterwards() throws {
    var settings = FleetSettings()
    settings.unreachable = .local
    let a = FleetCounter(servers, daemon: 1, settings)
    let b = FleetCounter(servers, daemon: 2, settings)
    servers.isSilent = true
    a.fleet.disconnected([0])
    a.counter.run(["COUNTDOWN", "START", "k"])
    a.counter.pass(251)
    #expect("\(try a.counter.take())".contains("degraded"))
    servers.isSilent = false
    #expect(try brief(b.say("COUNTDOWN START k BRIEF")) == 1)
    a.fleet.connected([0], at: a.boot)
    a.settle()
    #expect(try brief(a.say("COUNTDOWN START k BRIEF")) == 0)
    #expect(a.counter.dispatcher.engine.count(.countdown) == 1)
  }

  @Test func aPolicyDecidesWhetherItsSendsGoOnWithoutTheServers() throws {
    for (fleet, policy, accepts) in [
      (FleetSettings.Unreachable.refuse, FleetSettings.Unreachable?.some(.local), true),
      (.local, .some(.refuse), false), (.local, nil, true), (.refuse, nil, false),
    ] {
      var settings = FleetSettings()
      settings.unreachable = fleet
      var engine = EngineSettings()
      engine.policies = [
        "p": try SendPolicy(name: "p", SendPolicy.Rules(), unreachable: policy)
      ]
      let servers = ServersStandIn()
      let a = FleetCounter(servers, daemon: 1, settings, engine: engine)
      servers.isSilent = true
      a.fleet.disconnected([0])
      a.counter.run(["COUNTDOWN", "START", "k", "POLICY", "p"])
      a.counter.pass(251)
      let reply = "\(try a.counter.take())"
      #expect(reply.contains("degraded") == accepts, "\(fleet) \(policy as Any): \(reply)")
      #expect(reply.contains("UNAVAILABLE") == !accepts, "\(fleet) \(policy as Any): \(reply)")
    }
  }

  @Test func aServerThatTakesOverWithFewerEntriesIsBelieved() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("TIMER SET x 1m")
    let (records, entries, number) = (servers.records, servers.entries, servers.number)
    try a.say("TIMER SET y 1m")
    b.read()
    (servers.records, servers.entries, servers.number) = (records, entries, number)
    for daemon in [a, b] {
      daemon.fleet.disconnected([0])
      daemon.fleet.connected([0], at: daemon.boot)
      daemon.settle()
      #expect(daemon.counter.dispatcher.engine.count(.timer) == 1)
    }
    try b.say("TIMER SET z 1m")
    a.read()
    #expect(a.counter.dispatcher.engine.count(.timer) == 2)
  }

  @Test func hostsWhosePoliciesDifferFromThoseOfTheHostThatCameLastNoticeIt() throws {
    let a = FleetCounter(servers, daemon: 1)
    let policies = [("policies.sms.every", "1s"), ("policies.sms.windows", "5/1h")]
    let b = FleetCounter(servers, daemon: 2, configuration: policies)
    pass(1_000, servers, a, b)
    #expect(a.info.contains("fleet_policies_differ:1"))
    #expect(b.info.contains("fleet_policies_differ:0"))
    a.counter.host.configuration = policies + [("limits.max-output", "1024")]
    pass(1_000, servers, a, b)
    pass(1_000, servers, a, b)
    // Another build of the program has the same digest.
    #expect(String(decoding: servers.policies, as: UTF8.self) == "62b2b56508ae2867")
    #expect(a.info.contains("fleet_policies_differ:0"))
    #expect(b.info.contains("fleet_policies_differ:0"))
  }

  @Test func whoDecidesOnARecordIsNotBehindTheHostThatHasWrittenIt() throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    // Until b reads the entry, its estimate of the server's clock lags by 50 ms.
    servers.time += 50_000
    a.counter.pass(50)
    #expect(try left(a.say("THROTTLE TAKE r BURST 3 RATE 3/1h")) == "2")
    b.read()
    #expect(try left(b.say("THROTTLE TAKE r BURST 3 RATE 3/1h")) == "1")
  }

  /// Returns the number after `remaining` in a reply.
  private func left(_ reply: Reply) -> String {
    let text = "\(reply)"
    let rest = text.ranges(of: "remaining").first.map { text[$0.upperBound...] } ?? ""
    return String(rest.drop { !$0.isNumber }.prefix { $0.isNumber })
  }
}
