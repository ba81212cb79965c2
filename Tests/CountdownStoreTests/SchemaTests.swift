import Foundation
import Testing

@testable import CountdownStore

@Suite struct SchemaTests {
  /// A state as a released version has written it: made once, never changed.
  private func keptFile(_ version: Int, in directory: TemporaryDirectory) throws {
    let url = try #require(
      Bundle.module.url(forResource: "Fixtures/version-\(version)", withExtension: "sql"))
    mkdir(directory.state, 0o700)
    _ = FileManager.default.createFile(atPath: directory.database, contents: nil)
    try Database(directory.database, .readWrite).execute(
      String(contentsOf: url, encoding: .utf8))
  }

  @Test(arguments: 1...Schema.current.version)
  func aKeptFileOfEachVersionIsRead(version: Int) throws {
    let directory = TemporaryDirectory()
    try keptFile(version, in: directory)
    let store = try open(directory, at: reading(5_000_000))
    #expect(try store.database.number("PRAGMA user_version") == Schema.current.version)
    #expect(store.clock.offset == 1_789_999_000_000_000)
    #expect(store.firstNumber > 1_794_294_967_296_000)
    #expect(
      try store.allCountdowns() == [
        CountdownRecord(
          index: 0, key: Array("+4512345678".utf8), generation: 1_790_000_000_000_001, uid: 1_000,
          phase: .counting(untilMicroseconds: 1_790_000_060_000_000), count: 60,
          everyMicroseconds: 1_000_000, sends: 2, isRefunded: true, title: Array("%ds后重发".utf8),
          readyTitle: Array("重发".utf8), meta: [0, 255], token: Array("t-1".utf8),
          earlierTokens: version < 3 ? nil : [7, 8],
          policy: Array("otp".utf8), policyState: [1, 2, 3]),
        CountdownRecord(
          index: 7, key: [0, 254], generation: 1_790_000_000_000_002, uid: 0,
          phase: .paused(leftMicroseconds: 1_500_000), count: 5, everyMicroseconds: 1_000,
          firesAtOnce: true),
        CountdownRecord(
          index: 8, key: Array("r".utf8), generation: 1_790_000_000_000_003, uid: 0,
          phase: .ready(sinceMicroseconds: 1_789_999_999_000_000), count: 1,
          everyMicroseconds: 1_000),
        CountdownRecord(
          index: 9, key: Array("i".utf8), generation: 1_790_000_000_000_006, uid: 0,
          phase: .idle(sinceMicroseconds: 1_789_999_999_500_000), count: 1,
          everyMicroseconds: 1_000),
      ])
    var timers: [TimerRecord] = []
    try store.loadTimers { timers.append($0) }
    #expect(
      timers == [
        TimerRecord(
          index: 3, key: Array("nightly".utf8), generation: 1_790_000_000_000_004, uid: 1_000,
          clock: .wall, phase: .running(untilMicroseconds: 1_790_040_000_000_000),
          everyMicroseconds: 86_400_000_000, late: .coalesce, fired: 3, missed: 1, payload: [1])
      ])
    var huds: [HUDRecord] = []
    try store.loadHUDs { huds.append($0) }
    #expect(
      huds == [
        HUDRecord(
          index: 0, key: Array("checkout".utf8), generation: 1_790_000_000_000_005, uid: 1_000,
          deadlineMicroseconds: 1_790_000_001_000_000, status: Array("Paying".utf8), state: [9])
      ])
    #expect(try store.eventsAfter(0) == ([1_790_000_000_000_009], true))
    #expect(try store.allGuards() == (version < 2 ? [] : Self.guards))
  }

  private static let guards: [GuardRecord] = {
    func record(
      _ place: UInt32, _ key: String, _ generation: Int64, _ state: GuardRecord.State
    ) -> GuardRecord {
      GuardRecord(
        place: place, key: Array(key.utf8), generation: 1_790_000_000_000_000 + generation,
        uid: 1_000, state: state)
    }
    let start: Int64 = 1_790_000_000_000_000
    var done = record(2, "", 10, .once(deadline: start + 31_000_000, result: []))
    done.key = [0, 253]
    done.uid = 0
    return [
      record(
        5, "login:+45", 7,
        .throttle(
          arrival: start + 142_857, fraction: 1, burst: 3, rateCount: 7, ratePeriod: 1_000_000)),
      record(0, "order", 8, .once(deadline: start + 30_000_000, result: nil)),
      done,
      record(
        0, "session", 11,
        .gatePending(
          deadline: start + 600_000_000, action: Array("buy".utf8), payload: Array("42".utf8))),
      record(1, "open", 12, .gateOpen(deadline: nil)),
      record(
        3, "draft", 13,
        .debounce(
          lastCall: start + 500_000, quiet: 2_000_000, maximumWait: 9_000_000, isLeading: true,
          waitingSince: start + 100_000, calls: 4, payload: Array("text".utf8))),
    ]
  }()

  @Test func theShellIsShownGuardsByKind() throws {
    let directory = TemporaryDirectory()
    try keptFile(2, in: directory)
    let store = try open(directory, at: reading(5_000_000))
    let texts = try store.database.texts(
      """
      SELECT key || '|' || burst || '/' || rate_count || '/' || rate_s FROM throttle
      UNION ALL SELECT key || '|' || state || '|' || coalesce(result, '-') FROM once
        WHERE key = 'order'
      UNION ALL SELECT session || '|' || state || '|' || coalesce(action, '-') || '|'
        || coalesce(deadline, 'for good') FROM gate WHERE state = 'open'
      UNION ALL SELECT key || '|' || state || '|' || calls || '|' || quiet_s || '|' || payload
        FROM debounce
      """)
    #expect(
      texts == [
        "login:+45|3/7/1.0", "order|running|-", "open|open|-|for good", "draft|waiting|4|2.0|text",
      ])
  }

  /// A schema of a version to come, as far as these tests are concerned.
  private func next(_ step: String) -> Schema {
    Schema(steps: Schema.current.steps + [step])
  }

  @Test func aStepChangesTheFileAndItsVersion() throws {
    let directory = TemporaryDirectory()
    try keptFile(1, in: directory)
    let schema = next(
      "ALTER TABLE countdowns ADD COLUMN color TEXT; UPDATE countdowns SET color = 'red' WHERE id = 7"
    )
    let store = try Store(options(directory.state), at: reading(), schema: schema)
    #expect(try store.database.number("PRAGMA user_version") == Int64(schema.version))
    #expect(try store.database.texts("SELECT color FROM countdowns WHERE id = 7") == ["red"])
    #expect(try store.counts() == (4, 1, 1))
    // It goes on being used with the column that this version's statements do not know.
    try store.commit(batch([countdown(0, "new")]), at: reading())
  }

  @Test func aStepThatFailsLeavesTheOldVersion() throws {
    let directory = TemporaryDirectory()
    try keptFile(1, in: directory)
    #expect(
      failure {
        _ = try Store(
          options(directory.state), at: reading(),
          schema: next("DELETE FROM countdowns; ALTER TABLE no_such_table ADD COLUMN x"))
      } != nil)
    let store = try open(directory)
    #expect(try store.database.number("PRAGMA user_version") == Schema.current.version)
    #expect(try store.counts() == (4, 1, 1))
  }

  @Test func rowsOfAnOlderVersionAreCounted() throws {
    let directory = TemporaryDirectory()
    try keptFile(1, in: directory)
    let before = contents(directory.database)
    let report = try Store.check(directory: directory.state, .any)
    #expect(report.schemaVersion == 1 && !report.areRowsRead && report.problems == [])
    #expect(report.countdowns == 4 && report.timers == 1 && report.huds == 1)
    #expect(contents(directory.database) == before)
  }

  @Test func aNewerVersionIsRefusedAndLeftAlone() throws {
    let directory = TemporaryDirectory()
    var newer: Store! = try Store(
      options(directory.state), at: reading(), schema: next("CREATE TABLE extra (x)"))
    try newer.commit(batch([countdown(0, "a")]), at: reading())
    newer = nil
    let before = contents(directory.database)
    let version = Schema.current.version
    #expect(failure { _ = try open(directory) } == .newerSchema(found: version + 1, known: version))
    #expect(
      failure { _ = try Store.check(directory: directory.state, .any) }
        == .newerSchema(found: version + 1, known: version))
    #expect(contents(directory.database) == before)
  }

  @Test func aNewerVersionThatWasKilledIsLeftAlone() throws {
    let (directory, copy) = (TemporaryDirectory(), TemporaryDirectory())
    let newer = try Store(
      options(directory.state), at: reading(), schema: next("CREATE TABLE extra (x)"))
    try newer.commit(batch([countdown(0, "a")]), at: reading())
    try copyState(directory, copy)
    let (file, log) = (contents(copy.database), contents(copy.database + "-wal"))
    let version = Schema.current.version
    #expect(failure { _ = try open(copy) } == .newerSchema(found: version + 1, known: version))
    #expect(contents(copy.database) == file)
    #expect(contents(copy.database + "-wal") == log)
    withExtendedLifetime(newer) {}
  }

  @Test(arguments: ["CREATE TABLE t (x)", "PRAGMA application_id = 5", "PRAGMA user_version = 3"])
  func aFileOfAnotherProgramIsLeftAlone(sql: String) throws {
    let directory = TemporaryDirectory()
    mkdir(directory.state, 0o700)
    _ = FileManager.default.createFile(atPath: directory.database, contents: nil)
    try Database(directory.database, .readWrite).execute(sql)
    let before = contents(directory.database)
    #expect(failure { _ = try open(directory) } == .foreign)
    #expect(contents(directory.database) == before)
  }
}
