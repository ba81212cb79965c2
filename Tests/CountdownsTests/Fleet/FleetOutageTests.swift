import Testing
import Wire

@testable import Countdowns

/// What is due, parked or lost while the servers are away.
@Suite struct FleetOutageTests {
  private let servers = ServersStandIn()

  private func leave(_ daemon: FleetCounter) {
    servers.isSilent = true
    daemon.fleet.disconnected([0])
  }

  private func comeBack(_ daemon: FleetCounter) {
    servers.isSilent = false
    daemon.fleet.connected([0], at: daemon.boot)
    daemon.settle()
  }

  @Test func dueWorkThatWaitsForTheServersLeavesItsKeyFree() throws {
    var settings = FleetSettings()
    settings.unreachable = .local
    let a = FleetCounter(servers, daemon: 1, settings)
    try a.say("COUNTDOWN START k EVERY 1s COUNT 1")
    leave(a)
    a.counter.pass(1_100)
    for _ in 0..<3 {
      a.counter.run(["COUNTDOWN", "START", "k"])
      a.counter.pass(251)
      let reply = "\(try a.counter.take())"
      #expect(!reply.contains("UNAVAILABLE"), "\(reply)")
    }
    #expect(a.info.contains("fleet_under_way:0"))
  }

  @Test func whatFellDueMeanwhileHappensOnceTheServersAreBack() throws {
    let a = FleetCounter(servers, daemon: 1)
    for number in 0..<300 { try a.say("TIMER SET t\(number) 1s") }
    leave(a)
    servers.time += 5_000_000
    a.counter.pass(5_000)
    #expect(servers.records.count == 300)
    comeBack(a)
    for _ in 0..<3 { pass(200, servers, a) }
    #expect(servers.records.isEmpty)
  }

  /// The server's answer is certain, so nobody waits, and nothing is asked again.
  @Test func whatTheServerRefusesIsAnsweredAtOnce() throws {
    let a = FleetCounter(servers, daemon: 1)
    servers.refusal = .memory
    let before = a.fleet.statistics.requests
    let reply = "\(try a.say("COUNTDOWN START k"))"
    #expect(reply.contains("UNAVAILABLE the server refuses it: its memory is full"), "\(reply)")
    #expect(a.fleet.statistics.requests == before + 1)
    servers.refusal = nil
    #expect(!"\(try a.say("COUNTDOWN START k"))".contains("UNAVAILABLE"))
  }

  @Test func aHostDecidesAloneWhatTheServerRefusesIfItMay() throws {
    var settings = FleetSettings()
    settings.unreachable = .local
    let a = FleetCounter(servers, daemon: 1, settings)
    servers.refusal = .disk
    #expect(!"\(try a.say("COUNTDOWN START k"))".contains("UNAVAILABLE"))
    #expect(a.fleet.statistics.degraded == 1)
  }

  @Test func whatIsDueWaitsForAServerThatRefusesChanges() throws {
    let a = FleetCounter(servers, daemon: 1)
    for number in 0..<30 { try a.say("TIMER SET t\(number) 1s") }
    servers.refusal = .rights
    pass(1_100, servers, a)
    let before = a.fleet.statistics.requests
    for _ in 0..<20 { pass(500, servers, a) }
    // Heartbeats, and no attempts.
    #expect(a.fleet.statistics.requests - before <= 10)
    #expect(servers.records.count == 30)
    #expect(a.info.contains("fleet_heartbeat_age_ms:11"))
    servers.refusal = nil
    for _ in 0..<3 { pass(1_000, servers, a) }
    #expect(servers.records.isEmpty)
    #expect(a.info.contains("fleet_heartbeat_age_ms:0"))
  }

  @Test func commandsFailAtOnceIfNoConnectionCanBeMade() throws {
    let a = FleetCounter(servers, daemon: 1)
    leave(a)
    a.counter.run(["COUNTDOWN", "START", "waits"])
    #expect(try a.counter.take().isEmpty)
    a.fleet.cannotConnect([0], "redis:1 cannot be used: Connection refused")
    #expect("\(try a.counter.take())".contains("Connection refused"))
    a.counter.run(["COUNTDOWN", "START", "k"])
    #expect("\(try a.counter.take())".contains("Connection refused"))
    comeBack(a)
    #expect(!"\(try a.say("COUNTDOWN START k"))".contains("UNAVAILABLE"))
  }

  @Test func commandsThatEndedWhileTheServersWereAwayAreReleased() throws {
    let a = FleetCounter(servers, daemon: 1)
    leave(a)
    weak var slot: ReplySlot?
    a.counter.run(["COUNTDOWN", "START", "k"])
    slot = a.counter.session.slots.first
    #expect(slot != nil)
    a.counter.pass(251)
    #expect("\(try a.counter.take())".contains("UNAVAILABLE"))
    #expect(slot == nil)
  }

  @Test func aStepDoesABoundedAmountOfWork() throws {
    let a = FleetCounter(servers, daemon: 1)
    let b = FleetCounter(servers, daemon: 2)
    for number in 0..<200 { try a.say("TIMER SET t\(number) 1s") }
    b.read()
    servers.time += 1_200_000
    b.counter.pass(1_000)
    b.counter.host.now.boot.microseconds += 200_000
    let before = b.fleet.statistics.requests
    #expect(!b.fleet.advance(to: b.boot, budget: 10))
    #expect(b.fleet.statistics.requests - before <= 11)
    while !b.fleet.advance(to: b.boot, budget: 10) {}
    b.settle()
    #expect(servers.records.isEmpty)
  }

  /// Earlier cooldowns are unknown to the servers, but not to the daemons.
  @Test func afterALossNothingIsAllowedUntilTheLongestCooldownIsOver() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("COUNTDOWN START k EVERY 1s COUNT 3600")
    try a.say("THROTTLE TAKE r BURST 1 RATE 1/30m")
    servers.records = [:]
    servers.entries = []
    servers.epoch = nil
    pass(1_000, servers, a)
    #expect(a.info.contains("fleet_losses:1"))
    pass(3_500_000, servers, a)
    #expect("\(try a.say("COUNTDOWN START k"))".contains("UNAVAILABLE"))
    pass(110_000, servers, a)
    #expect(!"\(try a.say("COUNTDOWN START k"))".contains("UNAVAILABLE"))
  }

  @Test func aServerThatTakesOverWithoutTheNewestChangesIsReported() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("TIMER SET x 1h")
    let (records, entries, number) = (servers.records, servers.entries, servers.number)
    try a.say("TIMER SET y 1h")
    (servers.records, servers.entries, servers.number) = (records, entries, number)
    a.fleet.disconnected([0])
    a.fleet.connected([0], at: a.boot)
    a.settle()
    #expect(a.info.contains("fleet_takeovers_behind:1"))
  }

  @Test func aSecondFailoverIsSeenThoughTheStreamIsAsLongAsBefore() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("TIMER SET x 1h PAYLOAD kept")
    let (records, entries, number) = (servers.records, servers.entries, servers.number)
    /// Another server takes over, on which another host has made a change.
    func failOver(_ daemon: UInt64) throws {
      (servers.records, servers.entries, servers.number) = (records, entries, number)
      let b = FleetCounter(servers, daemon: daemon)
      try b.say("TIMER SET of-\(daemon) 1h")
      a.fleet.disconnected([0])
      a.fleet.connected([0], at: a.boot)
      a.settle()
    }
    try a.say("TIMER SET lost 1h")
    try failOver(2)
    #expect("\(try a.say("TIMER LIST"))".contains("of-2"))
    try failOver(3)
    #expect(a.info.contains("fleet_takeovers_behind:2"))
    let text = "\(try a.say("TIMER LIST"))"
    #expect(text.contains("of-3") && !text.contains("of-2"))
  }

  @Test(arguments: FleetSettings.Mirror.allCases)
  func aLoadingThatALostConnectionEndsIsRepeated(mirror: FleetSettings.Mirror) throws {
    let a = FleetCounter(servers, daemon: 1)
    for key in ["x", "y"] { try a.say("TIMER SET \(key) 1h") }
    servers.isSilent = true
    var settings = FleetSettings()
    settings.mirror = mirror
    let new = FleetCounter(servers, daemon: 2, settings)
    new.counter.run(["SUBSCRIBE", "timer:x", "timer:y"])
    new.losesLoading = true
    servers.isSilent = false
    new.settle()
    #expect(!new.losesLoading)
    #expect(try new.counter.take().count { "\($0)".contains("running") } == 2)
    let session = new.counter.open()
    #expect(try new.say("TIMER LIST", by: session).elements.last?.elements.count == 2)
  }

  /// The stream is long, so the server has dropped the entry that the host has read last.
  @Test(arguments: [false, true])
  func anEntryThatTheStreamHasDroppedIsNoTakeover(isFollowed: Bool) throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try a.say("TIMER SET x 1h")
    a.read()
    let (loaded, read) = (a.loaded, servers.number)
    if !isFollowed {
      a.fleet.disconnected([0])
      for key in ["y", "z"] { try b.say("TIMER SET \(key) 1h") }
    }
    servers.entries.removeAll { $0.number <= read + 1 }
    if isFollowed { pass(2_000, servers, a) } else { a.fleet.connected([0], at: a.boot) }
    a.settle()
    #expect(a.fleet.statistics.forks == 0)
    // Who follows the stream has missed nothing, and reads nothing again.
    #expect(a.loaded - loaded == (isFollowed ? 0 : 3))
    #expect(try a.say("TIMER LIST").elements.last?.elements.count == (isFollowed ? 1 : 3))
  }

  /// What a host had of them was ahead of the stream, where the servers agree.
  @Test(arguments: ["TIMER SET x 1h PAYLOAD lost", "TIMER GET x"])
  func whatAServerThatTakesOverLacksIsReadAgain(command: String) throws {
    let (a, b) = (FleetCounter(servers, daemon: 1), FleetCounter(servers, daemon: 2))
    try b.say("TIMER SET x 1h PAYLOAD kept")
    a.read()
    let (records, entries, number) = (servers.records, servers.entries, servers.number)
    if command.contains("GET") { try b.say("TIMER SET x 1h PAYLOAD lost") }
    a.onTheWay = { [servers] in
      (servers.records, servers.entries, servers.number) = (records, entries, number)
    }
    #expect("\(try a.say(command))".contains("lost"))
    #expect("\(try a.say("TIMER LIST"))".contains("lost"))
    let c = FleetCounter(servers, daemon: 3)
    try c.say("TIMER SET y 1h")
    a.fleet.disconnected([0])
    a.fleet.connected([0], at: a.boot)
    a.settle()
    #expect("\(try a.say("TIMER LIST"))".contains("kept"))
    #expect(a.fleet.statistics.forks == 0)
  }

  @Test func aServerWhoseClockIsBehindIsNotSaidToHaveBeenSet() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("TIMER SET x 1h")
    // Another server takes over, whose clock is 300 ms behind.
    servers.time -= 300_000
    let late = "\(try a.say("TIMER SET x 2h"))"
    #expect(late.contains("UNAVAILABLE") && late.contains("clock is 300ms behind"), "\(late)")
    // A command that has waited for most of its time has no time left for 20 ms.
    servers.time += 280_000
    servers.isSilent = true
    a.counter.run(["TIMER", "SET", "x", "3h"])
    a.counter.pass(240)
    servers.isSilent = false
    a.settle()
    let slow = try a.counter.take().map { "\($0)" }.joined()
    #expect(slow.contains("UNAVAILABLE the servers did not answer within 250ms"), "\(slow)")
  }

  @Test func aDamagedRecordIsReported() throws {
    let a = FleetCounter(servers, daemon: 1)
    try a.say("TIMER SET x 1h")
    let (key, record) = try #require(servers.records.first)
    servers.records[key] = FleetRecord(record.version, Array(record.bytes.dropLast()))
    let b = FleetCounter(servers, daemon: 2)
    #expect(b.info.contains("fleet_unreadable:1"))
    #expect(a.info.contains("fleet_unreadable:0"))
  }
}
