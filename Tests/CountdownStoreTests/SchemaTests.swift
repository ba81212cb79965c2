import Countdowns
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
    if version < 3 {
      // These columns have bytes that stand for what an engine writes.
      let read = store.database
      #expect(
        try read.texts(
          "SELECT hex(policy_state) || quote(earlier_tokens) FROM countdowns WHERE id = 0")
          == ["010203NULL"])
      #expect(try read.texts("SELECT hex(state) FROM huds") == ["09"])
      #expect(failure { _ = try store.allCountdowns() } == .corrupt)
      #expect(failure { _ = try store.all(DurableHUD.self) } == .corrupt)
      try read.execute(
        """
        UPDATE countdowns SET policy_state = x'\(Self.sent)' WHERE id = 0;
        UPDATE huds SET state = x'\(Self.shown)'
        """)
    }
    #expect(try store.allCountdowns() == Self.countdowns(version))
    #expect(try store.all(DurableTimer.self) == [Self.timer])
    #expect(try store.all(DurableHUD.self) == [Self.hud])
    #expect(try store.eventsAfter(0) == ([1_790_000_000_000_009], true))
    #expect(try store.all(DurableGuard.self) == (version < 2 ? [] : Self.guards))
  }

  /// A log beside such a state, as the version that had both has written it: made once, never
  /// changed. It moves everything to other places.
  @Test func aKeptLogIsRead() throws {
    let directory = TemporaryDirectory()
    try keptFile(4, in: directory)
    let url = try #require(
      Bundle.module.url(forResource: "Fixtures/log-1", withExtension: "base64"))
    var bytes = try #require(
      Data(base64Encoded: Data(contentsOf: url), options: .ignoreUnknownCharacters))
    bytes += Data(count: 65_536 - bytes.count)
    let segment = StateFiles(directory: directory.state).segment(1)
    try bytes.write(to: URL(filePath: segment))
    let store = try open(directory, at: reading(5_000_000))
    #expect(store.damage == nil)
    let moved = Self.moved
    #expect(try store.allCountdowns() == moved.countdowns)
    #expect(try store.all(DurableTimer.self) == moved.timers)
    #expect(try store.all(DurableHUD.self) == moved.huds)
    #expect(try store.all(DurableGuard.self) == moved.guards)
    #expect(try store.eventsAfter(0) == ([1_790_000_000_000_009, 1_790_000_000_000_010], true))
  }

  /// What is in the kept files, at other places.
  private static var moved: TestBatch {
    func moved<Record: StoredRecord>(_ rows: [StoredRow<Record>]) -> [StoredRow<Record>] {
      rows.map { StoredRow($0.record, at: $0.place + 100) }
    }
    func gone<Record: StoredRecord>(_ rows: [StoredRow<Record>]) -> [(
      kind: EntityKind, place: UInt32
    )] {
      rows.map { ($0.record.kind, $0.place) }
    }
    let countdowns = countdowns(4)
    return TestBatch(
      countdowns: moved(countdowns), timers: moved([timer]), huds: moved([hud]),
      guards: moved(guards),
      gone: gone(countdowns) + gone([timer]) + gone([hud]) + gone(guards),
      events: events(1_790_000_000_000_010).events)
  }

  // MARK: What is in the kept files

  /// A moment of the store's clock, in microseconds after 1 790 000 000 s.
  private static func at(_ microseconds: Int64) -> Instant {
    Instant(microseconds: 1_000_000_000 + microseconds)
  }

  private static func generation(_ number: Int64) -> Generation {
    Generation(1_790_000_000_000_000 + number)
  }

  private static func countdowns(_ version: Int) -> [StoredRow<DurableCountdown>] {
    let step = Countdown.Plan(count: 1, every: .milliseconds(1))!
    return [
      countdown(
        0, Array("+4512345678".utf8), generation(1),
        Countdown(
          Countdown.Plan(count: 60, every: .seconds(1))!, .counting(until: at(60_000_000)),
          sends: 2, isRefunded: true), uid: 1_000
      ) {
        ($0.title, $0.readyTitle) = (Array("%ds后重发".utf8), Array("重发".utf8))
        $0.annotations.meta = [0, 255]
        let earlier = [SentToken([0, 255], Generation(2)), SentToken([7], Generation(.max))]
        $0.tokens = (version < 3 ? [] : earlier) + [SentToken(Array("t-1".utf8), generation(1))]
        $0.sending = sending
      },
      countdown(
        7, [0, 254], generation(2),
        Countdown(
          Countdown.Plan(count: 5, every: .milliseconds(1), firesAtOnce: true)!,
          .paused(left: .milliseconds(1_500)), sends: 1, isRefunded: false), uid: 0),
      countdown(
        8, Array("r".utf8), generation(3),
        Countdown(step, .ready(since: at(-1_000_000)), sends: 1, isRefunded: false), uid: 0),
      countdown(
        9, Array("i".utf8), generation(6),
        Countdown(step, .idle(since: at(-500_000)), sends: 1, isRefunded: false), uid: 0),
    ]
  }

  /// A moment in coded bytes, of the clock of their test.
  private static func coded(_ milliseconds: Int64) -> Instant {
    Instant(microseconds: milliseconds * 1_000 + 7 + 1_000_000_000 - 1_789_999_000_000_000)
  }

  private static let sent =
    "01010000000401000000020000000000000005000000003b9ab67f00000000027fffffffffffffff00000000"
    + "3b9aed2f01000000005f5e332f0000000100000000000007a120000000030000000003938700000000000727"
    + "0e000000000011e1a3000000000200000000000000050000000023c346000000000000000009000000141dd7"
    + "60000000000300000003736d7300000003736d730000000463616c6c010000000023c3460001000000000000"
    + "0003000000077265706c61636501000000032564730100000000"

  private static var sending: DurableSending {
    var rules = SendPolicy.Rules()
    rules.every = .milliseconds(500)
    rules.ladder = [.seconds(60), .seconds(120), .seconds(300)]
    rules.windows = [
      .init(limit: 5, length: .seconds(600)), .init(limit: 9, length: .seconds(86_400)),
    ]
    rules.channels = ["sms", "sms", "call"]
    (rules.validity, rules.attempts, rules.onResend) = (.seconds(600), 3, .replace)
    (rules.title, rules.readyTitle) = (Array("%ds".utf8), [])
    let sends = [
      SendRecord.Send(generation: Generation(5), at: coded(-5), expires: nil, attempts: 2),
      SendRecord.Send(
        generation: Generation(.max), at: coded(9), expires: coded(600_009), attempts: 1),
    ]
    return DurableSending(
      policy: try! SendPolicy(name: "otp", rules),
      record: SendRecord(sends: sends, number: 4, isPassed: true), isInForce: true)
  }

  private static let timer = StoredRow(
    DurableTimer(
      key: Array("nightly".utf8),
      machine: PlainTimer(
        .running(until: Instant(microseconds: 1_790_040_000_000_000)), every: .days(1),
        late: .coalesce, fired: 3, missed: 1)!, generation: generation(4), uid: 1_000, clock: .wall,
      payload: [1]), at: 3)

  private static let shown =
    "010000000100000005616c6572740000000870726f677265737301000000017300000000000003e800000000"
    + "000007d00000000000000fa000000000000013880000000000001770010000000000000bb800000007726571"
    + "756573740000000473686f7700000005626c61636b000000000000000703000000003b9ae94702000000003b"
    + "9af8e700000006746170706564010000000974696d65642d6f7574013fe0000000000000000000000000000d"
    + "000000000000000e000000003b9aed2f000000003b9af117000000003b9af4ff01000000003b9b049f"

  private static var hud: StoredRow<DurableHUD> {
    var request = Presentation.Request(
      kind: .progress, status: Array("s".utf8), grace: .milliseconds(1), minimum: .milliseconds(2),
      maximum: .milliseconds(3), fadeIn: .milliseconds(4), fadeOut: .milliseconds(5),
      minimumFrom: .request, early: .show, mask: .black, messageMinimum: .milliseconds(6))
    request.isDurable = true
    var machine = Presentation.blank
    machine.generation = Generation(7)
    machine.shows = [
      Presentation.Show(request, generation: Generation(7), owner: .none, since: coded(11))
    ]
    machine.shows[0].fraction = 0.5
    machine.isHeld = false
    machine.phase = .disappearing(until: coded(8))
    machine.requestedAt = coded(9)
    machine.appearedAt = Instant(microseconds: coded(10).microseconds - 4_000)
    machine.visibleSince = coded(10)
    machine.dismissal = .held(since: coded(12), .tapped)
    machine.end = .timedOut
    machine.pausedAt = coded(15)
    return StoredRow(
      DurableHUD(
        key: Array("checkout".utf8), uid: 1_000, presentations: [DurableHUD.Shown(.alert, machine)]),
      at: 0)
  }

  private static let guards: [StoredRow<DurableGuard>] = {
    func row(
      _ place: UInt32, _ key: String, _ number: Int64, _ machine: any Guard
    ) -> StoredRow<DurableGuard> {
      StoredRow(
        DurableGuard(
          key: Array(key.utf8), machine, generation: generation(number), uid: 1_000),
        at: place)
    }
    var done = row(2, "", 10, Once(.done(result: []), until: at(31_000_000)))
    done.record.key = [0, 253]
    done.record.uid = 0
    let rule = Debounce.Rule(quiet: .seconds(2), maximumWait: .seconds(9), isLeading: true)!
    return [
      row(
        5, "login:+45", 7,

        Throttle(
          Throttle.Rate(burst: 3, count: 7, period: .seconds(1))!, arrival: at(142_857),
          fraction: 1)!),
      row(0, "order", 8, Once(.running, until: at(30_000_000))),
      done,
      row(
        0, "session", 11,

        Gate(
          .pending(
            Gate.Action(name: Array("buy".utf8), payload: Array("42".utf8)),
            until: at(600_000_000)))),
      row(1, "open", 12, Gate(.open(until: nil))),
      row(
        3, "draft", 13,

        Debounce(
          rule, lastCall: at(500_000),
          waiting: .init(since: at(100_000), calls: 4, payload: Array("text".utf8)))),
    ]
  }()

  @Test func backupsShowGuardsByKind() throws {
    let directory = TemporaryDirectory()
    try keptFile(2, in: directory)
    let store = try open(directory, at: reading(5_000_000))
    #expect(try store.database.texts("SELECT name FROM sqlite_schema WHERE type = 'view'") == [])
    try Views.create(in: store.database)
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
    try store.write(batch([countdown(0, "new")]))
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
    let report = try Store.check(directory: directory.state, anyEvents)
    #expect(report.schemaVersion == 1 && !report.areRowsRead && report.problems == [])
    #expect(report.counts == [.countdown: 4, .timer: 1, .hud: 1])
    #expect(contents(directory.database) == before)
  }

  @Test func aNewerVersionIsRefusedAndLeftAlone() throws {
    let directory = TemporaryDirectory()
    var newer: Store! = try Store(
      options(directory.state), at: reading(), schema: next("CREATE TABLE extra (x)"))
    try newer.write(batch([countdown(0, "a")]))
    newer = nil
    let before = contents(directory.database)
    let version = Schema.current.version
    #expect(failure { _ = try open(directory) } == .newerSchema(found: version + 1, known: version))
    #expect(
      failure { _ = try Store.check(directory: directory.state, anyEvents) }
        == .newerSchema(found: version + 1, known: version))
    #expect(contents(directory.database) == before)
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
