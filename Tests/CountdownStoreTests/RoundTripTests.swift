import Testing

@testable import CountdownStore

@Suite struct RoundTripTests {
  private let everyByte = Array(UInt8.min...UInt8.max)

  @Test func countdownsComeBackAsTheyWere() throws {
    let directory = TemporaryDirectory()
    var extreme = CountdownRecord(
      index: StoredPlaces.end - 1, key: everyByte + everyByte, generation: .max, uid: .max,
      phase: .ready(sinceMicroseconds: .min), count: .max, everyMicroseconds: .max,
      firesAtOnce: true, sends: .max, isRefunded: true, title: [], readyTitle: everyByte,
      meta: [UInt8](repeating: 0, count: 4096), token: [0], policy: Array("otp".utf8),
      policyState: everyByte)
    let plain = countdown(0, "a")
    let paused = CountdownRecord(
      index: 1, key: [0], generation: 0, uid: 0, phase: .paused(leftMicroseconds: 0), count: 1,
      everyMicroseconds: 1_000, meta: nil)
    try open(directory).commit(batch([extreme, plain, paused]), at: reading())
    #expect(try open(directory).allCountdowns() == [plain, paused, extreme])

    // NULL after a value, in the same statement and over a restart.
    (extreme.title, extreme.readyTitle, extreme.meta) = (nil, nil, nil)
    (extreme.token, extreme.policy, extreme.policyState) = (nil, nil, nil)
    let store = try open(directory)
    try store.commit(batch([extreme]), at: reading())
    #expect(try store.allCountdowns() == [plain, paused, extreme])
  }

  /// Rows are written several at a time, and those that are left one by one.
  @Test(arguments: [15, 16, 17, 33, 40])
  func turnsOfAnySizeComeBackAsTheyWere(rows: Int) throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    // What a row has, the one that is written in its place has not.
    for turn in 0..<4 {
      let records = (0..<rows).map { row in
        var record = countdown(UInt32(row), "key-\(row)", until: Int64(turn * 1_000 + row))
        if (row + turn) % 2 == 0 { record.meta = [UInt8(row), UInt8(turn)] }
        if (row + turn) % 3 == 0 { record.phase = .paused(leftMicroseconds: Int64(row)) }
        if (row + turn) % 5 == 0 { record.title = Array("title \(row)".utf8) }
        return record
      }
      try store.commit(batch(records.reversed()), at: reading())
      #expect(try store.allCountdowns() == records)
    }
  }

  @Test(arguments: TimerRecord.Clock.allCases, TimerRecord.Late.allCases)
  func timersComeBackAsTheyWere(clock: TimerRecord.Clock, late: TimerRecord.Late) throws {
    let directory = TemporaryDirectory()
    var changes = StoreBatch()
    changes.timers.current = [
      TimerRecord(
        index: 0, key: [1], generation: 1, uid: 2, clock: clock,
        phase: .running(untilMicroseconds: .max), everyMicroseconds: .max, late: late, fired: .max,
        missed: .max, payload: everyByte),
      TimerRecord(
        index: StoredPlaces.end - 1, key: everyByte, generation: .max, uid: .max, clock: clock,
        phase: .paused(leftMicroseconds: .max), late: late, payload: []),
      TimerRecord(
        index: 7, key: [2], generation: 3, uid: 0, clock: clock,
        phase: .running(untilMicroseconds: -1), late: late),
    ]
    try open(directory).commit(changes, at: reading())
    var timers: [TimerRecord] = []
    try open(directory).loadTimers { timers.append($0) }
    #expect(timers == changes.timers.current.sorted { $0.index < $1.index })
  }

  @Test func hudsComeBackAsTheyWere() throws {
    let directory = TemporaryDirectory()
    var changes = StoreBatch()
    changes.huds.current = [
      HUDRecord(index: 0, key: [1], generation: 1, uid: 1, state: []),
      HUDRecord(
        index: StoredPlaces.end - 1, key: everyByte, generation: .max, uid: .max,
        deadlineMicroseconds: .max,
        status: everyByte, state: everyByte),
    ]
    try open(directory).commit(changes, at: reading())
    var huds: [HUDRecord] = []
    try open(directory).loadHUDs { huds.append($0) }
    #expect(huds == changes.huds.current)
  }

  @Test func anIndexIsUsedAgain() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    try store.commit(batch([countdown(0, "a"), countdown(1, "b")]), at: reading())
    try store.commit(batch([countdown(0, "c")], gone: [1]), at: reading())
    #expect(try store.keys() == ["c"])
    // What never was there is gone as well.
    try store.commit(batch(gone: [1, 2]), at: reading())
    #expect(try store.counts() == (1, 0, 0))
  }

  @Test func laterBatchesWin() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    try store.commit(
      [batch([countdown(0, "a")]), batch(gone: [0]), batch([countdown(0, "b")])], at: reading())
    #expect(try store.keys() == ["b"])
  }

  @Test func whatWasCommittedSurvivesKill() throws {
    let (directory, copy) = (TemporaryDirectory(), TemporaryDirectory())
    let store = try open(directory)
    for n in 0..<100 { try store.commit(batch([countdown(UInt32(n), "\(n)")]), at: reading()) }
    try copyState(directory, copy)
    #expect(try open(copy).keys() == (0..<100).map { "\($0)" })
    withExtendedLifetime(store) {}
  }

  @Test func viewsReadAsText() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, at: reading(0))
    var changes = batch([countdown(0, "+45", until: wallStart + 1_500_000, meta: [104, 105])])
    changes.timers.current = [
      TimerRecord(
        index: 0, key: Array("t".utf8), generation: 1, uid: 0, clock: .wall,
        phase: .running(untilMicroseconds: wallStart))
    ]
    changes.huds.current = [
      HUDRecord(
        index: 0, key: Array("h".utf8), generation: 1, uid: 0, status: [111], state: [1, 2])
    ]
    changes.events = StoreBatch.Events(lastSequence: 9, count: 1, payload: Array("{}".utf8))
    try store.commit(changes, at: reading(0))
    let read = store.database
    #expect(
      try read.texts("SELECT key || ' ' || state || ' ' || deadline || ' ' || meta FROM countdown")
        == ["+45 counting 2026-09-21T14:13:21.500Z hi"])
    #expect(
      try read.texts("SELECT key || ' ' || clock || ' ' || late || ' ' || deadline FROM timer")
        == ["t wall fire 2026-09-21T14:13:20.000Z"])
    #expect(try read.texts("SELECT screen || status || state_bytes FROM hud") == ["ho2"])
    #expect(try read.texts("SELECT last_seq || events FROM event") == ["9{}"])
  }

  @Test func numbersRiseOverRestarts() throws {
    let directory = TemporaryDirectory()
    let first = try open(directory).firstNumber
    #expect(first >= wallStart)
    // Even if the wall clock is set back meanwhile.
    let second = try open(directory, at: reading(2_000_000, wall: 0)).firstNumber
    #expect(second > first + (1 << 32))
    #expect(try open(directory, at: reading(3_000_000, wall: 1 << 52)).firstNumber == 1 << 52)
  }
}
