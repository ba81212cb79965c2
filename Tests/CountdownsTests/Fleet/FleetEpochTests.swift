import Countdowns
import Simulation
import Testing
import Wire

/// What a host knows of partitions over restarts, and what happens if nobody knows them.
struct FleetEpochTests {
  private let start = "COUNTDOWN START k COUNT 60 EVERY 1s"

  @Test func aPartitionThatNobodyKnowsIsRefusedUntilTheFleetIsBegun() throws {
    let servers = ServersStandIn()
    servers.epoch = nil
    let a = FleetCounter(servers, daemon: 1)
    let b = FleetCounter(servers, daemon: 2)
    for command in [start, "COUNTDOWN GET k"] {
      let error = try a.say(command).error ?? ""
      #expect(error.hasPrefix("UNAVAILABLE") && error.contains("countdownctl fleet init"))
    }
    #expect(a.info.contains("fleet_unknown_partitions:1"))
    #expect(a.counter.host.fleetNotices == [.closed(partition: 0, .unknown)])
    #expect(try a.say("FLEET INIT").integer == 1)
    #expect(a.counter.host.fleetNotices.count == 2)
    #expect(try a.say("FLEET INIT").integer == 0)
    #expect(try a.say(start)["accepted"]?.integer == 1)
    #expect(try b.say(start).error?.hasPrefix("UNAVAILABLE") == true)
    pass(1_000, servers, a, b)
    #expect(try b.say(start)["accepted"]?.integer == 0)
    #expect(b.info.contains("fleet_unknown_partitions:0"))
  }

  @Test func aLossIsFoundThoughAllDaemonsHaveRestarted() throws {
    let servers = ServersStandIn()
    let before = FleetCounter(servers, daemon: 1)
    #expect(try before.say(start)["accepted"]?.integer == 1)
    pass(1_000, servers, before)
    let memory = try #require(before.counter.host.memory)
    (servers.records, servers.entries, servers.epoch) = ([:], [], nil)
    let after = FleetCounter(servers, daemon: 2, memory: memory)
    #expect(try after.say(start).error?.hasPrefix("UNAVAILABLE the servers have lost") == true)
    // A host that knows nothing asks the others by waiting.
    let fresh = FleetCounter(servers, daemon: 3)
    #expect(try fresh.say(start).error?.hasPrefix("UNAVAILABLE the servers have lost") == true)
    // It remembers for a bit longer than needed.
    pass(75_000, servers, after, fresh)
    #expect(try after.say(start)["accepted"]?.integer == 1)
  }

  @Test func aHostThatComesBackLongAfterALossRefusesNothing() throws {
    let servers = ServersStandIn()
    let host = FleetCounter(servers, daemon: 1)
    let away = FleetCounter(servers, daemon: 2)
    #expect(try host.say(start)["accepted"]?.integer == 1)
    pass(1_000, servers, host, away)
    let memory = try #require(away.counter.host.memory)
    (servers.records, servers.entries, servers.epoch) = ([:], [], nil)
    pass(1_000, servers, host)
    pass(75_000, servers, host)
    #expect(try host.say(start)["accepted"]?.integer == 1)
    let back = FleetCounter(servers, daemon: 3, memory: memory)
    #expect(try back.say(start)["reason"]?.text == "cooldown")
    #expect(try host.say("TIMER SET t 1m")["state"]?.text == "running")
  }

  @Test func anAcceptedLossRefusesNothingOnAnyHost() throws {
    let servers = ServersStandIn()
    let a = FleetCounter(servers, daemon: 1)
    let b = FleetCounter(servers, daemon: 2)
    #expect(try a.say(start)["accepted"]?.integer == 1)
    pass(1_000, servers, a, b)
    let memory = try #require(b.counter.host.memory)
    (servers.records, servers.entries, servers.epoch) = ([:], [], nil)
    pass(1_000, servers, a, b)
    #expect(try a.say(start).error?.hasPrefix("UNAVAILABLE the servers have lost") == true)
    #expect(try a.say("FLEET ACCEPT-LOSS").integer == 1)
    pass(1_000, servers, a, b)
    // Neither does one that comes back.
    let back = FleetCounter(servers, daemon: 3, memory: memory)
    #expect(try back.say(start)["accepted"]?.integer == 1)
    #expect(try b.say("TIMER SET t 1m")["state"]?.text == "running")
    #expect(try a.say("FLEET ACCEPT-LOSS").integer == 0)
  }

  @Test func aFleetThatWasBegunInPartIsBegunAgain() throws {
    let counter = DispatcherHarness()
    let link = Requests()
    var settings = FleetSettings()
    settings.partitions = 2
    let fleet = Fleet(settings, daemon: 1, dispatcher: counter.dispatcher, link: link)
    counter.dispatcher.fleet = fleet
    func answer(_ bodies: FleetAnswer.Body...) {
      #expect(link.sent.count == bodies.count)
      for (id, body) in zip(link.sent, bodies) {
        fleet.receive(FleetAnswer(body, engine: 1_790_000_000_000_000, sent: 0), to: id, at: 0)
      }
      link.sent = []
    }
    let opened = FleetAnswer.Body.opened(
      epoch: [1], number: 1, refusedUntil: 0, atPosition: nil, newest: nil, leases: FleetLeases())
    fleet.connected([0, 1], at: 0)
    answer(.closed(.unknown), .closed(.unknown))
    counter.run(["FLEET", "INIT"])
    answer(opened, .failed(mayBeDone: true, "the connection was closed"))
    #expect(try counter.take().first?.error?.hasSuffix("closed. Repeat it") == true)
    counter.run(["FLEET", "INIT"])
    answer(opened)
    #expect(try counter.take().first?.integer == 1)
  }

  @Test func aFleetOfOtherScriptsIsRefusedByName() throws {
    let servers = ServersStandIn()
    let a = FleetCounter(servers, daemon: 1)
    servers.otherScripts = "2"
    pass(1_000, servers, a)
    let error = try a.say(start).error ?? ""
    #expect(error.hasPrefix("UNAVAILABLE hosts of the fleet run a release with scripts 2"))
    #expect(try a.say("FLEET ACCEPT-LOSS").integer == 0)
    servers.otherScripts = nil
    pass(1_000, servers, a)
    #expect(try a.say(start)["accepted"]?.integer == 1)
  }

  @Test func whatAHostOfAnotherFleetRemembersMeansNothing() throws {
    let servers = ServersStandIn()
    let known = FleetMemory.Partition(epoch: [1, 2], blockedUntil: .max / 4)
    for memory in [
      FleetMemory(name: "other", partitions: [known]),
      FleetMemory(name: "default", partitions: [known, known]),
    ] {
      let host = FleetCounter(servers, daemon: 1, memory: memory)
      #expect(try host.say("TIMER SET t 1m")["state"]?.text == "running")
    }
  }
}

/// Keeps the IDs of requests, which the test answers.
private final class Requests: FleetLink {
  var sent: [UInt64] = []
  func send(_ request: FleetRequest, id: UInt64, to partition: Int) { sent.append(id) }
  func flush() {}
  func follow(_ partition: Int, after number: Int64) {}
  func load(_ partition: Int, only keys: [FleetKey]?) {}
}

extension Reply {
  fileprivate var error: String? { if case .error(let text) = self { text } else { nil } }
  fileprivate var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}
