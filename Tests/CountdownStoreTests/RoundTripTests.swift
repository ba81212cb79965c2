import Countdowns
import Testing

@testable import CountdownStore

@Suite struct RoundTripTests {
  private let everyByte = Array(UInt8.min...UInt8.max)

  /// The last instant that can be stored: by the store's clock, which is ahead by this.
  private let last = Instant(microseconds: Instant.possible.upperBound - wallStart)
  private let first = Instant(microseconds: Instant.possible.lowerBound - wallStart)

  @Test func countdownsComeBackAsTheyWere() throws {
    let directory = TemporaryDirectory()
    let longest = Countdown.Plan(
      count: UInt32(Int32.max), every: .milliseconds(146), firesAtOnce: true)!
    let policy = try SendPolicy(name: "otp", SendPolicy.Rules())
    var extreme = countdown(
      StoredPlaces.end - 1, everyByte + everyByte, Generation(.max),
      Countdown(longest, .ready(since: first), sends: .max, isRefunded: true), uid: .max
    ) {
      ($0.title, $0.readyTitle, $0.annotations.meta) = (
        [], everyByte, [UInt8](repeating: 0, count: 4096)
      )
      $0.tokens = [SentToken([1], Generation(.min)), SentToken([0], Generation(.max))]
      let send = SendRecord.Send(generation: Generation(.max), at: first, expires: last)
      $0.sending = DurableSending(
        policy: policy, record: SendRecord(sends: [send]), isInForce: true)
    }
    let plain = countdown(0, "a")
    let shortest = Countdown.Plan(count: 1, every: .milliseconds(1))!
    let paused = countdown(
      1, [0], Generation(0),
      Countdown(shortest, .paused(left: .zero), sends: 0, isRefunded: false), uid: 0)
    let late = countdown(
      2, [1], Generation(.min),
      Countdown(shortest, .idle(since: last), sends: 1, isRefunded: false), uid: 0)
    try open(directory).write(batch([extreme, plain, paused, late]))
    #expect(try open(directory).allCountdowns() == [plain, paused, late, extreme])

    // NULL after a value, in the same statement and over a restart.
    (extreme.record.title, extreme.record.readyTitle, extreme.record.annotations.meta) = (
      nil, nil, nil
    )
    (extreme.record.tokens, extreme.record.sending) = ([], nil)
    let store = try open(directory)
    try store.write(batch([extreme]))
    #expect(try store.allCountdowns() == [plain, paused, late, extreme])
  }

  /// Rows are written several at a time, and those that are left one by one.
  @Test(arguments: [15, 16, 17, 33, 40])
  func batchesOfAnySizeComeBackAsTheyWere(rows: Int) throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    // What a row has, the one that is written in its place has not.
    for turn in 0..<4 {
      let records = (0..<rows).map { row in
        var record = countdown(UInt32(row), "key-\(row)", until: Int64(turn * 1_000 + row))
        if (row + turn) % 2 == 0 { record.record.annotations.meta = [UInt8(row), UInt8(turn)] }
        if (row + turn) % 3 == 0 {
          record.record.machine = Countdown(
            record.record.machine.plan, .paused(left: Interval(microseconds: Int64(row))), sends: 1,
            isRefunded: false)
        }
        if (row + turn) % 5 == 0 { record.record.title = Array("title \(row)".utf8) }
        return record
      }
      try store.write(batch(records.reversed()))
      #expect(try store.allCountdowns() == records)
    }
  }

  @Test(arguments: TimerClock.allCases, PlainTimer.Late.allCases)
  func timersComeBackAsTheyWere(clock: TimerClock, late: PlainTimer.Late) throws {
    let directory = TemporaryDirectory()
    var changes = TestBatch()
    func timer(
      _ index: UInt32, _ key: [UInt8], _ generation: Int64, uid: UInt32, _ phase: PlainTimer.Phase,
      every: Interval? = nil, count: Int64 = 0, payload: [UInt8]? = nil
    ) -> StoredRow<DurableTimer> {
      let machine = PlainTimer(phase, every: every, late: late, fired: count, missed: count)!
      return StoredRow(
        DurableTimer(
          key: key, machine: machine, generation: Generation(generation), uid: uid, clock: clock,
          payload: payload), at: index)
    }
    changes.timers = [
      timer(
        0, [1], 1, uid: 2, .running(until: last), every: .longest, count: 1 << 53,
        payload: everyByte),
      timer(
        StoredPlaces.end - 1, everyByte, .max, uid: .max, .paused(left: .longest), payload: []),
      timer(7, [2], 3, uid: 0, .running(until: Instant(microseconds: -1))),
    ]
    try open(directory).write(changes)
    let timers = try open(directory).all(DurableTimer.self)
    #expect(timers == changes.timers.sorted { $0.id < $1.id })
  }

  @Test func hudsComeBackAsTheyWere() throws {
    let directory = TemporaryDirectory()
    var changes = TestBatch()
    var plain = Presentation.blank
    plain.phase = .visible
    plain.generation = Generation(1)
    var full = Presentation.blank
    full.phase = .waiting
    full.generation = Generation(.max)
    full.requestedAt = last
    full.appearedAt = first
    full.visibleSince = last
    full.shows = (1...Int64(Presentation.mostHolds)).map { number in
      var show = Presentation.Show.blank
      show.generation = Generation(number)
      show.request.status = everyByte
      show.request.path = everyByte
      show.since = last
      return show
    }
    let shown = [plain, full]
    changes.huds = [
      StoredRow(
        DurableHUD(key: [1], uid: 1, presentations: [DurableHUD.Shown(.normal, shown[0])]), at: 0),
      StoredRow(
        DurableHUD(
          key: everyByte, uid: .max,
          presentations: [
            DurableHUD.Shown(.normal, shown[0]), DurableHUD.Shown(.alert, shown[1]),
          ]), at: StoredPlaces.end - 1),
    ]
    try open(directory).write(changes)
    let store = try open(directory)
    #expect(try store.all(DurableHUD.self) == changes.huds)
    #expect(
      try store.database.texts(
        "SELECT generation || ' ' || deadline_store_us || ' ' || hex(status) FROM huds WHERE id > 0"
      )
        == ["\(Int64.max) \(Instant.possible.upperBound) " + hex(everyByte)])
  }

  private func hex(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined().uppercased()
  }

  @Test func anIndexIsUsedAgain() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    try store.write(batch([countdown(0, "a"), countdown(1, "b")]))
    try store.write(batch([countdown(0, "c")], gone: [1]))
    #expect(try store.keys() == ["c"])
    // What never was there is gone as well.
    try store.write(batch(gone: [1, 2]))
    #expect(try store.counts() == (1, 0, 0))
  }

  @Test func viewsReadAsText() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, at: reading(0))
    var changes = batch([countdown(0, "+45", until: wallStart + 1_500_000, meta: [104, 105])])
    changes.timers = [
      StoredRow(
        DurableTimer(
          key: Array("t".utf8),
          machine: PlainTimer(
            .running(until: Instant(microseconds: wallStart)), every: nil, late: .fire, fired: 0,
            missed: 0)!, generation: Generation(1), uid: 0, clock: .wall, payload: nil), at: 0)
    ]
    var shown = Presentation.blank
    shown.shows[0].request.status = [111]
    let hud = DurableHUD(
      key: Array("h".utf8), uid: 0, presentations: [DurableHUD.Shown(.normal, shown)])
    let length = StoredPresentations(all: hud.presentations).bytes(offset: 0).count
    changes.huds = [StoredRow(hud, at: 0)]
    changes.events = events(9, 1, "{}").events
    try store.write(changes)
    let read = store.database
    try Views.create(in: read)
    #expect(
      try read.texts("SELECT key || ' ' || state || ' ' || deadline || ' ' || meta FROM countdown")
        == ["+45 counting 2026-09-21T14:13:21.500Z hi"])
    #expect(
      try read.texts("SELECT key || ' ' || clock || ' ' || late || ' ' || deadline FROM timer")
        == ["t wall fire 2026-09-21T14:13:20.000Z"])
    #expect(
      try read.texts("SELECT screen || status || state_bytes FROM hud") == ["ho\(length)"])
    #expect(try read.texts("SELECT last_seq || events FROM event") == ["9{}"])
  }

  @Test func numbersRiseOverRestarts() throws {
    let directory = TemporaryDirectory()
    let first = try started(directory)
    #expect(first >= wallStart)
    // Even if the wall clock is set back meanwhile.
    let second = try started(directory, at: reading(2_000_000, wall: 0))
    #expect(second > first + (1 << 32))
    #expect(try open(directory, at: reading(3_000_000, wall: 1 << 52)).firstNumber == 1 << 52)
  }
}
