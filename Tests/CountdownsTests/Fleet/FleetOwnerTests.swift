import Simulation
import Testing
import Wire

@testable import Countdowns

/// Owners of shared entities, and the leases of their hosts.
@Suite struct FleetOwnerTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private let b: FleetCounter

  init() { (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2)) }

  /// Lets time pass, as it does for hosts: second by second.
  private func pass(seconds: Int, _ daemons: FleetCounter...) {
    for _ in 0..<seconds * 2 {
      servers.time += 500_000
      for daemon in daemons {
        daemon.counter.pass(500)
        daemon.settle()
      }
      for daemon in daemons { daemon.read() }
    }
  }

  private func close(_ session: Session, of daemon: FleetCounter) {
    daemon.counter.dispatcher.close(session)
    daemon.counter.pass(0)
    daemon.settle()
  }

  @Test(arguments: [
    "TIMER SET k 1h", "COUNTDOWN START k EVERY 1h", "ONCE BEGIN k TTL 1h",
    "DEBOUNCE CALL k 1h", "GATE CHECK k act TTL 1h",
  ])
  func whatAConnectionOwnsEndsWithItOnAllHosts(command: String) throws {
    let session = a.counter.open()
    try a.say("\(command) OWNER connection", by: session)
    b.read()
    pass(seconds: 10, a, b)
    #expect(servers.records.count == 1)
    close(session, of: a)
    b.read()
    #expect(servers.records.isEmpty)
    #expect(b.fleet.statistics.entries == a.fleet.statistics.entries)
  }

  @Test func whatAClosedConnectionOwnsEndsBeforeWhatIsDueLater() throws {
    let session = a.counter.open()
    try a.say("TIMER SET owned 1h OWNER connection", by: session)
    try b.say("TIMER SET other 1s")
    a.read()
    // It is due by b, and by this host only later.
    servers.time += 1_050_000
    a.counter.pass(1_050)
    a.settle()
    #expect(servers.records.count == 2)
    close(session, of: a)
    #expect(Set(servers.records.keys.map(\.key)) == [Array("other".utf8)])
  }

  @Test(arguments: ["TIMER SET k 1h", "DEBOUNCE CALL k 1h", "GATE CHECK k act TTL 1h"])
  func aCommandStillRunsIfItsConnectionIsClosedMeanwhile(command: String) throws {
    let session = a.counter.open()
    let words = command.split(separator: " ").map(String.init)
    // The second command is decided once the first is answered.
    a.counter.run(words)
    a.counter.run(words + ["OWNER", "connection"], by: session)
    close(session, of: a)
    pass(seconds: 1, a, b)
    #expect(servers.records.isEmpty)
    #expect(servers.entries.count == 3)
  }

  @Test func sendsOutliveTheOwnerOfTheirCountdown() throws {
    var rules = SendPolicy.Rules()
    rules.windows = [.init(limit: 2, length: .seconds(3_600))]
    var engine = EngineSettings()
    engine.policies = ["sms": try SendPolicy(name: "sms", rules)]
    let (a, b) = (
      FleetCounter(servers, daemon: 4, engine: engine),
      FleetCounter(servers, daemon: 5, engine: engine)
    )
    let session = a.counter.open()
    let start = "COUNTDOWN START k POLICY sms"
    #expect(try a.say("\(start) OWNER connection", by: session).isAccepted)
    #expect(try !b.say(start).isAccepted)
    close(session, of: a)
    b.read()
    #expect(try b.say("\(start) OWNER connection").isAccepted)
    pass(seconds: 6, a)
    #expect(try !a.say(start).isAccepted)
  }

  @Test func whatAHostOwnsEndsOnceItsLeaseIsOver() throws {
    for number in 0..<5 { try a.say("TIMER SET k\(number) 1h OWNER connection") }
    let c = FleetCounter(servers, daemon: 3)
    pass(seconds: 4, b, c)
    #expect(servers.records.count == 5)
    pass(seconds: 2, b, c)
    #expect(servers.records.isEmpty)
    // Each one once.
    #expect(servers.entries.count == 10)
    #expect(b.counter.dispatcher.engine.count(.timer) == 0)
  }

  @Test func whatAHostOwnsStaysForAsLongAsItRenewsItsLease() throws {
    try a.say("TIMER SET k 1h OWNER connection")
    pass(seconds: 60, a, b)
    #expect(servers.records.count == 1)
    #expect(servers.entries.count == 1)
  }

  /// Nobody could renew a lease, so none is over.
  @Test func leasesLastLongerIfNobodyReachedTheServers() throws {
    try a.say("TIMER SET k 1h OWNER connection")
    b.read()
    servers.isSilent = true
    pass(seconds: 20, a, b)
    servers.isSilent = false
    pass(seconds: 10, a, b)
    #expect(servers.records.count == 1)
    pass(seconds: 6, b)
    #expect(servers.records.isEmpty)
  }

  /// Nobody knows any more whether the lease was over, and others have ended what it owned.
  @Test func aHostWhoseLeaseWasLostClosesTheConnectionsThatOwnedSomething() throws {
    let (owner, other) = (a.counter.open(), a.counter.open())
    try a.say("TIMER SET k 1h OWNER connection", by: owner)
    pass(seconds: 1, a, b)
    (servers.records, servers.entries, servers.epoch) = ([:], [], nil)
    servers.leases = ModelLeases()
    // It learns of the record first.
    #expect(try a.say("TIMER GET k", by: other) == .null)
    pass(seconds: 1, a, b)
    #expect(a.counter.host.closed.map(\.connection) == [owner.client.connection])
    pass(seconds: 1, a, b)
    #expect(a.info.contains("fleet_leases_lost:1"))
  }

  @Test func aHostWhoseLeaseWasOverClosesTheConnectionsThatOwnedSomething() throws {
    let (owner, other) = (a.counter.open(), a.counter.open())
    try a.say("TIMER SET k 1h OWNER connection", by: owner)
    try a.say("TIMER SET j 1h", by: other)
    b.read()
    pass(seconds: 6, b)
    #expect(servers.records.count == 1)
    a.counter.pass(6_000)
    a.settle()
    a.read()
    #expect(a.counter.host.closed.map(\.connection) == [owner.client.connection])
    #expect(a.info.contains("fleet_leases_lost:1"))
    // It takes another lease with the next thing that is owned.
    try a.say("TIMER SET k 1h OWNER connection", by: other)
    pass(seconds: 10, a, b)
    #expect(servers.records.count == 2)
  }

  @Test func anOwnerIsDisconnectedAlsoIfTheEndOfWhatItOwnedIsReadFirst() throws {
    let (owner, other) = (a.counter.open(), a.counter.open())
    try a.say("TIMER SET j 1h OWNER connection", by: other)
    try a.say("TIMER SET k 1h OWNER connection", by: owner)
    try a.say("TIMER DEL j", by: other)
    pass(seconds: 2, a, b)
    pass(seconds: 6, b)
    #expect(servers.records.isEmpty)
    a.read()
    #expect(a.counter.host.closed.isEmpty)
    a.counter.pass(6_000)
    a.settle()
    #expect(a.counter.host.closed.map(\.connection) == [owner.client.connection])
  }

  @Test func anOwnerIsDisconnectedIfTheLeaseIsLostWhileItsCommandIsOnTheWay() throws {
    let owner = a.counter.open()
    a.onTheWay = { [a] in a.fleet.loseLease() }
    try a.say("TIMER SET k 1h OWNER connection", by: owner)
    pass(seconds: 1, a, b)
    #expect(servers.records.isEmpty)
    #expect(a.counter.host.closed.map(\.connection) == [owner.client.connection])
  }

  @Test func theLeaseIsFoundOverByAChange() throws {
    let owner = a.counter.open()
    try a.say("TIMER SET k 1h OWNER connection", by: owner)
    pass(seconds: 6, b)
    // Before its next heartbeat.
    let now = a.counter.host.now
    a.counter.host.now = Moment(boot: now.boot + .seconds(6), wall: now.wall + .seconds(6))
    try a.say("TIMER SET j 1h OWNER connection")
    #expect(a.counter.host.closed.map(\.connection) == [owner.client.connection])
    pass(seconds: 10, a, b)
    #expect(servers.records.keys.map { String(decoding: $0.key, as: UTF8.self) } == ["j"])
  }

  @Test func oneConnectionOfAllHostsTakesTheActionOfAGate() throws {
    let taker = a.counter.open()
    try a.say("GATE CHECK s pay")
    try a.say("GATE OPEN s TTL 1h")
    #expect(try a.say("GATE TAKE s", by: taker).isAccepted)
    b.read()
    #expect(try !b.say("GATE TAKE s").isAccepted)
    #expect(try b.say("GATE DONE s") == .integer(0))
    close(taker, of: a)
    b.read()
    #expect(try b.say("GATE TAKE s").isAccepted)
    #expect(try a.say("GATE DONE s") == .integer(0))
    #expect(try b.say("GATE DONE s") == .integer(1))
  }

  @Test func aGateIsFreeOnceTheHostOfItsTakerIsGone() throws {
    try a.say("GATE CHECK s pay")
    try a.say("GATE OPEN s TTL 1h")
    #expect(try a.say("GATE TAKE s").isAccepted)
    b.read()
    pass(seconds: 4, b)
    #expect(try !b.say("GATE TAKE s").isAccepted)
    pass(seconds: 2, b)
    #expect(try b.say("GATE TAKE s").isAccepted)
  }

  @Test func whatAConnectionOwnsIsListed() throws {
    let session = a.counter.open()
    try a.say("TIMER SET k 1h OWNER connection", by: session)
    try a.say("TIMER SET j 1h")
    let listed = "\(try a.say("TIMER LIST OWNER connection", by: session))"
    #expect(listed.contains("connection:") && !listed.contains("none"))
    #expect(!"\(try a.say("TIMER LIST OWNER connection"))".contains("connection:"))
  }

  @Test func aScopeOwnsNothingThatIsShared() throws {
    try a.say("SCOPE OPEN app")
    #expect("\(try a.say("TIMER SET k 1h OWNER scope:app"))".contains("shared with other hosts"))
  }
}

extension Reply {
  /// Whether a command was accepted.
  fileprivate var isAccepted: Bool {
    guard case .array(let parts) = self, let name = parts.firstIndex(of: .bulk("accepted")) else {
      return false
    }
    return parts[name + 1] == .integer(1)
  }
}
