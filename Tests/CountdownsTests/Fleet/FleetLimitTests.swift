import Countdowns
import Testing
import Wire

/// Named limits that a fleet shares.
@Suite struct FleetLimitTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private let b: FleetCounter

  init() throws {
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(60))
    var all = LimitRules.Rules()
    all.rate = Throttle.Rate(burst: 5, count: 5, period: .days(1))
    all.isGlobal = true
    var settings = EngineSettings()
    settings.throttles = ["ip": try LimitRules(ip), "all": try LimitRules(all)]
    var code = SendPolicy.Rules()
    (code.count, code.every) = (1, .seconds(1))
    code.limits = ["ip", "all"]
    settings.policies["code"] = try SendPolicy(name: "code", code)
    code.limits = []
    (code.validity, code.attempts, code.attemptLimits) = (.seconds(600), 3, ["ip"])
    settings.policies["login"] = try SendPolicy(name: "login", code)
    settings.keepReady = .seconds(600)
    a = FleetCounter(servers, daemon: 1, engine: settings)
    b = FleetCounter(servers, daemon: 2, engine: settings)
  }

  private func left(_ key: String, on daemon: FleetCounter) throws -> String {
    try daemon.say("THROTTLE GET \(key)")["remaining"]?.text ?? "unused"
  }

  @Test func hostsTakeFromTheSameLimits() throws {
    let taken = try a.say("THROTTLE TAKE ip:1 all:")
    #expect(taken["accepted"] == .integer(1) && taken["refused_by"] == .null)
    #expect(taken["views"]!.elements.map { $0["key"]!.text } == ["ip:1", "all:"])
    #expect(taken["views"]!.elements.map { $0["remaining"]!.text } == ["1", "4"])
    #expect(try b.say("THROTTLE TAKE all: COST 4")["accepted"] == .integer(1))
    let refused = try b.say("THROTTLE TAKE ip:2 all:")
    #expect(refused["accepted"] == .integer(0) && refused["refused_by"] == .bulk("all:"))
    #expect(refused["reason"] == .bulk("limit"))
    #expect(try left("ip:2", on: a) == "unused")
    #expect(try left("ip:1", on: b) == "1")
  }

  /// `a` has not read yet what `b` has taken, so it takes from `all:` first.
  @Test func whatWasTakenBeforeARefusalIsGivenBack() throws {
    _ = try a.say("THROTTLE TAKE ip:1 all:")
    _ = try b.say("THROTTLE TAKE ip:1")
    let before = servers.entries.count
    let refused = try a.say("THROTTLE TAKE ip:1 all: COST 1")
    #expect(refused["accepted"] == .integer(0) && refused["refused_by"] == .bulk("ip:1"))
    #expect(refused["retry_after_ms"] == .integer(60_000))
    #expect(servers.entries.count == before + 2)
    #expect(try left("all:", on: a) == "4" && left("all:", on: b) == "4")
    #expect(try left("ip:1", on: b) == "0")
  }

  /// Others may have taken what has come back meanwhile.
  @Test func whatHasComeBackMeanwhileIsNotGivenBackOnceMore() throws {
    _ = try a.say("THROTTLE TAKE ip:1 all:")
    _ = try b.say("THROTTLE TAKE ip:1")
    a.onTheWay = { [servers, a] in
      servers.time += 100_000
      a.counter.pass(100)
    }
    #expect(try a.say("THROTTLE TAKE ip:1 all:")["refused_by"] == .bulk("ip:1"))
    #expect(try a.say("THROTTLE GET all:")["reset_after_ms"] == .integer(86_400_000 / 5))
  }

  @Test func hostsChargeAttemptsToTheSameSource() throws {
    _ = try a.say("COUNTDOWN START k POLICY login")
    for daemon in [a, b] {
      let view = try daemon.say("COUNTDOWN ATTEMPT k LIMIT ip:1 TOKEN t\(daemon === a)")
      #expect(view["accepted"] == .integer(1))
    }
    #expect(try a.say("COUNTDOWN ATTEMPT k LIMIT ip:1 TOKEN ttrue")["reason"] == .bulk("repeated"))
    let refused = try a.say("COUNTDOWN ATTEMPT k LIMIT ip:1")
    #expect(refused["reason"] == .bulk("limit") && refused["limit"] == .bulk("ip:1"))
    #expect(refused["retry_after_ms"] == .integer(60_000))
    #expect(try a.say("COUNTDOWN GET k")["attempts_left"] == .integer(1))
    // What the code refuses is given back.
    #expect(try b.say("COUNTDOWN ATTEMPT k LIMIT ip:2")["attempts_left"] == .integer(0))
    #expect(try a.say("COUNTDOWN ATTEMPT k LIMIT ip:2")["reason"] == .bulk("locked"))
    #expect(try left("ip:2", on: a) == "1" && left("ip:2", on: b) == "1")
  }

  @Test func repliesStayInTheirOrder() throws {
    for line in [
      "TIMER SET t 1m", "THROTTLE TAKE ip:2 all: TOKEN t", "THROTTLE TAKE ip:1 all:",
      "THROTTLE TAKE ip:1 al:", "THROTTLE TAKE ip:1 all: PEEK", "PING",
    ] {
      a.counter.run(line.split(separator: " ").map(String.init))
    }
    for _ in 0..<6 { a.settle() }
    let replies = try a.counter.take()
    try #require(replies.count == 6)
    #expect(replies[0]["generation"] != nil)
    #expect(replies[1]["accepted"] == .integer(1))
    #expect(replies[2]["accepted"] == .integer(1))
    #expect("\(replies[3])".contains("no limit for"))
    #expect(replies[4]["accepted"] == .integer(1))
    #expect("\(replies[5])".contains("PONG"))
  }

  @Test func withATokenSeveralAreTakenOnce() throws {
    let words = "THROTTLE TAKE ip:1 all: TOKEN"
    let taken = try a.say("\(words) t")
    #expect(taken["accepted"] == .integer(1) && taken["reason"] == .null)
    _ = try a.say("THROTTLE TAKE ip:1")
    for daemon in [a, b] {
      let again = try daemon.say("\(words) t")
      #expect(again["accepted"] == .integer(1) && again["reason"] == .bulk("repeated"))
      let refused = try daemon.say("\(words) u")
      #expect(refused["accepted"] == .integer(0) && refused["refused_by"] == .bulk("ip:1"))
    }
    #expect(try left("ip:1", on: a) == "0" && left("all:", on: a) == "4")
  }

  /// `ip:1` comes after `all:`, so it decides. Its answer is lost.
  @Test func aTakeWithATokenThatIsCutOffIsRepeated() throws {
    servers.changesLeft = 1
    let words = "THROTTLE TAKE ip:1 all: TOKEN t"
    a.counter.run(words.split(separator: " ").map(String.init))
    for _ in 0..<4 { a.settle() }
    a.counter.pass(251)
    servers.time += 251_000
    let reply = "\(try #require(try a.counter.take().first))"
    #expect(reply.contains("UNSURE") && reply.contains("repeat it with the same TOKEN"))
    (servers.isSilent, servers.changesLeft) = (false, .max)
    for _ in 0..<4 { a.settle() }
    let again = try b.say(words)
    #expect(again["accepted"] == .integer(1) && again["reason"] == .bulk("repeated"))
    #expect(try left("ip:1", on: b) == "1" && left("all:", on: b) == "4")
  }

  /// Another host takes with the same token at the same time.
  @Test func aTakeWithATokenThatComesSecondGivesBackWhatItTook() throws {
    let words = "THROTTLE TAKE ip:1 all: TOKEN t"
    for daemon in [a, b] { daemon.counter.run(words.split(separator: " ").map(String.init)) }
    for _ in 0..<6 {
      for daemon in [a, b] { daemon.settle() }
    }
    let reasons = try [a, b].map { try #require(try $0.counter.take().first)["reason"] }
    #expect(reasons.count { $0 == .null } == 1 && reasons.count { $0 == .bulk("repeated") } == 1)
    for daemon in [a, b] { daemon.read() }
    #expect(try left("ip:1", on: b) == "1" && left("all:", on: b) == "4")
  }

  @Test func withoutAnAnswerTheClientIsToldWhichLimitMayHaveBeenCharged() throws {
    servers.isSilent = true
    a.counter.run(["THROTTLE", "TAKE", "ip:1", "all:"])
    a.settle()
    a.counter.pass(251)
    let reply = "\(try #require(try a.counter.take().first))"
    #expect(reply.contains("may have been charged; nothing else was done"))
  }

  // MARK: Starts

  private func start(_ key: Int, on daemon: FleetCounter, _ more: String = "") throws -> Reply {
    try daemon.say("COUNTDOWN START \(key) POLICY code LIMIT ip:1\(more)")
  }

  @Test func startsOfAllHostsAreChargedToTheSameLimits() throws {
    #expect(try start(1, on: a)["accepted"] == .integer(1))
    #expect(try start(2, on: b)["accepted"] == .integer(1))
    a.read()
    let changes = servers.entries.count
    for daemon in [a, b] {
      let refused = try start(3, on: daemon)
      #expect(refused["accepted"] == .integer(0) && refused["reason"] == .bulk("limit"))
      #expect(refused["limit"] == .bulk("ip:1"))
      #expect(refused["retry_after_ms"] == .integer(60_000))
    }
    #expect(servers.entries.count == changes)
    #expect(try left("all:", on: a) == "3" && left("ip:1", on: a) == "0")
    let why = "\(try b.say("COUNTDOWN WHY 1"))"
    #expect(why.contains("ip:1"))
  }

  /// `b` has not read what `a` has taken, so it charges `all:` first.
  @Test func aRefusedStartGivesBackWhatItHasCharged() throws {
    _ = try start(1, on: b)
    _ = try start(2, on: a)
    let refused = try start(3, on: b)
    #expect(refused["accepted"] == .integer(0) && refused["limit"] == .bulk("ip:1"))
    #expect(try left("all:", on: a) == "3" && left("all:", on: b) == "3")
  }

  @Test func aRepeatedTokenChargesNothing() throws {
    let first = try start(1, on: a, " TOKEN t")
    let again = try start(1, on: b, " TOKEN t")
    #expect(again["accepted"] == .integer(1) && again["reason"] == .bulk("repeated"))
    #expect(again["generation"] == first["generation"])
    #expect(try left("ip:1", on: b) == "1" && left("all:", on: b) == "4")
  }

  @Test func onlyRefundAndForgiveGiveBack() throws {
    let generation = try start(1, on: a)["generation"]!.text
    #expect(try b.say("COUNTDOWN REFUND 1 GENERATION \(generation)")["accepted"] == .integer(1))
    #expect(try left("ip:1", on: a) == "unused" && left("all:", on: a) == "unused")
    _ = try b.say("COUNTDOWN REFUND 1 GENERATION \(generation)")
    _ = try start(1, on: b)
    pass(1_001, servers, a, b)
    #expect(try a.say("COUNTDOWN RESEND 1 LIMIT ip:2")["accepted"] == .integer(1))
    _ = try a.say("COUNTDOWN CANCEL 1")
    #expect(try left("ip:1", on: b) == "1" && left("ip:2", on: b) == "1")
    _ = try start(2, on: a)
    _ = try b.say("COUNTDOWN FORGIVE 2 LIMITS")
    #expect(try left("ip:1", on: a) == "1" && left("all:", on: a) == "3")
  }

  @Test func aReadyCountdownWaitsForRoomThatAnotherHostHasTaken() throws {
    _ = try start(1, on: a)
    #expect(try b.say("THROTTLE TAKE ip:1")["accepted"] == .integer(1))
    a.read()
    pass(1_001, servers, a, b)
    let view = try b.say("COUNTDOWN GET 1")
    #expect(view["state"] == .bulk("counting") && view["limit"] == .bulk("ip:1"))
    pass(59_000, servers, a, b)
    #expect(try b.say("COUNTDOWN GET 1")["state"] == .bulk("ready"))
    #expect(try b.say("COUNTDOWN RESEND 1")["accepted"] == .integer(1))
  }

  @Test func countdownsThatWaitForOneLimitWaitForOneRoomEach() throws {
    for key in 1...2 { _ = try start(key, on: a) }
    // The second one waits for the first room, and the first one, ready after a second, for the next.
    pass(1_001, servers, a, b)
    let ends = try [2, 1].map { Int(try a.say("COUNTDOWN GET \($0)")["deadline_unix_ms"]!.text)! }
    #expect(ends[1] - ends[0] == 60_000)
    pass(59_000, servers, a, b)
    #expect(try b.say("COUNTDOWN GET 2")["state"] == .bulk("ready"))
    #expect(try b.say("COUNTDOWN GET 1")["state"] == .bulk("counting"))
  }

  @Test(arguments: [1, 2]) func aStartThatIsCutOffExceedsNoLimit(after changes: Int) throws {
    servers.changesLeft = changes
    let words = "COUNTDOWN START 1 POLICY code LIMIT ip:1 TOKEN t".split(separator: " ")
    a.counter.run(words.map(String.init))
    a.settle()
    a.counter.pass(251)
    servers.time += 251_000
    let reply = "\(try #require(try a.counter.take().first))"
    #expect(reply.contains("UNSURE") || reply.contains("UNAVAILABLE"))
    (servers.isSilent, servers.changesLeft) = (false, .max)
    a.settle()
    // What was answered late is given back, as the start was not made.
    let again = try start(1, on: b, " TOKEN t")
    #expect(again["accepted"] == .integer(1))
    #expect(try left("ip:1", on: b) == "1" && left("all:", on: b) == "4")
  }
}
