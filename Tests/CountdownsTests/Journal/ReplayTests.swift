import SeededRandom
import Testing

@testable import Countdowns

/// A journal of random decisions, played again.
@Suite struct ReplayTests {
  private static func limits() throws -> [String: LimitRules] {
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 4, count: 6, period: .seconds(600))
    var range = LimitRules.Rules()
    range.windows = [.init(limit: 30, length: .seconds(3_600))]
    range.droppedSuffixLength = 1
    range.passed = .init(least: 10, of: 8, within: .seconds(3_600), block: .seconds(900))
    var all = LimitRules.Rules()
    all.windows = [.init(limit: 60, length: .seconds(1_200))]
    all.isGlobal = true
    return ["ip": try LimitRules(ip), "range": try LimitRules(range), "all": try LimitRules(all)]
  }

  static func settings(strict: Bool = false) throws -> EngineSettings {
    var phone = SendPolicy.Rules()
    phone.ladder = [.seconds(30), .seconds(60)]
    phone.windows = [.init(limit: strict ? 2 : 4, length: .seconds(1_800))]
    phone.validity = .seconds(300)
    phone.attempts = 2
    phone.lockout = [.seconds(300), .seconds(1_200)]
    phone.limits = ["ip", "range", "all"]
    var plain = phone
    plain.limits = []
    plain.lockout = []
    var settings = EngineSettings()
    settings.throttles = try limits()
    settings.policies = [
      "phone": try SendPolicy(name: "phone", phone), "plain": try SendPolicy(name: "plain", plain),
    ]
    return settings
  }

  /// Plays random commands, and returns the entries of the journal.
  private func record(
    _ count: Int, seed: UInt64, segment: Int = 60, hash: (([UInt8]) -> [UInt8])? = nil
  ) throws -> [JournalEntry] {
    let desk = DispatcherHarness(engine: try Self.settings())
    var keeping = Journal.Settings()
    keeping.size = .max
    keeping.entries = segment * Journal.segments
    let journal = Journal(
      of: desk.dispatcher.engine, keeping, bootID: "b", continues: false, hash: hash)
    desk.dispatcher.engine.journal = journal
    var random = SeededGenerator(seed: seed)
    var sent: [String: [String]] = [:]
    for _ in 0..<count {
      let key = "45\(Int.random(in: 10..<40, using: &random))"
      let policy = Int.random(in: 0..<8, using: &random) == 0 ? "plain" : "phone"
      let ip = "ip:\(Int.random(in: 0..<6, using: &random))"
      let generation = sent[key]?.randomElement(using: &random) ?? "1"
      let limit = policy == "phone" ? " LIMIT \(ip)" : ""
      let token = "TOKEN t\(Int.random(in: 0..<40, using: &random))"
      let commands = [
        "COUNTDOWN START \(key) POLICY \(policy)\(limit)",
        "COUNTDOWN START \(key) POLICY \(policy)\(limit) BRIEF",
        "COUNTDOWN START \(key) POLICY \(policy)\(limit) TITLE x META m \(token)",
        "COUNTDOWN ATTEMPT \(key)", "COUNTDOWN RESEND \(key)", "COUNTDOWN ATTEMPT \(key)",
        "COUNTDOWN ATTEMPT \(key)", "COUNTDOWN PASS \(key)", "COUNTDOWN ATTEMPT \(key)",
        "COUNTDOWN ATTEMPT \(key) GENERATION \(generation)",
        "COUNTDOWN REFUND \(key) GENERATION \(generation)", "COUNTDOWN CANCEL \(key)",
        "COUNTDOWN RETIME \(key) 90s", "COUNTDOWN PAUSE \(key)", "COUNTDOWN RESUME \(key)",
        "THROTTLE TAKE \(ip) all:", "THROTTLE TAKE \(key) BURST 2 RATE 2/10m",
        "THROTTLE REFUND \(ip) 1", "THROTTLE UNBLOCK range:451", "COUNTDOWN FORGIVE \(key) LIMITS",
        "ONCE BEGIN \(key) TTL 1h", "CLEAR countdown \(key)", "COUNTDOWN ATTEMPT \(key) ANY",
      ]
      // Most are starts.
      let place = min(
        Int.random(in: 0..<40, using: &random), Int.random(in: 0..<40, using: &random))
      let reply = try desk.say(commands[place < commands.count ? place : place % 7])
      if let accepted = reply["generation"]?.text, reply["accepted"] == .integer(1) {
        sent[key, default: []].append(accepted)
      }
      pass(Int64.random(in: 0..<40_000_000, using: &random), desk)
    }
    return try entries(of: journal)
  }

  private func entries(of journal: Journal) throws -> [JournalEntry] {
    try journal.takePending().flatMap { portion in
      try portion.entries.map { try #require(JournalEntry(bytes: $0, offset: 0)) }
    }
  }

  /// Lets time pass, stopping whenever something is due.
  private func pass(_ microseconds: Int64, _ desk: DispatcherHarness) {
    let end = desk.host.now.boot + Interval(microseconds: microseconds)
    while true {
      let next = min(desk.dispatcher.engine.nextDeadline.boot ?? end, end)
      let step = max(next - desk.host.now.boot, .zero)
      desk.host.now.boot = desk.host.now.boot + step
      desk.host.now.wall = desk.host.now.wall + step
      while !desk.dispatcher.advance(to: desk.host.now, budget: 100) {}
      guard next < end else { return }
    }
  }

  private func report(
    _ entries: some Sequence<JournalEntry>, _ settings: EngineSettings
  ) throws -> Replay.Report {
    let replay = Replay(settings)
    for entry in entries { try replay.play(entry) }
    return replay.report
  }

  @Test func theSameRulesDecideTheSameFromEachSegmentOn() throws {
    var reasons: Set<String> = []
    for seed in 1...8 as ClosedRange<UInt64> {
      let entries = try record(3_000, seed: seed)
      let starts = entries.indices.filter { entries[$0].what == .segment }
      #expect(starts.count > 20)
      for start in starts.prefix(2) + starts.suffix(2) {
        let report = try report(entries[start...], Self.settings())
        #expect(report.differing == 0 && report.undecided.isEmpty, "\(seed) \(start)")
        #expect(report.then == report.now && report.lostPasses == 0)
        let decisions = entries[start...].count { $0.what == .decision && $0.kind != .once }
        #expect(report.decisions == decisions)
        if start == 0 { reasons.formUnion(report.then.refused.keys) }
      }
    }
    #expect(reasons == ["cooldown", "window", "limit", "blocked", "locked"])
  }

  /// As after a restart: the end of a cooldown, and before it that of an earlier code, of which other
  /// limits learn.
  @Test func whatIsDueForACountdownAtTheSameTimeDecidesTheSame() throws {
    var settings = try Self.settings()
    var other = settings.policies["phone"]!.rules
    other.limits = ["ip"]
    settings.policies["other"] = try SendPolicy(name: "other", other)
    let desk = DispatcherHarness(engine: settings)
    var keeping = Journal.Settings()
    keeping.size = .max
    let journal = Journal(of: desk.dispatcher.engine, keeping, bootID: "b", continues: false)
    desk.dispatcher.engine.journal = journal
    for n in 1...7 { try desk.say("COUNTDOWN START 451\(n) POLICY phone LIMIT ip:\(n)") }
    pass(310_000_000, desk)
    try desk.say("COUNTDOWN START 4518 POLICY phone LIMIT ip:8")
    pass(40_000_000, desk)
    try desk.say("COUNTDOWN START 4518 POLICY other LIMIT ip:9")
    journal.startOver(lost: 0)
    desk.pass(280_000)
    let last = try desk.say("COUNTDOWN START 4519 POLICY phone LIMIT ip:10")
    #expect(last["reason"]?.text == "blocked")
    let entries = try entries(of: journal)
    let start = try #require(entries.lastIndex { $0.what == .segment })
    #expect(entries[start...].map(\.what).contains(.over))
    #expect(try report(entries[start...], settings).differing == 0)
  }

  @Test func keysThatAreHashedDecideTheSameAndNameNobody() throws {
    let entries = try record(2_000, seed: 7) { Array("h".utf8) + $0.map { $0 ^ 0x40 } }
    #expect(try report(entries, Self.settings()).differing == 0)
    let keys = entries.flatMap { $0.limits + [$0.key] + $0.words.dropFirst(2).prefix(1) }
    #expect(keys.count > 2_000)
    #expect(keys.allSatisfy { !String(decoding: $0, as: UTF8.self).contains("45") })
    // A record is the state of the hashed key.
    let records = entries.flatMap { entry in entry.records.map { (entry.key, $0) } }
    #expect(
      records.allSatisfy { key, record in
        EntityRecord.key(of: record.span).map { Array(record[$0]) } == key
      })
    var other = try Self.settings()
    var range = other.throttles["range"]!.rules
    range.droppedSuffixLength = 2
    other.throttles["range"] = try LimitRules(range)
    #expect {
      try report(entries, other)
    } throws: {
      ($0 as? Replay.Problem)?.text.contains("the limit 'range' takes its keys") ?? false
    }
  }

  @Test func stricterRulesSendLessAndLoseCustomers() throws {
    let entries = try record(3_000, seed: 3)
    let report = try report(entries, Self.settings(strict: true))
    #expect(report.now.sends < report.then.sends && report.differing > 0)
    #expect(report.now.refused["window"]! > report.then.refused["window"]!)
    #expect(report.lostPasses > 0 && report.lostKeys.count <= report.lostPasses)
    #expect(!report.affected.isEmpty && report.undecided.isEmpty)
    let last = try #require(entries.last { $0.what == .decision })
    let late = Replay(try Self.settings(), since: last.at.wall.microseconds)
    for entry in entries { try late.play(entry) }
    #expect(late.report.decisions == 1)
  }

  @Test func aJournalThatDoesNotNoteWhatWasRunIsReplayed() throws {
    let entries = try record(1_000, seed: 8)
    let newer: Set<JournalEntry.What> = [.over, .ran, .promised]
    #expect(Set(entries.map(\.what)).isSuperset(of: newer))
    let older = entries.filter { !newer.contains($0.what) }
    let report = try report(older, Self.settings())
    #expect(report.decisions == older.count { $0.what == .decision && $0.kind != .once })
    #expect(report.then.sends > 0 && report.notComparable.isEmpty)
  }

  @Test func decisionsThatCannotBeComparedSayWhy() throws {
    let entries = try record(300, seed: 9)
    let replay = Replay(try Self.settings())
    for entry in entries {
      var entry = entry
      // Half of a record is none.
      entry.records = entry.records.map { Array($0.prefix($0.count / 2)) }
      if entry.what == .decision, replay.report.decisions == 40 { replay.miss(1) }
      try replay.play(entry)
    }
    let found = replay.report.notComparable
    #expect(found["its state cannot be read"] ?? 0 > 0)
    #expect(found["entries before it are missing"] ?? 0 > 0)
  }

  @Test func rulesWithoutAPolicyOrALimitSayWhatTheyCannotDecide() throws {
    let entries = try record(500, seed: 5)
    var settings = try Self.settings()
    settings.policies["plain"] = nil
    #expect(
      try report(entries, settings).undecided.keys.contains { $0.contains("no policy 'plain'") })
    settings = try Self.settings()
    settings.throttles = [:]
    settings.policies["phone"] = settings.policies["plain"]
    #expect(try report(entries, settings).undecided.isEmpty)
  }
}
