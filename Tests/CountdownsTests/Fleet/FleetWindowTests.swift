import Countdowns
import Testing
import Wire

/// Windows and `passed` of named limits that a fleet shares.
@Suite struct FleetWindowTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private let b: FleetCounter

  private static func settings(_ limit: Int = 2, of: UInt32 = 2) throws -> EngineSettings {
    var range = LimitRules.Rules()
    range.windows = [.init(limit: limit, length: .seconds(3_600))]
    range.droppedSuffixLength = 2
    range.passed = .init(least: 50, of: of, within: .days(1), block: .seconds(600))
    var all = LimitRules.Rules()
    all.windows = [.init(limit: 1_000, length: .days(1))]
    all.isGlobal = true
    var settings = EngineSettings()
    settings.throttles = ["range": try LimitRules(range), "all": try LimitRules(all)]
    var code = SendPolicy.Rules()
    (code.count, code.every, code.validity) = (1, .seconds(1), .seconds(60))
    code.limits = ["range", "all"]
    settings.policies["code"] = try SendPolicy(name: "code", code)
    settings.keepReady = .seconds(600)
    settings.eventsKept = 100
    return settings
  }

  init() throws {
    a = FleetCounter(servers, daemon: 1, engine: try Self.settings())
    b = FleetCounter(servers, daemon: 2, engine: try Self.settings())
  }

  private func start(_ key: String, on daemon: FleetCounter) throws -> String {
    let reply = try daemon.say("COUNTDOWN START \(key) POLICY code")
    let retry = reply["retry_after_ms"]?.text ?? "0"
    return reply["accepted"] == .integer(1)
      ? "accepted" : "\(reply["reason"]!.text) \(reply["limit"]!.text) \(retry)"
  }

  private func left(_ key: String, on daemon: FleetCounter) throws -> String {
    try daemon.say("THROTTLE GET \(key)")["remaining"]?.text ?? "unused"
  }

  @Test func aWindowSlidesOverTheSendsOfAllHosts() throws {
    #expect(try start("4511", on: a) == "accepted")
    _ = try b.say("COUNTDOWN PASS 4511")
    pass(1_000_000, servers, a, b)
    #expect(try start("4512", on: b) == "accepted")
    _ = try a.say("COUNTDOWN PASS 4512")
    #expect(try start("4513", on: a) == "limit range:45 2600000")
    let why = "\(try b.say("THROTTLE WHY range:45"))"
    #expect(why.contains("2 of 2 in 60 m; room in"))
    pass(2_600_000, servers, a, b)
    #expect(try start("4513", on: a) == "accepted")
    #expect(try start("4514", on: b) == "limit range:45 1000000")
    #expect(try left("all:", on: b) == "997")
  }

  @Test func whatIsGivenBackLeavesTheWindow() throws {
    let sent = try a.say("COUNTDOWN START 4511 POLICY code")
    #expect(try start("4512", on: b) == "accepted")
    _ = try b.say("COUNTDOWN REFUND 4511 GENERATION \(sent["generation"]!.text)")
    #expect(try left("range:45", on: a) == "1" && left("all:", on: a) == "999")
    _ = try a.say("COUNTDOWN FORGIVE 4512 LIMITS")
    #expect(try left("range:45", on: b) == "unused" && left("all:", on: b) == "unused")
    #expect(try a.say("THROTTLE TAKE all: COST 1000")["accepted"] == .integer(1))
    #expect(try start("4611", on: b) == "limit all: 86400000")
    #expect(try left("range:46", on: a) == "unused")
    _ = try b.say("THROTTLE REFUND all: 999")
    a.read()
    #expect(try start("4611", on: a) == "accepted")
  }

  // MARK: passed

  @Test func codesThatNobodyEntersBlockTheLimitOnAllHosts() throws {
    b.counter.run(["SUBSCRIBE", "throttle:range:45"])
    _ = try b.counter.take()
    #expect(try start("4511", on: a) == "accepted")
    #expect(try start("4512", on: a) == "accepted")
    pass(61_000, servers, a, b)
    pass(3_600_000, servers, a, b)
    let events = try b.counter.take().map { $0.elements.last?.text ?? "" }
    #expect(events.count { $0.contains(#""event":"blocked""#) } == 1)
    #expect(a.counter.host.notices + b.counter.host.notices == ["blocked range:45 0 of 2"])
  }

  @Test func aBlockEndsWithTimeOrByAnAdministratorOfAnyHost() throws {
    for (key, daemon) in [("4511", a), ("4512", b)] {
      #expect(try start(key, on: daemon) == "accepted")
    }
    pass(61_000, servers, a, b)
    for daemon in [a, b] {
      #expect(try daemon.say("THROTTLE GET range:45")["state"] == .bulk("blocked"))
      let blocked = try daemon.say("THROTTLE TAKE range:45")
      #expect(blocked["refused_by"] == .bulk("range:45"), "\(blocked)")
      #expect("\(try daemon.say("METRICS"))".contains("countdownd_blocked_limits 1"))
      #expect("\(try daemon.say("EVENTS SINCE 0 MATCH throttle:*"))".contains("blocked"))
    }
    #expect(try b.say("THROTTLE UNBLOCK range:45")["accepted"] == .integer(1))
    #expect(try a.say("THROTTLE UNBLOCK range:45")["reason"] == .bulk("repeated"))
    pass(3_600_000, servers, a, b)
    #expect(try start("4513", on: a) == "accepted")
    #expect("\(try a.say("METRICS"))".contains("countdownd_blocked_limits 0"))
  }

  @Test func enteredCodesKeepALimitOpen() throws {
    for (key, daemon) in [("4511", a), ("4512", b)] {
      #expect(try start(key, on: daemon) == "accepted")
    }
    _ = try a.say("COUNTDOWN PASS 4512")
    pass(61_000, servers, a, b)
    pass(3_600_000, servers, a, b)
    #expect(try start("4513", on: a) == "accepted")
  }

  @Test func eachHostForgivesWhatOnlyLimitsStillCount() throws {
    #expect(try start("4511", on: a) == "accepted")
    pass(700_000, servers, a, b)
    #expect(try a.say("COUNTDOWN GET 4511")["state"] == .bulk("idle"))
    #expect(try b.say("THROTTLE GET range:45")["remaining"] == .integer(1))
    _ = try b.say("COUNTDOWN FORGIVE 4511 LIMITS")
    for daemon in [a, b] { daemon.read() }
    #expect(try a.say("THROTTLE GET range:45") == .null)
    #expect(try a.say("THROTTLE GET all:") == .null)
    #expect(try a.say("COUNTDOWN GET 4511") == .null)
  }

  @Test func eachHostGivesBackWhatAnotherHasTakenByItsIds() throws {
    let taken = try a.say("THROTTLE TAKE all: range:45 TOKEN t")
    let ids = try taken["views"]!.elements.map { try #require($0["id"]).text }
    for limit in ["range:45", "all:"] { _ = try a.say("THROTTLE TAKE \(limit)") }
    for reason in [.null, .bulk("repeated")] as [Reply] {
      for daemon in [a, b] { daemon.read() }
      let refund = try b.say("THROTTLE REFUND range:45 1 ID \(ids[1])")
      #expect(refund["reason"] == reason && refund["remaining"] == .integer(1))
      #expect(try a.say("THROTTLE REFUND all: 1 ID \(ids[0])")["reason"] == reason)
    }
    // The limit that remembers the token knows its id.
    let again = try b.say("THROTTLE TAKE all: range:45 TOKEN t")["views"]!.elements
    #expect(again[0]["id"] == nil && again[1]["id"]?.text == ids[1])
    // What is given back in part is in the limit's record.
    let id = try a.say("THROTTLE TAKE all: COST 5")["views"]!.elements[0]["id"]!.text
    for _ in 0..<2 {
      #expect(try b.say("THROTTLE REFUND all: 2 ID \(id)")["remaining"] == .integer(996))
    }
    #expect(try a.say("THROTTLE REFUND all: 3 ID \(id)")["remaining"] == .integer(997))
  }

  /// A reload replaces the rules, not what was sent.
  @Test func aReloadJudgesWhatWasSentByTheNewRules() throws {
    #expect(try start("4511", on: a) == "accepted")
    #expect(try start("4512", on: a) == "accepted")
    for daemon in [a, b] {
      daemon.counter.dispatcher.engine.reload(try Self.settings(3), at: daemon.counter.host.now)
    }
    #expect(try start("4513", on: b) == "accepted")
    #expect(try start("4514", on: a) == "limit range:45 3600000")
  }

  // MARK: Records

  @Test func onlySoManyOfTheNewestSendsAreOnRecord() throws {
    var rules = LimitRules.Rules()
    rules.rate = Throttle.Rate(burst: 1_000_000, count: 1, period: .milliseconds(1))
    rules.passed = .init(least: 50, of: 1_000, within: .days(1), block: .seconds(600))
    var settings = EngineSettings()
    settings.throttles["wide"] = try LimitRules(rules)
    let c = FleetCounter(servers, daemon: 3, engine: settings)
    #expect(try c.say("THROTTLE TAKE wide: COST 1000000")["accepted"] == .integer(1))
    let record = try #require(servers.records[FleetKey(.throttle, Array("wide:".utf8))])
    #expect(record.bytes.count < 300 && record.bytes[0] == EntityRecord.countedShared)
    let reader = FleetCounter(servers, daemon: 4, engine: settings)
    #expect(try reader.say("THROTTLE TAKE wide:")["accepted"] != nil)
  }

  /// Each byte is replaced, and the record is cut off at each place: an error, or another limit.
  @Test func aDamagedRecordIsAnErrorAndNothingElse() throws {
    for _ in 0..<2 { #expect(try b.say("THROTTLE TAKE all:")["accepted"] == .integer(1)) }
    let key = FleetKey(.throttle, Array("all:".utf8))
    let record = try #require(servers.records[key])
    #expect(record.bytes[0] == EntityRecord.shared)
    var errors = 0
    func check(_ bytes: [UInt8]) throws {
      servers.records[key] = FleetRecord(record.version, bytes)
      let c = FleetCounter(servers, daemon: 3, engine: try Self.settings())
      let replies = try ["TAKE all:", "GET all:", "TAKE all: range:1"].map {
        "\(try c.say("THROTTLE \($0)"))"
      }
      if replies.contains(where: { $0.contains("ERR the servers have something else") }) {
        errors += 1
      }
    }
    for place in 9..<record.bytes.count {
      for value in [0x7F, 0xFF, 0] as [UInt8] where record.bytes[place] != value {
        var bytes = record.bytes
        bytes[place] = value
        try check(bytes)
      }
      try check(Array(record.bytes.prefix(place)))
    }
    #expect(errors > record.bytes.count)
  }
}
